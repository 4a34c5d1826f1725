"""The scheduler's four keys, written as its page writes them: what each verb writes is what its methods write."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from qdeck.admin import State, Writer
from qdeck_console.__main__ import main

if TYPE_CHECKING:
    from collections.abc import Iterator

    import redis

PRIORITY, DELAYED = "scheduler:queue:priority", "scheduler:queue:delayed"
PROCESSING, DEAD = "scheduler:processing", "scheduler:queue:dlq"
OFFSETS = {"CRITICAL": 0, "HIGH": 1_000_000, "NORMAL": 2_000_000, "LOW": 3_000_000}


@dataclass
class Page:
    """The methods of the page's QueueManager; `sign` is +1 for the formula as it was corrected later."""

    raw: Any  # a client of redis-py, whose types are those of two clients
    sign: int = -1

    def enqueue(self, job_id: str, priority: str, ago_s: float = 0) -> None:
        at = time.time_ns() // 1_000_000 - round(ago_s * 1000)
        self.raw.zadd(PRIORITY, {job_id: at + self.sign * OFFSETS[priority]})

    def enqueue_delayed(self, job_id: str, due_s: float, priority: str) -> None:
        self.raw.zadd(DELAYED, {f"{job_id}:{priority}": round((time.time() + due_s) * 1000)})

    def mark_processing(self, job_id: str, worker_id: str, ago_s: float = 0) -> None:
        held = {"workerId": worker_id, "startedAt": round((time.time() - ago_s) * 1000)}
        self.raw.hset(PROCESSING, job_id, json.dumps(held))

    def move_to_dlq(self, job_id: str, reason: str, ago_s: float = 0) -> None:
        at = time.time() - ago_s
        letter = {"jobId": job_id, "reason": reason, "failedAt": datetime.fromtimestamp(at, UTC).isoformat()}
        self.raw.zadd(DEAD, {json.dumps(letter): round(at * 1000)})
        self.raw.hdel(PROCESSING, job_id)

    def letters(self) -> list[bytes]:
        return list(self.raw.zrange(DEAD, 0, -1))

    def line(self) -> list[str]:
        return [member.decode() for member in self.raw.zrange(PRIORITY, 0, -1)]


@pytest.fixture
def page(raw: redis.Redis) -> Page:
    return Page(raw)


@pytest.fixture
def writer(url: str) -> Iterator[Writer]:
    with Writer(url) as writer:
        yield writer


def score(raw: redis.Redis, job_id: str) -> int:
    found = raw.zscore(PRIORITY, job_id)
    assert found is not None
    return round(found - time.time() * 1000)


@pytest.mark.parametrize("priority", [None, "CRITICAL", "HIGH", "LOW"])
def test_an_empty_line_takes_the_score_of_the_page(page: Page, writer: Writer, priority: str | None) -> None:
    """It took the corrected formula: the job ran after jobs that were enqueued half an hour later."""
    page.move_to_dlq("dead", "boom")
    plan = writer.plan("retry", "scheduler", priority=priority)
    assert [entry.reason for entry in plan.entries()] == [
        f"moved to scheduler:queue:priority as {priority or 'NORMAL'}, the line is empty"
    ]
    assert writer.apply(plan).applied == 1
    assert score(page.raw, "dead") == pytest.approx(-OFFSETS[priority or "NORMAL"], abs=5000)
    for number in range(7):
        page.enqueue(f"later-{number}", "NORMAL")
    if priority is None:
        assert page.line()[0] == "dead"


@pytest.mark.parametrize(
    ("priority", "place", "rank"),
    [("LOW", "ahead of all 3 jobs", 0), ("NORMAL", "behind 2 of 3 jobs", 2), ("HIGH", "behind all 3 jobs", 3),
     ("CRITICAL", "behind all 3 jobs", 3)],
)  # fmt: skip
def test_the_plan_says_where_in_the_line_a_job_will_stand(
    page: Page, writer: Writer, priority: str, place: str, rank: int
) -> None:
    """By the page's formula CRITICAL is last, whatever its text says; the plan names the formula."""
    for at, name in enumerate(("NORMAL", "NORMAL", "HIGH")):
        page.enqueue(f"job-{at}", name, ago_s=60)
    page.move_to_dlq("dead", "boom")
    plan = writer.plan("retry", "scheduler", priority=priority)
    assert [entry.reason for entry in plan.entries()] == [
        f"moved to scheduler:queue:priority as {priority}, {place} in line"
    ]
    assert [caution.code for caution in plan.tail.cautions] == ["status_elsewhere", "low_first"]
    writer.apply(plan)
    assert page.line().index("dead") == rank


@pytest.mark.parametrize("setting", ["corrected", "document", None])
def test_a_setting_names_the_formula_of_the_service(url: str, page: Page, setting: str | None) -> None:
    """Without it the scores in line show the formula, where they can."""
    page.move_to_dlq("dead", "boom")
    if setting is None:
        page.sign = 1
        page.enqueue("there", "NORMAL")
    with Writer(url, adapter_settings={} if setting is None else {"scheduler": {"score": setting}}) as writer:
        plan = writer.plan("retry", "scheduler", priority="HIGH")
        assert [caution.code for caution in plan.tail.cautions] == ["status_elsewhere"]
        writer.apply(plan)
    sign = -1 if setting == "document" else 1
    assert score(page.raw, "dead") == pytest.approx(sign * OFFSETS["HIGH"], abs=5000)


def test_an_overdue_job_is_put_in_line_as_the_page_promotes_it(page: Page, writer: Writer) -> None:
    page.enqueue_delayed("late", -90, "HIGH")
    writer.apply(writer.plan_purge(["overdue_delayed"]))
    assert score(page.raw, "late") == pytest.approx(-OFFSETS["HIGH"], abs=5000)


def test_a_job_in_processing_is_buried_as_by_move_to_dlq(page: Page, writer: Writer) -> None:
    """With its fence: one that its worker ended, or another has now, is left alone."""
    page.mark_processing("hung", "worker-1")
    page.mark_processing("taken", "worker-1")
    plan = writer.plan("bury", "scheduler", state=State.RUNNING, reason="hangs for an hour")
    assert plan.count == 2
    page.mark_processing("taken", "worker-2")
    result = writer.apply(plan)
    assert (result.applied, result.skipped_count) == (1, 1)
    [told] = map(json.loads, page.letters())
    assert (told["jobId"], told["reason"], set(told)) == ("hung", "hangs for an hour", {"jobId", "reason", "failedAt"})
    assert page.raw.hkeys(PROCESSING) == [b"taken"]
    assert writer.undo(result.batch).restored == 1
    assert set(page.raw.hkeys(PROCESSING)) == {b"hung", b"taken"}
    assert page.raw.zcard(DEAD) == 0


def shown(url: str, capsys: pytest.CaptureFixture[str], *words: str) -> str:
    main([*words, "--url", url])
    return capsys.readouterr().out


def test_priorities_have_the_names_of_the_scheduler(url: str, page: Page, capsys: pytest.CaptureFixture[str]) -> None:
    page.enqueue_delayed("later", 3600, "HIGH")
    for number in range(4):
        page.move_to_dlq(f"dead-{number}", "boom")
    assert "due" in shown(url, capsys, "jobs", "scheduler:queue:delayed").splitlines()[0].split()
    head, row = shown(url, capsys, "jobs", "scheduler", "--state", "delayed").splitlines()[:2]
    assert head.split()[:6] == ["id", "state", "task", "prio", "attempts", "age"]
    assert head.split()[6] == "due"
    assert "HIGH" in row.split()
    assert datetime.fromtimestamp(time.time() + 3600).astimezone().strftime("%Y-%m-%d") in row
    [job] = json.loads(shown(url, capsys, "jobs", "scheduler", "--state", "delayed", "--json"))
    assert (job["priority"], job["priority_name"]) == (50, "HIGH")
    told = shown(url, capsys, "dead", "retry", "scheduler", "--priority", "CRITICAL", "--dry-run")
    assert "would retry 4 jobs from scheduler to priority 0 (CRITICAL)" in told


@pytest.mark.parametrize("named", [False, True])
def test_a_retry_takes_all_dead_letters_of_a_job(page: Page, writer: Writer, named: bool) -> None:
    """A job that failed twice has two; the service's own retry leaves one, which would run the job again."""
    for ago_s in (60, 30):
        page.move_to_dlq("twice", "boom", ago_s)
    page.move_to_dlq("once", "boom")
    before = page.letters()
    plan = writer.plan("retry", "scheduler", ids=["twice"] if named else ())
    assert sorted(entry.reason for entry in plan.entries()) == [
        *(["moved to scheduler:queue:priority as NORMAL, the line is empty"] * (1 if named else 2)),
        "removed with the other dead letter of its job",
    ]
    result = writer.apply(plan)
    assert (result.applied, result.skipped_count) == (plan.count, 0)
    assert len(page.letters()) == (1 if named else 0)
    assert set(page.line()) == ({"twice"} if named else {"twice", "once"})
    assert writer.undo(result.batch).restored == plan.count
    assert page.letters() == before
    assert page.line() == []


def test_a_retry_of_one_dead_letter_takes_the_other_one_of_its_job(page: Page, writer: Writer) -> None:
    for ago_s in (60, 30):
        page.move_to_dlq("twice", "boom", ago_s)
    before = page.letters()
    letter, _ = writer.jobs("scheduler", state=State.DEAD)
    plan, _ = writer.plan_jobs("retry", [letter])
    assert [entry.reason for entry in plan.entries()] == [
        "moved to scheduler:queue:priority as NORMAL, the line is empty; takes 2 dead letters"
    ]
    result = writer.apply(plan)
    assert (page.letters(), page.line()) == ([], ["twice"])
    writer.undo(result.batch)
    assert (page.letters(), page.line()) == (before, [])


@pytest.mark.parametrize("seed", range(6))
def test_a_job_stands_where_the_plan_says_beside_the_pages_own_promotion(page: Page, writer: Writer, seed: int) -> None:
    """Random lines: the page enqueues a job of the same priority at the same moment, and it stands beside ours."""
    random = Random(seed)
    for number in range(random.randrange(1, 30)):
        page.enqueue(f"job-{number}", random.choice(list(OFFSETS)), ago_s=random.uniform(5, 7200))
    priority = random.choice(list(OFFSETS))
    page.move_to_dlq("ours", "boom")
    plan = writer.plan("retry", "scheduler", priority=priority)
    [entry] = plan.entries()
    writer.apply(plan)
    page.enqueue("theirs", priority)
    line = page.line()
    assert abs(line.index("ours") - line.index("theirs")) == 1
    before, size = line.index("ours"), len(line) - 2
    told = {0: "ahead of all", size: "behind all"}.get(before, f"behind {before} of")
    assert told in entry.reason or size == 1
