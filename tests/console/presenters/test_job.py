"""How jobs are told in lists and on their pages: what is known of them, and nothing that is not. Without a server."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from qdeck.admin import (
    NATIVE,
    Entry,
    JobDetail,
    JobRecord,
    QueueRow,
    Seen,
    SkipCode,
    State,
    Stuck,
    StuckCode,
    detail_of,
)
from qdeck_console import queue_findings
from qdeck_console.departed_jobs import GoneJob
from qdeck_console.presenters import job_page, jobs
from qdeck_console.presenters.job_detail import gone_lines, job_lines, trouble
from qdeck_console.presenters.line_parts import PLAIN

if TYPE_CHECKING:
    from qdeck_console.format import Line

NOW = int(time.time() * 1000)


def words(*lines: Line) -> str:
    return "\n".join("".join(text for text, _ in line) for line in lines)


def running(**facts: object) -> JobDetail:
    known = {"id": "j1", "key": "j1", "queue": "a:b", "state": State.RUNNING, "native_state": "running", "age_s": 600.0}
    return JobDetail(**known | {"since_ms": NOW - 600_000, "claimed_ms": NOW - 600_000} | facts)  # type: ignore[arg-type]  # the fields vary


EXPIRED = Stuck(code=StuckCode.LEASE_EXPIRED, seconds=300)


@pytest.mark.parametrize(
    ("facts", "told"),
    [
        ({"stuck": EXPIRED}, "stuck: its lease expired 5m 00s ago and was not renewed (press 3)"),
        ({"lease_until_ms": NOW + 9_000}, ""),
        (
            {"stuck": Stuck(code=StuckCode.OVER_LIMIT, seconds=540, limit=60)},
            "stuck: 9m 00s over its time limit of 1m 00s (press 3)",
        ),
    ],
)
def test_a_job_that_runs_for_too_long_says_so_wherever_it_is_shown(facts: dict[str, object], told: str) -> None:
    job = running(**facts)
    assert trouble(job) == told
    assert (told in words(*job_page.header(job, 120, now_ms=NOW, naming=PLAIN))) is True
    assert ("stuck: " in words(*job_lines(job, 60, now_ms=NOW, naming=PLAIN))) is bool(told)


def test_a_row_whose_lease_ran_out_does_not_look_like_one_that_runs() -> None:
    for late, glyph in ((True, "✗"), (False, "▸")):
        job = running(stuck=EXPIRED if late else None)
        line = jobs.TABLES[State.RUNNING].line(job, 120, NOW, at_cursor=False)
        assert line[1][0] == glyph
        assert any(role == "bad" and text == "10" for text, role in line) is late


def test_a_delayed_job_says_when_it_is_due() -> None:
    job = running(state=State.DELAYED, due_ms=NOW + 65_000)
    assert ", in 1m 05s" in words(*job_page.header(job, 120, now_ms=NOW, naming=PLAIN))
    late = running(state=State.DELAYED, due_ms=NOW - 65_000)
    assert ", 1m 05s late" in words(*job_page.header(late, 120, now_ms=NOW, naming=PLAIN))
    assert "since" not in words(*job_page.header(late, 120, now_ms=NOW, naming=PLAIN))


def test_what_another_system_does_not_keep_is_no_zero() -> None:
    seen = Seen(key=b"q", member=b"x")
    job = Entry(id="x", key="x", queue="q", state="running", native_state="running", adapter="lists", seen=seen)
    line = words(jobs.TABLES[State.RUNNING].line(job, 120, NOW, at_cursor=False))
    assert "no worker" not in line
    assert "·" not in line
    assert "…" not in line
    assert line.count("–") == 5
    own = JobRecord(id="x", key="x", queue="q", state="running", native_state="running", age_s=1.0)
    assert "no worker" in words(jobs.TABLES[State.RUNNING].line(own, 120, NOW, at_cursor=False))
    row = QueueRow(name="q", adapter="lists", ready=0, dead=3)
    told = words(
        jobs.states_line(State.READY, queue_findings.ListedQueue(row=row, severity=queue_findings.Severity.FINE), 160)
    )
    assert "ready ·" in told
    assert "dead 3" in told
    assert "running –" in told
    assert "job ─" not in words(*job_lines(detail_of(job), 60, now_ms=NOW, naming=PLAIN))


def test_the_order_of_a_list_is_named() -> None:
    assert jobs.order_words(State.READY, NATIVE, newest=False) == "next first"
    assert jobs.order_words(State.DEAD, NATIVE, newest=True) == "newest first"
    assert jobs.order_words(State.DEAD, "ifdb", newest=True) == "newest first"


def test_what_became_of_a_job_that_left_is_told_in_a_phrase() -> None:
    assert GoneJob(key="k", id="j", code=SkipCode.MOVED, data="done").words(NOW) == "left the list: done now"
    assert GoneJob(key="k", id="j", code=SkipCode.GONE).words(NOW) == "left the list"


def test_how_a_job_left_is_told_whole_beside_the_list() -> None:
    how = "claimed by a-worker.1234.deadbeef"
    row = GoneJob(key="k", id="66093f2a75e61mkrz4ol", code=SkipCode.MOVED, data="running", how=how, at_ms=NOW)
    lines = gone_lines(row, 30, NOW + 5_000)
    assert max(len(words(line)) for line in lines) <= 30
    assert " ".join(words(*lines[1:]).split()) == f"{how} 5s ago"


def test_a_try_that_did_not_fail_is_not_told_as_none() -> None:
    for state, told in ((State.DONE, "attempts 0 of 4"), (State.DEAD, "attempts 4 of 4")):
        job = running(state=state, attempts=4 if state is State.DEAD else 0, retries=3)
        assert told in words(*job_page.header(job, 120, now_ms=NOW, naming=PLAIN))
