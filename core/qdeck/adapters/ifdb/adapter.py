"""The `ifdb` adapter: tasks as JSON in one hash, and those that wait in one sorted set.

A task's state is in its JSON; there is no lease, so one that a worker started and one that a dead worker left look the
same. The set is walked in the worker's order.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Final

from qdeck._engine import codec
from qdeck._engine.stored_numbers import whole
from qdeck._model import payload
from qdeck._model.payload import shown_text
from qdeck._model.queue_ref import QueueRef
from qdeck._model.reasons import CapabilityCode, Stuck, StuckCode
from qdeck._model.values import QueueRow, State
from qdeck._model.words import Unreadable, UnreadableCode, Verb
from qdeck._redis import reads
from qdeck._redis.commands import raw_of, text_of, with_errors
from qdeck._redis.errors import is_error
from qdeck.adapters import paging
from qdeck.adapters.adapter import Adapter
from qdeck.adapters.ifdb import changes
from qdeck.adapters.ifdb.changes import DATA, QUEUE, RETRIES, Dependents, read_task
from qdeck.adapters.model import (
    MOST_RUNS_S,
    Capability,
    Entry,
    Kind,
    Look,
    Outcome,
    Raw,
    Retried,
    Seen,
    Source,
    age_s,
    change_each,
)
from qdeck.adapters.times import read_ms

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from qdeck._redis.commands import Program
    from qdeck._schedules.model import ScheduleRow
    from qdeck.adapters.cells import Change
    from qdeck.adapters.model import Skipped, Want
    from qdeck.adapters.plans import Context, Rule

NAME: Final = "ifdb"
MOST_COUNTED: Final = 50_000  # tasks that one look reads to tell their states
LATE_S: Final = 60  # its worker looks every second
_PENDING: Final = (State.RUNNING, State.READY, State.DELAYED, State.BLOCKED)
_LINE: Final = Source(key=QUEUE, kind=Kind.ZSET, state=State.READY, native_state="pending")
_TASKS: Final = Source(key=DATA, kind=Kind.HASH, state=State.DONE, native_state="task")


@dataclass(slots=True)
class Count:
    """The number of tasks in each state, and their ages."""

    states: dict[State, int] = field(default_factory=lambda: dict.fromkeys(State, 0))
    oldest_ms: int | None = None
    stuck: int = 0


class Ifdb(Adapter):
    """`ifdb:task_queue` and `ifdb:task_data`, as the migration plan of that project writes them."""

    name: str = NAME
    acl_keys: ClassVar[tuple[str, ...]] = ("ifdb:*",)
    about: ClassVar[str] = "ifdb:task_queue and ifdb:task_data of the IFDB project"
    outcome_evidence: ClassVar[str] = (
        "the outcome is read from the task's record; IFDB retries a failed task automatically, hours later"
    )

    def fixed_keys(self) -> Mapping[bytes, Kind | None]:
        """Return its two keys."""
        return {QUEUE: Kind.ZSET, DATA: Kind.HASH}

    def filter_of_key(self, key: str) -> tuple[str, str] | None:
        """Return the filter for one of its keys: the hash has all tasks, the sorted set those that have not ended."""
        return {text_of(DATA): (NAME, ""), text_of(QUEUE): (NAME, f"state:{','.join(_PENDING)}")}.get(key)

    def capabilities(self) -> Mapping[Verb, Capability]:
        """Return the verbs, which do the same as its management commands and its admin."""
        waiting = (State.READY, State.DELAYED, State.BLOCKED)
        ended = (State.DONE, State.DEAD)
        by_itself = "workers resume an unfinished task automatically: it stays in the set until it ends"
        return {
            Verb.RETRY: Capability(states=(State.DEAD,), note="for three more runs, like RetryFailedJobs"),
            Verb.RUN: Capability(states=(State.DELAYED,)),
            Verb.REPRIORITISE: Capability(states=waiting),
            Verb.BURY: Capability(states=(*waiting, State.RUNNING), note="its failure handler is not run"),
            Verb.COMPLETE: Capability(states=(*waiting, State.RUNNING), note="its dependents may run"),
            Verb.DISCARD: Capability(states=(*waiting, *ended), note="tasks with dependents are skipped"),
            Verb.REQUEUE: Capability(code=CapabilityCode.BY_ITSELF, note=by_itself),
            Verb.CANCEL: Capability(
                code=CapabilityCode.NO_SUCH_STATE, note="it has no cancelled state; bury or discard the task instead"
            ),
        }

    def rows(self, now: int) -> Program[Look]:
        """Return its one queue; if it has very many tasks, what only their JSON contains is unknown."""
        waiting, total = yield with_errors((b"ZCARD", QUEUE), (b"HLEN", DATA))
        if is_error(waiting) and is_error(total):
            return Look(rows=(QueueRow(adapter=self.name, name=NAME, problem=Unreadable.of(total)),))
        if not waiting and not total:
            return Look()
        bad = is_error(waiting) or is_error(total)
        sizes = [0 if is_error(size) else int(size) for size in (waiting, total)]
        if bad or sum(sizes) > MOST_COUNTED:
            row = QueueRow(
                adapter=self.name, name=NAME, ready=None if is_error(waiting) else waiting, oldest_exact=False
            )
            notices = () if bad else (f"ifdb: {sizes[1]:,} tasks; their states are not counted",)
            return Look(rows=(row,), notices=notices)  # a key of another type was named when its type was read
        count = Count()
        entries = yield from paging.every(self, NAME, tuple(State), most=MOST_COUNTED * 2, now=now)
        late: list[str] = []
        for entry in entries:
            _count(count, entry)
            if entry.state == State.READY and b'"cron": null' not in (entry.body or b""):
                schedule = _schedule(entry.seen.member, read_task(entry.body) or {}, now)
                late += [schedule.name] if schedule is not None and schedule.late_s is not None else []
        of = count.states
        row = QueueRow(
            adapter=self.name, name=NAME, ready=of[State.READY], delayed=of[State.DELAYED], blocked=of[State.BLOCKED],
            running=of[State.RUNNING], done=of[State.DONE], dead=of[State.DEAD], stuck=count.stuck,
            overdue=0, oldest_s=age_s(now, count.oldest_ms),
        )  # fmt: skip
        ref = QueueRef(self.name, NAME)
        return Look(rows=(row,), late_schedules=tuple((ref, name) for name in sorted(late)))

    def sources(self, queue: str, states: Sequence[str]) -> Program[list[Source]]:
        """Return the queue in its order, then the other tasks."""
        yield from ()  # reads nothing, but is a program
        if queue != NAME:
            return []
        return [*([_LINE] if any(state in _PENDING for state in states) else []), _TASKS]

    def fill(self, queue: str, raws: Sequence[Raw], now: int, want: Want) -> Program[list[Entry]]:
        """Return the tasks of these ids; of the hash only those that are not queued, which come with the queue."""
        ids = [raw.member for raw in raws]
        if not ids:
            return []
        line = raws[0].source is _LINE
        if line:
            [reply] = yield with_errors((b"HMGET", DATA, *ids))
            values = [None] * len(ids) if is_error(reply) else reply
            scores = [raw.score for raw in raws]
        else:
            values = [raw.value for raw in raws]
            [reply] = yield with_errors((b"ZMSCORE", QUEUE, *ids))
            scores = [None] * len(ids) if is_error(reply) else reply
        tasks = [read_task(value) for value in values]
        needed = list({d for task in tasks if task and isinstance(d := task.get("dependency"), str)})
        outcomes = yield from _outcomes(needed)
        found = []
        for raw, value, score, task in zip(raws, values, scores, tasks, strict=True):
            entry = _entry(raw.member, value, score, task, outcomes, now)
            if line or score is None:
                found.append(entry)
        return found

    def recall(self, queue: str, state: str, seen: Sequence[Seen], now: int) -> Program[list[Entry | None]]:
        """Return planned tasks as they are now; queued ones are read with their scores."""
        found: dict[Seen, Entry | None] = {}
        for source in (_LINE, _TASKS):
            some = [one for one in seen if (one.score is not None) == (source is _LINE)]
            known = dict.fromkeys([one.key for one in some], source)
            again = yield from self.finder.recall(self, known, queue, state, some, now)
            found |= dict(zip(some, again, strict=True))
        return [found.get(one) for one in seen]

    def schedules(self, now: int) -> Program[list[ScheduleRow]]:
        """Return the pending tasks with a cron rule: when one succeeds, its worker enqueues the next one."""
        tasks = yield from reads.scan_hash(DATA, most=MOST_COUNTED)
        found = [_schedule(raw_id, task, now) for raw_id, raw in tasks.items() if (task := read_task(raw))]
        return sorted((row for row in found if row is not None), key=lambda row: row.name)

    def prepare(self, verb: str, now: int) -> Program[Dependents]:
        """Read the dependents of tasks, for removals and completions."""
        return (yield from _read_dependents()) if verb in (Verb.DISCARD, Verb.COMPLETE) else {}

    def rules(self, queue: str) -> Sequence[Rule]:
        """Return the rules for tasks that succeeded long ago and have no dependents, and for broken records."""
        from qdeck.adapters.plans import Rule

        return (
            Rule(
                name="broken_entries", states=(State.READY, State.DEAD), verb=Verb.DISCARD, reason="{problem}",
                test=lambda entry, _now, _needed: entry.problem is not None,
            ),
            Rule(
                name="task_too_old", states=(State.DONE,), verb=Verb.DISCARD, setting="max_task_age",
                reason="done for {age} (limit {limit})", test=lambda entry, _, needed: entry.id not in needed,
            ),
        )  # fmt: skip

    def unreadable(
        self, rows: Sequence[QueueRow], notices: list[str]
    ) -> Program[list[tuple[Unreadable, QueueRef | None]]]:
        """Return the records that cannot be read: its worker stops at one that is queued."""
        tasks = yield from reads.scan_hash(DATA, most=MOST_COUNTED)
        broken = sorted(text_of(name) for name, value in tasks.items() if read_task(value) is None)
        if not broken:
            return []
        of = Unreadable(
            code=UnreadableCode.GARBAGE, what="record", count=len(broken), key=text_of(DATA), first=broken[0]
        )
        return [(of, QueueRef(self.name, NAME))]

    def outcomes(self, tried: Sequence[Retried], now: int) -> Program[list[Outcome]]:
        """Return the outcomes from the records; a task with fewer retries left than a retry gives has failed since."""
        ids = [one.seen.member for one in tried]
        values, scores = yield with_errors((b"HMGET", DATA, *ids), (b"ZMSCORE", QUEUE, *ids))
        if is_error(values):
            return [Outcome.UNKNOWN] * len(tried)
        places = [None] * len(ids) if is_error(scores) else scores
        return [_outcome_of(read_task(value), score, now) for value, score in zip(values, places, strict=True)]

    def changes(self, act: Verb, entries: Sequence[Entry], context: Context) -> Program[Sequence[Change | Skipped]]:
        """Return the changes of tasks and of their places in the queue."""
        prepared: Dependents | None = context.prepared
        needed = (yield from self.prepare(act, context.now)) if prepared is None else prepared
        return change_each(
            lambda entry: changes.build(act, entry, context.now, context.priority, needed=needed), entries
        )


def _count(count: Count, entry: Entry) -> None:
    state = State(entry.state)
    count.states[state] += 1
    count.stuck += entry.stuck is not None
    if state is State.READY and entry.since_ms is not None:
        count.oldest_ms = min(count.oldest_ms or entry.since_ms, entry.since_ms)


def _outcomes(ids: Sequence[str]) -> Program[dict[str, dict[str, Any] | None]]:
    """Return the tasks that others depend on; a missing one counts as satisfied, as for the worker."""
    known = {name: raw for name in ids if (raw := _bytes_of(name)) is not None}
    if not known:
        return {}
    [values] = yield with_errors((b"HMGET", DATA, *known.values()))
    if is_error(values):
        return {}
    return {name: read_task(value) for name, value in zip(known, values, strict=True) if value is not None}


def _bytes_of(name: str) -> bytes | None:
    """Return an id as stored; None for a text that cannot be an id."""
    try:
        return raw_of(name)
    except UnicodeEncodeError:
        return None


def _read_dependents() -> Program[Dependents]:
    """Return the tasks that depend on others and have not succeeded, by the ids of those."""
    tasks = yield from reads.scan_hash(DATA)
    found: Dependents = {}
    for raw_id, value in tasks.items():
        task = read_task(value)
        if task and not task.get("success") and isinstance(d := task.get("dependency"), str):
            found.setdefault(d, {})[raw_id] = value
    return found


def _entry(
    raw_id: bytes, value: bytes | None, score: bytes | None, task: dict[str, Any] | None,
    outcomes: Mapping[str, dict[str, Any] | None], now: int,
) -> Entry:  # fmt: skip
    task_id = text_of(raw_id)
    seen = changes.seen(raw_id, value, score)
    base: dict[str, Any] = {
        "id": task_id, "key": f"ifdb/{task_id}", "adapter": NAME, "queue": NAME, "seen": seen, "body": value,
    }  # fmt: skip
    if value is None or task is None:
        gone = value is None
        broken = "its record is not a JSON object"
        code = StuckCode.PAYLOAD_MISSING if gone else StuckCode.UNSCHEDULABLE
        stuck = Stuck(code=code, name="" if gone else broken)
        native = "pending without record" if gone else "broken"
        state = State.READY if score is not None else State.DEAD
        return Entry(**base, state=state, native_state=native, problem="it has no record" if gone else broken,
                     stuck=stuck if score is not None else None)  # fmt: skip
    state, native, held = _state(task, score, outcomes, now)
    enqueued, started = read_ms(task.get("enqueue_time")), read_ms(task.get("start_time"))
    finished, due = read_ms(task.get("finish_time")), read_ms(task.get("scheduled_time"))
    ready = max((at for at in (enqueued, due) if at is not None), default=None)
    since = {State.DONE: finished, State.DEAD: finished, State.RUNNING: started, State.READY: ready}.get(
        state, enqueued
    )
    failures = _failures(task)
    failed = shown_text(failures[-1]) if failures and state is not State.DONE else None
    parts = shown_text(task.get("module")), shown_text(task.get("function"))
    needs = shown_text(task.get("dependency"))
    return Entry(
        **base, state=state, native_state=native, stuck=held, name=shown_text(task.get("name")),
        task=".".join(part for part in parts if part) or None,
        priority=whole(task.get("priority")), attempts=len(failures), enqueued_ms=enqueued, since_ms=since,
        age_s=age_s(now, since),
        due_ms=due if state is State.DELAYED else None, error="Error" if failed else None, message=failed,
        failed_ms=finished if state is State.DEAD else None,
        log=shown_text(task.get("log")),
        depends_on=() if needs is None else (needs,),
    )  # fmt: skip


def _state(
    task: dict[str, Any], score: bytes | None, outcomes: Mapping[str, dict[str, Any] | None], now: int
) -> tuple[State, str, Stuck | None]:
    """Return a task's state, IFDB's own name for it, and why it is stuck."""
    if task.get("success"):
        return State.DONE, "success", None
    if task.get("fail"):
        return State.DEAD, "fail", None
    started, due = read_ms(task.get("start_time")), read_ms(task.get("scheduled_time"))
    enqueued = read_ms(task.get("enqueue_time")) or 0
    if not task.get("pending"):
        return State.RUNNING, "none", Stuck(code=StuckCode.STALLED)
    lost = None if score is not None else Stuck(code=StuckCode.HANDOVER_LOST, name=text_of(QUEUE))
    if started is not None and started >= max(due or 0, enqueued):
        age = (now - started) / 1000
        over = Stuck(code=StuckCode.RUNNING_TOO_LONG, name="running", seconds=age, limit=MOST_RUNS_S)
        return State.RUNNING, "pending, started", lost or (over if age > MOST_RUNS_S else None)
    if due is not None and due > now:
        return State.DELAYED, "pending, scheduled", lost
    needed = str(task.get("dependency") or "")
    wanted = outcomes.get(needed)
    if needed in outcomes and wanted is None:
        why = f"the record of {payload.mask_text(needed)} is not a JSON object"
        return State.BLOCKED, "pending, dependency", Stuck(code=StuckCode.UNSCHEDULABLE, name=why)
    if wanted is not None and not wanted.get("success"):
        parent = payload.mask_text(str(task["dependency"]))
        dead = Stuck(code=StuckCode.PARENT_FAILED, name=parent) if wanted.get("fail") else None
        return State.BLOCKED, "pending, dependency", lost or dead
    return State.READY, "pending", lost


def _outcome_of(task: dict[str, Any] | None, score: bytes | None, now: int) -> Outcome:
    if task is None:
        return Outcome.UNKNOWN
    state, _, _ = _state(task, score, {}, now)
    if state in (State.DONE, State.DEAD):
        return Outcome.DONE if state is State.DONE else Outcome.DEAD
    if state is State.RUNNING:
        return Outcome.RUNNING
    left = whole(task.get("retries_left"))
    return Outcome.FAILED if left is not None and left < RETRIES else Outcome.WAITING


def _schedule(raw_id: bytes, task: dict[str, Any], now: int) -> ScheduleRow | None:
    """Return a pending task with a cron rule as a schedule; its times are UTC, as croniter's are there."""
    cron = shown_text(task.get("cron"))
    if not cron or not task.get("pending") or task.get("success") or task.get("fail"):
        return None
    due = max(read_ms(task.get("scheduled_time")) or 0, read_ms(task.get("enqueue_time")) or 0) or None
    late = None if due is None else (now - due) / 1000
    from qdeck._schedules.model import ScheduleRow

    return ScheduleRow(
        name=shown_text(task.get("name")) or text_of(raw_id), adapter=NAME, queue=NAME,
        task=f"{shown_text(task.get('module'))}.{shown_text(task.get('function'))}", cron=cron, tz="UTC",
        priority=whole(task.get("priority")), payload=codec.encode_json([task.get("args"), task.get("kwargs")]),
        next_ms=due, last_id=text_of(raw_id), next_id=text_of(raw_id),
        late_s=late if late is not None and late > LATE_S else None,
    )  # fmt: skip


def _failures(task: dict[str, Any]) -> list[str]:
    """Return the message of each attempt that failed: the record has only how many are left."""
    log = task.get("log")
    lines = log.splitlines() if isinstance(log, str) else []
    return [line[8:] for line in lines if line.startswith("Failed: ")]
