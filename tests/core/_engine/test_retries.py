"""What becomes of a job that failed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from core._engine.harness import OTHER
from qdeck._engine import codec, keys, transitions

if TYPE_CHECKING:
    from core._engine.harness import Rig


@pytest.mark.parametrize("retries", [0, 1, 3])
def test_retries_are_runs_after_the_first(rig: Rig, retries: int) -> None:
    """retries=3 means four runs, as the real task queue of IFDB did it."""
    rig.add("a", retries=retries)
    runs = 0
    while got := rig.claim(1):
        runs += 1
        assert codec.read_attempts(got[0].attempts or None).failed == runs - 1
        rig.end(got[0], delay_ms=0, event=b'{"class":"Boom"}')
    assert runs == retries + 1
    assert rig.state("a") == "dead"
    assert rig.attempts("a") == codec.Attempts(failed=runs)
    assert [event.kind for event in rig.events("a")] == ["failed"] * runs
    totals = {name: rig.total(name) for name in ("failed", "retried", "dead", "done")}
    assert totals == {"failed": runs, "retried": retries, "dead": 1, "done": 0}


def test_a_retry_waits_for_its_delay(rig: Rig) -> None:
    rig.add("a", retries=1)
    rig.end(rig.claim_one(), "timeout", delay_ms=300)
    assert rig.state("a") == "delayed"
    rig.tick(299)
    assert rig.claim(1) == []
    rig.tick()
    assert rig.claim_one().id == "a"
    assert [event.kind for event in rig.events("a")] == ["timeout"]


def test_a_rejected_job_has_no_other_try(rig: Rig) -> None:
    rig.add("a", retries=9)
    rig.bury(rig.claim_one())
    assert rig.state("a") == "dead"
    assert (rig.attempts("a").failed, rig.total("retried")) == (1, 0)


def test_what_a_run_left_behind_is_kept(rig: Rig) -> None:
    rig.add("bad")
    rig.add("good")
    bad, good = rig.claim(2)
    traceback = b'{"class":"Boom","traceback":"line\\n\xc3\xa9"}'
    rig.end(bad, event=traceback, log=b"said\n\xff\x00")
    rig.end(good, "done", result=b"[1]", log=b"ok")
    picture = rig.picture()
    assert picture.hashes["log"] == {"bad": b"said\n\xff\x00", "good": b"ok"}
    assert picture.hashes["result"] == {"good": b"[1]"}
    assert rig.events("bad") == [codec.Event(rig.now, "failed", {"class": "Boom", "traceback": "line\né"})]
    assert rig.state("good") == "done"


def test_a_long_history_keeps_its_newest_lines(rig: Rig) -> None:
    rig.add("a", retries=100)
    for number in range(12):
        event = b'{"n":%d,"traceback":"%s"}' % (number, b"x" * 8_000)
        rig.end(rig.claim_one(), delay_ms=0, event=event)
    events = rig.events("a")
    assert [event.data["n"] for event in events] == list(range(4, 12))
    assert len(rig.field("error", "a") or b"") <= 65_536
    assert rig.attempts("a").failed == 12


def test_one_event_larger_than_all_that_is_kept(rig: Rig) -> None:
    rig.add("a", retries=9)
    rig.end(rig.claim_one(), delay_ms=0, event=b'{"n":1}')
    rig.end(rig.claim_one(), delay_ms=0, event=b'{"traceback":"%s"}' % (b"x" * 70_000))
    assert len(rig.field("error", "a") or b"") <= 65_536
    rig.end(rig.claim_one(), delay_ms=0, event=b'{"n":3}')
    assert rig.events("a")[-1].data == {"n": 3}
    assert len(rig.field("error", "a") or b"") <= 65_536


@pytest.mark.parametrize("died_of", ["failed", "crashed", "dependency", "reap"])
def test_a_failure_handler_is_made_once_with_the_whole_record(rig: Rig, died_of: str) -> None:
    """In the step that buries the job, whatever buried it."""
    rig.add("parent", priority=0)
    rig.add("a", on_failure="mend", body=b"\x00any,3:bytes", priority=70, after=["parent"] * (died_of == "dependency"))
    parent = rig.claim_one()
    if died_of == "dependency":
        rig.bury(parent)
    else:
        rig.ack(parent)
    if died_of == "failed":
        rig.bury(rig.claim_one(), event=b'{"class":"Boom"}', log=b"output")
    elif died_of == "crashed":
        rig.poll(endings=[_crash(rig)], crash_limit=1)
    elif died_of == "reap":
        rig.claim_one()
        rig.tick(1_001)
        rig.reap()
        rig.tick(501)
        rig.rings()
        assert rig.reap(crash_limit=1).buried == 1
        assert rig.rings()
    assert rig.state("a") == "dead"
    handler = rig.claim_one()
    assert handler.id == f"a-f{rig.now}"
    head = codec.read_head(handler.head)
    assert (head.task, head.origin, head.priority, head.retries, head.enqueued_ms) == ("mend", "a", 70, 3, rig.now)
    job_id, old_head, attempts, events, body = codec.read_netstrings(handler.body)
    assert (job_id, body) == (b"a", b"\x00any,3:bytes")
    assert codec.read_head(old_head) == rig.head("a")
    assert codec.read_attempts(attempts or None) == rig.attempts("a")
    assert codec.read_events(events) == rig.events("a")
    kind = {"reap": "crashed"}.get(died_of, died_of)
    assert [event.kind for event in codec.read_events(events)] == [kind]
    rig.bury(handler)
    assert rig.claim(9) == [], "a handler that dies has no handler, and there is no second one"
    assert rig.total("enqueued") == 3


def _crash(rig: Rig) -> transitions.Ending:
    job = rig.claim_one()
    return transitions.Ending(kind="crashed", id=job.id, token=job.token)


def test_a_failure_handler_on_another_queue(rig: Rig) -> None:
    """It goes into the outbox in the same step, and is made there once however often it is delivered."""
    rig.add("a", on_failure=f"mend {OTHER}")
    rig.bury(rig.claim_one())
    assert rig.poll().outbox == 1
    again: dict[Any, Any] = dict(rig.picture().outbox[0])
    assert rig.deliver() == 1
    rig.raw.xadd(keys.key(rig.queue, "outbox"), again)
    assert rig.deliver() == 1
    rig.queues.add(OTHER)
    [handler] = rig.claim(5, queue=OTHER)
    assert codec.read_head(handler.head).task == "mend"
    assert codec.read_netstrings(handler.body)[0] == b"a"
    assert rig.sizes(OTHER) == {"running": 1}


@pytest.mark.parametrize("end", ["done", "cancelled", "expired", "retried"])
def test_no_failure_handler_without_a_burial(rig: Rig, end: str) -> None:
    rig.add("a", on_failure="mend", retries=1, expires_ms=rig.now + 5)
    if end == "expired":
        rig.tick(6)
        rig.claim(1)
    elif end == "cancelled":
        rig.change("cancel", "a")
    else:
        job = rig.claim_one()
        rig.end(job, "done" if end == "done" else "failed")
    assert set(rig.picture().hashes["head"]) == {"a"}


def test_an_expired_job_is_cancelled_with_that_reason(rig: Rig) -> None:
    rig.add("a", expires_ms=rig.now + 100, unique="name")
    rig.add("child", after=["a"])
    rig.tick(101)
    assert rig.claim(5) == []
    assert (rig.state("a"), rig.state("child")) == ("cancelled", "dead")
    assert [(event.kind, event.data) for event in rig.events("a")] == [("expired", {"reason": "expired"})]
    assert rig.events("child")[0].data == {"on": "a", "outcome": "cancelled"}
    assert (rig.total("expired"), rig.total("cancelled")) == (1, 0)
    assert rig.picture().hashes["unique"] == {}


@pytest.mark.parametrize(("at_ms", "after_ms"), [(1_800_000_000_100, None), (None, 100)])
def test_a_job_may_start_until_the_moment_it_expires(rig: Rig, at_ms: int | None, after_ms: int | None) -> None:
    for job_id in ("a", "b"):
        rig.add(job_id, expires_ms=at_ms, expires_after_ms=after_ms)
    rig.tick(100)
    assert rig.claim_one().id == "a"
    rig.tick()
    assert rig.claim(1) == []
    assert rig.head("b").expires_ms == 1_800_000_000_100
    assert rig.state("b") == "cancelled"


def test_expired_jobs_do_not_hide_those_behind_them(rig: Rig) -> None:
    rig.enqueue(*(rig.job(expires_ms=rig.now) for _ in range(40)))
    rig.enqueue(*(rig.job() for _ in range(5)))
    rig.tick()
    rig.rings()
    seen = 0
    for _ in range(40):
        seen += len(rig.claim(2))
        if seen < 5:
            assert rig.rings(), "there is more: somebody must come again"
    assert seen == 5
    assert rig.total("expired") == 40


def test_a_running_job_does_not_expire(rig: Rig) -> None:
    rig.add("a", expires_ms=rig.now + 1)
    job = rig.claim_one()
    rig.tick(500)
    assert rig.ack(job).refused == []
    assert rig.state("a") == "done"
