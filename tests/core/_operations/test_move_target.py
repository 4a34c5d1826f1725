"""A plan that moves jobs names what is wrong with the target queue: new, without a worker, or not with their tasks."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from textual.widgets import Input

from core._operations.yard import OTHER, QUEUE, Yard, now_ms
from qdeck._engine import keys
from qdeck._server.queue_settings import actor
from support.screens import app_of, console, until

if TYPE_CHECKING:
    from qdeck.admin import Writer


def serve(yard: Yard, worker: str, tasks: list[str] | None, **facts: object) -> None:
    """A worker of the other queue, and the tasks that it published."""
    said = {"queues": {OTHER: 1}, "heartbeat_ms": now_ms(), "state": "running", "concurrency": 1} | facts
    yard.raw.hset(keys.WORKERS, worker, json.dumps(said))
    if tasks is not None:
        yard.raw.hset(keys.TASKS, worker, json.dumps(tasks))


def cautions(writer: Writer) -> list[str]:
    return [caution.text for caution in writer.plan("move", QUEUE, target=OTHER).tail.cautions]


def test_what_is_wrong_with_the_target(writer: Writer, yard: Yard) -> None:
    unserved = f"no live worker serves {OTHER}"
    yard.add(task="send")
    yard.add(task="bill")
    assert cautions(writer) == [f"the queue {OTHER} does not exist and is created", unserved]
    Yard(yard.url, yard.raw, OTHER).add()
    assert cautions(writer) == [unserved]
    serve(yard, "w1", ["send"], heartbeat_ms=1)
    serve(yard, "w2", ["send"], state="quiet")
    assert cautions(writer) == [unserved], "one is lost, the other claims no more"
    serve(yard, "w3", ["send"])
    assert cautions(writer) == ["no live worker of the target queue has the task bill"]
    serve(yard, "w4", ["bill"])
    assert cautions(writer) == []
    serve(yard, "w4", ["other"])
    serve(yard, "w5", None)
    assert cautions(writer) == [], "what a worker did not publish is unknown"


def test_a_source_that_is_paused_for_a_reason(writer: Writer, yard: Yard) -> None:
    yard.add(task="send")
    Yard(yard.url, yard.raw, OTHER).add()
    serve(yard, "w1", ["send"])
    writer.pause(QUEUE, reason="INC-42")
    assert cautions(writer) == [f"{QUEUE} is paused by {actor()}: INC-42; jobs that are moved can run"]
    writer.pause(OTHER, reason="INC-43")
    waits = f"{OTHER} is paused by {actor()}: INC-43; jobs that are moved wait until it is resumed"
    assert cautions(writer) == [waits], "they wait there, too"
    writer.resume(QUEUE)
    assert cautions(writer) == [waits]


def test_a_few_of_many_tasks_are_named(writer: Writer, yard: Yard) -> None:
    for number in range(9):
        yard.add(task=f"task-{number}")
    serve(yard, "w1", ["send"])
    Yard(yard.url, yard.raw, OTHER).add()
    named = [f"the task task-{number}" for number in range(3)]
    assert cautions(writer) == [
        f"no live worker of the target queue has {what}" for what in (*named, "other tasks of these jobs")
    ]


async def test_the_question_of_the_console_says_it(url: str, yard: Yard) -> None:
    yard.add(task="bill")
    Yard(yard.url, yard.raw, OTHER).add(task="send")
    serve(yard, "w1", ["send"])
    async with console(url) as pilot:
        await until(pilot, "2 queues")
        await pilot.press("slash", *"mail", "enter")
        await until(pilot, "m move 1")
        await pilot.press("m")
        await until(pilot, "enter a queue")
        app_of(pilot).screen.query_one(Input).value = OTHER
        await pilot.press("enter")
        shown = " ".join((await until(pilot, "Move 1 job")).replace("┃", "").split())
        assert "note ▲ no live worker of the target queue has the" in shown
        assert "task bill" in shown
        await pilot.press("enter")
        await until(pilot, lambda: app_of(pilot).operator.work is None)
        assert len(yard.ids("ready")) == 1
