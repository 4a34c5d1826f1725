"""What is done to VMPooler's entries: what its own API or purge does, in one step, and only if the entry is as seen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from qdeck._deck.model import State
from qdeck._engine import codec
from qdeck._errors import InvalidOption
from qdeck._redis import reads
from qdeck.adapters.model import Act, Ages, Entry, raw_of
from qdeck.adapters.steps import Check, Step, Write
from qdeck.adapters.times import iso, read_ms
from qdeck.adapters.vmpooler.keys import (
    CREATE,
    CREATE_QUEUE,
    DEAD,
    MOST_TOGETHER,
    REQUEST_QUEUE,
    SETS,
    TASKS,
    pool_key,
    request_key,
    vm_key,
)
from qdeck.adapters.vmpooler.purge import ORPHAN, expire_orphan, judge
from qdeck.adapters.vmpooler.requests import end_request

if TYPE_CHECKING:
    from collections.abc import Mapping

    from qdeck._engine.ops import Program
    from qdeck.adapters.adapter import Adapter

_MOVED = "it is not in that set any more"


def build(adapter: Adapter, act: Act, entry: Entry, now: int, options: Mapping[str, Any]) -> Program[Step]:
    """The step that does this to an entry."""
    ages = options.get("ages") or Ages()
    if act is Act.EXPIRE and entry.native_state == ORPHAN:
        return expire_orphan(entry)
    if why := adapter.why_not(act, State(entry.state)):
        raise InvalidOption(f"{entry.id!r}: {why}", hint="see the capabilities of the adapter")
    if entry.queue == REQUEST_QUEUE:
        if act not in (Act.CANCEL, Act.EXPIRE):
            raise InvalidOption(f"{entry.id!r}: a request can only be cancelled", hint="that is DELETE of its API")
        return (yield from end_request(act, entry, ages))
    if options.get("rule") is not None and entry.queue not in TASKS and entry.state != State.DEAD:
        stale = judge(entry, ages)
        if stale is None or stale.act is not act:
            raise InvalidOption(f"{entry.id!r}: it is not too old any more", hint="make a new plan")
    if act is Act.EXPIRE and entry.native_state == "pending":
        return (yield from _drop(entry, ages))
    if act is Act.EXPIRE:
        raise InvalidOption(f"{entry.id!r}: only requests, pending VMs and records of no VM expire", hint="complete it")
    if act is Act.RETRY:
        return (yield from _retry(entry))
    in_zset = entry.state == State.DEAD or entry.queue == CREATE_QUEUE
    if act is Act.DISCARD and (in_zset or entry.queue in TASKS):
        return _remove(entry)
    if entry.queue == CREATE_QUEUE or entry.queue in TASKS:
        raise InvalidOption(f"{entry.id!r}: a task can only be discarded", hint="see the capabilities of the adapter")
    if act is Act.BURY:
        return (yield from _bury(entry, now, ages, str(options.get("reason") or "buried by an operator")))
    if act is Act.DISCARD and entry.state == State.DONE:
        return _remove(entry)
    return _complete(entry)


def _remove(entry: Entry) -> Step:
    seen = entry.seen
    if seen.value is not None:
        check, gone = (Check("field", seen.key, seen.member, value, _MOVED) for value in (seen.value, None))
        take, back = Write("HDEL", seen.key, (seen.member,)), Write("HSET", seen.key, (seen.member, seen.value))
    elif seen.score is not None:
        check, gone = (Check("score", seen.key, seen.member, score, _MOVED) for score in (seen.score, None))
        take, back = Write("ZREM", seen.key, (seen.member,)), Write("ZADD", seen.key, (seen.score, seen.member))
    else:
        check, gone = (Check("member", seen.key, seen.member, there, _MOVED) for there in (b"1", None))
        take, back = Write("SREM", seen.key, (seen.member,)), Write("SADD", seen.key, (seen.member,))
    gones = _in_no_set(entry) if entry.native_state == "completed" else (gone,)
    warning = "the VM itself is not destroyed" if entry.state == State.DONE else ""
    return Step(
        id=entry.id, checks=(check,), writes=(take,), back_checks=gones, back_writes=(back,),
        effect=f"removed from {seen.key.decode('utf-8', 'replace')}", warning=warning,
    )  # fmt: skip


def _complete(entry: Entry) -> Step:
    """To `completed`, where the manager destroys it: what DELETE of its API does."""
    seen, done = entry.seen, pool_key("completed", entry.queue)
    return Step(
        id=entry.id,
        checks=(
            Check("member", seen.key, seen.member, b"1", _MOVED),
            Check("member", done, seen.member, None, "it is completed already"),
        ),
        writes=(Write("SREM", seen.key, (seen.member,)), Write("SADD", done, (seen.member,))),
        back_checks=(
            Check("member", done, seen.member, b"1", "the manager took it since"),
            Check("member", seen.key, seen.member, None, "it is there again"),
        ),
        back_writes=(Write("SREM", done, (seen.member,)), Write("SADD", seen.key, (seen.member,))),
        effect=f"to {done.decode('utf-8', 'replace')}: the manager destroys it",
    )


def _bury(entry: Entry, now: int, ages: Ages, reason: str) -> Program[Step]:
    """To the dead letters, as its purge writes them; its hash gets an end only if it has none."""
    seen, at = entry.seen, now // 1000
    hash_key = vm_key(seen.member)
    request, alias = yield reads.read((b"HGET", hash_key, b"request_id"), (b"HGET", hash_key, b"pool_alias"))
    facts = {
        "vm": entry.id, "pool": entry.queue, "queue_from": "pending", "error_class": "Purge", "error_message": reason,
        "failed_at": iso(at * 1000), "retry_count": 0,
        "request_id": None if not isinstance(request, bytes) else request.decode("utf-8", "replace"),
        "pool_alias": None if not isinstance(alias, bytes) else alias.decode("utf-8", "replace"),
    }  # fmt: skip
    told = codec.encode_json({name: value for name, value in facts.items() if value is not None})
    letter, score, dead = raw_of(f"{entry.id}:{at}:") + told, b"%d" % at, DEAD["pending"]
    dropped = yield from _drop(entry, ages)
    [ends] = yield reads.read((b"TTL", dead))
    # The letters that are there already may be kept for longer, or for good: their end is never brought nearer.
    how = b"NX" if ends == -2 else b"GT"
    keeps = (Write("EXPIRE", dead, (b"%d" % ages.dlq_ttl_s, how)),) if ages.dlq_ttl_s > 0 else ()
    return Step(
        id=entry.id,
        checks=(*dropped.checks, Check("score", dead, letter, None, "it is a dead letter already")),
        writes=(*dropped.writes, Write("ZADD", dead, (score, letter)), *keeps),
        back_checks=(Check("score", dead, letter, score, "it is no dead letter any more"), *dropped.back_checks),
        back_writes=(Write("ZREM", dead, (letter,)), *dropped.back_writes), effect="to vmpooler__dlq__pending",
        warning=dropped.warning,
    )  # fmt: skip


def _drop(entry: Entry, ages: Ages) -> Program[Step]:
    """Out of `pending`, without a dead letter; its hash gets an end only if it has none, and is the one that was read.

    Taken back only while the VM is in no set: the manager may have found it since.
    """
    seen = entry.seen
    hash_key = vm_key(seen.member)
    clone, ttl = yield reads.read((b"HGET", hash_key, b"clone"), (b"TTL", hash_key))
    clone = None if reads.is_error(clone) else clone
    if read_ms(clone) != entry.since_ms:
        raise InvalidOption(f"{entry.id!r}: its record has changed", hint="make a new plan")
    checks = [Check("member", seen.key, seen.member, b"1", "it is not pending any more")]
    writes, back = [Write("SREM", seen.key, (seen.member,))], [Write("SADD", seen.key, (seen.member,))]
    if ttl != -2:
        checks.append(Check("field", hash_key, b"clone", clone, "its record has changed"))
    if ttl == -1:
        checks.append(Check("ttl", hash_key, b"", b"-1", "its record ends by itself now"))
        writes.append(Write("EXPIRE", hash_key, (b"%d" % ages.data_ttl_s,)))
        back.append(Write("PERSIST", hash_key))
    return Step(
        id=entry.id, checks=tuple(checks), writes=tuple(writes), back_checks=_in_no_set(entry),
        back_writes=tuple(back), effect=f"removed from {seen.key.decode('utf-8', 'replace')}, without a dead letter",
        warning="the VM itself is not destroyed; if it exists the manager finds it and destroys it",
    )  # fmt: skip


def _in_no_set(entry: Entry) -> tuple[Check, ...]:
    return tuple(
        Check("member", pool_key(name, entry.queue), entry.seen.member, None, f"it is in {name} by now")
        for name in SETS
    )


def _retry(entry: Entry) -> Program[Step]:
    """Asks for a VM of its request again, as the manager does: with the mark 1, which goes first.

    Equal tasks would become one, so a task that waits already is made to ask for one VM more.
    """
    tags = dict(tag.split(":", 1) for tag in entry.tags)
    request, alias, pool, seen = tags.get("request"), tags.get("alias"), entry.queue, entry.seen
    if entry.problem or not request or not alias or pool.startswith("dlq:") or seen.score is None:
        why = entry.problem or "it was made for no request: the manager fills the pool up by itself"
        raise InvalidOption(f"{entry.id!r} cannot be retried: {why}", hint="discard it")
    record = request_key(raw_of(request))
    status, wanted = yield reads.read((b"HGET", record, b"status"), (b"HGET", record, b"requested"))
    if reads.good(wanted) is None or reads.good(status) is not None:
        over = "is gone" if wanted is None else f"is {status.decode('utf-8', 'replace')}"
        raise InvalidOption(f"{entry.id!r} cannot be retried: its request {request!r} {over}", hint="discard it")
    tasks = [raw_of(f"{alias}:{pool}:{count}:{request}") for count in range(1, MOST_TOGETHER + 2)]
    [scores] = yield reads.read((b"ZMSCORE", CREATE, *tasks[:-1]))
    there = [(at, score) for at, score in enumerate(reads.good(scores)) if score is not None]
    at, score = there[0] if there else (-1, None)
    fresh = tasks[at + 1]
    old = () if score is None else (Check("score", CREATE, tasks[at], score, "its task went on"),)
    return Step(
        id=entry.id,
        checks=(
            Check("score", seen.key, seen.member, seen.score, _MOVED),
            Check("field", record, b"status", None, "its request is over"),
            Check("field", record, b"requested", wanted, "its request has changed"),
            Check("score", CREATE, fresh, None, "the same task waits already"),
            *old,
        ),
        writes=(
            Write("ZREM", seen.key, (seen.member,)),
            *(() if score is None else (Write("ZREM", CREATE, (tasks[at],)),)),
            Write("ZADD", CREATE, (b"1", fresh)),
        ),
        back_checks=(
            Check("score", CREATE, fresh, b"1", "the manager took its task since"),
            Check("score", seen.key, seen.member, None, "it is there again"),
        ),
        back_writes=(
            Write("ZREM", CREATE, (fresh,)),
            *(() if score is None else (Write("ZADD", CREATE, (score, tasks[at])),)),
            Write("ZADD", seen.key, (seen.score, seen.member)),
        ),
        effect=f"one VM of {pool} more for the request {request}, first in line",
    )
