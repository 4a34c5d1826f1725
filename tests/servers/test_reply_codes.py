"""What error replies mean: the same with every server here, also of those that servers give no code for."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest
import redis
from redis.exceptions import ResponseError

from qdeck._redis.errors import ReplyCode, code_of, explain, unknown_command
from support.brands import redis_binary
from support.waiting import wait_until

if TYPE_CHECKING:
    from support.servers import Server

Provoke = Callable[[redis.Redis, Callable[[], redis.Redis]], object]


def _busy(client: redis.Redis, other: Callable[[], redis.Redis]) -> object:
    client.config_set("lua-time-limit", 1)

    def loop() -> None:
        with contextlib.suppress(ResponseError):  # it is killed
            other().eval("while true do end", 0)

    looping = threading.Thread(target=loop)
    looping.start()
    try:
        while True:
            client.get("k")
    finally:
        client.script_kill()
        looping.join()


def _unblocked(client: redis.Redis, other: Callable[[], redis.Redis]) -> object:
    waiting = other()
    name = waiting.client_id()
    found: list[ResponseError] = []

    def wait() -> None:
        try:
            waiting.blpop(["k"], 30)
        except ResponseError as error:
            found.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    wait_until(lambda: bool(client.client_unblock(name, error=True)), why="a client that waits")
    thread.join()
    raise found[0]


PROVOKED: dict[ReplyCode, Provoke] = {
    ReplyCode.BUSY: _busy,
    ReplyCode.GROUP_EXISTS: lambda client, _: [client.xgroup_create("s", "g", mkstream=True) for _ in range(2)],
    ReplyCode.NO_GROUP: lambda client, _: client.xreadgroup("g", "c", {"none": ">"}),
    ReplyCode.UNBLOCKED: _unblocked,
    ReplyCode.NO_KEY: lambda client, _: client.xinfo_groups("none"),
    ReplyCode.NO_DATABASE: lambda client, _: client.execute_command("SELECT", 99_999),
    ReplyCode.NO_CLUSTER: lambda client, _: client.execute_command("CLUSTER", "SLOTS"),
    ReplyCode.NO_APPENDONLY: lambda client, _: client.execute_command("WAITAOF", 1, 0, 0),
}


@pytest.fixture(params=["embedded", "redis"])
def server(request: pytest.FixtureRequest, make_server: Callable[..., Server]) -> Server:
    if request.param == "embedded":
        return make_server()
    if redis_binary() is None:
        pytest.skip("no Redis server here: apt-get install redis-tools")
    return make_server(binary=redis_binary())


@pytest.fixture
def connect(server: Server) -> Iterator[Callable[[], redis.Redis]]:
    made: list[redis.Redis] = []

    def one() -> redis.Redis:
        made.append(redis.Redis.from_url(server.url, single_connection_client=True))
        return made[-1]

    yield one
    for client in made:
        client.close()


@pytest.mark.parametrize("code", ReplyCode)
def test_what_an_error_reply_means(code: ReplyCode, connect: Callable[[], redis.Redis]) -> None:
    client = connect()
    with pytest.raises(ResponseError) as caught:
        PROVOKED[code](client, connect)
    error = caught.value
    if unknown_command(error) == "WAITAOF":
        pytest.skip("this server does not know WAITAOF")
    assert code_of(error) is code
    assert code_of(explain(error)) is code, "nothing is lost in our error"
    assert not unknown_command(error)


def test_a_command_that_the_server_does_not_know(connect: Callable[[], redis.Redis]) -> None:
    with pytest.raises(ResponseError) as caught:
        connect().execute_command("Fly", "to the 'moon'")
    assert unknown_command(caught.value) == unknown_command(explain(caught.value)) == "FLY"
    assert code_of(caught.value) is None
    assert "moon" not in str(explain(caught.value)), "arguments may be anything"


def test_what_is_no_reply_means_nothing() -> None:
    assert code_of(ValueError("no such key")) is None
    assert code_of(ResponseError("ERR wrong number of arguments")) is None
