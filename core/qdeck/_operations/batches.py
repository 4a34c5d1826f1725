"""The record of each batch: what it did where, how many bytes its undo takes, until when, and whether it was undone.

All records are in one small hash on the server, so that the room for the undo of all batches is one. While a batch is
applied, each process that applies it renews its entry in `appliers`, and that of an undo `open_until_ms`; a record that
is open after the last of these moments was interrupted. One of several processes that stops leaves the record open.

A batch that is renewed cannot be undone. A process that was suspended for longer than that reads the record before it
changes more, and stops where the batch was undone: so it reads before it renews.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

import msgspec

from qdeck._engine import keys
from qdeck._engine.batch_transitions import MAX_UNDO_BYTES, UNDO_TTL_MS
from qdeck._engine.job_ids import new_id
from qdeck._errors import UsageError
from qdeck._formatting import counted, duration
from qdeck._model.values import QueueRef  # noqa: TC001 - structs look their types up when they are made
from qdeck._operations import activity
from qdeck._operations.model import Undo, nouns_of
from qdeck._redis import reads
from qdeck._server import queue_settings
from qdeck._settings.model import UsedRule  # noqa: TC001 - structs look their types up when they are made

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from qdeck._operations.model import Activity
    from qdeck._redis.commands import Command, Program

MOST: Final = 1000  # batches that are remembered
OPEN_MS: Final = 10_000  # after which a batch that was not renewed is interrupted
_RENEW_S: Final = 2.0
_CLOCK: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)  # goes on while the machine is suspended


def _seconds() -> float:
    return time.clock_gettime(_CLOCK)


class Batch(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One applied plan, or one other change that can be undone. `bytes` is the size of its undo, as far as counted.

    `applied` is known when it ended: one that ended without having done anything is not what an undo is asked for.
    Until then `done` is how many were applied when the record was written last, and `undoable` how many of them can
    be undone.
    """

    id: str
    verb: str
    by: str
    at_ms: int
    until_ms: int
    continued_by: str = ""  # the operator who applied the rest of what another one began
    continued_ms: int = 0
    plan: str | None = None
    queues: list[QueueRef] = []
    shared: list[str] = []  # names that queues of several adapters had when it began
    adapters: list[str] = []  # besides those of its queues
    filter: str = ""
    detail: str = ""  # what it acted on, where no filter says it
    rules: list[UsedRule] = []  # of a purge
    target: str | None = None
    reason: str = ""
    bytes: int = 0
    planned: int = 0
    done: int = 0
    undoable: int = 0
    applied: int | None = None
    interrupted: bool = False  # its process ended before it did
    appliers: dict[str, int] = {}  # the processes that apply it, and until when each of them counts as alive
    undo: Undo | None = None
    automatic: bool = False  # no operator asked for it: a service ended its task, or an agent purged

    @property
    def nouns(self) -> tuple[str, str]:
        """What it changed: one of them, and several."""
        return nouns_of(self.verb)

    @property
    def title(self) -> str:
        """What it did, in words: `retry of 12 jobs`."""
        return f"{self.verb} of {counted(self.done, *self.nouns)}"

    @property
    def progress(self) -> str:
        """How far it came, in words: `discard of 12 of 100 jobs`."""
        if not self.planned:
            return self.title
        return f"{self.verb} of {self.done:,} of {counted(self.planned, *self.nouns)}"

    @property
    def last_ms(self) -> int:
        """When it was begun, or continued last."""
        return max(self.at_ms, self.continued_ms)

    def is_of(self, operator: str) -> bool:
        """Return whether an operator began or continued it."""
        return operator in (self.by, self.continued_by)

    @property
    def is_open(self) -> bool:
        """Whether it was not applied to its end, or was closed as interrupted."""
        return self.applied is None or self.interrupted

    @property
    def undone(self) -> bool:
        """Whether an undo of it ended."""
        return self.undo is not None and self.undo.ended

    @property
    def open_until_ms(self) -> int:
        """Until when a process counts as applying it."""
        return max(self.appliers.values(), default=0)

    def alive(self, now: int) -> dict[str, int]:
        """Return the processes that apply it now."""
        return {} if self.applied is not None else {one: until for one, until in self.appliers.items() if until >= now}

    @property
    def has_effect(self) -> bool:
        """Whether it changed something, or may have, and was not undone."""
        return not self.undone and self.applied != 0

    def is_interrupted(self, now: int) -> bool:
        """Return whether its process ended before it did."""
        return self.interrupted or (self.applied is None and self.open_until_ms < now)

    def is_undo_interrupted(self, now: int) -> bool:
        """Return whether the process that undid it ended before it had undone all."""
        return self.undo is not None and not self.undo.ended and self.undo.open_until_ms < now

    def entry(
        self,
        counts: Mapping[str, int],
        *,
        at_ms: int | None = None,
        undoable: int = 0,
        outcome: str = "done",
        queues: Sequence[str] | None = None,
    ) -> Activity:
        """Return its entry for the log of operations."""
        planned = {} if self.plan is None else {"planned": self.planned}
        return activity.make(
            self.verb, self.at_ms if at_ms is None else at_ms, by=self.by,
            queues=self.labels if queues is None else queues, filter=self.filter, detail=self.detail, rules=self.rules,
            counts=planned | dict(counts), outcome=outcome, batch=self.id, plan=self.plan, reason=self.reason,
            undo_until_ms=self.until_ms if undoable else None, continued_by=self.continued_by,
        )  # fmt: skip

    @property
    def all_adapters(self) -> list[str]:
        """The adapters whose queues it changed, or would have."""
        return list(dict.fromkeys([*(ref.adapter for ref in self.queues), *self.adapters]))

    def queues_of(self, adapter: str) -> list[str]:
        """Return the names of its queues of an adapter."""
        return [ref.name for ref in self.queues if ref.adapter == adapter]

    @property
    def labels(self) -> list[str]:
        """How its queues are shown."""
        return [ref.label(self.shared) for ref in self.queues]


class _NoRoomError(Exception):
    """Automatic batches have used up their share."""


@dataclass(slots=True)
class OpenBatch:
    """A batch that is being applied: its record, the bytes that its undo may take, and whether it was begun before."""

    record: Batch
    room: int
    is_resumed: bool = False
    is_undone: bool = False
    _renewed: float = field(default_factory=_seconds)
    _me: str = ""

    @property
    def id(self) -> str:
        """Its id."""
        return self.record.id

    def undo_until_ms(self, undoable: int) -> int | None:
        """Return the time until which it can be undone; None when nothing of it can."""
        return self.record.until_ms if undoable else None

    def note(self, applied: int, undoable: int, kept_bytes: int) -> Program[None]:
        """Write how much was applied so far, and how many bytes its undo takes; it goes on. Raise if it was undone."""
        if (yield from self._meet()) is not None:
            raise _was_undone()
        record = self.record
        record.done, record.undoable, record.bytes = applied, undoable, kept_bytes
        yield from write(record)

    def renew(self, applied: int, undoable: int, kept_bytes: int) -> Program[None]:
        """Do the same every few seconds: a batch that is not renewed is interrupted."""
        if self._is_due:
            yield from self.note(applied, undoable, kept_bytes)

    def close(self, applied: int, undoable: int, kept_bytes: int, entry: Activity) -> Program[None]:
        """Write what was applied, how many bytes its undo takes, and its entry in the log of operations.

        A batch of which another process still applies the rest stays open: an undo would lose what that one changes. Of
        one that was undone meanwhile, keep the record of its undo, log it as failed, and raise.
        """
        record = self.record
        if self._is_due or entry.outcome != "done":
            if (stored := (yield from self._meet())) is not None:
                stored.applied, stored.interrupted = applied, False
                then = [_write(stored)] if stored.undone else []  # until then its undo writes the record
                yield from activity.record(replace(entry, outcome="failed", undo_until_ms=None), then=then)
                raise _was_undone()
            del record.appliers[self._me]
        if entry.outcome == "done" or not record.appliers:
            record.applied, record.interrupted, record.appliers = applied, False, {}
        record.done, record.undoable, record.bytes = applied, undoable, kept_bytes
        yield from activity.record(entry, then=[_write(record)])

    def forget(self) -> Program[None]:
        """Delete the record: nothing was changed. Keep that of a batch that was undone."""
        if (yield from self._meet()) is None:
            yield (b"HDEL", keys.UNDO, self.id)

    @property
    def _is_due(self) -> bool:
        """Whether the record was written so long ago that it is to be renewed."""
        return _seconds() - self._renewed >= _RENEW_S

    def _meet(self) -> Program[Batch | None]:
        """Renew this process in the record, beside the others that apply the batch; return the record on the server if
        the batch is being undone, or was.
        """
        stored, now = _decoded((yield (b"HGET", keys.UNDO, self.id))), _seconds()
        until_ms = self.record.appliers[self._me] + round(1000 * (now - self._renewed))
        self._renewed = now
        others = {} if stored is None else stored.alive(until_ms - OPEN_MS)
        self.record.appliers = others | {self._me: until_ms}
        self.is_undone = stored is not None and stored.undo is not None
        return stored if self.is_undone else None


@dataclass(slots=True)
class OpenUndo:
    """The undo of a batch while it goes on, in the record of the batch."""

    record: Batch
    undo: Undo
    _renewed: float = field(default_factory=_seconds)

    def renew(self, restored: int) -> Program[None]:
        """Write every few seconds how much was restored: an undo that is not renewed is interrupted."""
        now = _seconds()
        if now - self._renewed >= _RENEW_S:
            self.undo.open_until_ms += round(1000 * (now - self._renewed))
            self._renewed, self.undo.restored = now, restored
            yield from write(self.record)

    def close(self, restored: int, skipped: int, entry: Activity) -> Program[None]:
        """Write what was restored, and the entry of the log: the batch cannot be undone again."""
        undo = self.undo
        undo.at_ms, undo.restored, undo.skipped, undo.ended = entry.at_ms, restored, skipped, True
        self.record.bytes = 0
        yield from activity.record(entry, then=[_write(self.record)])

    def forget(self) -> Program[None]:
        """Delete it from the record: the batch can be undone again."""
        self.record.undo = None
        yield from write(self.record)


def begin_undo(batch: Batch) -> Program[OpenUndo]:
    """Write into the record of a batch that it is being undone, before anything is changed."""
    now = yield from reads.clock()
    batch.undo = Undo(by=queue_settings.actor(), at_ms=now, open_until_ms=now + OPEN_MS)
    yield from write(batch)
    return OpenUndo(batch, batch.undo)


def new_batch_id() -> str:
    """Return an id for a batch that has no plan."""
    return f"b-{new_id()}"


def begin(
    batch: str,
    verb: str,
    *,
    queues: Sequence[QueueRef] = (),
    shared: Sequence[str] = (),
    adapters: Sequence[str] = (),
    filter: str = "",
    detail: str = "",
    rules: Sequence[UsedRule] = (),
    target: str | None = None,
    plan: str | None = None,
    planned: int = 0,
    reason: str = "",
    keep_bytes: int = MAX_UNDO_BYTES,
    keep_ms: int = UNDO_TTL_MS,
    expires_ms: int | None = None,
    now: int | None = None,
    known: dict[str, Batch] | None = None,
    automatic: bool = False,
    replaces: bool = True,
) -> Program[OpenBatch]:
    """Write the record of a batch before anything is changed. An `automatic` one `replaces` older automatic ones.

    Raise for one that was undone, and for one that would begin after `expires_ms`.
    """
    now = (yield from reads.clock()) if now is None else now
    known = (yield from read()) if known is None else known
    begun = known.get(batch)
    if begun is not None and begun.undone:
        raise UsageError(f"the batch {batch} was undone", hint="Make a new plan to do it again.")
    if begun is not None and begun.undo is not None and not begun.is_undo_interrupted(now):
        raise UsageError(f"batch {batch} is being undone by {begun.undo.by}", hint="Wait until the undo ends.")
    if begun is None and expires_ms is not None and now > expires_ms:
        ago = duration(now - expires_ms)
        raise UsageError(f"the plan {batch.removeprefix('b-')} expired {ago} ago", hint="Make a new plan.")
    yield from _sweep(known, now)
    me, process = queue_settings.actor(), new_id()
    record = Batch(
        id=batch, verb=verb, by=begun.by if begun else me, at_ms=begun.at_ms if begun else now, until_ms=now + keep_ms,
        continued_by=me if begun and begun.by != me else "", continued_ms=now if begun else 0, queues=list(queues),
        shared=list(shared), adapters=list(adapters), filter=filter,
        detail=detail, rules=list(rules), target=target, reason=reason, plan=plan, planned=planned,
        bytes=begun.bytes if begun else 0, done=begun.done if begun else 0,
        appliers=(begun.alive(now) if begun else {}) | {process: now + OPEN_MS},
        automatic=automatic,
    )  # fmt: skip
    room = _room(known, batch, keep_bytes)
    if automatic:
        others = {name: one for name, one in known.items() if one.automatic and name != batch}
        room = min(room, _room(others, batch, MAX_UNDO_BYTES // 2))
        if not replaces and (not room or len(others) >= MOST // 2):
            raise _NoRoomError
        yield from _forget_oldest(others)
    yield from write(record)
    return OpenBatch(record, room, is_resumed=begun is not None, _me=process)


def _forget_oldest(others: dict[str, Batch]) -> Program[None]:
    """Forget the automatic batches beyond their share, first those that keep nothing."""
    oldest = sorted(others, key=lambda name: (others[name].bytes > 0, others[name].at_ms, name))
    if over := oldest[: max(0, len(oldest) - MOST // 2 + 1)]:
        yield (b"HDEL", keys.UNDO, *over)


def begin_automatic(batch: str, verb: str, *, adapters: Sequence[str] = (), detail: str) -> Program[OpenBatch | None]:
    """Write the record of a batch that no operator requested; return None when such batches have used up their share.

    Their share is half of the batches and of the bytes: messages from other programs cause them, and a flood of
    messages must not displace the undo of operators' batches.
    """
    try:
        return (yield from begin(batch, verb, adapters=adapters, detail=detail, automatic=True, replaces=False))
    except _NoRoomError:
        return None


def read() -> Program[dict[str, Batch]]:
    """Return the batches whose records are kept, by id; skip an entry that cannot be read."""
    raw = yield from reads.scan_hash(keys.UNDO)
    found = {}
    for key, value in raw.items():
        try:
            name = key.decode()
        except UnicodeDecodeError:
            continue
        if (batch := _decoded(value)) is not None:
            found[name] = batch
    return found


def _decoded(raw: bytes | None) -> Batch | None:
    try:
        return None if raw is None else msgspec.json.decode(raw, type=Batch)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def _was_undone() -> UsageError:
    return UsageError("this batch was undone", hint="Make a new plan to do it again.")


def write(batch: Batch) -> Program[None]:
    """Write the record of a batch."""
    yield _write(batch)


def _write(batch: Batch) -> Command:
    return (b"HSET", keys.UNDO, batch.id, msgspec.json.encode(batch))


def _sweep(known: dict[str, Batch], now: int) -> Program[None]:
    """Remove the records of expired batches, and the oldest beyond a bound."""
    over = [name for name, batch in known.items() if batch.until_ms < now]
    rest = sorted((batch.at_ms, name) for name, batch in known.items() if name not in set(over))
    over += [name for _, name in rest[:-MOST]]
    for name in over:
        batch = known.pop(name)
        if batch.applied is None:  # the log does not have it yet
            yield from activity.record(batch.entry({"applied": batch.done}, outcome="interrupted"))
    if over:
        yield (b"HDEL", keys.UNDO, *over)


def free_bytes(now: int) -> Program[int]:
    """Return how many bytes the next batch may keep for its undo."""
    known = yield from read()
    return _room({name: one for name, one in known.items() if one.until_ms >= now}, "", MAX_UNDO_BYTES)


def _room(known: dict[str, Batch], batch: str, most: int) -> int:
    """Return how many bytes a batch may keep beside the others."""
    return max(0, most - sum(one.bytes for name, one in known.items() if name != batch))
