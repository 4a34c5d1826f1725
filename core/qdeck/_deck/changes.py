"""What an operator changes about a queue, and who that is. Jobs are changed by plans: see `_operations`."""

from __future__ import annotations

import getpass
import socket
from typing import TYPE_CHECKING

from qdeck._deck import native
from qdeck._deck.model import Settings
from qdeck._engine import keys, programs, transitions
from qdeck._errors import InvalidOption

if TYPE_CHECKING:
    from qdeck._redis.commands import Program


def actor() -> str:
    """Who is doing this, for the record."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError, ImportError):
        user = "unknown"
    return f"{user}@{socket.gethostname()}"


def set_paused(memory: native.Memory, queue: str, *, paused: bool) -> Program[Settings]:
    """Pauses or resumes a queue that is there."""
    yield from native.need_queue(memory, queue)
    before = yield (b"HGET", keys.key(queue, "meta"), "paused")
    yield from programs.call(transitions.configure(queue, {"paused": "1" if paused else ""}))
    return Settings(queue=queue, paused=paused, changed=(before is not None) != paused)


def set_limits(
    memory: native.Memory, queue: str, *, running: int | None, rate: tuple[int, float] | None
) -> Program[None]:
    """Limits how many jobs run at once and how many start in so many seconds; None takes a limit away."""
    if running is not None and running < 1:
        raise InvalidOption(f"a limit of {running} running jobs", hint="give 1 or more; to stop a queue, pause it")
    if rate is not None and (rate[0] < 1 or rate[1] < 0.001):
        raise InvalidOption(f"a rate of {rate[0]} in {rate[1]} s", hint="give at least 1 start in at least 1 ms")
    yield from native.need_queue(memory, queue)
    settings = {
        "limit": "" if running is None else str(running),
        "rate": "" if rate is None else f"{rate[0]} {round(rate[1] * 1000)}",
    }
    yield from programs.call(transitions.configure(queue, settings))
