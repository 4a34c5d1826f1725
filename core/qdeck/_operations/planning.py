"""Making a plan: which jobs a verb would act on, found by streaming reads, and what else that reaches.

Making one writes nothing to the server.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from qdeck._deck import changes, jobs
from qdeck._deck.model import NATIVE, QueueRef, State
from qdeck._deck.reasons import SkipCode
from qdeck._deck.values import read_lengths
from qdeck._engine import codec, keys
from qdeck._engine.ids import new_id
from qdeck._errors import InvalidOption
from qdeck._names import QueueName
from qdeck._operations import foreign, stuck
from qdeck._operations.model import PLAN_LIFE_MS, PlanEntry, PlanHead, Verb
from qdeck._operations.planfile import Plan, PlanWriter
from qdeck._operations.request import Sums, Wish
from qdeck._options import read_priority
from qdeck._redis import reads
from qdeck.adapters.native.rows import Row, reaches_no_secret
from qdeck.adapters.native.walk import Needs, Walk, fill, put

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from qdeck._deck.native import Memory
    from qdeck._redis.commands import Command, Program
    from qdeck.adapters.others import Others

NO_UNDO: Final = "this cannot be undone: the workers that have these jobs lose them for good"
_SIZED: Final = ("body", "error", "log", "result")
_TIMED: Final = (State.DEAD, State.DONE, State.CANCELLED)


def check(wish: Wish) -> tuple[int | None, str | None]:
    """The new priority and the target queue; raises when the verb wants one that is missing, or has one too many."""
    verb = wish.verb
    may = verb in (Verb.RETRY, Verb.REQUEUE, Verb.RUN)  # some adapters take a priority for these
    if (verb is Verb.REPRIORITISE) != (wish.priority is not None) and not may:
        hint = "give the new priority" if wish.priority is None else "only reprioritise takes a priority"
        raise InvalidOption(f"{verb.value} with priority {wish.priority!r}", hint=hint)
    if (verb is Verb.MOVE) != (wish.target is not None):
        hint = "name the queue to move to" if wish.target is None else "only move takes another queue"
        raise InvalidOption(f"{verb.value} to queue {wish.target!r}", hint=hint)
    target = None if wish.target is None else wish.target.removeprefix(f"{NATIVE}/")
    if target is not None and any(queue in (target, str(QueueRef(NATIVE, target))) for queue in map(str, wish.queues)):
        raise InvalidOption(f"the jobs are in {wish.target!r} already", hint="name another queue")
    priority = None if wish.priority is None else read_priority("priority", wish.priority)
    return priority, None if target is None else str(QueueName.parse(target))


def identity(queues: Sequence[str]) -> Program[tuple[str | None, dict[str, str]]]:
    """What tells this server from another: the run of its process, and when each queue was registered on it."""
    info, *stamps = yield reads.read((b"INFO", b"server"), *((b"HGET", keys.QUEUES, queue) for queue in queues))
    run_id = None
    if not reads.is_error(info):
        lines = (line.partition(":") for line in info.decode("utf-8", "replace").splitlines())
        run_id = next((value for name, _, value in lines if name == "run_id"), None)
    known = {
        queue: stamp.decode("utf-8", "replace")
        for queue, stamp in zip(queues, stamps, strict=True)
        if not reads.is_error(stamp) and stamp is not None
    }
    return run_id, known


def start_head(
    verb: Verb,
    queues: Sequence[QueueRef],
    address: str,
    *,
    db: int | None = None,
    where: str = "",
    reason: str = "",
    priority: int | None = None,
    target: str | None = None,
    life_ms: int = PLAN_LIFE_MS,
    shared: Iterable[str] = (),
    ages: dict[str, int | None] | None = None,
) -> Program[PlanHead]:
    """The head of a plan that is made now, on this server."""
    now = yield from reads.clock()
    run_id, registered = yield from identity([name for adapter, name in queues if adapter == NATIVE])
    return PlanHead(
        plan=new_id(), verb=verb.value, created_ms=now, expires_ms=now + life_ms, address=address, run_id=run_id,
        db=db, queues=list(queues), shared=sorted(shared), registered=registered, where=where, by=changes.actor(),
        reason=reason, priority=priority, target=target, ages=ages or {},
    )  # fmt: skip


def build(
    memory: Memory,
    address: str,
    wish: Wish,
    *,
    db: int | None = None,
    others: Others,
    progress: Callable[[int, int], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> Program[Plan]:
    """Makes a plan. `progress` is told how many jobs were looked at and how many match."""
    priority, target = check(wish)
    ground = yield from foreign.survey(memory, others, wish)
    queues = ground.native
    head = yield from start_head(
        wish.verb, ground.refs, address, db=db, where=str(wish.wanted or ""), reason=wish.reason, priority=priority,
        target=target, life_ms=wish.life_ms, shared=ground.shared,
    )  # fmt: skip
    sums = Sums()
    with PlanWriter(head, wish.path) as writer:

        def take(rows: list[Row]) -> Program[None]:
            add((yield from make_entries(rows, wish.verb, head.created_ms, sums)))

        def add(entries: list[PlanEntry]) -> None:
            writer.add(entries)
            if cancelled is not None and cancelled():
                raise InvalidOption("the plan was not finished", hint="it was cancelled")
            if progress is not None:
                progress(sums.scanned, writer.count)

        for ref, error in ground.unread:
            sums.skip(ref.name, "", SkipCode.UNREADABLE, error, ref.adapter)
        for queue in queues:
            unread: list[str] = []
            yield from reads.contained(_match(queue, wish, head.created_ms, sums, take), queue, unread)
            for error in unread:
                sums.skip(queue, "", SkipCode.UNREADABLE, error)
        for adapter, queue in ground.foreign:
            yield from foreign.match(adapter, queue, wish, head, sums, add)
        sums.close()
        return writer.finish(sums.tail())


def _match(queue: str, wish: Wish, now: int, sums: Sums, take: Callable[[list[Row]], Program[None]]) -> Program[None]:
    limits = None if wish.wanted is None else wish.wanted.pushdown(now)
    if limits is not None and not QueueRef(NATIVE, queue).is_in(limits.queues):
        return
    ids = wish.ids or (() if limits is None or limits.ids is None else tuple(sorted(limits.ids)))
    if wish.ids or (limits is not None and limits.ids is not None):
        yield from _named(queue, ids, wish, now, sums, take, tell=bool(wish.ids))
        return
    owners = (yield from stuck.read_owners(now)) if wish.stuck else None
    for state in wish.allowed():
        if limits is not None and limits.states is not None and state not in limits.states:
            continue
        lowest, highest = None, None
        if state in _TIMED:
            # What ends from now on is not in this plan, however fast it comes.
            lowest, highest = (limits.since.lo_ms if limits else None), now
            if limits is not None and limits.since.hi_ms is not None:
                highest = min(now, limits.since.hi_ms)
        needs = Needs.of(wish.wanted, now, state, always=stuck.NEEDED if wish.stuck else ())
        walk = Walk(queue, state, needs, now, lowest=lowest, highest=highest, down=state == State.BLOCKED)
        seen = 0
        while (rows := (yield from walk.page())) is not None:
            sums.scanned += walk.scanned - seen
            seen = walk.scanned
            if wish.stuck:
                rows = [row for row in rows if stuck.judge(row, owners, now) is not None]
            yield from take(rows)


def _score(score: float) -> bytes:
    return (b"%d" % score) if score.is_integer() else repr(score).encode()


def _named(
    queue: str,
    ids: Sequence[str],
    wish: Wish,
    now: int,
    sums: Sums,
    take: Callable[[list[Row]], Program[None]],
    *,
    tell: bool,
) -> Program[None]:
    unique = list(dict.fromkeys(ids))
    allowed, wanted = wish.allowed(), wish.wanted
    for part in _slices(unique, jobs.SLICE):
        places = yield from jobs.by_id(queue, part)
        sums.scanned += len(part)
        fitting: dict[str, list[Row]] = {}
        for job_id, place in zip(part, places, strict=True):
            if place is not None:
                sums.meet(job_id)
            if place is None or place.state not in allowed:
                if not tell:
                    continue
                if place is None:
                    sums.miss(QueueRef(NATIVE, queue), job_id, SkipCode.NOT_FOUND)
                else:
                    sums.skip(queue, job_id, SkipCode.WRONG_STATE, place.state)
            else:
                row = Row(queue, place.state, jobs.raw_id(job_id), _score(place.score), now, reaches_no_secret(wanted))
                fitting.setdefault(place.state, []).append(row)
        for state, rows in fitting.items():
            passed = yield from _test(queue, rows, Needs.of(wanted, now, state))
            if tell and len(passed) < len(rows):
                left = {row.raw_id for row in passed}
                for row in rows:
                    if row.raw_id not in left:
                        sums.skip(queue, row.id, SkipCode.NO_MATCH)
            yield from take(passed)


def _test(queue: str, rows: list[Row], needs: Needs) -> Program[list[Row]]:
    for part in (*needs.parts, *(("body",) if needs.body else ())):
        yield from fill(queue, part, rows)
    test = needs.full or needs.early
    return rows if test is None else list(filter(test, rows))


def _slices(items: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    for at in range(0, len(items), size):
        yield items[at : at + size]


def make_entries(rows: Sequence[Row], verb: Verb, now: int, sums: Sums) -> Program[list[PlanEntry]]:
    """The entries for rows of one queue and state, with what is reached through them counted in `sums`."""
    if not rows:
        return []
    queue, state = rows[0].queue, rows[0].state
    # A filter reads heads before all else, so that what it looked at is not older than the version.
    heads_before = [row.head_raw for row in rows]
    sizes = yield from _look_around(queue, state, rows, verb, sums)
    if verb is Verb.REQUEUE and NO_UNDO not in sums.warnings:
        sums.warnings.append(NO_UNDO)
    effect, runs = (Verb.DISCARD if verb is Verb.PURGE else verb).value, state == State.RUNNING
    entries = []
    for row, head, size in zip(rows, heads_before, sizes, strict=True):
        if runs:
            if row.lease_raw is None:
                sums.skip(queue, row.id, SkipCode.NO_LEASE)
                continue
            seen = row.lease_raw.split(b" ", 1)[0].decode("utf-8", "replace")
        else:
            seen = codec.version_seen(state, row.score.decode(), row.head_raw if head is None else head)
        raw_id, since = row.raw_id, row.since_ms
        if not raw_id.isascii():
            sums.skip(queue, ascii(row.id), SkipCode.ID_NOT_TEXT)
            continue
        entries.append(
            PlanEntry(
                queue=queue, id=raw_id.decode(), state=state, version=seen, verb=effect, bytes=size,
                age_s=None if since is None else (now - since) / 1000,
            )
        )  # fmt: skip
    sums.add(entries)
    return entries


def _look_around(queue: str, state: str, rows: Sequence[Row], verb: Verb, sums: Sums) -> Program[list[int]]:
    """Reads what the filter did not: heads, who waits, and for what goes away its size."""
    ids = [row.raw_id for row in rows]
    calls: list[Command] = [(b"HMGET", keys.key(queue, "head"), *ids), (b"HLEN", keys.key(queue, "after"))]
    if state == State.RUNNING:
        calls.append((b"HMGET", keys.key(queue, "lease"), *ids))
    heads, after, *more = yield reads.read(*calls)
    if more:
        put(rows, "lease", reads.good(more[0], queue))
    heads = reads.good(heads, queue)
    put(rows, "head", heads)
    named = [row for row, head in zip(rows, heads, strict=True) if head is not None and b"\nu" in head]
    sums.unique += len(named)
    if verb is Verb.BURY:
        sums.failure_handlers += sum(head is not None and b"\nf" in head for head in heads)
    if verb is Verb.RETRY and named:
        yield from _count_twins(queue, named, sums)
    if not reads.is_error(after) and after:
        [kids] = yield reads.read((b"HMGET", keys.key(queue, "after"), *(b">" + raw for raw in ids)))
        sums.dependents += sum(kid is not None for kid in reads.good(kids, queue))
    if verb not in (Verb.DISCARD, Verb.PURGE, Verb.MOVE):
        return [0] * len(ids)
    sizes = [len(head or b"") for head in heads]
    filled = yield reads.read(*((b"HLEN", keys.key(queue, part)) for part in _SIZED))
    for part, count in zip(_SIZED, filled, strict=True):
        if reads.is_error(count) or not count:
            continue
        lengths = yield from read_lengths(queue, part, ids)
        sizes = [size + length for size, length in zip(sizes, lengths, strict=True)]
    return sizes


def _count_twins(queue: str, rows: Sequence[Row], sums: Sums) -> Program[None]:
    names = [row.full().name or "" for row in rows]
    [holders] = yield reads.read((b"HMGET", keys.key(queue, "uniq"), *names))
    for row, holder in zip(rows, reads.good(holders, queue), strict=True):
        sums.unique_held += holder is not None and holder != row.raw_id
