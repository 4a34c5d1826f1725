"""The jobs of a queue: its states, lists of any length, and every key."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from qdeck.admin import JobRecord, QueueRef, Writer
from qdeck_console.screens.job import JobScreen
from qdeck_console.screens.jobs import JobsScreen
from qdeck_console.widgets.lines import LineList
from support.documents import HOUR_S, ago, machine, pool, ruby
from support.screens import app_of, bury, claim, console, row, text, undo, until

if TYPE_CHECKING:
    from pathlib import Path

    import pytest
    import redis
    from textual.pilot import Pilot

MAIL, BILLS = "demo:dev:mail:actions", "demo:dev:bills:actions"


def fill(url: str) -> None:
    """One queue with jobs in six states."""
    bury(url, MAIL, [{"class": "KeyError", "message": "'ana'"}, {"class": "KeyError", "message": "'bob'"}])
    with Writer(url) as writer:
        first = writer.enqueue(MAIL, "send", ["held"])
        claim(url, MAIL)
        for number in range(6):
            writer.enqueue(MAIL, "send", [f"reader{number}"], {"template": "welcome"})
        writer.enqueue(MAIL, "digest", ["later"], delay=3600)
        writer.enqueue(MAIL, "report", ["waits"], after=[first.id])
        writer.enqueue(BILLS, "issue", [1])


def view(pilot: Pilot[int]) -> LineList:
    return pilot.app.screen.query_one("#list", LineList)


async def test_states_have_a_list_each_with_what_matters_in_it(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(url)
    monkeypatch.chdir(tmp_path)
    async with console(url, "s") as pilot:
        await until(pilot, "2 queues")
        await pilot.press("j", "2")
        shown = await until(pilot, "1–6 of 6")
        assert "mail" in shown
        for words in ("ready 6", "delayed 1", "blocked 1", "running 1", "dead 2", "reader0", "template welcome"):
            assert words in shown, words
        assert "next first" in shown
        await until(pilot, "payload ──")  # the job beside it
        await pilot.press("y")
        await until(pilot, "id sent to the clipboard: 6")
        await pilot.press("w")
        await until(pilot, "Write all matching ready jobs to a file")
        await pilot.press("enter")
        await until(pilot, "6 ready jobs written to")
        [path] = tmp_path.glob("qdeck-ready-*.jsonl")
        assert len(path.read_text().splitlines()) == 6
        await pilot.press("tab")
        assert "59m" in await until(pilot, "digest")
        await pilot.press("tab")
        await until(pilot, "report")
        await pilot.press("tab")
        assert "wrk-1" in await until(pilot, "lease ends first")
        await pilot.press("tab")
        shown = await until(pilot, "newest first")
        assert "KeyError" in shown
        await pilot.press("s")
        await until(pilot, "oldest first")
        await pilot.press("shift+tab", "shift+tab", "shift+tab", "shift+tab")
        await until(pilot, "next first")
        await pilot.press("s")
        await until(pilot, "in the order they run")
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(pilot.app.screen, JobScreen))
        await pilot.press("escape")
        await until(pilot, "1–6 of 6")
        await pilot.press("slash", *"reader4", "enter")
        await until(pilot, "1–1 of 1")
        await pilot.press("escape")
        await until(pilot, "1–6 of 6")
        await pilot.press("escape")
        await until(pilot, "2 queues")


async def test_acts_on_one_on_marked_and_on_all_that_match(url: str) -> None:
    fill(url)
    async with console(url, "2") as pilot:
        await until(pilot, "1–6 of 6")
        await pilot.press("c")
        await until(pilot, "1 cancelled · u undoes it")
        await until(pilot, "1–5 of 5")
        await undo(pilot)
        await until(pilot, "1–6 of 6")
        await pilot.press("g", "plus")
        await until(pilot, "1 reprioritised")
        await until(pilot, " HIGH ")
        await pilot.press("minus")
        await until(pilot, lambda: " HIGH " not in text(app_of(pilot)))
        await pilot.press("g", "space", "v", "j", "v")
        await until(pilot, "◆ 3 marked")
        await pilot.press("x")
        await until(pilot, "Discard 3 jobs")
        await pilot.press("enter")
        await until(pilot, "nothing was changed")
        await pilot.press("x", "tab", "enter")
        await until(pilot, "3 discarded")
        await until(pilot, "1–3 of 3")
        await pilot.press("asterisk")
        await until(pilot, "◆ all 3 that match")
        await pilot.press("m")
        await until(pilot, "Move all matching jobs")
        await pilot.press(*"demo:dev:nowhere:actions", "enter")
        await until(pilot, "no such queue")
        await pilot.press("ctrl+u", *"bills", "enter")  # as the list shows it
        await until(pilot, "Move 3 jobs")
        await pilot.press("tab", "enter")
        await until(pilot, "3 moved")
        assert (row(url, MAIL).ready, row(url, BILLS).ready) == (0, 4)
        await until(pilot, "no ready jobs")
        await pilot.press("tab")
        await until(pilot, "1–1 of 1")
        await pilot.press("n")
        await until(pilot, "1 made ready")
        await pilot.press("tab")
        await until(pilot, "report")
        await pilot.press("r")
        await until(pilot, "it is blocked")
        await pilot.press("p")
        await until(pilot, "Pause mail")
        await pilot.press("enter")
        await until(pilot, "║ paused")
        assert row(url, MAIL).paused
        await pilot.press("tab", "tab")
        await until(pilot, "KeyError")
        await pilot.press("r")
        await until(pilot, "1 retried")


async def test_a_million_jobs_are_never_loaded_and_the_cursor_stays_on_its_job(url: str, raw: redis.Redis) -> None:
    with Writer(url) as writer:
        writer.enqueue(MAIL, "send", [1])
    count, at = 60_000, int(time.time() * 1000)
    keys = f"{{{MAIL}}}"
    with raw.pipeline(transaction=False) as pipe:
        for start in range(0, count, 20_000):
            ids = [f"job-{number:06d}" for number in range(start, start + 20_000)]
            pipe.zadd(f"{keys}:ready", {job: 10**15 + at + number for number, job in enumerate(ids, start)})
            pipe.hset(f"{keys}:head", mapping=dict.fromkeys(ids, f"{at} 100 0 0\nsend"))
        pipe.hset(f"{keys}:meta", "ready", count + 1)
        pipe.execute()
    async with console(url, "2") as pilot:
        await until(pilot, "of 60,001")
        assert len(view(pilot).listing.items) == count + 1
        await pilot.press("G")
        await until(pilot, "job-059999")
        await until(pilot, lambda: isinstance(view(pilot).row, JobRecord))
        await pilot.press("pageup", "pageup", "k")
        await until(pilot, lambda: isinstance(view(pilot).row, JobRecord))
        chosen = view(pilot).cursor
        line = view(pilot).text().splitlines().index(next(s for s in view(pilot).text().splitlines() if "▌" in s))
        gone = [f"job-{number:06d}" for number in range(500)]
        raw.zrem(f"{keys}:ready", *gone)
        await until(pilot, "of 59,501")
        assert view(pilot).cursor == chosen
        assert "▌" in view(pilot).text().splitlines()[line], "it stays where it was on screen"
        known = view(pilot).listing.items.known  # type: ignore[attr-defined] # it is a window
        assert len(known) <= 3 * 48
        assert isinstance(pilot.app.screen, JobsScreen)
        await pilot.press("slash", *"id:job-0599*", "enter")
        await until(pilot, "of 100  ·")


async def test_narrow_read_only_empty_and_gone(url: str, raw: redis.Redis) -> None:
    async with console(url, "2", size=(80, 24), read_only=True) as pilot:
        await until(pilot, "no queue yet")
        fill(url)
        shown = await until(pilot, "1–6 of 6")
        assert all(len(line) <= 80 for line in shown.splitlines())
        for key in ("c", "n", "plus", "minus", "x", "m", "e", "r"):
            await pilot.press(key)
            await until(pilot, ":live to allow changes for 30 minutes")
        await pilot.press("escape", "s", "j", "enter")
        await until(pilot, "enter jobs")  # its page first, where there is no room beside the list
        await pilot.press("enter")
        await until(pilot, "1–6 of 6")
        for key in raw.scan_iter(f"{{{MAIL}}}:*"):
            raw.delete(key)
        raw.hdel("qdeck:queues", MAIL)
        await until(pilot, "this queue no longer exists")


async def test_queues_of_other_systems_have_lists_and_keys_that_say_why_not(url: str, raw: redis.Redis) -> None:
    with Writer(url) as writer:
        writer.enqueue(MAIL, "send", [1])
    raw.rpush("shop:feeds:actions", *(f'{{"id": "feed-{number}", "url": "x"}}' for number in range(700)))
    async with console(url, adapters=("native", "lists")) as pilot:
        await until(pilot, "2 queues")
        app_of(pilot).show_jobs(QueueRef("lists", "shop:feeds:actions"))
        await until(pilot, "of 700")
        await pilot.press("n")
        await until(pilot, "no delayed entries")
        await pilot.press("G")
        await until(pilot, lambda: isinstance(view(pilot).row, JobRecord))
        await pilot.press("slash", *"feed-12", "enter")
        await until(pilot, "of 11  ·")
        await pilot.press("escape")
        await until(pilot, "of 700")
        await pilot.press("g", "x")
        await until(pilot, "1 discarded")
        await until(pilot, "of 699")


async def test_a_job_that_leaves_while_it_is_looked_at_stays_in_its_place_as_gone(url: str) -> None:
    with Writer(url) as writer:
        for number in range(4):
            writer.enqueue(MAIL, "send", [f"reader{number}"])
    async with console(url, "2") as pilot:
        await until(pilot, "1–4 of 4")
        await until(pilot, lambda: view(pilot).row is not None)
        first = view(pilot).cursor
        claim(url, MAIL)
        shown = await until(pilot, "claimed by wrk-1 ")
        assert view(pilot).cursor == first
        assert "reader1" in shown
        await pilot.press("x")
        await until(pilot, "it is running now")  # neither it nor its neighbour
        await pilot.press("*")
        shown = await until(pilot, "all 3 that match")
        assert any("–" in line for line in shown.splitlines() if "claimed by wrk-1 " in line)
        await pilot.press("escape")
        await pilot.press("j")
        await until(pilot, lambda: isinstance(view(pilot).row, JobRecord))
        await until(pilot, lambda: "claimed by wrk-1 " not in text(app_of(pilot)))
        await until(pilot, "1–3 of 3")


async def test_pending_machines_wait_and_are_not_due(url: str, raw: redis.Redis) -> None:
    pool(raw, "centos-7")
    machine(raw, "pending", "vm1", "centos-7", clone=ruby(ago(3 * HOUR_S)))
    async with console(url, "2", adapters=("vmpooler",)) as pilot:
        await until(pilot, "vm1")
        shown = await until(pilot, "waiting")
        assert "due in" not in shown
        [line] = [line for line in shown.splitlines() if "vm1" in line and "3h 00m" in line]
        assert "pending" in line
