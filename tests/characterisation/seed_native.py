"""The native queues of the seed, written key by key: no module of the package is asked how."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from redis.client import Pipeline

MAIL: Final = "shop:mail:actions"
MAILER: Final = "shop:mailer:actions"  # a name that is nearly the other one
BILLS: Final = "shop:bills:actions"
WORKER: Final = "mailer-1.4100"
GONE: Final = "mailer-9.4109"
HOSTILE: Final = "[b]red[/] \x1b[31m\x07<b>&amp;{x}\u202e\u200b"
MINUTE: Final = 60_000
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR
BAND: Final = 10**13
LEASE: Final = 10 * MINUTE
COUNTED: Final = ("ready", "delayed", "blocked", "running", "dead_letter", "done", "cancelled")


class Queue:
    """One native queue on its way to the server; ages are in milliseconds before `now`."""

    def __init__(self, pipe: Pipeline, name: str, now: int) -> None:
        self.pipe, self.name, self.now = pipe, name, now
        self.counts = dict.fromkeys(COUNTED, 0)
        self.groups: dict[str, tuple[int, int, int, str, str]] = {}

    def key(self, part: str) -> str:
        return f"{{{self.name}}}:{part}"

    def job(
        self,
        state: str,
        job: str,
        score: int,
        *,
        age: int,
        priority: int = 100,
        args: object = None,
        extra: str = "",
    ) -> str:
        """A job with its record, its payload and its place."""
        self.counts[state] += 1
        self.pipe.zadd(self.key(state), {job: score})
        self.pipe.hset(self.key("head"), job, f"{self.now - age} {priority} 3 send{extra}")
        self.pipe.hset(self.key("body"), job, json.dumps([[job] if args is None else args, {}]))
        return job

    def ready(self, job: str, age: int, priority: int = 100, **more: object) -> str:
        score = priority * BAND + self.now - age
        return self.job("ready", job, score, age=age, priority=priority, **more)  # type: ignore[arg-type] # as given

    def running(self, job: str, worker: str, since: int, over: int) -> str:
        """A job whose lease ends `over` milliseconds ago (before zero: in the future)."""
        self.job("running", job, self.now - over, age=since + MINUTE, priority=0)
        lease = f"{worker}:1{since} {self.now - since} {LEASE} {self.now - since - MINUTE}"
        self.pipe.hset(self.key("lease"), job, lease)
        return job

    def events(self, job: str, *events: tuple[int, str, dict[str, object]]) -> None:
        """What happened to a job, oldest first."""
        lines = [f"{self.now - age} {kind} {json.dumps(told)}" for age, kind, told in events]
        self.pipe.hset(self.key("error"), job, "\n".join(lines))

    def dead(self, job: str, age: int, kind: str, message: str, shape: str, **more: object) -> str:
        """A dead letter and its group."""
        self.job("dead_letter", job, self.now - age, age=age + MINUTE, **more)  # type: ignore[arg-type] # as given
        told: dict[str, object] = {"worker": WORKER, "traceback": "line 1\nline 2", "class": kind, "message": message}
        self.events(job, (age, "failed", told))
        error = kind.rpartition(".")[2]
        digest = hashlib.sha1(f"{error}\n{shape}".encode()).hexdigest()[:10]  # noqa: S324 - a name, no secret
        self.pipe.hset(self.key("attempts"), job, f"4 0 0 {digest}")
        count, first, last, _, _ = self.groups.get(digest, (0, self.now, 0, "", ""))
        at = self.now - age
        self.groups[digest] = (count + 1, min(first, at), max(last, at), job, f"{error}\n{shape}")
        return job

    def close(self, **meta: object) -> None:
        """Writes the counts and the groups, and registers the queue."""
        counts = {name: count for name, count in self.counts.items() if count}
        totals = {"n:enqueued": 30, "n:done": 2, "n:dead": 5, "n:failed": 5, "n:cancelled": 2}
        for field, value in {"v": 2, **totals, **counts, **meta}.items():
            self.pipe.hset(self.key("meta"), field, str(value))
        for digest, (count, first, last, sample, text) in self.groups.items():
            self.pipe.hset(self.key("groups"), digest, f"{count} {first} {last} {sample}\n{text}")
        self.pipe.hset("qdeck:queues", self.name, self.now - 30 * DAY)


def fill(pipe: Pipeline, now: int) -> None:
    """Three queues, two workers, schedules and a line of what somebody did."""
    _mail(pipe, now)
    mailer = Queue(pipe, MAILER, now)
    mailer.ready("mailer-ready", 3 * MINUTE + 20_000)
    mailer.close(paused=now - HOUR)
    bills = Queue(pipe, BILLS, now)
    bills.ready("bill-ready", 25 * HOUR + 20_000)
    bills.ready("twin", 5 * MINUTE + 20_000)  # an id that another queue has too
    bills.close()
    _around(pipe, now)


def _mail(pipe: Pipeline, now: int) -> None:
    queue = Queue(pipe, MAIL, now)
    late = 20_000  # no age is a whole number of minutes: seconds that pass change no figure
    queue.ready("ready-first", 5 * MINUTE + late, priority=0)
    queue.ready("ready-old", 26 * HOUR + late)
    queue.ready("ready-tagged", 9 * MINUTE + late, priority=200, extra="\nnwelcome\nu\ntnightly,eu")
    pipe.hset(queue.key("unique"), "welcome", "ready-tagged")
    queue.ready("twin", 4 * MINUTE + late)
    queue.ready("ready-hostile", 3 * MINUTE + late, extra=f"\nn{HOSTILE}", args=[HOSTILE, {"password": "hunter2"}])
    soon = now + HOUR + 40_000
    queue.job("delayed", "delayed-later", soon, age=HOUR + late)
    queue.job("delayed", "delayed-overdue", now - 2 * MINUTE - late, age=2 * HOUR + late)
    queue.job("blocked", "blocked-waits", now - HOUR - late, age=HOUR + late)
    pipe.hset(queue.key("after"), mapping={"<blocked-waits": "delayed-later", ">delayed-later": "0 blocked-waits"})
    queue.running("running-leased", WORKER, 3 * MINUTE + late, -7 * MINUTE - 40_000)
    queue.running("running-lost", GONE, 4 * HOUR + late, 3 * HOUR + late)
    queue.running("running-late", WORKER, 15 * MINUTE + late, 5 * MINUTE + late)
    queue.job("done", "done-old", now - 2 * HOUR - late, age=3 * HOUR)
    queue.job("done", "done-new", now - 10 * MINUTE - late, age=11 * MINUTE)
    pipe.hset(queue.key("result"), "done-new", '{"sent":1}')
    pipe.hset(queue.key("log"), "done-new", "sent to relay 7, token=tok123")
    queue.dead("dead-one", 2 * HOUR + late, "smtplib.TimeoutError", "relay 7 timed out", "relay N timed out")
    queue.dead("dead-two", 40 * MINUTE + late, "smtplib.TimeoutError", "relay 9 timed out", "relay N timed out")
    queue.dead("dead-old", 8 * DAY + late, "ValueError", "no such template 'invoice'", "no such template '\u2026'")
    queue.dead("dead-hostile", 30 * MINUTE + late, "Odd", HOSTILE, HOSTILE, args=[HOSTILE, {"password": "hunter2"}])
    queue.dead("dead-unique", 20 * MINUTE + late, "Odd", "gone", "gone", extra="\nnwelcome\nu")
    queue.job("cancelled", "cancelled-old", now - 30 * HOUR - late, age=31 * HOUR)
    queue.job("cancelled", "cancelled-new", now - 5 * MINUTE - late, age=6 * MINUTE)
    for job, age in (("cancelled-old", 30 * HOUR), ("cancelled-new", 5 * MINUTE)):
        told: dict[str, object] = {"reason": "cancel by an operator", "by": "ben@ops-1"}
        queue.events(job, (age + late, "cancelled", told))
    orphan = f"{(now - 2 * DAY - late) * 1000:013x}orphan1"
    pipe.hset(queue.key("head"), orphan, f"{now - 2 * DAY - late} 100 3 send")
    pipe.hset(queue.key("body"), orphan, "[[],{}]")
    queue.close()


def _around(pipe: Pipeline, now: int) -> None:
    """Who works there, what comes by the calendar, and what an operator did."""
    for name, ago, running in ((WORKER, 0, 1), (GONE, 4 * HOUR + 20_000, 1)):
        told = {"id": name, "host": name.partition(".")[0], "pid": int(name.partition(".")[2]), "version": "0.1.0"}
        told |= {"queues": {MAIL: 1, MAILER: 2}, "concurrency": 5, "state": "running", "running": running}
        told |= {"done": 18210, "failed": 12, "rss": 61_000_000}
        told |= {"started_ms": now - 6 * HOUR - 20_000, "heartbeat_ms": now - ago}
        pipe.hset("qdeck:workers", name, json.dumps(told))
    for name, cron, enabled in (("minutely", "* * * * *", 1), ("paused", "* * * * *", 0)):
        told = {"v": 1, "queue": MAIL, "task": "send", "cron": cron, "tz": "Europe/Madrid", "missed": "once"}
        told |= {"priority": 100, "template": "100 3 send", "body": '[["feeds"],{}]', "unique": ""}
        pipe.hset("qdeck:schedules", name, json.dumps(told))
        pipe.hset("{qdeck:schedules}:state", name, f"{enabled} {now} 0 0 0 0 - -")
    pipe.hset("{qdeck:schedules}:state", "", "1")
    at = now - 23 * MINUTE - 20_000
    did = {"at_ms": at, "who": "ben", "host": "ops-1", "verb": "discard", "queues": [MAIL], "filter": f"name:{HOSTILE}"}
    did |= {"counts": {"planned": 3, "applied": 3, "skipped": 0}, "outcome": "done", "reason": HOSTILE}
    did |= {"batch": "b-seeded", "plan": "seeded", "undo_until_ms": at + DAY}
    pipe.xadd("qdeck:activity", {"e": json.dumps(did)}, id=f"{at}-0")
