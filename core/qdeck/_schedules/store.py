"""Programs on the schedules of a server: register, edit, read, and make the jobs of runs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from qdeck._engine import keys, programs, transitions
from qdeck._engine.job_ids import new_id
from qdeck._engine.scripts import load
from qdeck._errors import InvalidOption, QdeckError, UnknownJob, UsageError
from qdeck._redis import reads, scripts
from qdeck._redis.commands import Request, with_errors
from qdeck._redis.errors import good, is_error
from qdeck._schedules.model import Definition, ScheduleRow, ScheduleState, read_definition, read_state, version_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qdeck._engine.transitions import NewJob
    from qdeck._redis.commands import Arg, Program

SCHEDULES: Final = keys.SCHEDULES
STATE: Final = keys.SCHEDULE_STATES
_KEYS: Final = (SCHEDULES.encode(), STATE.encode())
NONE: Final = b"-"  # in place of the definition that another one replaces
BLOCK_MS: Final = 60_000  # how long late tickers make no run of a schedule that was moved or removed
STATES: Final = ("done", "dead", "cancelled", "running", "ready", "delayed", "blocked")
ENDED: Final = ("done", "dead", "cancelled")
LATE_S: Final = 60


class UnknownSchedule(UnknownJob):
    """There is no schedule of that name."""


@dataclass(frozen=True, slots=True)
class TickResult:
    """The result of a call that makes runs: `stale` when it was decided on too long ago."""

    stale: bool
    handled_until: int
    made: list[str]


@dataclass(frozen=True, slots=True)
class StoredSchedules:
    """All schedules as they are stored, at one moment of the server's clock."""

    now_ms: int
    revision: bytes | None
    definitions: dict[str, bytes]
    states: dict[str, ScheduleState]


def _update(verb: str, name: str, *args: Arg) -> Program[tuple[int, str]]:
    script = scripts.plain("_schedules/schedule", asks_itself=True)
    now, word = yield from scripts.run(script, _KEYS, [verb, name, *args])
    return int(now), word.decode()


def _set_last_run(queue: str, name: str, until: Arg) -> Program[None]:
    script = load("_schedules/tick")
    args: list[Arg] = [0, 0, name, until, 0, "", "", ""]
    yield from programs.run_on_queue(script, queue, args, [cron_key(queue)])


def cron_key(queue: str) -> bytes:
    """Return the hash of a queue that has the last run of each schedule that makes jobs there."""
    return keys.key(queue, "last_run")


def register(definition: Definition, replaces: bytes | None = None) -> Program[str]:
    """Store a definition: `made`, `changed`, or `same` when it existed. Runs from now on count.

    With `replaces`, only in place of exactly that definition, or of none: else return `other`.
    """
    old = yield from find(definition.name)
    wanted = old if replaces is None else replaces
    if (old or NONE) not in (wanted or NONE, definition.encode()):
        return "other"
    if old is not None and old != definition.encode():
        yield from _block_runs(definition.name, old, definition.queue)
    _, word = yield from _update("put", definition.name, definition.encode(), wanted or NONE)
    if word == "other" and replaces is None:
        return (yield from register(definition))
    if word in ("made", "changed"):
        # A last run in the future, of an earlier schedule of this name, would block the first runs.
        yield from _set_last_run(definition.queue, definition.name, "now")
    return word


def _block_runs(name: str, raw: bytes, to: str) -> Program[None]:
    """Block the runs of a schedule in its old queue before it moves: a late ticker must not make a job there."""
    try:
        old = read_definition(name, raw)
    except ValueError:
        return
    if old.queue != to:
        now = yield from clock()
        yield from _set_last_run(old.queue, name, (now + BLOCK_MS) // 1000)


def clock() -> Program[int]:
    """Return the server's time in ms."""
    [stamp] = yield Request(((b"TIME",),), _KEYS[0])
    return reads.ms_of(stamp)


def find(name: str) -> Program[bytes | None]:
    """Return a stored definition."""
    raw = yield (b"HGET", SCHEDULES, name)
    found: bytes | None = raw
    return found


def get(name: str) -> Program[Definition]:
    """Return the definition of a schedule."""
    raw = yield from find(name)
    if raw is None:
        raise _unknown(name)
    return _read(name, raw)


def _read(name: str, raw: bytes) -> Definition:
    try:
        return read_definition(name, raw)
    except ValueError as error:
        raise QdeckError(
            f"schedule {name!r} {error}", hint="A newer qdeck wrote it, or it is damaged: remove it and add it again."
        ) from error


def _unknown(name: str) -> UnknownSchedule:
    return UnknownSchedule(f"there is no schedule {name!r}", hint="Run qdeck schedule list to list them.")


def edit(
    name: str,
    *,
    cron: str | None = None,
    tz: str | None = None,
    missed: str | None = None,
    job: NewJob | None = None,
    version: str | None = None,
    dry_run: bool = False,
) -> Program[tuple[Definition, Definition]]:
    """Change a schedule, with `version` only that one; options that are not given stay unchanged. Runs from now on
    follow the new rule. Return the old and the new one.
    """
    raw = yield from find(name)
    if raw is None:
        raise _unknown(name)
    old = _read(name, raw)
    if version not in (None, version_of(raw)):
        raise UsageError(
            f"schedule {name!r} has changed since: its rule is {old.cron} ({old.tz}) now", hint="Read it again."
        )
    made = job or transitions.NewJob(name, old.priority, old.template, old.body, unique=old.unique)
    new = Definition.of(name, old.queue, made, cron=cron or old.cron, tz=tz or old.tz, missed=missed or old.missed)
    if cron and new.rule().next((yield from clock()) // 1000) is None:
        raise InvalidOption(f"cron {cron!r} has no more runs", hint="Its last run was in the past: name a later year.")
    if not dry_run and (yield from register(new, raw)) == "other":
        raise UsageError(f"schedule {name!r} has changed since", hint="Read it again.")
    return old, new


def remove(name: str) -> Program[None]:
    """Remove a schedule. Its jobs stay."""
    raw = yield from find(name)
    if raw is not None:
        yield from _block_runs(name, raw, "")
    _, word = yield from _update("remove", name)
    if word == "gone":
        raise _unknown(name)


def enable(name: str, enabled: bool) -> Program[bool]:
    """Pause or resume a schedule; return False when nothing changed. Runs of a pause are not made later."""
    _, word = yield from _update("enable", name, int(enabled))
    if word == "gone":
        raise _unknown(name)
    return word == "ok"


def start_at(name: str, ms: int) -> Program[None]:
    """Let a schedule have no runs before a moment."""
    yield from _update("start", name, ms)


def run_now(name: str) -> Program[str]:
    """Make a job now, outside the schedule, and return its id. The runs stay as they are."""
    definition = yield from get(name)
    job = transitions.NewJob(
        f"cron:{name}:{new_id()}", definition.priority, definition.template, definition.body, unique=definition.unique
    )
    [made] = yield from programs.enqueue(definition.queue, [job])
    if made.created:
        yield from record_job(name, made.id)
    return made.id


def record_job(name: str, job_id: str) -> Program[None]:
    """Record a job that was made outside the schedule as its last one."""
    yield from _update("ran", name, job_id)


def tick(definition: Definition, read_ms: int, runs: Sequence[int], until: int) -> Program[TickResult]:
    """Make the jobs of runs that were not made yet, and mark all runs until a moment as handled."""
    script = load("_schedules/tick")
    d = definition
    args: list[Arg] = [0, read_ms, d.name, until, d.priority, d.template, d.body, d.unique]
    for run in runs:
        args += (run, d.run_id(run))
    reply = yield from programs.run_on_queue(script, d.queue, args, [cron_key(d.queue)])
    _, handled_until, *answers = reply
    if handled_until == -1:
        return TickResult(True, 0, [])
    made = [d.run_id(run) for run, answer in zip(runs, answers, strict=True) if answer == 1]
    return TickResult(False, int(handled_until), made)


def record_runs(name: str, run: int, missed: int, made: Sequence[str]) -> Program[bool]:
    """Record the runs until one; return False when another ticker has recorded that or a later one."""
    _, word = yield from _update("record", name, run, missed, len(made), made[-1] if made else "-")
    return word == "ok"


def record_outcome(name: str, job_id: str, outcome: str) -> Program[None]:
    """Record how the last job of a schedule ended, before its record is gone."""
    yield from _update("outcome", name, job_id, outcome)


def peek(names: Sequence[str]) -> Program[tuple[int, bytes | None, dict[str, ScheduleState]]]:
    """Return the time, the count of changes, and the states of some schedules."""
    stamp, words = yield Request(((b"TIME",), (b"HMGET", STATE, "", *names)), _KEYS[0])
    return reads.ms_of(stamp), words[0], {name: read_state(raw) for name, raw in zip(names, words[1:], strict=True)}


def read_all(*, reads_only: bool = False) -> Program[StoredSchedules]:
    """Return all schedules. The script allows a thousand at most.

    With `reads_only`, a user without the right to read the server's clock gets this machine's.
    """
    stamp, flat, lines = yield with_errors((b"TIME",), (b"HGETALL", SCHEDULES), (b"HGETALL", STATE), key=_KEYS[0])
    flat, lines = good(flat), good(lines)
    said = {lines[i].decode("utf-8", "replace"): lines[i + 1] for i in range(0, len(lines), 2)}
    definitions = {flat[i].decode("utf-8", "replace"): flat[i + 1] for i in range(0, len(flat), 2)}
    states = {name: read_state(said.get(name)) for name in definitions}
    now_ms = reads.local_ms() if reads_only and is_error(stamp) else reads.ms_of(good(stamp))
    return StoredSchedules(now_ms, said.get(""), definitions, states)


def read() -> Program[list[ScheduleRow]]:
    """Return all schedules as operators see them, by name; with plain reads."""
    stored = yield from read_all(reads_only=True)
    rows: list[ScheduleRow] = []
    last: dict[str, list[str]] = {}
    for name in sorted(stored.definitions):
        row = _row(name, stored)
        rows.append(row)
        if row.last_id and row.queue:
            last.setdefault(row.queue, []).append(row.last_id)
    found: dict[str, str] = {}
    for queue, ids in last.items():
        found |= yield from states_of(queue, ids)
    return [replace(row, last_outcome=found.get(row.last_id or "") or row.last_outcome) for row in rows]


def states_of(queue: str, ids: Sequence[str]) -> Program[dict[str, str]]:
    """Return the states of jobs; unknown jobs are left out."""
    sends: list[tuple[Arg, ...]] = [(b"ZMSCORE", keys.key(queue, state), *ids) for state in STATES]
    replies = yield with_errors(*sends, key=keys.key(queue, "meta"))
    found: dict[str, str] = {}
    for state, scores in zip(STATES, replies, strict=True):
        if is_error(scores):
            continue
        for job_id, score in zip(ids, scores, strict=True):
            if score is not None:
                found.setdefault(job_id, state)
    return found


def _row(name: str, stored: StoredSchedules) -> ScheduleRow:
    state = stored.states[name]
    row = ScheduleRow(
        name=name,
        problem="" if state.readable else "its state cannot be read",
        enabled=state.enabled,
        last_ms=state.last_ms or None,
        last_run_ms=state.last_run * 1000 or None,
        last_id=state.last_id or None,
        last_outcome=state.outcome or None,
        missed_runs=state.missed_runs,
        jobs_made=state.jobs_made,
    )
    try:
        d = read_definition(name, stored.definitions[name])
        rule = d.rule()
    except ValueError as error:
        return replace(row, problem=str(error))
    now = stored.now_ms // 1000
    row = replace(
        row,
        version=version_of(stored.definitions[name]),
        queue=d.queue,
        task=d.task,
        cron=d.cron,
        tz=d.tz,
        policy=d.missed,
        priority=d.priority,
        payload=d.body,
    )
    if not state.enabled:
        return row
    upcoming, due = rule.next(max(now, state.handled_until(now))), rule.next(state.handled_until(now))
    late_s = now - due if due is not None and is_late(due, now) else None
    return replace(row, next_ms=None if upcoming is None else upcoming * 1000, late_s=late_s)


def is_late(due: int, now: int) -> bool:
    """Return whether a run that was due then, in seconds, should have been made by now."""
    return due < now - LATE_S
