"""Planning: the jobs that a verb, or the rules of a purge, would act on, found by streaming reads; and what else that
reaches.

Making one writes nothing to the server. Each rule of a purge reads a queue as it is before the purge, and what one
rule takes no other rule takes in the same plan: the plan is everything that the purge does.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from itertools import repeat
from typing import TYPE_CHECKING, Any

import msgspec

from qdeck._engine.job_ids import new_id
from qdeck._errors import InvalidOption
from qdeck._filter import parse
from qdeck._model.payload import whole_text
from qdeck._model.queue_ref import Feature, has_feature
from qdeck._model.reasons import SkipCode
from qdeck._model.values import NATIVE, QueueRef
from qdeck._model.words import Verb
from qdeck._operations import batches
from qdeck._operations.model import PLAN_FORMAT, PLAN_LIFE_MS, PlanHead
from qdeck._operations.planfile import Plan, PlanWriter
from qdeck._operations.queue_scope import context_of, places_of_request
from qdeck._operations.request import PlanRequest, PlanTally
from qdeck._queue_names import QueueName
from qdeck._redis import reads
from qdeck._redis.commands import with_errors
from qdeck._redis.errors import is_error
from qdeck._server import queue_settings
from qdeck._settings.limits import used_rules
from qdeck._settings.purge_rules import PURGE_RULES, Takes
from qdeck._task_options import read_priority
from qdeck.adapters.model import NO_QUEUE
from qdeck.adapters.plans import PlanEntry, Search

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from qdeck._operations.queue_scope import Places
    from qdeck._operations.request import Watch
    from qdeck._redis.commands import Command, Program
    from qdeck._settings.model import UsedRule
    from qdeck._settings.purge_rules import KnownRule
    from qdeck.adapters.adapter import Adapter
    from qdeck.adapters.all import Adapters
    from qdeck.adapters.plans import Context, Pages, Rule


def check(request: PlanRequest) -> tuple[int | None, str | None]:
    """Return the new priority and the target queue; raise when one is missing or not allowed for the verb."""
    verb = request.verb
    may = verb in (Verb.RETRY, Verb.REQUEUE, Verb.RUN)  # some adapters take a priority for these
    if (verb is Verb.REPRIORITISE) != (request.priority is not None) and not may:
        if request.priority is None:
            raise InvalidOption("the new priority is missing", hint="Give the new priority.")
        raise InvalidOption(f"{verb.value} with priority {request.priority!r}", hint="Only reprioritise takes one.")
    if (verb is Verb.MOVE) != (request.target is not None):
        if request.target is None:
            raise InvalidOption("the queue to move to is missing", hint="Name the queue to move the jobs to.")
        raise InvalidOption(f"{verb.value} to queue {request.target!r}", hint="Only move takes another queue.")
    if request.ignore_dependencies and verb is not Verb.RETRY:
        raise InvalidOption(f"{verb.value} without dependencies", hint="Only retry can ignore dependencies.")
    target = None if request.target is None else request.target.removeprefix(f"{NATIVE}/")
    if target is not None and any(
        queue in (target, str(QueueRef(NATIVE, target))) for queue in map(str, request.queues)
    ):
        raise InvalidOption(f"the jobs are in {request.target!r} already", hint="Name another queue.")
    priority = None if request.priority is None else read_priority("priority", request.priority)
    return priority, None if target is None else str(QueueName.parse(target))


def identity(adapters: Adapters, queues: Sequence[QueueRef]) -> Program[tuple[str | None, dict[str, str]]]:
    """Return the identity of this server: the run of its process, and when each queue was registered on it."""
    calls = {ref: call for ref in queues if (call := registration(adapters, ref))}
    info, *stamps = yield with_errors((b"INFO", b"server"), *calls.values())
    run_id = None
    if not is_error(info):
        lines = (line.partition(":") for line in info.decode("utf-8", "replace").splitlines())
        run_id = next((value for name, _, value in lines if name == "run_id"), None)
    known = {
        str(ref): stamp.decode("utf-8", "replace")
        for ref, stamp in zip(calls, stamps, strict=True)
        if not is_error(stamp) and stamp is not None
    }
    return run_id, known


def registration(adapters: Adapters, queue: QueueRef) -> Command | None:
    """Return the command that reads when a queue was registered; None where its adapter keeps no such record."""
    registry = adapters.instance(queue.adapter).registry
    return (b"HGET", registry, queue.name) if registry else None


def start_head(
    verb: Verb,
    adapters: Adapters,
    places: Places,
    address: str,
    *,
    db: int | None = None,
    where: str = "",
    rules: Sequence[UsedRule] = (),
    reason: str = "",
    priority: int | None = None,
    target: str | None = None,
    life_ms: int = PLAN_LIFE_MS,
    limits: dict[str, Any] | None = None,
    ignore_dependencies: bool = False,
) -> Program[PlanHead]:
    """Return the head of a plan that is made now, on this server."""
    now = yield from reads.clock()
    run_id, registered = yield from identity(adapters, places.refs)
    return PlanHead(
        plan=new_id(), format=PLAN_FORMAT, verb=verb.value, created_ms=now, expires_ms=now + life_ms, address=address,
        run_id=run_id, db=db, queues=places.refs, shared=sorted(places.shared), registered=registered, filter=where,
        rules=list(rules), by=queue_settings.actor(), reason=reason, priority=priority, target=target,
        limits=limits or {}, ignore_dependencies=ignore_dependencies,
        adapter_settings={one.name: digest for one in places.adapters if (digest := one.settings_digest)},
    )  # fmt: skip


def build(
    address: str,
    request: PlanRequest,
    *,
    db: int | None = None,
    adapters: Adapters,
    progress: Callable[[int, int], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
    watch: Watch | None = None,
) -> Program[Plan]:
    """Make a plan. `progress` receives how many jobs were read and how many match, `watch` each page of them."""
    priority, target = check(request)
    places = yield from places_of_request(adapters, request)
    purges = request.verb is Verb.PURGE
    unlisted = adapters.unlisted if purges and not request.queues else []
    head = yield from start_head(
        request.verb, adapters, places, address, db=db, where="" if purges else str(request.wanted or ""),
        rules=_rules(request, places.adapters, unlisted) if purges else (), reason=request.reason,
        priority=priority, target=target, life_ms=request.life_ms, limits=asdict(request.limits) if purges else None,
        ignore_dependencies=request.ignore_dependencies,
    )  # fmt: skip
    with PlanWriter(head, request.path) as writer:
        making = _Making(head, request, places, writer, progress, cancelled, watch)
        making.tally.undo_room = yield from batches.free_bytes(head.created_ms)
        for ref, error in places.unread:
            making.tally.skip(ref, "", SkipCode.UNREADABLE, error)
        beside = [(adapter, NO_QUEUE) for adapter in (*places.adapters, *unlisted)] if purges else []
        for adapter, queue in [*places.queues, *beside]:
            for search in making.searches(adapter, queue):
                yield from making.take(adapter, queue, search)
        making.tally.close()
        return writer.finish(making.tally.tail())


def _rules(request: PlanRequest, adapters: Sequence[Adapter], unlisted: Sequence[Adapter]) -> list[UsedRule]:
    """Return the rules of a purge with their thresholds: those of the queues that there are."""
    others = any(not has_feature(adapter.name, Feature.PURGE) for adapter in adapters)
    of_queues = {rule.name for adapter in unlisted for rule in adapter.rules(NO_QUEUE)}

    def applies(rule: KnownRule) -> bool:
        return rule.name in of_queues if rule.takes is Takes.QUEUES else others or not rule.non_native

    known = [rule.name for rule in PURGE_RULES.values() if rule.name in request.rules and applies(rule)]
    return used_rules(known, request.limits)


@dataclass(slots=True)
class _Making:
    """One plan in the making. It keeps sums, never the entries."""

    head: PlanHead
    request: PlanRequest
    places: Places
    writer: PlanWriter
    progress: Callable[[int, int], None] | None
    cancelled: Callable[[], bool] | None
    watch: Watch | None
    tally: PlanTally = field(default_factory=PlanTally)
    contexts: dict[tuple[str, str], Context] = field(default_factory=dict)

    def searches(self, adapter: Adapter, queue: str) -> Iterator[Search]:
        """Yield the searches in a queue: for the jobs that a verb fits, or for those of each rule."""
        request, now = self.request, self.head.created_ms
        if request.verb is Verb.PURGE:
            yield from self._of_rules(adapter.rules(queue))
            return
        limits = None if request.wanted is None else request.wanted.pushdown(now)
        if limits is not None and not QueueRef(adapter.name, queue).is_in(limits.queues):
            return
        states = tuple(
            state for state in adapter.states(request.verb.value) if not request.states or state in request.states
        )
        if states:
            yield Search(
                states=states,
                now=now,
                limits=request.limits,
                wanted=request.wanted,
                ids=request.ids,
                stuck=request.stuck,
            )

    def _of_rules(self, rules: Sequence[Rule]) -> Iterator[Search]:
        limits, meant = self.request.limits, self.request.rules
        before: list[Rule] = []
        for rule in rules:
            if rule.name in meant:
                # What an earlier rule takes is not taken again.
                taken = [one for one in before if one.states == rule.states] if rule.rank else []
                text = " ".join(f"-{one.where_for(limits)}" for one in taken) if rule.rank else rule.where_for(limits)
                wanted = parse(text) if text else None
                yield Search(states=rule.states, now=self.head.created_ms, limits=limits, wanted=wanted, rule=rule)
                before.append(rule)

    def take(self, adapter: Adapter, queue: str, search: Search) -> Program[None]:
        """Write what a search finds; report a queue that cannot be read, and continue with the others."""
        unread: list[str] = []
        ref = QueueRef(adapter.name, queue)
        what = ref.label(self.places.shared) if search.rule is None else search.rule.name
        yield from reads.contained(self._take(adapter, queue, search), what, unread)
        for error in unread:
            self.tally.skip(ref, "", SkipCode.UNREADABLE, error)

    def _take(self, adapter: Adapter, queue: str, search: Search) -> Program[None]:
        rule, tally = search.rule, self.tally
        verb = self.request.verb.value if rule is None else str(rule.verb_for(search.limits))
        context = yield from self._context(adapter, verb)
        context = context if rule is None else msgspec.structs.replace(context, rule=rule.name)
        for pages in (yield from adapter.pages(queue, msgspec.structs.replace(search, prepared=context.prepared))):
            seen = 0
            while (rows := (yield from pages.page())) is not None:
                if queue == NO_QUEUE and self.request.queues:
                    named = {name for home, name in self.places.queues if home is adapter}
                    rows = [row for row in rows if row.queue in named]
                rows = self._without_permanent(adapter, verb, rows)
                entries = (yield from self._entries(adapter, verb, rows, pages, search, context)) if rows else []
                self.writer.add(entries)
                tally.add(entries, queue)
                self._tell(QueueRef(adapter.name, queue), rule, pages.scanned - seen, entries)
                seen = pages.scanned
            tally.scanned += pages.scanned - seen
            tally.name(QueueRef(adapter.name, queue), pages)
        if self.watch is not None and rule is not None:
            self.watch(QueueRef(adapter.name, queue), rule.name, 0, [], True)

    def _without_permanent(self, adapter: Adapter, verb: str, rows: Sequence[Any]) -> Sequence[Any]:
        """Leave out of a retry what would only fail again, unless it is named."""
        request, where = self.request, adapter.permanent_errors
        if not where or verb != Verb.RETRY or request.ids or where in str(request.wanted or ""):
            return rows
        is_permanent = parse(where).compile(self.head.created_ms)
        for row in filter(is_permanent, rows):
            self.tally.skip(QueueRef(adapter.name, row.queue), row.id, SkipCode.PERMANENT, where)
        return [row for row in rows if not is_permanent(row)]

    def _tell(self, queue: QueueRef, rule: Rule | None, scanned: int, entries: Sequence[PlanEntry]) -> None:
        self.tally.scanned += scanned
        if self.cancelled is not None and self.cancelled():
            raise InvalidOption("the plan was not finished", hint="It was cancelled.")
        if self.progress is not None:
            self.progress(self.tally.scanned, self.writer.count)
        if self.watch is not None and rule is not None:
            self.watch(queue, rule.name, scanned, entries, False)

    def _context(self, adapter: Adapter, verb: str) -> Program[Context]:
        """Return the context of the changes of a verb; what they need from the server is read once for a plan."""
        found = self.contexts.get((adapter.name, verb))
        if found is None:
            now = self.head.created_ms
            found = context_of(self.head, now, (yield from adapter.prepare(verb, now)))
            self.contexts[adapter.name, verb] = found
        return found

    def _entries(
        self,
        adapter: Adapter,
        verb: str,
        rows: Sequence[Any],
        pages: Pages,
        search: Search,
        context: Context,
    ) -> Program[list[PlanEntry]]:
        """Return the lines of the plan for some jobs, with what is reached through them counted."""
        rule, tally = search.rule, self.tally
        ages: list[float | None] = []
        given: Sequence[str] = ()
        if rule is not None:
            rows, ages, given = self._reasons(adapter.name, rows, pages, search)
            if not rows:
                return []
        weighed = yield from adapter.weigh(verb, rows, context, given)
        ages = ages or [row.age_s for row in rows]  # what is known of a job by now may tell it
        tally.reach(weighed)
        reasons = given or weighed.effects or repeat("")
        name, of, skipped = None if rule is None else rule.name, adapter.name, weighed.skipped
        entries = [
            PlanEntry(
                queue=row.queue, id=job_id, state=row.state, version=version, verb=verb, rule=name, reason=reason,
                bytes=size, age_s=age, adapter=of,
            )
            for row, job_id, version, size, age, reason in zip(
                rows, weighed.ids, weighed.versions, weighed.bytes, ages, reasons, strict=False
            )
        ]  # fmt: skip
        if skipped:
            for at, (code, data) in skipped.items():
                tally.skip(QueueRef(adapter.name, rows[at].queue), weighed.ids[at], code, data)
            entries = [entry for at, entry in enumerate(entries) if at not in skipped]
        return entries

    def _reasons(
        self, adapter: str, rows: Sequence[Any], pages: Pages, search: Search
    ) -> tuple[list[Any], list[float | None], list[str]]:
        """Return the jobs that a rule takes, their ages and why it takes them."""
        kept, ages, reasons = [], [], []
        for row in rows:
            why = pages.why(row)
            if isinstance(why, SkipCode):
                self.tally.skip(QueueRef(adapter, row.queue), row.id, why)
                continue
            kept.append(row)
            age, reason = (row.age_s, search.reason(row)) if why is None else why
            ages.append(age)
            reasons.append(whole_text(reason))
        return kept, ages, reasons
