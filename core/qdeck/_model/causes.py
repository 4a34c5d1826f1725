"""Why a queue has a problem, in the words of its evidence: an error, a job, a worker; and what can be done about it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from qdeck._formatting import counted, duration

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qdeck._model.reasons import Stuck
    from qdeck._model.values import WorkerRow

_STATUS: Final = re.compile(r"\b([45]\d\d)\b")
_HOST: Final = re.compile(r"https?://([^\s/'\"…]+)")
_SAID: Final = re.compile(r"[^\W\d_]{2,}")
_MOST_WORDS: Final = 60


def error_words(error: str, message: str) -> str:
    """Return an error in few words: its HTTP status and host if it has both, else its class and message."""
    status, host = _STATUS.search(message), _HOST.search(message)
    if status and host:
        return f"{status[1]} from {host[1]}"
    said = f"{error}: {message}" if _SAID.search(message) else error
    return said if len(said) <= _MOST_WORDS else f"{said[: _MOST_WORDS - 1].rstrip()}…"


def dead_words(count: int, error: str, message: str, *, of: int | None) -> str:
    """Return what most dead letters of a queue died of; `of` is how many were read if not all were."""
    part = "" if of is None else f" (of {of:,} read)"
    return f"{count:,} × {error_words(error, message)}{part}"


def stuck_words(name: str, why: Stuck, others: int) -> str:
    """Return why a job is stuck, and how many others are."""
    rest = f"; {counted(others, 'more job')} stuck" if others > 0 else ""
    said = why.text.removeprefix("its ").removeprefix("it ")
    return f"{name}: {said}{rest}".replace("; whether its worker is alive is unknown", "")


def worker_words(last: WorkerRow | None, tasks: Sequence[str]) -> str:
    """Return which tasks wait for a worker, and which was the last that served their queue."""
    one = len(tasks) == 1
    waits = f"{'task' if one else 'tasks'} {', '.join(tasks)} {'waits' if one else 'wait'}" if tasks else ""
    if last is None:
        return waits
    host = f" on {last.host}" if last.host else ""
    word = "stopped" if last.state == "stopped" else "was lost"
    ago = "" if last.heartbeat_s is None else f" {duration(1000 * last.heartbeat_s)} ago"
    return "; ".join(filter(None, (waits, f"the last worker, {last.id}{host}, {word}{ago}")))
