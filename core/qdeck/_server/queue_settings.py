"""Settings of a queue that an operator changes: pause and limits; and the operator's name."""

from __future__ import annotations

import os
import pwd
import re
import socket
from typing import TYPE_CHECKING, Final

import msgspec

from qdeck._engine import keys, programs, transitions
from qdeck._errors import InvalidOption, UsageError
from qdeck._formatting import duration
from qdeck._model.masking import mask_text
from qdeck._model.values import QueueSettings
from qdeck._redis import reads
from qdeck._server import native_queues, queue_details

if TYPE_CHECKING:
    from qdeck._model.values import Pause
    from qdeck._redis.commands import Program

MOST_REASON: Final = 500  # characters
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,31}")  # of an account


def account() -> str:
    """Return the account of this process: an environment variable would let anybody pass for somebody else."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return f"uid-{os.getuid()}"


def actor() -> str:
    """Return the operator's name, for the record; beside an account that several use, who claims to use it."""
    user, claimed = account(), os.environ.get("SUDO_USER", "")
    claim = f" (sudo {claimed})" if claimed != user and _NAME.fullmatch(claimed) else ""
    return f"{user}{claim}@{socket.gethostname()}"


def pause(
    cache: native_queues.RefreshCache, queue: str, reason: str, replaces: Pause | None = None
) -> Program[QueueSettings]:
    """Pause an existing queue, and store who did, when and why. A pause that concerns others is replaced only where it
    is `replaces`; without a reason it stays as it is.
    """
    need_short(reason)
    raw = yield from _read_raw(cache, queue)
    stands = queue_details.pause_of(raw)
    if stands is not None and reason in ("", stands.reason):
        return QueueSettings(queue=queue, paused=True, changed=False)
    now = yield from reads.clock()
    need_replaceable(queue, stands, replaces, now)
    stored = msgspec.json.encode({"at_ms": now, "who": actor(), "reason": mask_text(reason)}).decode()
    if (yield from _replace(queue, raw, stored)):
        return QueueSettings(queue=queue, paused=True, changed=True)
    return (yield from pause(cache, queue, reason, replaces))


def need_short(reason: str) -> None:
    """Raise for a reason that is too long."""
    if len(reason) > MOST_REASON:
        raise InvalidOption(f"a reason of {len(reason):,} characters", hint=f"Give at most {MOST_REASON}")


def need_replaceable(queue: str, stands: Pause | None, replaces: Pause | None, now: int) -> None:
    """Raise where another pause stands that concerns others, unless it is the one to replace."""
    if stands is not None and stands != replaces and stands.concerns_others(actor()):
        raise UsageError(f"{queue} is paused already {_words(stands, now)}", hint="Replace that reason if it is known.")


def need_same(queue: str, stands: Pause | None, shown: Pause | None, now: int) -> None:
    """Raise where another pause stands than the one that was shown."""
    if stands is not None and shown not in (None, stands):
        when = _words(stands, now)
        raise UsageError(f"{queue} was paused again {when}", hint="It is still paused. Resume it if that is over.")


def resume(cache: native_queues.RefreshCache, queue: str, shown: Pause | None = None) -> Program[QueueSettings]:
    """Resume an existing queue; with `shown`, only from that pause."""
    raw = yield from _read_raw(cache, queue)
    stands = queue_details.pause_of(raw)
    if stands != shown:
        need_same(queue, stands, shown, (yield from reads.clock()))
    if stands is None or (yield from _replace(queue, raw, "")):
        return QueueSettings(queue=queue, paused=False, changed=stands is not None)
    return (yield from resume(cache, queue, shown))


def _replace(queue: str, raw: bytes | None, stored: str) -> Program[bool]:
    """Set or lift a pause, in place of exactly the one that was read; return False where there is another now."""
    program = transitions.configure(queue, {"paused": stored}, expected=("paused", raw or b""))
    return (yield from programs.call(program))


def _words(pause: Pause, now_ms: int) -> str:
    return pause.words(duration(now_ms - (pause.at_ms or 0)))


def read_pause(cache: native_queues.RefreshCache, queue: str) -> Program[Pause | None]:
    """Return who paused an existing queue, when and why; None when it is not paused."""
    return queue_details.pause_of((yield from _read_raw(cache, queue)))


def _read_raw(cache: native_queues.RefreshCache, queue: str) -> Program[bytes | None]:
    yield from native_queues.need_queue(cache, queue)
    raw: bytes | None = yield (b"HGET", keys.key(queue, "meta"), "paused")
    return raw


def set_limits(
    cache: native_queues.RefreshCache, queue: str, *, running: int | None, rate: tuple[int, float] | None
) -> Program[None]:
    """Limit how many jobs run at once and how many start within some seconds; None removes a limit."""
    if running is not None and running < 1:
        raise InvalidOption(f"a limit of {running} running jobs", hint="Give 1 or more; to stop a queue, pause it.")
    if rate is not None and (rate[0] < 1 or rate[1] < 0.001):
        raise InvalidOption(f"a rate of {rate[0]} in {rate[1]:g}s", hint="Give at least 1 start in at least 1 ms.")
    yield from native_queues.need_queue(cache, queue)
    settings = {
        "limit": "" if running is None else str(running),
        "rate": "" if rate is None else f"{rate[0]} {round(rate[1] * 1000)}",
    }
    yield from programs.call(transitions.configure(queue, settings))
