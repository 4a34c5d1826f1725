"""Taking a batch back, slice by slice from the last to the first; a slice sent again is taken back once."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from qdeck._deck import changes
from qdeck._deck.reasons import Skip, SkipCode, skips_of
from qdeck._engine import acts, codec, keys, programs
from qdeck._errors import NotAllowed, QdeckError, UsageError
from qdeck._operations import activity, batches
from qdeck._operations.model import UndoResult, Verb
from qdeck._redis import reads
from qdeck._redis.errors import LOST
from qdeck.adapters import changes as applied

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from qdeck._operations.batches import Batch
    from qdeck._redis.commands import Command, Program

    UndoSteps = Callable[
        [Batch, Callable[[int], None] | None, Callable[[], bool] | None], Program[tuple[int, list[Skip], bool]]
    ]
    """Undoes a batch: how much was restored, what was not, and whether all was looked at."""

_ROUNDS: Final = 20  # back and forth between queues
_CALLS: Final = 10  # slices in one round trip at most
_BYTES: Final = 16 * 1024  # kept of the slices of one round trip: about what is kept of one full slice


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
    found = yield from find(batch)
    run = _Undoing(found)
    try:
        yield from run.gather()
        for step in run.steps():
            if cancelled is not None and cancelled():
                run.whole = False
                break
            yield from step
            if progress is not None:
                progress(run.restored)
        if found.verb in kinds:
            run.restored, run.skipped, run.whole = yield from kinds[found.verb](found, progress, cancelled)
    except QdeckError as caught:
        if isinstance(caught, NotAllowed) and not run.restored:
            raise  # nothing was changed, as with a plan that is refused
        run.error, run.whole = str(caught), False
    yield from run.finish()
    return UndoResult(
        batch=found.id, restored=run.restored, skipped=tuple(run.skipped), dependents=run.dependents, error=run.error,
        verb=found.verb, requeued=run.requeued,
    )  # fmt: skip


class _Reached(NamedTuple):
    """What a batch left in a queue: slices of its own, of dependents that died and of those that went on."""

    slices: int
    fallen: int
    gone_on: int
    lost: int
    told: list[str]
    slice_bytes: int
    outbox: int

    def places(self, queue: str) -> Iterator[_UndoSlice]:
        """The slices of its own, the last one first."""
        for number in range(self.slices, 0, -1):
            yield _UndoSlice(queue, number, self.slice_bytes)


class _UndoSlice(NamedTuple):
    """A slice of a queue as `acts.undo` names it, and about how many bytes are kept of it."""

    queue: str
    number: int | str
    bytes: int


class _Undoing:
    """One run over what a batch did, to its jobs and through them to others, in whatever queue."""

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        self.restored = self.dependents = self.requeued = 0
        self.skipped: list[Skip] = []
        self.error: str | None = None
        self.whole = True
        self._reached: dict[str, _Reached] = {}
        self._undone: dict[_UndoSlice, acts.Undone] = {}

    def gather(self) -> Program[None]:
        """Deliver what is under way, and find every queue that the batch reached."""
        queues = self.batch.native_queues
        for _ in range(_ROUNDS):
            before, self._reached = self._reached, (yield from _read_reached(queues, self.batch.id))
            told = [name for found in self._reached.values() for name in found.told if name not in self._reached]
            waiting = [queue for queue, found in self._reached.items() if found.outbox]
            if self._reached == before or not (told or waiting):
                break
            queues += dict.fromkeys(told)
            for queue in waiting:
                yield from _deliver(queue)
        for queue, found in self._reached.items():
            if found.lost:
                self.skipped.append(Skip(code=SkipCode.DEPENDENTS_NOT_KEPT, queue=queue, data=str(found.lost)))

    def steps(self) -> Iterator[Program[None]]:
        """The slices of the batch from the last to the first; then those that waited for its jobs, nearest first.

        Again and again those with jobs whose parents, maybe of another queue, were not back yet.
        """
        todo: list[_UndoSlice] = []
        for queue in reversed(self.batch.native_queues):
            todo += self._reached[queue].places(queue)
        for queue, found in self._reached.items():
            todo += [_UndoSlice(queue, f"~{number}", found.slice_bytes) for number in range(1, found.fallen + 1)]
        for queue, found in reversed(self._reached.items()):
            todo += [_UndoSlice(queue, f"^{number}", found.slice_bytes) for number in range(found.gone_on, 0, -1)]
        for _ in range(_ROUNDS):
            before = self.restored + self.dependents
            for places in _bundles(todo, 1 if self.batch.verb == Verb.MOVE else _CALLS):
                yield self._undo(places)
            todo = [place for place in todo if self._waits_for_parents(place)]
            if self.restored + self.dependents == before:
                break
        for adapter in self.batch.adapters:
            yield self._undo_in(adapter)

    def _waits_for_parents(self, place: _UndoSlice) -> bool:
        return any(code == SkipCode.PARENT_ENDED for _, code, _ in self._undone[place].skipped)

    def _undo(self, places: Sequence[_UndoSlice]) -> Program[None]:
        """Undo some slices in one round trip; a slice answers with all that was done by it so far."""
        first = places[0]
        found: list[acts.Undone | QdeckError]
        if self.batch.verb == Verb.MOVE and self.batch.target is not None and isinstance(first.number, int):
            found = [(yield from _move_back(self.batch, self.batch.target, first.queue, first.number))]
        else:
            calls = [acts.undo(place.queue, self.batch.id, place.number) for place in places]
            found = yield from programs.call_each(calls)
        for place, undone in zip(places, found, strict=True):
            if isinstance(undone, QdeckError):
                continue
            before, self._undone[place] = self._undone.get(place), undone
            more = undone.restored - (before.restored if before else 0)
            self.requeued += undone.requeued - (before.requeued if before else 0)
            if isinstance(place.number, int):
                self.restored += more
            else:
                self.dependents += more
        refused = next((one for one in found if isinstance(one, QdeckError)), None)
        if refused is not None:
            raise refused

    def _undo_in(self, adapter: str) -> Program[None]:
        outcomes = yield from applied.undo(adapter, self.batch.id)
        self.restored += sum(outcome.done for outcome in outcomes)
        missed = [(outcome.id, outcome.code, outcome.data) for outcome in outcomes if outcome.code is not None]
        self.skipped += skips_of("", missed, adapter)

    def finish(self) -> Program[None]:
        """Tell other queues what they have to know, and write down what was done."""
        for place, undone in self._undone.items():
            self.skipped += skips_of(place.queue, undone.skipped)
        reached = yield from _read_reached(list(self._reached or self.batch.native_queues), self.batch.id)
        for queue, found in reached.items():
            if found.outbox:
                yield from _deliver(queue)
        batch, now = self.batch, (yield from reads.clock())
        if self.whole:
            batch.undone, batch.bytes = True, 0
            yield from batches.write(batch)
        counts = {"restored": self.restored, "skipped": len(self.skipped)}
        counts |= {"dependents": self.dependents} if self.dependents else {}
        entry = activity.make(
            "undo", now, queues=batch.labels, filter=batch.filter, detail=batch.detail, rules=batch.rules,
            counts=counts, batch=batch.id, reason=batch.verb,
            outcome="failed" if self.error else "done" if self.whole else "stopped",
        )  # fmt: skip
        yield from activity.record(entry)


def _bundles(places: Sequence[_UndoSlice], most: int) -> Iterator[list[_UndoSlice]]:
    """Yield slices that go to the server in one round trip, as many as are about one full slice."""
    some: list[_UndoSlice] = []
    for place in places:
        if some and (len(some) == most or sum(one.bytes for one in some) + place.bytes > _BYTES):
            yield some
            some = []
        some.append(place)
    if some:
        yield some


def _deliver(queue: str) -> Program[None]:
    """Empties an outbox; what another queue refuses stays there, and stops nothing."""
    try:
        yield from programs.deliver_all(queue)
    except LOST:
        raise
    except QdeckError:
        return


def _read_reached(queues: Sequence[str], batch: str) -> Program[dict[str, _Reached]]:
    names = (b"slices", b"~", b"^", b"lost", b"told", b"bytes")
    calls: list[Command] = []
    for queue in queues:
        calls.append((b"HMGET", keys.undo_key(queue, batch), *names))
        calls.append((b"XLEN", keys.key(queue, "outbox")))
    replies = yield from reads.fetch_all(calls)
    found = {}
    for queue, values, length in zip(queues, replies[::2], replies[1::2], strict=True):
        slices, fallen, gone_on, lost, told, size = values
        own, died, ran = int(slices or 0), int(fallen or 0), int(gone_on or 0)
        each = int(size or 0) // max(1, own + died + ran)
        others = (told or b"").decode().split()
        found[queue] = _Reached(own, died, ran, int(lost or 0), others, each, length)
    return found


def _move_back(batch: Batch, target: str, queue: str, number: int) -> Program[acts.Undone]:
    """What was moved returns, if it still waits where it was put and its id is free where it was."""
    [kept] = yield from batches.read_slices(queue, batch.id, [number])
    if kept is None:
        raise UsageError(
            f"what the batch {batch.id} took from {queue} is not kept any more", hint="it is kept for a day"
        )
    columns = kept.get("c") or {}
    ids, scores = columns.get("ids") or [], columns.get("scores") or []
    if not ids:
        return acts.Undone(0, 0, int(kept.get("n", 0)), 0, [])
    versions = columns.get("versions") or [""] * len(ids)
    there = yield from programs.exists(queue, ids)
    entries = [
        (job_id, acts.ID_TAKEN if is_there else f"{score} {version}".rstrip())
        for job_id, score, version, is_there in zip(ids, scores, versions, there, strict=True)
    ]
    event = codec.encode_json({"reason": "undo of a move", "by": changes.actor(), "batch": batch.id})
    yield from programs.deliver_all(queue)
    done, skipped = 0, []
    while done < len(entries):  # one call takes as many as it may read
        op = acts.act(
            target, "return", kept["s"], entries[done:], batch=f"{batch.id}-undo-{batch.native_queues.index(queue)}",
            offset=f"{number}+{done}" if done else number, event=event, extra=queue,
        )  # fmt: skip
        acted = yield from programs.call(op)
        skipped += [(str(entries[done + at][0]), code, data) for at, code, data in acted.skipped]
        done += acted.count
    yield from programs.deliver_all(target)
    return acts.Undone(acted.now_ms, len(entries) - len(skipped), len(entries), 0, skipped)
