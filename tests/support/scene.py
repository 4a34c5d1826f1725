"""A server with something of everything: jobs in every state, dead letters, a worker, a schedule, a batch to undo."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from qdeck._engine import keys, programs, transitions
from qdeck._schedules import store
from qdeck.admin import Definition, Writer, new_job
from qdeck.messages import _registry as registry

if TYPE_CHECKING:
    import redis

QUEUE: Final = "shop:mail:actions"
OTHER: Final = "shop:bills:actions"
TASK: Final = "task-17"
WORKER: Final = "mailer-1"
SCHEDULE: Final = "feeds"
HOUR_MS: Final = 3_600_000


@dataclass(slots=True)
class Scene:
    """The contents of the server, by the names that a test uses."""

    ready: str = ""
    delayed: str = ""
    blocked: str = ""
    running: str = ""
    stuck: str = ""
    done: str = ""
    cancelled: str = ""
    dead: list[str] = field(default_factory=list)
    batch: str = ""
    temporary: str = ""

    def words(self) -> dict[str, str]:
        """Return the variables of command lines: `$ID` is a dead letter, the others are named after their state."""
        found = {name.upper(): value for name in self.__slots__ if isinstance(value := getattr(self, name), str)}
        return found | {"ID": self.dead[0], "WORKER": WORKER, "TASK": TASK, "QUEUE": QUEUE}


class _Maker:
    def __init__(self, writer: Writer, raw: redis.Redis) -> None:
        self.writer = writer
        self.raw = raw

    def turn(self, **options: Any) -> transitions.PollReply:
        op = transitions.poll(QUEUE, WORKER, time.monotonic_ns(), lease_ms=600_000, **options)
        return self.writer.write(programs.call(op))

    def claimed(self, *args: object, queue: str = QUEUE) -> transitions.ClaimedJob:
        job = self.writer.enqueue(queue, "send", args, priority=0).id
        [claimed] = self.turn(free_slots=1).jobs
        assert claimed.id == job
        return claimed

    def end(self, claimed: transitions.ClaimedJob, **event: object) -> str:
        kind = "failed" if event else "done"
        text = json.dumps({"worker": WORKER, "traceback": "line 1\nline 2", **event}).encode() if event else b""
        ending = transitions.Ending(kind=kind, id=claimed.id, token=claimed.token, delay_ms=-1, event=text)
        self.turn(free_slots=0, endings=[ending])
        return claimed.id

    def move(self, state: str, job: str, age_ms: int) -> str:
        self.raw.zadd(keys.key(QUEUE, state), {job: _now_ms() - age_ms})
        return job


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def make_scene(url: str, raw: redis.Redis) -> Scene:
    """Write the scene to an empty server."""
    scene = Scene()
    with Writer(url) as writer:
        maker = _Maker(writer, raw)
        scene.stuck = maker.move("running", maker.claimed("stuck").id, 5 * 60_000)
        scene.running = maker.claimed("runs").id
        for n, event in enumerate(
            (
                {"class": "smtplib.TimeoutError", "message": "relay 7 timed out"},
                {"class": "smtplib.TimeoutError", "message": "relay 9 timed out"},
                {"class": "ValueError", "message": "no such template 'invoice'"},
            )
        ):
            scene.dead.append(maker.end(maker.claimed(n, {"password": "hunter2"}), **event))
        scene.done = maker.move("done", maker.end(maker.claimed("done")), 2 * HOUR_MS)
        scene.ready = writer.enqueue(QUEUE, "send", ["ready"]).id
        scene.delayed = writer.enqueue(QUEUE, "send", ["later"], delay=3600).id
        scene.blocked = writer.enqueue(QUEUE, "send", ["after"], after=[scene.delayed]).id
        scene.cancelled = writer.enqueue(QUEUE, "send", ["not wanted"]).id
        writer.enqueue(OTHER, "bill", [1])
        scene.batch = writer.apply(writer.plan("cancel", QUEUE, ids=[scene.cancelled])).batch
        job = new_job(QUEUE, "send", ["feeds"])
        writer.write(store.register(Definition.of(SCHEDULE, QUEUE, job, cron="0 7 * * mon", tz="Europe/Madrid")))
        scene.temporary = f"shop:dev:mail:callbacks:{TASK}"
        raw.rpush(scene.temporary, b"unread")
        writer.write(
            registry.register(
                scene.temporary, "callbacks", "mail", task=TASK, tier="", ttl_ms=HOUR_MS, wait_ms=0
            )
        )  # fmt: skip
    told = {"id": WORKER, "host": "here", "pid": 1, "version": "0", "queues": [QUEUE], "concurrency": 5}
    told |= {"started_ms": _now_ms() - 60_000, "heartbeat_ms": _now_ms(), "state": "running", "running": 2, "done": 1}
    raw.hset(keys.WORKERS, WORKER, json.dumps(told))
    return scene
