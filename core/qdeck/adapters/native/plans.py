"""The searches of a plan in the lists of a native queue, and the effects of verbs on those jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from qdeck._engine import codec, keys
from qdeck._engine.signatures import DEPENDENCY_GROUPS
from qdeck._model.reasons import Caution, CautionCode, SkipCode
from qdeck._model.values import State
from qdeck._redis.commands import with_errors
from qdeck._redis.errors import good, is_error
from qdeck.adapters.native import SLICE, stuck
from qdeck.adapters.native.job import by_id
from qdeck.adapters.native.job_values import read_lengths
from qdeck.adapters.native.move_target import MoveTarget
from qdeck.adapters.native.records import Row, reaches_no_secret
from qdeck.adapters.native.starting import Starting
from qdeck.adapters.native.walk import Needs, Walk, fill, put
from qdeck.adapters.plans import Pages, Weighed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from qdeck._model.values import WorkerRow
    from qdeck._redis.commands import Command, Program
    from qdeck.adapters.plans import Context, Search

_NO_UNDO: Final = Caution(code=CautionCode.NO_UNDO)
_SIZED: Final = ("body", "error", "log", "result")
# Those that wait for others come before these, so that they are acted on and do not die with them first; and the way
# goes with the stream, so that a job that moves on is met again rather than missed.
_ORDER: Final = (
    State.BLOCKED, State.DELAYED, State.READY, State.RUNNING, State.DEAD, State.CANCELLED, State.DONE,
)  # fmt: skip
_TIMED: Final = (State.DEAD, State.DONE, State.CANCELLED)


class Owners:
    """The live workers, read once for a plan, when they are first needed, the target of a move, and the dependents."""

    def __init__(self) -> None:
        self.target = MoveTarget()
        self.starting = Starting()
        self._read: tuple[Mapping[str, WorkerRow] | None] | None = None

    def read(self, now: int) -> Program[Mapping[str, WorkerRow] | None]:
        """Return the workers by id; None where they may not be read."""
        if self._read is None:
            self._read = ((yield from stuck.read_owners(now)),)
        return self._read[0]


def pages(queue: str, search: Search) -> Program[list[Pages]]:
    """The search in a queue, list by list."""
    now, wanted, rule = search.now, search.wanted, search.rule
    owners = search.prepared or Owners()
    if rule is not None and rule.code:
        from qdeck.adapters.native import purge

        if rule.code == purge.ORPHANS:
            from qdeck.adapters.native.orphans import Orphans

            return [Orphans(queue, search)]
        return [purge.Ownerless(queue, search, (yield from owners.read(now)))]
    limits = None if wanted is None else wanted.pushdown(now)
    states = search.states
    only = None
    if search.stuck:
        states = (State.RUNNING,)
        only = stuck.is_stuck
    if search.ids or (limits is not None and limits.ids is not None):
        return [Named(queue, search, search.ids or sorted((limits and limits.ids) or ()), states)]
    most = None
    if rule is not None and rule.rank:
        size = yield (b"ZCARD", keys.key(queue, rule.states[0]))
        most = size - int(search.limits.value(rule.setting))
        if most <= 0:
            return []
    always = stuck.NEEDED if search.stuck else ("error",) if search.errors else ()
    found: list[Pages] = []
    for state in _ORDER:
        if state not in states or (limits and limits.states is not None and state not in limits.states):
            continue
        lowest, highest = None, None
        if state in _TIMED:
            # What ends from now on is not in this plan, however fast it comes.
            lowest, highest = (limits.since.lo_ms if limits else None), now
        if limits is not None and limits.since.hi_ms is not None and (state in _TIMED or state == State.READY):
            highest = min(now, limits.since.hi_ms)
        needs = Needs.of(wanted, now, state, always=always)
        found.append(
            Walk(
                queue, state, needs, now, lowest=lowest, highest=highest, down=state == State.BLOCKED, most=most,
                only=only,
            )
        )  # fmt: skip
    return found


def weigh(verb: str, rows: Sequence[Row], context: Context, reasons: Sequence[str] = ()) -> Program[Weighed]:
    """Return the versions of jobs of one queue and state, their bytes if they are removed, and their dependents."""
    queue, state = rows[0].queue, rows[0].state
    # A filter reads heads before all else, so that what it looked at is not older than the version.
    heads = [row.head_raw for row in rows]
    raw_ids = [row.raw_id for row in rows]
    weighed = Weighed(ids=[raw.decode("utf-8", "surrogateescape") for raw in raw_ids], versions=(), bytes=())
    prepared = context.prepared or Owners()
    yield from _look_around(queue, state, rows, verb, weighed, prepared.starting, sized=bool(reasons))
    skipped: dict[int, tuple[SkipCode, str]] = {}
    if state == State.RUNNING:
        leases = [row.lease_raw for row in rows]
        weighed.versions = [
            "" if lease is None else lease.split(b" ", 1)[0].decode("utf-8", "replace") for lease in leases
        ]
        skipped = {at: (SkipCode.NO_LEASE, "") for at, lease in enumerate(leases) if lease is None}
    else:
        weighed.versions = [
            codec.version_of(state, row.score.decode(), row.head_raw if head is None else head)
            for row, head in zip(rows, heads, strict=True)
        ]
    skipped |= {at: (SkipCode.ID_NOT_TEXT, "") for at, raw in enumerate(raw_ids) if not raw.isascii()}
    weighed.skipped = skipped
    weighed.cautions = (_NO_UNDO,) if verb == "requeue" else ()
    if context.target is not None:
        weighed.cautions = yield from prepared.target.cautions(context.target, queue, [row.head_raw for row in rows])
    return weighed


def _look_around(
    queue: str, state: str, rows: Sequence[Row], verb: str, weighed: Weighed, starting: Starting, *, sized: bool
) -> Program[None]:
    """Read what the filter did not: heads, dependents, and the sizes of jobs that are removed."""
    ids = [row.raw_id for row in rows]
    calls: list[Command] = [(b"HMGET", keys.key(queue, "head"), *ids), (b"HLEN", keys.key(queue, "after"))]
    if state == State.RUNNING:
        calls.append((b"HMGET", keys.key(queue, "lease"), *ids))
    if verb == "retry":
        calls.append((b"HMGET", keys.key(queue, "attempts"), *ids))
    heads, after, *more = yield with_errors(*calls)
    if state == State.RUNNING:
        put(rows, "lease", good(more[0]))
    if verb == "retry":
        kept = good(more[-1])
        weighed.totals.waiting_again = sum((text or b"").split(b" ")[-1] in DEPENDENCY_GROUPS for text in kept)
    heads = good(heads)
    put(rows, "head", heads)
    named = [row for row, head in zip(rows, heads, strict=True) if head is not None and b"\nu" in head]
    weighed.totals.unique = len(named)
    if verb == "bury":
        weighed.totals.failure_handlers = sum(head is not None and b"\nf" in head for head in heads)
    if verb == "retry" and named:
        weighed.totals.unique_held = yield from _count_twins(queue, named)
    if not is_error(after) and after:
        kids = yield (b"HMGET", keys.key(queue, "after"), *(b">" + raw for raw in ids))
        known = {raw: kid for raw, kid in zip(ids, kids, strict=True) if kid is not None}
        weighed.totals.dependents = len(known)
        weighed.totals.starting = yield from starting.find(verb, queue, rows, known)
    if verb not in ("discard", "move") and not sized:
        weighed.bytes = [0] * len(ids)
        return
    sizes = [len(head or b"") for head in heads]
    filled = yield with_errors(*((b"HLEN", keys.key(queue, part)) for part in _SIZED))
    for part, count in zip(_SIZED, filled, strict=True):
        if is_error(count) or not count:
            continue
        lengths = yield from read_lengths(queue, part, ids)
        sizes = [size + length for size, length in zip(sizes, lengths, strict=True)]
    weighed.bytes = sizes


def _count_twins(queue: str, rows: Sequence[Row]) -> Program[int]:
    names = [row.full().name or "" for row in rows]
    holders = yield (b"HMGET", keys.key(queue, "unique"), *names)
    return sum(holder is not None and holder != row.raw_id for row, holder in zip(rows, holders, strict=True))


class Named(Pages):
    """Named jobs, in any state; each of the search's `ids` is either found or reported with the reason."""

    def __init__(self, queue: str, search: Search, ids: Sequence[str], states: Sequence[str]) -> None:
        super().__init__()
        self.queue, self._search, self._states = queue, search, states
        self._ids = list(dict.fromkeys(ids))
        self._ready: list[list[Row]] = []

    def page(self) -> Program[list[Row] | None]:
        """Return the jobs of one state among the next names."""
        while not self._ready:
            if not self._ids:
                return None
            yield from self._find(self._ids[:SLICE])
            self._ids = self._ids[SLICE:]
        return self._ready.pop(0)

    def _find(self, ids: Sequence[str]) -> Program[None]:
        search, queue = self._search, self.queue
        tells, now, wanted = bool(search.ids), search.now, search.wanted
        places = yield from by_id(queue, ids, now)
        self.scanned += len(ids)
        fitting: dict[str, list[Row]] = {}
        for job_id, place in zip(ids, places, strict=True):
            if place is None:
                self.missing += [(job_id, SkipCode.NOT_FOUND, "")] if tells else []
                continue
            self.met.append(job_id)
            if place.state not in self._states:
                self.left_out += [(job_id, SkipCode.WRONG_STATE, place.state)] if tells else []
                continue
            place.plain = reaches_no_secret(wanted)
            fitting.setdefault(place.state, []).append(place)
        for state, rows in fitting.items():
            passed = yield from self._test(rows, Needs.of(wanted, now, state))
            if tells and len(passed) < len(rows):
                kept = {row.raw_id for row in passed}
                self.left_out += [(row.id, SkipCode.NO_MATCH, "") for row in rows if row.raw_id not in kept]
            self._ready.append(passed)

    def _test(self, rows: list[Row], needs: Needs) -> Program[list[Row]]:
        for part in (*needs.parts, *(("body",) if needs.body else ())):
            yield from fill(self.queue, part, rows)
        test = needs.full or needs.early
        return rows if test is None else list(filter(test, rows))
