"""What a purge takes of the queues of other systems: each adapter says what is stale, here it goes into the plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from qdeck._deck.reasons import SkipCode
from qdeck._errors import InvalidOption, NotAllowed, QdeckError
from qdeck._operations.foreign import SLICE, build_changes, plan_entry
from qdeck._redis.errors import LOST
from qdeck._rules.limits import HOUR_S, Limits, Rule
from qdeck._settings.model import FOREIGN_RULES
from qdeck.adapters.model import Act, Ages

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from qdeck._operations.model import PlanHead
    from qdeck._operations.planfile import PlanWriter
    from qdeck._operations.request import Sums
    from qdeck._redis.commands import Program
    from qdeck.adapters.adapter import Adapter
    from qdeck.adapters.model import Stale

_SHARED: Final = (Rule.READY_TOO_OLD, Rule.DONE_TOO_OLD, Rule.DEAD_TOO_OLD, Rule.DEAD_TOO_MANY, Rule.ORPHANED_RECORDS)


def ages_of(limits: Limits) -> Ages:
    """The thresholds of a purge in the words of the adapters."""
    return Ages(
        max_pending_age=limits.max_pending_age,
        max_ready_age=limits.max_ready_age,
        max_ready_age_pool=limits.max_ready_age_pool,
        max_completed_age=limits.max_completed_age,
        max_orphaned_age=limits.max_orphaned_age,
        max_request_age=limits.max_request_age,
        done_age=limits.max_task_age,
        dlq_ttl_s=round(limits.dlq_ttl * HOUR_S),
        dlq_max_entries=limits.dlq_max_entries,
        dlq_enabled=int(limits.dlq_enabled),
    )


def told_ages(limits: Limits) -> dict[str, int | None]:
    """The same for the head of a plan."""
    found: dict[str, int | None] = msgspec.to_builtins(ages_of(limits))
    return found


def chosen(rules: Collection[str]) -> frozenset[str]:
    """The rules of other adapters that are meant: those that are named, and all where all of our own are."""
    if all(rule in rules for rule in Rule):
        return frozenset((*_SHARED, *FOREIGN_RULES))
    return frozenset(rule for rule in (*_SHARED, *FOREIGN_RULES) if rule in rules)


def told(rules: Collection[str], limits: Limits) -> list[str]:
    """The rules that only other adapters have, with their thresholds, for the head of a plan."""
    settings = {
        "pending_too_old": f"max_pending_age {limits.max_pending_age:,} s",
        "request_too_old": f"max_request_age {limits.max_request_age:,} s",
        "task_too_old": f"max_task_age {limits.max_task_age:,} s",
        "broken_entries": "no name that the scheduler reads",
        "overdue_delayed": "due for over 60 s",
    }
    meant = chosen(rules)
    return [f"{rule} ({settings[rule]})" for rule in FOREIGN_RULES if rule in meant]


class Taking:
    """What of other adapters goes into one plan."""

    def __init__(
        self,
        writer: PlanWriter,
        sums: Sums,
        limits: Limits,
        rules: Collection[str],
        *,
        progress: Callable[[int, int], None] | None = None,
        cancelled: Callable[[], bool] | None = None,
    ) -> None:
        self.writer, self.sums = writer, sums
        self.ages = ages_of(limits)
        self.rules = chosen(rules)
        self.progress, self.cancelled = progress, cancelled

    def take(self, adapter: Adapter, queues: Collection[str], head: PlanHead) -> Program[None]:
        """Goes through one adapter; of its queues only those named, where some are."""
        cursor: str | None = None
        met: set[int] = set()
        while self.rules:
            try:
                page = yield from adapter.stale(self.ages, head.created_ms, cursor)
            except (NotAllowed, *LOST):
                raise
            except QdeckError as error:  # a key of this adapter is not what it should be: the other adapters go on
                self.sums.skip("", "", SkipCode.UNREADABLE, str(error), adapter.name)
                return
            self.sums.scanned += page.scanned
            found = []
            for one in page.found:
                mark = hash((one.entry.key, one.entry.seen))
                fits = one.rule in self.rules and (not queues or one.entry.queue in queues)
                if fits and mark not in met:  # a scan may show an entry twice
                    met.add(mark)
                    found.append(one)
            for some in _alike(found):
                try:
                    yield from self._write(adapter, some, head)
                except (NotAllowed, *LOST):
                    raise
                except QdeckError as error:  # a key beside these entries is not what it should be
                    self.sums.skip(some[0].entry.queue, "", SkipCode.UNREADABLE, str(error), adapter.name)
            if self.cancelled is not None and self.cancelled():
                raise InvalidOption("the plan was not finished", hint="it was cancelled")
            if self.progress is not None:
                self.progress(self.sums.scanned, self.writer.count)
            cursor = page.cursor
            if cursor is None:
                return

    def _write(self, adapter: Adapter, some: Sequence[Stale], head: PlanHead) -> Program[None]:
        act = some[0].act
        shared = yield from adapter.outfit(act, head.created_ms)
        options: list[dict[str, Any]] = [{**shared, "ages": self.ages, "reason": one.reason} for one in some]
        built = yield from build_changes(adapter, act, [one.entry for one in some], head.created_ms, options)
        entries = [
            entry
            for one, change in zip(some, built, strict=True)
            if (entry := plan_entry(one.entry, act, change, self.sums, reason=one.reason, rule=one.rule)) is not None
        ]
        self.writer.add(entries)
        self.sums.add(entries)


def _alike(found: Sequence[Stale]) -> Iterator[list[Stale]]:
    """As many at a time as are of one queue, rule and act, a step of work at most."""
    part: list[Stale] = []
    kind: tuple[str, str, Act] | None = None
    for one in found:
        mine = (one.entry.queue, one.rule, one.act)
        if part and (mine != kind or len(part) == SLICE):
            yield part
            part = []
        kind = mine
        part.append(one)
    if part:
        yield part
