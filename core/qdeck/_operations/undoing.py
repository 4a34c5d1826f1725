"""Undoing a batch: each adapter that it changed undoes its part, and the log of operations tells of it."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from qdeck._deck import queue_settings
from qdeck._errors import NotAllowed, QdeckError, UsageError
from qdeck._operations import activity, batches
from qdeck._operations.model import UndoResult
from qdeck._redis import reads

if TYPE_CHECKING:
    from collections.abc import Callable

    from qdeck._deck.reasons import Skip
    from qdeck._operations.batches import Batch
    from qdeck._redis.commands import Program
    from qdeck.adapters.all import Adapters


def find(batch: str | None) -> Program[Batch]:
    """The batch of that id, or this user's own last one that did something and is not undone.

    What a service of this user removed by itself is meant only where there is nothing else.
    """
    known = yield from batches.read()
    now = yield from reads.clock()
    if batch is not None:
        found = known.get(batch)
        if found is None or found.until_ms < now:
            raise UsageError(
                f"there is no batch {batch!r} that can be undone", hint="qdeck activity tells which can, and until when"
            )
        return found
    me = queue_settings.actor()
    mine = [
        kept
        for kept in known.values()
        if kept.by == me and not kept.undone and kept.until_ms >= now and kept.applied != 0
    ]
    if not mine:
        raise UsageError(f"{me} did nothing that can be undone", hint="name the batch: qdeck activity tells them")
    return max(mine, key=lambda kept: (not kept.automatic, kept.at_ms, kept.id))


def undo_steps(
    adapters: Adapters,
    batch: str | None = None,
    *,
    progress: Callable[[int], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> Program[UndoResult]:
    """Undo a batch, or this user's own last one."""
    found = yield from find(batch)
    undoers = [
        adapters.instance(name).undoer(found.id, found.queues_of(name), found.target) for name in found.all_adapters
    ]
    restored = 0
    skipped: list[Skip] = []
    error, is_whole = None, True
    try:
        for step in chain.from_iterable(undoer.steps() for undoer in undoers):
            if cancelled is not None and cancelled():
                is_whole = False
                break
            yield from step
            restored = sum(undoer.restored for undoer in undoers)
            if progress is not None:
                progress(restored)
    except QdeckError as caught:
        restored = sum(undoer.restored for undoer in undoers)
        if isinstance(caught, NotAllowed) and not restored:
            raise  # nothing was changed, as with a plan that is refused
        error, is_whole = str(caught), False
    for undoer in undoers:
        yield from undoer.finish()
        skipped += undoer.skipped
    result = UndoResult(
        batch=found.id, restored=restored, skipped=tuple(skipped), error=error, verb=found.verb,
        dependents=sum(undoer.dependents for undoer in undoers), requeued=sum(undoer.requeued for undoer in undoers),
    )  # fmt: skip
    yield from _record(found, result, "failed" if error else "done" if is_whole else "stopped")
    return result


def _record(batch: Batch, result: UndoResult, outcome: str) -> Program[None]:
    """Write down what was undone; a batch that was undone to its end cannot be undone again."""
    now = yield from reads.clock()
    if outcome == "done":
        batch.undone, batch.bytes = True, 0
        yield from batches.write(batch)
    counts = {"restored": result.restored, "skipped": len(result.skipped)}
    counts |= {"dependents": result.dependents} if result.dependents else {}
    entry = activity.make(
        "undo", now, queues=batch.labels, filter=batch.filter, detail=batch.detail, rules=batch.rules,
        counts=counts, batch=batch.id, reason=batch.verb, outcome=outcome,
    )  # fmt: skip
    yield from activity.record(entry)
