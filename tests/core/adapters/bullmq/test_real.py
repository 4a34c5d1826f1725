"""Real BullMQ, 5 and 6: its jobs are operated, its workers run them, and what is left is what its own methods leave."""

from __future__ import annotations

import signal
import subprocess
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from core.adapters.bullmq.records import EMITTED
from qdeck.admin import Reader, Writer
from qdeck.testing.adapters import contents, values
from support.systems import node_with
from support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    import redis

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

NAMES = ("a", "b", "c", "d")
P = "bull:mail:"


class RealBullMq:
    """A version of BullMQ on a server."""

    def __init__(self, url: str, version: str) -> None:
        folder = node_with("ioredis@5", "bullmq5@npm:bullmq@5.81.5", "bullmq6@npm:bullmq@6.7.0")
        where = urlsplit(url)
        script = str(Path(__file__).parent / "real.js")
        self.command = ["node", script, f"{folder}/bullmq{version}", str(where.port), where.path.strip("/") or "0"]

    def run(self, *words: str) -> None:
        """Do one thing as a user of BullMQ does."""
        done = subprocess.run([*self.command, *words], capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr[-2000:]

    @contextmanager
    def worker(self, kind: str = "work") -> Iterator[None]:
        """Run a worker, and kill it."""
        process = subprocess.Popen([*self.command, kind], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            yield
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait(30)


@pytest.fixture(params=["5", "6"])
def bullmq(request: pytest.FixtureRequest, url: str) -> RealBullMq:
    return RealBullMq(url, request.param)


def operate(url: str, verb: str, *ids: str) -> int:
    """Plan a verb for some jobs, apply it, and return how many it changed."""
    with Writer(url) as writer:
        return writer.apply(writer.plan(verb, "mail", ids=ids)).applied


def ran(raw: redis.Redis) -> list[int]:
    """How often each job ran."""
    return [int(raw.get(f"ran:{name}") or 0) for name in NAMES]


def fail(raw: redis.Redis, bullmq: RealBullMq, *options: str) -> None:
    """Let all jobs fail."""
    bullmq.run("-".join(["fail", *options]), *NAMES)
    with bullmq.worker():
        wait_until(lambda: raw.zcard(P + "failed") == len(NAMES) and not raw.exists(P + "active"), 60)


def test_what_is_retried_runs_once(url: str, raw: redis.Redis, bullmq: RealBullMq) -> None:
    fail(raw, bullmq)
    raw.set("repaired", 1)
    assert operate(url, "retry") == len(NAMES)
    with bullmq.worker():
        wait_until(lambda: raw.zcard(P + "completed") == len(NAMES), 60)
    assert ran(raw) == [2, 2, 2, 2]


def test_what_is_discarded_never_runs(url: str, raw: redis.Redis, bullmq: RealBullMq) -> None:
    bullmq.run("count", *NAMES)
    assert operate(url, "discard", "a", "b") == 2
    with bullmq.worker():
        wait_until(lambda: raw.zcard(P + "completed") == 2, 60)
    assert ran(raw) == [0, 0, 1, 1]


def test_a_delayed_job_runs_now(url: str, raw: redis.Redis, bullmq: RealBullMq) -> None:
    bullmq.run("count-later", *NAMES)
    assert operate(url, "run", "a") == 1
    with bullmq.worker():
        wait_until(lambda: raw.zcard(P + "completed") == 1, 60)
    assert ran(raw) == [1, 0, 0, 0]


def test_a_job_whose_worker_was_killed_runs_again(url: str, raw: redis.Redis, bullmq: RealBullMq) -> None:
    bullmq.run("hang", "a")
    with bullmq.worker("linger"):
        wait_until(lambda: ran(raw)[0] == 1, 60)
        assert operate(url, "requeue") == 0  # it has a lock
    wait_until(lambda: not raw.exists(P + "a:lock"), 60)
    raw.hset(P + "a", mapping={"name": "count", "processedOn": 5})
    assert operate(url, "requeue") == 1
    with bullmq.worker():
        wait_until(lambda: raw.zcard(P + "completed") == 1, 60)
    assert ran(raw)[0] == 2


def test_requeue_is_what_a_worker_does_with_a_stalled_job(url: str, raw: redis.Redis, bullmq: RealBullMq) -> None:
    def prepared() -> None:
        raw.flushall()
        bullmq.run("hang", "a")
        with bullmq.worker("linger"):
            wait_until(lambda: raw.llen(P + "active") == 1, 60)
        wait_until(lambda: not raw.exists(P + "a:lock"), 60)
        raw.hset(P + "a", "processedOn", 5)

    def seen() -> dict[bytes, Any]:
        found = masked(raw)
        found[b"bull:mail:a"].pop(b"stc", None)  # qdeck does not count it as stalled
        return found

    prepared()
    bullmq.run("stalled")
    theirs = seen()
    prepared()
    assert operate(url, "requeue") == 1
    assert seen() == theirs


def test_a_retried_child_lets_its_parent_run(url: str, raw: redis.Redis, bullmq: RealBullMq) -> None:
    bullmq.run("flow", "a", "b", "c")
    with Reader(url) as reader:
        assert reader.job("bullmq/mail", "a").depends_on == ("b", "c")
        assert reader.job("bullmq/mail", "b").dependents == ("a",)
    with bullmq.worker():
        wait_until(lambda: raw.zcard(P + "failed") == 2, 60)
    raw.set("repaired", 1)
    assert operate(url, "retry", "b", "c") == 2
    with bullmq.worker():
        wait_until(lambda: raw.zcard(P + "completed") == 3, 60)
    assert ran(raw) == [1, 2, 2, 0]


@pytest.mark.parametrize(
    ("verb", "own", "make"),
    [("retry", "retry", "fail"), ("retry", "retry", "fail-urgent"), ("discard", "remove", "count"),
     ("discard", "remove", "count-later"), ("run", "promote", "count-later")],
)  # fmt: skip
def test_the_effect_is_that_of_its_own_method(
    url: str, raw: redis.Redis, bullmq: RealBullMq, verb: str, own: str, make: str
) -> None:
    def prepared() -> None:
        raw.flushall()
        if make.startswith("fail"):
            fail(raw, bullmq, *make.split("-")[1:])
        else:
            bullmq.run(make, *NAMES)

    prepared()
    bullmq.run(own, *NAMES[:2])
    theirs, theirs_emitted = masked(raw), emitted(raw)
    prepared()
    before = contents(raw, without=EMITTED)
    with Writer(url) as writer:
        done = writer.apply(writer.plan(verb, "mail", ids=NAMES[:2]))
        assert done.applied == 2
        assert masked(raw) == theirs
        assert emitted(raw) == theirs_emitted
        writer.undo(done.batch)
    assert contents(raw, without=EMITTED) == before


def test_the_next_job_of_a_scheduler_runs_now_and_another_follows(
    url: str, raw: redis.Redis, bullmq: RealBullMq
) -> None:
    bullmq.run("schedule", "yearly")
    with Reader(url) as reader:
        [row] = reader.schedules()
        assert (row.name, row.task, row.cron, row.queue) == ("yearly", "count", "0 3 1 1 *", "mail")
        assert row.next_id is not None
        assert operate(url, "run", row.next_id) == 1
        with bullmq.worker():
            wait_until(lambda: raw.zcard(P + "completed") == 1, 60)
        assert int(raw.get(f"ran:{row.next_id}") or 0) == 1
        [after] = reader.schedules()
    assert after.next_id is not None
    assert after.jobs_made > row.jobs_made


@pytest.mark.parametrize("make", ["count", "count-urgent", "count-later", ""])
def test_pause_and_resume_are_its_own(url: str, raw: redis.Redis, bullmq: RealBullMq, make: str) -> None:
    def prepared() -> None:
        raw.flushall()
        bullmq.run(make or "resume", *(NAMES if make else ()))

    def seen() -> dict[bytes, Any]:
        marked = {str(member) for member in raw.zrange(P + "marker", 0, -1)}
        return masked(raw) | {b"marked": marked}

    prepared()
    bullmq.run("pause")
    paused = seen()
    bullmq.run("resume")
    resumed = seen()
    prepared()
    with Writer(url) as writer:
        assert writer.pause("bullmq/mail").changed
        assert seen() == paused
        assert [str(fields).count("paused") for _, fields in raw.xrevrange(P + "events", count=1) or ()] == [1]
        assert writer.resume("bullmq/mail").changed
        assert seen() == resumed
        assert [str(fields).count("resumed") for _, fields in raw.xrevrange(P + "events", count=1) or ()] == [1]


def test_a_paused_queue_runs_when_it_is_resumed(url: str, raw: redis.Redis, bullmq: RealBullMq) -> None:
    bullmq.run("count", *NAMES[:2])
    with Writer(url) as writer, bullmq.worker():
        wait_until(lambda: raw.zcard(P + "completed") == 2, 60)
        writer.pause("bullmq/mail")
        bullmq.run("count", *NAMES[2:])
        assert ran(raw) == [1, 1, 0, 0]
        writer.resume("bullmq/mail")
        wait_until(lambda: raw.zcard(P + "completed") == len(NAMES), 60)
    assert ran(raw) == [1, 1, 1, 1]


@pytest.mark.parametrize("make", ["count", "count-urgent"])
def test_an_emptied_queue_is_as_its_own_method_leaves_it(
    url: str, raw: redis.Redis, bullmq: RealBullMq, make: str
) -> None:
    def prepared() -> None:
        raw.flushall()
        bullmq.run(make, *NAMES)
        bullmq.run("count-later", "later")

    prepared()
    bullmq.run("drain")
    theirs = masked(raw)
    prepared()
    before = contents(raw, without=EMITTED)
    with Writer(url) as writer:
        done = writer.apply(writer.plan("discard", "mail", state=("ready",)))
        assert masked(raw) == theirs
        writer.undo(done.batch)
    assert contents(raw, without=EMITTED) == before


def masked(raw: redis.Redis) -> dict[bytes, Any]:
    """What a server holds of BullMQ, without moments."""
    moments = (b"timestamp", b"processedOn", b"finishedOn", b"stacktrace")
    found: dict[bytes, Any] = {}
    for key, value in values(raw).items():
        if not key.startswith(b"bull:") or key.endswith((b":events", b":stalled-check", b":stalled")):
            continue
        if isinstance(value, dict):
            found[key] = {name: b"T" if name in moments else one for name, one in value.items()}
        elif isinstance(value, list) and value and isinstance(value[0], tuple):
            found[key] = sorted(member for member, _ in value)
        else:
            found[key] = value
    return found


def emitted(raw: redis.Redis) -> list[str]:
    """The last two events."""
    return sorted(str(fields) for _, fields in raw.xrevrange(P + "events", count=2) or ())
