"""Acting on jobs from the console: what was seen is what is acted on, in proportion, told, and undone."""

from __future__ import annotations

import asyncio
import json
import time
from functools import partial
from typing import TYPE_CHECKING

from qdeck._engine import codec, transitions
from qdeck.admin import Writer
from qdeck_console.screens.marks import MarkingScreen
from support import screens
from support.screens import HOOKS, MAIL, console, fail_next, run, text

if TYPE_CHECKING:
    import redis

until = partial(screens.until, seconds=5.0)


def bury(url: str, count: int, queue: str = HOOKS) -> None:
    """Makes dead letters that died by themselves."""
    with Writer(url) as writer:
        for number in range(count):
            writer.enqueue(queue, "deliver", [number], retries=0)
    for number in range(count):
        fail_next(url, queue, {"class": "ConnectionError", "message": f"refused {number}"})


def counts(url: str, queue: str = HOOKS) -> tuple[int | None, int | None]:
    """Dead and ready jobs."""
    with Writer(url) as writer:
        row = next(row for row in writer.snapshot().queues if row.name == queue)
    return row.dead, row.ready


async def test_one_dead_letter_is_retried_told_and_undone(url: str) -> None:
    bury(url, 3)
    async with console(url, "4") as pilot:
        await until(pilot, "3 dead letters in 1 group, exact")
        await pilot.press("tab")
        await until(pilot, "1–3 of 3")
        await pilot.press("j", "r")
        await until(pilot, "1 retried · u undoes it")
        assert counts(url) == (2, 1)
        await pilot.press("u")
        await until(pilot, "press u again to undo: retry of 1 job")
        assert counts(url) == (2, 1)
        await pilot.press("u")
        await until(pilot, "undone: retry of 1 job")
        assert counts(url) == (3, 0)


async def test_marked_ones_are_asked_for_and_enter_alone_does_nothing(url: str) -> None:
    bury(url, 4)
    async with console(url, "4") as pilot:
        await until(pilot, "4 dead letters in 1 group")
        await pilot.press("tab")
        await until(pilot, "1–4 of 4")
        await pilot.press("space", "space")
        await until(pilot, "◆ 2 marked")
        await until(pilot, "r retry 2 marked")
        await pilot.press("x")
        shown = await until(pilot, "Discard 2 jobs")
        assert "for 24h" in shown
        await pilot.press("enter")
        await until(pilot, "nothing was changed")
        assert counts(url) == (4, 0)
        await pilot.press("x")
        await until(pilot, "Discard 2 jobs")
        await pilot.press("tab", "enter")
        await until(pilot, "2 discarded")
        assert counts(url) == (2, 0)


async def test_a_range_of_marks_follows_the_cursor_and_escape_clears_it(url: str) -> None:
    bury(url, 5)
    async with console(url, "4") as pilot:
        await until(pilot, "5 dead letters in 1 group")
        await pilot.press("tab")
        await until(pilot, "1–5 of 5")
        await pilot.press("j", "v", "j", "j")
        await until(pilot, "◆ 3 marked")
        await pilot.press("k")
        await until(pilot, "◆ 2 marked")
        await pilot.press("v", "j", "escape")
        await until(pilot, lambda: "marked" not in text(pilot.app))  # type: ignore[arg-type] # it is the console
        await pilot.press("escape")
        assert isinstance(pilot.app.screen, MarkingScreen)


async def test_all_that_match_is_more_than_what_is_shown(url: str) -> None:
    await asyncio.to_thread(bury, url, 230)
    async with console(url, "4") as pilot:
        await until(pilot, "230 dead letters in 1 group")
        await pilot.press("asterisk")
        await until(pilot, "r retry all 230")
        await pilot.press("r")
        await until(pilot, "Retry 230 jobs")
        await pilot.press("tab", "enter")
        await until(pilot, "230 retried")
        assert counts(url) == (0, 230)


async def test_a_job_that_changed_since_it_was_seen_is_refused(url: str) -> None:
    bury(url, 1)
    async with console(url, "4") as pilot:
        await until(pilot, "1–1 of 1")
        await pilot.press("tab", "f")  # the picture stays while the job moves on
        await until(pilot, "FROZEN")
        with Writer(url) as writer:
            writer.apply(writer.plan("retry", HOOKS))
            at = time.time_ns() // 1000
            [job] = run(url, transitions.poll(HOOKS, "wrk-1", at, free_slots=1, lease_ms=60_000)).jobs
            ending = transitions.Ending(
                kind="failed", id=job.id, token=job.token, delay_ms=-1, event=codec.encode_json({"class": "Other"})
            )
            run(url, transitions.poll(HOOKS, "wrk-1", at + 1, free_slots=0, lease_ms=60_000, endings=[ending]))
        await pilot.press("x")
        await until(pilot, "nothing to discard: it has changed since")
        assert counts(url) == (1, 0), "it died of something else since: nobody has looked at that"


async def test_stuck_jobs_are_requeued_and_buried(url: str) -> None:
    with Writer(url) as writer:
        for number in range(2):
            writer.enqueue(MAIL, "send", [number])
    run(url, transitions.poll(MAIL, "wrk-gone", 1, free_slots=2, lease_ms=1))
    async with console(url, "3") as pilot:
        await until(pilot, "worker lost  2")
        await pilot.press("r")
        shown = await until(pilot, "Requeue 1 job ")
        assert "not possible: its worker loses the lease" in shown, "no undo gives a worker back what it had"
        assert " none " in shown
        assert "for 24h" not in shown
        await pilot.press("tab", "enter")
        await until(pilot, "1 requeued")
        assert counts(url, MAIL) == (0, 1)
        await until(pilot, "worker lost  1")
        await pilot.press("j", "b")
        await until(pilot, "1 buried")
        assert counts(url, MAIL) == (1, 1)


async def test_read_only_greys_every_key_that_writes_with_the_reason(url: str) -> None:
    bury(url, 2)
    async with console(url, "4", read_only=True) as pilot:
        await until(pilot, "1–2 of 2")
        for key in ("r", "x", "e", "R", "u"):
            await pilot.press("tab", key)
            await until(pilot, ":live to allow changes for 30 minutes")
        await pilot.press("question_mark")
        await until(pilot, "∅ read-only")
    assert counts(url) == (2, 0)


async def test_a_wrong_filter_points_at_the_place_and_matches_nothing_more(url: str) -> None:
    bury(url, 2)
    async with console(url, "4") as pilot:
        await until(pilot, "2 dead letters in 1 group")
        await pilot.press("slash", *"message:*1")
        await until(pilot, "1 dead letter in 1 group")
        await pilot.press(*" eror:x")
        await until(pilot, "^ ")
        assert "2 entries" not in text(pilot.app)  # type: ignore[arg-type] # it is the console
        await pilot.press("escape")
        await until(pilot, "2 dead letters in 1 group")


async def test_the_log_tells_what_was_done_and_undoes_it(url: str) -> None:
    bury(url, 2)
    with Writer(url) as writer:
        writer.apply(writer.plan("retry", HOOKS, reason="INC-1"))
    async with console(url, "9") as pilot:
        await until(pilot, "1 operation")
        await pilot.press("u")
        await until(pilot, "press u again to undo: retry of 2 jobs")
        await pilot.press("u")
        await until(pilot, "undone: retry of 2 jobs")
        assert counts(url) == (2, 0)
        await until(pilot, "2 operations")


async def test_workers_are_listed_and_asked_to_be_quiet(url: str, raw: redis.Redis) -> None:
    seen = int(time.time() * 1000)
    said = {"id": "wrk-1", "host": "eu\x1b[2J-3", "pid": 77, "heartbeat_ms": seen, "state": "running", "running": 3}
    raw.hset("qdeck:workers", "wrk-1", json.dumps(said))
    async with console(url, "7") as pilot:
        shown = await until(pilot, "1 worker")
        assert "77" in shown
        assert "\x1b" not in shown
        await pilot.press("p")
        await until(pilot, "Quiet wrk-1")
        await pilot.press("tab", "enter")
        await until(pilot, "quiet requested")
        await until(pilot, "requested: quiet")
        assert raw.hget("qdeck:control", "wrk-1") == b"quiet"
