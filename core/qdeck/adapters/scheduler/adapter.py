"""The `scheduler` adapter: a TypeScript scheduler that keeps ids in four keys, and the jobs themselves in PostgreSQL.

What a score of the priority queue means depends on the version that wrote it: time plus or minus 0, 1, 2 or 3 million
ms. So the time at which an id was queued is known only within limits, and is not shown as an age.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

import msgspec

from qdeck._engine import codec
from qdeck._engine.stored_numbers import score_ms, whole
from qdeck._model import payload
from qdeck._model.queue_ref import Feature
from qdeck._model.reasons import CapabilityCode, Caution, CautionCode, Stuck, StuckCode
from qdeck._model.values import QueueRow, State
from qdeck._model.words import Unreadable, Verb
from qdeck._priority_names import PRIORITIES, PRIORITY_NAMES
from qdeck._redis import reads
from qdeck._redis.commands import raw_of, text_of, with_errors
from qdeck._redis.errors import is_error
from qdeck.adapters import cells
from qdeck.adapters.adapter import Adapter
from qdeck.adapters.cells import Cell, Change
from qdeck.adapters.model import (
    MOST_RUNS_S,
    Capability,
    Entry,
    Kind,
    Look,
    Outcome,
    Raw,
    Retried,
    Skipped,
    Source,
    age_s,
    change_each,
    short,
)
from qdeck.adapters.paging import every
from qdeck.adapters.scheduler.line import (
    OFFSETS,
    PRIORITY,
    SKEW_MS,
    Line,
    SchedulerSettings,
    Score,
    bound_of,
    read_line,
    read_sign,
    times_of,
)
from qdeck.adapters.times import iso, read_ms

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from qdeck._model.values import JobRecord
    from qdeck._redis.commands import Program
    from qdeck._settings.model import AdapterSettings
    from qdeck.adapters.model import Want
    from qdeck.adapters.plans import Context, Rule

DELAYED: Final = b"scheduler:queue:delayed"
PROCESSING: Final = b"scheduler:processing"
DEAD: Final = b"scheduler:queue:dlq"
QUEUE: Final = "scheduler"
MOST_JUDGED: Final = 5000  # ids in processing and delayed ones that a look reads to tell which do not move
MOST_LOOKED_UP: Final = 10  # dead letters for whose jobs others are looked up; of more, those that match are taken
MOST_COMPARED: Final = 1000  # newest dead letters that are compared with the jobs in processing
_WIDEST: Final = 3_000_000
_SOURCES: Final = (
    Source(key=PROCESSING, kind=Kind.HASH, state=State.RUNNING, native_state="processing"),
    Source(key=PRIORITY, kind=Kind.ZSET, state=State.READY, native_state="priority"),
    Source(key=DELAYED, kind=Kind.ZSET, state=State.DELAYED, native_state="delayed"),
    Source(key=DEAD, kind=Kind.ZSET, state=State.DEAD, native_state="dlq", down=True),
)
_NOT_QUEUED: Final = Caution(code=CautionCode.STATUS_ELSEWHERE, name="PostgreSQL is QUEUED or RETRYING")
_ENDED: Final = "it has a dead letter: retry that, or bury this"
_ELSEWHERE: Final = Caution(code=CautionCode.ELSEWHERE_UNCHANGED, name="the job in PostgreSQL")


class Scheduler(Adapter):
    """The four keys of the scheduler."""

    name: str = "scheduler"
    takes_priority: ClassVar[tuple[Verb, ...]] = (Verb.RETRY, Verb.REQUEUE, Verb.RUN)
    acl_keys: ClassVar[tuple[str, ...]] = ("scheduler:*",)
    features: ClassVar[frozenset[Feature]] = frozenset({Feature.PRIORITY_NAMES})
    settings_type: ClassVar[type[AdapterSettings]] = SchedulerSettings
    about: ClassVar[str] = "scheduler:queue:* and scheduler:processing of the task scheduler service"
    outcome_evidence: ClassVar[str] = (
        "a job that left the queue and is not dead again has ended or was dropped; only PostgreSQL has the outcome"
    )

    def fixed_keys(self) -> Mapping[bytes, Kind | None]:
        """Return the four keys."""
        return {source.key: source.kind for source in _SOURCES}

    def filter_of_key(self, key: str) -> tuple[str, str] | None:
        """Return the filter for one of its keys: each of them is a state."""
        return next(((QUEUE, f"state:{one.state}") for one in _SOURCES if one.key == raw_of(key)), None)

    def capabilities(self) -> Mapping[Verb, Capability]:
        """Return the verbs, which do the same as its own tools or an operator with redis-cli."""
        waiting = (State.READY, State.DELAYED)
        return {
            Verb.RETRY: Capability(states=(State.DEAD,), note=_NOT_QUEUED.text),
            Verb.RUN: Capability(states=(State.DELAYED,)),
            Verb.DISCARD: Capability(states=(*waiting, State.DEAD), note="the job stays in PostgreSQL"),
            Verb.REQUEUE: Capability(states=(State.RUNNING,), note=_NOT_QUEUED.text),
            Verb.BURY: Capability(states=(*waiting, State.RUNNING), note="like its own moveToDLQ"),
            Verb.REPRIORITISE: Capability(states=(State.READY,)),
            Verb.CANCEL: Capability(
                code=CapabilityCode.ELSEWHERE, note="jobs are cancelled in PostgreSQL, not in Redis"
            ),
        }

    def why_not_job(self, verb: str, job: JobRecord) -> str:
        """Of a broken entry, only the entry itself can be moved or removed."""
        why = super().why_not_job(verb, job)
        if verb == Verb.REQUEUE and _has_ended(job):
            why = why or _ENDED
        return why or (job.problem if job.problem and verb not in (Verb.BURY, Verb.DISCARD) else "")

    def rows(self, now: int) -> Program[Look]:
        """Return its one queue; the age of its oldest id is a lower bound, because scores are not exact."""
        counts = yield with_errors(
            (b"HLEN", PROCESSING), (b"ZCARD", PRIORITY), (b"ZCARD", DELAYED), (b"ZCARD", DEAD),
            (b"ZCOUNT", DELAYED, b"-inf", now), (b"ZRANGE", PRIORITY, 0, 0, b"WITHSCORES"),
            (b"ZRANGE", DELAYED, 0, 0, b"WITHSCORES"),
        )  # fmt: skip
        running, ready, delayed, dead, overdue = (None if is_error(c) else int(c) for c in counts[:5])
        first = None if is_error(counts[5]) or not counts[5] else score_ms(counts[5][1])
        least = None if first is None else max(0.0, (now - first - _WIDEST) / 1000) or None
        stuck: int | None = None
        if (running or 0) + (delayed or 0) <= MOST_JUDGED:
            moving = yield from every(self, QUEUE, (State.RUNNING, State.DELAYED), most=2 * MOST_JUDGED, now=now)
            stuck = sum(entry.stuck is not None for entry in moving)
        bad = [key for key, reply in zip(_ROW_KEYS, counts[:4], strict=True) if is_error(reply)]
        row = QueueRow(
            adapter=self.name, name=QUEUE, ready=ready, delayed=delayed, running=running, dead=dead, stuck=stuck,
            overdue=overdue, oldest_s=least, oldest_exact=False,
            problem=Unreadable.of(counts[0]) if len(bad) == 4 else None,
        )  # fmt: skip
        # Discovery reports a key of another type.
        types = {} if self.discovered is None else self.discovered.types
        known = [key for key in bad if types.get(key) == self.fixed_keys()[key]]
        return Look(rows=(row,), unread=tuple(f"no permission to read {key.decode()}" for key in known))

    def sources(self, queue: str, states: Sequence[str]) -> Program[list[Source]]:
        """Return the key of each state."""
        yield from ()  # reads nothing, but is a program
        return [source for source in _SOURCES if source.state in states and queue == QUEUE]

    def fill(self, queue: str, raws: Sequence[Raw], now: int, want: Want) -> Program[list[Entry]]:
        """Return the entries. What is in line has a priority by its score; what is in processing may have ended."""
        keys = {raw.source.key for raw in raws}
        sign = (yield from read_sign(self._score, now)) if PRIORITY in keys else 0
        ended = (yield from _ended(raws)) if PROCESSING in keys else {}
        return [_entry(raw, now, sign, ended) for raw in raws]

    def rules(self, queue: str) -> Sequence[Rule]:
        """Delayed entries that no worker can put in line, or did not; dead letters, that have no limit of their own."""
        from qdeck.adapters.scheduler.rules import RULES

        return RULES if queue == QUEUE else ()

    def prepare(self, verb: str, now: int) -> Program[Line]:
        """Return the line, and the scores that this version makes."""
        return (yield from read_line(self._score, now))

    @property
    def _score(self) -> Score | None:
        return self.settings.score if isinstance(self.settings, SchedulerSettings) else None

    def outcomes(self, tried: Sequence[Retried], now: int) -> Program[list[Outcome]]:
        """Return where their ids are now: queued, with a worker, among the newest dead letters, or nowhere."""
        ids = [raw_of(_job_of(one.seen.member)) for one in tried]
        later = [job + b":" + word.encode() for job in ids for word in OFFSETS]
        least = min((one.since_ms for one in tried), default=now) - SKEW_MS
        line, delayed, held, dead = yield with_errors(
            (b"ZMSCORE", PRIORITY, *ids), (b"ZMSCORE", DELAYED, *later), (b"HMGET", PROCESSING, *ids),
            (b"ZREVRANGEBYSCORE", DEAD, b"+inf", least, b"WITHSCORES", b"LIMIT", 0, MOST_JUDGED),
        )  # fmt: skip
        nowhere = [None] * len(later)
        places = [nowhere if is_error(reply) else reply for reply in (line, delayed, held)]
        again: dict[str, float] = {}
        for member, score in [] if is_error(dead) else reads.pairs(dead):
            again.setdefault(_job_of(member), float(score))  # the newest first
        found = []
        for at, one in enumerate(tried):
            newest = again.get(_job_of(one.seen.member))
            if newest is not None and newest > float(one.seen.score or 0):
                found.append(Outcome.DEAD)
            elif places[2][at] is not None:
                found.append(Outcome.RUNNING)
            elif places[0][at] is not None or any(s is not None for s in places[1][at * 4 : at * 4 + 4]):
                found.append(Outcome.WAITING)
            else:
                found.append(Outcome.UNKNOWN)
        return found

    def changes(self, act: Verb, entries: Sequence[Entry], context: Context) -> Program[Sequence[Change | Skipped]]:
        """Return the changes of a verb, which have the effect of the scheduler's own methods."""
        line: Line = context.prepared or (yield from self.prepare(act, context.now))
        is_few = act is Verb.RETRY and len(entries) <= MOST_LOOKED_UP
        has_ended = any(_has_ended(entry) for entry in entries)
        letters = (yield from _letters_of(entries)) if is_few or has_ended else {}
        held = (yield from _held(entries)) if act in (Verb.RETRY, Verb.RUN) else {}
        taken: set[str] = set()

        def build(one: tuple[int, Entry]) -> Change:
            number, entry = one
            if act is Verb.RETRY and entry.id in taken:
                return _remove_twin(entry, line.scores[_priority_of(entry, context)])
            more = letters.get(entry.id, ())
            if act is Verb.BURY and more and _has_ended(entry):
                return _leave_letter(entry, *more[0])
            made = _build(act, entry, context, context.reason_of(number), line)
            if entry.id in held:
                made = _out_of_processing(made, entry, held[entry.id])
            taken.add(entry.id)
            return _with_letters(made, more) if is_few else made

        return change_each(build, enumerate(entries))


_ROW_KEYS: Final = (PROCESSING, PRIORITY, DELAYED, DEAD)


def _name_of(priority: int) -> str:
    """Return the scheduler's name for a priority, which is ours too; other numbers are not accepted."""
    return PRIORITY_NAMES.get(priority, str(priority))


def _started(value: bytes) -> int | None:
    at = _json(value).get("startedAt")
    return whole(at)


def _json(raw: bytes) -> dict[str, Any]:
    try:
        value = codec.decode_json(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _ended(raws: Sequence[Raw]) -> Program[dict[str, float]]:
    """Return when jobs failed, of those with a dead letter since the first of these in processing was started."""
    started = [at for raw in raws if raw.value is not None and (at := _started(raw.value)) is not None]
    if not started:
        return {}
    newest = (b"ZREVRANGEBYSCORE", DEAD, b"+inf", min(started), b"WITHSCORES", b"LIMIT", 0, MOST_COMPARED)
    [reply] = yield from reads.try_all([newest])
    letters = [] if is_error(reply) else reads.pairs(reply)
    found: dict[str, float] = {}
    for member, score in letters:
        found.setdefault(_job_of(member), float(score))  # the newest first
    return found


def _has_ended(entry: JobRecord) -> bool:
    return entry.stuck is not None and entry.stuck.code is StuckCode.ALREADY_ENDED


def _entry(raw: Raw, now: int, sign: int, ended: Mapping[str, float]) -> Entry:
    if raw.source.key == PRIORITY:
        facts = _ready(raw, now, sign)
    elif raw.source.key == PROCESSING:
        facts = _running(raw, now, ended.get(text_of(raw.member)))
    else:
        facts = _delayed(raw, now) if raw.source.key == DELAYED else _dead(raw, now)
    since = facts.get("since_ms")
    native = raw.source.native_state
    facts = {"native_state": native, "id": text_of(raw.member), "age_s": age_s(now, since), **facts}
    # A dead letter is JSON, which may hold secrets: its name stands for it.
    name = f"{facts['id']}:{short(raw.member)}" if raw.source.key == DEAD else text_of(raw.member)
    return Entry(
        key=f"scheduler/{native}/{name}", adapter="scheduler", queue=QUEUE, state=raw.source.state,
        seen=raw.seen(), **facts,
    )  # fmt: skip


def _ready(raw: Raw, now: int, sign: int) -> dict[str, Any]:
    score = float(raw.score or 0)
    try:
        earliest, latest = int(score) - _WIDEST, min(now, int(score) + _WIDEST)
        told = {"score": int(score), "enqueued_from": iso(earliest, zulu=True), "enqueued_to": iso(latest, zulu=True)}
        times = times_of(int(score), sign, now)
        enqueued = {name: iso(at, zulu=True) for name, at in times.items()}
    except (ValueError, OverflowError, OSError):
        return {"problem": f"its score {score} is not a time", "native_state": "priority broken"}
    only = PRIORITIES[next(iter(times))] if len(times) == 1 else None
    return {
        "body": codec.encode_json({**told, "enqueued_if": enqueued}), "priority": only,
        "priority_bound": None if only is not None else bound_of(times, sign),
    }  # fmt: skip


def _delayed(raw: Raw, now: int) -> dict[str, Any]:
    """Read an entry as the scheduler's own workers do: by its first two parts."""
    text, due = text_of(raw.member), score_ms(raw.score)
    job_id, _, rest = text.partition(":")
    name, priority, problem, stuck = job_id, rest.partition(":")[0], None, None
    if priority not in OFFSETS:
        name, _, priority = text.rpartition(":")
        is_id = bool(name) and priority in OFFSETS
        problem = None if is_id else "its name is not `id:PRIORITY`"
        if problem or (due is not None and due <= now):
            stuck = Stuck(code=StuckCode.UNSCHEDULABLE, name=problem or "its id contains a colon")
    elif not job_id:
        problem = "its id is empty: the worker that takes it drops it"
    if stuck is None and due is not None and now - due > 60_000:
        stuck = Stuck(code=StuckCode.OVERDUE, seconds=(now - due) // 1000)
    if problem is not None:
        return {"problem": problem, "native_state": "delayed broken", "stuck": stuck, "due_ms": due}
    return {"id": name, "priority": PRIORITIES[priority], "due_ms": due, "stuck": stuck}


def _running(raw: Raw, now: int, ended: float | None) -> dict[str, Any]:
    value = _json(raw.value or b"")
    started, worker = _started(raw.value or b""), value.get("workerId")
    facts: dict[str, Any] = {"since_ms": started, "worker": worker if isinstance(worker, str) else None}
    facts["body"] = raw.value
    if started is None or facts["worker"] is None:
        facts |= {"problem": "its worker and start time cannot be read", "native_state": "processing broken"}
        facts["stuck"] = Stuck(code=StuckCode.OWNER_UNKNOWN)
    elif ended is not None and ended >= started:
        facts["stuck"] = Stuck(code=StuckCode.ALREADY_ENDED, name=text_of(PROCESSING))
    elif now - started > MOST_RUNS_S * 1000:
        seconds = (now - started) // 1000
        facts["stuck"] = Stuck(
            code=StuckCode.RUNNING_TOO_LONG, name="in processing", seconds=seconds, limit=MOST_RUNS_S
        )
    return facts


def _dead(raw: Raw, now: int) -> dict[str, Any]:
    value, at = _json(raw.member), score_ms(raw.score)
    job_id, reason = value.get("jobId"), value.get("reason")
    facts: dict[str, Any] = {"since_ms": at, "failed_ms": read_ms(value.get("failedAt")) or at, "body": raw.member}
    facts |= {"queue_from": "processing", "error": "Error"}
    if not isinstance(job_id, str) or not job_id:
        problem = "it does not name a job"
        return {**facts, "id": short(raw.member), "problem": problem, "native_state": "dlq broken", "message": problem}
    message = payload.mask_text(reason) if isinstance(reason, str) else None
    return {**facts, "id": job_id, "message": message}


def _job_of(letter: bytes) -> str:
    """Return the job id in a dead letter; empty if there is none."""
    named = _json(letter).get("jobId")
    return named if isinstance(named, str) else ""


def _build(act: Verb, entry: Entry, context: Context, reason: str, line: Line) -> Change:
    now, priority = context.now, _priority_of(entry, context)
    if act is Verb.DISCARD:
        return _remove(entry)
    if act is Verb.BURY:
        return _bury(entry, now, reason or entry.problem or "buried by an operator")
    if entry.problem is not None:
        raise Skipped.because(entry.problem)
    if act is Verb.REQUEUE:
        if _has_ended(entry):
            raise Skipped.because(_ENDED)
        return _requeue(entry, now, priority)
    return _to_line(act, entry, line, priority)


def _priority_of(entry: Entry, context: Context) -> str:
    """Return the given priority, else that of a delayed entry."""
    given = entry.priority if context.priority is None else context.priority
    priority = _name_of(given) if isinstance(given, int) else str(given or "NORMAL").upper()
    if priority not in OFFSETS:
        raise Skipped.because(f"{priority!r} is not a priority of the scheduler")
    return priority


def _held(entries: Sequence[Entry]) -> Program[dict[str, bytes]]:
    """Return what is in processing of these jobs."""
    [values] = yield from reads.try_all([(b"HMGET", PROCESSING, *(raw_of(entry.id) for entry in entries))])
    known = [] if is_error(values) else zip(entries, values, strict=True)
    return {entry.id: value for entry, value in known if value is not None}


def _out_of_processing(change: Change, entry: Entry, held: bytes) -> Change:
    """Take a job out of processing, too, if the crash of a worker left it there; a worker that has it keeps it."""
    started, letter = _started(held), score_ms(entry.seen.score)
    if started is None or letter is None or entry.seen.key != DEAD or letter < started:
        worker = _json(held).get("workerId")
        raise Skipped.because(f"{worker if isinstance(worker, str) else 'a worker'} has it in processing")
    job_id = raw_of(entry.id)
    kept = [cell for cell in change.cells if cell.key != PROCESSING]
    return msgspec.structs.replace(
        change, cells=(*kept, cells.field(PROCESSING, job_id, held, None)),
        effect=f"{change.effect}; removed from processing, too",
    )  # fmt: skip


def _leave_letter(entry: Entry, letter: bytes, score: bytes) -> Change:
    """Only remove a job from processing that has its dead letter."""
    return Change(
        id=entry.id, cells=(_there(entry), cells.score(DEAD, letter, score)), caution=_ELSEWHERE,
        effect="removed from scheduler:processing; it has a dead letter",
    )  # fmt: skip


def _letters_of(entries: Sequence[Entry]) -> Program[dict[str, list[tuple[bytes, bytes]]]]:
    """Return the other dead letters of these jobs, with their scores, among the newest ones."""
    newest = yield (b"ZREVRANGE", DEAD, 0, MOST_JUDGED - 1, b"WITHSCORES")
    own, ids = {entry.seen.member for entry in entries}, {entry.id for entry in entries}
    found: dict[str, list[tuple[bytes, bytes]]] = {}
    for member, score in reads.pairs(newest):
        if member not in own and (job := _job_of(member)) in ids:
            found.setdefault(job, []).append((member, score))
    return found


def _with_letters(change: Change, letters: Sequence[tuple[bytes, bytes]]) -> Change:
    if not letters:
        return change
    more = tuple(cells.score(DEAD, member, score, None) for member, score in letters)
    effect = f"{change.effect}; takes {len(letters) + 1} dead letters"
    return msgspec.structs.replace(change, cells=(*change.cells, *more), effect=effect)


def _remove_twin(entry: Entry, score: int) -> Change:
    """Remove a dead letter whose job another one of the same plan put in line."""
    guard = cells.score(PRIORITY, raw_of(entry.id), b"%d" % score)
    return Change(id=entry.id, cells=(_there(entry), guard), effect="removed with the other dead letter of its job")


def _there(entry: Entry) -> Cell:
    """Return the cell that removes an entry from its key."""
    seen = entry.seen
    if seen.key == PROCESSING:
        return cells.field(seen.key, seen.member, seen.value, None)
    return cells.score(seen.key, seen.member, seen.score, None)


def _remove(entry: Entry) -> Change:
    return Change(
        id=entry.id, cells=(_there(entry),), effect=f"removed from {entry.seen.key.decode()}",
        caution=_ELSEWHERE,
    )  # fmt: skip


def _to_line(act: Verb, entry: Entry, line: Line, priority: str) -> Change:
    seen, job_id, text = entry.seen, raw_of(entry.id), b"%d" % line.scores[priority]
    effect = f"moved to scheduler:queue:priority as {priority}, {line.place(priority)}"
    if act is Verb.REPRIORITISE:
        moved = cells.score(PRIORITY, seen.member, seen.score, text)
        return Change(id=entry.id, cells=(moved,), effect=effect, caution=_said(line.order))
    return Change(
        id=entry.id,
        cells=(_there(entry), cells.score(PRIORITY, job_id, None, text), cells.field(PROCESSING, job_id, None)),
        effect=effect,
        caution=_said(_NOT_QUEUED if act is Verb.RETRY else None, line.order),
    )


def _said(*cautions: Caution | None) -> tuple[Caution, ...]:
    return tuple(one for one in cautions if one is not None)


def _requeue(entry: Entry, now: int, priority: str) -> Change:
    seen = entry.seen
    member, due = seen.member + b":" + priority.encode(), b"%d" % (now + 5000)
    return Change(
        id=entry.id,
        cells=(cells.score(DELAYED, member, None, due), _there(entry), cells.score(PRIORITY, seen.member, None)),
        effect=f"moved to scheduler:queue:delayed as {priority}, due in 5s, like its own recovery",
        caution=_NOT_QUEUED,
    )


def _bury(entry: Entry, now: int, reason: str) -> Change:
    shown = entry.id.encode("utf-8", "backslashreplace").decode()
    letter = codec.encode_json({"jobId": shown, "reason": reason, "failedAt": iso(now, zulu=True)})
    return Change(
        id=entry.id,
        cells=(_there(entry), cells.score(DEAD, letter, None, b"%d" % now)),
        effect="moved to the dead letters",
        caution=_ELSEWHERE,
    )
