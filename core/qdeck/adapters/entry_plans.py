"""The searches of a plan in the queues of other systems, and the effects of verbs on their entries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol

import msgspec

from qdeck._model.payload import whole_text
from qdeck._model.reasons import Caution, SkipCode
from qdeck._model.values import NO_STATE, State
from qdeck._model.words import Verb
from qdeck._redis.commands import with_errors
from qdeck._redis.errors import is_error
from qdeck.adapters.model import ALL, Entry, Kind, Part, Skipped
from qdeck.adapters.paging import Listed
from qdeck.adapters.plans import Pages, StuckJob, Weighed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qdeck._filter import Filter
    from qdeck._model.values import Page
    from qdeck._redis.commands import Program
    from qdeck.adapters.cells import Change, ScriptChange
    from qdeck.adapters.model import Want
    from qdeck.adapters.plans import Context, Search

SLICE: Final = 50  # changes that are made in one go
Edges = dict[bytes, tuple[float, bytes]]


class Planned(Listed, Protocol):
    """The part of an adapter that plans for its entries."""

    short_plans: ClassVar[bool]

    def page(
        self,
        queue: str,
        states: Sequence[str],
        *,
        wanted: Filter | None = None,
        cursor: str | None = None,
        now: int | None = None,
        want: Want = ALL,
    ) -> Program[Page]:
        """Return the next slice of the matching entries in these states."""

    def why_not(self, verb: str, state: State | None = None) -> str:
        """Return why a verb cannot be applied in a state."""

    def changes(
        self, act: Verb, entries: Sequence[Entry], context: Context
    ) -> Program[Sequence[Change | ScriptChange | Skipped]]:
        """Return the change of a verb for each entry."""


class EntryPages(Pages):
    """The entries that a search finds in one queue, or among those without a queue."""

    def __init__(self, adapter: Planned, queue: str, search: Search, edges: Edges | None) -> None:
        super().__init__()
        self._adapter, self._queue, self._search = adapter, queue, search
        self._edges = edges
        self._seen: set[int] = set()
        self._wanted = set(search.ids)
        self._cursor: str | None = None
        self._over = edges == {}
        self._want = frozenset({Part.RECORD, *([Part.ERROR] if search.errors else [])})

    def page(self) -> Program[list[Entry] | None]:
        """Return the entries of the next slice."""
        if self._over:
            return None
        search = self._search
        page = yield from self._adapter.page(
            self._queue, search.states, wanted=search.wanted, cursor=self._cursor, now=search.now, want=self._want
        )
        self.scanned += page.scanned
        self._cursor = page.cursor
        self._over = page.cursor is None
        found = [entry for entry in page.jobs if isinstance(entry, Entry) and self._fits(entry)]
        if self._over:
            states = " or ".join(search.states)
            self.missing += [(name, SkipCode.NOT_FOUND, states) for name in sorted(self._wanted)]
        return found

    def stuck(self, row: Any) -> StuckJob | None:
        """Return the entry if it is stuck; whether its worker is alive is not known."""
        if row.stuck is None:
            return None
        return StuckJob(
            id=row.id, queue=row.queue, why=row.stuck, age_s=row.age_s, since_ms=row.since_ms, stuck_s=row.age_s,
            worker=row.worker, worker_alive=None, task=row.task, attempts=row.attempts, adapter=row.adapter,
        )  # fmt: skip

    def _fits(self, entry: Entry) -> bool:
        search, names = self._search, {entry.id, entry.key}
        if (search.stuck and entry.stuck is None) or (search.ids and not names.intersection(search.ids)):
            return False
        test = None if search.rule is None else search.rule.test
        if test is not None and not test(entry, search.now, search.prepared):
            return False
        if self._edges is not None and not self._is_beyond(entry):
            return False
        self.met += self._wanted & names
        self._wanted -= names
        mark = hash((entry.key, entry.seen))
        if not self._adapter.repeats and mark in self._seen:  # a scan may show an entry twice
            return False
        self._seen.add(mark)
        return True

    def _is_beyond(self, entry: Entry) -> bool:
        """Return whether it is older than the oldest one that is kept."""
        edge = (self._edges or {}).get(entry.seen.key)
        return edge is not None and (float(entry.seen.score or 0), entry.seen.member) < edge


def pages(adapter: Planned, queue: str, search: Search) -> Program[list[Pages]]:
    """Return the searches in a queue, or under `NO_QUEUE`."""
    rule = search.rule
    edges = None
    if rule is not None and rule.rank:
        edges = yield from _edges(adapter, queue, search, int(search.limits.value(rule.setting)))
    return [EntryPages(adapter, queue, search, edges)]


def _edges(adapter: Planned, queue: str, search: Search, keep: int) -> Program[Edges]:
    """Read, for each sorted set over its limit, the oldest entry that is kept."""
    sources = yield from adapter.sources(queue, search.states)
    found: Edges = {}
    for key in [source.key for source in sources if source.kind is Kind.ZSET]:
        [size] = yield with_errors((b"ZCARD", key))
        excess = 0 if is_error(size) else size - keep
        if excess <= 0:
            continue
        edge = yield (b"ZRANGE", key, excess, excess, b"WITHSCORES")
        found[key] = (float(edge[1]), edge[0]) if edge else (float("inf"), b"")
    return found


def weigh(
    adapter: Planned, verb: str, entries: Sequence[Entry], context: Context, reasons: Sequence[str] = ()
) -> Program[Weighed]:
    """Return the change for each entry, or why it is skipped."""
    weighed = Weighed(
        ids=[whole_text(entry.id) for entry in entries], versions=[_version(adapter, entry) for entry in entries],
        bytes=[len(entry.body or entry.seen.member) for entry in entries],
    )  # fmt: skip
    effects: list[str] = []
    cautions: dict[Caution, None] = {}
    skipped: dict[int, tuple[SkipCode, str]] = {}
    for start in range(0, len(entries), SLICE):
        some = entries[start : start + SLICE]
        own = msgspec.structs.replace(context, reasons=tuple(reasons[start : start + SLICE]))
        for at, change in enumerate((yield from build_changes(adapter, Verb(verb), some, own)), start):
            entry = entries[at]
            if isinstance(change, Skipped):
                skipped[at] = change.code, change.data
                effects.append("")
                continue
            try:
                entry.queue.encode()
            except UnicodeEncodeError:
                skipped[at] = SkipCode.QUEUE_NOT_TEXT, ""
            effects.append(whole_text(change.effect))
            for caution in change.caution if isinstance(change.caution, tuple) else (change.caution,):
                if caution is not None:
                    cautions[msgspec.structs.replace(caution, adapter=adapter.name)] = None
    weighed.effects, weighed.skipped, weighed.cautions = effects, skipped, tuple(cautions)
    return weighed


def _version(adapter: Planned, entry: Entry) -> str:
    return str(entry.seen.shortened(member=adapter.short_plans and entry.seen.at is not None))


def build_changes(
    adapter: Planned, act: Verb, entries: Sequence[Entry], context: Context
) -> Program[list[Change | ScriptChange | Skipped]]:
    """Return the change for each entry, or why it is skipped."""
    found: dict[int, Change | ScriptChange | Skipped] = {}
    for number, entry in enumerate(entries):
        if entry.state != NO_STATE and (why := adapter.why_not(act, State(entry.state))):
            found[number] = Skipped.because(why)
    able = [number for number in range(len(entries)) if number not in found]
    if able:
        reasons = tuple(context.reasons[number] for number in able) if context.reasons else ()
        own = msgspec.structs.replace(context, reasons=reasons)
        built = yield from adapter.changes(act, [entries[number] for number in able], own)
        found |= dict(zip(able, built, strict=True))
    return [found[number] for number in range(len(entries))]
