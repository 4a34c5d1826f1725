"""Taking a batch back, slice by slice from the last to the first; a slice sent again is taken back once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from qdeck._deck import changes, reads
from qdeck._engine import acts, codec, keys, programs
from qdeck._errors import QdeckError, UsageError
from qdeck._layouts import steps
from qdeck._operations import activity, cleaned, registry
from qdeck._operations.driving import Step
from qdeck._operations.model import Skip, UndoResult, Verb

if TYPE_CHECKING:
    from collections.abc import Callable

    from qdeck._engine.ops import Program
    from qdeck._operations.driving import Steps
    from qdeck._operations.registry import Kept


def find(batch: str | None) -> Program[Kept]:
    """The batch of that id, or this user's own last one that is not undone."""
    known = yield from registry.read()
    now = yield from reads.clock()
    if batch is not None:
        found = known.get(batch)
        if found is None or found.until_ms < now:
            raise UsageError(
                f"there is no batch {batch!r} that can be undone", hint="qdeck activity tells which can, and until when"
            )
        return found
    me = changes.actor()
    mine = [kept for kept in known.values() if kept.by == me and not kept.undone and kept.until_ms >= now]
    if not mine:
        raise UsageError(f"{me} did nothing that can be undone", hint="name the batch: qdeck activity tells them")
    return max(mine, key=lambda kept: (kept.at_ms, kept.batch))


def undo_steps(
    batch: str | None = None,
    *,
    progress: Callable[[int], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> Steps[UndoResult]:
    """Takes a batch back, or this user's own last one."""
    kept = yield Step(find(batch), writes=False)
    restored, skipped, error = 0, list[Skip](), None
    whole = True
    for place, queue in reversed(list(enumerate(kept.queues))):
        try:
            count = yield Step(_slices(queue, kept.batch), writes=False)
            for number in range(count, 0, -1):
                if cancelled is not None and cancelled():
                    whole = False
                    break
                undone = yield Step(_undo_slice(kept, queue, place, number))
                restored += undone.restored
                skipped += [Skip(id=job_id, why=why, queue=queue) for job_id, why in undone.skipped]
                if progress is not None:
                    progress(restored)
        except QdeckError as caught:
            error, whole = str(caught), False
            break
    for layout in kept.layouts if whole else ():
        try:
            outcomes = yield Step(steps.undo(layout, kept.batch))
        except QdeckError as caught:
            error, whole = str(caught), False
            break
        restored += sum(outcome.done for outcome in outcomes)
        skipped += [Skip(id=outcome.id, why=outcome.why) for outcome in outcomes if not outcome.done]
        if progress is not None:
            progress(restored)
    if kept.verb == cleaned.VERB:
        try:
            restored, skipped, whole = yield from cleaned.put_back_steps(kept, progress, cancelled)
        except QdeckError as caught:
            error, whole = str(caught), False
    yield Step(_finish(kept, restored, len(skipped), whole=whole, error=error))
    return UndoResult(batch=kept.batch, restored=restored, skipped=tuple(skipped), error=error)


def _slices(queue: str, batch: str) -> Program[int]:
    [count] = yield reads.read((b"HGET", keys.undo_key(queue, batch), b"slices"))
    return int(reads.good(count, queue) or 0)


def _undo_slice(kept: Kept, queue: str, place: int, number: int) -> Program[acts.Undone]:
    if kept.verb == Verb.MOVE and kept.target is not None:
        return (yield from _move_back(kept, queue, place, number))
    return (yield from programs.call(acts.undo(queue, kept.batch, number)))


def _move_back(kept: Kept, queue: str, place: int, number: int) -> Program[acts.Undone]:
    """What was moved is moved back, if it still waits where it was put."""
    assert kept.target is not None  # noqa: S101 - the caller looked
    slice_ = yield from read_slice(queue, kept.batch, number)
    columns = slice_.get("c") or {}
    entries = list(zip(columns.get("ids") or [], columns.get("scores") or [], strict=True))
    if not entries:
        return acts.Undone(0, 0, int(slice_.get("n", 0)), [])
    event = codec.encode_json({"reason": "undo of a move", "by": changes.actor(), "batch": kept.batch})
    while (yield from programs.deliver(queue)):
        pass
    op = acts.act(
        kept.target, "move", slice_["s"], entries, batch=f"{kept.batch}-undo-{place}", offset=number, event=event,
        extra=queue,
    )  # fmt: skip
    acted = yield from programs.call(op)
    while (yield from programs.deliver(kept.target)):
        pass
    skipped = [(str(entries[at][0]), why) for at, why in acted.skipped]
    skipped += [(str(job_id), "was too much for one step") for job_id, _ in entries[acted.count :]]
    return acts.Undone(acted.now_ms, len(entries) - len(skipped), len(entries), skipped)


def read_slice(queue: str, batch: str, number: int) -> Program[dict[str, Any]]:
    """What is kept of one slice of a batch."""
    key = keys.undo_key(queue, batch)
    [offset] = yield reads.read((b"HGET", key, f"#{number}"))
    [packed] = yield reads.read((b"HGET", key, reads.good(offset, queue) or b"?"))
    if reads.good(packed, queue) is None:
        raise UsageError(f"what the batch {batch} took from {queue} is not kept any more", hint="it is kept for a day")
    found: dict[str, Any] = msgspec.msgpack.decode(packed)
    return found


def _finish(kept: Kept, restored: int, skipped: int, *, whole: bool, error: str | None) -> Program[None]:
    for queue in kept.queues:
        while (yield from programs.deliver(queue)):
            pass
    now = yield from reads.clock()
    if whole:
        kept.undone = True
        kept.bytes = 0
        yield from registry.write(kept)
    entry = activity.make(
        "undo", now, queues=kept.queues, where=kept.where, counts={"restored": restored, "skipped": skipped},
        outcome="failed" if error else "done" if whole else "stopped", batch=kept.batch, reason=kept.verb,
    )  # fmt: skip
    yield from activity.record(entry)
