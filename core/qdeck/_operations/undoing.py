"""Undoing a batch: each adapter that it changed undoes its part, and the log of operations records it."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from qdeck._adapter_names import find_class
from qdeck._errors import NotAllowed, QdeckError, UsageError
from qdeck._operations import activity, batches, interrupted
from qdeck._operations.model import UndoResult
from qdeck._redis import reads
from qdeck._server import queue_settings

if TYPE_CHECKING:
    from collections.abc import Callable

    from qdeck._model.reasons import Skip
    from qdeck._operations.batches import Batch, OpenUndo
    from qdeck._redis.commands import Program
    from qdeck.adapters.all import Adapters
    from qdeck.adapters.undoing import Undoer


class NothingToUndo(UsageError):
    """This user's last `batch` changed nothing, or was undone; an older one is undone only by its id. `before` is the
    one before it that can be undone.
    """

    def __init__(self, batch: Batch, before: Batch | None) -> None:
        self.batch, self.before = batch, before
        undo = batch.undo if batch.undone else None
        what = "changed nothing" if undo is None else f"({batch.title}) was undone by {undo.by}"
        older = "" if before is None else f"qdeck undo {before.id} undoes the one before it, a {before.verb}. "
        super().__init__(f"your last batch {batch.id} {what}", hint=f"{older}qdeck activity lists the batches.")


def find(batch: str | None) -> Program[Batch]:
    """Return the batch of that id, or this user's own last one; raise where that cannot be undone.

    An automatic batch of this user is chosen only when there is no other.
    """
    known = yield from batches.read()
    now = yield from reads.clock()
    if batch is not None:
        found = known.get(batch)
        if found is None or found.until_ms < now:
            raise UsageError(
                f"no batch {batch!r} can be undone", hint="Run qdeck activity: it lists which can, and until when."
            )
    else:
        me = queue_settings.actor()
        mine = [one for one in known.values() if one.is_of(me) and one.until_ms >= now]
        if not mine:
            raise UsageError(f"no batch by {me} can be undone", hint="Name the batch: qdeck activity lists them.")
        found, *older = sorted(mine, key=lambda kept: (not kept.automatic, kept.last_ms, kept.id), reverse=True)
        if not found.has_effect:
            raise NothingToUndo(found, next((one for one in older if one.has_effect), None))
    return found


def find_counted(adapters: Adapters, batch: str | None) -> Program[Batch]:
    """Return the same batch with what it did, also where its process ended before it did; raise while it goes on."""
    found = yield from find(batch)
    if found.applied is None:
        yield from interrupted.count(adapters, found)
        if not found.undone and not found.is_interrupted((yield from reads.clock())):
            total = f" of {found.planned:,}" if found.planned else ""
            raise UsageError(
                f"batch {found.id} is still being applied by {found.by} ({found.done:,}{total} so far)",
                hint="Stop it there, or wait until it ends.",
            )
    return found


def undo_steps(
    adapters: Adapters,
    batch: str | None = None,
    *,
    progress: Callable[[int], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> Program[UndoResult]:
    """Undo a batch, or this user's own last one. Of one that was undone before, report that and write nothing."""
    found = yield from find_counted(adapters, batch)
    if found.undone:
        return UndoResult(batch=found.id, restored=0, skipped=(), verb=found.verb, earlier=found.undo)
    undoers = _undoers(adapters, found)
    if found.undo is not None:  # its process ended, or this one takes it over
        yield from activity.record((yield from interrupted.undo_entry(adapters, found)))
    open_undo = yield from batches.begin_undo(found)
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
            yield from open_undo.renew(restored)
            if progress is not None:
                progress(restored)
    except QdeckError as caught:
        restored = sum(undoer.restored for undoer in undoers)
        if isinstance(caught, NotAllowed) and not restored:
            yield from open_undo.forget()
            raise  # nothing was changed, as with a plan that is refused
        error, is_whole = str(caught), False
    for undoer in undoers:
        yield from undoer.finish()
        skipped += undoer.skipped
    result = UndoResult(
        batch=found.id, restored=restored, skipped=tuple(skipped), error=error, verb=found.verb,
        dependents=sum(undoer.dependents for undoer in undoers), requeued=sum(undoer.requeued for undoer in undoers),
        left=sum(undoer.left for undoer in undoers) if is_whole else 0,
    )  # fmt: skip
    outcome = "failed" if error else "stopped" if not is_whole else "incomplete" if result.left else "done"
    yield from _record(found, open_undo, result, outcome)
    return result


def _undoers(adapters: Adapters, batch: Batch) -> list[Undoer]:
    """Return the undo of a batch for each adapter that it changed; raise where one of them is not installed."""
    missing = [name for name in batch.all_adapters if find_class(name) is None]
    if missing:
        names = ", ".join(missing)
        raise UsageError(
            f"the batch {batch.id} changed queues of the adapter {names}, which is not installed here",
            hint=f"Install the package that has the adapter {names}, or undo it where it is installed.",
        )
    return [
        adapters.instance(name).undoer(batch.id, batch.queues_of(name), batch.target) for name in batch.all_adapters
    ]


def _record(batch: Batch, open_undo: OpenUndo, result: UndoResult, outcome: str) -> Program[None]:
    """Write down what was undone; a batch that was undone to its end cannot be undone again."""
    now = yield from reads.clock()
    counts = {"restored": result.restored, "skipped": len(result.skipped)}
    counts |= {"dependents": result.dependents} if result.dependents else {}
    entry = activity.make(
        "undo", now, queues=batch.labels, filter=batch.filter, detail=batch.detail, rules=batch.rules,
        counts=counts, batch=batch.id, reason=batch.verb, outcome=outcome,
    )  # fmt: skip
    if outcome == "done":
        yield from open_undo.close(result.restored, len(result.skipped), entry)
    else:
        batch.undoable = result.left or batch.undoable
        yield from activity.record(entry)
        yield from open_undo.forget()
