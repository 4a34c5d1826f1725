"""What a purge would take of one queue, slice by slice, from plain reads.

Each rule looks at the queue as it is before the purge; what a rule takes is no other rule's prey in the same plan. So
the plan is all that the purge will do, and a second purge a moment later finds what the first one left.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from qdeck._deck import jobs
from qdeck._deck.model import State
from qdeck._deck.records import read_head, read_lease
from qdeck._engine import keys
from qdeck._engine.codec import BAND, version_seen
from qdeck._engine.numbers import MOST, clipped
from qdeck._operations.model import NO_STATE
from qdeck._redis import reads
from qdeck._rules.limits import Effect, Limits, Rule

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from qdeck._redis.commands import Command, Program

SLICE: Final = 500
_STATE_OF: Final = {
    Rule.READY_TOO_OLD: State.READY,
    Rule.RUNNING_WITHOUT_OWNER: State.RUNNING,
    Rule.DONE_TOO_OLD: State.DONE,
    Rule.DEAD_TOO_OLD: State.DEAD,
    Rule.DEAD_TOO_MANY: State.DEAD,
    Rule.CANCELLED_TOO_OLD: State.CANCELLED,
}
PARTS: Final = ("head", "body", "tries", "error", "result", "log")  # what is kept of a job, by its id
_ID_HEX: Final = 13  # digits at the start of an id that are the microseconds of its making
_ID_LENGTH: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Pick:
    """One entry that a rule takes. `seen` is what it was like: its score, of a running job its token."""

    queue: str
    id: str
    state: str
    seen: str
    rule: Rule
    effect: Effect
    reason: str
    age_s: float | None
    bytes: int
    has_dependents: bool = False
    is_unique: bool = False
    has_handler: bool = False


@dataclass(frozen=True, slots=True)
class Place:
    """How far the walk of one rule came."""

    score: int = 0
    id: str = ""
    part: int = 0  # of orphaned records: which hash
    cursor: bytes = b"0"
    left: int | None = None  # of too many dead letters: how many are still to go


@dataclass(frozen=True, slots=True)
class Found:
    """A slice of what a rule takes; `place` goes on from here, None is the end."""

    picks: list[Pick]
    place: Place | None
    scanned: int
    skipped: list[str] = field(default_factory=list)  # running jobs without a lease


@dataclass(frozen=True, slots=True)
class Purge:
    """One purge: its rules' thresholds at one moment, and the workers that live then (None: not known)."""

    limits: Limits
    now_ms: int
    alive: Collection[str] | None = None
    skips_dead_before_ms: int | None = None  # what `dead_too_old` takes, `dead_too_many` need not

    def limit_ms(self, rule: Rule) -> int:
        """Entries from before this moment are too old."""
        return self.now_ms - self.limits.age_ms(rule)


def take(purge: Purge, queue: str, rule: Rule, place: Place | None) -> Program[Found]:
    """The next slice of what a rule takes of a queue."""
    if rule is Rule.ORPHANED_RECORDS:
        return (yield from _orphans(purge, queue, place or Place()))
    if rule is Rule.READY_TOO_OLD:
        found, place, scanned = yield from _ready(purge, queue, place)
    elif rule is Rule.DEAD_TOO_MANY:
        found, place, scanned = yield from _too_many(purge, queue, place)
    else:
        key = keys.key(queue, _STATE_OF[rule])
        found = yield from _slice(key, b"-inf", b"(%d" % purge.limit_ms(rule), place)
        scanned = len(found)
        place = Place(*found[-1]) if found else None
    if rule is Rule.RUNNING_WITHOUT_OWNER:
        skipped: list[str] = []
        return Found((yield from _running(purge, queue, found, skipped)), place, scanned, skipped)
    picks = [_pick(purge, queue, rule, job_id, score) for score, job_id in found]
    return Found((yield from _weighed(queue, picks)), place, scanned)


def _pick(purge: Purge, queue: str, rule: Rule, job_id: str, score: int) -> Pick:
    since = score % BAND if rule is Rule.READY_TOO_OLD else score
    age = (purge.now_ms - since) / 1000
    state = _STATE_OF[rule]
    words = {State.READY: "ready", State.DONE: "done", State.DEAD: "dead", State.CANCELLED: "cancelled"}[state]
    reason = f"{words} for {age:,.0f} s, over {purge.limits.told(rule)}"
    if rule is Rule.DEAD_TOO_MANY:
        reason = f"more dead letters than {purge.limits.told(rule)}; dead for {age:,.0f} s"
    return Pick(
        queue=queue,
        id=job_id,
        state=state,
        seen=str(score),
        rule=rule,
        effect=purge.limits.effect(rule),
        reason=reason,
        age_s=age,
        bytes=0,
    )


def _slice(
    key: bytes, low: bytes, high: bytes, place: Place | None, most: int = SLICE
) -> Program[list[tuple[int, str]]]:
    """Scores and ids in order, behind a place; entries that share its score are passed by their ids."""
    if place is None:
        [flat] = yield reads.read((b"ZRANGEBYSCORE", key, low, high, b"WITHSCORES", b"LIMIT", 0, most))
        return _scored(reads.good(flat))
    passed, seen = 0, jobs.raw_id(place.id)
    while True:
        call = (b"ZRANGEBYSCORE", key, place.score, high, b"WITHSCORES", b"LIMIT", passed, most)
        [flat] = yield reads.read(call)
        found = _scored(reads.good(flat))
        fresh = [pair for pair in found if pair[0] != place.score or jobs.raw_id(pair[1]) > seen]
        if fresh or not found:
            return fresh
        passed += len(found)


def _scored(flat: Sequence[bytes]) -> list[tuple[int, str]]:
    return [(clipped(score), member.decode("utf-8", "surrogateescape")) for member, score in reads.pairs(flat)]


def _ready(purge: Purge, queue: str, place: Place | None) -> Program[tuple[list[tuple[int, str]], Place | None, int]]:
    """Each priority is a band of scores of its own, with its oldest first."""
    key, limit = keys.key(queue, "ready"), purge.limit_ms(Rule.READY_TOO_OLD)
    band = place.score // BAND if place else -1
    while True:
        if place is not None:
            found = yield from _slice(key, b"", b"(%d" % (band * BAND + limit), place)
            if found:
                return found, Place(*found[-1]), len(found)
        after = max(0, (band + 1) * BAND)
        [flat] = yield reads.read((b"ZRANGEBYSCORE", key, after, MOST, b"WITHSCORES", b"LIMIT", 0, 1))
        first = _scored(reads.good(flat, queue))
        if not first:
            return [], None, 0
        band = first[0][0] // BAND
        # One before the first of the band, so that the walk starts with it.
        place = Place(band * BAND - 1)


def _too_many(
    purge: Purge, queue: str, place: Place | None
) -> Program[tuple[list[tuple[int, str]], Place | None, int]]:
    """The oldest dead letters beyond the most that are kept; what is too old anyhow counts, and is not taken again."""
    key, most = keys.key(queue, "dead"), purge.limits.dlq_max_entries
    before = purge.skips_dead_before_ms
    low = b"-inf" if before is None else b"%d" % before
    left = place.left if place is not None else None
    if left is None:
        [count] = yield reads.read((b"ZCOUNT", key, low, b"+inf"))
        left = max(0, reads.good(count, queue) - most)
    if left == 0:
        return [], None, 0
    found = yield from _slice(key, low, b"+inf", place, min(left, SLICE))
    if not found:
        return [], None, 0
    return found, Place(*found[-1], left=left - len(found)), len(found)


def _running(purge: Purge, queue: str, found: Sequence[tuple[int, str]], skipped: list[str]) -> Program[list[Pick]]:
    """Jobs whose lease ran out long ago: the age is that of being without an owner."""
    if not found:
        return []
    ids = [jobs.raw_id(job_id) for _, job_id in found]
    [leases] = yield reads.read((b"HMGET", keys.key(queue, "lease"), *ids))
    rule, picks = Rule.RUNNING_WITHOUT_OWNER, []
    for (deadline, job_id), raw in zip(found, reads.good(leases, queue), strict=True):
        lease = read_lease(raw)
        if lease is None:
            skipped.append(job_id)
            continue
        age = (purge.now_ms - deadline) / 1000
        owner = f"its worker was {lease.worker}"
        if purge.alive is not None:
            living = lease.worker in purge.alive
            owner = f"its worker {lease.worker} " + ("lives and does not renew it" if living else "is gone")
        reason = f"its lease ran out {age:,.0f} s ago, over {purge.limits.told(rule)}; {owner}"
        picks.append(
            Pick(
                queue=queue,
                id=job_id,
                state=State.RUNNING,
                seen=lease.token,
                rule=rule,
                effect=purge.limits.effect(rule),
                reason=reason,
                age_s=age,
                bytes=0,
            )
        )
    return (yield from _weighed(queue, picks))


def _weighed(queue: str, picks: Sequence[Pick]) -> Program[list[Pick]]:
    """The entries with their size in bytes, and what hangs on them."""
    if not picks:
        return []
    names = (*PARTS[1:], "after")
    sizes = yield reads.read(*((b"HLEN", keys.key(queue, part)) for part in names))
    parts = [part for part, size in zip(names, sizes, strict=True) if reads.good(size, queue) and part != "after"]
    ids = [jobs.raw_id(pick.id) for pick in picks]
    [heads] = yield reads.read((b"HMGET", keys.key(queue, "head"), *ids))
    lengths = yield from reads.ask([(b"HSTRLEN", keys.key(queue, part), job_id) for job_id in ids for part in parts])
    kids: list[Any] = [None] * len(ids)
    if reads.good(sizes[-1], queue):
        [kids] = yield reads.read((b"HMGET", keys.key(queue, "after"), *(b">" + job_id for job_id in ids)))
    width, weighed = len(parts), []
    for at, (pick, head) in enumerate(zip(picks, reads.good(heads, queue), strict=True)):
        text = head or b""
        size = len(text) + sum(n for n in lengths[at * width : at * width + width] if isinstance(n, int))
        weighed.append(
            replace(
                pick,
                seen=version_seen(pick.state, pick.seen, head),
                bytes=size,
                has_dependents=kids[at] is not None,
                is_unique=b"\nu" in text,
                has_handler=b"\nf" in text,
            )
        )
    return weighed


def _orphans(purge: Purge, queue: str, place: Place) -> Program[Found]:
    """Fields kept for a job that is in no state: each is told once, at the first of the hashes that has it."""
    key = keys.key(queue, PARTS[place.part])
    fields, cursor = yield from _fields(key, place.cursor)
    last = cursor == b"0"
    following = Place(part=place.part + last, cursor=cursor)
    after = None if last and place.part + 1 == len(PARTS) else following
    homeless = yield from _homeless(queue, fields)
    if homeless and place.part:
        calls: list[Command] = [
            (b"HEXISTS", keys.key(queue, part), raw) for raw in homeless for part in PARTS[: place.part]
        ]
        replies = yield from reads.ask(calls)
        homeless = [raw for at, raw in enumerate(homeless) if not any(replies[at * place.part : (at + 1) * place.part])]
    picks = yield from _orphan_picks(purge, queue, homeless)
    return Found((yield from _weighed(queue, picks)), after, len(fields))


def _fields(key: bytes, cursor: bytes) -> Program[tuple[list[bytes], bytes]]:
    """A step through the names of a hash; servers that cannot leave the values out are asked for fewer at a time."""
    [reply] = yield reads.read((b"HSCAN", key, cursor, b"COUNT", SLICE, b"NOVALUES"))
    if reads.is_error(reply):
        [reply] = yield reads.read((b"HSCAN", key, cursor, b"COUNT", SLICE // 10))
        following, flat = reads.good(reply)
        names = flat[::2]
    else:
        following, names = reply
    cursor = following if isinstance(following, bytes) else b"%d" % following
    return [name for name in dict.fromkeys(names) if name], cursor


def _homeless(queue: str, fields: Sequence[bytes]) -> Program[list[bytes]]:
    """Those that are in no state. A job that moves while it is looked for is looked for again."""
    if not fields:
        return []
    sizes = yield reads.read(*((b"ZCARD", keys.key(queue, state)) for state in jobs.ALL_STATES))
    full = sorted(
        ((reads.good(size, queue), state) for size, state in zip(sizes, jobs.ALL_STATES, strict=True)), reverse=True
    )
    left = list(fields)
    for size, state in full:  # the longest list first: most are found there
        if size and left:
            [scores] = yield reads.read((b"ZMSCORE", keys.key(queue, state), *left))
            left = [raw for raw, score in zip(left, reads.good(scores, queue), strict=True) if score is None]
    if not left:
        return []
    names = [raw.decode("utf-8", "surrogateescape") for raw in left]
    there = yield from jobs.by_id(queue, names)
    return [raw for raw, home in zip(left, there, strict=True) if home is None]


def _orphan_picks(purge: Purge, queue: str, homeless: Sequence[bytes]) -> Program[list[Pick]]:
    if not homeless:
        return []
    [heads] = yield reads.read((b"HMGET", keys.key(queue, "head"), *homeless))
    rule, picks = Rule.ORPHANED_RECORDS, []
    for raw, head_text in zip(homeless, reads.good(heads, queue), strict=True):
        job_id = raw.decode("utf-8", "surrogateescape")
        made = made_ms(raw, head_text)
        age = None if made is None else (purge.now_ms - made) / 1000
        if age is not None and age * 1000 <= purge.limits.age_ms(rule):
            continue
        # One whose age nobody knows is no younger than this purge, and would otherwise stay for ever.
        told = "of unknown age" if age is None else f"made {age:,.0f} s ago, over {purge.limits.told(rule)}"
        picks.append(
            Pick(
                queue=queue,
                id=job_id,
                state=NO_STATE,
                seen="",
                rule=rule,
                effect=purge.limits.effect(rule),
                reason=f"a record of no job, {told}",
                age_s=age,
                bytes=0,
            )
        )
    return picks


def made_ms(job_id: bytes, head_text: bytes | None) -> int | None:
    """When a record was made: its head tells, or its id, if it is one of ours."""
    head = read_head(head_text)
    if head is not None:
        return head.enqueued_ms
    if len(job_id) != _ID_LENGTH:
        return None
    try:
        return int(job_id[:_ID_HEX], 16) // 1000
    except ValueError:
        return None
