"""The numbers for VMPooler's health, and the hash in which VMPooler stores its own."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from qdeck._errors import QdeckError
from qdeck._formatting import iso as iso_of
from qdeck._model.values import Measure, State, Status
from qdeck._model.verdict import grade
from qdeck._redis import reads
from qdeck._redis.commands import with_errors
from qdeck._redis.errors import is_error
from qdeck.adapters.health_numbers import MEASURED, measure
from qdeck.adapters.model import AdapterHealth, Kind, Source, age_s
from qdeck.adapters.paging import read_slice
from qdeck.adapters.times import iso, read_ms
from qdeck.adapters.vmpooler.keys import CREATE, DEAD, HEALTH, pool_key, task_items, vm_key
from qdeck.adapters.vmpooler.read import read_pools

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from qdeck._model.values import QueueRow
    from qdeck._redis.commands import Program
    from qdeck._settings.thresholds import Thresholds
    from qdeck.adapters.adapter import Adapter

CLONES: Final = (b"vmpooler__tasks__clone", b"vmpooler__tasks__ondemandclone")
FRESH_S: Final = 900  # VMPooler's own check runs every 300s; after three missed checks it does not run
LIVE_S: Final = 3600
MOST_RECORDS: Final = 50_000  # of VMs that are looked through for those of no VM
MARK: Final = "qdeck"  # marks metrics that qdeck wrote, so that they do not count as VMPooler's
_RECORDS: Final = Source(key=vm_key(b"*"), kind=Kind.NAMES, state=State.DONE, native_state="record")


class Clones(NamedTuple):
    """How many clones were made, counted at a moment, and how many a minute until then."""

    at_ms: int
    total: int
    per_min: float | None = None


def measure_health(
    adapter: Adapter, now: int, rows: Sequence[QueueRow], clones: Clones | None
) -> Program[tuple[AdapterHealth, Clones]]:
    """The numbers of every pool and state; clones that run and wait; records of no VM; VMPooler's own verdict.

    `clones` is what the call before this one returned: a rate needs two.
    """
    pools = [row for row in rows if not row.serves_others]
    found = yield from measure(adapter, pools, (*MEASURED, State.DONE))
    others = yield from measure(adapter, [row for row in rows if row.serves_others])
    clone, ondemand, waiting = yield with_errors((b"GET", CLONES[0]), (b"GET", CLONES[1]), (b"ZCARD", CREATE))
    pending = [row.delayed for row in pools if row.delayed is not None]
    tasks = {"clone": (_count(clone), sum(pending)), "ondemand": (_count(ondemand), reads.number(waiting))}
    notices = [*found.notices, *others.notices]
    said = yield from _read_said(now)
    orphaned = yield from count_orphans(adapter, now, notices)
    counted = _rated(clones, now, (yield from _count_clones(now)))
    purged = (State.DELAYED, State.READY, State.DONE)
    unknown = sum(one.unknown for one in found.states if one.state in purged)
    discovered = yield from reads.try_all([(b"SCARD", pool_key("discovered", row.name)) for row in pools])
    unknown -= sum(reads.number(size) or 0 for size in discovered)
    facts = _facts(counted.per_min, orphaned, said) | {"age_unknown": max(0, unknown)}
    measured = msgspec.structs.replace(
        found,
        states=(*found.states, *others.states),
        tasks=MappingProxyType(tasks),
        orphaned=orphaned,
        facts=MappingProxyType(facts),
        notices=tuple(notices),
        rates=MappingProxyType({"clone_rate": counted.per_min, "destroy_rate": None}),  # nothing counts destroyed VMs
    )
    return measured, counted


def _rated(before: Clones | None, now: int, total: int) -> Clones:
    """Return the clones until now with their rate; two calls that coincide share the rate of the first."""
    if before is None or total < before.total:
        return Clones(now, total)
    if now - before.at_ms < 1000:
        return before
    return Clones(now, total, (total - before.total) * 60_000 / (now - before.at_ms))


def read_measures(now: int) -> Program[tuple[Measure, ...]]:
    """Return how long ago VMPooler wrote its health, if it does."""
    said = yield from _read_said(now)
    if said.get("age_s") is None or said["ours"]:
        return ()
    return (
        Measure(
            name="vmpooler_health_age", what="seconds since VMPooler wrote vmpooler__health", value=int(said["age_s"]),
            limit=FRESH_S,
        ),
    )  # fmt: skip


def _read_said(now: int) -> Program[dict[str, Any]]:
    [own] = yield with_errors((b"HGETALL", HEALTH))
    return _said({} if is_error(own) else dict(reads.pairs(own)), now)


def _count_clones(now: int) -> Program[int]:
    """Return how many clones were made in the days around now: their hashes are by day, in an unknown zone."""
    day = datetime.fromtimestamp(now / 1000, UTC)
    days = [(day + timedelta(days=shift)).strftime("%Y-%m-%d") for shift in (-1, 0, 1)]
    counts = yield from reads.try_all([(b"HLEN", f"vmpooler__clone__{name}".encode()) for name in days])
    return sum(int(count) for count in counts if not is_error(count))


def _count(reply: Any) -> int | None:
    """Return a counter of clones: it drifts, even below zero, which counts as zero."""
    if is_error(reply):
        return None
    try:
        return max(0, int(reply or 0))
    except ValueError:
        return None


def _said(fields: Mapping[bytes, bytes], now: int) -> dict[str, Any]:
    if not fields:
        return {}
    from qdeck._engine import codec
    from qdeck._model import payload

    try:
        metrics = codec.decode_json(fields.get(b"metrics", b""))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        metrics = None
    ours = isinstance(metrics, dict) and metrics.get("written_by") == MARK
    at = read_ms(fields.get(b"last_check"))
    return {
        "status": payload.mask_text(fields.get(b"status", b"").decode("utf-8", "replace")),
        "last_check_ms": at,
        "age_s": age_s(now, at),
        "ours": ours,
        "metrics": payload.mask(metrics),
    }


def _facts(clones_per_min: float | None, orphaned: int | None, said: Mapping[str, Any]) -> dict[str, Any]:
    """Return VMPooler's own numbers, and its own health with its age."""
    own = None
    if said:
        own = {"status": said["status"], "last_check": iso_of(said["last_check_ms"]), "age_s": said["age_s"]}
        own |= {"written_by_qdeck": said["ours"], "metrics": said["metrics"]}
    return {"clones_per_min": clones_per_min, "orphaned": orphaned, "own_health": own}


def count_orphans(adapter: Adapter, now: int, notices: list[str]) -> Program[int | None]:
    """Count the records of VMs that are in no set and do not expire, of any age; None if there are too many to read."""
    from qdeck.adapters.vmpooler.purge import read_orphans

    pools = yield from read_pools(adapter.discovered)

    def among(names: Sequence[bytes]) -> Program[int]:
        found = yield from read_orphans(names, pools, now)
        return sum(one is not None for one in found)

    group = adapter.discovered.groups.get("vms") if adapter.discovered is not None else None
    if group is not None and group.count > MOST_RECORDS:
        notices.append(
            f"orphaned records are not counted among {group.count:,} VM records; qdeck purge reads all of them"
        )
        return None
    if (
        group is not None
        and group.count <= len(group.names)
        and adapter.discovered is not None
        and adapter.discovered.complete
    ):
        names = [name.removeprefix(vm_key(b"")) for name in group.names]
        return (yield from among(names))
    count, seen, mark = 0, set[bytes](), ""
    while True:
        raws, going_on = yield from read_slice(_RECORDS, mark, 1000)
        fresh = [raw.member.removeprefix(vm_key(b"")) for raw in raws if raw.member not in seen]
        seen.update(raw.member for raw in raws)
        count += yield from among(fresh)
        if going_on is None:
            return count
        mark = going_on


def keep_own_health(adapter: Adapter, now: int) -> Program[dict[str, str]]:
    """Write VMPooler's health hash by VMPooler's own rules, while VMPooler does not; return the result as text."""
    try:
        look = yield from adapter.rows(now)
        health = yield from adapter.health(now, look.rows)
        pools = yield from read_pools(adapter.discovered)
        sizes = yield from reads.try_all([(b"SCARD", pool_key("completed", pool)) for pool in pools])
        completed = {pool: reads.number(size) for pool, size in zip(pools, sizes, strict=True)}
        metrics = own_shape(health, (yield from read_letters()), completed)
        words = yield from _write(metrics, judge(metrics, adapter.thresholds).value, now)
    except QdeckError as error:
        words = f"not written: {error}"
    return {HEALTH.decode(): words}


def _write(metrics: Mapping[str, Any], status: str, now: int) -> Program[str]:
    """Write VMPooler's health hash in its own format, if it is missing, old, or was written by qdeck.

    Return `written`, or why it was not.
    """
    from qdeck._engine import codec  # a refresh reads numbers from here and writes nothing
    from qdeck.adapters import cells
    from qdeck.adapters.cells import ANY, Change
    from qdeck.adapters.changes import apply_once

    own = yield (b"HGETALL", HEALTH)
    fields = dict(reads.pairs(own))
    said = _said(fields, now)
    if said and not said["ours"] and (said["age_s"] is None or said["age_s"] <= FRESH_S):
        return "VMPooler writes it itself"
    told = codec.encode_json({**metrics, "written_by": MARK})
    change = Change(
        id="vmpooler__health",
        cells=(
            cells.field(HEALTH, b"last_check", fields.get(b"last_check"), _local(now)),
            cells.field(HEALTH, b"metrics", fields.get(b"metrics"), told),
            cells.field(HEALTH, b"status", ANY, status.encode()),
            cells.expiry(HEALTH, ANY, b"%d" % (now + LIVE_S * 1000)),
        ),
        effect="vmpooler__health written",
    )
    outcome = yield from apply_once(change)
    return "written" if outcome.done else outcome.why


def _local(now: int) -> bytes:
    return iso(now // 1000 * 1000).encode()


def own_shape(
    health: AdapterHealth, letters: Mapping[str, int | None], completed: Mapping[str, int | None]
) -> dict[str, Any]:
    """Return the metrics as VMPooler writes them: pool → state → numbers, in whole seconds.

    A pool that is named `dlq` keeps its place: then the dead letters of each kind are only in their sum.
    """
    queues: dict[str, Any] = {}
    stuck = 0
    words = {State.DELAYED: "pending", State.READY: "ready", State.DONE: "completed"}
    for row in health.states:
        if row.queue not in completed or row.state not in words:
            continue
        pool = queues.setdefault(row.queue, {})
        ages = {"oldest_age": int(row.oldest_s or 0), "avg_age": int(row.average_s or 0)}
        pool[words[row.state]] = {"size": row.size, **ages}
        if row.state is State.DELAYED:
            pool["pending"]["stuck_count"] = row.stuck or 0
            stuck += row.stuck or 0
        if row.state is State.DONE:
            pool["completed"]["size"] = completed[row.queue]
    queues.setdefault("dlq", {kind: {"size": size} for kind, size in letters.items() if size})
    clone, ondemand = health.tasks.get("clone", (None, None)), health.tasks.get("ondemand", (None, None))
    return {
        "queues": queues,
        "tasks": {
            "clone": {"active": clone[0], "pending": clone[1]},
            "ondemand": {"active": ondemand[0], "pending": ondemand[1]},
        },
        "processing_rate": dict(health.rates),
        "errors": {
            "dlq_total_size": sum(size or 0 for size in letters.values()),
            "stuck_vm_count": stuck,
            "orphaned_metadata_count": health.orphaned,
        },
    }


def read_letters() -> Program[dict[str, int | None]]:
    """Return the number of dead letters of each kind."""
    replies = yield from reads.try_all([(b"ZCARD", key) for key in DEAD.values()])
    found = {kind: reads.number(size) for kind, size in zip(DEAD, replies, strict=True)}
    if found["tasks"] is None:  # the page on queue reliability makes a hash of it: type → list
        [values] = yield from reads.try_all([(b"HVALS", DEAD["tasks"])])
        found["tasks"] = None if is_error(values) else sum(len(task_items(value)) for value in values)
    return found


def judge(metrics: Mapping[str, Any], limits: Thresholds) -> Status:
    """Return the status of the document for VMPooler's metrics, that of the worst: healthy has no stuck VM."""
    errors = metrics["errors"]
    pools = [pool for name, pool in metrics["queues"].items() if name != "dlq" or "completed" in pool]
    pending, ready = limits.pending_queue_max, limits.ready_queue_max
    measured = [
        (errors["dlq_total_size"], limits.dlq_max_warning, limits.dlq_max_critical),
        (errors["stuck_vm_count"], 0, limits.stuck_vm_max_critical),
        *((pool["pending"].get("size"), pending, 2 * pending) for pool in pools),
        *((pool["ready"].get("size"), ready, 2 * ready) for pool in pools),
    ]
    return max((grade(value or 0, *most) for value, *most in measured), key=list(Status).index)
