"""The changes of verbs in IFDB: a task's JSON and its score are rewritten, if both are as they were read."""

from __future__ import annotations

import json
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from qdeck._engine.stored_numbers import whole
from qdeck._model.reasons import Caution, CautionCode, SkipCode
from qdeck._model.words import Verb
from qdeck._redis.commands import text_of
from qdeck.adapters import cells
from qdeck.adapters.cells import Change
from qdeck.adapters.model import Entry, Seen, Skipped
from qdeck.adapters.times import iso, read_ms

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from qdeck.adapters.cells import Cell

Dependents: TypeAlias = "dict[str, dict[bytes, bytes]]"
"""The id of a task, and those that depend on it, with their records."""

QUEUE: Final = b"ifdb:task_queue"
DATA: Final = b"ifdb:task_data"
RETRIES: Final = 3  # RetryFailedJobs gives 2: three runs, where a worker counts down after it tests
_BAND: Final = 1_000_000
_MOST_GUARDS: Final = 20  # dependents that an undo compares
_EFFECTS: Final[Mapping[Verb, str]] = {
    Verb.RETRY: "pending again, queued now, for three more runs",
    Verb.RUN: "due now",
    Verb.REPRIORITISE: "moved to another place in the queue",
    Verb.BURY: "marked as failed, removed from the queue",
    Verb.COMPLETE: "marked as succeeded, removed from the queue",
    Verb.DISCARD: "removed",
}


def seen(raw_id: bytes, value: bytes | None, score: bytes | None) -> Seen:
    """A task as it was read: its score and its record."""
    return Seen(key=QUEUE, member=raw_id, score=score, value=value)


def read_task(value: bytes | None) -> dict[str, Any] | None:
    """Return a record; None if it cannot be read."""
    if value is None:
        return None
    try:
        # The reader of Python itself, as that project's: numbers and NaN come back the same.
        task = json.loads(value)
    except (ValueError, RecursionError):
        return None
    return task if isinstance(task, dict) else None


def score_of(task: dict[str, Any], now: int) -> bytes:
    """Return a task's score: priority, then the second in which it was enqueued."""
    at = read_ms(task.get("enqueue_time"))
    priority = whole(task.get("priority"))
    band = 100 if priority is None else priority
    return b"%d" % (band * _BAND + (now if at is None else at) // 1000)


def build(act: Verb, entry: Entry, now: int, priority: Any = None, *, needed: Dependents | None = None) -> Change:
    """Return the change of a verb for a task; `needed` are the tasks with dependents, which are not discarded."""
    kids = (needed or {}).get(entry.id, {})
    waiting = {} if act is not Verb.COMPLETE else {one: raw for one, raw in kids.items() if _is_pending(raw)}
    if act is Verb.DISCARD and kids:
        raise Skipped(SkipCode.OTHERS_WAIT)
    was = entry.seen
    task = read_task(was.value)
    value = score = None
    if act is not Verb.DISCARD:
        if task is None:
            raise Skipped.because(str(entry.problem))
        if act is Verb.RETRY and was.score is not None:
            # Between its two writes the worker would remove a task from the queue that was requeued.
            raise Skipped.because("its worker is about to remove it from the queue")
        fresh = _changed(act, task, now, priority)
        value = json.dumps(fresh).encode()
        if act in (Verb.RETRY, Verb.RUN, Verb.REPRIORITISE):
            keeps = act is Verb.RUN and was.score is not None
            score = was.score if keeps else score_of(fresh, now)
    return Change(
        id=entry.id,
        cells=(
            cells.field(DATA, was.member, was.value, value),
            cells.score(QUEUE, was.member, was.score, score),
            *_guards(waiting),
        ),
        effect=_EFFECTS[act] + _starting(waiting),
        caution=Caution(code=CautionCode.HAS_DEPENDENTS) if act is Verb.DISCARD else None,
    )


def _is_pending(raw: bytes) -> bool:
    task = read_task(raw)
    return task is not None and bool(task.get("pending"))


def _guards(waiting: Mapping[bytes, bytes]) -> Iterator[Cell]:
    """Yield what an undo compares: a task whose dependents have run is not to run after them."""
    for raw_id, value in islice(waiting.items(), _MOST_GUARDS):
        yield cells.field(DATA, raw_id, value).guards_undo


def _starting(waiting: Mapping[bytes, bytes]) -> str:
    if not waiting:
        return ""
    from qdeck.adapters.plans import PlanTotals  # only a plan needs it

    return f"; {PlanTotals(starting=[text_of(one) for one in waiting]).starting_words}"


def _changed(act: Verb, task: dict[str, Any], now: int, priority: Any) -> dict[str, Any]:
    told = {Verb.BURY: "Marked as failed", Verb.COMPLETE: "Marked as succeeded"}.get(act)
    fresh = dict(task)
    if act is Verb.RETRY:
        fresh |= {"enqueue_time": iso(now), "fail": False, "pending": True, "retries_left": RETRIES}
    elif act is Verb.RUN:
        fresh["scheduled_time"] = iso(now)  # without one, it would be due since it was enqueued
    elif act is Verb.REPRIORITISE:
        if not isinstance(priority, int):
            raise Skipped.because(f"{priority!r} is not a priority")
        fresh["priority"] = priority
    else:
        done = act is Verb.COMPLETE
        fresh |= {"pending": False, "success": done, "fail": not done, "finish_time": iso(now)}
        fresh["log"] = f"{task.get('log') or ''}{told} by an operator at {fresh['finish_time']}\n"
    return fresh
