"""Readers: every queue of a server, its jobs, dead letters, workers, schedules, health, and dry runs.

A reader has no method that writes. What only some methods need is imported in them: most commands read once, and end
before the rest would be loaded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from qdeck._model.queue_ref import Feature
from qdeck._server import native_queues
from qdeck.adapters.native import SLICE
from qdeck.admin import _listing
from qdeck.admin._client import Asynchronous, Blocking, lists, reads
from qdeck.admin._plans import Plans, Queues, States, names, need_states, parsed

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from qdeck._filter import Filter
    from qdeck._model.values import (
        Finding,
        JobDetail,
        JobLocation,
        JobRecord,
        Page,
        Pause,
        QueueRef,
        Snapshot,
        State,
        WorkerRow,
    )
    from qdeck._redis.commands import Program
    from qdeck._rules.doctor import Diagnosis
    from qdeck._rules.health import HealthReport
    from qdeck._schedules.model import Definition, ScheduleRow
    from qdeck._server.agent_tasks import AgentTask
    from qdeck._server.history import Sample
    from qdeck._server.server_stats import ServerStats
    from qdeck._settings import Configuration, Target
    from qdeck._settings.limits import Limits
    from qdeck.adapters.groups import CountedGroup, Groups
    from qdeck.adapters.native.dead_limits import Headroom
    from qdeck.adapters.native.groups import GroupWalk
    from qdeck.adapters.native.list_window import Stretch
    from qdeck.adapters.native.queue_details import CloseUp
    from qdeck.adapters.native.walk import Walk as FilterWalk
    from qdeck.adapters.plans import StuckJob
    from qdeck.adapters.search import IdSearch
    from qdeck.admin._listing import JobListing
    from qdeck.messages._cleaning import Cleaning, OrphanCleaning
    from qdeck.messages._task_pages import QueuePage, TaskPage, TaskRow


class Reads(Plans):
    """The methods that readers and writers have in common, each written once."""

    @reads
    def snapshot(self, visible: Collection[QueueRef] | None = None) -> Program[Snapshot]:
        """Return all queues as they are now. `visible` names the queues whose expensive numbers are read; by default
        all.
        """
        return self.adapters.look(visible)

    @reads
    def explained(self, snapshot: Snapshot) -> Program[Snapshot]:
        """Return a snapshot with the causes of its worst problems: errors, stuck jobs, the last worker of a queue.

        They are read again every few seconds at most, and of some queues in each call.
        """
        if self._causes is None:
            from qdeck._rules.causes import Causes

            self._causes = Causes(self.adapters)
        return self._causes.explained(snapshot)

    @reads
    def page(
        self,
        queue: str | QueueRef,
        *,
        state: States | None = None,
        where: str = "",
        cursor: str | None = None,
        newest: bool | None = None,
        bodies: bool = True,
        most: int = SLICE,
    ) -> Program[Page]:
        """Return the next slice of a list of jobs, by default of every state; `cursor` is that of the page before.

        At most `most` entries (500) are read, and those that match `where` are returned: an empty page is not the end,
        a cursor of None is. Without `bodies` the payloads are not read.
        """
        from qdeck.adapters.model import ALL, Part

        return self._page(
            queue,
            need_states(state),
            parsed(where),
            cursor=cursor,
            newest=newest,
            want=ALL if bodies else ALL - {Part.BODY},
            most=most,
        )

    def _page(
        self,
        queue: str | QueueRef,
        states: Sequence[State],
        wanted: Filter,
        *,
        cursor: str | None = None,
        most: int = SLICE,
        **options: Any,
    ) -> Program[Page]:
        ref, adapter = yield from self.adapters.resolve(queue)
        return (yield from adapter.page(ref.name, states, wanted=wanted, cursor=cursor, most=most, **options))

    @reads
    def resolve(self, queue: str | QueueRef) -> Program[QueueRef]:
        """Return the queue of a name or of `adapter/name`; raise for one that does not exist.

        A name that queues of several adapters have is refused; the hint has the choices.
        """
        return self._need(queue)

    def _need(self, queue: str | QueueRef) -> Program[QueueRef]:
        ref, adapter = yield from self.adapters.resolve(queue)
        yield from adapter.need(ref.name)
        return ref

    @reads
    def pause_of(self, queue: str | QueueRef) -> Program[Pause | None]:
        """Return who paused a queue, when and why; None when it is not paused, or its system does not store it."""
        from qdeck._server import queue_settings

        ref, adapter = yield from self.adapters.resolve(queue)
        if Feature.PAUSE not in adapter.features:
            return None
        if adapter is not self.adapters.native:
            from qdeck._operations import pausing

            return (yield from pausing.read_pause(adapter, ref.name))
        return (yield from queue_settings.read_pause(self.cache, ref.name))

    @reads
    def job(self, queue: str | QueueRef, job_id: str) -> Program[JobDetail]:
        """Return all that is known of one job."""
        ref, adapter = yield from self.adapters.resolve(queue)
        return (yield from adapter.job(ref.name, job_id))

    @lists
    def jobs(
        self,
        queue: str | QueueRef,
        *,
        state: States | None = None,
        where: str = "",
        limit: int | None = None,
        newest: bool | None = None,
    ) -> Program[JobListing]:
        """Return the jobs of a queue as they are read, all of them or the first `limit`.

        `ready` is in the order in which it will run, jobs that ended start with the newest.
        """
        return _listing.of_queue(self.adapters, queue, need_states(state), parsed(where), limit=limit, newest=newest)

    @lists
    def dead_letters(
        self,
        queues: Queues = (),
        *,
        where: str | Filter = "",
        limit: int | None = None,
        unread: list[str] | None = None,
    ) -> Program[JobListing]:
        """Return the dead letters of some queues, or of all, as they are read: the newest first, of every system.

        Those for which no time is stored are last. Queues that cannot be read are added to `unread`; without it, one
        that is named raises.
        """
        return _listing.dead_letters(self.adapters, names(queues), parsed(where), limit=limit, unread=unread)

    @reads
    def jobs_now(self, queue: str, job_ids: Sequence[str]) -> Program[list[JobRecord | None]]:
        """Return these jobs of a native queue in their current states; None for one that is gone."""
        from qdeck.adapters.native import list_window

        return list_window.read_some(queue, job_ids)

    @reads
    def find(self, job_id: str | IdSearch, unread: list[str] | None = None) -> Program[list[JobLocation]]:
        """Return where the jobs of an id are, in every queue.

        The id is that of a job, a task or a correlation, or the name of a job. States are searched by id first, then
        the queues are read. Queues that cannot be read are added to `unread`; an `IdSearch` has them, too, reports
        progress and names the queues that it read in part.
        """
        from qdeck.adapters.search import IdSearch

        search = job_id if isinstance(job_id, IdSearch) else IdSearch(wanted=job_id)
        if unread is not None:
            search.unread = unread
        return self.adapters.find(search)

    @reads
    def stretch(
        self,
        queue: str,
        state: str,
        first: int,
        most: int,
        *,
        newest: bool | None = None,
        around: str | None = None,
    ) -> Program[Stretch]:
        """Return the jobs at these places of a native list, or at the places around one of them."""
        from qdeck.adapters.native import list_window

        return list_window.read_stretch(queue, state, first, most, newest=newest, around=around)

    @reads
    def stretch_after(
        self, queue: str, state: str, met: Sequence[str], until: str, last: int, *, newest: bool | None = None
    ) -> Program[Stretch]:
        """Return the next jobs of a native list behind those in `met`, up to `until`."""
        from qdeck.adapters.native import list_window

        return list_window.read_onward(queue, state, met, until, last, newest=newest)

    @reads
    def present(self, queue: str, state: str, job_ids: Sequence[str]) -> Program[list[bool]]:
        """Return which of these jobs are still in a native list."""
        from qdeck.adapters.native import list_window

        return list_window.read_present(queue, state, job_ids)

    @reads
    def filtered(self, walk: FilterWalk) -> Program[list[str] | None]:
        """Return the ids of the next matches of a walk through a native list; None at the end."""
        rows = yield from walk.page()
        return None if rows is None else [row.id for row in rows]

    @reads
    def histories(self, queues: Sequence[str], *, seconds: float = 3600) -> Program[dict[str, list[Sample]]]:
        """Return the samples that agents took of each of these queues, oldest first."""
        from qdeck._server import history

        return history.read_history(queues, seconds=seconds)

    @reads
    def history(self, queue: str, *, seconds: float = 86_400) -> Program[list[Sample]]:
        """Return the samples that agents took of a queue, oldest first; raise for an unknown queue."""
        from qdeck._server import history

        yield from native_queues.need_queue(self.cache, queue)
        return (yield from history.read_history([queue], seconds=seconds))[queue]

    @reads
    def workers(self) -> Program[list[WorkerRow]]:
        """Return all workers, the live ones first."""
        return self.adapters.workers()

    @reads
    def queue_details(self, queue: str) -> Program[CloseUp]:
        """Return the times, deaths and outcomes of one native queue."""
        from qdeck.adapters.native import queue_details

        return queue_details.read_close_up(queue)

    @reads
    def dead_limits(self, queues: Sequence[str]) -> Program[list[Headroom]]:
        """Return how close the dead letters of each of these native queues are to its limits."""
        from qdeck.adapters.native import dead_limits

        return dead_limits.read_headroom(queues)

    @reads
    def groups(
        self,
        queues: Queues = (),
        *,
        where: str | Filter = "",
        most_read: int | None = None,
        cancelled: Callable[[], bool] | None = None,
    ) -> Program[Groups]:
        """Return the dead letters of some queues, or of all, in groups of one signature."""
        from qdeck._operations import groups

        return groups.all_groups(self.adapters, names(queues), parsed(where), most_read=most_read, cancelled=cancelled)

    @reads
    def queue_groups(self, queue: str) -> Program[Groups]:
        """Return the groups of one native queue as it counts them; inexact where it does not count them all."""
        from qdeck._operations import groups

        return groups.read_groups([(self.adapters.native, queue)], most_read=1)

    @reads
    def counted_groups(self, queues: Sequence[str]) -> Program[dict[str, Groups]]:
        """Return the groups of each native queue that counts them, without trends, in a few round trips."""
        from qdeck.adapters.native import groups

        return groups.read_counted(self.adapters.native.name, queues)

    @reads
    def gather(self, walk: GroupWalk) -> Program[bool]:
        """Read one more page of dead letters into groups; return whether the queue could be read."""
        from qdeck._redis import reads as plain

        return (yield from plain.contained(walk.page(), walk.queue, walk.gathering.unread)) is not None

    @reads
    def related(self, queue: str, refs: Iterable[str]) -> Program[Mapping[str, JobRecord]]:
        """Return the jobs that a job of this queue waits for, or that wait for it."""
        from qdeck.adapters.native import related_jobs

        return related_jobs.read_related(queue, refs)

    @reads
    def same_failure(self, queue: str, job_id: str) -> Program[CountedGroup | None]:
        """Return the group of dead letters that a job belongs to."""
        from qdeck.adapters.native import related_jobs

        return related_jobs.read_kin(queue, job_id)

    @reads
    def stuck(
        self,
        queues: Queues = (),
        *,
        where: str | Filter = "",
        limit: int | None = None,
        unread: list[str] | None = None,
        each: Callable[[list[StuckJob]], None] | None = None,
        cancelled: Callable[[], bool] | None = None,
    ) -> Program[list[StuckJob]]:
        """Return the stuck jobs of some queues, or of all, each with the reason.

        With `each` they are passed on page by page, however many, and none is kept. Queues that cannot be read are
        added to `unread`.
        """
        from qdeck._operations import stuck

        return stuck.all_stuck(
            self.adapters, names(queues), parsed(where), limit,
            unread=[] if unread is None else unread, each=each, cancelled=cancelled,
        )  # fmt: skip

    @reads
    def stuck_running(
        self,
        queue: str,
        workers: Mapping[str, WorkerRow],
        now_ms: int,
        *,
        where: str = "",
        limit: int,
        most_read: int,
    ) -> Program[tuple[list[StuckJob], bool]]:
        """Return the first stuck jobs that run in a native queue, and whether all that run were read.

        The caller has the workers and the server's clock; about `most_read` running jobs are read.
        """
        from qdeck.adapters.native import stuck

        return stuck.read_running(queue, workers, parsed(where), now_ms, limit, most_read)

    @reads
    def schedules(self) -> Program[list[ScheduleRow]]:
        """Return all schedules, and the recurring jobs of other systems."""
        from qdeck._schedules import store

        return [*(yield from store.read()), *(yield from self.adapters.schedules())]

    @reads
    def schedule_pause(self, name: str) -> Program[Pause]:
        """Return who paused a schedule, when and why, from the log of operations; empty where that is not logged."""
        from qdeck._operations import activity
        from qdeck._server import activity_log

        return activity.find_pause("pause", activity_log.schedule(name))

    @reads
    def quiet_request(self, worker: str) -> Program[Pause]:
        """Return who asked a worker to be quiet, from the log of operations; empty where that is not logged."""
        from qdeck._operations import activity
        from qdeck._server import activity_log

        return activity.find_pause("quiet", activity_log.worker(worker))

    @reads
    def schedule(self, name: str) -> Program[Definition]:
        """Return the definition of a schedule."""
        from qdeck._schedules import store

        return store.get(name)

    @reads
    def agent_tasks(self, names: Sequence[str]) -> Program[list[AgentTask]]:
        """Return the last run of each of these maintenance tasks."""
        from qdeck._server import agent_tasks

        return agent_tasks.read(names)

    @reads
    def vitals(self) -> Program[ServerStats]:
        """Return the server's statistics: INFO and the newest entries of the slow log."""
        from qdeck._server import server_stats

        return server_stats.read_stats()

    @reads
    def count_keys(self) -> Program[int | None]:
        """Return how many keys the server has; None without the right to count them."""
        from qdeck._server import server_stats

        return server_stats.count_keys()

    @reads
    def health(self, limits: Limits | None = None, *, orphans: bool = True) -> Program[HealthReport]:
        """Return the health report. A second one by the same reader has rates too."""
        from qdeck._rules import health
        from qdeck._settings.limits import Limits

        return health.report(self.adapters, limits or Limits(), orphans=orphans)

    @reads
    def dated(self, findings: Sequence[Finding], now_ms: int) -> Program[tuple[Finding, ...]]:
        """Return the findings, each with the time from which it holds if an agent recorded it."""
        from qdeck._server import finding_times

        return finding_times.dated(findings, self.thresholds, now_ms)

    @reads
    def diagnosis(self, configuration: Configuration, target: Target, *, read_only: bool) -> Program[Diagnosis]:
        """Check the configuration, then the server and the rights that this user has on it."""
        from qdeck._rules import doctor

        return doctor.diagnose(self.address, self.adapters, self.thresholds, configuration, target, read_only=read_only)

    @reads
    def temporary_tasks(self, *, after: str = "", most: int = 500) -> Program[TaskPage]:
        """Return the tasks that own temporary queues, by name."""
        from qdeck.messages import _task_pages

        return _task_pages.read_tasks(after=after, most=most)

    @reads
    def task_sets(self, search: OrphanCleaning) -> Program[tuple[TaskRow, ...]]:
        """Return the tasks whose sets `task_queues:<task>` a search has found, as they are now."""
        from qdeck.messages import _task_pages

        return _task_pages.read_sets(search.sets)

    @reads
    def temporary_queues(self, *, task: str | None = None, start: int = 0, most: int = 500) -> Program[QueuePage]:
        """Return the temporary queues of a task, or of all, those first that expire first."""
        from qdeck.messages import _task_pages

        return _task_pages.read_queues(task=task, start=start, most=most)

    @reads
    def search_temporary(self, cleaning: Cleaning) -> Program[bool]:
        """Search one more slice for temporary queues that a cleaning would remove; return whether there is more.

        The cleaning has to be a dry run; its report has the result.
        """
        return cleaning.step()


class Reader(Reads, Blocking):
    """Reads the queues of a server, in blocking code."""


class AsyncReader(Reads, Asynchronous):
    """Reads the queues of a server, in asyncio."""
