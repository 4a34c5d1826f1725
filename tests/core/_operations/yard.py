"""A queue in real time, with short words to bring jobs into every state, and a dump of all that is kept of it."""

from __future__ import annotations

import hashlib
import json
import time
from typing import TYPE_CHECKING, Any, Final

from qdeck._engine import codec, keys, programs, transitions
from qdeck._engine.job_ids import new_id
from qdeck._redis import Endpoint, SyncClient

if TYPE_CHECKING:
    from collections.abc import Sequence

    import redis

QUEUE: Final = "shop:mail:actions"
OTHER: Final = "shop:bills:actions"
Dump = dict[str, Any]


def now_ms() -> int:
    return time.time_ns() // 1_000_000


class Yard:
    """A queue, its producers and its workers."""

    def __init__(self, url: str, raw: redis.Redis, queue: str = QUEUE) -> None:
        self.url = url
        self.raw: Any = raw  # its replies have too many types
        self.queue = queue
        self.client = SyncClient(Endpoint(url))
        self._turns = time.time_ns()

    def key(self, part: str) -> bytes:
        return keys.key(self.queue, part)

    def add(self, *args: Any, after: Sequence[str] = (), delay_ms: int | None = None, **head: Any) -> str:
        """One job, in real time."""
        unique, job_id = head.pop("unique", ""), head.pop("job_id", None) or new_id()
        known = codec.JobHead(
            enqueued_ms=0, priority=head.pop("priority", 100), retries=head.pop("retries", 0),
            task=head.pop("task", "send"), name=unique or None, unique=bool(unique), **head,
        )  # fmt: skip
        job = transitions.NewJob(
            id=job_id, priority=known.priority, template=known.template(), body=codec.encode_json([args, {}]),
            delay_ms=delay_ms, unique=unique, after=tuple(after),
        )  # fmt: skip
        [made] = self.client.run(programs.enqueue(self.queue, [job]))
        return made.id

    def claim(self, free_slots: int = 1, worker: str = "w1", lease_ms: int = 60_000) -> list[transitions.ClaimedJob]:
        self._turns += 1
        return self.client.run(
            programs.call(transitions.poll(self.queue, worker, self._turns, free_slots=free_slots, lease_ms=lease_ms))
        ).jobs

    def end(
        self, job: transitions.ClaimedJob, kind: str = "failed", worker: str = "w1", **event: Any
    ) -> transitions.PollReply:
        self._turns += 1
        told = {"class": "pkg.TimeoutError", "message": "job 7 timed out", "traceback": "line 1", "worker": worker}
        ending = transitions.Ending(
            kind=kind, id=job.id, token=job.token, delay_ms=-1, event=json.dumps(told | event).encode(), log=b"said"
        )
        op = transitions.poll(self.queue, worker, self._turns, free_slots=0, lease_ms=60_000, endings=[ending])
        return self.client.run(programs.call(op))

    def die(self, *args: Any, event: dict[str, Any] | None = None, **options: Any) -> str:
        """A job that was made, claimed and failed for good. Nothing else may be ready."""
        job_id = self.add(*args, **options)
        [job] = self.claim()
        assert job.id == job_id
        self.end(job, **(event or {}))
        return job_id

    def bulk_dead(self, count: int, trace: int = 300) -> list[str]:
        """Very many dead letters, written as scripts leave them."""
        self.client.run(programs.make_queue(self.queue))
        ids, at = [new_id() for _ in range(count)], now_ms() - 600_000
        told = (
            '{{"class":"{c}","message":"job {n} timed out after {n} s","traceback":"{t}","worker":"h:1","attempt":4}}'
        )
        classes, text = ("pkg.TimeoutError", "ValueError"), "x" * trace
        kinds = [f"{name}\njob N timed out after N s" for name in ("TimeoutError", "ValueError")]
        digests = [hashlib.sha1(kind.encode(), usedforsecurity=False).hexdigest()[:10] for kind in kinds]
        for start in range(0, count, 2000):
            part = list(enumerate(ids[start : start + 2000], start))
            pipe = self.raw.pipeline(transaction=False)
            pipe.hset(self.key("head"), mapping={i: f"{at} 100 3 send" for _, i in part})
            pipe.hset(self.key("body"), mapping={i: b'[[%d],{"user":{"id":%d}}]' % (n, n % 100) for n, i in part})
            pipe.hset(self.key("attempts"), mapping={i: f"4 0 0 {digests[n % 2]}" for n, i in part})
            pipe.hset(
                self.key("error"),
                mapping={i: f"{at + n // 10} failed {told.format(c=classes[n % 2], n=n, t=text)}" for n, i in part},
            )
            pipe.zadd(self.key("dead"), {i: at + n // 10 for n, i in part})
            pipe.execute()
        self.raw.hset(self.key("meta"), "dead_letter", self.raw.zcard(self.key("dead")))
        for odd in range(min(2, count)):
            numbers = range(odd, count, 2)
            told = f"{len(numbers)} {at + odd // 10} {at + numbers[-1] // 10} {ids[numbers[-1]]}\n{kinds[odd]}"
            self.raw.hset(self.key("groups"), digests[odd], told)
        return ids

    def bulk_ready(self, count: int) -> None:
        """Very many jobs that wait, written as scripts leave them."""
        self.client.run(programs.make_queue(self.queue))
        ids, at = [new_id() for _ in range(count)], now_ms() - 600_000
        for start in range(0, count, 10_000):
            part = ids[start : start + 10_000]
            pipe = self.raw.pipeline(transaction=False)
            pipe.hset(self.key("head"), mapping=dict.fromkeys(part, f"{at} 100 3 send"))
            pipe.hset(self.key("body"), mapping=dict.fromkeys(part, b'[["someone"],{}]'))
            pipe.zadd(self.key("ready"), {i: 100 * codec.BAND + at + n for n, i in enumerate(part, start)})
            pipe.execute()
        self.raw.hset(self.key("meta"), "ready", self.raw.zcard(self.key("ready")))

    def forget_undo(self, batch: str) -> None:
        """As after a process that undid a batch and was killed before it wrote that down."""
        record = json.loads(self.raw.hget(keys.UNDO, batch))
        del record["undo"]
        self.raw.hset(keys.UNDO, batch, json.dumps(record))

    def expire(self, batch: str) -> None:
        """As after the seconds within which the process of a batch or of its undo would have renewed it."""
        record = json.loads(self.raw.hget(keys.UNDO, batch))
        record["appliers"] = {}
        if "undo" in record:
            record["undo"]["open_until_ms"] = 1
        self.raw.hset(keys.UNDO, batch, json.dumps(record))

    def interrupt(self, batch: str, **facts: Any) -> None:
        """As after a process that applied a batch and was killed some time ago."""
        record = json.loads(self.raw.hget(keys.UNDO, batch)) | {"appliers": {}} | facts
        record.pop("applied", None)
        self.raw.hset(keys.UNDO, batch, json.dumps(record))

    def ids(self, state: str) -> list[str]:
        return [raw.decode() for raw in self.raw.zrange(self.key(state), 0, -1)]

    def dump(self) -> Dump:
        """All that is kept of the queue, but for what wakes workers and what undo keeps."""
        found: Dump = {}
        for name in self.raw.keys(f"{{{self.queue}}}:*"):
            text = name.decode()
            part = text.partition("}:")[2]
            if part in ("wakeup", "stop_requests") or part.startswith("undo:"):
                continue
            found[part] = self._read(name)
        return found

    def _read(self, name: bytes) -> Any:
        match self.raw.type(name):
            case b"zset":
                return self.raw.zrange(name, 0, -1, withscores=True)
            case b"hash":
                return {
                    field: value
                    for field, value in self.raw.hgetall(name).items()
                    if value != b"0" and field != b"versions"  # only grows
                }
            case b"stream":
                return [fields for _, fields in self.raw.xrange(name)] or None
            case _:
                return self.raw.lrange(name, 0, -1)
