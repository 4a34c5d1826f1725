"""What a worker has in hand: dispatches claimed jobs to the loop, threads or processes, and takes their ends."""

from __future__ import annotations

import asyncio
import os
import time
from typing import TYPE_CHECKING, Any, Final

from qdeck._engine import codec
from qdeck._engine.ops import Ending
from qdeck._errors import UsageError
from qdeck._worker.contexts import Contexts
from qdeck._worker.joblog import JobLog
from qdeck._worker.processes import Processes
from qdeck._worker.run import Kind, Plan, Run, StopReason, clean, error_event, make_plan
from qdeck._worker.runners import Runners
from qdeck._worker.threads import Done, Reports, Threads, interrupt

if TYPE_CHECKING:
    from collections.abc import Callable

    from qdeck._app import App
    from qdeck._engine.ops import Claimed
    from qdeck._worker.lane import Lane

# A job whose workers died this often runs alone: the next crash is surely its own, and takes no other job along.
SUSPECT: Final = 3
# How long a handler may go on after it was told to stop before its place is given to others.
PATIENCE_S: Final = 5.0
# How long a suspect waits for the others to end. Then it runs beside them: nothing is claimed meanwhile, and one long
# job must not keep the whole worker idle.
SOLO_WAIT_S: Final = 10.0
MOST_IN_HAND: Final = 200


def _is_suspect(run: Run) -> bool:
    # A child process that dies takes nothing along.
    return run.crashes >= SUSPECT and run.plan.kind != "process"


class Hands:
    """The jobs that this worker holds, from claim to end."""

    def __init__(
        self,
        app: App,
        *,
        concurrency: int,
        processes: int | None,
        app_ref: str | None,
        stir: Callable[[], None],
        event: Callable[[dict[str, Any]], None],
    ) -> None:
        self._app = app
        self._stir = stir
        self._event = event
        self.concurrency = concurrency
        self.count = 0
        self.done = 0
        self.failed = 0
        self.lost = 0
        self.stuck = 0
        self.last_end = time.monotonic()
        self._log = JobLog()
        self._plans: dict[bytes, Plan] = {}
        self._missing: set[str] = set()  # tasks that the app has and its child processes do not
        self._limited = False
        self._kinds: set[Kind] = set()
        self._solo: Run | None = None
        self._solo_runs = False
        self._solo_since = 0.0
        reports = Reports(asyncio.get_running_loop(), self._take)
        self.contexts = Contexts()
        self._runners = Runners(self.finish, self.contexts, concurrency)
        self._threads = Threads(reports, self.contexts, concurrency)
        self._processes: Processes | None = None
        if any(task.options.process for task in app.tasks.values()):
            if app_ref is None:
                raise UsageError(
                    "tasks with process=True need to know where the app is",
                    hint='start with `qdeck worker MODULE:APP`, or Worker(app, app_ref="MODULE:APP")',
                )
            self._processes = Processes(reports, app_ref, processes or os.cpu_count() or 1, app.task_modules)

    def room(self, quick: int) -> int:
        """How many more jobs to claim: what may run at once, or what `quick` ones end until the next poll."""
        if self._solo is not None:
            return 0
        target = self.concurrency
        if len(self._kinds) < 2:
            target = max(target, min(MOST_IN_HAND, quick))
        return max(0, target - self.count)

    def most_of(self, lane: Lane[Run], room: int) -> int:
        """How much of the room a queue can use now: more jobs for processes would come and have to go back."""
        return min(room, self._processes.free) if lane.crowded and self._processes is not None else room

    def take(self, lane: Lane[Run], claimed: list[Claimed], asked: float) -> None:
        """Starts what was claimed; `asked` is when the claim was sent, from which on the leases surely count."""
        runs = []
        for job in claimed:
            # All but the time of enqueueing, 13 digits, is the same for jobs of one kind: read it once.
            head = job.head
            tail = head[14:] if head[13:14] == b" " and head[:13].isdigit() else head
            try:
                plan = self._plans.get(tail)
                if plan is None:
                    plan = self._learn(tail, head)
                if not job.id.isprintable():
                    raise codec.UnreadableRecord(f"its id is not readable text: {job.id[:40]!a}")
                if plan.task is None:
                    self._hand_back(lane, job, plan.head.task)
                    continue
                if not self._app.accepts(lane.queue, plan.task):
                    raise UsageError(f"task {plan.head.task!r} does not take jobs of queue {lane.queue!r}")
                run = Run(lane, job, plan, asked)
            except (ValueError, TypeError) as error:
                self._refuse(lane, job, error)
                continue
            lane.held[job.id] = run
            runs.append(run)
        self.count += len(runs)
        if any(_is_suspect(run) for run in runs):
            self._isolate(runs)
        else:
            if len(self._kinds) > 1:
                # Loop, threads and processes each keep to the concurrency; together they do by what is in hand.
                while runs and self.count > self.concurrency:
                    self._give_back(runs.pop())
            if self._processes is not None:
                self._spill(lane, runs, self._processes.free)
            for run in runs:
                self._dispatch(run)

    def _spill(self, lane: Lane[Run], runs: list[Run], free: int) -> None:
        """Gives back the jobs for which no process is free: here they would only wait, another worker may have one."""
        heavy = [run for run in runs if run.plan.kind == "process"]
        extra = heavy[free:]
        for run in reversed(extra):
            runs.remove(run)
            self._give_back(run)
        lane.crowded = bool(extra) or (lane.crowded and bool(heavy))

    def knows(self, task: str) -> bool:
        """Whether this worker can run jobs of a task."""
        return task not in self._missing and self._app.tasks.get(task) is not None

    def _hand_back(self, lane: Lane[Run], job: Claimed, task: str) -> None:
        """Gives a job to workers that know its task: this one may be of an older version than what enqueued it."""
        lane.charge(-1)
        lane.endings.append(Ending(kind="unknown", id=job.id, token=job.token))
        lane.tasks[task] = False
        self._report_unknown(lane, job.id, task)
        self._stir()

    def _report_unknown(self, lane: Lane[Run], job_id: str, task: str) -> None:
        """Reports an unknown task once, not each of its jobs."""
        if task not in lane.warned:
            lane.warned.add(task)
            self._event({"event": "unknown_task", "id": job_id, "queue": lane.queue, "task": task})

    def _refuse(self, lane: Lane[Run], job: Claimed, error: Exception) -> None:
        """Buries a job whose record cannot be read: it would take down every worker that claims it."""
        event = error_event(error, lane.worker, 1)
        lane.endings.append(Ending(kind="failed", id=job.id, token=job.token, delay_ms=-1, event=event))
        self.failed += 1
        self._event({"event": "unreadable", "id": clean(job.id), "queue": lane.queue, "error": str(error)})
        self._stir()

    def _learn(self, tail: bytes, raw_head: bytes) -> Plan:
        if len(self._plans) > 5_000:
            # Heads with names or tags are all different: what is remembered of them is of no use.
            self._plans.clear()
        plan = make_plan(self._app, raw_head)
        if plan.task is None:
            return plan  # not kept: the app may learn the task
        self._plans[tail] = plan
        self._limited = self._limited or plan.limit_s is not None
        self._kinds.add(plan.kind)
        return plan

    def _dispatch(self, run: Run) -> None:
        if self._log.is_verbose:
            self._log.started(run)
        if run.plan.kind == "async":
            self._runners.put(run)
        elif run.plan.kind == "thread" or self._processes is None:
            self._threads.put(run)
        else:
            self._processes.put(run)

    def _isolate(self, runs: list[Run]) -> None:
        suspect = next(run for run in runs if _is_suspect(run))
        for run in [*runs, *self._take_waiting()]:
            if run is not suspect:
                self._give_back(run)
        self._solo, self._solo_runs, self._solo_since = suspect, False, time.monotonic()
        self._event({"event": "suspect", "id": suspect.claimed.id, "queue": suspect.lane.queue})
        self._start_solo()

    def _start_solo(self) -> None:
        if self._solo is None or self._solo_runs:
            return
        if self.count == 1 or time.monotonic() - self._solo_since > SOLO_WAIT_S:
            self._solo_runs = True
            self._dispatch(self._solo)

    def _take_waiting(self) -> list[Run]:
        waiting = self._runners.take_waiting() + self._threads.take_waiting()
        return waiting + (self._processes.take_waiting() if self._processes is not None else [])

    def give_back_waiting(self) -> int:
        """Gives back what was claimed and not begun."""
        waiting = self._take_waiting()
        if self._solo is not None and not self._solo_runs:
            waiting.append(self._solo)
            self._solo = None
        for run in waiting:
            self._give_back(run)
        return len(waiting)

    def _give_back(self, run: Run) -> None:
        self._drop(run)
        run.lane.charge(-1)
        run.lane.endings.append(run.ending("give"))
        self._stir()

    def _drop(self, run: Run) -> None:
        run.lane.held.pop(run.claimed.id, None)
        self.count -= 1
        if run is self._solo:
            self._solo = None
        elif self._solo is not None:
            self._start_solo()

    def finish(self, run: Run, ending: Ending | None) -> None:
        """Takes the end of a run."""
        if run.abandoned:
            return
        lane = run.lane
        # The same as _drop, spelled out where every job passes.
        lane.held.pop(run.claimed.id, None)
        self.count -= 1
        self.last_end = time.monotonic()
        if self._solo is not None:
            self._leave_solo(run)
        if ending is None and run.stop is None:
            self.done += 1
            lane.acks.append((run.claimed.id, run.claimed.token))
            if self._log.is_verbose:
                self._log.ended(run, "done")
        else:
            self._tell(run, ending)
        self._stir()

    def _leave_solo(self, run: Run) -> None:
        if run is self._solo:
            self._solo = None
        else:
            self._start_solo()

    def _tell(self, run: Run, ending: Ending | None) -> None:
        lane = run.lane
        if run.stop == "lost":
            self.lost += 1
            self._event({"event": "lease_lost", "id": run.claimed.id, "queue": lane.queue, "task": run.plan.head.task})
            return
        if ending is None:
            self.done += 1
            lane.acks.append((run.claimed.id, run.claimed.token))
            return
        if ending.kind == "done":
            self.done += 1
        elif ending.kind == "unknown":
            self._missing.add(run.plan.head.task)
            lane.tasks[run.plan.head.task] = False
            self._report_unknown(lane, run.claimed.id, run.plan.head.task)
        elif run.stop == "cancelled":
            ending = run.ending("cancelled", event=b'{"reason":"cancelled while it ran"}', log=run.log())
        elif run.stop == "shutdown":
            ending = run.ending("give")
        else:
            self.failed += 1
            self._tell_failure(run, ending)
        lane.endings.append(ending)
        if self._log.is_verbose and ending.kind in ("done", "cancelled", "give"):
            self._log.ended(run, ending.kind)

    def _tell_failure(self, run: Run, ending: Ending) -> None:
        from qdeck._deck.masking import mask_text

        what = codec.decode_json(ending.event)
        self._log.failed(run, ending.kind, what)
        message = what.get("message")
        self._event(
            {
                "event": ending.kind,
                "id": run.claimed.id,
                "queue": run.lane.queue,
                "task": run.plan.head.task,
                "attempt": run.attempts.failed + 1,
                "class": what.get("class"),
                "message": mask_text(message) if isinstance(message, str) else message,
            }
        )

    def _take(self, done: list[Done]) -> None:
        for run, ending in done:
            self.finish(run, ending)

    def stop_run(self, run: Run, reason: StopReason) -> None:
        """Tells a handler to stop. Called on the loop."""
        if run.abandoned or not run.ask_to_stop(reason):
            return
        self._interrupt(run)

    def _interrupt(self, run: Run) -> None:
        self._runners.interrupt(run)
        interrupt(run)

    def check(self, lanes: list[Lane[Run]], now: float) -> None:
        """Stops what ran past its limit; gives up what does not stop; gives back what only waits."""
        stopping = self._limited or any(run.stop for lane in lanes for run in lane.held.values())
        if stopping:
            for lane in lanes:
                for run in list(lane.held.values()):
                    if run.due and now > run.due and run.stop is None:
                        self.stop_run(run, "timeout")
                    elif run.stop is not None and now - run.stopped > PATIENCE_S and not run.abandoned:
                        self._abandon(run)
        if self._solo is not None:
            self._start_solo()
        if now - self.last_end > 0.2 and self.count > self.concurrency:
            self.give_back_waiting()

    def _abandon(self, run: Run) -> None:
        """Gives a handler up that does not stop: its job's end is told, its place goes to another."""
        place = run.thread
        if place is None:
            return
        ending = run.ended_badly(
            TimeoutError(f"the handler did not stop within {PATIENCE_S:.0f} s after it was told to")
        )
        self.finish(run, ending)
        run.abandoned = True
        self.stuck += 1
        self._event({"event": "stuck_handler", "id": run.claimed.id, "queue": run.lane.queue})
        if isinstance(place, int):
            self._threads.replace()
        else:
            self._runners.replace()

    async def stop(self) -> None:
        """Ends threads, processes and runners that have nothing to do."""
        await self._runners.stop()
        self._threads.stop()
        if self._processes is not None:
            await asyncio.to_thread(self._processes.stop)
