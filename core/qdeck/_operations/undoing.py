"""Taking a batch back, slice by slice from the last to the first; a slice sent again is taken back once."""

from __future__ import annotations

import contextlib
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from qdeck._deck import changes
from qdeck._deck.reasons import Skip, SkipCode, skips_of
from qdeck._engine import acts, codec, keys, programs
from qdeck._errors import NotAllowed, QdeckError, UsageError
from qdeck._operations import activity, batches
from qdeck._operations.model import UndoResult, Verb
from qdeck._redis import reads
from qdeck.adapters import changes as applied

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from qdeck._operations.batches import Batch
    from qdeck._redis.commands import Program

    UndoSteps = Callable[
        [Batch, Callable[[int], None] | None, Callable[[], bool] | None], Program[tuple[int, list[Skip], bool]]
    ]
    """Undoes a batch: how much was restored, what was not, and whether all was looked at."""

_ROUNDS: Final = 20  # back and forth between queues


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
    me = changes.actor()
    mine = [
        kept
        for kept in known.values()
        if kept.by == me and not kept.undone and kept.until_ms >= now and kept.applied != 0
    ]
    if not mine:
        raise UsageError(f"{me} did nothing that can be undone", hint="name the batch: qdeck activity tells them")
    return max(mine, key=lambda kept: (not kept.automatic, kept.at_ms, kept.id))


def undo_steps(
    batch: str | None = None,
    *,
    kinds: Mapping[str, UndoSteps] = MappingProxyType({}),
    progress: Callable[[int], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> Program[UndoResult]:
    """Takes a batch back, or this user's own last one. `kinds` has who undoes batches that are of no jobs, by verb."""
    kept = yield from find(batch)
    run = _Undoing(kept)
    try:
        yield from run.gather()
        for step in run.steps():
            if cancelled is not None and cancelled():
                run.whole = False
                break
            yield from step
            if progress is not None:
                progress(run.restored)
        if kept.verb in kinds:
            run.restored, run.skipped, run.whole = yield from kinds[kept.verb](kept, progress, cancelled)
    except QdeckError as caught:
        if isinstance(caught, NotAllowed) and not run.restored:
            raise  # nothing was changed, as with a plan that is refused
        run.error, run.whole = str(caught), False
    yield from run.finish()
    return UndoResult(
        batch=kept.id, restored=run.restored, skipped=tuple(run.skipped), dependents=run.dependents, error=run.error,
        verb=kept.verb,
    )  # fmt: skip


class _Reached(NamedTuple):
    """What a batch left in a queue: slices of its own, of dependents that died and of those that went on."""

    slices: int
    fallen: int
    gone_on: int
    lost: int
    told: list[str]


_Place = tuple[str, int | str]  # a queue, and a slice of it as `acts.undo` names it


class _Undoing:
    """One run over what a batch did, to its jobs and through them to others, in whatever queue."""

    def __init__(self, kept: Batch) -> None:
        self.kept = kept
        self.restored = self.dependents = 0
        self.skipped: list[Skip] = []
        self.error: str | None = None
        self.whole = True
        self._reached: dict[str, _Reached] = {}
        self._fates: dict[_Place, acts.Undone] = {}

    def gather(self) -> Program[None]:
        """Lets what is under way arrive, and finds every queue that the batch reached."""
        for _ in range(_ROUNDS):
            before = self._reached
            self._reached = {}
            todo = self.kept.native_queues
            for queue in todo:  # which grows
                yield from _deliver(queue)
                found = yield from _read_reached(queue, self.kept.id)
                self._reached[queue] = found
                todo += [name for name in found.told if name not in todo]
            if self._reached == before:
                break
        for queue, found in self._reached.items():
            if found.lost:
                self.skipped.append(Skip(code=SkipCode.DEPENDENTS_NOT_KEPT, queue=queue, data=str(found.lost)))

    def steps(self) -> Iterator[Program[None]]:
        """The slices of the batch from the last to the first; then those that waited for its jobs, nearest first.

        Again and again those with jobs whose parents, maybe of another queue, were not back yet.
        """
        todo: list[_Place] = []
        for queue in reversed(self.kept.native_queues):
            todo += [(queue, number) for number in range(self._reached[queue].slices, 0, -1)]
        for queue, found in self._reached.items():
            todo += [(queue, f"~{number}") for number in range(1, found.fallen + 1)]
        for queue, found in reversed(self._reached.items()):
            todo += [(queue, f"^{number}") for number in range(found.gone_on, 0, -1)]
        for _ in range(_ROUNDS):
            before = self.restored + self.dependents
            for place in todo:
                yield self._slice(place)
            todo = [place for place in todo if self._waits_for_parents(place)]
            if self.restored + self.dependents == before:
                break
        for adapter in self.kept.adapters:
            yield self._abroad(adapter)

    def _waits_for_parents(self, place: _Place) -> bool:
        return any(code == SkipCode.PARENT_ENDED for _, code, _ in self._fates[place].skipped)

    def _slice(self, place: _Place) -> Program[None]:
        queue, number = place
        before = self._fates.get(place)
        if isinstance(number, int):
            self._fates[place] = undone = yield from _undo_slice(self.kept, queue, number)
            self.restored += undone.restored - (before.restored if before else 0)
        else:
            self._fates[place] = undone = yield from programs.call(acts.undo(queue, self.kept.id, number))
            self.dependents += undone.restored - (before.restored if before else 0)

    def _abroad(self, adapter: str) -> Program[None]:
        outcomes = yield from applied.undo(adapter, self.kept.id)
        self.restored += sum(outcome.done for outcome in outcomes)
        missed = [(outcome.id, outcome.code, outcome.data) for outcome in outcomes if outcome.code is not None]
        self.skipped += skips_of("", missed, adapter)

    def finish(self) -> Program[None]:
        """Tells other queues what they have to know, and writes down what was done."""
        for (queue, _), undone in self._fates.items():
            self.skipped += skips_of(queue, undone.skipped)
        for queue in self._reached or self.kept.native_queues:
            yield from _deliver(queue)
        yield from _finish(self)


def _deliver(queue: str) -> Program[None]:
    """Empties an outbox; what another queue refuses stays there, and stops nothing."""
    with contextlib.suppress(QdeckError):
        while (yield from programs.deliver(queue)):
            pass


def _read_reached(queue: str, batch: str) -> Program[_Reached]:
    names = (b"slices", b"~", b"^", b"lost", b"told")
    [values] = yield reads.read((b"HMGET", keys.undo_key(queue, batch), *names))
    slices, fallen, gone_on, lost, told = reads.good(values, queue)
    return _Reached(
        int(slices or 0), int(fallen or 0), int(gone_on or 0), int(lost or 0), (told or b"").decode().split()
    )


def _undo_slice(kept: Batch, queue: str, number: int) -> Program[acts.Undone]:
    if kept.verb == Verb.MOVE and kept.target is not None:
        return (yield from _move_back(kept, queue, kept.native_queues.index(queue), number))
    return (yield from programs.call(acts.undo(queue, kept.id, number)))


def _move_back(kept: Batch, queue: str, place: int, number: int) -> Program[acts.Undone]:
    """What was moved is moved back, if it still waits where it was put."""
    assert kept.target is not None  # noqa: S101 - the caller looked
    [slice_] = yield from batches.read_slices(queue, kept.id, [number])
    if slice_ is None:
        raise UsageError(
            f"what the batch {kept.id} took from {queue} is not kept any more", hint="it is kept for a day"
        )
    columns = slice_.get("c") or {}
    ids, scores = columns.get("ids") or [], columns.get("scores") or []
    versions = columns.get("versions") or [""] * len(ids)
    entries = [(i, f"{score} {version}".rstrip()) for i, score, version in zip(ids, scores, versions, strict=True)]
    if not entries:
        return acts.Undone(0, 0, int(slice_.get("n", 0)), [])
    event = codec.encode_json({"reason": "undo of a move", "by": changes.actor(), "batch": kept.id})
    while (yield from programs.deliver(queue)):
        pass
    done, skipped = 0, []
    while done < len(entries):  # one call takes as many as it may read
        op = acts.act(
            kept.target, "move", slice_["s"], entries[done:], batch=f"{kept.id}-undo-{place}",
            offset=f"{number}+{done}" if done else number, event=event, extra=queue,
        )  # fmt: skip
        acted = yield from programs.call(op)
        skipped += [(str(entries[done + at][0]), code, data) for at, code, data in acted.skipped]
        done += acted.count
    while (yield from programs.deliver(kept.target)):
        pass
    return acts.Undone(acted.now_ms, len(entries) - len(skipped), len(entries), skipped)


def _finish(run: _Undoing) -> Program[None]:
    kept = run.kept
    now = yield from reads.clock()
    if run.whole:
        kept.undone = True
        kept.bytes = 0
        yield from batches.write(kept)
    counts = {"restored": run.restored, "skipped": len(run.skipped)}
    entry = activity.make(
        "undo", now, queues=kept.labels, where=kept.where,
        counts=counts | ({"dependents": run.dependents} if run.dependents else {}),
        outcome="failed" if run.error else "done" if run.whole else "stopped", batch=kept.id, reason=kept.verb,
    )  # fmt: skip
    yield from activity.record(entry)
