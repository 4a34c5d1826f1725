"""Real RQ: its jobs are operated and its workers run them; what is left is what its own tools leave."""

from __future__ import annotations

import re
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from qdeck import QdeckError
from qdeck.admin import Reader, Writer
from qdeck.testing.adapters import contents, values
from support.systems import python_with

if TYPE_CHECKING:
    from collections.abc import Callable

    import redis

    from support.proxy import FaultProxy

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

NAMES = tuple(f"job-{number}" for number in range(6))
_MASKED = re.compile(rb"\d{4}-\d\d-\d\dT[\d:.]+Z")


@pytest.fixture(params=["rq==2.12.0", "rq==1.16.2"])
def rq(request: pytest.FixtureRequest) -> Callable[..., None]:
    """Run a command of `real.py` with a version of RQ: `rq(url, "fail", "job-1")`."""
    python = python_with(request.param, "redis==5.3.1")
    script = Path(__file__).parent / "real.py"

    def run(url: str, *words: str) -> None:
        done = subprocess.run(
            [python, str(script), url, *words], capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode in (0, -9), done.stderr[-2000:]

    return run


def operate(url: str, verb: str, *ids: str, **options: Any) -> int:
    """Plan a verb for some jobs, apply it, and return how many it changed."""
    with Writer(url) as writer:
        return writer.apply(writer.plan(verb, "rq/mail", ids=ids, **options)).applied


def ran(raw: redis.Redis) -> dict[str, int]:
    """How often each job ran."""
    return {name: int(raw.get(f"ran:{name}") or 0) for name in NAMES}


def test_what_is_retried_runs_once(url: str, raw: redis.Redis, rq: Callable[..., None]) -> None:
    rq(url, "fail", *NAMES)
    rq(url, "work")
    assert set(ran(raw).values()) == {1}
    raw.set("repaired", 1)
    assert operate(url, "retry") == len(NAMES)
    rq(url, "work")
    assert set(ran(raw).values()) == {2}
    assert raw.zcard("rq:failed:mail") == 0


def test_what_is_discarded_or_cancelled_never_runs(url: str, raw: redis.Redis, rq: Callable[..., None]) -> None:
    rq(url, "count", *NAMES)
    assert operate(url, "discard", *NAMES[:2]) == 2
    assert operate(url, "cancel", *NAMES[2:4]) == 2
    rq(url, "work")
    assert [ran(raw)[name] for name in NAMES] == [0, 0, 0, 0, 1, 1]


def test_dependencies_are_shown_from_both_sides(url: str, raw: redis.Redis, rq: Callable[..., None]) -> None:
    rq(url, "chain", "first", "second", "third")
    with Reader(url) as reader:
        assert reader.job("rq/mail", "first").dependents == ("second", "third")
        assert reader.job("rq/mail", "second").depends_on == ("first",)


def test_a_scheduled_job_runs_now(url: str, raw: redis.Redis, rq: Callable[..., None]) -> None:
    rq(url, "later", *NAMES[:2])
    assert operate(url, "run", NAMES[0]) == 1
    rq(url, "work")
    assert [ran(raw)[name] for name in NAMES[:2]] == [1, 0]


def test_a_job_whose_worker_was_killed_runs_again(url: str, raw: redis.Redis, rq: Callable[..., None]) -> None:
    rq(url, "die", NAMES[0])
    rq(url, "fork")
    [member] = list(raw.zrange("rq:wip:mail", 0, -1))
    assert isinstance(member, bytes)
    assert operate(url, "requeue") == 0  # its worker may still report
    raw.zadd("rq:wip:mail", {member: 5})  # long ago
    assert operate(url, "requeue") == 1
    rq(url, "work")
    assert ran(raw)[NAMES[0]] == 2
    assert raw.zcard("rq:wip:mail") == 0


@pytest.mark.parametrize(
    ("verb", "own", "make"),
    [("retry", "requeue", "fail"), ("cancel", "cancel", "count"), ("discard", "delete", "count"),
     ("discard", "delete", "later"), ("cancel", "cancel", "later")],
)  # fmt: skip
def test_the_effect_is_that_of_its_own_tool(
    url: str, raw: redis.Redis, rq: Callable[..., None], verb: str, own: str, make: str
) -> None:
    def prepared() -> None:
        raw.flushall()
        rq(url, make, *NAMES)
        if make == "fail":
            rq(url, "work")

    prepared()
    rq(url, own, *NAMES[:3])
    theirs = masked(raw)
    prepared()
    assert operate(url, verb, *NAMES[:3]) == 3
    assert masked(raw) == theirs


def test_run_is_what_its_scheduler_does_when_a_job_is_due(url: str, raw: redis.Redis, rq: Callable[..., None]) -> None:
    def prepared() -> None:
        raw.flushall()
        rq(url, "later", *NAMES[:2])
        raw.zadd("rq:scheduled:mail", dict.fromkeys(NAMES[:2], 5))

    prepared()
    rq(url, "due")
    theirs = masked(raw)
    prepared()
    assert operate(url, "run", *NAMES[:2]) == 2
    assert masked(raw) == theirs


def test_bury_is_what_its_cleanup_does_with_abandoned_jobs(url: str, raw: redis.Redis, rq: Callable[..., None]) -> None:
    def prepared() -> None:
        raw.flushall()
        rq(url, "die", NAMES[0])
        rq(url, "fork")
        [member] = list(raw.zrange("rq:wip:mail", 0, -1))
        assert isinstance(member, bytes)
        raw.zadd("rq:wip:mail", {member: 5})

    def seen() -> dict[bytes, Any]:
        found = {key: one for key, one in masked(raw).items() if not key.startswith(b"rq:execution")}  # qdeck ends them
        fields, lasts = found[b"rq:job:job-0"]
        fields.pop(b"exc_info", None)  # each gives a reason of its own
        fields.pop(b"ended_at", None)  # RQ writes none
        found[b"rq:job:job-0"] = fields, lasts
        return found

    prepared()
    rq(url, "cleanup")
    theirs = seen()
    prepared()
    assert operate(url, "bury", stuck=True) == 1
    assert seen() == theirs


def test_a_pause_is_that_of_its_own_tool(url: str, raw: redis.Redis, rq: Callable[..., None]) -> None:
    rq(url, "count", *NAMES)
    before = contents(raw)
    rq(url, "suspend")
    theirs = contents(raw)
    rq(url, "resume")
    assert contents(raw) == before
    with Writer(url) as writer:
        writer.pause("rq/mail")
        assert contents(raw) == theirs
        rq(url, "work")
        assert set(ran(raw).values()) == {0}
        writer.resume("rq/mail")
    rq(url, "work")
    assert set(ran(raw).values()) == {1}


def test_an_emptied_queue_is_as_its_own_tool_leaves_it(url: str, raw: redis.Redis, rq: Callable[..., None]) -> None:
    def prepared() -> None:
        raw.flushall()
        rq(url, "count", *NAMES)
        rq(url, "later", "job-9")

    prepared()
    rq(url, "empty")
    theirs = masked(raw)
    prepared()
    before = contents(raw)
    with Writer(url) as writer:
        done = writer.apply(writer.plan("discard", "rq/mail", state=("ready",)))
        assert masked(raw) == theirs
        writer.undo(done.batch)
    assert contents(raw) == before


def test_its_schedulers_are_listed(url: str, raw: redis.Redis) -> None:
    script = str(Path(__file__).parent / "real_schedules.py")
    for kind, packages in (("cron", ()), ("scheduler", ("rq-scheduler==0.14.0",))):
        python = python_with("rq==2.12.0", "redis==5.3.1", *packages)
        done = subprocess.run([python, script, url, kind], capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr[-2000:]
    with Reader(url) as reader:
        rows = {row.name: row for row in reader.schedules()}
    assert {name: (row.cron, row.task, row.queue) for name, row in rows.items()} == {
        "calendar.formatmonth": ("0 3 1 1 *", "calendar.formatmonth", "mail"),
        "calendar.isleap": ("every 1h 00m", "calendar.isleap", "mail"),
        "yearly": ("0 3 1 1 *", "calendar.month", "mail"), "hourly": ("every 1h 00m", "calendar.isleap", "mail"),
        "once": ("once", "calendar.isleap", "mail"),
    }  # fmt: skip
    assert all(row.next_ms for row in rows.values())
    assert (rows["calendar.isleap"].last_outcome, rows["calendar.isleap"].last_ms is None) == ("ready", False)


def masked(raw: redis.Redis) -> dict[bytes, Any]:
    """What a server holds of RQ, without moments, and with calls as they are when they are not compressed anew."""
    found: dict[bytes, Any] = {}
    for key, value in values(raw).items():
        if not key.startswith(b"rq:") or key.startswith((b"rq:worker", b"rq:results", b"rq:clean")):
            continue
        if isinstance(value, dict):
            left_out = (b"data", b"last_heartbeat", b"worker_name")
            shown: Any = {k: _MASKED.sub(b"T", v) for k, v in value.items() if k not in left_out}
        elif isinstance(value, list) and value and isinstance(value[0], tuple):
            shown = [member for member, _ in value]
        else:
            shown = value
        found[key] = (shown, raw.ttl(key) > 0)
    return found


@pytest.mark.parametrize("verb", ["retry", "discard"])
def test_a_lost_connection_leaves_before_or_after(
    url: str, raw: redis.Redis, rq: Callable[..., None], make_proxy: Callable[[str], FaultProxy], verb: str
) -> None:
    rq(url, "fail", NAMES[0])
    rq(url, "work")
    before = contents(raw)
    with Writer(url) as writer:
        batch = writer.apply(writer.plan(verb, "rq/mail")).batch
        after = set(contents(raw))
        writer.undo(batch)
    assert contents(raw) == before
    proxy = make_proxy(url)
    was_before = set()
    for after_bytes in range(0, 6000, 500):
        with Writer(url) as writer:
            plan = writer.plan(verb, "rq/mail")
        with Writer(proxy.url) as cut:
            proxy.reset_after(after_bytes)
            with suppress(QdeckError):
                cut.apply(plan)
            proxy.heal()
        is_before = contents(raw) == before
        was_before.add(is_before)
        if not is_before:
            assert set(contents(raw)) == after
            with Writer(url) as writer:
                [last] = [one.batch for one in writer.recent_activity(1)]
                assert last is not None
                writer.undo(last)
            assert contents(raw) == before
    assert was_before == {True, False}
