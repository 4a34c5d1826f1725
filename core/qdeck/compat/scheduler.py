"""The QueueManager of the task scheduler, in Python names, on qdeck: jobs are managed by their ids."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import socket
import threading
import time
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, TypedDict

from qdeck._engine import codec, keys, programs, scripts, signatures, transitions
from qdeck._engine.job_ids import check_id
from qdeck._errors import InvalidOption, QdeckError
from qdeck._queue_names import QueueName
from qdeck._redis import Endpoint, SyncClient, reads
from qdeck._task_options import Priority, read_due, read_duration, read_priority
from qdeck._worker.heartbeat import IDLE_PRESENCE_S, publish, unregister

if TYPE_CHECKING:
    from datetime import timedelta

    from qdeck._redis.commands import Arg, Program

__all__ = ["JobPriority", "QueueManager", "Stats"]

QUEUE: Final = "scheduler:actions"
TASK: Final = "scheduler.job"  # a qdeck worker that serves the queue gets the id under this name
UNASSIGNED: Final = "unassigned"
LEASE_S: Final = 3600.0
_LONGEST_MS: Final = 10 * 366 * 86_400_000
JobPriority = Priority


class Stats(TypedDict):
    """How many jobs there are: waiting, delayed, leased, and in the dead letters."""

    priority: int
    delayed: int
    processing: int
    dlq: int


class QueueManager:
    """Manages jobs by their ids. Threads may share it; a job that another worker has is not changed.

    A manager keeps the leases that it took. It changes a leased job only while it holds the lease: a worker that was
    thought dead cannot end a job that another worker has now.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        queue: str | QueueName = QUEUE,
        lease: float | timedelta = LEASE_S,
        patience: float = 30.0,
    ) -> None:
        """`lease` is how long a job stays leased without a heartbeat, in seconds."""
        self.queue = str(QueueName.parse(str(queue)))
        self._lease_ms = read_duration("lease", lease)
        if self._lease_ms < 100:
            raise InvalidOption(f"lease is {lease!r}", hint="Give 0.1s or more.")
        found = url or os.environ.get("QDECK_URL") or os.environ.get("REDIS_URL") or "redis://localhost:6379"
        self._client = SyncClient(Endpoint(found), patience=patience)
        self._tokens: dict[str, str] = {}
        self._local = threading.local()

    def __repr__(self) -> str:
        return f"<QueueManager {self._client.endpoint} {self.queue}>"

    def close(self) -> None:
        """Close this thread's connection, and remove it from the list of workers."""
        worker = getattr(self._local, "registered", None)
        if worker is not None:
            self._local.registered = None
            with contextlib.suppress(QdeckError):
                self._client.run(unregister(worker))
        self._client.close()

    def enqueue(self, job_id: str, priority: int | str = Priority.NORMAL) -> bool:
        """Enqueue a job; one that waits already gets this priority. Return False while it is processed."""
        return self._put(job_id, priority, None)

    def enqueue_delayed(
        self, job_id: str, scheduled_at: datetime | float, priority: int | str = Priority.NORMAL
    ) -> bool:
        """Delay a job until then, also one that waits already. Return False while it is processed."""
        return self._put(job_id, priority, _moment(scheduled_at))

    def dequeue(self) -> str | None:
        """Lease the most urgent job, of equals the one that waits longest, for an hour as `unassigned`.

        Return None when nothing is due, or an operator asked this worker to be quiet or to stop. A job without a
        heartbeat for that long is given to another worker.
        """
        if self._register():
            return None
        poll = self._poll(free_slots=1)
        if poll.deadline_ms and poll.deadline_ms <= poll.now_ms:
            self._client.run(programs.call(transitions.reap(self.queue)))
        if not poll.jobs:
            return None
        job = poll.jobs[0]
        self._tokens[job.id] = job.token
        self._own(job.id, UNASSIGNED, "")
        return job.id

    def promote_delayed_jobs(self) -> int:
        """Make due jobs ready, and jobs with expired leases; return how many were due.

        Any number of programs may do so at any time; `dequeue` does it too.
        """
        total = 0
        while True:
            count = int(self._manage("promote", ""))
            total += count
            if count < 500:
                break
        self._client.run(programs.call(transitions.reap(self.queue)))
        self._client.run(programs.deliver(self.queue))
        return total

    def mark_processing(self, job_id: str, worker_id: str, lease: float | timedelta | None = None) -> bool:
        """Set the worker of a leased job, and renew the lease; with `lease` for this long from now on.

        Return False when another worker has the job, or it is not leased: do not process it.
        """
        check_id(job_id)
        if not isinstance(worker_id, str):
            raise InvalidOption(f"worker_id is {worker_id!r}", hint="Give the name of who processes the job.")
        worker = re.sub(r"[^A-Za-z0-9._:-]", "-", worker_id)[:100] or UNASSIGNED
        length: Arg = "" if lease is None else max(100, read_duration("lease", lease))
        self._local.worker = worker
        self._register()
        return self._own(job_id, worker, length)

    def heartbeat(self, job_id: str) -> bool:
        """Renew the lease of a job; return False when another worker has it by now."""
        self._register()
        token = self._token(job_id)
        if token is None:
            return False
        beat = self._client.run(programs.call(transitions.renew_leases(self.queue, [(job_id, token)])))
        if beat.lost:
            self._tokens.pop(job_id, None)
        return not beat.lost

    def mark_completed(self, job_id: str) -> bool:
        """Complete a job; return False when another worker has it by now, or it was not leased."""
        token = self._token(job_id)
        self._tokens.pop(job_id, None)
        return token is not None and not self._poll(free_slots=0, acks=[(job_id, token)]).refused

    def move_to_dlq(self, job_id: str, reason: str) -> bool:
        """Move a job to the dead letters, with the reason; return False when another worker has it by now."""
        event = codec.encode_json(
            {"class": "MovedToDLQ", "message": str(reason)[:4000], "traceback": "", "worker": self._consumer}
        )
        token = self._tokens.pop(job_id, "")
        _, template, body = _record(check_id(job_id), Priority.NORMAL)
        return (
            self._manage(
                "bury", job_id, event, template, body, _call(), token, signatures.signature_of("failed", event)
            )
            == "dead"
        )

    def requeue(self, job_id: str, priority: int | str = Priority.NORMAL, delay_ms: float = 0) -> bool:
        """Requeue a leased job with a delay in milliseconds; return False when another worker has it by now."""
        number, template, body = _record(check_id(job_id), priority)
        length = _delay(delay_ms)
        due: Arg = self._now_ms() + length if length else ""
        token = self._tokens.pop(job_id, "")
        word = self._manage("requeue", job_id, number, due, template, body, _call(), token)
        return word not in ("lost", "running")

    def get_stats(self) -> Stats:
        """Return how many jobs wait, are delayed, are processed, and are dead."""
        return self._client.run(_stats(self.queue))

    def _register(self) -> str:
        """List this thread as a worker every 20s, else its queue seems to have no worker; return what an operator
        requested of it.
        """
        local, worker = self._local, getattr(self._local, "worker", None) or self._consumer
        now, before = time.monotonic(), getattr(local, "registered", None)
        if before == worker and now - local.registered_at < IDLE_PRESENCE_S:
            return str(local.request)
        if before not in (None, worker):
            self._client.run(unregister(before))
        now_ms = self._now_ms()
        about = {
            "id": worker, "host": socket.gethostname(), "pid": os.getpid(), "queues": [self.queue], "concurrency": 1,
            "state": "running", "heartbeat_ms": now_ms,
        }  # fmt: skip
        program = publish(worker, codec.encode_json(about), codec.encode_json([TASK]))
        local.request = self._client.run(program)
        local.registered, local.registered_at = worker, now
        return str(local.request)

    def _put(self, job_id: str, priority: int | str, due_ms: int | None) -> bool:
        number, template, body = _record(check_id(job_id), priority)
        due: Arg = "" if due_ms is None else due_ms
        return self._manage("put", job_id, number, due, template, body, _call()) != "running"

    def _own(self, job_id: str, worker: str, lease_ms: Arg) -> bool:
        token = f"{worker}:{secrets.randbelow(10**12)} "
        if self._manage("own", job_id, token, lease_ms, self._tokens.get(job_id, "")) == "lost":
            self._tokens.pop(job_id, None)
            return False
        self._tokens[job_id] = token
        return True

    def _manage(self, verb: str, job_id: str, *args: Arg) -> str:
        script = scripts.load("compat/manage")
        _, word = self._client.run(programs.run_on_queue(script, self.queue, [0, verb, job_id, *args]))
        return word.decode() if isinstance(word, bytes) else str(word)

    def _poll(self, *, free_slots: int, acks: list[tuple[str, str]] | None = None) -> transitions.PollReply:
        self._local.number = getattr(self._local, "number", 0) + 1
        op = transitions.poll(
            self.queue,
            self._consumer,
            self._local.number,
            free_slots=free_slots,
            lease_ms=self._lease_ms,
            acks=acks or [],
        )
        return self._client.run(programs.call(op))

    @property
    def _consumer(self) -> str:
        # One for each thread of each process: the polls of one name are numbered, and an earlier one is refused.
        made: str | None = getattr(self._local, "name", None)
        if made is None or self._local.pid != os.getpid():
            self._local.name = made = f"{UNASSIGNED}.{secrets.token_hex(5)}"
            self._local.pid, self._local.number = os.getpid(), 0
        return made

    def _token(self, job_id: str) -> str | None:
        """Return the token of the job's lease: that of this manager if it holds it, else that of the holder."""
        known = self._tokens.get(check_id(job_id))
        return known if known is not None else self._client.run(_lease_of(self.queue, job_id))

    def _now_ms(self) -> int:
        return self._client.run(reads.clock())


def _record(job_id: str, priority: int | str) -> tuple[int, str, bytes]:
    number = read_priority("priority", priority)
    head = codec.JobHead(enqueued_ms=0, priority=number, retries=0, task=TASK)
    return number, head.template(), codec.encode_call(TASK, (job_id,), {})


def _call() -> str:
    return secrets.token_hex(6)


def _delay(ms: float) -> int:
    if isinstance(ms, bool) or not isinstance(ms, int | float) or not ms <= _LONGEST_MS:
        raise InvalidOption(f"delay_ms is {ms!r}", hint="Give milliseconds, at most those of ten years.")
    return round(max(ms, 0))


def _moment(when: datetime | float) -> int:
    if isinstance(when, datetime) and when.tzinfo is None:
        when = when.astimezone()
    return read_due(when)


def _lease_of(queue: str, job_id: str) -> Program[str | None]:
    key = keys.key(queue, "lease")
    lease = yield (b"HGET", key, job_id)
    return None if lease is None else lease.decode().split(" ", 1)[0] + " "


def _stats(queue: str) -> Program[Stats]:
    parts = ("ready", "delayed", "running", "dead")
    replies: list[Any] = yield [(b"ZCARD", keys.key(queue, part)) for part in parts]
    ready, delayed, running, dead = map(int, replies)
    return Stats(priority=ready, delayed=delayed, processing=running, dlq=dead)
