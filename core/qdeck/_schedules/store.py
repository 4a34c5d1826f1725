"""Programs on the schedules of a server: register, change, look, and make the jobs of a turn."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from qdeck._engine import keys, programs, transitions
from qdeck._engine.job_ids import new_id
from qdeck._engine.scripts import load
from qdeck._errors import InvalidOption, QdeckError, UnknownJob, UsageError
from qdeck._redis import reads, scripts
from qdeck._redis.commands import Request, ask
from qdeck._redis.errors import good, is_error
from qdeck._schedules.model import Definition, Past, ScheduleRow, read_definition, read_past

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qdeck._engine.transitions import NewJob
    from qdeck._redis.commands import Arg, Program

SCHEDULES: Final = "qdeck:schedules"  # hash: name → definition (JSON)
STATE: Final = "{qdeck:schedules}:state"  # hash: name → what is known about its runs; in the slot of the other
_KEYS: Final = (SCHEDULES.encode(), STATE.encode())
_FAR_MS: Final = 60_000  # for so long no late ticker makes a turn of a schedule that was moved or removed
STATES: Final = ("done", "dead", "cancelled", "running", "ready", "delayed", "blocked")
ENDED: Final = ("done", "dead", "cancelled")
LATE_S: Final = 60


class UnknownSchedule(UnknownJob):
    """There is no such schedule."""


@dataclass(frozen=True, slots=True)
class Ticked:
    """What became of a call that makes turns: `stale` when it was decided on too long ago."""

    stale: bool
    mark: int
    made: list[str]


@dataclass(frozen=True, slots=True)
class Book:
    """All schedules as they are stored, at one moment of the server's clock."""

    now_ms: int
    revision: bytes | None
    definitions: dict[str, bytes]
    past: dict[str, Past]


def _step(verb: str, name: str, *args: Arg) -> Program[tuple[int, str]]:
    script = scripts.plain("_schedules/schedule", asks_itself=True)
    now, word = yield from scripts.run(script, _KEYS, [verb, name, *args])
    return int(now), word.decode()


def _mark(queue: str, name: str, upto: Arg) -> Program[None]:
    script = load("_schedules/tick")
    args: list[Arg] = [0, 0, name, upto, 0, "", "", ""]
    yield from programs.run_on_queue(script, queue, args, [cron_key(queue)])


def cron_key(queue: str) -> bytes:
    """The hash of a queue that keeps the last turn of each schedule that makes jobs there."""
    return keys.key(queue, "last_run")


def register(definition: Definition, replaces: bytes | None = None) -> Program[str]:
    """Stores a definition: `made`, `changed`, or `same` when it was there already. Turns from now on count.

    With `replaces`, only in place of exactly that one.
    """
    old = yield from _find(definition.name)
    wanted = old if replaces is None else replaces
    if old is not None and old != definition.encode():
        yield from _leave_queue(definition.name, old, definition.queue)
    _, word = yield from _step("put", definition.name, definition.encode(), wanted or b"-")
    if word == "other":
        if replaces is not None:
            raise UsageError(f"schedule {definition.name!r} has changed since", hint="look at it again")
        return (yield from register(definition))
    if word != "same":
        # A mark that an earlier schedule of this name left in the future would swallow the first turns.
        yield from _mark(definition.queue, definition.name, "now")
    return word


def _leave_queue(name: str, raw: bytes, to: str) -> Program[None]:
    """Before a schedule makes its jobs in another queue: a late ticker must not make one more in this one."""
    try:
        old = read_definition(name, raw)
    except ValueError:
        return
    if old.queue != to:
        now = yield from clock()
        yield from _mark(old.queue, name, (now + _FAR_MS) // 1000)


def clock() -> Program[int]:
    """The server's clock in ms."""
    [stamp] = yield Request(((b"TIME",),), _KEYS[0])
    return reads.ms_of(stamp)


def _find(name: str) -> Program[bytes | None]:
    raw = yield (b"HGET", SCHEDULES, name)
    found: bytes | None = raw
    return found


def get(name: str) -> Program[Definition]:
    """The definition of a schedule."""
    raw = yield from _find(name)
    if raw is None:
        raise _unknown(name)
    return _read(name, raw)


def _read(name: str, raw: bytes) -> Definition:
    try:
        return read_definition(name, raw)
    except ValueError as error:
        raise QdeckError(
            f"schedule {name!r} {error}", hint="a newer qdeck wrote it, or it is damaged: remove it and add it again"
        ) from error


def _unknown(name: str) -> UnknownSchedule:
    return UnknownSchedule(f"there is no schedule {name!r}", hint="qdeck schedule list names them all")


def edit(
    name: str, *, cron: str | None = None, tz: str | None = None, missed: str | None = None, job: NewJob | None = None
) -> Program[Definition]:
    """Changes a schedule; what is not given stays. Turns from now on follow the new rule."""
    raw = yield from _find(name)
    if raw is None:
        raise _unknown(name)
    old = _read(name, raw)
    made = job or transitions.NewJob(name, old.priority, old.template, old.body, unique=old.unique)
    new = Definition.of(name, old.queue, made, cron=cron or old.cron, tz=tz or old.tz, missed=missed or old.missed)
    if cron and new.rule().next((yield from clock()) // 1000) is None:
        raise InvalidOption(f"cron {cron!r} is over", hint="its last turn was in the past: name a later year")
    yield from register(new, raw)
    return new


def remove(name: str) -> Program[None]:
    """Removes a schedule. Jobs that it made stay."""
    raw = yield from _find(name)
    if raw is not None:
        yield from _leave_queue(name, raw, "")
    _, word = yield from _step("remove", name)
    if word == "gone":
        raise _unknown(name)


def enable(name: str, enabled: bool) -> Program[bool]:
    """Pauses or resumes a schedule; false when it was so already. Turns of a pause are not made up for."""
    _, word = yield from _step("enable", name, int(enabled))
    if word == "gone":
        raise _unknown(name)
    return word == "ok"


def start_at(name: str, ms: int) -> Program[None]:
    """Lets a schedule have no turns before a moment."""
    yield from _step("start", name, ms)


def run(name: str) -> Program[str]:
    """Makes a job now, out of turn, and returns its id. The turns stay as they are."""
    definition = yield from get(name)
    job = transitions.NewJob(
        f"cron:{name}:{new_id()}", definition.priority, definition.template, definition.body, unique=definition.unique
    )
    [made] = yield from programs.enqueue(definition.queue, [job])
    if made.created:
        yield from note_run(name, made.id)
    return made.id


def note_run(name: str, job_id: str) -> Program[None]:
    """Notes a job that was made out of turn as the last of its schedule."""
    yield from _step("ran", name, job_id)


def tick(definition: Definition, look_ms: int, turns: Sequence[int], upto: int) -> Program[Ticked]:
    """Makes the jobs of turns that nobody made yet, and settles all turns up to one."""
    script = load("_schedules/tick")
    d = definition
    args: list[Arg] = [0, look_ms, d.name, upto, d.priority, d.template, d.body, d.unique]
    for turn in turns:
        args += (turn, d.turn_id(turn))
    reply = yield from programs.run_on_queue(script, d.queue, args, [cron_key(d.queue)])
    _, mark, *answers = reply
    if mark == -1:
        return Ticked(True, 0, [])
    made = [d.turn_id(turn) for turn, answer in zip(turns, answers, strict=True) if answer == 1]
    return Ticked(False, int(mark), made)


def settle(name: str, turn: int, missed: int, made: Sequence[str]) -> Program[bool]:
    """Notes what became of the turns up to one; false when another ticker has noted that or a later one."""
    _, word = yield from _step("settle", name, turn, missed, len(made), made[-1] if made else "-")
    return word == "ok"


def note_outcome(name: str, job_id: str, outcome: str) -> Program[None]:
    """Notes how the last job of a schedule ended, for when its record is gone."""
    yield from _step("outcome", name, job_id, outcome)


def peek(names: Sequence[str]) -> Program[tuple[int, bytes | None, dict[str, Past]]]:
    """The clock, the count of changes, and what is known about the runs of some schedules."""
    stamp, words = yield Request(((b"TIME",), (b"HMGET", STATE, "", *names)), _KEYS[0])
    return reads.ms_of(stamp), words[0], {name: read_past(raw) for name, raw in zip(names, words[1:], strict=True)}


def open_book(*, looks: bool = False) -> Program[Book]:
    """All schedules. There are a thousand at most: the script takes no more.

    Who only looks, and may not read the server's clock, gets this machine's.
    """
    stamp, flat, lines = yield ask((b"TIME",), (b"HGETALL", SCHEDULES), (b"HGETALL", STATE), key=_KEYS[0])
    flat, lines = good(flat), good(lines)
    said = {lines[i].decode("utf-8", "replace"): lines[i + 1] for i in range(0, len(lines), 2)}
    definitions = {flat[i].decode("utf-8", "replace"): flat[i + 1] for i in range(0, len(flat), 2)}
    past = {name: read_past(said.get(name)) for name in definitions}
    now_ms = reads.local_ms() if looks and is_error(stamp) else reads.ms_of(good(stamp))
    return Book(now_ms, said.get(""), definitions, past)


def read() -> Program[list[ScheduleRow]]:
    """All schedules as an operator sees them, by name; with plain reads."""
    book = yield from open_book(looks=True)
    rows: list[ScheduleRow] = []
    last: dict[str, list[str]] = {}
    for name in sorted(book.definitions):
        row = _row(name, book)
        rows.append(row)
        if row.last_id and row.queue:
            last.setdefault(row.queue, []).append(row.last_id)
    found: dict[str, str] = {}
    for queue, ids in last.items():
        found |= yield from states_of(queue, ids)
    return [replace(row, last_outcome=found.get(row.last_id or "") or row.last_outcome) for row in rows]


def states_of(queue: str, ids: Sequence[str]) -> Program[dict[str, str]]:
    """In which states jobs are; those that are not known any more are left out."""
    sends: list[tuple[Arg, ...]] = [(b"ZMSCORE", keys.key(queue, state), *ids) for state in STATES]
    replies = yield ask(*sends, key=keys.key(queue, "meta"))
    found: dict[str, str] = {}
    for state, scores in zip(STATES, replies, strict=True):
        if is_error(scores):
            continue
        for job_id, score in zip(ids, scores, strict=True):
            if score is not None:
                found.setdefault(job_id, state)
    return found


def _row(name: str, book: Book) -> ScheduleRow:
    past = book.past[name]
    row = ScheduleRow(
        name=name,
        problem="" if past.readable else "what is kept about its runs cannot be read",
        enabled=past.enabled,
        last_ms=past.last_ms or None,
        last_turn_ms=past.turn * 1000 or None,
        last_id=past.last_id or None,
        last_outcome=past.outcome or None,
        missed=past.missed,
        made=past.made,
    )
    try:
        d = read_definition(name, book.definitions[name])
        rule = d.rule()
    except ValueError as error:
        return replace(row, problem=str(error))
    now = book.now_ms // 1000
    row = replace(
        row, queue=d.queue, task=d.task, cron=d.cron, tz=d.tz, policy=d.missed, priority=d.priority, payload=d.body
    )
    if not past.enabled:
        return row
    upcoming, due = rule.next(max(now, past.mark(now))), rule.next(past.mark(now))
    late = now - due if due is not None and due < now - LATE_S else None
    return replace(row, next_ms=None if upcoming is None else upcoming * 1000, late_s=late)
