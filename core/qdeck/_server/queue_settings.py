"""Settings of a queue that an operator changes: pause and limits; and the operator's name."""

from __future__ import annotations

import getpass
import socket
from typing import TYPE_CHECKING, Final

import msgspec

from qdeck._engine import keys, programs, transitions
from qdeck._errors import InvalidOption
from qdeck._model.masking import mask_text
from qdeck._model.values import QueueSettings
from qdeck._redis import reads
from qdeck._server import native_queues, queue_details

if TYPE_CHECKING:
    from qdeck._model.values import QueuePause
    from qdeck._redis.commands import Program

MOST_REASON: Final = 500  # characters


def actor() -> str:
    """Return the operator's name, for the record."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError, ImportError):
        user = "unknown"
    return f"{user}@{socket.gethostname()}"


def pause(cache: native_queues.RefreshCache, queue: str, reason: str) -> Program[QueueSettings]:
    """Pause an existing queue, and store who did, when and why; one that is paused gets the new reason, if any."""
    if len(reason) > MOST_REASON:
        raise InvalidOption(f"a reason of {len(reason):,} characters", hint=f"Give at most {MOST_REASON}")
    before = yield from read_pause(cache, queue)
    if before is not None and reason in ("", before.reason):
        return QueueSettings(queue=queue, paused=True, changed=False)
    stored = {"at_ms": (yield from reads.clock()), "who": actor(), "reason": mask_text(reason)}
    yield from programs.call(transitions.configure(queue, {"paused": msgspec.json.encode(stored).decode()}))
    return QueueSettings(queue=queue, paused=True, changed=True)


def resume(cache: native_queues.RefreshCache, queue: str) -> Program[QueueSettings]:
    """Resume an existing queue."""
    before = yield from read_pause(cache, queue)
    yield from programs.call(transitions.configure(queue, {"paused": ""}))
    return QueueSettings(queue=queue, paused=False, changed=before is not None)


def read_pause(cache: native_queues.RefreshCache, queue: str) -> Program[QueuePause | None]:
    """Return who paused an existing queue, when and why; None when it is not paused."""
    yield from native_queues.need_queue(cache, queue)
    return queue_details.pause_of((yield (b"HGET", keys.key(queue, "meta"), "paused")))


def set_limits(
    cache: native_queues.RefreshCache, queue: str, *, running: int | None, rate: tuple[int, float] | None
) -> Program[None]:
    """Limit how many jobs run at once and how many start within some seconds; None removes a limit."""
    if running is not None and running < 1:
        raise InvalidOption(f"a limit of {running} running jobs", hint="Give 1 or more; to stop a queue, pause it.")
    if rate is not None and (rate[0] < 1 or rate[1] < 0.001):
        raise InvalidOption(f"a rate of {rate[0]} in {rate[1]} s", hint="Give at least 1 start in at least 1 ms.")
    yield from native_queues.need_queue(cache, queue)
    settings = {
        "limit": "" if running is None else str(running),
        "rate": "" if rate is None else f"{rate[0]} {round(rate[1] * 1000)}",
    }
    yield from programs.call(transitions.configure(queue, settings))
