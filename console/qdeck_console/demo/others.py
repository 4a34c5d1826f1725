"""Four other queue systems on the demo's server, each with a small writer that acts like its programs."""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import redis

if TYPE_CHECKING:
    from collections.abc import Sequence

TICK_S: Final = 0.5
POOLS: Final = {"centos-9": 6, "debian-12": 5, "win-2025": 3}
_HOUR: Final = 3600
_WORDS: Final = [
    "amber",
    "brisk",
    "calm",
    "dusty",
    "early",
    "frosty",
    "gentle",
    "hazy",
    "icy",
    "jolly",
    "keen",
    "lucky",
    "mellow",
    "noble",
    "plain",
    "quiet",
    "rapid",
]
_ANIMALS: Final = [
    "otter",
    "heron",
    "badger",
    "finch",
    "lynx",
    "marten",
    "newt",
    "owl",
    "perch",
    "raven",
    "stoat",
    "tern",
    "vole",
    "wren",
]
_REQUEST: Final = "build-4711"
_RECORD: Final = f"vmpooler__odrequest__{_REQUEST}"
_ALIAS: Final = "centos-9-x86_64"
_BUSY: Final = "network timeout talking to vcenter"
Call = tuple[str | int | bytes, ...]


class Server:
    """Plain commands on the demo's server."""

    def __init__(self, url: str) -> None:
        self._client = redis.Redis.from_url(url)

    def send(self, *calls: Call) -> list[Any]:
        """Send commands in one round trip."""
        pipeline = self._client.pipeline(transaction=False)
        for call in calls:
            pipeline.execute_command(*call)
        return pipeline.execute()


def ruby(at: float) -> str:
    """Return a time as Ruby's `Time#to_s` writes it."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S +0000")


def iso(at: float) -> str:
    """Return a time as Python's `isoformat` writes it."""
    return datetime.fromtimestamp(at, UTC).isoformat()


class DemoVmPooler:
    """Pools of machines: cloned, ready, checked out, completed."""

    def __init__(self, server: Server, rng: random.Random) -> None:
        self._server, self._rng = server, rng

    def seed(self) -> None:
        """Write pools with machines of every state, requests and dead letters; one machine never becomes ready."""
        now = time.time()
        calls: list[Call] = [("SADD", "vmpooler__pools", *POOLS)]
        for pool, size in POOLS.items():
            calls.append(("HSET", f"vmpooler__pool__{pool}", "name", pool, "size", size, "template", f"tpl/{pool}"))
            for number in range(size):
                vm, age = self._name(), 120 * (number + 1)
                state = "ready" if number % 3 else "running"
                calls += [
                    ("SADD", f"vmpooler__{state}__{pool}", vm),
                    self._record(vm, pool, now - age, ready=now - age),
                ]
                if state == "running":
                    calls.append(("HSET", f"vmpooler__active__{pool}", vm, ruby(now - age / 2)))
        calls += [("SADD", "vmpooler__pending__win-2025", "slow-sloth"),
                  self._record("slow-sloth", "win-2025", now - 3 * _HOUR)]  # fmt: skip
        for kind, error, message in (
            ("clone", "RuntimeError", "template tpl/win-2025 does not exist"),
            ("clone", "Rbvmomi::Fault", "the host is out of disk space"),
            ("pending", "Timeout", "no ssh after 15 min"),
            ("ready", "SocketError", "VM became unreachable in ready queue"),
        ):
            calls.append(self._letter(kind, error, message, int(now - self._rng.randrange(300, 5 * _HOUR))))
        asked = {"requested": f"{_ALIAS}:centos-9:4", "token:token": "demo-token", "token:user": "ada"}
        calls.append(("HSET", _RECORD, *(word for pair in asked.items() for word in pair)))
        calls.append(("ZADD", "vmpooler__provisioning__processing", int(now - 90), _REQUEST))
        calls.append(("ZADD", "vmpooler__odcreate__task", int(now - 90), f"{_ALIAS}:centos-9:2:{_REQUEST}"))
        for ago in (70, 40):
            calls.append(self._letter("clone", "RuntimeError", _BUSY, int(now - ago), request=_REQUEST))
        self._server.send(*calls)

    def tick(self) -> None:
        """Move one machine to its next state; sometimes a clone fails."""
        pool = self._rng.choice(list(POOLS))
        pending, ready, running, completed = self._server.send(
            *(
                ("SRANDMEMBER", f"vmpooler__{state}__{pool}", 3)
                for state in ("pending", "ready", "running", "completed")
            )
        )
        now = time.time()
        calls: list[Call] = []
        vm = next((name for name in pending if name != b"slow-sloth"), None)
        if vm is not None:
            calls += [("SMOVE", f"vmpooler__pending__{pool}", f"vmpooler__ready__{pool}", vm),
                      ("HSET", b"vmpooler__vm__" + vm, "ready", ruby(now))]  # fmt: skip
        elif len(ready) < 2 or self._rng.random() < 0.3:
            name = self._name()
            calls += [("SADD", f"vmpooler__pending__{pool}", name), self._record(name, pool, now)]
        if len(ready) == 3:
            vm = ready[0]
            calls += [("SMOVE", f"vmpooler__ready__{pool}", f"vmpooler__running__{pool}", vm),
                      ("HSET", f"vmpooler__active__{pool}", vm, ruby(now)),
                      ("HSET", b"vmpooler__vm__" + vm, "checkout", ruby(now))]  # fmt: skip
        if len(running) == 3 and self._rng.random() < 0.5:
            vm = running[0]
            calls += [("SMOVE", f"vmpooler__running__{pool}", f"vmpooler__completed__{pool}", vm),
                      ("HDEL", f"vmpooler__active__{pool}", vm),
                      ("HSET", b"vmpooler__vm__" + vm, "destroy", ruby(now))]  # fmt: skip
        if len(completed) == 3:
            vm = completed[0]
            calls += [("SREM", f"vmpooler__completed__{pool}", vm), ("EXPIRE", b"vmpooler__vm__" + vm, 600)]
        if self._rng.random() < 0.01:
            calls.append(self._letter("clone", "RuntimeError", _BUSY, int(now)))
        calls += self._make_again(int(now))
        if calls:
            self._server.send(*calls)

    def _make_again(self, now: int) -> list[Call]:
        """Clone the machines of a request that was retried: most succeed this time."""
        tasks, status = self._server.send(
            ("ZRANGEBYSCORE", "vmpooler__odcreate__task", 1, 1, "LIMIT", 0, 1), ("HGET", _RECORD, "status")
        )
        if not tasks or self._rng.random() < 0.8:
            return []
        calls: list[Call] = [("ZREM", "vmpooler__odcreate__task", tasks[0])]
        for _ in range(int(tasks[0].split(b":")[2])):
            if status is None and self._rng.random() < 0.15:
                calls.append(self._letter("clone", "RuntimeError", _BUSY, now, request=_REQUEST))
                continue
            vm = self._name()
            calls += [self._record(vm, "centos-9", now), ("SADD", "vmpooler__running__centos-9", vm),
                      ("HSET", "vmpooler__active__centos-9", vm, ruby(now))]  # fmt: skip
        return calls

    def _name(self) -> str:
        return f"{self._rng.choice(_WORDS)}-{self._rng.choice(_ANIMALS)}-{self._rng.randrange(100)}"

    def _record(self, vm: str, pool: str, cloned: float, *, ready: float | None = None) -> Call:
        fields = {"clone": ruby(cloned), "template": pool, "pool": pool, "domain": "demo.example"}
        fields |= {} if ready is None else {"ready": ruby(ready)}
        return ("HSET", f"vmpooler__vm__{vm}", *(word for pair in fields.items() for word in pair))

    def _letter(self, kind: str, error: str, message: str, at: int, *, request: str | None = None) -> Call:
        facts = {
            "vm": self._name(), "pool": self._rng.choice(list(POOLS)), "queue_from": kind, "error_class": error,
            "error_message": message, "failed_at": iso(at), "retry_count": 0,
        }  # fmt: skip
        if request is not None:
            facts |= {"pool": "centos-9", "request_id": request, "pool_alias": _ALIAS}
        return ("ZADD", f"vmpooler__dlq__{kind}", at, f"{facts['vm']}:{at}:{json.dumps(facts)}")


class DemoIfdb:
    """The task queue of a games database: JSON in one hash, the order in a sorted set."""

    def __init__(self, server: Server, rng: random.Random) -> None:
        self._server, self._rng = server, rng
        self._number = 0
        self._done: list[str] = []

    def seed(self) -> None:
        """Write ready, blocked, delayed and failed tasks."""
        for age in range(40, 0, -4):
            self._enqueue(time.time() - age)
        importer = self._enqueue(time.time() - 200, function="import_list", scheduled_time=iso(time.time() + _HOUR))
        self._enqueue(time.time() - 190, function="fix_links", dependency=importer)
        for message in ("404 for http://games.example/7", "404 for http://games.example/19", "bad encoding in feed"):
            name = self._enqueue(time.time() - 7000, line=False)
            log = f"Started at {iso(time.time() - 6900)}\nFailed: {message}\n"
            self._change(name, pending=False, fail=True, finish_time=iso(time.time() - 6900), log=log)

    def tick(self) -> None:
        """Enqueue a task, and run the first one, as its worker does."""
        if self._rng.random() < 0.6:
            self._enqueue(time.time())
        [first] = self._server.send(("ZRANGE", "ifdb:task_queue", 0, 5))
        for raw in first:
            task = self._read(raw.decode())
            if task is None or task["scheduled_time"] or task["dependency"]:
                continue
            name = raw.decode()
            self._change(name, start_time=iso(time.time()))
            if self._rng.random() < 0.02:
                self._change(name, pending=False, fail=True, finish_time=iso(time.time()), log="Failed: timed out\n")
            else:
                self._change(name, pending=False, success=True, finish_time=iso(time.time()))
                self._done.append(name)
            self._server.send(("ZREM", "ifdb:task_queue", name))
            break
        while len(self._done) > 60:
            self._server.send(("HDEL", "ifdb:task_data", self._done.pop(0)))

    def _enqueue(self, at: float, *, function: str = "update_game", line: bool = True, **facts: Any) -> str:
        self._number += 1
        name = f"games.tasks.{function}:{int(at * 1e6) + self._number}"
        task = {
            "id": name, "name": f"games.tasks.{function}", "module": "games.tasks", "function": function,
            "args": [self._rng.randrange(9000)], "kwargs": {}, "priority": self._rng.choice((50, 100, 100)),
            "retries_left": 3, "retry_minutes": 2000, "cron": None, "enqueue_time": iso(at), "scheduled_time": None,
            "dependency": None, "pending": True, "success": False, "fail": False, "log": "", **facts,
        }  # fmt: skip
        calls: list[Call] = [("HSET", "ifdb:task_data", name, json.dumps(task))]
        if line:
            calls.append(("ZADD", "ifdb:task_queue", int(task["priority"]) * 1_000_000 + int(at), name))
        self._server.send(*calls)
        return name

    def _read(self, name: str) -> dict[str, Any] | None:
        [text] = self._server.send(("HGET", "ifdb:task_data", name))
        return None if text is None else json.loads(text)

    def _change(self, name: str, **facts: Any) -> None:
        task = self._read(name)
        if task is not None:
            self._server.send(("HSET", "ifdb:task_data", name, json.dumps(task | facts)))


class DemoScheduler:
    """A scheduler that keeps ids in four keys."""

    def __init__(self, server: Server, rng: random.Random) -> None:
        self._server, self._rng = server, rng
        self._number = 0

    def seed(self) -> None:
        """Write ready ids, delayed ids (one of them broken), dead letters, and one that has run for hours."""
        now = _ms()
        for _ in range(8):
            self._enqueue()
        calls: list[Call] = [
            ("ZADD", "scheduler:queue:delayed", now + 3_600_000 + n * 60_000, f"{self._id()}:LOW") for n in range(5)
        ]
        calls.append(("ZADD", "scheduler:queue:delayed", now + 1_800_000, "nightly-report"))
        held = json.dumps({"workerId": "worker-gone", "startedAt": now - 3 * 3_600_000})
        calls.append(("HSET", "scheduler:processing", self._id(), held))
        reasons = ("No handler for job type: export_pdf", "Webhook answered 502", "Webhook answered 502")
        letters = [self._letter(reason, now - self._rng.randrange(600_000, 9_000_000)) for reason in reasons]
        self._server.send(*calls, *letters)

    def tick(self) -> None:
        """Enqueue an id, and run one as its worker does; delayed ids wait until they are due."""
        if self._rng.random() < 0.7:
            self._enqueue()
        line, processing = "scheduler:queue:priority", "scheduler:processing"
        size, popped = self._server.send(("ZCARD", line), ("ZRANGE", line, 0, 0))
        if popped and size > 5:
            held = json.dumps({"workerId": f"worker-{self._rng.randrange(3)}", "startedAt": _ms()})
            self._server.send(("ZPOPMIN", line), ("HSET", processing, popped[0], held))
        [running] = self._server.send(("HKEYS", processing))
        if len(running) > 3:
            calls: list[Call] = [("HDEL", processing, running[-1])]
            if self._rng.random() < 0.02:
                calls.append(self._letter("Webhook answered 500", _ms()))
            self._server.send(*calls)

    def _enqueue(self) -> None:
        score = _ms() + self._rng.choice((0, 1_000_000, 2_000_000, 2_000_000, 3_000_000))
        self._server.send(("ZADD", "scheduler:queue:priority", score, self._id()))

    def _id(self) -> str:
        self._number += 1
        return f"{self._rng.randrange(16**8):08x}-0000-4000-8000-{self._number:012x}"

    def _letter(self, reason: str, at: int) -> Call:
        failed = datetime.fromtimestamp(at / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        letter = json.dumps({"jobId": self._id(), "reason": reason, "failedAt": failed})
        return ("ZADD", "scheduler:queue:dlq", at, letter)


class DemoLists:
    """Agents that push actions to lists, one for each task, and to the list of a service."""

    def __init__(self, server: Server, rng: random.Random) -> None:
        self._server, self._rng = server, rng

    def seed(self) -> None:
        """Write lists of several tiers, and a service with dead letters."""
        for _ in range(14):
            self._push()
        dead = [self._action("ingestion.document.embed", error="the model answered 429") for _ in range(3)]
        self._server.send(("RPUSH", "demo:dev:ingestion:actions:dead_letter", *dead))
        self._server.send(("RPUSH", "demo:dev:ingestion:actions", *(self._action("ingestion.embed") for _ in range(9))))

    def tick(self) -> None:
        """Push and pop entries."""
        self._push()
        [keys] = self._server.send(("SCAN", 0, "MATCH", "execution:agent_run:*", "COUNT", 5000))
        lists = sorted(keys[1])
        if len(lists) > 12:
            self._server.send(("LPOP", self._rng.choice(lists)))
        [size] = self._server.send(("RPUSH", "demo:dev:ingestion:actions", self._action("ingestion.embed")))
        if size > 8:
            taken, _ = self._server.send(("LPOP", "demo:dev:ingestion:actions"), ("LPOP", "demo:dev:ingestion:actions"))
            if taken is not None and self._rng.random() < 0.01:
                failed = json.loads(taken) | {"error": "the model answered 429", "failed_at": iso(time.time())}
                self._server.send(("RPUSH", "demo:dev:ingestion:actions:dead_letter", json.dumps(failed)))

    def _push(self) -> None:
        tier = self._rng.choice(("free", "professional", "enterprise"))
        task = self._rng.randrange(10_000, 99_999)
        name = f"execution:agent_run:{tier}:{task}"
        self._server.send(("RPUSH", name, self._action("execution.agent_run", task_id=str(task))))

    def _action(self, kind: str, *, error: str | None = None, **facts: Any) -> str:
        action = {
            "action_id": f"{self._rng.randrange(16**12):012x}",
            "action_type": kind,
            "timestamp": iso(time.time()),
        }
        if error is not None:
            failed = time.time() - self._rng.randrange(9000)
            action |= {"timestamp": iso(failed - 2), "error": error, "failed_at": iso(failed)}
        return json.dumps(action | facts)


def _ms() -> int:
    return time.time_ns() // 1_000_000


def writers(url: str, seed: int) -> Sequence[DemoVmPooler | DemoIfdb | DemoScheduler | DemoLists]:
    """Return one writer for each system; the same seed makes the same ones."""
    server = Server(url)
    seeds = [random.Random(seed + at) for at in range(4)]  # noqa: S311 - the same seed shall make the same entries
    return (
        DemoVmPooler(server, seeds[0]),
        DemoIfdb(server, seeds[1]),
        DemoScheduler(server, seeds[2]),
        DemoLists(server, seeds[3]),
    )


def seed_others(url: str, seed: int) -> None:
    """Write the queues of other systems that the first frame shows."""
    for writer in writers(url, seed):
        writer.seed()


def main() -> int:
    """Write until SIGTERM."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(0))
    every = writers(os.environ["QDECK_URL"], int(sys.argv[1]) + 100)
    while True:
        for writer in every:
            try:
                writer.tick()
            except redis.RedisError as error:
                sys.stderr.write(f"writer: {error}\n")
                time.sleep(1)
        time.sleep(TICK_S)


if __name__ == "__main__":
    sys.exit(main())
