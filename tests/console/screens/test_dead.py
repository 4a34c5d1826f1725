"""Dead letters as triage: groups first, then entries, limits, redrive with a live view, export; and every key."""

from __future__ import annotations

import json
import stat
import threading
import time
from typing import TYPE_CHECKING, Any

from textual.css.query import DOMQuery

from qdeck._engine import codec, transitions
from qdeck.admin import JobRecord, Writer
from qdeck_console.screens.dead import DeadScreen
from qdeck_console.screens.job import JobScreen
from qdeck_console.screens.redrive import RedriveScreen, read_rate
from qdeck_console.widgets.lines import LineList
from support.documents import HOUR_S, failed_task
from support.screens import app_of, bury, claim, console, row, run, text, undo, until

if TYPE_CHECKING:
    from pathlib import Path

    import pytest
    import redis
    from textual.dom import DOMNode
    from textual.pilot import Pilot
    from textual.widget import Widget

HOOKS, MAIL = "demo:dev:hooks:actions", "demo:dev:mail:actions"


def refused(number: int) -> dict[str, str]:
    return {"class": "ConnectionError", "message": f"502 for https://hooks.example/in/{number}"}


def fill(url: str, refusals: int = 6) -> None:
    bury(url, HOOKS, [refused(number) for number in range(refusals)] + [{"class": "KeyError", "message": "'ana'"}])
    bury(url, MAIL, [{"class": "Timeout", "message": f"after {number} s"} for number in range(2)])


def screen(pilot: Pilot[int]) -> DeadScreen:
    found = pilot.app.screen
    assert isinstance(found, DeadScreen)
    return found


async def test_groups_come_first_and_lead_to_their_entries(url: str, raw: redis.Redis) -> None:
    fill(url)
    raw.hset(f"{{{HOOKS}}}:meta", mapping={"dead_max": 7, "n:dropped_dead": 12})
    async with console(url, "4") as pilot:
        shown = await until(pilot, "9 dead letters in 3 groups, exact")
        for words in (
            "ConnectionError",
            "502 for https://hooks.example/…",
            "7 of 7",
            "dropped 12",
            "oldest expires in 6d",
        ):
            assert words in shown, words
        await until(pilot, "1–6 of 6")
        assert "tenant acme" in text(app_of(pilot))
        await pilot.press("j")
        await until(pilot, "Timeout  newest first")
        await until(pilot, "1–2 of 2")
        await pilot.press("k", "enter")
        await until(pilot, lambda: screen(pilot).view.has_focus)
        await until(pilot, "on retry")
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(pilot.app.screen, JobScreen))
        await pilot.press("escape")
        await until(pilot, "1–6 of 6")
        await pilot.press("escape")
        await until(pilot, lambda: screen(pilot).in_groups)
        await pilot.press("slash", *"error:Key*", "enter")
        await until(pilot, "1 dead letter in 1 group")
        await pilot.press("escape")
        await until(pilot, "9 dead letters in 3 groups")
        await pilot.press("space")
        await until(pilot, "enter lists the jobs of the group")


async def test_drawing_it_seldom_walks_all_widgets(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(url)
    async with console(url, "4") as pilot:
        await until(pilot, "groups, exact")
        await until(pilot, lambda: screen(pilot).view.row is not None)
        walks: list[str | None] = []
        make = DOMQuery.__init__

        def counted(self: DOMQuery[Widget], node: DOMNode, **options: Any) -> None:
            walks.append(options.get("filter"))
            make(self, node, **options)

        monkeypatch.setattr(DOMQuery, "__init__", counted)
        screen(pilot).redraw()
        assert walks == [], "a widget with an id is found without"


async def test_a_group_marked_ones_and_everything_are_acted_on(url: str) -> None:
    fill(url)
    async with console(url, "4") as pilot:
        await until(pilot, "1–6 of 6")
        await pilot.press("tab", "space", "space")
        await until(pilot, "◆ 2 marked")
        await pilot.press("r")
        await until(pilot, "Retry 2 jobs")
        await pilot.press("tab", "enter")
        await until(pilot, "2 retried")
        await until(pilot, "1–4 of 4")
        await until(pilot, "7 dead letters in 3 groups")
        await pilot.press("tab", "x")
        await until(pilot, "Discard 4 jobs")
        await pilot.press("enter")
        await until(pilot, "nothing was changed")
        await pilot.press("x", "tab", "enter")
        await until(pilot, "4 discarded")
        await until(pilot, "3 dead letters in 2 groups")
        assert row(url, HOOKS).dead == 1
        assert screen(pilot).group is None, "a key must not act on the group that took its place"
        await pilot.press("g", "e")
        await until(pilot, "one job at a time")
        await pilot.press("asterisk")
        await until(pilot, "r retry all 3")
        await pilot.press("escape")
        await until(pilot, lambda: not screen(pilot).group_view.all_marked)
        await pilot.press("asterisk", "r")
        await until(pilot, "Retry 3 jobs")
        await pilot.press("tab", "enter")
        await until(pilot, "no dead letters")
        await undo(pilot)
        await until(pilot, "3 dead letters in 2 groups")


async def test_the_cursor_stays_on_nothing_when_its_group_is_gone(url: str) -> None:
    fill(url)
    async with console(url, "4") as pilot:
        await until(pilot, "1–6 of 6")
        await pilot.press("tab", "tab", "r")
        await until(pilot, "Retry 6 jobs")
        await pilot.press("tab", "enter")
        await until(pilot, "6 retried")
        await until(pilot, "3 dead letters in 2 groups")
        await pilot.pause(1.5)  # after which the cursor would have moved on
        for key in ("r", "x", "R"):
            await pilot.press(key)
            await until(pilot, "no group under the cursor: j or k selects one")
            app_of(pilot).say("", "muted", "")
        assert isinstance(app_of(pilot).screen, DeadScreen)
        await until(pilot, "j or k selects another group")
        await pilot.press("j")
        await until(pilot, "1–2 of 2")
        await pilot.press("k")
        await until(pilot, "r retry")
        assert screen(pilot).group is not None
        await pilot.press("r")
        await until(pilot, lambda: row(url, HOOKS).ready == 8 or "Retry 2 jobs" in text(app_of(pilot)))


async def test_the_groups_get_the_keys_when_the_group_of_the_jobs_is_gone(url: str) -> None:
    fill(url)
    async with console(url, "4") as pilot:
        await until(pilot, "1–6 of 6")
        await pilot.press("tab")
        with Writer(url) as writer:
            plan = writer.plan("discard", HOOKS, where="error:ConnectionError", state="dead")
            assert writer.apply(plan).applied == 6
        await until(pilot, "3 dead letters in 2 groups")
        assert screen(pilot).group is None
        await until(pilot, lambda: screen(pilot).in_groups)
        assert screen(pilot).group is None


def serve(url: str, over: threading.Event, *, fails: bool) -> None:
    """A worker that lets every job end well, or fail for good."""
    while not over.is_set():
        jobs = claim(url, HOOKS, 50)
        event = codec.encode_json(refused(1))
        kind, delay = ("failed", -1) if fails else ("done", 0)
        endings = [
            transitions.Ending(kind=kind, id=job.id, token=job.token, delay_ms=delay, event=event) for job in jobs
        ]
        if endings:
            acks = [] if fails else [(job.id, job.token) for job in jobs]
            at = time.time_ns() // 1000
            run(
                url,
                transitions.poll(
                    HOOKS, "wrk-1", at, free_slots=0, lease_ms=60_000, acks=acks, endings=endings if fails else []
                ),
            )
        over.wait(0.05)


async def test_redrive_stops_by_itself_when_the_first_ones_die_again(url: str) -> None:
    fill(url, 60)
    over = threading.Event()
    worker = threading.Thread(target=serve, args=(url, over), kwargs={"fails": True})
    async with console(url, "4") as pilot:
        await until(pilot, "of 60")
        await pilot.press("R")
        await until(pilot, "Redrive 60 jobs")
        await until(pilot, "redrive: waiting for input")
        await pilot.press("x")
        await until(pilot, "enter 20/s")
        await pilot.press("backspace", "enter")
        await until(pilot, "the rest only if they succeed")
        await pilot.press("tab", "enter")
        await until(pilot, lambda: isinstance(pilot.app.screen, RedriveScreen))
        await until(pilot, "10 of 60 retried")
        worker.start()
        shown = await until(pilot, "✗ stopped by itself")
        assert "died again" in shown
        assert "50 remain dead letters" in shown
        await until(pilot, "dead again")
        over.set()
        worker.join()
        await pilot.press("escape")
        await until(pilot, "63 dead letters")
    assert (row(url, HOOKS).dead, row(url, HOOKS).ready) == (61, 0)


async def test_redrive_goes_on_when_they_fare_well_and_can_be_stopped(url: str) -> None:
    fill(url, 40)
    over = threading.Event()
    worker = threading.Thread(target=serve, args=(url, over), kwargs={"fails": False})
    worker.start()
    async with console(url, "4", size=(80, 24)) as pilot:
        await until(pilot, "of 40")
        await pilot.press("R")
        await until(pilot, "Redrive 40 jobs")
        await pilot.press("backspace", "backspace", *"1000", "tab", "backspace", "backspace", "5", "enter")
        await until(pilot, "the rest only if they succeed")
        await pilot.press("tab", "enter")
        await until(pilot, "40 of 40 retried")
        await until(pilot, "all retried")
        await until(pilot, "100 %")
        await pilot.press("escape")
        await until(pilot, "3 dead letters in 2 groups")
    over.set()
    worker.join()
    assert [read_rate(rate) for rate in ("20", "20/s", "300/m", "3600/h", "0", "x", "1/d")] == [
        20,
        20,
        5,
        1,
        None,
        None,
        None,
    ]


async def test_export_writes_all_about_each_for_this_user_alone(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(url)
    monkeypatch.chdir(tmp_path)
    async with console(url, "4", read_only=True) as pilot:
        await until(pilot, "1–6 of 6")
        await pilot.press("w")
        await until(pilot, "Write all matching dead letters of ConnectionError in hooks to a file")
        await pilot.press("enter")
        await until(pilot, "6 dead letters written to")
        [path] = tmp_path.glob("qdeck-dead-*.jsonl")
        letters = [json.loads(line) for line in path.read_text().splitlines()]
        assert {letter["queue_from"] for letter in letters} == {HOOKS}
        assert len(letters) == 6
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        await pilot.press("w")
        await until(pilot, "Write all matching dead letters of ConnectionError in hooks to a file")
        field = pilot.app.screen.query_one("#field0")
        field.value = str(path)  # type: ignore[attr-defined] # it is an input
        await until(pilot, "already exists")
        await pilot.press("enter", "escape")
        await until(pilot, "nothing was written")


async def test_narrow_shows_limits_groups_and_entries_and_greys_what_may_not_be(url: str) -> None:
    async with console(url, "4", size=(80, 24), read_only=True) as pilot:
        await until(pilot, "no dead letters")
        fill(url)
        shown = await until(pilot, "1–6 of 6")
        assert all(len(line) <= 80 for line in shown.splitlines())
        assert "of 100,000" in shown
        for key in ("r", "R", "x", "e"):
            await pilot.press(key)
            await until(pilot, ":live to allow changes for 30 minutes")
            await pilot.press("tab")
        await pilot.press("y")
        await until(pilot, "sent to the clipboard")
        assert len(pilot.app.screen.query(LineList)) == 2


async def test_jobs_of_a_group_start_with_the_newest_whatever_their_key(url: str, raw: redis.Redis) -> None:
    """IFDB keeps its tasks in a hash, which has no order; where it stores no times, the list says so."""
    for hours in (16, 5, 25, 9):
        failed_task(raw, f"CloneUrl({hours})", hours * HOUR_S)
    async with console(url, "4", adapters=("ifdb",)) as pilot:
        shown = await until(pilot, "1–4 of 4")
        assert "newest first" in shown
        rows = screen(pilot).part.rows
        assert [job.name for job in rows if isinstance(job, JobRecord)] == [f"CloneUrl({n})" for n in (5, 9, 16, 25)]
    raw.delete("ifdb:task_data")
    failed_task(raw, "Lost", None)
    async with console(url, "4", adapters=("ifdb",)) as pilot:
        await until(pilot, "their times are not stored")


async def test_it_opens_in_order_and_not_in_that_of_the_last_visit(url: str) -> None:
    bury(url, HOOKS, [{"class": "KeyError", "message": "x"}] * 3)
    bury(url, MAIL, [{"class": "Timeout", "message": "y"}] * 2)
    async with console(url, "4") as pilot:
        await until(
            pilot, lambda: [group.error_class for group in screen(pilot).whole.triaged.groups][:1] == ["KeyError"]
        )
        await pilot.press("1")
        bury(url, MAIL, [{"class": "Timeout", "message": "y"}] * 4)
        await until(pilot, "4 Dead 9")
        await pilot.press("4")
        await until(pilot, lambda: [group.count for group in screen(pilot).whole.triaged.groups] == [6, 3])


async def test_an_export_of_a_group_says_so(url: str) -> None:
    fill(url)
    async with console(url, "4") as pilot:
        await until(pilot, "1–6 of 6")
        await pilot.press("w")
        shown = await until(pilot, "to a file")
        assert "all matching dead letters of ConnectionError in" in shown
