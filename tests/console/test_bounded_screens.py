"""What the console reads is bounded: by the rule for its commands, and by the slow log of a server with many jobs."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

import pytest

from core._operations.yard import Yard
from support.bounds import read_commands, read_screens, unbounded
from support.breaking import HEALTHY, fill
from support.listening import listening

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import redis

    from support.servers import Server

READY, DEAD = 900_000, 100_000
SLOW_US: Final = 10_000
WALKS: Final = 5


@pytest.mark.slow
@pytest.mark.timeout(240)
async def test_no_screen_sends_an_unbounded_command(url: str, raw: redis.Redis) -> None:
    ids = fill(url, raw)
    with listening(url) as heard:
        await read_screens(url, ids[HEALTHY])
    assert len(heard) > 500
    assert unbounded(heard) == []


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_million_jobs_make_no_command_slow(make_server: Callable[..., Server]) -> None:
    """A command is slow when it is slow in each of several walks: a busy machine delays any command now and then."""
    server = make_server()
    with server.client(timeout_s=60) as raw:
        ids = fill(server.url, raw)
        yard = Yard(server.url, raw, HEALTHY)
        yard.bulk_ready(READY)
        yard.bulk_dead(DEAD, trace=20)
        yard.client.close()
        found = slow(server.url, raw, ids)
        for _ in range(WALKS - 1):
            if not found:
                break
            again = slow(server.url, raw, ids)
            found = {command: min(took, again[command]) for command, took in found.items() if command in again}
        assert found == {}


def slow(url: str, raw: Any, ids: Mapping[str, str]) -> dict[bytes, Any]:
    """The commands that took the server over 10 ms while all was read: command and key, the longest time in µs."""
    raw.config_set("slowlog-max-len", 100_000)
    raw.config_set("slowlog-log-slower-than", SLOW_US)
    raw.slowlog_reset()
    read_commands(url, ids)
    asyncio.run(read_screens(url, ids[HEALTHY]))
    found: dict[bytes, Any] = {}
    for entry in raw.slowlog_get(100_000):
        command = b" ".join(entry["command"].split(b" ")[:2])
        found[command] = max(entry["duration"], found.get(command, 0))
    return found
