"""Calls: jobs that are not enqueued yet, alone, in chains and in groups, and the programs that enqueue them."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from qdeck._durability import Durability, Durable, confirm
from qdeck._engine import programs
from qdeck._engine.job_ids import check_id
from qdeck._errors import DependencyCycle, InvalidOption, QdeckError, UnknownDependency
from qdeck._job import Job, NotDurable
from qdeck._queue_names import QueueName

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qdeck._engine.transitions import EnqueueResult, NewJob
    from qdeck._redis.commands import Program

MAX_DEPENDENCIES: Final = 500


class Call(NamedTuple):
    """A job that is not enqueued yet. It has its id already, so that others can wait for it."""

    queue: str
    job: NewJob
    durable: Durable | None = None

    @property
    def id(self) -> str:
        """Return the id that its job will have."""
        return self.job.id


def read_after(given: Any, queue: str) -> tuple[str, ...]:
    """Return the parents of a job as references: `id`, or `id@queue` on another queue."""
    if isinstance(given, str | Job | Call):
        given = [given]
    if not isinstance(given, Iterable) or isinstance(given, bytes | dict):
        raise InvalidOption(f"_after is {given!r}", hint="Give a job, a call or an id, or a list of them.")
    refs: list[str] = []
    for item in given:
        if isinstance(item, Job | Call):
            ref, other = item.id, item.queue
        else:
            if not isinstance(item, str):
                raise InvalidOption(f"_after names {item!r}", hint="Give jobs, calls or ids (`id`, or `id@queue`)")
            ref, _, other = item.partition("@")
        check_id(ref)
        refs.append(ref if other in ("", queue) else f"{ref}@{QueueName.parse(other)}")
    if len(refs) > MAX_DEPENDENCIES:
        raise InvalidOption(
            f"_after names {len(refs)} jobs, the limit is {MAX_DEPENDENCIES}",
            hint="Split them into groups: one job after each group, and a last one after those.",
        )
    return tuple(dict.fromkeys(refs))


def chain(*parts: Call | Sequence[Call]) -> list[Call]:
    """Let each part wait for the one before it: calls, groups or chains. Pass the result to `app.enqueue_many`."""
    linked: list[Call] = []
    last: list[Call] = []
    for part in parts:
        calls = _behind(_calls_of(part, "chain"), last)
        linked += calls
        last = _ends(calls)
    return linked


def group(members: Iterable[Call | Sequence[Call]], then: Call | Sequence[Call]) -> list[Call]:
    """Let `then` wait for all members: calls, groups or chains. Pass the result to `app.enqueue_many`."""
    parts = [_calls_of(part, "group") for part in members]
    ends = [call for part in parts for call in _ends(part)]
    return [*(call for part in parts for call in part), *_behind(_calls_of(then, "group"), ends)]


def _calls_of(part: Any, construct: str) -> list[Call]:
    if isinstance(part, Call):
        return [part]
    if isinstance(part, list | tuple) and part and all(isinstance(call, Call) for call in part):
        return list(part)
    raise InvalidOption(
        f"{construct} of {type(part).__name__} {part!r:.80}",
        hint="Give calls (`task.call(…)`), groups or chains of them.",
    )


def _behind(calls: list[Call], parents: Sequence[Call]) -> list[Call]:
    """Return the calls, with the parents added to those that wait for none of the others."""
    own = {call.id for call in calls}
    return [_after(call, parents) if own.isdisjoint(_ids(call)) else call for call in calls]


def _ends(calls: Sequence[Call]) -> list[Call]:
    """Return the calls that none of the others waits for."""
    awaited = {ref for call in calls for ref in _ids(call)}
    return [call for call in calls if call.id not in awaited]


def _ids(call: Call) -> list[str]:
    return [ref.partition("@")[0] for ref in call.job.after]


def _after(call: Call, parents: Sequence[Call]) -> Call:
    refs = read_after([*call.job.after, *parents], call.queue)
    return call._replace(job=call.job._replace(after=refs))


def enqueue(calls: list[Call]) -> Program[list[EnqueueResult]]:
    """Make the jobs of a list, parents first, in as few calls as their queues and order allow."""
    if len(calls) == 1 and not calls[0].job.after:
        return (yield from programs.enqueue(calls[0].queue, [calls[0].job]))
    linked = any(call.job.after for call in calls)
    order = _in_order(calls) if linked else list(range(len(calls)))
    if linked:
        yield from _check_other_queues(calls)
    made: dict[int, EnqueueResult] = {}
    stand_ins: dict[str, str] = {}  # jobs of other queues that were not created, and the holders of their unique names
    for indexes in _runs(calls, order, linked=linked):
        queue = calls[indexes[0]].queue
        jobs = [programs.wait_for(calls[i].job, stand_ins) for i in indexes]
        answers = yield from programs.enqueue(queue, jobs)
        made.update(zip(indexes, answers, strict=True))
        for job, answer in zip(jobs, answers, strict=True):
            if answer.id != job.id:
                stand_ins[f"{job.id}@{queue}"] = f"{answer.id}@{queue}"
    return [made[i] for i in range(len(calls))]


def secure(calls: list[Call], jobs: list[Job]) -> Program[None]:
    """Wait until the jobs are as durable as requested; raise `NotDurable` when some are not."""
    by_wish: dict[tuple[str, Durable], list[Job]] = {}
    for call, job in zip(calls, jobs, strict=True):
        if call.durable is not None:
            by_wish.setdefault((call.queue, call.durable), []).append(job)
    short: Durability | None = None
    began = time.monotonic()
    for (queue, wanted), members in by_wish.items():
        try:
            durability = yield from confirm(
                queue, list(dict.fromkeys(job.id for job in members)), wanted, began + wanted.timeout
            )
        except QdeckError as error:
            message = f"the jobs are enqueued, but it is unknown whether they are on {wanted}: {error}"
            raise NotDurable(message, jobs=jobs, hint=error.hint) from error
        for job in members:
            job.durable = durability
        short = short or (None if durability.met else durability)
    if short is not None:
        hint = "The jobs will run; to be sure, enqueue them again with the same ids."
        if not short.found:
            hint = "Enqueue again with the same id: a failover lost jobs that were acknowledged just before."
        raise NotDurable(f"not on {short.wanted} within {short.wanted.timeout:g}s: {short}", jobs=jobs, hint=hint)


def _runs(calls: list[Call], order: list[int], *, linked: bool) -> list[list[int]]:
    """Yield jobs of one queue together; where jobs wait for others, only as far as the order stays."""
    if not linked:
        by_queue: dict[str, list[int]] = {}
        for i in order:
            by_queue.setdefault(calls[i].queue, []).append(i)
        return list(by_queue.values())
    runs: list[list[int]] = []
    for i in order:
        if runs and calls[runs[-1][0]].queue == calls[i].queue:
            runs[-1].append(i)
        else:
            runs.append([i])
    return runs


def _full_ref(call: Call, ref: str) -> str:
    return ref if "@" in ref else f"{ref}@{call.queue}"


def _in_order(calls: list[Call]) -> list[int]:
    """Return indexes with every parent before its children, else as given."""
    index: dict[str, int] = {}
    for i, call in enumerate(calls):
        # Of two with one id the first is created, and the second returned as not created.
        index.setdefault(f"{call.id}@{call.queue}", i)
    waits = [[index[r] for ref in c.job.after if (r := _full_ref(c, ref)) in index] for c in calls]
    order: list[int] = []
    state = [0] * len(calls)  # 0 not seen, 1 on the way, 2 placed
    for start in range(len(calls)):
        stack = [start]
        while stack:
            i = stack[-1]
            if state[i] == 2:
                stack.pop()
                continue
            open_parents = [p for p in waits[i] if state[p] != 2]
            circle = i in waits[i] or any(state[p] == 1 for p in open_parents)
            if circle:
                ids = ", ".join(calls[p].id for p in {i, *open_parents})
                raise DependencyCycle(f"jobs wait for each other: {ids}", hint="Remove one of these _after.")
            state[i] = 1
            if open_parents:
                stack.append(open_parents[0])
            else:
                state[i] = 2
                order.append(stack.pop())
    return order


def _check_other_queues(calls: list[Call]) -> Program[None]:
    """Refuse jobs that wait for an unknown job of another queue, before anything is made."""
    own = {f"{call.id}@{call.queue}" for call in calls}
    asked: dict[str, list[str]] = {}
    for call in calls:
        for ref in call.job.after:
            if _full_ref(call, ref) not in own:
                job_id, _, queue = _full_ref(call, ref).partition("@")
                asked.setdefault(queue, []).append(job_id)
    for queue, job_ids in asked.items():
        found = yield from programs.exists(queue, job_ids)
        for job_id, there in zip(job_ids, found, strict=True):
            if not there:
                raise UnknownDependency(
                    f"no job {job_id!r} in queue {queue!r} to wait for",
                    hint="Enqueue it first; a job that ended long ago is no longer known.",
                )
