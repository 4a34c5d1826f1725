"""What an operator changes about a queue, and who that is. Jobs are changed by plans: see `_operations`."""

from __future__ import annotations

import difflib
import getpass
import socket
from typing import TYPE_CHECKING, Final

from qdeck._deck import native
from qdeck._deck.model import Settings
from qdeck._engine import keys, ops, programs
from qdeck._errors import InvalidOption, UsageError

if TYPE_CHECKING:
    from qdeck._redis.commands import Program

SLICE: Final = 200  # jobs changed in one step


def actor() -> str:
    """Who is doing this, for the record."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError, ImportError):
        user = "unknown"
    return f"{user}@{socket.gethostname()}"


def need_queue(memory: native.Memory, queue: str) -> Program[None]:
    """Raises for a queue that is not there, naming those that were perhaps meant."""
    if (yield from native.exists(queue)):
        return
    known = yield from native.names(memory)
    near = difflib.get_close_matches(queue, known, 3, 0.5)
    hint = f"did you mean {' or '.join(map(repr, near))}?" if near else "qdeck status lists the queues"
    raise UsageError(f"there is no queue {queue!r}", hint=hint)


def set_paused(memory: native.Memory, queue: str, *, paused: bool) -> Program[Settings]:
    """Pauses or resumes a queue that is there."""
    yield from need_queue(memory, queue)
    before = yield (b"HGET", keys.key(queue, "meta"), "paused")
    yield from programs.call(ops.configure(queue, {"paused": "1" if paused else ""}))
    return Settings(queue=queue, paused=paused, changed=(before is not None) != paused)


def set_limits(
    memory: native.Memory, queue: str, *, running: int | None, rate: tuple[int, float] | None
) -> Program[None]:
    """Limits how many jobs run at once and how many start in so many seconds; None takes a limit away."""
    if running is not None and running < 1:
        raise InvalidOption(f"a limit of {running} running jobs", hint="give 1 or more; to stop a queue, pause it")
    if rate is not None and (rate[0] < 1 or rate[1] < 0.001):
        raise InvalidOption(f"a rate of {rate[0]} in {rate[1]} s", hint="give at least 1 start in at least 1 ms")
    yield from need_queue(memory, queue)
    settings = {
        "limit": "" if running is None else str(running),
        "rate": "" if rate is None else f"{rate[0]} {round(rate[1] * 1000)}",
    }
    yield from programs.call(ops.configure(queue, settings))
