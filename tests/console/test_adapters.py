"""The console over each adapter: every screen, keys that act and are undone, and those that say why they cannot."""

from __future__ import annotations

import contextlib
import json
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from core.adapters.test_conformance import FILL
from core.adapters.test_purge import ago, vm
from qdeck.admin import ADAPTERS, NATIVE, Writer
from qdeck.testing.adapters import values
from qdeck_console.cli.output import dumps
from qdeck_console.documents import document
from qdeck_console.presenters.dead import retry_would
from qdeck_console.presenters.job_page import relations
from qdeck_console.presenters.line_parts import PLAIN
from qdeck_console.screens.job import JobScreen
from qdeck_console.screens.prompt import Prompt
from support.screens import app_of, app_on, command, fail_next, lines, text, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import redis
    from textual.pilot import Pilot

    from qdeck_console.app import ConsoleApp

SECRET = "tok123"


@contextlib.asynccontextmanager
async def console(url: str, size: tuple[int, int] = (160, 48)) -> AsyncIterator[Pilot[int]]:
    app = app_on(url, title="others", adapters=ADAPTERS)
    async with app.run_test(size=size, notifications=True) as pilot:
        await until(pilot, lambda: app.shown.snapshot is not None)
        yield pilot


async def test_an_empty_page_names_the_systems_that_no_adapter_reads(url: str, raw: redis.Redis) -> None:
    raw.sadd("resque:queues", "default")
    async with console(url, (120, 36)) as pilot:
        seen = await until(pilot, "the server has keys of Resque (resque:queues), which no adapter reads")
        assert "none of them looks" not in seen
        assert "does not look" not in seen


async def test_every_screen_shows_them(url: str, raw: redis.Redis) -> None:
    for adapter in FILL.values():
        adapter().populate(raw)
    async with console(url) as pilot:
        await until(pilot, lambda: all(adapter in text(app_of(pilot)) for adapter in FILL))
        for key in "23456789":
            await pilot.press(key)
            await pilot.pause(0.05)
            assert SECRET not in text(app_of(pilot))
            assert all(line.isprintable() for line in lines(app_of(pilot)))
        await pilot.press("1")
        await until(pilot, lambda: all(adapter in text(app_of(pilot)) for adapter in FILL))


async def test_what_is_stuck_is_told_in_the_words_of_its_system(url: str, raw: redis.Redis) -> None:
    FILL["scheduler"]().populate(raw)
    async with console(url) as pilot:
        await pilot.press("3")
        await until(pilot, "in other adapters")
        await until(pilot, "x:WHAT")
        await until(pilot, "it makes no progress")
        await until(pilot, "r  not possible: requeue applies")
        before = values(raw)
        await pilot.press("slash", *"id:x*", "enter")
        await until(pilot, "in other adapters  1 ")
        await pilot.press("r")
        await until(pilot, "requeue applies to running jobs here, not to delayed jobs")
        await pilot.press("b")
        await until(pilot, "scheduler: the job in PostgreSQL")
        await pilot.press("tab", "enter")
        await until(pilot, "1 buried")
        await undo(pilot)
        assert values(raw) == before


# On the page of an entry: which entry, the key, and what the console says.
ACTS = {
    "native": (("ready-1", "c", "1 cancelled"), ("ready-1", "x", "1 discarded"), ("dead-1", "r", "1 retried"),
               ("later-1", "n", "1 made ready")),
    "lists": (("a1", "x", "1 discarded"), ("a1", "b", "1 buried"), ("a2", "r", "1 retried")),
    "vmpooler": (("od-bady", "r", "1 retried"), ("fresh", "c", "1 cancelled"), ("left-over", "b", "1 buried"),
                 ("new", "c", "1 cancelled"), ("calm-otter", "x", "1 discarded")),
    "ifdb": (("bad", "r", "1 retried"), ("later", "n", "1 made ready"), ("ready", "plus", "1 reprioritised"),
             ("ready", "b", "1 buried"), ("waits", "x", "1 discarded")),
    "scheduler": (("due", "n", "1 made ready"), ("dead", "r", "1 retried"), ("broken", "b", "1 buried"),
                  ("new", "x", "1 discarded")),
}  # fmt: skip
REFUSALS = {
    "native": (("ready-1", "n", "it is ready"), ("dead-1", "c", "it is dead")),
    "lists": (("a1", "c", "lists have no cancelled entries"), ("a1", "r", "retry applies to dead jobs"),
              ("a2", "e", "lists does not support edit")),
    "vmpooler": (("left-over", "n", "a VM becomes ready when its clone is complete"),
                 ("brisk-heron", "r", "belongs to no request"), ("fresh", "e", "vmpooler does not support edit")),
    "ifdb": (("ready", "c", "it has no cancelled state"), ("bad", "x", "other jobs wait for it"),
             ("good", "r", "retry applies to dead jobs here, not to done jobs")),
    "scheduler": (("new", "c", "jobs are cancelled in PostgreSQL"), ("held", "x", "discard applies to"),
                  ("broken", "n", "its name is not `id:PRIORITY`")),
}  # fmt: skip


def fill(adapter: str, url: str, raw: redis.Redis) -> None:
    """Entries of every state of one adapter."""
    if adapter != NATIVE:
        FILL[adapter]().populate(raw)
        return
    with Writer(url) as writer:
        writer.enqueue("shop:sub:actions", "t", id="dead-1", retries=0)
    fail_next(url, "shop:sub:actions", {"class": "Boom", "message": "password: tok123"})
    with Writer(url) as writer:
        writer.enqueue("shop:sub:actions", "t", id="ready-1", kwargs={"token": "tok123"})
        writer.enqueue("shop:sub:actions", "t", id="later-1", delay=3600)


def seen_by(adapter: str, url: str, raw: redis.Redis) -> object:
    """All that an act may change: the server, or of our own adapter, whose undo leaves a line, what lists show."""
    if adapter != NATIVE:
        return values(raw)
    with Writer(url) as writer:
        return sorted(
            (job.id, job.state, job.due_ms) for row in writer.snapshot().queues for job in writer.jobs(row.name)
        )


async def open_job(pilot: Pilot[int], name: str) -> None:
    """The page of an entry, by its id: the living one where there is a dead one too."""
    await command(pilot, f"find {name}")
    await until(pilot, lambda: isinstance(pilot.app.screen, JobScreen) and pilot.app.screen.targets() != ())


async def test_the_page_of_an_entry_tells_what_is_wrong_and_nothing_that_is_not_known(
    url: str, raw: redis.Redis
) -> None:
    FILL["scheduler"]().populate(raw)
    async with console(url) as pilot:
        await open_job(pilot, "broken")
        shown = await until(pilot, "its name is not `id:PRIORITY`")
        assert "None" not in shown
        assert "unknown task" not in shown
        assert "delayed broken" in shown


def asks_or_says(app: ConsoleApp, told: str) -> bool:
    """Whether the console asks before it acts, or says what it did."""
    return isinstance(app.screen, Prompt) or told in text(app)


async def undo(pilot: Pilot[int]) -> None:
    await pilot.press("u")
    await until(pilot, "press u again to undo")
    await pilot.press("u")
    await until(pilot, "undone: ")


QUICK = slice(0, 1)
PARTS: list[Any] = [(adapter, QUICK) for adapter in ACTS]
PARTS += [pytest.param(adapter, slice(1, None), marks=pytest.mark.slow) for adapter in ACTS]


@pytest.mark.parametrize(("adapter", "part"), PARTS)
async def test_keys_act_and_are_undone_or_say_why(url: str, raw: redis.Redis, adapter: str, part: slice) -> None:
    fill(adapter, url, raw)
    before = seen_by(adapter, url, raw)
    async with console(url) as pilot:
        for name, key, why in REFUSALS[adapter][part]:
            await open_job(pilot, name)
            await pilot.press(key)
            await until(pilot, why)
            await pilot.press("escape")
        assert seen_by(adapter, url, raw) == before
        for name, key, told in ACTS[adapter][part]:
            await open_job(pilot, name)
            await pilot.press(key)
            await until(pilot, partial(asks_or_says, app_of(pilot), told))
            if isinstance(app_of(pilot).screen, Prompt):  # another system does something with it afterwards
                await pilot.press("tab", "enter")
            await until(pilot, told)
            assert seen_by(adapter, url, raw) != before, (name, key)
            await undo(pilot)
            assert seen_by(adapter, url, raw) == before, (name, key)
            await pilot.press("escape")
        await pilot.press("9")
        await until(pilot, lambda: text(app_of(pilot)).count("undo") >= len(ACTS[adapter][part]))
        assert SECRET not in text(app_of(pilot))


async def test_what_its_system_may_do_to_it_afterwards_is_told(url: str, raw: redis.Redis) -> None:
    """A retry of the scheduler's does nothing while its database says FAILED."""
    for number in range(3):
        letter = {"jobId": f"j{number}", "reason": "boom", "failedAt": "2026-11-18T05:00:00.000Z"}
        raw.zadd("scheduler:queue:dlq", {json.dumps(letter): 5})
    async with console(url) as pilot:
        await pilot.press("4")
        await until(pilot, "exact")
        await pilot.press("r")
        await until(pilot, "workers drop a job")
        await until(pilot, "QUEUED or RETRYING")
        await pilot.press("escape")
        await until(pilot, "nothing was changed")
        await pilot.press("tab", "r")
        await until(pilot, "Retry 1 job ")
        await until(pilot, "workers drop a job")


@pytest.mark.slow
@pytest.mark.parametrize("adapter", ["lists", "vmpooler", "ifdb", "scheduler"])
async def test_dead_letters_go_back_watched_until_it_is_stopped(url: str, raw: redis.Redis, adapter: str) -> None:
    """No worker of that system runs: they wait, which each of the adapters can tell."""
    fill(adapter, url, raw)
    before = values(raw)
    async with console(url) as pilot:
        await pilot.press("4")
        await until(pilot, "exact")
        await pilot.press(*("j" * (adapter == "scheduler")), "R")  # its first group cannot be retried
        await until(pilot, "rate  5/s")
        await pilot.press("enter")
        await until(pilot, " total")
        await pilot.press("tab", "enter")
        shown = await until(pilot, lambda: "watching the sample" in text(app_of(pilot)) and "100 %" in lines_of(pilot))
        assert f"{adapter}: " in shown
        await pilot.press("escape")
        await until(pilot, "it was cancelled")
        await undo(pilot)
        assert values(raw) == before


def lines_of(pilot: Pilot[int]) -> str:
    return next((line for line in text(app_of(pilot)).splitlines() if "waiting" in line), "")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("adapter", "rule"), [("ifdb", "task too old"), ("vmpooler", "pending too old"), ("scheduler", "broken entries")]
)
async def test_a_purge_of_it_is_applied_and_undone(url: str, raw: redis.Redis, adapter: str, rule: str) -> None:
    if adapter == "vmpooler":
        raw.sadd("vmpooler__pools", "pool1")
        vm(raw, "pending", "slow-sloth", clone=ago(10_000))
    elif adapter == "ifdb":
        ended = (datetime.now(UTC) - timedelta(days=30)).isoformat()
        task = {"id": "old", "pending": False, "success": True, "fail": False, "finish_time": ended}
        raw.hset("ifdb:task_data", "old", json.dumps(task))
    else:
        raw.zadd("scheduler:queue:delayed", {"nonsense": 1})
    before = values(raw)
    async with console(url) as pilot:
        await pilot.press("5")
        await until(pilot, "no plan yet")
        await pilot.press("d")
        await until(pilot, rule)
        await until(pilot, "1 rule ")
        assert values(raw) == before
        await pilot.press("a")
        await until(pilot, "Purge 1 entry")
        await pilot.press("tab", "enter")
        await until(pilot, "1 purged")
        assert values(raw) != before
        await undo(pilot)
        assert values(raw) == before


@pytest.mark.parametrize("adapter", FILL)
def test_what_a_retry_would_do_is_told_by_its_adapter(url: str, raw: redis.Redis, adapter: str) -> None:
    """It has none of our attempts, and goes to no end of our queues."""
    fill(adapter, url, raw)
    told = {
        "lists": "To the right end of its list.",
        "vmpooler": "Only for a request that has not ended",
        "ifdb": "three more runs", "scheduler": "Workers drop a job",
        "rq": "Like rq requeue", "celery": "Sends the call again",
        "bullmq": "Like Job.retry", "sidekiq": "Like Retry on its web page", "streams": "Added again to the end",
    }  # fmt: skip
    with Writer(url, adapters=(adapter,)) as writer:
        queue = next(row.name for row in writer.snapshot().queues if row.dead)
        job = writer.job(queue, next(iter(writer.jobs(queue, state="dead"))).key)
    page = [line for _, line in relations(job, 200, naming=PLAIN, now_ms=0, related={}, kin=None)]
    for shown in (page, retry_would(job, 200, naming=PLAIN)):
        words = " ".join("".join(part for part, _ in line) for line in shown)
        assert told[adapter] in words
        assert "attempts" not in words
        assert "attempts" not in words


@pytest.mark.parametrize("adapter", FILL)
def test_what_is_written_to_a_file_has_no_secrets(url: str, raw: redis.Redis, adapter: str) -> None:
    fill(adapter, url, raw)
    with Writer(url, adapters=(adapter,)) as writer:
        jobs = [job for row in writer.snapshot().queues for job in writer.jobs(row.name)]
        written = [dumps([document(job), document(writer.job(job.queue, job.key))]) for job in jobs]
    assert written
    assert [text for text in written if SECRET in text] == []


def test_an_act_that_an_adapter_has_not_is_greyed_with_the_reason(url: str, raw: redis.Redis) -> None:
    with Writer(url, adapters=("vmpooler",)) as writer:
        FILL["vmpooler"]().populate(raw)
        writer.snapshot()
        assert "refills pools" in writer.adapters.why_not("vmpooler", "requeue", "running")
        assert writer.adapters.why_not("vmpooler", "move", "ready") == "vmpooler does not support move"
        assert writer.adapters.why_not("vmpooler", "retry", "dead") == ""
        assert "applies to dead jobs" in writer.adapters.why_not("vmpooler", "retry", "ready")
