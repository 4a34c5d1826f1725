"""Batches and undos whose process ended before they did: listed in the log, and closed by the next writer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qdeck._errors import QdeckError
from qdeck._operations import activity, batches
from qdeck._redis import reads
from qdeck._server import queue_settings
from qdeck.adapters.undoing import KeptUndo

if TYPE_CHECKING:
    from collections.abc import Mapping

    from qdeck._operations.batches import Batch
    from qdeck._operations.model import Activity
    from qdeck._redis.commands import Program
    from qdeck.adapters.all import Adapters


def kept_of(adapters: Adapters, batch: Batch) -> Program[KeptUndo]:
    """Return what is stored of a batch, in all adapters; what cannot be read counts as nothing."""
    total = KeptUndo(0, 0, 0, 0)
    for name in batch.all_adapters:
        try:
            undoer = adapters.instance(name).undoer(batch.id, batch.queues_of(name), batch.target)
            found = yield from undoer.kept()
        except QdeckError:
            continue
        total = KeptUndo(*(one + other for one, other in zip(total, found, strict=True)))
    return total


def close_all(adapters: Adapters) -> Program[list[Batch]]:
    """Close and log what was interrupted; return the batches that were closed now."""
    known = yield from batches.read()
    return (yield from close(adapters, known, (yield from reads.clock())))


def own(adapters: Adapters) -> Program[tuple[list[Batch], int | None]]:
    """Return this user's batches that were interrupted and not closed yet, with what they did; and after how many ms
    another one, which goes on, may be.
    """
    known = yield from batches.read()
    me = queue_settings.actor()
    mine = [one for one in known.values() if one.applied is None and one.is_of(me) and not one.automatic]
    if not mine:
        return [], None
    now = yield from reads.clock()
    found = [one for one in mine if one.is_interrupted(now)]
    for one in found:
        yield from count(adapters, one)
    left = [one.open_until_ms - now for one in mine if not one.is_interrupted(now)]
    return found, min(left, default=None)


def close(adapters: Adapters, known: Mapping[str, Batch], now: int) -> Program[list[Batch]]:
    """Close and log what was interrupted; return the batches that an operator may undo or continue.

    One that goes on after all, because its server or its process only stood still, opens itself again.
    """
    closed = []
    for batch in known.values():
        if batch.applied is None and batch.is_interrupted(now):
            yield from count(adapters, batch)
            yield from _deliver(adapters, batch)
            batch.interrupted, batch.applied = True, batch.done
            yield from batches.write(batch)
            yield from activity.record(entry_of(batch, now))
            closed.append(batch)
        if batch.is_undo_interrupted(now):
            yield from activity.record((yield from undo_entry(adapters, batch)))
            batch.undo = None
            yield from batches.write(batch)
    return closed


def _deliver(adapters: Adapters, batch: Batch) -> Program[None]:
    """Deliver the effects on other queues that its process did not come to: they are a part of what was applied."""
    for name in batch.all_adapters:
        try:
            yield from adapters.instance(name).undoer(batch.id, batch.queues_of(name), batch.target).finish()
        except QdeckError:
            continue


def count(adapters: Adapters, batch: Batch) -> Program[None]:
    """Count what an open batch did so far: its process writes that down only now and then."""
    kept = yield from kept_of(adapters, batch)
    batch.done, batch.bytes = max(batch.done, kept.applied), max(batch.bytes, kept.bytes)
    batch.undoable = kept.undoable


def entry_of(batch: Batch, now: int) -> Activity:
    """Return the entry of a batch that was not closed by its own process."""
    outcome = "interrupted" if batch.is_interrupted(now) else "running"
    return batch.entry({"applied": batch.done}, undoable=batch.undoable, outcome=outcome)


def undo_entry(adapters: Adapters, batch: Batch, outcome: str = "interrupted") -> Program[Activity]:
    """Return the entry of an undo that was not closed by its own process, which counts only now and then."""
    undo = batch.undo
    assert undo is not None  # noqa: S101 - the caller asked
    if outcome == "interrupted":
        undo.restored = max(undo.restored, (yield from kept_of(adapters, batch)).restored)
    return activity.make(
        "undo", undo.at_ms, by=undo.by, queues=batch.labels, filter=batch.filter, detail=batch.detail,
        rules=batch.rules, counts={"restored": undo.restored}, batch=batch.id, reason=batch.verb, outcome=outcome,
    )  # fmt: skip


def with_open(
    adapters: Adapters, log: Program[list[Activity]], since_ms: int | None = None, *, newest_first: bool = False
) -> Program[list[Activity]]:
    """Return the log of operations since a moment with the batches and undos that are not closed."""
    entries = yield from log
    known = yield from batches.read()
    if not any(_is_open(batch) for batch in known.values()):
        return entries
    now = yield from reads.clock()
    for batch in known.values():
        if batch.applied is None:
            if batch.is_interrupted(now):
                yield from count(adapters, batch)
            entries.append(entry_of(batch, now))
        if batch.undo is not None and not batch.undo.ended:
            outcome = "interrupted" if batch.is_undo_interrupted(now) else "running"
            entries.append((yield from undo_entry(adapters, batch, outcome)))
    entries = [entry for entry in entries if since_ms is None or entry.at_ms >= since_ms]
    return sorted(entries, key=lambda entry: entry.at_ms, reverse=newest_first)


def _is_open(batch: Batch) -> bool:
    return batch.applied is None or (batch.undo is not None and not batch.undo.ended)
