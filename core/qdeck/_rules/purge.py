"""Makes the plan of a purge: what each rule takes, with its reason, and what follows from that.

A purge is one pass. Every rule looks at the deck as it was when the plan was made, and what one rule takes is no other
rule's prey in the same plan: the plan is all that the purge does, and doing it is exactly the plan.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from qdeck._deck import workers
from qdeck._deck.reasons import SkipCode
from qdeck._errors import InvalidOption, NotAllowed, QdeckError
from qdeck._operations.foreign import Ground, ground_of
from qdeck._operations.model import PLAN_LIFE_MS, PlanEntry, Verb
from qdeck._operations.planfile import PlanWriter
from qdeck._operations.planning import start_head
from qdeck._operations.request import Sums
from qdeck._redis.errors import LOST
from qdeck._rules import foreign, select
from qdeck._rules.limits import Effect, Limits, Rule

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from qdeck._deck import native
    from qdeck._deck.model import QueueRef
    from qdeck._operations.planfile import Plan
    from qdeck._redis.commands import Program
    from qdeck._rules.select import Pick
    from qdeck.adapters.others import Others

# The effects as the verbs that do them.
_VERBS: Final = {
    Effect.BURY: Verb.BURY,
    Effect.CANCEL: Verb.CANCEL,
    Effect.REQUEUE: Verb.REQUEUE,
    Effect.DISCARD: Verb.DISCARD,
    Effect.FORGET: Verb.DISCARD,
}
Watch = Callable[[str, Rule, int, Sequence[PlanEntry], bool], None]
_DYING: Final = (Effect.BURY, Effect.CANCEL)  # those that wait for such a job do not run any more


def build(
    memory: native.Memory,
    address: str,
    db: int,
    others: Others,
    *,
    rules: Iterable[Rule | str] | None = None,
    limits: Limits | None = None,
    queues: Sequence[str | QueueRef] = (),
    path: Path | None = None,
    life_ms: int | None = None,
    reason: str = "",
    progress: Callable[[int, int], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
    watch: Watch | None = None,
) -> Program[Plan]:
    """Make the plan of a purge of these queues, or of all. `progress` receives how many were looked at and taken.

    `watch` receives each slice: queue, rule, how many were looked at, the entries, and whether it was the last.
    """
    made = _Build(
        tuple(Rule if rules is None else rules), limits or Limits(), tuple(queues), path,
        PLAN_LIFE_MS if life_ms is None else life_ms, reason, progress, cancelled, watch,
    )  # fmt: skip
    return made.run(memory, address, db, others)


class _Build:
    """One plan in the making. It keeps sums, never the entries."""

    def __init__(
        self,
        rules: tuple[Rule | str, ...],
        limits: Limits,
        queues: tuple[str | QueueRef, ...],
        path: Path | None,
        life_ms: int,
        reason: str,
        progress: Callable[[int, int], None] | None,
        cancelled: Callable[[], bool] | None,
        watch: Watch | None,
    ) -> None:
        self.rules = [rule for rule in Rule if rule in rules]
        self.named = rules
        self.limits = limits
        self.queues = queues
        self.path = path
        self.life_ms = life_ms
        self.reason = reason
        self.progress = progress
        self.cancelled = cancelled
        self.watch = watch
        self.sums = Sums()

    def run(self, memory: native.Memory, address: str, db: int | None, others: Others) -> Program[Plan]:
        """Looks through the queues, rule by rule."""
        ground = yield from ground_of(memory, others, self.queues)
        queues = ground.native
        head = yield from start_head(
            Verb.PURGE, ground.refs, address, db=db, where=self._where(ground), reason=self.reason,
            life_ms=self.life_ms, shared=ground.shared, ages=foreign.told_ages(self.limits) if ground.foreign else None,
        )  # fmt: skip
        too_old = Rule.DEAD_TOO_OLD in self.rules
        purge = select.Purge(
            self.limits,
            head.created_ms,
            (yield from _alive(head.created_ms)),
            head.created_ms - self.limits.age_ms(Rule.DEAD_TOO_OLD) if too_old else None,
        )
        for ref, error in ground.unread:
            self.sums.skip(ref.name, "", SkipCode.UNREADABLE, error, ref.adapter)
        with PlanWriter(head, self.path) as writer:
            for queue in queues:
                for rule in self.rules:
                    yield from self._take(writer, purge, queue, rule)
            more = foreign.Taking(
                writer, self.sums, self.limits, self.named, progress=self.progress, cancelled=self.cancelled
            )
            for adapter in dict.fromkeys(adapter for adapter, _ in ground.foreign):
                named = [queue for home, queue in ground.foreign if home is adapter] if self.queues else ()
                yield from more.take(adapter, named, head)
            return writer.finish(self.sums.tail())

    def _where(self, ground: Ground) -> str:
        told = [f"{rule.value} ({self.limits.told(rule)})" for rule in self.rules]
        return "; ".join(told + (foreign.told(self.named, self.limits) if ground.foreign else []))

    def _take(self, writer: PlanWriter, purge: select.Purge, queue: str, rule: Rule) -> Program[None]:
        place: select.Place | None = None
        while True:
            try:
                found = yield from select.take(purge, queue, rule, place)
            except (NotAllowed, *LOST):
                raise
            except QdeckError as error:  # a key of this queue is not ours: the other queues go on
                self.sums.skip(queue, "", SkipCode.UNREADABLE, f"{rule.value}: {error}")
                return
            self.sums.scanned += found.scanned
            for job_id in found.skipped:
                self.sums.skip(queue, job_id, SkipCode.NO_LEASE)
            entries = [entry for pick in found.picks if (entry := self._entry(pick)) is not None]
            writer.add(entries)
            self.sums.add(entries)
            self._look_around(found.picks)
            if self.cancelled is not None and self.cancelled():
                raise InvalidOption("the plan was not finished", hint="it was cancelled")
            if self.progress is not None:
                self.progress(self.sums.scanned, writer.count)
            if self.watch is not None:
                self.watch(queue, rule, found.scanned, entries, found.place is None)
            place = found.place
            if place is None:
                return

    def _entry(self, pick: Pick) -> PlanEntry | None:
        if not pick.id.isascii():
            self.sums.skip(pick.queue, ascii(pick.id), SkipCode.ID_NOT_TEXT)
            return None
        return PlanEntry(
            queue=pick.queue,
            id=pick.id,
            state=pick.state,
            version=pick.seen,
            verb=_VERBS[pick.effect].value,
            rule=pick.rule.value,
            reason=pick.reason,
            bytes=pick.bytes,
            age_s=pick.age_s,
        )

    def _look_around(self, picks: Sequence[Pick]) -> None:
        """Counts what else a purge reaches: jobs that others wait for, unique names, failure handlers."""
        self.sums.unique += sum(pick.is_unique for pick in picks)
        self.sums.failure_handlers += sum(pick.has_handler and pick.effect is Effect.BURY for pick in picks)
        self.sums.dependents += sum(pick.has_dependents and pick.effect in _DYING for pick in picks)


def _alive(now: int) -> Program[frozenset[str] | None]:
    try:
        rows = yield from workers.list_workers(now)
    except LOST:
        raise
    except QdeckError:
        return None
    return frozenset(row.id for row in rows if row.alive)


def counts(plan: Plan) -> Counter[str]:
    """How many entries each rule took; what an agent counts and logs."""
    return Counter(plan.tail.rules)
