"""Settings of a queue that an operator changes: pause and limits; and the operator's name."""

from __future__ import annotations

import getpass
import socket
from typing import TYPE_CHECKING

from qdeck._deck import native_queues
from qdeck._deck.model import QueueSettings
from qdeck._engine import keys, programs, transitions
from qdeck._errors import InvalidOption

if TYPE_CHECKING:
    from qdeck._redis.commands import Program


def actor() -> str:
    """Return the operator's name, for the record."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError, ImportError):
        user = "unknown"
    return f"{user}@{socket.gethostname()}"


def set_paused(cache: native_queues.RefreshCache, queue: str, *, paused: bool) -> Program[QueueSettings]:
    """Pause or resume an existing queue."""
    yield from native_queues.need_queue(cache, queue)
    before = yield (b"HGET", keys.key(queue, "meta"), "paused")
    yield from programs.call(transitions.configure(queue, {"paused": "1" if paused else ""}))
    return QueueSettings(queue=queue, paused=paused, changed=(before is not None) != paused)


def set_limits(
    cache: native_queues.RefreshCache, queue: str, *, running: int | None, rate: tuple[int, float] | None
) -> Program[None]:
    """Limit how many jobs run at once and how many start in so many seconds; None removes a limit."""
    if running is not None and running < 1:
        raise InvalidOption(f"a limit of {running} running jobs", hint="give 1 or more; to stop a queue, pause it")
    if rate is not None and (rate[0] < 1 or rate[1] < 0.001):
        raise InvalidOption(f"a rate of {rate[0]} in {rate[1]} s", hint="give at least 1 start in at least 1 ms")
    yield from native_queues.need_queue(cache, queue)
    settings = {
        "limit": "" if running is None else str(running),
        "rate": "" if rate is None else f"{rate[0]} {round(rate[1] * 1000)}",
    }
    yield from programs.call(transitions.configure(queue, settings))
