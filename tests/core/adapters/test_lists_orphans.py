"""Lists of tasks of the document on the life cycle: those without an owner are counted where queues are looked at."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from qdeck.adapters.lists import orphans
from qdeck.admin import Writer
from qdeck_console.__main__ import main
from support.screens import app_on, until
from support.temporary import age

if TYPE_CHECKING:
    import redis

COMMAND = "qdeck clean --orphans --adapter lists --dry-run"


def enqueue(raw: redis.Redis, task: str, tier: str = "free", *, ttl_s: int | None = 3600, idle: bool = True) -> None:
    """Do what `enqueue_action` of the document does, some time ago."""
    name = f"execution:agent_run:{tier}:{task}"
    raw.rpush(name, json.dumps({"action_id": task, "task_id": task}))
    raw.sadd(f"task_queues:{task}", name)
    if ttl_s == 0:
        raw.delete(f"task_queues:{task}")
    elif ttl_s is not None:
        raw.expire(f"task_queues:{task}", ttl_s)
    if idle:
        age(raw, name)


@pytest.fixture
def tasks(raw: redis.Redis) -> None:
    enqueue(raw, "without-ttl", ttl_s=None)
    enqueue(raw, "two-days", "enterprise", ttl_s=172_800)
    enqueue(raw, "expired", ttl_s=0)
    enqueue(raw, "expired-now", ttl_s=0, idle=False)
    enqueue(raw, "registered")
    raw.rpush("nooble4:dev:management:actions", "{}")
    age(raw, "nooble4:dev:management:actions")


@pytest.mark.usefixtures("tasks")
def test_the_commands_that_look_at_queues_mention_them(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    """They were shown by no command but the one that removes them, where the adapter was named."""
    told = f"lists of tasks without an owner: 3 ({COMMAND} shows them)"
    for command in ("status", "queues", "health"):
        assert main([command, "--url", url]) == 0
        assert told in capsys.readouterr().err
    main(["doctor", "--url", url])
    assert told in capsys.readouterr().out
    assert main(["status", "--json", "--url", url]) == 0
    rows = json.loads(capsys.readouterr().out)["queues"]
    assert {row["name"]: row["orphaned"] for row in rows} == {
        "execution:agent_run:free:*": 2, "execution:agent_run:enterprise:*": 1, "nooble4:dev:management:actions": None,
    }  # fmt: skip
    assert main([*COMMAND.split()[1:], "--url", url]) == 0
    assert "3 would be removed" in capsys.readouterr().out


@pytest.mark.usefixtures("tasks")
def test_they_are_gone_from_the_count_when_they_are_removed(url: str) -> None:
    with Writer(url) as writer:
        assert sum(row.orphaned or 0 for row in writer.snapshot().queues) == 3
    assert main(["clean", "--orphans", "--adapter", "lists", "--yes", "--url", url]) == 0
    with Writer(url) as writer:
        seen = writer.snapshot()
        assert (sum(row.orphaned or 0 for row in seen.queues), seen.notices) == (0, ())


async def test_queues_of_the_console_mention_them(url: str, raw: redis.Redis) -> None:
    enqueue(raw, "without-ttl", ttl_s=None)
    async with app_on(url, adapters=("native", "lists")).run_test(size=(80, 24)) as pilot:
        await until(pilot, "1 queue, lists, 1 orphaned: t")


def test_so_many_lists_that_only_some_are_looked_at(
    url: str, raw: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(orphans, "MOST", 5)
    for number in range(12):
        enqueue(raw, f"t{number}", ttl_s=0)
    with Writer(url) as writer:
        assert writer.snapshot().notices == (
            f"lists of tasks without an owner: 5 of the first 5 that were looked at ({COMMAND} shows them)",
        )
