"""A server with one healthy queue and every other kind of stored field, and broken values for each field."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

from core._operations.yard import Yard
from qdeck._agent import health_record
from qdeck._agent.history_sampler import HistorySampler
from qdeck._engine import keys
from qdeck._engine.keys import MAINTENANCE_TASKS
from qdeck._schedules import store
from qdeck._server import agent_tasks, finding_times
from qdeck.admin import Definition, Writer
from qdeck.messages import _registry as registry

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import redis

HEALTHY: Final = "shop:good:actions"
BROKEN: Final = "shop:bad:actions"
LEASE_MS: Final = 5

# As a field of a hash, an entry of a list, a stream or a string.
TEXTS: Final[dict[str, bytes]] = {
    "empty": b"",
    "word": b"x",
    "nan": b"nan",
    "infinity": b"-inf",
    "exponent": b"1e400",
    "huge": b"9" * 400,
    "negative": b"-9223372036854775808",
    "many words": b"999999999999999999999999999999 x 1e400 inf",
    "superscript": "²".encode(),
    "bytes": b"\xff\xfe\x80",
    "brackets": b"[" * 3000,
    "deep": b'{"a":' * 900 + b"1" + b"}" * 900,
    "json": b'{"at_ms":Infinity,"heartbeat_ms":NaN,"queues":1e400,"v":1,"a":[NaN]}',
    "odd json": b'{"at_ms":1e400,"heartbeat_ms":1e300,"pid":1e300,"queues":{"q":1e300},"at":[],"places":7,"verb":[]}',
    "events": b"1 failed " + b"[" * 3000 + b"\n" + b"9" * 400 + b' failed {"class":1e400}',
}
# As a field of a JSON object, which is in one of these.
JSON: Final[dict[str, str]] = {
    "infinity": "-Infinity", "nan": "NaN", "exponent": "1e400", "far": "1e300", "huge": "9" * 4500, "null": "null",
    "negative": "-9223372036854775809", "true": "true", "object": '{"a":[NaN]}', "list": '[[],{},"x",1e400]',
    "empty": '""', "last day": '"9999-12-31T23:59:59.999999+00:00"', "surrogate": '"\\ud800"',
    "long": f'"{"x" * 5000}"', "deep": "[" * 900 + "]" * 900,
}  # fmt: skip
SCORES: Final = ("inf", "-inf", "1e300", "-1e300", "-5", "0.5")


@dataclass(frozen=True, slots=True)
class Break:
    """One field with a value that qdeck never writes."""

    key: bytes
    field: bytes | None
    value: str
    raw: bytes

    def __str__(self) -> str:
        return f"{self.key.decode('utf-8', 'replace')} [{self.field!r}] = {self.value}"


def fill(url: str, raw: redis.Redis) -> dict[str, str]:
    """Write a healthy queue with an expired lease, a queue with jobs in every state, and all other kinds of keys."""
    ids = {}
    for name in (HEALTHY, BROKEN):
        ids[name] = states(url, raw, name)
    now = time.time_ns() // 1_000_000
    # Seen far ahead, so that it lives as long as the test takes.
    said = {"id": "w1", "host": "h", "pid": 1, "version": "1", "queues": {HEALTHY: 1}, "concurrency": 1, "running": 1,
            "done": 1, "failed": 0, "rss": 5, "started_ms": now, "heartbeat_ms": now + 86_400_000, "state": "running",
            "stuck_handlers": 0}  # fmt: skip
    for worker in ("w1", "w2"):
        raw.hset(keys.WORKERS, worker, json.dumps(said | {"id": worker}))
    raw.hset(keys.CONTROL, "w2", "quiet")
    with Writer(url) as writer:
        for name in ("nightly", "other"):
            job = deck_job()
            writer.write(store.register(Definition.of(name, HEALTHY, job, cron="0 3 * * *")))
        writer.apply(writer.plan("discard", BROKEN, where="task:spare"))
        writer.pause(BROKEN)
        for queue, task in (("shop:resp:api:1", "task_1"), ("shop:resp:api:2", "")):
            made = registry.register(queue, "response", "shop", task=task, tier="HIGH", ttl_ms=3_600_000, wait_ms=None)
            writer.write(made)
            raw.rpush(queue, "{}")
        writer.write(registry.finish("cleaned", [("shop:resp:api:3", 2, 10)]))
        _agents(writer)
    return ids


def _agents(writer: Writer) -> None:
    """Write the data of agents: samples, the last report, since when its findings hold, and their runs."""
    rows, now = writer.snapshot().queues, time.time_ns() // 1_000_000
    for ago in (20_000, 10_000):
        writer.write(HistorySampler().take(rows, now - ago))
    report = writer.health()
    writer.write(finding_times.note(report.findings, report.thresholds, report.at_ms))
    for task in MAINTENANCE_TASKS:
        # Long ago, so that an agent that comes claims a run at once.
        claim = writer.write(agent_tasks.claim(task, "a1", every_ms=1000, lease_ms=1, aligned=False, now=now - 600_000))
        ending = agent_tasks.TaskResult(summary={"error": "x"}, counters={"requeued": 2})
        if task == "health":
            ending = replace(
                ending, hash_key=health_record.KEY, hash_fields=health_record.hash_fields(report), live_ms=3_600_000
            )
        writer.write(agent_tasks.finish(task, claim.token, ending, now=now - 600_000))


def deck_job() -> Any:
    """Return the job of a schedule."""
    from qdeck._engine import codec, transitions

    head = codec.JobHead(enqueued_ms=0, priority=100, retries=0, task="send")
    return transitions.NewJob(id="x", priority=100, template=head.template(), body=b"[[],{}]")


def states(url: str, raw: redis.Redis, queue: str) -> str:
    """Write a queue with jobs in every state, one of them with an expired lease; return the id of a dead letter."""
    yard = Yard(url, raw, queue)
    dead = yard.die(1, retries=2)
    yard.die(2)
    yard.add(3)
    yard.end(yard.claim()[0], kind="done")
    yard.add(4)
    yard.add(5)
    held = yard.claim(free_slots=2, lease_ms=LEASE_MS)
    yard.claim(free_slots=1, worker="w2")
    parent = yard.add(6, unique="only")
    yard.add(7, delay_ms=3_600_000, tags=("a",))
    yard.add(8, after=[parent])
    spare = [yard.add(9), yard.add(10, task="spare")]
    with Writer(yard.url) as writer:
        writer.apply(writer.plan("cancel", yard.queue, ids=spare))
    assert held
    yard.client.close()
    return dead


def breaks(raw: Any, *, members: int = 1) -> Iterator[Break]:
    """Yield every field of every key, except for the healthy queue, with every value that it must not have.

    Of a sorted set as many members get another score; of what holds a JSON object, each of its fields another value.
    """
    for key in sorted(raw.scan_iter(count=1000)):
        if key.startswith(b"{%s}" % HEALTHY.encode()):
            continue
        kind = raw.type(key)
        yield from (Break(key, None, f"type {other}", other.encode()) for other in _others(kind.decode()))
        if kind == b"zset":
            some = raw.zrange(key, 0, members - 1)
            for member in some:
                yield from (Break(key, member, f"score {score}", score.encode()) for score in SCORES)
            yield from _inside(key, {member: member for member in some})
            yield from (Break(key, None, f"member {name}", b"+" + text) for name, text in TEXTS.items() if text)
        elif kind == b"hash":
            fields = raw.hgetall(key)
            for field in sorted(fields):
                yield from (Break(key, field, name, text) for name, text in TEXTS.items())
            yield from _inside(key, fields)
            yield from (Break(key, None, f"field {name}", b"+" + text) for name, text in TEXTS.items())
        else:
            if kind == b"list":
                yield from _inside(key, {entry: entry for entry in raw.lrange(key, 0, -1)})
            yield from (Break(key, None, name, b"=" + text) for name, text in TEXTS.items())


def _inside(key: bytes, texts: dict[bytes, bytes]) -> Iterator[Break]:
    """Yield the fields of JSON objects; other text may precede the object."""
    for field, text in sorted(texts.items()):
        before, brace, rest = text.partition(b"{")
        try:
            found = json.loads(brace + rest)
        except ValueError:
            continue
        for name in found:
            others = json.dumps({other: value for other, value in found.items() if other != name})
            more = f", {others[1:]}" if len(found) > 1 else "}"
            for value, text_of in JSON.items():
                whole = f"{{{json.dumps(name)}: {text_of}{more}"
                yield Break(key, field, f"object {name} {value}", before + whole.encode())


def whole_or_sample(every: Iterable[Break], one_in: int) -> list[Break]:
    """Return a fixed sample: some values of every field, and every value for some field.

    With `QDECK_FUZZ=all` in the environment it is all of them.
    """
    if os.environ.get("QDECK_FUZZ") == "all":
        return list(every)
    found: list[Break] = []
    turns: Counter[str] = Counter()  # of each kind of break: the values take turns from field to field
    for (_, _, kind, _), group in groupby(every, key=_group):
        some, turn = list(group), turns[kind]
        found += some[turn % one_in :: one_in] or [some[turn % len(some)]]
        turns[kind] += 1
    return found


def _group(one: Break) -> tuple[bytes, bytes | None, str, str]:
    """Return the group from which a sample takes some: values of a field, scores of a member, types of a key …"""
    kind, _, rest = one.value.partition(" ")
    if kind == "object":
        return one.key, one.field, kind, rest.partition(" ")[0]
    return one.key, one.field, kind if kind in ("type", "score", "member", "field") else "", ""


def _others(kind: str) -> list[str]:
    return [other for other in ("hash", "zset", "string", "list", "set") if other != kind]


class Image:
    """All keys of a server at one moment, which can be restored."""

    def __init__(self, raw: Any) -> None:
        self._raw = raw
        self._kept = {key: (raw.dump(key), max(0, raw.pttl(key))) for key in raw.scan_iter(count=1000)}

    def put_back(self) -> None:
        """Restore the server."""
        pipe = self._raw.pipeline()
        pipe.flushdb()
        for key, (value, ttl) in self._kept.items():
            pipe.restore(key, ttl, value)
        pipe.execute()


@contextmanager
def broken(raw: Any, image: Image, *some: Break) -> Iterator[None]:
    """Break these fields while the block runs, then restore the server."""
    try:
        for one in some:
            _write(raw, raw.type(one.key).decode(), one)
        yield
    finally:
        image.put_back()


def _write(raw: Any, kind: str, one: Break) -> None:
    if one.value.startswith("type "):
        raw.delete(one.key)
        match one.raw:
            case b"hash":
                raw.hset(one.key, "f", "v")
            case b"zset":
                raw.zadd(one.key, {"m": 1})
            case b"string":
                raw.set(one.key, "s")
            case b"set":
                raw.sadd(one.key, "m")
            case _:
                raw.rpush(one.key, "l")
    elif one.value.startswith("object ") and kind != "hash":
        _exchange(raw, kind, one)
    elif kind == "zset":
        member, score = (one.field, one.raw) if one.field is not None else (one.raw[1:], b"5")
        raw.execute_command("ZADD", one.key, score, member)
    elif kind == "hash":
        field, value = (one.field, one.raw) if one.field is not None else (one.raw[1:], b"5")
        raw.hset(one.key, field, value)
    elif kind == "stream":
        raw.xadd(one.key, {"e": one.raw[1:], "k": one.raw[1:], "i": one.raw[1:]})
    elif kind == "list":
        raw.rpush(one.key, one.raw[1:])
    elif kind == "set":
        raw.sadd(one.key, one.raw[1:])
    else:
        raw.set(one.key, one.raw[1:], keepttl=True)


def _exchange(raw: Any, kind: str, one: Break) -> None:
    """Replace one entry by another."""
    if kind == "list":
        raw.lset(one.key, raw.lpos(one.key, one.field), one.raw)
    else:
        score = raw.zscore(one.key, one.field)
        raw.zrem(one.key, one.field)
        raw.zadd(one.key, {one.raw: score})
