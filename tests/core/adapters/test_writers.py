"""Writers that do just what the documents say, at work while qdeck retries, promotes and purges their entries."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from qdeck.admin import Limits, Writer, read_rules

if TYPE_CHECKING:
    from collections.abc import Callable

    import redis

    from support.servers import Server

LINE, DELAYED = "scheduler:queue:priority", "scheduler:queue:delayed"
PROCESSING, DEAD = "scheduler:processing", "scheduler:queue:dlq"
OFFSETS = {"CRITICAL": 0, "HIGH": 1_000_000, "NORMAL": 2_000_000, "LOW": 3_000_000}


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def until(wanted: Callable[[], bool], act: Callable[[], None], seconds: float = 40) -> None:
    """Lets an operator act again and again, until all is as it should be."""
    last = time.monotonic() + seconds
    while not wanted():
        assert time.monotonic() < last, "it did not come to an end"
        act()


class SchedulerWriter:
    """The scheduler of the page: its queue in four keys, and the status of each job elsewhere, as in its database."""

    def __init__(self, client: redis.Redis) -> None:
        self.client: Any = client
        self.status: dict[str, str] = {}
        self.runs: Counter[str] = Counter()
        self.fails: dict[str, int] = {}
        self.over = threading.Event()

    def enqueue(self, job: str, priority: str = "NORMAL") -> None:
        self.client.zadd(LINE, {job: now_ms() + OFFSETS[priority]})

    def delay(self, job: str, due: int, priority: str = "NORMAL") -> None:
        self.client.zadd(DELAYED, {f"{job}:{priority}": due})

    def promote(self) -> None:
        for entry in self.client.zrangebyscore(DELAYED, 0, now_ms()):
            job, priority = entry.decode().split(":")[:2]
            self.enqueue(job, priority)  # a broken entry ends it here, as there
            self.client.zrem(DELAYED, entry)

    def work(self) -> None:
        while not self.over.is_set():
            with contextlib.suppress(KeyError, ValueError):
                self.promote()
            popped = self.client.zpopmin(LINE)
            if not popped:
                time.sleep(0.002)
                continue
            job = popped[0][0].decode()
            if self.status.get(job) not in ("QUEUED", "RETRYING"):
                continue  # as the real worker: without a trace
            self.status[job] = "PROCESSING"
            held = json.dumps({"workerId": "w1", "startedAt": now_ms()})
            self.client.hset(PROCESSING, job, held)
            if self.fails.get(job, 0) > 0:
                self.fails[job] -= 1
                self.status[job] = "FAILED"
                failed = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
                letter = json.dumps({"jobId": job, "reason": "boom", "failedAt": failed})
                self.client.zadd(DEAD, {letter: now_ms()})
            else:
                self.runs[job] += 1
                self.status[job] = "COMPLETED"
            self.client.hdel(PROCESSING, job)


def test_scheduler_writer_while_qdeck_retries_promotes_and_purges(
    url: str, raw: redis.Redis, shared_server: Server
) -> None:
    """Its own promotion stands still behind a broken entry: qdeck puts that aside, and in line what is overdue."""
    with shared_server.client() as client, Writer(url, adapters=("scheduler",)) as admin:
        writer = SchedulerWriter(client)
        jobs = [f"job{n}" for n in range(300)]
        writer.fails = {job: 2 if n % 10 == 0 else 1 for n, job in enumerate(jobs) if n % 5 == 0}
        raw.zadd(DELAYED, {"nonsense": 1, "job:with:colons:WHAT": 2})
        for number, job in enumerate(jobs):
            writer.status[job] = "QUEUED"
            if number % 3:
                writer.enqueue(job)
            else:
                writer.delay(job, now_ms() - 120_000 + number)
        worker = threading.Thread(target=writer.work)
        worker.start()

        def operate() -> None:
            admin.apply(admin.plan_purge(read_rules(("broken_entries", "overdue_delayed"))))
            failed = [job for job, status in dict(writer.status).items() if status == "FAILED"]
            plan = admin.plan("retry", "scheduler", where=f"id:{','.join(failed)}" if failed else "id:none")
            for entry in plan.entries():  # what its warning asks for
                writer.status[entry.id] = "QUEUED"
            for skip in admin.apply(plan).skipped:  # its worker had written the letter, and held the job still
                writer.status[skip.id] = "FAILED"

        try:
            until(lambda: all(writer.runs[job] for job in jobs) and not raw.zcard(LINE), operate)
        finally:
            writer.over.set()
            worker.join(20)
        assert set(writer.runs.values()) == {1}
        assert (raw.zcard(LINE), raw.zcard(DELAYED), raw.hlen(PROCESSING)) == (0, 0, 0)
        quarantined = {json.loads(letter)["jobId"] for letter in raw.zrange(DEAD, 0, -1) if isinstance(letter, bytes)}
        assert quarantined == {"nonsense", "job:with:colons:WHAT"}


class IfdbWriter:
    """The task queue of the page: one hash, one sorted set, one worker."""

    def __init__(self, client: redis.Redis) -> None:
        self.client: Any = client
        self.runs: Counter[str] = Counter()
        self.order: list[str] = []
        self.fails: dict[str, int] = {}
        self.over = threading.Event()

    def enqueue(self, task_id: str, priority: int = 100, retries: int = 2, dependency: str | None = None) -> None:
        task = {
            "id": task_id, "name": task_id, "module": "m", "function": "f", "args": [], "kwargs": {},
            "priority": priority, "retries_left": retries, "retry_minutes": 2000, "cron": None,
            "enqueue_time": _iso(), "scheduled_time": None, "dependency": dependency, "onfail_module": None,
            "onfail_function": None, "pending": True, "success": False, "fail": False, "log": "",
        }  # fmt: skip
        self.client.hset("ifdb:task_data", task_id, json.dumps(task))
        self.client.zadd("ifdb:task_queue", {task_id: priority * 1_000_000 + int(time.time())})

    def next(self) -> dict[str, Any] | None:
        for task_id in self.client.zrange("ifdb:task_queue", 0, -1):
            text = self.client.hget("ifdb:task_data", task_id)
            if not text:
                self.client.zrem("ifdb:task_queue", task_id)
                continue
            task: dict[str, Any] = json.loads(text)
            if not task.get("pending"):
                self.client.zrem("ifdb:task_queue", task_id)
                continue
            if task.get("scheduled_time") and datetime.now(UTC) < datetime.fromisoformat(task["scheduled_time"]):
                continue
            if task.get("dependency"):
                needed = self.client.hget("ifdb:task_data", task["dependency"])
                if needed and not json.loads(needed).get("success"):
                    continue
            return task
        return None

    def work(self) -> None:
        while not self.over.is_set():
            task = self.next()
            if task is None:
                time.sleep(0.002)
                continue
            self.execute(task)

    def execute(self, task: dict[str, Any]) -> None:
        name = task["id"]
        task["start_time"] = _iso()
        task["log"] += f"Started at {task['start_time']}\n"
        self.client.hset("ifdb:task_data", name, json.dumps(task))
        if self.fails.get(name, 0) > 0:
            self.fails[name] -= 1
            task["retries_left"] -= 1
            task["log"] += "Failed: boom\n"
            if task["retries_left"] > 0:
                later = datetime.now(UTC) + timedelta(minutes=task["retry_minutes"])
                task["scheduled_time"] = later.isoformat()
            else:
                task |= {"fail": True, "pending": False, "finish_time": _iso()}
        else:
            self.runs[name] += 1
            self.order.append(name)
            task |= {"success": True, "pending": False, "finish_time": _iso()}
        self.client.hset("ifdb:task_data", name, json.dumps(task))
        if not task.get("pending"):
            self.client.zrem("ifdb:task_queue", name)


def _iso() -> str:
    return datetime.now(UTC).isoformat()


def test_ifdb_writer_while_qdeck_retries_runs_and_purges(url: str, raw: redis.Redis, shared_server: Server) -> None:
    with shared_server.client() as client, Writer(url, adapters=("ifdb",)) as admin:
        writer = IfdbWriter(client)
        tasks = [f"task{n}" for n in range(120)]
        writer.fails = {task: 1 + n % 3 for n, task in enumerate(tasks) if n % 4 == 0}
        worker = threading.Thread(target=writer.work)
        worker.start()
        for number, task in enumerate(tasks):
            writer.enqueue(task, priority=100 + number % 3, dependency=tasks[number - 1] if number % 5 == 1 else None)

        def operate() -> None:
            for verb in ("retry", "run"):
                admin.apply(admin.plan(verb, "ifdb"))
            plan = admin.plan_purge(read_rules(("task_too_old",)), Limits(max_task_age=0))
            admin.apply(plan)

        try:
            until(lambda: all(writer.runs[task] for task in tasks), operate)
        finally:
            writer.over.set()
            worker.join(20)
        assert set(writer.runs.values()) == {1}
        for number, task in enumerate(tasks):
            if number % 5 == 1:  # nothing was purged that this one waited for
                assert writer.order.index(tasks[number - 1]) < writer.order.index(task)
        time.sleep(0.05)  # an age of 0 is over no limit
        operate()
        assert (raw.zcard("ifdb:task_queue"), raw.hlen("ifdb:task_data")) == (0, 0)
