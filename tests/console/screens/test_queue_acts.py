"""Acting on all of a queue from the list of queues: its dead letters run again, what waits there moves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.widgets import Input

from qdeck.admin import Writer
from qdeck_console.operator import Work
from support.screens import HOOKS, MAIL, app_of, bury, console, until

if TYPE_CHECKING:
    import redis


def counts(url: str) -> dict[str, tuple[int | None, int | None]]:
    """Dead and ready jobs of each queue."""
    with Writer(url) as deck:
        return {row.name: (row.dead, row.ready) for row in deck.snapshot().queues}


async def test_all_dead_letters_of_a_queue_are_asked_for_retried_and_undone(url: str) -> None:
    bury(url, HOOKS, [{"class": "Refused", "message": "502"}] * 3)
    async with console(url, size=(80, 24)) as pilot:
        await until(pilot, "r retry 3 dead")
        await pilot.press("r")
        await until(pilot, "Retry 3 jobs")
        await pilot.press("enter")
        await until(pilot, "nothing was done")
        assert counts(url)[HOOKS] == (3, 0)
        await pilot.press("r")
        await until(pilot, "Retry 3 jobs")
        await pilot.press("tab", "enter")
        await until(pilot, "3 retried")
        assert counts(url)[HOOKS] == (0, 3)
        await pilot.press("u", "u")
        await until(pilot, "undone")
        assert counts(url)[HOOKS] == (3, 0)
        await until(pilot, "r retry 3 dead")
        await pilot.press("m")
        await until(pilot, "nothing waits in it")


async def test_what_waits_moves_to_a_queue_that_there_is(url: str) -> None:
    with Writer(url) as deck:
        deck.enqueue(MAIL, "send", [1])
        deck.enqueue(MAIL, "send", [2], delay=3600)
        deck.enqueue(HOOKS, "deliver", [3], delay=3600)
        deck.pause(HOOKS)
    async with console(url) as pilot:
        await until(pilot, "2 queues")
        await pilot.press("slash", *"mail", "enter")
        await until(pilot, "m move 2")
        await pilot.press("r")
        await until(pilot, "it has no dead letters")
        await pilot.press("m")
        await until(pilot, "name the queue")
        await pilot.press("a", "enter", "escape")
        await until(pilot, "nothing was done")
        await pilot.press("m")
        await until(pilot, "Move all that waits in")
        app_of(pilot).screen.query_one(Input).value = HOOKS
        await pilot.press("enter")
        await until(pilot, "Move 2 jobs")
        await pilot.press("tab", "enter")
        await until(pilot, "2 moved")
        with Writer(url) as deck:
            rows = {row.name: row for row in deck.snapshot().queues}
        assert (rows[HOOKS].ready, rows[HOOKS].delayed, rows[MAIL].ready, rows[MAIL].delayed) == (1, 2, 0, 0)


async def test_a_queue_of_another_system_says_what_it_cannot(url: str, raw: redis.Redis) -> None:
    raw.lpush("ingestion:documents:premium:actions", "a")
    raw.sadd("task_queues:a", "ingestion:documents:premium:actions")
    async with console(url, adapters=["lists"]) as pilot:
        await until(pilot, "ingestion")
        await pilot.press("m")
        await until(pilot, "∅")


async def test_a_pause_is_one_of_the_things_that_go_on_one_at_a_time(url: str) -> None:
    with Writer(url) as deck:
        deck.enqueue(MAIL, "send", [1])
    async with console(url) as pilot:
        operator = app_of(pilot).operator
        await until(pilot, "1 queue")
        operator.work = Work("discard")
        await pilot.press("p")
        await until(pilot, "discard goes on")
        operator.work = None
        await pilot.press("p")
        await until(pilot, "paused")
        await until(pilot, lambda: operator.work is None)
    with Writer(url) as deck:
        assert [row.paused for row in deck.snapshot().queues] == [True]
