"""The screen Schedules: next runs, problems of a schedule, and running, pausing and editing one."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from textual.widgets import Input

from qdeck._schedules import store
from qdeck.admin import ADAPTERS, Definition, ScheduleRow, Writer, actor, new_job
from qdeck_console.format import length
from qdeck_console.presenters import schedules as present
from qdeck_console.presenters.line_parts import Naming
from qdeck_console.screens.job import JobScreen
from support.hostile import HOSTILE, is_clean
from support.screens import MAIL, app_of, console, lines, text, until

if TYPE_CHECKING:
    import redis


def add(url: str, name: str, cron: str = "0 4 * * *") -> None:
    """A schedule that makes jobs of a task."""
    job = new_job(MAIL, "send", ["everyone"], {"kind": "digest"})
    with Writer(url) as writer:
        writer.write(store.register(Definition.of(name, MAIL, job, cron=cron)))


def rows(url: str) -> dict[str, ScheduleRow]:
    """All schedules by name."""
    with Writer(url) as writer:
        return {row.name: row for row in writer.run(store.read())}


@pytest.mark.parametrize("size", [(160, 48), (100, 30), (80, 24)])
def test_every_width_has_its_columns(size: tuple[int, int]) -> None:
    row = ScheduleRow(name="nightly", queue=MAIL, cron="0 4 * * *", next_ms=90_000, late_s=70, missed_runs=2)
    [first, second] = present.lines(
        row, size[0], present.SchedulesView(0, Naming(MAIL.rsplit(":", 2)[0] + ":")), at_cursor=False
    )
    assert length(first) <= size[0]
    assert "1m 30s" in "".join(part for part, _ in first)
    assert "1m 10s late" in "".join(part for part, _ in second)
    assert length(present.TABLE.head(size[0])) <= size[0]


def test_the_next_run_is_shown_in_the_time_zone_of_its_rule() -> None:
    now_ms, hour_ms = 1_796_000_400_000, 3_600_000  # 2026-11-30 01:00 UTC
    view = present.SchedulesView(now_ms, Naming(""))
    row = ScheduleRow(name="close", cron="0 2 1 * *", tz="Europe/Madrid", next_ms=now_ms + 24 * hour_ms)
    shown = ["".join(part for part, _ in line) for line in present.side(row, 40, view)]
    assert any(line.endswith("01 Dec 02:00 CET, in 1d 0h") for line in shown), shown
    soon = replace(row, next_ms=now_ms + hour_ms)
    shown = ["".join(part for part, _ in line) for line in present.side(soon, 40, view)]
    assert any(line.endswith("03:00:00 CET, in 1h 00m") for line in shown), shown


async def test_a_schedule_is_run_paused_and_edited(url: str) -> None:
    add(url, "nightly")
    add(url, "weekly", "0 4 * * 1")
    async with console(url, "6") as pilot:
        app = app_of(pilot)
        seen = await until(pilot, "2 schedules")
        assert "nightly" in seen
        assert all(len(line) == 160 for line in lines(app))
        await pilot.press("enter")
        await until(pilot, "the schedule made no job yet")
        await pilot.press("g", "n")
        await until(pilot, "nightly: enqueued job cron:nightly:")
        await until(pilot, lambda: (rows(url)["nightly"].jobs_made, rows(url)["weekly"].jobs_made) == (1, 0))
        await until(pilot, "ready")
        await pilot.press("p")
        await until(pilot, "Pause nightly")
        await pilot.press("enter")
        await until(pilot, "nightly is paused")
        await until(pilot, "p resume")
        assert not rows(url)["nightly"].enabled
        await pilot.press("p")
        await until(pilot, "nightly is resumed")
        await until(pilot, "p pause")
        await pilot.press("e")
        await until(pilot, "The new rule applies")
        await pilot.press("end", *"x", "enter")
        seen = await until(pilot, "cron '0 4 * * *x' cannot be read: [0 4 * * *x] is not acceptable")
        assert "type the name" not in seen
        assert "enter continue" not in seen
        await pilot.press("backspace", "backspace", "1", "enter")
        await until(pilot, "nightly: the rule is 0 4 * * 1")
        assert rows(url)["nightly"].cron == "0 4 * * 1"
        await pilot.press("e")
        await until(pilot, "The new rule applies")
        await pilot.press("escape")
        await until(pilot, "nothing was changed")
        await pilot.press("enter")
        await until(pilot, "everyone")
        assert isinstance(app.screen, JobScreen)
        await pilot.press("escape", "slash", *"week", "enter")
        await until(pilot, "1 schedule")


async def test_a_paused_schedule_is_resumed_after_a_question_with_its_reason(url: str) -> None:
    add(url, "nightly")
    async with console(url, "6") as pilot:
        await until(pilot, "1 schedule")
        await pilot.press("p")
        await until(pilot, lambda: isinstance(app_of(pilot).focused, Input))
        await pilot.press(*"INC-42", "enter")
        await until(pilot, "p resume")
        await pilot.press("n")
        assert "INC-42" in await until(pilot, "Run nightly now")
        await pilot.press("enter")
        await until(pilot, "nothing was changed")
        assert rows(url)["nightly"].jobs_made == 0
        for answer, is_resumed in ((("enter",), False), (("tab", "enter"), True)):
            await pilot.press("p")
            shown = await until(pilot, "Resume nightly")
            assert f"by {actor()}" in shown
            assert "INC-42" in shown
            assert "0 4 * * *" in shown
            await pilot.press(*answer)
            await until(pilot, lambda: app_of(pilot).operator.work is None)
            assert rows(url)["nightly"].enabled is is_resumed


async def test_a_schedule_that_was_paused_by_an_unknown_operator_is_asked_for(url: str) -> None:
    add(url, "nightly")
    with Writer(url) as writer:
        writer.write(store.enable("nightly", False))
        async with console(url, "6") as pilot:
            await until(pilot, "p resume")
            await pilot.press("p")
            await until(pilot, "by an unknown operator")
            writer.enable_schedule("nightly", True)
            writer.enable_schedule("nightly", False, reason="INC-43")
            await pilot.press("tab", "enter")
            await until(pilot, f"was paused again by {actor()}")
            assert not rows(url)["nightly"].enabled


async def test_an_edit_is_refused_when_the_schedule_is_not_the_one_that_was_shown(url: str) -> None:
    add(url, "nightly")
    with Writer(url) as writer:
        async with console(url, "6") as pilot:
            await until(pilot, "1 schedule")
            await pilot.press("e")
            await until(pilot, "The new rule applies")
            await until(pilot, lambda: isinstance(app_of(pilot).focused, Input))
            writer.edit_schedule("nightly", cron="0 5 * * *")
            await pilot.press("end", "backspace", "1", "enter")
            await until(pilot, "'nightly' has changed since: its rule is 0 5 * * * (UTC) now")
            assert rows(url)["nightly"].cron == "0 5 * * *"
            await until(pilot, "0 5 * * *")
            await pilot.press("e")
            await until(pilot, "The new rule applies")
            await until(pilot, lambda: isinstance(app_of(pilot).focused, Input))
            await pilot.press("end", "backspace", "1", "enter")
            await until(pilot, "nightly: the rule is 0 5 * * 1")


async def test_no_schedule_read_only_and_gone(url: str) -> None:
    async with console(url, "6", size=(80, 24), read_only=True) as pilot:
        await until(pilot, "qdeck schedule add")
        await pilot.press("n")
        await until(pilot, "read-only")
        add(url, "late")
        await until(pilot, "1 schedule")
        with Writer(url) as writer:
            writer.write(store.remove("late"))
        await until(pilot, "No schedules")


async def test_one_that_cannot_be_read_is_told_and_stops_nothing(url: str, raw: redis.Redis) -> None:
    add(url, "fine")
    for name, word in HOSTILE.items():
        raw.hset(store.SCHEDULES, f"bad-{name}", word.encode("utf-8", "surrogatepass"))
        raw.hset(store.SCHEDULES, word.encode("utf-8", "surrogatepass"), "{}")
    async with console(url, "6") as pilot:
        app = app_of(pilot)
        await until(pilot, "cannot be read")
        await pilot.press("G", "g", "n")
        assert is_clean(text(app).replace("\n", ""))


def test_what_is_wrong_is_said_in_words() -> None:
    assert present.reason(ScheduleRow(name="a")) == ""
    assert present.reason(ScheduleRow(name="a", enabled=False)) == "paused"
    assert "no worker" in present.reason(ScheduleRow(name="a", late_s=90))
    assert "dead letter" in present.reason(ScheduleRow(name="a", last_outcome="dead"))
    assert "cannot be read" in present.reason(ScheduleRow(name="a", problem="is damaged"))


async def test_a_task_of_ifdb_that_is_due_is_not_run_again(url: str, raw: redis.Redis) -> None:
    due = "2026-01-01T00:00:00+00:00"
    task = {"id": "t", "name": "FetchFeeds", "cron": "*/30 * * * *", "pending": True, "enqueue_time": due}
    raw.hset("ifdb:task_data", "t", json.dumps(task | {"scheduled_time": due, "priority": 50}))
    raw.zadd("ifdb:task_queue", {"t": 50_000_000})
    before = raw.hgetall("ifdb:task_data")
    async with console(url, "6", adapters=ADAPTERS) as pilot:
        await until(pilot, "FetchFeeds")
        await pilot.press("n")
        await until(pilot, "FetchFeeds is due: a worker of ifdb runs it next")
    assert raw.hgetall("ifdb:task_data") == before
