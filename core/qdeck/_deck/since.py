"""Since when a check is as it is: what the server still knows of that, with a few plain reads for each.

Nothing tells the moment of every change. What does: the pause in the log of operations, the last heartbeat of a worker
that is gone, the samples of agents, the entry that was one too many, and what an agent that judges noted itself. Where
only a part of that is known, the answer is a moment at which it was so already.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec

from qdeck._deck import history, reads, workers
from qdeck._deck.model import NATIVE, State, Status
from qdeck._engine import codec, keys, ops
from qdeck._engine.codec import BAND
from qdeck._engine.numbers import clipped, score_ms, whole
from qdeck._errors import NotAllowed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from qdeck._deck.history import Sample
    from qdeck._deck.model import QueueRow, Reason, WorkerRow
    from qdeck._deck.verdict import Check
    from qdeck._engine.ops import Program
    from qdeck._settings.thresholds import Thresholds

KEY: Final = "qdeck:since"  # string: what the agents that judge noted, as JSON
LIVE_MS: Final = 86_400_000
MOST: Final = 20  # queues that are looked into for one check
_MOST_ENTRIES: Final = 200  # of a list, until the one that was too many
_MOST_NOTED: Final = 500
_MOST_LOG: Final = 500
_GAP_MS: Final = 900_000  # longer without a look, and what was in between is not known
_HISTORY_S: Final = 86_400.0
_CRITICAL_TIMES: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Began:
    """When something came to be as it is; not `exact`: it was so already then."""

    at_ms: int
    exact: bool


def place(check: str, queue: str | None) -> str:
    """The name of what is judged: a check, of one queue or of all."""
    return f"{check}/{queue or ''}"


def read_since(
    checks: Sequence[Check], rows: Sequence[QueueRow], thresholds: Thresholds, now_ms: int
) -> Program[dict[str, Began]]:
    """Since when each reason of these checks holds, by its place; one of which nothing is known is missing."""
    by_name = {row.name: row for row in rows}
    wanted = [(check.name, reason) for check in checks for reason in check.reasons]
    found: dict[str, Began] = {}
    if not wanted:
        return found
    yield from _noted(wanted, thresholds, found)
    left = [(name, reason) for name, reason in wanted if place(name, reason.queue) not in found]

    def of(check: str) -> list[Reason]:
        return [reason for name, reason in left if name == check and reason.queue in by_name][:MOST]

    yield from _sampled(of("ready_queue"), "ready_queue", thresholds.ready_queue_max, by_name, found)
    yield from _dead(of("dead_letters"), thresholds, by_name, found)
    yield from _overdue(of("pending_queue"), thresholds.pending_queue_max, by_name, now_ms, found)
    yield from _stuck([reason for name, reason in left if name == "stuck"], rows, thresholds, now_ms, found)
    yield from _unserved(of("workers"), by_name, thresholds, now_ms, found)
    yield from _paused(of("paused"), by_name, now_ms, found)
    return {name: began for name, began in found.items() if 0 < began.at_ms <= now_ms}


def _sampled(
    reasons: Sequence[Reason], check: str, most: int, by_name: Mapping[str, QueueRow], found: dict[str, Began]
) -> Program[None]:
    limits = {
        reason.queue: most if reason.status is Status.DEGRADED else _CRITICAL_TIMES * most
        for reason in reasons
        if reason.queue is not None and by_name[reason.queue].layout == NATIVE
    }
    if not limits:
        return
    samples = yield from _samples(list(limits))
    for queue, limit in limits.items():
        began = crossing(samples.get(queue, ()), lambda sample: sample.ready, limit)
        if began is not None:
            found[place(check, queue)] = began


def _samples(queues: Sequence[str]) -> Program[dict[str, list[Sample]]]:
    try:
        return (yield from history.read_history(queues, seconds=_HISTORY_S))
    except NotAllowed:
        return {}


def crossing(samples: Sequence[Sample], number: Callable[[Sample], int], limit: int) -> Began | None:
    """When a number went over its limit for the last time, by samples, oldest first; None when it is not over it."""
    after: Sample | None = None
    for sample in reversed(samples):
        if after is not None and after.at_ms - sample.at_ms > _GAP_MS:
            return Began(at_ms=after.at_ms, exact=False)
        if number(sample) <= limit:
            return None if after is None else Began(at_ms=after.at_ms, exact=True)
        after = sample
    return None if after is None else Began(at_ms=after.at_ms, exact=False)


def _dead(
    reasons: Sequence[Reason], thresholds: Thresholds, by_name: Mapping[str, QueueRow], found: dict[str, Began]
) -> Program[None]:
    """The samples tell it to some seconds; else the entry that was one too many has been there since it died."""
    limits = {
        reason.queue: thresholds.dlq_max_warning if reason.status is Status.DEGRADED else thresholds.dlq_max_critical
        for reason in reasons
        if reason.queue is not None and by_name[reason.queue].layout == NATIVE
    }
    if not limits:
        return
    samples = yield from _samples(list(limits))
    calls = [(b"ZRANGE", keys.key(q, State.DEAD), limit, limit, b"WITHSCORES") for q, limit in limits.items()]
    replies = yield from reads.ask(calls)
    for (queue, limit), reply in zip(limits.items(), replies, strict=True):
        began = crossing(samples.get(queue, ()), lambda sample: sample.dead, limit)
        at = None if reads.is_error(reply) or not reply else score_ms(reply[1])
        if at is not None and (began is None or (not began.exact and at < began.at_ms)):
            began = Began(at_ms=at, exact=False)
        if began is not None:
            found[place("dead_letters", queue)] = began


def _overdue(
    reasons: Sequence[Reason], most: int, by_name: Mapping[str, QueueRow], now_ms: int, found: dict[str, Began]
) -> Program[None]:
    limits = {
        reason.queue: most if reason.status is Status.DEGRADED else _CRITICAL_TIMES * most
        for reason in reasons
        if reason.queue is not None and by_name[reason.queue].layout == NATIVE
    }
    calls = [(b"ZRANGE", keys.key(q, "delayed"), limit, limit, b"WITHSCORES") for q, limit in limits.items()]
    replies = yield from reads.ask(calls)
    for queue, reply in zip(limits, replies, strict=True):
        at = None if reads.is_error(reply) or not reply else score_ms(reply[1])
        if at is not None and at <= now_ms:
            found[place("pending_queue", queue)] = Began(at_ms=at, exact=False)


def _stuck(
    reasons: Sequence[Reason], rows: Sequence[QueueRow], thresholds: Thresholds, now_ms: int, found: dict[str, Began]
) -> Program[None]:
    """Those that are stuck were so from the end of their lease on, or when they had waited for too long."""
    if not reasons:
        return
    worst = Status.UNHEALTHY if any(reason.status is Status.UNHEALTHY for reason in reasons) else Status.DEGRADED
    limit = thresholds.stuck_vm_max_warning if worst is Status.DEGRADED else thresholds.stuck_vm_max_critical
    own = [row.name for row in rows if row.layout == NATIVE and (row.stuck or row.late)][:MOST]
    last = min(limit, _MOST_ENTRIES)
    calls = [
        (b"ZRANGE", keys.key(name, state), 0, last, b"WITHSCORES")
        for name in own
        for state in (State.RUNNING, State.DELAYED, State.READY)
    ]
    moments: list[int] = []
    for at, reply in enumerate((yield from reads.ask(calls))):
        scores = [] if reads.is_error(reply) else [clipped(score) for score in reply[1::2]]
        if at % 3 == 0:
            moments += scores
        else:
            moments += [score % BAND + thresholds.stuck_age_ms for score in scores]
    over = sorted(moment for moment in moments if moment <= now_ms)
    if len(over) > limit:
        for reason in reasons:
            found[place("stuck", reason.queue)] = Began(at_ms=over[limit], exact=False)


def _unserved(
    reasons: Sequence[Reason], by_name: Mapping[str, QueueRow], limits: Thresholds, now_ms: int, found: dict[str, Began]
) -> Program[None]:
    """A queue is without a worker since the last one that served it was heard of, and since a job waits there."""
    if not reasons:
        return
    known = yield from _workers(now_ms)
    for reason in reasons:
        queue = reason.queue or ""
        gone = [row.seen_ms for row in known if not row.alive and row.seen_ms is not None and queue in row.queues]
        waits = _waits_since(by_name[queue], now_ms)
        if gone and waits is not None:
            if reason.status is Status.UNHEALTHY:
                waits += 1000 * limits.unserved_age_max
            found[place("workers", queue)] = Began(at_ms=max(*gone, waits), exact=True)


def _workers(now_ms: int) -> Program[list[WorkerRow]]:
    try:
        return (yield from workers.list_workers(now_ms))
    except NotAllowed:
        return []


def _waits_since(row: QueueRow, now_ms: int) -> int | None:
    return None if row.oldest_s is None else now_ms - round(1000 * row.oldest_s)


def _paused(
    reasons: Sequence[Reason], by_name: Mapping[str, QueueRow], now_ms: int, found: dict[str, Began]
) -> Program[None]:
    """The last pause of a queue in the log of operations, or since a job waits there."""
    if not reasons:
        return
    [page] = yield reads.read((b"XREVRANGE", keys.ACTIVITY, b"+", b"-", b"COUNT", _MOST_LOG))
    paused = {} if reads.is_error(page) else pauses(dict(reads.pairs(flat)).get(b"e") for _, flat in page)
    for reason in reasons:
        queue = reason.queue or ""
        waits = _waits_since(by_name[queue], now_ms)
        if queue in paused:
            found[place("paused", queue)] = Began(at_ms=max(paused[queue], waits or 0), exact=True)


def pauses(newest_first: Iterable[bytes | None]) -> dict[str, int]:
    """When each queue that the log says to be paused was paused."""
    found: dict[str, int] = {}
    over: set[str] = set()
    for raw in newest_first:
        try:
            entry = msgspec.json.decode(raw or b"")
            verb, at_ms, queues = entry["verb"], whole(entry["at_ms"]), [str(queue) for queue in entry["queues"]]
        except (msgspec.MsgspecError, TypeError, ValueError, KeyError, RecursionError):
            continue
        if verb not in ("pause", "resume") or at_ms is None:
            continue
        for queue in queues:
            if queue not in over and verb == "pause":
                found[queue] = at_ms
            over.add(queue)
    return found


def _noted(wanted: Sequence[tuple[str, Reason]], thresholds: Thresholds, found: dict[str, Began]) -> Program[None]:
    noted = yield from read_noted()
    if noted.get("thresholds") != msgspec.to_builtins(thresholds):
        return  # judged by other rules
    places = noted.get("places")
    for name, reason in wanted:
        said = places.get(place(name, reason.queue)) if isinstance(places, dict) else None
        if isinstance(said, list) and len(said) == 3 and said[0] == reason.status and whole(said[1]) is not None:
            found[place(name, reason.queue)] = Began(at_ms=said[1], exact=said[2] is True)


def read_noted() -> Program[dict[str, Any]]:
    """What agents noted."""
    [raw] = yield reads.read((b"GET", KEY))
    if reads.is_error(raw) or raw is None:
        return {}
    try:
        said = codec.decode_json(raw)
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}


def note(checks: Sequence[Check], thresholds: Thresholds, now_ms: int) -> Program[None]:
    """Notes since when each reason holds, for whoever looks later; what another agent noted goes on."""
    before = yield from read_noted()
    rules: Any = msgspec.to_builtins(thresholds)
    at_ms = before.get("at")
    fresh = before.get("thresholds") == rules and isinstance(at_ms, int) and 0 <= now_ms - at_ms <= _GAP_MS
    known = before.get("places") if fresh else None
    held: dict[str, Any] = known if isinstance(known, dict) else {}
    now_so: dict[str, Any] = {}
    for check in checks:
        for reason in check.reasons[:_MOST_NOTED]:
            name = place(check.name, reason.queue)
            said = held.get(name)
            same = isinstance(said, list) and len(said) == 3 and said[0] == reason.status
            now_so[name] = said if same else [reason.status.value, now_ms, fresh]
    text = codec.encode_json({"at": now_ms, "thresholds": rules, "places": now_so})
    for reply in (yield ops.commands((b"SET", KEY, text, b"PX", LIVE_MS), key=KEY.encode())):
        reads.good(reply)
