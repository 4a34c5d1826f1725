"""A job that a crash in the page's `moveToDLQ` left in processing and among the dead letters; what a score tells."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import pytest

from core.adapters.test_scheduler import DEAD, DELAYED, OFFSETS, PRIORITY, PROCESSING, Page
from qdeck.admin import State, Writer
from qdeck_console.__main__ import main

if TYPE_CHECKING:
    from collections.abc import Iterator

    import redis


@pytest.fixture
def page(raw: redis.Redis) -> Page:
    return Page(raw)


@pytest.fixture
def writer(url: str) -> Iterator[Writer]:
    with Writer(url) as writer:
        yield writer


def crash(page: Page, job_id: str, *, started_ago_s: float = 60, failed_ago_s: float = 30) -> None:
    """Do the first of the two commands of `moveToDLQ`."""
    page.mark_processing(job_id, "worker-1", started_ago_s)
    held = page.raw.hget(PROCESSING, job_id)
    page.move_to_dlq(job_id, "boom", failed_ago_s)
    page.raw.hset(PROCESSING, job_id, held)


def test_a_job_in_both_places_is_stuck_with_the_reason(
    url: str, page: Page, capsys: pytest.CaptureFixture[str]
) -> None:
    page.mark_processing("fine", "worker-1", ago_s=3000)
    page.move_to_dlq("both", "an earlier run", ago_s=2000)
    crash(page, "both")
    with Writer(url) as writer:
        assert writer.snapshot().totals.stuck == 1
        [job] = writer.stuck()
    assert (job.id, str(job.why)) == ("both", "it has ended, but is still in scheduler:processing")
    assert main(["stuck", "--json", "--url", url]) == 1
    [told] = json.loads(capsys.readouterr().out)
    assert told["why"] == "it has ended, but is still in scheduler:processing"
    assert main(["health", "--url", url]) == 1
    assert "1 job stuck" in capsys.readouterr().out


def test_its_retry_takes_it_out_of_processing(page: Page, writer: Writer) -> None:
    """It was skipped as changed, however often it was planned."""
    crash(page, "both")
    held, letters = page.raw.hgetall(PROCESSING), page.letters()
    plan = writer.plan("retry", "scheduler")
    [entry] = plan.entries()
    assert entry.reason.endswith("; removed from processing, too")
    result = writer.apply(plan)
    assert (result.applied, result.skipped_count) == (1, 0)
    assert (page.line(), page.letters(), page.raw.exists(PROCESSING)) == (["both"], [], 0)
    assert writer.undo(result.batch).restored == 1
    assert (page.line(), page.letters(), page.raw.hgetall(PROCESSING)) == ([], letters, held)


def test_a_job_that_a_worker_took_after_its_dead_letter_is_not_retried(page: Page, writer: Writer) -> None:
    """The letter is of an earlier run: the worker has the job now."""
    crash(page, "again", started_ago_s=10, failed_ago_s=300)
    assert writer.snapshot().totals.stuck == 0
    plan, skipped = writer.plan_jobs("retry", [*writer.jobs("scheduler", state=State.DEAD)])
    assert plan.count == 0
    assert [skip.why for skip in skipped] == ["worker-1 has it in processing"]


def test_bury_leaves_it_with_its_one_dead_letter(page: Page, writer: Writer) -> None:
    """A second letter would be retried as another run of the job."""
    crash(page, "both")
    letters = page.letters()
    result = writer.apply(writer.plan("bury", "scheduler", state=State.RUNNING))
    assert result.applied == 1
    assert (page.raw.exists(PROCESSING), page.letters()) == (0, letters)
    assert writer.undo(result.batch).restored == 1
    assert (page.letters(), page.raw.hkeys(PROCESSING)) == (letters, [b"both"])


def test_requeue_refers_to_the_dead_letter(page: Page, writer: Writer) -> None:
    """It has failed for good: a requeue of all that is stuck must not run it again, with its letter left."""
    crash(page, "both")
    page.mark_processing("hung", "worker-1", ago_s=7300)
    plan = writer.plan("requeue", "scheduler", stuck=True)
    assert [skip.why for skip in plan.tail.skipped] == ["it has a dead letter: retry that, or bury this"]
    writer.apply(plan)
    assert page.raw.zrange(DELAYED, 0, -1) == [b"hung:NORMAL"]
    [job] = writer.jobs("scheduler", state=State.RUNNING)
    assert writer.why_not_job("requeue", job) == "it has a dead letter: retry that, or bury this"


@pytest.mark.parametrize(
    ("where", "found"),
    [("reason:boom", {"a1", "a2"}), ("jobId:a1", {"a1"}), ("reason:*503* jobId:b*", {"b1"}), ("failedAt>1m", {"b1"})],
)
def test_the_fields_of_the_page_are_fields_of_a_filter(page: Page, writer: Writer, where: str, found: set[str]) -> None:
    for job_id, reason, ago_s in (("a1", "boom", 5), ("a2", "boom", 5), ("b1", "HTTP 503", 90)):
        page.move_to_dlq(job_id, reason, ago_s)
    page.mark_processing("r1", "worker-7")
    assert {job.id for job in writer.jobs("scheduler", state=State.DEAD, where=where)} == found
    assert [job.id for job in writer.jobs("scheduler", state=State.RUNNING, where="workerId:worker-7")] == ["r1"]


def test_ready_jobs_have_the_priorities_that_their_scores_allow(
    url: str, page: Page, capsys: pytest.CaptureFixture[str]
) -> None:
    """A score is a time minus an offset: with one of now a job is CRITICAL, any other would be of the future."""
    for name in OFFSETS:
        page.enqueue(f"as-{name}", name, ago_s=2)
    main(["jobs", "scheduler", "--url", url])
    head, *rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    at = head.index("prio") + 1  # the state has two words
    assert {row[0]: row[at] for row in rows} == {
        "as-CRITICAL": "CRITICAL", "as-HIGH": "≥HIGH", "as-NORMAL": "≥NORMAL", "as-LOW": "-"
    }  # fmt: skip


def test_a_ready_job_says_when_it_was_enqueued_for_each_priority(url: str, page: Page, writer: Writer) -> None:
    page.enqueue("job", "HIGH", ago_s=2)
    now = time.time() * 1000
    [job] = writer.jobs("scheduler", state=State.READY)
    assert set(job.payload()["enqueued_if"]) == {"CRITICAL", "HIGH"}
    with Writer(url, adapter_settings={"scheduler": {"score": "corrected"}}) as other:
        page.raw.delete(PRIORITY)
        page.raw.zadd(PRIORITY, {"job": now + OFFSETS["NORMAL"] - 2000})
        [job] = other.jobs("scheduler", state=State.READY)
    assert set(job.payload()["enqueued_if"]) == {"NORMAL", "LOW"}
    assert (job.priority, job.priority_text) == (None, "≤NORMAL")
    assert page.raw.zcard(DEAD) == 0
