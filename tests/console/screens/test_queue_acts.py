"""Acting on all of a queue from the list of queues: its dead letters run again, what waits there moves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.widgets import Input

from qdeck.admin import Pause, Writer, actor
from qdeck_console.operator import Work
from support.screens import HOOKS, MAIL, app_of, bury, console, undo, until

if TYPE_CHECKING:
    import redis


def counts(url: str) -> dict[str, tuple[int | None, int | None]]:
    """Dead and ready jobs of each queue."""
    with Writer(url) as writer:
        return {row.name: (row.dead, row.ready) for row in writer.snapshot().queues}


async def test_all_dead_letters_of_a_queue_are_asked_for_retried_and_undone(url: str) -> None:
    bury(url, HOOKS, [{"class": "Refused", "message": "502"}] * 3)
    async with console(url, size=(80, 24)) as pilot:
        await until(pilot, "r retry 3 dead")
        await pilot.press("r")
        await until(pilot, "Retry 3 jobs")
        await pilot.press("enter")
        await until(pilot, "nothing was changed")
        assert counts(url)[HOOKS] == (3, 0)
        await pilot.press("r")
        await until(pilot, "Retry 3 jobs")
        await pilot.press("tab", "enter")
        await until(pilot, "3 retried")
        assert counts(url)[HOOKS] == (0, 3)
        await undo(pilot)
        await until(pilot, "undone")
        assert counts(url)[HOOKS] == (3, 0)
        await until(pilot, "r retry 3 dead")
        await pilot.press("m")
        await until(pilot, "no waiting jobs")


async def test_what_waits_moves_to_a_queue_that_there_is(url: str) -> None:
    with Writer(url) as writer:
        writer.enqueue(MAIL, "send", [1])
        writer.enqueue(MAIL, "send", [2], delay=3600)
        writer.enqueue(HOOKS, "deliver", [3], delay=3600)
        writer.pause(HOOKS)
    async with console(url) as pilot:
        await until(pilot, "2 queues")
        await pilot.press("slash", *"mail", "enter")
        await until(pilot, "m move 2")
        await pilot.press("r")
        await until(pilot, "no dead letters")
        await pilot.press("m")
        await until(pilot, "enter a queue")
        await pilot.press("a", "enter", "escape")
        await until(pilot, "nothing was changed")
        await pilot.press("m")
        await until(pilot, "Move all waiting jobs of")
        app_of(pilot).screen.query_one(Input).value = HOOKS
        await pilot.press("enter")
        await until(pilot, "Move 2 jobs")
        await pilot.press("tab", "enter")
        await until(pilot, "2 moved")
        with Writer(url) as writer:
            rows = {row.name: row for row in writer.snapshot().queues}
        assert (rows[HOOKS].ready, rows[HOOKS].delayed, rows[MAIL].ready, rows[MAIL].delayed) == (1, 2, 0, 0)


async def test_a_queue_of_another_system_says_what_it_cannot(url: str, raw: redis.Redis) -> None:
    raw.lpush("ingestion:documents:premium:actions", "a")
    raw.sadd("task_queues:a", "ingestion:documents:premium:actions")
    async with console(url, adapters=["lists"]) as pilot:
        await until(pilot, "ingestion")
        await pilot.press("m")
        await until(pilot, "∅")


async def test_a_pause_is_one_of_the_things_that_go_on_one_at_a_time(url: str) -> None:
    with Writer(url) as writer:
        writer.enqueue(MAIL, "send", [1])
    async with console(url) as pilot:
        operator = app_of(pilot).operator
        await until(pilot, "1 queue")
        operator.work = Work("discard")
        await pilot.press("p")
        await until(pilot, "discard in progress")
        operator.work = None
        await pilot.press("p")
        await until(pilot, "Pause mail")
        await pilot.press("enter")
        await until(pilot, "paused")
        await until(pilot, lambda: operator.work is None)
    with Writer(url) as writer:
        assert [row.paused for row in writer.snapshot().queues] == [True]


async def test_a_pause_has_a_reason_and_resuming_shows_it_and_asks(url: str) -> None:
    with Writer(url) as writer:
        writer.enqueue(MAIL, "send", [1])
        async with console(url) as pilot:
            await until(pilot, "1 queue")
            await pilot.press("p")
            await until(pilot, "Pause mail")
            await pilot.press("escape")
            await until(pilot, "nothing was changed")
            assert writer.pause_of(MAIL) is None
            await pilot.press("p")
            await until(pilot, lambda: isinstance(app_of(pilot).focused, Input))
            await pilot.press(*"INC-42", "enter")
            await until(pilot, "mail paused")
            await until(pilot, "p resume")
            assert (writer.pause_of(MAIL) or Pause()).reason == "INC-42"
            await pilot.press("p")
            shown = await until(pilot, "Resume mail")
            assert f"by {actor()}" in shown
            assert "INC-42" in shown
            await pilot.press("enter")
            await until(pilot, "nothing was changed")
            assert writer.pause_of(MAIL) is not None, "enter alone does not resume"
            await pilot.press("p")
            await until(pilot, "Resume mail")
            await pilot.press("tab", "enter")
            await until(pilot, "mail resumed")
            assert writer.pause_of(MAIL) is None


async def test_a_pause_of_another_operator_is_asked_for_and_ones_own_is_not(url: str, raw: redis.Redis) -> None:
    with Writer(url) as writer:
        writer.enqueue(MAIL, "send", [1])
        raw.hset(f"{{{MAIL}}}:meta", "paused", b'{"who":"ana@ops-1","at_ms":1,"reason":""}')
        async with console(url) as pilot:
            await until(pilot, "p resume")
            await pilot.press("p")
            await until(pilot, "ana@ops-1")
            await pilot.press("tab", "enter")
            await until(pilot, "mail resumed")
            await until(pilot, "p pause")
            await pilot.press("p")
            await until(pilot, "Pause mail")
            await pilot.press("enter")
            await until(pilot, "mail paused")
            assert writer.pause_of(MAIL) is not None
            await until(pilot, "p resume")
            await pilot.press("p")
            await until(pilot, lambda: writer.pause_of(MAIL) is None)


async def test_a_resume_is_refused_when_another_pause_stands_than_was_shown(url: str, raw: redis.Redis) -> None:
    with Writer(url) as writer:
        writer.enqueue(MAIL, "send", [1])
        writer.pause(MAIL, reason="INC-42")
        async with console(url) as pilot:
            await until(pilot, "p resume")
            await pilot.press("p")
            assert "INC-42" in await until(pilot, "Resume mail")
            writer.resume(MAIL)
            raw.hset(f"{{{MAIL}}}:meta", "paused", b'{"who":"ana@ops-1","at_ms":1,"reason":"INC-43"}')
            await pilot.press("tab", "enter")
            await until(pilot, "was paused again by ana@ops-1")
            assert (writer.pause_of(MAIL) or Pause()).reason == "INC-43"
            await until(pilot, "p resume")
            await pilot.press("p")
            assert "INC-43" in await until(pilot, "Resume mail")
            await pilot.press("tab", "enter")
            await until(pilot, "mail resumed")
            assert writer.pause_of(MAIL) is None


async def test_a_pause_of_somebody_else_that_came_first_is_shown_and_asked_for(url: str, raw: redis.Redis) -> None:
    with Writer(url) as writer:
        writer.enqueue(MAIL, "send", [1])
        async with console(url) as pilot:
            for answer, stands in ((("enter",), "INC-43"), (("tab", "enter"), "INC-42")):
                await until(pilot, "p pause")
                await pilot.press("p")
                await until(pilot, lambda: isinstance(app_of(pilot).focused, Input))
                raw.hset(f"{{{MAIL}}}:meta", "paused", b'{"who":"ana@ops-1","at_ms":1,"reason":"INC-43"}')
                await pilot.press(*"INC-42", "enter")
                shown = await until(pilot, "Replace the pause of mail")
                assert "by ana@ops-1" in shown
                assert "INC-43" in shown
                await pilot.press(*answer)
                await until(pilot, lambda: app_of(pilot).operator.work is None)
                assert (writer.pause_of(MAIL) or Pause()).reason == stands
                writer.resume(MAIL)
