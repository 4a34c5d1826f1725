"""The record of each batch: what it did where, how many bytes its undo takes, until when, and whether it was undone.

All records are in one small hash on the server, so that the room for the undo of all batches is one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import msgspec

from qdeck._deck import queue_settings
from qdeck._deck.model import QueueRef  # noqa: TC001 - structs look their types up when they are made
from qdeck._engine import keys
from qdeck._engine.batch_transitions import MAX_UNDO_BYTES, UNDO_TTL_MS
from qdeck._errors import UsageError
from qdeck._operations import activity
from qdeck._redis import reads
from qdeck._settings.model import UsedRule  # noqa: TC001 - structs look their types up when they are made

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from qdeck._redis.commands import Program

MOST: Final = 1000  # batches that are remembered


class Batch(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One applied plan, or one other change that can be undone. `bytes` is what its undo takes, as far as counted.

    `applied` is known when it ended: one that ended without having done anything is not what an undo is asked for.
    """

    id: str
    verb: str
    by: str
    at_ms: int
    until_ms: int
    queues: list[QueueRef] = []
    shared: list[str] = []  # names that queues of several adapters had when it began
    adapters: list[str] = []  # besides those of its queues
    filter: str = ""
    detail: str = ""  # what was meant where no filter says it
    rules: list[UsedRule] = []  # of a purge
    target: str | None = None
    bytes: int = 0
    undone: bool = False
    applied: int | None = None
    automatic: bool = False  # no operator asked for it: a service ended its task, or an agent purged

    @property
    def all_adapters(self) -> list[str]:
        """The adapters that it did something to, or would have."""
        return list(dict.fromkeys([*(ref.adapter for ref in self.queues), *self.adapters]))

    def queues_of(self, adapter: str) -> list[str]:
        """Return the names of its queues of an adapter."""
        return [ref.name for ref in self.queues if ref.adapter == adapter]

    @property
    def labels(self) -> list[str]:
        """How its queues are shown."""
        return [ref.label(self.shared) for ref in self.queues]


@dataclass(slots=True)
class OpenBatch:
    """A batch that is being applied: its record, the bytes that its undo may take, and whether it was begun before."""

    record: Batch
    room: int
    is_resumed: bool = False

    @property
    def id(self) -> str:
        """Its id."""
        return self.record.id

    def undo_until_ms(self, undoable: int) -> int | None:
        """Until when it can be undone; None when nothing of it can."""
        return self.record.until_ms if undoable else None

    def note(self, kept_bytes: int) -> Program[None]:
        """Write how many bytes its undo takes so far."""
        self.record.bytes = kept_bytes
        yield from write(self.record)

    def log(
        self,
        counts: Mapping[str, int],
        *,
        at_ms: int | None = None,
        undoable: int = 0,
        outcome: str = "done",
        plan: str | None = None,
        reason: str = "",
    ) -> Program[None]:
        """Add an entry to the log of operations."""
        record = self.record
        entry = activity.make(
            record.verb, record.at_ms if at_ms is None else at_ms,
            queues=record.labels, filter=record.filter, detail=record.detail, rules=record.rules, counts=counts,
            outcome=outcome, batch=record.id, plan=plan, reason=reason, undo_until_ms=self.undo_until_ms(undoable),
        )  # fmt: skip
        yield from activity.record(entry)

    def close(self, applied: int, kept_bytes: int) -> Program[None]:
        """Write how much was applied, and how many bytes its undo takes."""
        self.record.applied = applied
        yield from self.note(kept_bytes)


def new_batch_id() -> str:
    """Return an id for a batch that has no plan."""
    from qdeck._engine.job_ids import new_id

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
    keep_bytes: int = MAX_UNDO_BYTES,
    keep_ms: int = UNDO_TTL_MS,
    expires_ms: int | None = None,
    now: int | None = None,
    automatic: bool = False,
) -> Program[OpenBatch]:
    """Write the record of a batch before anything is changed. One that is `automatic` takes the place of others.

    Raises for one that was undone, and for one that is to begin after `expires_ms`.
    """
    now = (yield from reads.clock()) if now is None else now
    known = yield from read()
    begun = known.get(batch)
    if begun is not None and begun.undone:
        raise UsageError(f"the batch {batch} was undone", hint="make a new plan to do it again")
    if begun is None and expires_ms is not None and now > expires_ms:
        minutes = (now - expires_ms) // 60_000
        raise UsageError(f"the plan {batch.removeprefix('b-')} expired {minutes:,} min ago", hint="make a new plan")
    yield from _sweep(known, now)
    record = Batch(
        id=batch, verb=verb, by=queue_settings.actor(), at_ms=now, until_ms=now + keep_ms, queues=list(queues),
        shared=list(shared), adapters=list(adapters), filter=filter,
        detail=detail, rules=list(rules), target=target, bytes=begun.bytes if begun else 0, automatic=automatic,
    )  # fmt: skip
    room = _room(known, batch, keep_bytes)
    if automatic:
        room = min(room, (yield from _room_of_automatic(known, batch)))
    yield from write(record)
    return OpenBatch(record, room, is_resumed=begun is not None)


def _room_of_automatic(known: dict[str, Batch], batch: str) -> Program[int]:
    """Forget the automatic batches beyond their share, first those that keep nothing; return the room of one more."""
    others = {name: one for name, one in known.items() if one.automatic and name != batch}
    oldest = sorted(others, key=lambda name: (others[name].bytes > 0, others[name].at_ms, name))
    if over := oldest[: max(0, len(oldest) - MOST // 2 + 1)]:
        yield (b"HDEL", keys.UNDO, *over)
    return _room(others, batch, MAX_UNDO_BYTES // 2)


def begin_automatic(batch: str, verb: str, *, adapters: Sequence[str] = (), detail: str) -> Program[OpenBatch | None]:
    """Write the record of a batch that no operator asked for; None when these have used up their share.

    All of them have half of the batches and of the bytes: they follow from messages, which others write. So no flood of
    them takes the undo of what operators do.
    """
    now = yield from reads.clock()
    known = yield from read()
    yield from _sweep(known, now)
    others = {name: one for name, one in known.items() if one.automatic}
    room = min(_room(known, batch, MAX_UNDO_BYTES), _room(others, batch, MAX_UNDO_BYTES // 2))
    if not room or len(others) >= MOST // 2:
        return None
    record = Batch(
        id=batch, verb=verb, by=queue_settings.actor(), at_ms=now, until_ms=now + UNDO_TTL_MS, adapters=list(adapters),
        detail=detail, automatic=True,
    )  # fmt: skip
    yield from write(record)
    return OpenBatch(record, room)


def read() -> Program[dict[str, Batch]]:
    """Return the batches that are remembered, by id; an entry that cannot be read is passed over."""
    raw = yield from reads.scan_hash(keys.UNDO)
    found = {}
    for name, value in raw.items():
        try:
            found[name.decode()] = msgspec.json.decode(value, type=Batch)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            continue
    return found


def write(batch: Batch) -> Program[None]:
    """Write the record of a batch."""
    yield (b"HSET", keys.UNDO, batch.id, msgspec.json.encode(batch))


def _sweep(known: dict[str, Batch], now: int) -> Program[None]:
    """Forget the batches whose time is over, and the oldest beyond a bound."""
    over = [name for name, batch in known.items() if batch.until_ms < now]
    rest = sorted((batch.at_ms, name) for name, batch in known.items() if name not in set(over))
    over += [name for _, name in rest[:-MOST]]
    if over:
        yield (b"HDEL", keys.UNDO, *over)
        for name in over:
            del known[name]


def _room(known: dict[str, Batch], batch: str, most: int) -> int:
    """Return how many bytes a batch may keep beside the others."""
    return max(0, most - sum(one.bytes for name, one in known.items() if name != batch))
