"""Undo in native queues: the slices of a batch from last to first, then the dependents of its jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from qdeck._engine import batch_transitions, codec, keys, programs
from qdeck._engine.codec import Attempts
from qdeck._errors import QdeckError, UsageError
from qdeck._model.reasons import Skip, SkipCode, skips_of
from qdeck._model.values import State
from qdeck._redis import reads
from qdeck._redis.commands import raw_of
from qdeck._redis.errors import LOST
from qdeck._server import queue_settings
from qdeck.adapters.undoing import KeptUndo, Undoer

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from qdeck._redis.commands import Command, Program

_ROUNDS: Final = 20  # back and forth between queues
_CALLS: Final = 10  # slices in one round trip at most
_BYTES: Final = 16 * 1024  # kept of the slices of one round trip: about what is kept of one full slice


class _Reached(NamedTuple):
    """What a batch stored in a queue: its own slices, those of dependents that died and of those that continued."""

    slices: int
    fallen: int
    gone_on: int
    lost: int
    told: list[str]
    slice_bytes: int
    outbox: int

    def places(self, queue: str) -> Iterator[_UndoSlice]:
        """Return its own slices, the last one first."""
        for number in range(self.slices, 0, -1):
            yield _UndoSlice(queue, number, self.slice_bytes)


class _UndoSlice(NamedTuple):
    """A slice of a queue as `undo_slice` takes it, and about how many bytes are kept of it."""

    queue: str
    number: int | str
    bytes: int


class NativeUndoer(Undoer):
    """Undoes a batch of native jobs, and its effects on other jobs, in any queue.

    `target` is where the batch moved them.
    """

    def __init__(self, batch: str, queues: Sequence[str], target: str | None) -> None:
        super().__init__()
        self._batch, self._queues, self._target = batch, list(queues), target
        self._reached: dict[str, _Reached] = {}
        self._undone: dict[_UndoSlice, batch_transitions.UndoneSlice] = {}
        self._stays: dict[str, set[str]] = {}  # queue → ids of jobs whose dependents have started

    def steps(self) -> Iterator[Program[None]]:
        """The slices of the batch from the last to the first; then those that waited for its jobs, nearest first.

        Again and again those with jobs whose parents, maybe of another queue, were not back yet.
        """
        yield self._gather()
        yield self._find_started()
        todo: list[_UndoSlice] = []
        for queue in reversed(self._queues):
            todo += self._reached[queue].places(queue)
        for queue, found in self._reached.items():
            todo += [_UndoSlice(queue, f"died:{number}", found.slice_bytes) for number in range(1, found.fallen + 1)]
        for queue, found in reversed(self._reached.items()):
            todo += [
                _UndoSlice(queue, f"continued:{number}", found.slice_bytes) for number in range(found.gone_on, 0, -1)
            ]
        for _ in range(_ROUNDS):
            before = self.restored + self.dependents
            for places in _bundles(todo, _CALLS if self._target is None else 1):
                yield self._undo(places)
            todo = [place for place in todo if self._waits_for_parents(place)]
            if self.restored + self.dependents == before:
                break

    def kept(self) -> Program[KeptUndo]:
        """Return what is stored for the batch."""
        fields = (b"applied", b"undoable", b"bytes", b"restored")
        calls: list[Command] = [(b"HMGET", keys.undo_key(queue, self._batch), *fields) for queue in self._queues]
        if self._target is not None:  # what a move restored is what its return applied
            back = [keys.undo_key(self._target, self._return_of(queue)) for queue in self._queues]
            calls += [(b"HMGET", key, b"none", b"none", b"none", b"applied") for key in back]
        rows = yield from reads.fetch_all(calls)
        return KeptUndo(*(sum(int(row[at] or 0) for row in rows) for at in range(4)))

    def _return_of(self, queue: str) -> str:
        """Return the id under which jobs of a queue return from the target of a move."""
        return f"{self._batch}-undo-{self._queues.index(queue)}"

    def _gather(self) -> Program[None]:
        """Deliver what is under way, and find every queue that the batch reached."""
        queues = list(self._queues)
        for _ in range(_ROUNDS):
            before, self._reached = self._reached, (yield from _read_reached(queues, self._batch))
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

    def _find_started(self) -> Program[None]:
        """Find the jobs whose dependents have started: to run such a job now would be to run it after them."""
        for queue, found in self._reached.items():
            names = [f"continued:{number}" for number in range(1, found.gone_on + 1)]
            for at in range(0, len(names), _CALLS):
                for kept in (yield from programs.read_slices(queue, self._batch, names[at : at + _CALLS])):
                    columns = (kept or {}).get("c") or {}
                    waits = list(zip(columns.get("ids") or (), columns.get("waits") or (), strict=False))
                    started = yield from _started(queue, [kid for kid, _ in waits])
                    for parent in (str(parent) for kid, parent in waits if kid in started):
                        job_id, _, home = parent.partition("@")
                        self._stays.setdefault(home or queue, set()).add(job_id)

    def _staying(self, places: Sequence[_UndoSlice]) -> Program[list[list[str]]]:
        """Return those of each slice: an id that is not in a slice is not sent with it."""
        stays: list[list[str]] = []
        for place in places:
            mine = self._stays.get(place.queue) if isinstance(place.number, int) else None
            if mine:
                [kept] = yield from programs.read_slices(place.queue, self._batch, [place.number])
                mine = mine.intersection(((kept or {}).get("c") or {}).get("ids") or ())
            stays.append(sorted(mine or ()))
        return stays

    def _waits_for_parents(self, place: _UndoSlice) -> bool:
        return any(code == SkipCode.PARENT_ENDED for _, code, _ in self._undone[place].skipped)

    def _undo(self, places: Sequence[_UndoSlice]) -> Program[None]:
        """Undo some slices in one round trip; a slice answers with all that was done by it so far."""
        first = places[0]
        found: list[batch_transitions.UndoneSlice | QdeckError]
        if self._target is not None and isinstance(first.number, int):
            found = [(yield from self._move_back(self._target, first.queue, first.number))]
        else:
            calls = [
                batch_transitions.undo_slice(place.queue, self._batch, place.number, stays=stays)
                for place, stays in zip(places, (yield from self._staying(places)), strict=True)
            ]
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

    def finish(self) -> Program[None]:
        """Deliver the effects on other queues, and report skipped jobs."""
        for place, undone in self._undone.items():
            self.skipped += skips_of(place.queue, undone.skipped)
        reached = yield from _read_reached(list(self._reached or self._queues), self._batch)
        for queue, found in reached.items():
            if found.outbox:
                yield from _deliver(queue)

    def _move_back(self, target: str, queue: str, number: int) -> Program[batch_transitions.UndoneSlice]:
        """Move a job to its old queue, if it still waits in the new one and its id is free in the old one."""
        [kept] = yield from programs.read_slices(queue, self._batch, [number])
        if kept is None:
            raise UsageError(
                f"the undo data of batch {self._batch} in {queue} is no longer kept",
                hint="A batch can be undone for a day.",
            )
        columns = kept.get("c") or {}
        ids, scores = columns.get("ids") or [], columns.get("scores") or []
        if not ids:
            return batch_transitions.UndoneSlice(0, 0, int(kept.get("n", 0)), 0, [])
        versions = columns.get("versions") or [""] * len(ids)
        there = yield from programs.exists(queue, ids)
        entries = [
            (job_id, batch_transitions.ID_TAKEN if is_there else f"{score} {version}".rstrip())
            for job_id, score, version, is_there in zip(ids, scores, versions, there, strict=True)
        ]
        event = codec.encode_json({"reason": "undo of a move", "by": queue_settings.actor(), "batch": self._batch})
        yield from programs.deliver_all(queue)
        done, skipped = 0, []
        while done < len(entries):  # one call takes as many as it may read
            op = batch_transitions.apply_slice(
                target, "return", kept["s"], entries[done:], batch=self._return_of(queue),
                offset=f"{number}+{done}" if done else number, event=event, extra=queue,
            )  # fmt: skip
            acted = yield from programs.call(op)
            skipped += [(str(entries[done + at][0]), code, data) for at, code, data in acted.skipped]
            done += acted.count
        yield from programs.deliver_all(target)
        return batch_transitions.UndoneSlice(acted.now_ms, len(entries) - len(skipped), len(entries), 0, skipped)


def _started(queue: str, ids: Sequence[str]) -> Program[set[str]]:
    """Return which of these jobs run, have run, or are gone."""
    from qdeck.adapters.native.job import by_id  # few batches have dependents that continued
    from qdeck.adapters.native.records import read_attempts

    rows = yield from by_id(queue, ids)
    attempts = yield from reads.fetch_all([(b"HGET", keys.key(queue, "attempts"), raw_of(job_id)) for job_id in ids])
    return {
        job_id
        for job_id, row, raw in zip(ids, rows, attempts, strict=True)
        if row is None or row.state in (State.RUNNING, State.DONE) or read_attempts(raw) != Attempts()
    }


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
    """Empty an outbox; what another queue refuses stays in it."""
    try:
        yield from programs.deliver_all(queue)
    except LOST:
        raise
    except QdeckError:
        return


def _read_reached(queues: Sequence[str], batch: str) -> Program[dict[str, _Reached]]:
    names = (b"slices", b"died", b"continued", b"unkept", b"queues", b"bytes")
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
