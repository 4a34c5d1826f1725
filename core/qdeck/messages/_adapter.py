"""Temporary queues as an adapter without jobs: which of them a purge takes, and how that is applied and undone.

A purge plans them with everything else, by rules that are data like those of jobs; its entries are whole queues. They
are removed by steps of their own, because a reader may wait on a queue that is removed, in another slot of a cluster.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

import msgspec

from qdeck._engine.batch_transitions import SliceResult
from qdeck._formatting import counted
from qdeck._list_names import ListNames
from qdeck._model.reasons import Skip, SkipCode
from qdeck._model.words import Verb
from qdeck._redis import reads
from qdeck._settings.purge_rules import UNUSED_S
from qdeck.adapters.adapter import Adapter
from qdeck.adapters.applying import Applier
from qdeck.adapters.model import NO_QUEUE, Capability, Look
from qdeck.adapters.plans import Pages, Rule, Weighed
from qdeck.adapters.undoing import KeptUndo, Undoer
from qdeck.messages import _cleaning as cleaning
from qdeck.messages import _cleaning_batch as copies
from qdeck.messages import _registry as registry
from qdeck.messages._cleaning_batch import Copies, Noted
from qdeck.messages._names import family_of
from qdeck.messages._removal import Removal, RemovalOutcome, look, remove

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from qdeck._errors import QdeckError
    from qdeck._redis.commands import Program
    from qdeck.adapters.applying import PlanSlice
    from qdeck.adapters.model import Entry, Kind, Part, Raw, Source
    from qdeck.adapters.plans import Context, Search

STATE: Final = "temporary"
_EXPIRED: Final = Rule(
    name="expired_queues", states=(STATE,), verb=Verb.DISCARD, where="", code="expired", reason="expired {age} ago"
)
_UNREAD: Final = Rule(
    name="unread_queues", states=(STATE,), verb=Verb.DISCARD, where="", code="expired",
    reason="expired {age} ago, and {problem}",
)  # fmt: skip
_ORPHANED: Final = Rule(
    name="orphaned_queues", states=(STATE,), verb=Verb.DISCARD, where="", code="orphaned",
    reason="not registered, or its registration expired, and not used for {age}; {problem}",
)  # fmt: skip
_MOST_FAMILIES: Final = 200  # under which the queues of one plan are shown: other programs may use any names
_OTHERS: Final = "others"
_CODES: Final = {
    RemovalOutcome.GONE: SkipCode.GONE,
    RemovalOutcome.IN_USE: SkipCode.IN_USE,
    RemovalOutcome.RECENT: SkipCode.CHANGED,
}


class TemporaryQueueAdapter(Adapter):
    """The temporary queues of `qdeck.messages`. They are in no list of queues: their service reads and keeps them."""

    name = "messages"
    about: ClassVar[str] = "temporary queues of qdeck.messages"
    on_cluster = True
    changes_on_cluster = True

    def fixed_keys(self) -> Mapping[bytes, Kind | None]:
        """None: only a purge searches for them."""
        return {}

    def capabilities(self) -> Mapping[Verb, Capability]:
        """Removal, by the rules of a purge only."""
        return {Verb.DISCARD: Capability()}

    def rows(self, _now: int) -> Program[Look]:
        """Return no queues of jobs."""
        yield from ()
        return Look()

    def sources(self, _queue: str, _states: Sequence[str]) -> Program[list[Source]]:
        """Return no keys of jobs."""
        yield from ()
        return []

    def fill(self, _queue: str, _raws: Sequence[Raw], _now: int, _want: frozenset[Part]) -> Program[list[Entry]]:
        """Return no jobs."""
        yield from ()
        return []

    def rules(self, queue: str) -> Sequence[Rule]:
        """Return the rules of a purge, which apply to all of them at once."""
        return (_EXPIRED, _UNREAD, _ORPHANED) if queue == NO_QUEUE else ()

    def pages(self, _queue: str, search: Search) -> Program[list[Pages]]:
        """Return the temporary queues that a rule takes."""
        yield from ()
        if search.rule is _ORPHANED:
            return [_Orphaned(search)]
        return [_Expired(search, holds_messages=search.rule is _UNREAD)]

    def weigh(
        self, _verb: str, rows: Sequence[Any], _job_context: Context, _reasons: Sequence[str] = ()
    ) -> Program[Weighed]:
        """Return their sizes, and when each expires: one whose time was extended meanwhile is skipped."""
        yield from ()
        return Weighed(
            ids=[row.id for row in rows], versions=[row.version for row in rows], bytes=[row.bytes for row in rows]
        )

    def applier(self, context: Context, keep_ms: int, _trip_ms: float) -> Applier:
        """Return the applier of a plan of queues."""
        return _QueueApplier(context, keep_ms)

    def undoer(self, batch: str, _queues: Sequence[str], _target: str | None = None) -> Undoer:
        """Return the undoer of the queues of a batch."""
        return _QueueUndoer(self.name, batch)


ADAPTER: Final = TemporaryQueueAdapter


class _Row(msgspec.Struct, frozen=True, kw_only=True):
    """A temporary queue that a rule takes. It is shown under its family, the part of its name that others share."""

    id: str
    queue: str
    version: str = ""
    bytes: int = 0
    age_s: float | None = None
    problem: str = ""
    state: str = STATE


class _Found(Pages):
    """Pages of temporary queues."""

    def __init__(self, search: Search) -> None:
        super().__init__()
        self._now = search.now
        self._families: set[str] = set()
        self._is_over = False

    def _row(self, found: Removal, version: str, age_s: float | None) -> _Row:
        family = family_of(found.name) or _OTHERS
        if family not in self._families and len(self._families) >= _MOST_FAMILIES:
            family = _OTHERS
        self._families.add(family)
        problem = "holds messages" if found.messages is None else f"holds {counted(found.messages, 'message')}"
        return _Row(id=found.name, queue=family, version=version, bytes=found.bytes, age_s=age_s, problem=problem)


class _Expired(_Found):
    """Registered queues whose time to live is over: those that hold messages, or the others."""

    def __init__(self, search: Search, *, holds_messages: bool) -> None:
        super().__init__(search)
        self._holds_messages = holds_messages

    def page(self) -> Program[list[_Row] | None]:
        """Return the matching ones among the next."""
        if self._is_over:
            return None
        names = yield from registry.expired_from(self.scanned, cleaning.SLICE)
        self.scanned += len(names)
        self._is_over = len(names) < cleaning.SLICE
        known = yield from registry.describe(names)
        rows = []
        for found, entry in zip((yield from look(names, 0)), known, strict=True):
            is_meant = (found.messages != 0) == self._holds_messages
            if found.outcome is RemovalOutcome.WOULD_REMOVE and is_meant and entry is not None:
                age_s = max(0, self._now - entry.expires_ms) / 1000
                rows.append(self._row(found, str(entry.expires_ms), age_s))
        return rows


class _Orphaned(_Found):
    """Lists that are named like temporary queues, are not registered, and were not used for a day."""

    def __init__(self, search: Search) -> None:
        super().__init__(search)
        self._cursor: int | bytes = 0

    def page(self) -> Program[list[_Row] | None]:
        """Return those among the next keys."""
        if self._is_over:
            return None
        step = yield from cleaning.find_orphans(self._cursor, UNUSED_S, ListNames())
        self.scanned += step.scanned
        self._cursor, self._is_over = step.cursor, not step.cursor
        found = yield from look(step.names, UNUSED_S)
        would = (one for one in found if one.outcome is RemovalOutcome.WOULD_REMOVE)
        return [self._row(one, "", one.idle_s) for one in would]


class _QueueApplier(Applier):
    """Removes temporary queues, and keeps copies under the id of the batch."""

    takes_several = False

    def __init__(self, context: Context, keep_ms: int) -> None:
        self.kept_bytes = 0
        self._copies = Copies(context.batch, keep_ms=keep_ms)

    def size(self, _part: PlanSlice, most: int) -> int:
        """Return how many are removed in one round trip."""
        return min(most, registry.AT_ONCE)

    def apply(self, parts: Sequence[PlanSlice], room: int) -> Program[Sequence[SliceResult | QdeckError]]:
        """Remove the queues of a slice that are as they were planned; those of an earlier run are counted again."""
        [part] = parts
        self._copies.room = self.kept_bytes + room
        names = [entry.id for entry in part.entries]
        kept = yield from self._copies.kept_of(names)
        todo = {entry.id: entry.version for entry in part.entries if entry.id not in kept}
        is_orphaned = part.first.rule == _ORPHANED.name
        found = yield from remove(
            list(todo), idle_s=UNUSED_S if is_orphaned else 0, event=_ORPHANED.code if is_orphaned else _EXPIRED.code,
            batch=self._copies, expires=None if is_orphaned else todo,
            only_empty=part.first.rule == _EXPIRED.name,
        )  # fmt: skip
        self.kept_bytes = self._copies.bytes
        outcomes = {one.name: one for one in found}
        skipped: list[tuple[int, str, str]] = []
        unkept = 0
        for at, name in enumerate(names):
            one = outcomes.get(name)
            if one is None:
                continue
            if one.outcome is RemovalOutcome.REMOVED:
                unkept += not one.undoable
            else:
                code = _CODES.get(one.outcome, SkipCode.NOT_CAPABLE)
                skipped.append((at, code, one.outcome.why if code is SkipCode.NOT_CAPABLE else ""))
        now = yield from reads.clock()
        return [SliceResult(now, len(names), True, 0, 0, self.kept_bytes, skipped, unkept)]

    def deliver(self, *, at_end: bool) -> Program[None]:
        """Deliver nothing: a queue is removed where it is."""
        yield from ()


class _QueueUndoer(Undoer):
    """Restores the queues of a batch, from their copies and their records."""

    def __init__(self, adapter: str, batch: str) -> None:
        super().__init__()
        self._adapter, self._batch = adapter, batch
        self._rows: list[tuple[str, Noted]] = []

    def steps(self) -> Iterator[Program[None]]:
        """Yield the reading of their names, then slices of them."""
        yield self._read()
        for start in range(0, len(self._rows), copies.SLICE):
            yield self._restore(self._rows[start : start + copies.SLICE])

    def kept(self) -> Program[KeptUndo]:
        """Return what is stored for the batch."""
        yield from self._read()
        sizes = yield from copies.copied_bytes([name for name, _ in self._rows], self._batch)
        count = sum(size > 0 or noted.is_empty for size, (_, noted) in zip(sizes, self._rows, strict=True))
        back = sizes.count(len(copies.BACK))
        return KeptUndo(count, count - back, sum(size + copies.OVERHEAD for size in sizes if size), back)

    def _read(self) -> Program[None]:
        self._rows = yield from copies.read_noted(self._batch)

    def _restore(self, rows: Sequence[tuple[str, Noted]]) -> Program[None]:
        for name, code in (yield from copies.restore(rows, self._batch)):
            if code is None:
                self.restored += 1
            else:
                self.skipped.append(Skip(id=name, code=code, adapter=self._adapter))
                self.left += code is SkipCode.ALREADY_THERE
