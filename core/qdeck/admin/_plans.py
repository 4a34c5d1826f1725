"""Dry runs, and the outcomes of the jobs of a plan."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from qdeck._errors import InvalidOption
from qdeck._model.values import QueueRef, State
from qdeck.adapters.native import ALL_STATES
from qdeck.admin._client import Client, reads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from qdeck._filter import Filter
    from qdeck._model.reasons import Skip
    from qdeck._model.values import JobRecord
    from qdeck._model.words import Verb
    from qdeck._operations.batches import Batch
    from qdeck._operations.model import Activity, Outcomes
    from qdeck._operations.outcomes import BatchOutcomes, JobOutcome
    from qdeck._operations.planfile import Plan
    from qdeck._operations.request import Watch
    from qdeck._redis.commands import Program
    from qdeck._settings.limits import Limits
    from qdeck.adapters.native.editing import Draft

Queues = str | QueueRef | Sequence[str | QueueRef]
States = str | Sequence[str]


class Plans(Client):
    """The methods of a reader that plan operations, and those that return their outcomes."""

    def narrowed(self, queue: str | None, where: str = "") -> tuple[tuple[str, ...], str]:
        """Return the queues and the filter for a name and a filter that were typed; without a name, all queues.

        The name of a key, such as `scheduler:queue:dlq` or `NAME:dead_letter`, stands for the jobs in it.
        """
        if queue is None:
            return (), where
        found = self.adapters.of_key(queue)
        if found is None:
            return (queue,), _both("state:dead" if ":dead_letter:" in f"{queue}:" else "", where)
        adapter, name, only = found
        return ((f"{adapter}/{name}",) if name else ()), _both(only if name else f"adapter:{adapter} {only}", where)

    @reads
    def full_ids(self, queues: Queues, ids: Sequence[str]) -> Program[tuple[str, ...]]:
        """Return the ids that short forms stand for: the beginning of one, one with `…`, or the name of a job.

        One that names no job is returned as it is; raise for one that names several.
        """
        from qdeck._operations import short_ids

        return short_ids.full_ids(self.adapters, names(queues), ids)

    @reads
    def activity(self, since_ms: int | None = None) -> Program[list[Activity]]:
        """Return the log of operations, oldest first, with those that are running or were interrupted."""
        from qdeck._operations import activity, interrupted

        return interrupted.with_open(self.adapters, activity.read(since_ms), since_ms)

    @reads
    def recent_activity(self, most: int = 500) -> Program[list[Activity]]:
        """Return the last operations, newest first, with those that are running or were interrupted."""
        from qdeck._operations import activity, interrupted

        return interrupted.with_open(self.adapters, activity.newest(most), newest_first=True)

    @reads
    def batch_outcomes(self, batch: str) -> Program[BatchOutcomes]:
        """Return what happened to the jobs of a batch."""
        from qdeck._operations import outcomes

        return outcomes.of_batch(batch, self.adapters)

    @reads
    def batches(self) -> Program[dict[str, Batch]]:
        """Return the batches that can be undone, by id."""
        from qdeck._operations import batches

        return batches.read()

    @reads
    def interrupted(self) -> Program[tuple[list[Batch], int | None]]:
        """Return the batches of this user whose process ended before they did, and after how many ms to read them
        again.
        """
        from qdeck._operations import interrupted

        return interrupted.own(self.adapters)

    @reads
    def find_batch(self, batch: str | None = None) -> Program[Batch]:
        """Return the batch that `undo` of the same argument would revert, with what it did."""
        from qdeck._operations import undoing

        return undoing.find_counted(self.adapters, batch)

    @reads
    def plan(
        self,
        verb: str | Verb,
        queues: Queues = (),
        *,
        where: str | Filter = "",
        ids: Sequence[str] = (),
        state: States | None = None,
        priority: int | str | None = None,
        target: str | None = None,
        stuck: bool = False,
        ignore_dependencies: bool = False,
        reason: str = "",
        path: Path | None = None,
        progress: Callable[[int, int], None] | None = None,
        cancelled: Callable[[], bool] | None = None,
    ) -> Program[Plan]:
        """Return exactly what a verb would do to the named jobs, or to all matching jobs, of some queues or of all.

        With `stuck`, only stuck running jobs are taken. A retried job that died with a dependency waits for it again,
        unless `ignore_dependencies` is set.
        """
        from qdeck._operations import planning
        from qdeck._operations.model import planned_verb
        from qdeck._operations.request import PlanRequest

        request = PlanRequest(
            verb=planned_verb(verb), queues=names(queues), wanted=parsed(where), ids=tuple(ids),
            states=() if state is None else need_states(state), priority=priority, target=target, stuck=stuck,
            ignore_dependencies=ignore_dependencies, reason=reason, path=path,
        )  # fmt: skip
        return planning.build(
            self.address, request, db=self.endpoint.db, adapters=self.adapters, progress=progress,
            cancelled=cancelled,
        )  # fmt: skip

    @reads
    def plan_jobs(
        self,
        verb: str | Verb,
        jobs: Sequence[JobRecord],
        *,
        priority: int | str | None = None,
        target: str | None = None,
        reason: str = "",
    ) -> Program[tuple[Plan, list[Skip]]]:
        """Return the plan of jobs as they were shown; one that changed since then is among the skipped."""
        from qdeck._operations import selected_jobs
        from qdeck._operations.model import planned_verb

        return selected_jobs.plan(
            self.address, self.adapters, jobs, planned_verb(verb), priority=priority, target=target, reason=reason,
            db=self.endpoint.db,
        )  # fmt: skip

    @reads
    def plan_purge(
        self,
        rules: Iterable[str] | None = None,
        limits: Limits | None = None,
        *,
        queues: Queues = (),
        path: Path | None = None,
        life_ms: int | None = None,
        reason: str = "",
        progress: Callable[[int, int], None] | None = None,
        cancelled: Callable[[], bool] | None = None,
        watch: Watch | None = None,
    ) -> Program[Plan]:
        """Return exactly what a purge by these rules would remove; without rules, by the default ones.

        `progress` receives how many jobs were read and how many were taken; `watch` receives each slice: the queue, the
        rule, how many jobs were read, the entries, and whether it was the last slice.
        """
        from qdeck._model.words import Verb
        from qdeck._operations import planning
        from qdeck._operations.model import PLAN_LIFE_MS
        from qdeck._operations.request import PlanRequest
        from qdeck._settings.limits import Limits, default_rules

        request = PlanRequest(
            verb=Verb.PURGE, queues=names(queues), rules=default_rules() if rules is None else tuple(map(str, rules)),
            limits=limits or Limits(), path=path, life_ms=PLAN_LIFE_MS if life_ms is None else life_ms, reason=reason,
        )  # fmt: skip
        return planning.build(
            self.address, request, db=self.endpoint.db, adapters=self.adapters, progress=progress,
            cancelled=cancelled, watch=watch,
        )  # fmt: skip

    @reads
    def outcomes(self, plan: Plan) -> Program[Outcomes]:
        """Return what happened to the jobs of an applied plan."""
        from qdeck._operations import outcomes

        return outcomes.of_plan(plan, self.adapters)

    @reads
    def sample_outcomes(self, plan: Plan, most: int) -> Program[tuple[JobOutcome, ...]]:
        """Return what happened to each of the first jobs of an applied plan."""
        from qdeck._operations import outcomes

        return outcomes.of_sample(plan, self.adapters, most)

    def outcome_evidence(self, plan: Plan) -> str:
        """Return a sentence on how complete the outcomes of a plan's jobs are; empty where they are complete."""
        from qdeck._operations.outcomes import PlanOutcomes

        return PlanOutcomes(plan, self.adapters).evidence

    @reads
    def draft(self, queue: str | QueueRef, job_id: str) -> Program[Draft]:
        """Return a job whose payload is to be edited; raise for one that cannot be."""
        from qdeck.adapters.native import editing

        ref, adapter = yield from self.adapters.resolve(queue)
        if why := adapter.why_not("edit"):
            raise InvalidOption(why, hint="Edit its entries in their own system.")
        return (yield from editing.read_draft(ref.name, job_id))


def need_states(given: States | None) -> tuple[State, ...]:
    """Return the named states, all when none is named."""
    if given is None:
        return ALL_STATES
    words = [given] if isinstance(given, str) else given
    try:
        return tuple(State(word) for word in words)
    except ValueError as error:
        raise InvalidOption(f"{error}", hint=f"Use one of: {', '.join(State)}") from error


def names(queues: Queues) -> tuple[str | QueueRef, ...]:
    """Return the queues of an argument that may be one."""
    return (queues,) if isinstance(queues, str | QueueRef) else tuple(queues)


def _both(only: str, where: str) -> str:
    """Return the filter that is both."""
    parts = (only, f"({where})" if where.strip() and only else where)
    return " ".join(part for part in parts if part.strip())


def parsed(where: str | Filter) -> Filter:
    """Return the filter of an argument that may be its text."""
    from qdeck._filter import parse

    return parse(where) if isinstance(where, str) else where
