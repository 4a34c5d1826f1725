"""The page of temporary queues: tasks and what they own, orphans, and that looking is no use of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from qdeck.admin import Writer
from qdeck.messages import _registry as registry
from qdeck.testing.adapters import values
from qdeck_console.screens.temporary import TaskQueuesScreen, TemporaryQueuesScreen
from support.hostile import HOSTILE, is_clean
from support.screens import app_of, command, console, lines, text, until
from support.temporary import age

if TYPE_CHECKING:
    import redis


def register(url: str, name: str, task: str, *, ttl_ms: int = 600_000, wait_ms: int | None = None) -> None:
    """A temporary queue of a task."""
    with Writer(url) as writer:
        writer.write(
            registry.register(name, "responses", "billing", task=task, tier="free", ttl_ms=ttl_ms, wait_ms=wait_ms)
        )


@pytest.mark.parametrize("size", [(160, 48), pytest.param((80, 24), marks=pytest.mark.slow)])
async def test_tasks_own_queues_and_nobody_owns_orphans(url: str, raw: redis.Redis, size: tuple[int, int]) -> None:
    for number in range(3):
        register(url, f"billing:responses:task_1:free:{number}", "task_1", wait_ms=300_000 if number else None)
    register(url, "billing:responses:task_2:free:0", "task_2")
    raw.rpush("billing:responses:task_1:free:0", "a message")
    async with console(url, "8", "t", size=size) as pilot:
        app = app_of(pilot)
        await until(pilot, "2 tasks, 4 queues")
        assert isinstance(app.screen, TemporaryQueuesScreen)
        assert all(len(line) == size[0] for line in lines(app))
        await pilot.press("enter")
        await until(pilot, "3 temporary queues of the task task_1")
        assert isinstance(pilot.app.screen, TaskQueuesScreen)
        seen = text(app)
        assert "holds messages" in seen
        assert "reader waiting" in seen
        await pilot.press("g", "y")
        await until(pilot, lambda: app.clipboard.startswith("billing:responses:task_1"))
        await pilot.press("escape", "slash", *"task_2", "enter")
        await until(pilot, lambda: "task_1" not in text(app))
        await pilot.press("escape")
        await until(pilot, lambda: "task_1" in text(app))
        await pilot.press("escape", "1", "t")
        await until(pilot, "2 tasks, 4 queues")
        await command(pilot, "back")
        await until(pilot, "no queue yet")


async def test_none_and_what_others_wrote(url: str) -> None:
    async with console(url, "8", "t", size=(80, 24), read_only=True) as pilot:
        await until(pilot, "no temporary queue")
        for word in HOSTILE.values():
            name = word.encode("utf-8", "replace").decode()
            register(url, name, name or "task")
        await until(pilot, "tasks")
        for _ in range(3):
            await pilot.press("j", "enter")
            await pilot.pause(0.1)
            assert is_clean(text(app_of(pilot)).replace("\n", ""))
            await pilot.press("escape")


async def test_tasks_in_sets_of_other_programs_are_shown_and_cleaned(url: str, raw: redis.Redis) -> None:
    """As the document writes them: a set without a time to live, one of an hour, and a list whose set expired."""
    lists = {
        "12345": "execution:agent_run:professional:12345", "67890": "embedding:generate:enterprise:67890",
        "13579": "execution:callback:free:13579",
    }  # fmt: skip
    for task, name in lists.items():
        raw.rpush(name, f'{{"task_id": "{task}"}}')
        if task != "13579":
            raw.sadd(f"task_queues:{task}", name)
    raw.expire("task_queues:67890", 3600)
    before = values(raw)
    async with console(url, "8", "t", size=(120, 36)) as pilot:
        await until(pilot, "2 tasks, 2 queues, 0 orphans")
        assert "orphaned" not in text(app_of(pilot)), "they were used a moment ago"
    age(raw, *lists.values())
    async with console(url, "8", "t", size=(120, 36)) as pilot:
        await until(pilot, "2 tasks, 2 queues, 2 orphans")
        seen = text(app_of(pilot))
        assert "never" in seen
        assert "professional" in seen
        await pilot.press("g", "enter")
        await until(pilot, "1 temporary queue of the task 12345")
        await until(pilot, "execution:agent_run:professional:12345")
        await pilot.press("escape", "x")
        await until(pilot, "Remove 1 queue of task 12345?")
        await pilot.press("tab", "enter")
        await until(pilot, "1 queue removed")
        assert not raw.exists(lists["12345"], "task_queues:12345")
        await until(pilot, "1 task, 1 queue, 1 orphan")
        await pilot.press("u")
        await until(pilot, "press u again to undo")
        await pilot.press("u")
        await until(pilot, "undone: ")
        assert values(raw) == before
        await until(pilot, "2 tasks, 2 queues")
