"""A user who lacks one of the rights that an operation takes: it is refused before anything was changed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from qdeck import NotAllowed
from qdeck._engine import scripts
from qdeck.admin import Writer
from support.screens import HOOKS, bury

if TYPE_CHECKING:
    from collections.abc import Callable

    import redis

    from support.servers import Server

LIST = "shop:sub:actions"


def as_user(server: Server, raw: redis.Redis, denied: str | None) -> str:
    rules = ["reset", "on", ">pw", "~*", "&*", "+@all", *([f"-{denied}"] if denied else [])]
    raw.execute_command("ACL", "SETUSER", "op", *rules)
    raw.execute_command("CLIENT", "KILL", "USER", "op")
    return server.url.replace("redis://", "redis://op:pw@")


def writes_of(name: str) -> list[str]:
    """The commands of a script that the server counts as writes."""
    used = set(re.findall(r"redis\.p?call\('([A-Z]+)'", scripts.load(name).source.decode()))
    return sorted(used & {"HDEL", "HINCRBY", "HSET", "LPUSH", "PEXPIRE", "XADD", "ZADD", "ZREM"})


def refused(url: str, act: Callable[[Writer], object], queue: str, adapter: str) -> bool:
    with Writer(url, adapters=(adapter,)) as writer:
        try:
            result = act(writer)
        except NotAllowed:
            return True
    return bool(getattr(result, "error", ""))


@pytest.mark.parametrize(("adapter", "queue"), [("native", HOOKS), ("lists", LIST)])
def test_a_change_is_refused_whole_or_not_at_all(make_server: Callable[..., Server], adapter: str, queue: str) -> None:
    server = make_server("--enable-debug-command", "local")
    with server.client() as raw:
        verbs = ("retry", "discard") if adapter == "native" else ("discard",)
        bury(server.url, HOOKS, [{"class": "Refused", "message": "502"}] * 6)
        raw.rpush(LIST, *(f'{{"id": "n{at}"}}' for at in range(6)))
        with Writer(server.url, adapters=(adapter,)) as writer:
            plans = {verb: writer.plan(verb, queue) for verb in verbs}
        commands = writes_of("apply") if adapter == "native" else ["HSET", "LREM", "LSET", "PEXPIRE", "HDEL", "RPUSH"]
        seen = 0
        for verb, plan in plans.items():
            for denied in commands:
                before = keys_of(raw, queue)
                url = as_user(server, raw, denied.lower())
                if refused(url, lambda writer, plan=plan: writer.apply(plan), queue, adapter):  # type: ignore[misc]
                    seen += 1
                    assert keys_of(raw, queue) == before, (verb, denied)
                else:
                    with Writer(server.url, adapters=(adapter,)) as writer:
                        assert writer.undo().restored == 6
                        plan = writer.plan(verb, queue)
        assert seen >= (12 if adapter == "native" else 3)


def keys_of(raw: redis.Redis, queue: str) -> dict[bytes, bytes]:
    """All keys of a queue, to the byte."""
    return {key: raw.execute_command("DEBUG", "DIGEST-VALUE", key)[0] for key in sorted(raw.scan_iter(f"*{queue}*"))}


@pytest.mark.parametrize(("adapter", "queue"), [("native", HOOKS), ("lists", LIST)])
def test_an_undo_is_refused_whole_or_not_at_all(make_server: Callable[..., Server], adapter: str, queue: str) -> None:
    server = make_server("--enable-debug-command", "local")
    with server.client() as raw:
        bury(server.url, HOOKS, [{"class": "Refused", "message": "502"}] * 6)
        raw.rpush(LIST, *(f'{{"id": "n{at}"}}' for at in range(6)))
        entries = raw.lrange(LIST, 0, -1)
        with Writer(server.url, adapters=(adapter,)) as writer:
            done = writer.apply(writer.plan("discard", queue))
        assert done.applied == 6
        # Entries of a list go back one by one, each in a step of its own.
        commands = writes_of("undo") if adapter == "native" else ["HDEL"]
        seen = 0
        for denied in commands:
            before = keys_of(raw, queue)
            url = as_user(server, raw, denied.lower())
            if refused(url, lambda writer: writer.undo(done.batch), queue, adapter):
                seen += 1
                assert keys_of(raw, queue) == before, denied
            else:
                break
        assert seen >= 1
        with Writer(server.url, adapters=(adapter,)) as writer:
            assert writer.undo(done.batch).restored == 6
        assert raw.lrange(LIST, 0, -1) == entries
