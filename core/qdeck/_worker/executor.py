"""The executor: runs claimed jobs on the loop, in threads or in processes, and records their endings."""

from __future__ import annotations

import asyncio
import os
import time
from typing import TYPE_CHECKING, Any, Final

from qdeck._engine import codec
from qdeck._engine.transitions import Ending
from qdeck._errors import UsageError
from qdeck._worker.async_executor import AsyncExecutor
from qdeck._worker.attempt import Attempt, ExecutorKind, HandlerSpec, StopReason, clean, error_event, read_spec
from qdeck._worker.handler_contexts import HandlerContexts
from qdeck._worker.job_log import JobLog
from qdeck._worker.process_executor import ProcessExecutor
from qdeck._worker.thread_executor import AttemptEnding, Reporter, ThreadExecutor, interrupt

if TYPE_CHECKING:
    from collections.abc import Callable

    from qdeck._app import App
    from qdeck._engine.transitions import ClaimedJob
    from qdeck._worker.worker_queue import WorkerQueue

# A job whose workers died this often runs alone: then the next crash is its own, and no other job is lost with it.
SUSPECT_CRASHES: Final = 3
# How long a handler may ignore a stop before its slot is given to another.
STOP_TIMEOUT_S: Final = 5.0
# How long a suspect waits for the others to end. Then it runs beside them: nothing is claimed meanwhile, and one long
# job must not keep the whole worker idle.
SOLO_WAIT_S: Final = 10.0
MAX_HELD: Final = 200


def _is_suspect(attempt: Attempt) -> bool:
    # A child process that dies takes no other job with it.
    return attempt.crashes >= SUSPECT_CRASHES and attempt.spec.kind != "process"


class Executor:
    """The jobs that a worker holds, from claim to end."""

    def __init__(
        self,
        app: App,
        *,
        concurrency: int,
        processes: int | None,
        app_ref: str | None,
        wake: Callable[[], None],
        event: Callable[[dict[str, Any]], None],
    ) -> None:
        self._app = app
        self._stir = wake
        self._event = event
        self.concurrency = concurrency
        self.count = 0
        self.done = 0
        self.failed = 0
        self.lost = 0
        self.stuck = 0
        self.last_end = time.monotonic()
        self._log = JobLog()
        self._specs: dict[bytes, HandlerSpec] = {}
        self._missing: set[str] = set()  # tasks that the app has and its child processes lack
        self._limited = False
        self._kinds: set[ExecutorKind] = set()
        self._solo: Attempt | None = None
        self._solo_runs = False
        self._solo_since = 0.0
        reporter = Reporter(asyncio.get_running_loop(), self._take)
        self.contexts = HandlerContexts()
        self._async = AsyncExecutor(self.finish, self.contexts, concurrency)
        self._threads = ThreadExecutor(reporter, self.contexts, concurrency)
        self._processes: ProcessExecutor | None = None
        if any(task.options.process for task in app.tasks.values()):
            if app_ref is None:
                raise UsageError(
                    "tasks with process=True need the module and the name of the app",
                    hint='Start with `qdeck worker MODULE:APP`, or Worker(app, app_ref="MODULE:APP")',
                )
            self._processes = ProcessExecutor(reporter, app_ref, processes or os.cpu_count() or 1, app.task_modules)

    def free_slots(self, ends_per_poll: int) -> int:
        """Return how many more jobs to claim: those that may run at once, or that end until the next poll."""
        if self._solo is not None:
            return 0
        target = self.concurrency
        if len(self._kinds) < 2:
            target = max(target, min(MAX_HELD, ends_per_poll))
        return max(0, target - self.count)

    def usable_slots(self, queue: WorkerQueue[Attempt], free_slots: int) -> int:
        """Return how many of the free slots a queue can use; surplus jobs for processes would have to be requeued."""
        return (
            min(free_slots, self._processes.free)
            if queue.lacks_processes and self._processes is not None
            else free_slots
        )

    def take(self, queue: WorkerQueue[Attempt], claimed: list[ClaimedJob], sent_at: float) -> None:
        """Start claimed jobs; `sent_at` is when the claim was sent, from which the leases surely count."""
        attempts = []
        for job in claimed:
            # All but the time of enqueueing, 13 digits, is the same for all jobs of one call site: read it once.
            head = job.head
            template = head[14:] if head[13:14] == b" " and head[:13].isdigit() else head
            try:
                spec = self._specs.get(template)
                if spec is None:
                    spec = self._spec_of(template, head)
                if not job.id.isprintable():
                    raise codec.UnreadableRecord(f"its id is not readable text: {job.id[:40]!a}")
                if spec.task is None:
                    self._requeue_unknown(queue, job, spec.head.task)
                    continue
                if not self._app.accepts(queue.name, spec.task):
                    raise UsageError(f"task {spec.head.task!r} does not take jobs of queue {queue.name!r}")
                attempt = Attempt(queue, job, spec, sent_at)
            except (ValueError, TypeError) as error:
                self._bury_unreadable(queue, job, error)
                continue
            queue.held[job.id] = attempt
            attempts.append(attempt)
        self.count += len(attempts)
        if any(_is_suspect(attempt) for attempt in attempts):
            self._run_alone(attempts)
        else:
            if len(self._kinds) > 1:
                # Loop, threads and processes each limit their concurrency; the number of held jobs limits the sum.
                while attempts and self.count > self.concurrency:
                    self._requeue(attempts.pop())
            if self._processes is not None:
                self._requeue_excess(queue, attempts, self._processes.free)
            for attempt in attempts:
                self._dispatch(attempt)

    def _requeue_excess(self, queue: WorkerQueue[Attempt], attempts: list[Attempt], free: int) -> None:
        """Requeue jobs for which no process is free: another worker may have one."""
        heavy = [attempt for attempt in attempts if attempt.spec.kind == "process"]
        extra = heavy[free:]
        for attempt in reversed(extra):
            attempts.remove(attempt)
            self._requeue(attempt)
        queue.lacks_processes = bool(extra) or (queue.lacks_processes and bool(heavy))

    def has_task(self, task: str) -> bool:
        """Return whether this worker can run jobs of a task."""
        return task not in self._missing and self._app.tasks.get(task) is not None

    def _requeue_unknown(self, queue: WorkerQueue[Attempt], job: ClaimedJob, task: str) -> None:
        """Give a job back for workers that have its task: this one may be older than the producer."""
        queue.count_started(-1)
        queue.endings.append(Ending(kind="unknown", id=job.id, token=job.token))
        queue.tasks[task] = False
        self._report_unknown(queue, job.id, task)
        self._stir()

    def _report_unknown(self, queue: WorkerQueue[Attempt], job_id: str, task: str) -> None:
        """Report an unknown task once, not for each of its jobs."""
        if task not in queue.warned:
            queue.warned.add(task)
            self._event({"event": "unknown_task", "id": job_id, "queue": queue.name, "task": task})

    def _bury_unreadable(self, queue: WorkerQueue[Attempt], job: ClaimedJob, error: Exception) -> None:
        """Bury a job whose record cannot be read: it would stop every worker that claims it."""
        event = error_event(error, queue.worker, 1)
        queue.endings.append(Ending(kind="failed", id=job.id, token=job.token, delay_ms=-1, event=event))
        self.failed += 1
        self._event({"event": "unreadable", "id": clean(job.id), "queue": queue.name, "error": str(error)})
        self._stir()

    def _spec_of(self, template: bytes, raw_head: bytes) -> HandlerSpec:
        if len(self._specs) > 5_000:
            # Heads with names or tags are all different: to keep them is of no use.
            self._specs.clear()
        spec = read_spec(self._app, raw_head)
        if spec.task is None:
            return spec  # not kept: the app may get the task later
        self._specs[template] = spec
        self._limited = self._limited or spec.limit_s is not None
        self._kinds.add(spec.kind)
        return spec

    def _dispatch(self, attempt: Attempt) -> None:
        if self._log.is_verbose:
            self._log.started(attempt)
        if attempt.spec.kind == "async":
            self._async.put(attempt)
        elif attempt.spec.kind == "thread" or self._processes is None:
            self._threads.put(attempt)
        else:
            self._processes.put(attempt)

    def _run_alone(self, attempts: list[Attempt]) -> None:
        suspect = next(attempt for attempt in attempts if _is_suspect(attempt))
        for attempt in [*attempts, *self._take_waiting()]:
            if attempt is not suspect:
                self._requeue(attempt)
        self._solo, self._solo_runs, self._solo_since = suspect, False, time.monotonic()
        self._event({"event": "suspect", "id": suspect.claimed.id, "queue": suspect.queue.name})
        self._start_solo()

    def _start_solo(self) -> None:
        if self._solo is None or self._solo_runs:
            return
        if self.count == 1 or time.monotonic() - self._solo_since > SOLO_WAIT_S:
            self._solo_runs = True
            self._dispatch(self._solo)

    def _take_waiting(self) -> list[Attempt]:
        waiting = self._async.take_waiting() + self._threads.take_waiting()
        return waiting + (self._processes.take_waiting() if self._processes is not None else [])

    def requeue_waiting(self) -> int:
        """Requeue claimed jobs that have not started."""
        waiting = self._take_waiting()
        if self._solo is not None and not self._solo_runs:
            waiting.append(self._solo)
            self._solo = None
        for attempt in waiting:
            self._requeue(attempt)
        return len(waiting)

    def _requeue(self, attempt: Attempt) -> None:
        self._remove(attempt)
        attempt.queue.count_started(-1)
        attempt.queue.endings.append(attempt.ending("give"))
        self._stir()

    def _remove(self, attempt: Attempt) -> None:
        attempt.queue.held.pop(attempt.claimed.id, None)
        self.count -= 1
        if attempt is self._solo:
            self._solo = None
        elif self._solo is not None:
            self._start_solo()

    def finish(self, attempt: Attempt, ending: Ending | None) -> None:
        """Record the ending of an attempt."""
        if attempt.abandoned:
            return
        queue = attempt.queue
        # The same as `_remove`, inlined: every job passes here.
        queue.held.pop(attempt.claimed.id, None)
        self.count -= 1
        self.last_end = time.monotonic()
        if self._solo is not None:
            self._after_end(attempt)
        if ending is None and attempt.stop is None:
            self.done += 1
            queue.acks.append((attempt.claimed.id, attempt.claimed.token))
            if self._log.is_verbose:
                self._log.ended(attempt, "done")
        else:
            self._report(attempt, ending)
        self._stir()

    def _after_end(self, attempt: Attempt) -> None:
        if attempt is self._solo:
            self._solo = None
        else:
            self._start_solo()

    def _report(self, attempt: Attempt, ending: Ending | None) -> None:
        queue = attempt.queue
        if attempt.stop == "lost":
            self.lost += 1
            self._event(
                {"event": "lease_lost", "id": attempt.claimed.id, "queue": queue.name, "task": attempt.spec.head.task}
            )
            return
        if ending is None:
            self.done += 1
            queue.acks.append((attempt.claimed.id, attempt.claimed.token))
            return
        if ending.kind == "done":
            self.done += 1
        elif ending.kind == "unknown":
            self._missing.add(attempt.spec.head.task)
            queue.tasks[attempt.spec.head.task] = False
            self._report_unknown(queue, attempt.claimed.id, attempt.spec.head.task)
        elif attempt.stop == "cancelled":
            ending = attempt.ending("cancelled", event=b'{"reason":"cancelled while it ran"}', log=attempt.log())
        elif attempt.stop == "shutdown":
            ending = attempt.ending("give")
        else:
            self.failed += 1
            self._report_failure(attempt, ending)
        queue.endings.append(ending)
        if self._log.is_verbose and ending.kind in ("done", "cancelled", "give"):
            self._log.ended(attempt, ending.kind)

    def _report_failure(self, attempt: Attempt, ending: Ending) -> None:
        from qdeck._model.masking import mask_text

        what = codec.decode_json(ending.event)
        self._log.failed(attempt, ending.kind, what)
        message = what.get("message")
        self._event(
            {
                "event": ending.kind,
                "id": attempt.claimed.id,
                "queue": attempt.queue.name,
                "task": attempt.spec.head.task,
                "attempt": attempt.number,
                "class": what.get("class"),
                "message": mask_text(message) if isinstance(message, str) else message,
            }
        )

    def _take(self, done: list[AttemptEnding]) -> None:
        for attempt, ending in done:
            self.finish(attempt, ending)

    def stop_attempt(self, attempt: Attempt, reason: StopReason) -> None:
        """Stop a handler. Call it on the loop."""
        if attempt.abandoned or not attempt.request_stop(reason):
            return
        self._interrupt(attempt)

    def _interrupt(self, attempt: Attempt) -> None:
        self._async.interrupt(attempt)
        interrupt(attempt)

    def check(self, queues: list[WorkerQueue[Attempt]], now: float) -> None:
        """Stop attempts past their time limit, abandon those that do not stop, requeue those that only wait."""
        stopping = self._limited or any(attempt.stop for queue in queues for attempt in queue.held.values())
        if stopping:
            for queue in queues:
                for attempt in list(queue.held.values()):
                    if attempt.expires_at and now > attempt.expires_at and attempt.stop is None:
                        self.stop_attempt(attempt, "timeout")
                    elif attempt.stop is not None and now - attempt.stopped > STOP_TIMEOUT_S and not attempt.abandoned:
                        self._abandon(attempt)
        if self._solo is not None:
            self._start_solo()
        if now - self.last_end > 0.2 and self.count > self.concurrency:
            self.requeue_waiting()

    def _abandon(self, attempt: Attempt) -> None:
        """Abandon a handler that does not stop: report its job as failed and give its slot to another."""
        place = attempt.thread
        if place is None:
            return
        ending = attempt.failure(TimeoutError(f"the handler did not stop within {STOP_TIMEOUT_S:.0f}s of its stop"))
        self.finish(attempt, ending)
        attempt.abandoned = True
        self.stuck += 1
        self._event({"event": "stuck_handler", "id": attempt.claimed.id, "queue": attempt.queue.name})
        if isinstance(place, int):
            self._threads.replace()
        else:
            self._async.replace()

    async def stop(self) -> None:
        """Stop idle threads, processes and coroutines."""
        await self._async.stop()
        self._threads.stop()
        if self._processes is not None:
            await asyncio.to_thread(self._processes.stop)
