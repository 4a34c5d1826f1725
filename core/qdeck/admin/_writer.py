"""Writers: apply plans, undo batches, pause and limit queues, edit jobs, change schedules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from qdeck._errors import InvalidOption, NotAllowed
from qdeck._model.queue_ref import Feature
from qdeck.admin._client import ClientOptions, writes
from qdeck.admin._reader import AsyncReader, Reader, Reads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from datetime import datetime, timedelta

    from qdeck._engine.transitions import EnqueueResult
    from qdeck._model.values import Pause, QueueRef, QueueSettings
    from qdeck._operations.applying import ApplyOptions
    from qdeck._operations.batches import Batch
    from qdeck._operations.model import Activity, BatchResult, Outcomes, UndoResult
    from qdeck._operations.planfile import Plan
    from qdeck._operations.schedule_changes import ScheduleChange
    from qdeck._queue_names import QueueName
    from qdeck._redis.commands import Program
    from qdeck._settings import Target
    from qdeck.adapters.adapter import Adapter
    from qdeck.adapters.native.editing import Draft
    from qdeck.messages._cleaning import Cleaning
    from qdeck.messages._removal import CleanReport


T = TypeVar("T")


class Writes(Reads):
    """The methods that change something, each written once."""

    _refused: NotAllowed | None = None

    def __init__(self, url: str, *, production: Sequence[Target] = (), **options: Unpack[ClientOptions]) -> None:
        super().__init__(url, **options)
        self._production = tuple(production)

    def need_writable(self) -> None:
        """Raise when this is a production server that may not be written to; compared before the first write."""
        self._before_write()

    def _before_write(self) -> None:
        if self._refused is not None:
            raise NotAllowed.read_only(self.address, hint=self._refused.hint)
        if not self._production:
            return
        from qdeck._server import server_identity

        try:
            server_identity.check(self.endpoint, self._production)
        except NotAllowed as error:
            self._refused = error
            raise
        self._production = ()

    @writes
    def apply(self, plan: Plan, **options: Unpack[ApplyOptions]) -> Program[BatchResult]:
        """Apply a plan to each entry that is unchanged since it was made; continue where an earlier run ended.

        A plan whose file was changed since it was made is refused. `rate` limits the entries a second; `progress`
        receives the totals after each slice; `cancelled` ends it when it returns true; `keep_bytes` and `keep_ms`
        limit what is kept for undo.
        """
        from qdeck._operations import applying

        return applying.apply_steps(plan, self.adapters, self.endpoint.db, **options)

    @writes
    def redrive(
        self,
        plan: Plan,
        *,
        sample: int | None = None,
        patience_s: float | None = None,
        grace_s: float = 3.0,
        watched: Callable[[Outcomes, int], None] | None = None,
        **options: Unpack[ApplyOptions],
    ) -> Program[tuple[BatchResult, Outcomes]]:
        """Apply a plan of retries: `sample` jobs first, then the rest at `rate`; stop when they die again.

        The sample has `patience_s` to end; jobs without an outcome are watched for `grace_s`. `watched` receives the
        outcomes of the jobs that were retried last, and how many these are.
        """
        from qdeck._operations import redrive

        watch = redrive.Watch(
            plan, self.adapters, sample=sample, patience_s=patience_s, grace_s=grace_s, watched=watched
        )
        return redrive.redrive_steps(plan, self.adapters, self.endpoint.db, watch, **options)

    @writes
    def undo(
        self,
        batch: str | None = None,
        *,
        progress: Callable[[int], None] | None = None,
        cancelled: Callable[[], bool] | None = None,
    ) -> Program[UndoResult]:
        """Undo a batch, without an id the last one of this user. Undoing it twice has the effect of once."""
        from qdeck._operations import undoing

        return undoing.undo_steps(self.adapters, batch, progress=progress, cancelled=cancelled)

    @writes
    def close_interrupted(self) -> Program[list[Batch]]:
        """Count and log the batches whose process ended before they did; return those that were closed now."""
        from qdeck._operations import interrupted

        return interrupted.close_all(self.adapters)

    @writes
    def edit(self, draft: Draft, text: str | bytes, reason: str = "") -> Program[BatchResult]:
        """Give a job the payload in `text`, and retry it when it was dead."""
        from qdeck._operations.editing import apply_edit
        from qdeck.adapters.native.editing import new_body

        return apply_edit(draft, new_body(draft, text), reason, self.adapters.shared)

    @writes
    def enqueue(
        self,
        queue: str | QueueName,
        task: str,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        id: str | None = None,
        name: str | None = None,
        unique: bool = False,
        priority: int | str = 100,
        retries: int | None = None,
        delay: float | timedelta | None = None,
        at: datetime | float | None = None,
        after: Iterable[str] = (),
        tags: Iterable[str] = (),
        logs: bool = False,
    ) -> Program[EnqueueResult]:
        """Enqueue a job of a task given by name; the options that an app declares for the task are unknown here. With
        `logs`, record it in the log of operations.
        """
        from qdeck._operations import new_jobs
        from qdeck._server import activity_log

        where = _queue_name(queue)
        job = new_jobs.new_job(
            where, task, args, kwargs, id=id, name=name, unique=unique, priority=priority, retries=retries, delay=delay,
            at=at, after=after, tags=tags,
        )  # fmt: skip
        program = new_jobs.enqueue(where, job)
        if not logs:
            return program
        return activity_log.logged(
            program, "enqueue", queues=[where], detail=f"{task} {job.id}", unless=lambda made: not made.created
        )

    @writes
    def pause(
        self, queue: str | QueueRef, *, reason: str = "", replaces: Pause | None = None
    ) -> Program[QueueSettings]:
        """Pause a queue: workers claim no more of its jobs until it is resumed. The user, the time and the reason
        are stored. Raise where a pause stands that has a reason or is by another operator, unless it is `replaces`.
        """
        from qdeck._server import activity_log, queue_settings

        ref, adapter = yield from self._pausable(queue)
        if adapter is not self.adapters.native:
            from qdeck._operations import pausing

            return (yield from pausing.pause(adapter, ref.name, self.label(ref), reason, replaces))
        program = queue_settings.pause(self.cache, ref.name, reason, replaces)
        noted = activity_log.logged(
            program, "pause", queues=[self.label(ref)], reason=reason, unless=lambda left: not left.changed
        )
        return (yield from noted)

    @writes
    def resume(self, queue: str | QueueRef, *, shown: Pause | None = None) -> Program[QueueSettings]:
        """Resume a paused queue; with `shown`, raise where another pause stands now."""
        from qdeck._server import activity_log, queue_settings

        ref, adapter = yield from self._pausable(queue)
        if adapter is not self.adapters.native:
            from qdeck._operations import pausing

            return (yield from pausing.resume(adapter, ref.name, self.label(ref), shown))
        program = queue_settings.resume(self.cache, ref.name, shown)
        noted = activity_log.logged(program, "resume", queues=[self.label(ref)], unless=lambda left: not left.changed)
        return (yield from noted)

    def _pausable(self, queue: str | QueueRef) -> Program[tuple[QueueRef, Adapter]]:
        ref, adapter = yield from self.adapters.resolve(queue)
        if why := adapter.why_not_pause():
            raise InvalidOption(why, hint="See the page of its system in the documentation.")
        return ref, adapter

    def _having(self, feature: Feature, queue: str | QueueRef, verb: str) -> Program[QueueRef]:
        ref, adapter = yield from self.adapters.resolve(queue)
        if feature not in adapter.features:
            raise InvalidOption(f"{adapter.name} does not support {verb}", hint="Name a native queue.")
        return ref

    @writes
    def limit(
        self, queue: str | QueueRef, *, running: int | None = None, rate: tuple[int, float] | None = None
    ) -> Program[None]:
        """Set how many jobs of a queue run at once, and how many start within some seconds; None removes a limit."""
        from qdeck._server import activity_log, queue_settings

        ref = yield from self._having(Feature.DETAILS, queue, "limit")
        program = queue_settings.set_limits(self.cache, ref.name, running=running, rate=rate)
        said = [] if running is None else [f"{running} at once"]
        said += [] if rate is None else [f"{rate[0]} in {rate[1]:g}s"]
        noted = activity_log.logged(program, "limit", queues=[self.label(ref)], detail=", ".join(said) or "none")
        return (yield from noted)

    @writes
    def order_worker(self, worker: str, what: str, *, shown: Pause | None = None) -> Program[None]:
        """Request a worker to be `quiet` (finish its jobs, claim no more), to `resume` from that, or to `stop`.

        With `shown`, raise where another request to be quiet stands now.
        """
        from qdeck._operations import activity
        from qdeck._server import activity_log, workers

        named = activity_log.worker(worker)
        yield from activity.need_pause(shown, "quiet", named)
        yield from activity_log.logged(workers.order(worker, what), what, detail=named)

    @writes
    def add_schedule(
        self,
        name: str,
        queue: str | QueueName,
        task: str,
        *,
        cron: str,
        tz: str = "UTC",
        missed: str = "once",
        args: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        priority: int | str | None = None,
        retries: int | None = None,
        tags: Sequence[str] = (),
        replaces: bool = True,
    ) -> Program[ScheduleChange]:
        """Store a schedule: its change is `made`, `changed`, or `same` when it existed. Without `replaces`, it is
        `other` where another one of this name exists, which stays.
        """
        from qdeck._operations import schedule_changes

        program = schedule_changes.add(
            name, _queue_name(queue), task, cron=cron, tz=tz, missed=missed, args=args, kwargs=kwargs,
            priority=priority, retries=retries, tags=tags, replaces=replaces,
        )  # fmt: skip
        return _logged_change(program, "add", name)

    @writes
    def edit_schedule(
        self,
        name: str,
        *,
        cron: str | None = None,
        tz: str | None = None,
        missed: str | None = None,
        args: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        priority: int | str | None = None,
        retries: int | None = None,
        tags: Sequence[str] = (),
        version: str | None = None,
        dry_run: bool = False,
    ) -> Program[ScheduleChange]:
        """Change a schedule; options that are not given stay unchanged. With the `version` of the row that was shown,
        raise where it is another one now. With `dry_run`, return the change and write nothing.
        """
        from qdeck._operations import schedule_changes

        program = schedule_changes.edit(
            name, cron=cron, tz=tz, missed=missed, args=args, kwargs=kwargs, priority=priority, retries=retries,
            tags=tags, version=version, dry_run=dry_run,
        )  # fmt: skip
        return program if dry_run else _logged_change(program, "edit", name)

    @writes
    def remove_schedule(self, name: str) -> Program[None]:
        """Remove a schedule. Its jobs stay."""
        from qdeck._operations import schedule_changes

        yield from _logged_change(schedule_changes.remove(name), "remove", name)

    @writes
    def run_schedule(self, name: str) -> Program[str]:
        """Enqueue the job of a schedule now; return its id."""
        from qdeck._schedules import store
        from qdeck._server import activity_log

        return activity_log.logged(store.run_now(name), "run", detail=activity_log.schedule(name))

    @writes
    def enable_schedule(
        self, name: str, enabled: bool, *, reason: str = "", shown: Pause | None = None
    ) -> Program[bool]:
        """Resume or pause a schedule; return whether that changed anything. With `shown`, raise where another pause
        stands now.
        """
        from qdeck._operations import activity
        from qdeck._schedules import store
        from qdeck._server import activity_log

        named = activity_log.schedule(name)
        yield from activity.need_pause(shown, "pause", named)
        program, verb = store.enable(name, enabled), "resume" if enabled else "pause"
        noted = activity_log.logged(program, verb, detail=named, reason=reason, unless=lambda changed: not changed)
        return (yield from noted)

    @writes
    def record(self, entry: Activity, *, again: bool = False) -> Program[None]:
        """Add an entry to the log of operations; `again` when this machine's own file has it already."""
        from qdeck._operations import activity

        return activity.record_again(entry) if again else activity.record(entry)

    @writes
    def clean(
        self,
        cleaning: Cleaning,
        *,
        progress: Callable[[CleanReport], None] | None = None,
        cancelled: Callable[[], bool] | None = None,
    ) -> Program[CleanReport]:
        """Remove temporary queues, as a batch that can be undone. `progress` receives the report after each slice."""
        return cleaning.run(progress, cancelled)


class Writer(Writes, Reader):
    """Reads and operates the queues of a server, in blocking code; not one of `production`, whatever its address."""

    def write(self, program: Program[T]) -> T:
        """Run a program that may write."""
        return self._run_write(program)


class AsyncWriter(Writes, AsyncReader):
    """Reads and operates the queues of a server, in asyncio; not one of `production`, whatever its address."""

    async def write(self, program: Program[T]) -> T:
        """Run a program that may write."""
        return await self._run_write(program)


def _logged_change(program: Program[ScheduleChange], verb: str, name: str) -> Program[ScheduleChange]:
    from qdeck._server import activity_log

    return activity_log.logged(
        program, verb, detail=lambda done: activity_log.schedule(name, done.words),
        unless=lambda done: done.word in ("same", "other"),
    )  # fmt: skip


def _queue_name(queue: str | QueueName) -> str:
    from qdeck._adapter_names import NATIVE
    from qdeck._queue_names import QueueName

    return str(queue if isinstance(queue, QueueName) else QueueName.parse(queue.removeprefix(f"{NATIVE}/")))
