"""Real Celery: its tasks are operated and its workers run them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from qdeck.admin import Reader, Writer
from qdeck.testing.adapters import contents
from support.systems import python_with
from support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    import redis

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

NAMES = ("a", "b", "c", "d")
HERE = Path(__file__).parent


class RealCelery:
    """An application of Celery on a server."""

    def __init__(self, url: str) -> None:
        self.python = python_with("celery[redis]==5.7.0")
        self.env = {**os.environ, "SERVER": url, "PYTHONPATH": str(HERE)}

    def send(self, command: str, *names: str) -> None:
        """Send tasks."""
        done = subprocess.run(
            [self.python, str(HERE / "real.py"), command, *names],
            env=self.env, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-2000:]

    @contextmanager
    def worker(self, raw: redis.Redis) -> Iterator[subprocess.Popen[bytes]]:
        """Run a worker."""
        options = ("--pool", "solo", "--without-mingle", "--without-gossip", "--without-heartbeat")
        process = subprocess.Popen(
            [self.python, "-m", "celery", "-A", "real", "worker", *options],
            env=self.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=HERE,
        )  # fmt: skip
        try:
            yield process
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait(30)

    def work_until(self, raw: redis.Redis, done: Any) -> None:
        """Run a worker until something is so."""
        with self.worker(raw):
            wait_until(done, 60)


@pytest.fixture
def celery(url: str) -> RealCelery:
    return RealCelery(url)


def ran(raw: redis.Redis) -> dict[str, int]:
    """How often each task ran."""
    return {name: int(raw.get(f"ran:{name}") or 0) for name in NAMES}


def failed(raw: redis.Redis) -> int:
    """How many results are failures."""
    values = [json.loads(raw.get(key) or b"{}") for key in raw.scan_iter("celery-task-meta-*")]
    return sum(value.get("status") == "FAILURE" for value in values)


def test_what_is_sent_again_runs_once(url: str, raw: redis.Redis, celery: RealCelery) -> None:
    celery.send("fail", *NAMES)
    celery.work_until(raw, lambda: failed(raw) == len(NAMES) and not raw.hlen("unacked"))
    raw.set("repaired", 1)
    with Writer(url) as writer:
        [row] = [row for row in writer.snapshot().queues if row.name == "results"]
        assert row.dead == len(NAMES)
        assert writer.apply(writer.plan("retry", "results")).applied == len(NAMES)
    with celery.worker(raw):
        wait_until(lambda: set(ran(raw).values()) == {2}, 60)
        wait_until(lambda: raw.llen("celery") == 0 and raw.hlen("unacked") == 0, 60)
    assert set(ran(raw).values()) == {2}
    with Reader(url) as reader:
        [row] = [row for row in reader.snapshot().queues if row.name == "results"]
    assert (row.dead, row.done) == (0, 2 * len(NAMES))


def test_what_is_discarded_never_runs(url: str, raw: redis.Redis, celery: RealCelery) -> None:
    celery.send("count", *NAMES)
    with Writer(url) as writer:
        jobs = {job.payload()["args"][0]: job for job in writer.jobs("celery")}
        ids = [jobs["a"].id, jobs["b"].id]
        assert writer.apply(writer.plan("discard", "celery", ids=ids)).applied == 2
    celery.work_until(raw, lambda: [ran(raw)[name] for name in NAMES] == [0, 0, 1, 1] and not raw.llen("celery"))
    assert [ran(raw)[name] for name in NAMES] == [0, 0, 1, 1]


def test_an_emptied_queue_is_as_purge_leaves_it(url: str, raw: redis.Redis, celery: RealCelery) -> None:
    def prepared() -> None:
        raw.flushall()
        celery.send("count", *NAMES)
        celery.send("urgent", "e")

    prepared()
    celery.send("purge")
    theirs = contents(raw)
    prepared()
    before = contents(raw)
    with Writer(url) as writer:
        done = writer.apply(writer.plan("discard", "celery", state=("ready",)))
        assert done.applied == len(NAMES) + 1
        assert contents(raw) == theirs
        writer.undo(done.batch)
    assert contents(raw) == before


def test_tasks_of_a_killed_worker_are_put_back_and_run(url: str, raw: redis.Redis, celery: RealCelery) -> None:
    celery.send("hold", "a")
    with celery.worker(raw):
        wait_until(lambda: ran(raw)["a"] == 1, 60)
    [tag] = [key.decode() for key in raw.hkeys("unacked") if isinstance(key, bytes)]
    with Writer(url) as writer:
        assert writer.apply(writer.plan("requeue", "celery")).applied == 0  # its visibility timeout has not passed
        raw.zadd("unacked_index", {tag: 5})
        assert writer.apply(writer.plan("requeue", "celery")).applied == 1
    raw.set("released", 1)
    celery.work_until(raw, lambda: ran(raw)["a"] == 2 and raw.hlen("unacked") == 0)
    assert ran(raw)["a"] == 2


def test_schedules_of_redbeat_are_listed(url: str, raw: redis.Redis, celery: RealCelery) -> None:
    celery.send("count", "a")
    python = python_with("celery[redis]==5.7.0", "celery-redbeat==2.4.2")
    done = subprocess.run(
        [python, str(HERE / "real_redbeat.py")],
        env=celery.env,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    with Reader(url) as reader:
        rows = {row.name: row for row in reader.schedules()}
    assert {name: (row.cron, row.task, row.queue, row.enabled) for name, row in rows.items()} == {
        "yearly": ("0 3 1 1 *", "real.count", "celery", True), "hourly": ("every 1h 00m", "real.count", "low", True),
        "off": ("every 1m 00s", "real.count", "celery", False),
    }  # fmt: skip
    hourly = rows["hourly"]
    assert hourly.last_ms is not None
    assert hourly.next_ms is not None
    assert abs(hourly.next_ms - hourly.last_ms - 3_600_000) < 2_000


def test_a_discarded_result_is_as_forget_leaves_it(url: str, raw: redis.Redis, celery: RealCelery) -> None:
    celery.send("fail", "a", "b")
    celery.work_until(raw, lambda: failed(raw) == 2 and not raw.hlen("unacked"))
    keys = sorted(raw.scan_iter("celery-task-meta-*"))
    task = keys[0].decode().removeprefix("celery-task-meta-")
    with Writer(url) as writer:
        done = writer.apply(writer.plan("discard", "results", ids=(task,)))
        ours = contents(raw)
        writer.undo(done.batch)
    assert sorted(raw.scan_iter("celery-task-meta-*")) == keys
    celery.send("forget", task)
    assert contents(raw) == ours


def test_requeue_is_what_kombu_does_after_the_visibility_timeout(
    url: str, raw: redis.Redis, celery: RealCelery
) -> None:
    celery.send("hold", "a")
    with celery.worker(raw):
        wait_until(lambda: ran(raw)["a"] == 1, 60)
    [tag] = [key.decode() for key in raw.hkeys("unacked") if isinstance(key, bytes)]
    raw.zadd("unacked_index", {tag: 5})
    own = ("celery", "unacked", "unacked_index")
    with Writer(url) as writer:
        done = writer.apply(writer.plan("requeue", "celery"))
        assert done.applied == 1
        ours, message = [raw.exists(key) for key in own], json.loads(raw.lindex("celery", -1) or b"")
        writer.undo(done.batch)
    celery.send("restore")
    assert [raw.exists(key) for key in own] == ours
    assert json.loads(raw.lindex("celery", -1) or b"") == message


def test_the_tasks_of_a_chord_are_marked(url: str, raw: redis.Redis, celery: RealCelery) -> None:
    celery.send("chord", "c", "a", "b")
    with Reader(url) as reader:
        tags = [job.tags for job in reader.jobs("celery")]
        assert [[one.partition(":")[0] for one in some] for some in tags] == [["group", "chord"]] * 2
        celery.work_until(raw, lambda: ran(raw)["c"] == 1 and not raw.hlen("unacked"))
        done = [job for job in reader.jobs("results") if tags[0][0] in job.tags]
    assert len(done) == 3  # the task after the chord has its group, too


def test_priorities_and_times_are_shown(url: str, raw: redis.Redis, celery: RealCelery) -> None:
    celery.send("urgent", "a")
    celery.send("count", "b")
    celery.send("later", "c")
    with Reader(url) as reader:
        [row] = reader.snapshot().queues
        jobs = {job.payload()["args"][0]: job for job in reader.jobs("celery")}
    assert row.ready == 3
    assert (jobs["a"].priority, jobs["b"].priority) == (9, 0)
    assert jobs["c"].due_ms is not None
    with celery.worker(raw):
        wait_until(lambda: ran(raw)["a"] == 1 and raw.hlen("unacked") == 1, 60)
        with Reader(url) as reader:
            [row] = [row for row in reader.snapshot().queues if row.name == "celery"]
        assert (row.delayed, row.running) == (1, 0)
