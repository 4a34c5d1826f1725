"""Commands, requests and programs: how they are packed, what only reads, and where errors are raised."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

import hiredis
import pytest

from qdeck import LayoutMismatch, NotAllowed, QdeckError, ServerUnreachable
from qdeck._redis import AsyncClient, Endpoint, SyncClient
from qdeck._redis.commands import Each, Offload, Request, Sleep, pack, raw_of, text_of, with_errors
from qdeck.admin import Reader

if TYPE_CHECKING:
    import redis

    from qdeck._redis.commands import Command, Program

IDS: Final = [f"{number:020x}".encode() for number in range(100)]
KEY: Final = "{shop:mail:actions}:ready"


def unpacked(data: bytes) -> list[list[bytes]]:
    """The commands that a server reads from these bytes."""
    reader, found = hiredis.Reader(), []
    reader.feed(data)
    while (words := reader.gets()) is not False:
        found.append(words)
    return found


@pytest.mark.parametrize(
    "command",
    [
        (b"PING",),
        (b"SET", "é", -7, 2.5),
        (b"HMGET", b"key", *IDS),
        (b"HMGET", b"key", *IDS, b"of another length"),
        (b"HMGET", b"key", *IDS, "text"),
        (b"EVALSHA", b"0" * 40, 1, b"key", *IDS),
        (b"GET", "in other bytes \udcff"),
        (b"HMGET", b"key", *IDS, "\udcff"),
    ],
)
def test_a_command_arrives_as_it_is(command: Command) -> None:
    assert unpacked(pack([command])) == [[raw_of(arg) for arg in command]]
    assert unpacked(pack([command, (b"PING",)])) == [[raw_of(arg) for arg in command], [b"PING"]]


@pytest.mark.parametrize("ids", [IDS, [b"", b"a", b"\r\n"], [b"one"]])
def test_one_command_for_each_id_is_packed_as_a_list_of_them(ids: list[bytes]) -> None:
    each = Each((b"HSTRLEN", b"key"), ids)
    assert list(each) == [(b"HSTRLEN", b"key", one) for one in ids]
    assert pack(each) == pack(list(each))
    assert list(each[:2]) == list(each)[:2]
    assert Request(each).reads
    assert not Request(Each((b"HDEL", b"key"), ids)).reads


def test_bytes_survive_the_way_to_text_and_back() -> None:
    assert raw_of(text_of(b"\xff\x00\xc3\xa9")) == b"\xff\x00\xc3\xa9"


@pytest.mark.parametrize(
    ("command", "reads"),
    [
        ((b"HGET", b"k", b"f"), True),
        ((b"CONFIG", b"GET", b"save"), True),
        ((b"CONFIG", b"SET", b"save", b""), False),
        ((b"SCRIPT", b"FLUSH"), False),
        ((b"OBJECT", b"IDLETIME", b"k"), True),
        ((b"EVALSHA", b"1" * 40, 1, b"k"), False),
        ((b"EVAL_RO", b"return 1", 1, b"k"), True),
        ((b"SET", b"k", b"v"), False),
        ((b"GETDEL", b"k"), False),
        ((b"SOMETHING.NEW", b"k"), False),
    ],
)
def test_what_only_reads_follows_from_the_name(command: Command, reads: bool) -> None:
    assert Request((command,)).reads is reads
    assert Request(((b"TIME",), command)).reads is reads


def test_a_reader_sends_no_command_that_is_not_known_to_read(url: str, raw: redis.Redis) -> None:
    def program() -> Program[None]:
        yield [(b"GET", b"k"), (b"SET", b"k", b"v")]

    with Reader(url) as reader, pytest.raises(NotAllowed):
        reader.run(program())
    assert not raw.exists("k")


def mixed() -> Program[list[Any]]:
    """One of each kind of thing that a program yields."""
    found: list[Any] = [(yield (b"SET", b"n", 1)), (yield [(b"INCR", b"n"), (b"GET", b"n")])]
    yield Sleep(0)
    found.append((yield Offload(lambda: "work")))
    try:
        yield [(b"INCR", b"n"), (b"ZCARD", KEY), (b"INCR", b"n")]
    except LayoutMismatch as error:
        found.append("shop:mail:actions" in str(error))
    try:
        yield (b"ZCARD", KEY)
    except QdeckError as error:
        found.append(type(error))
    number, wrong = yield with_errors((b"GET", b"n"), (b"ZCARD", KEY))
    return [*found, number, type(wrong)]


MIXED: Final = [b"OK", [2, b"2"], "work", True, LayoutMismatch, b"4", LayoutMismatch]


async def test_errors_are_raised_where_a_program_yields_unless_it_asks(url: str, raw: redis.Redis) -> None:
    raw.set(KEY, "no sorted set")
    client, aclient = SyncClient(Endpoint(url)), AsyncClient(Endpoint(url))
    assert client.run(mixed()) == MIXED
    assert await aclient.run(mixed()) == MIXED
    client.close()
    await aclient.close()


async def test_a_server_that_is_away_is_raised_there_too() -> None:
    def program() -> Program[str]:
        try:
            yield (b"PING",)
        except ServerUnreachable:
            return "away"
        return "there"

    endpoint = Endpoint("redis://127.0.0.1:1")
    assert SyncClient(endpoint, patience=0).run(program()) == "away"
    assert await AsyncClient(endpoint, patience=0).run(program()) == "away"


async def test_a_program_that_is_cancelled_takes_the_steps_that_end_it(url: str, raw: redis.Redis) -> None:
    begun = asyncio.Event()

    def program() -> Program[None]:
        try:
            begun.set()
            yield Sleep(600)
        finally:
            yield (b"SET", b"ended", 1)

    client = AsyncClient(Endpoint(url))
    task = asyncio.create_task(client.run(program()))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert raw.exists("ended")
    await client.close()
