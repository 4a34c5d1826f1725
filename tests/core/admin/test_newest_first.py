"""Newest first is a promise: one list by time over all queues and systems, whatever their keys have for an order."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from qdeck._engine import keys
from qdeck.adapters import newest
from qdeck.admin import AsyncReader, Reader
from support.documents import (
    HOUR_S,
    action,
    ago,
    failed_task,
    iso,
    machine,
    machine_letter,
    pool,
    ruby,
    scheduler_letter,
)
from support.screens import bury

if TYPE_CHECKING:
    import pytest
    import redis

MAIL, BILLS = "shop:mail:actions", "shop:bills:actions"


def die(url: str, raw: redis.Redis, queue: str, *ages_s: float) -> list[str]:
    """Let a job of a native queue die at each of these times; return their ids."""
    bury(url, queue, [{"class": "Boom", "message": "no"} for _ in ages_s])
    key = keys.key(queue, "dead")
    found = [bytes(member).decode() for member in raw.zrange(key, 0, -1)][-len(ages_s) :]  # type: ignore[arg-type]
    raw.zadd(key, {job: ago(age) * 1000 for job, age in zip(found, ages_s, strict=True)})
    return found


def everything(url: str, raw: redis.Redis) -> list[str]:
    """Dead letters of all systems at known times; return their ids in order."""
    made: dict[str, float] = {}
    made |= dict(zip(die(url, raw, MAIL, 7 * HOUR_S, 30), (7 * HOUR_S, 30), strict=True))
    made |= dict(zip(die(url, raw, BILLS, 45), (45,), strict=True))
    pool(raw, "debian-12")
    pool(raw, "centos-7")
    for number in range(60):
        machine_letter(raw, "clone", f"old{number:02}", "debian-12", 30 * HOUR_S + 60 * number)
        made[f"old{number:02}"] = 30 * HOUR_S + 60 * number
    for number in range(5):
        machine_letter(raw, "pending", f"fresh{number}", "centos-7", 60 * number + 10)
        made[f"fresh{number}"] = 60 * number + 10
    machine_letter(raw, "ready", "unreachable", "centos-7", 100)
    made["unreachable"] = 100
    for hours in (16, 5, 25):
        made[failed_task(raw, f"CloneUrl({hours})", hours * HOUR_S)] = hours * HOUR_S
        scheduler_letter(raw, f"job-{hours}", hours * HOUR_S + 600)
        made[f"job-{hours}"] = hours * HOUR_S + 600
    for name, age in (("m1", 6 * HOUR_S), ("m2", 90), ("m3", 20 * HOUR_S)):
        action(raw, "nooble4:dev:management:actions:dead_letter", name, failed_at=iso(ago(age)))
        made[name] = age
    return sorted(made, key=lambda name: made[name])


def test_dead_letters_of_all_systems_are_one_list_by_time(url: str, raw: redis.Redis) -> None:
    wanted = everything(url, raw)
    with Reader(url) as reader:
        assert [record.id for record in reader.dead_letters()] == wanted
        for limit in (1, 7, 40):
            assert [record.id for record in reader.dead_letters(limit=limit)] == wanted[:limit]
        machines = [name for name in wanted if name.startswith(("old", "fresh", "unreach"))]
        some = reader.dead_letters(["centos-7", "debian-12"], limit=20)
        assert [record.id for record in some] == machines[:20]
        found = [record.id for record in reader.dead_letters(where="error:StandardError", limit=9)]
        assert found == machines[:9]


async def test_the_asyncio_reader_lists_the_same(url: str, raw: redis.Redis) -> None:
    wanted = everything(url, raw)
    async with AsyncReader(url) as reader:
        assert [record.id async for record in reader.dead_letters(limit=12)] == wanted[:12]


def test_the_jobs_of_a_queue_that_ended_start_with_the_newest(url: str, raw: redis.Redis) -> None:
    """`qdeck jobs`: the hash of IFDB and the sets of VMPooler have no order."""
    hours = random.Random(3).sample(range(1, 200), 40)
    for number in hours:
        failed_task(raw, f"CloneUrl({number})", number * HOUR_S)
        machine(raw, "completed", f"vm{number}", "centos-7", destroy=ruby(ago(number * HOUR_S)))
    with Reader(url) as reader:
        failed = [record.name for record in reader.jobs("ifdb", state="dead", limit=10)]
        assert failed == [f"CloneUrl({number})" for number in sorted(hours)[:10]]
        assert [record.id for record in reader.jobs("centos-7")] == [f"vm{number}" for number in sorted(hours)]
        assert len([*reader.jobs("ifdb")]) == 40


def test_very_many_entries_without_an_order_are_all_listed(
    url: str, raw: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(newest, "MOST_SORTED", 600)
    names = [failed_task(raw, f"CloneUrl({number})", number * 60) for number in range(2_500)]
    with Reader(url) as reader:
        assert sorted(record.id for record in reader.dead_letters()) == sorted(names)
        assert [record.id for record in reader.dead_letters(limit=30)] == names[:30]


def test_an_unreadable_queue_does_not_hide_the_others(url: str, raw: redis.Redis) -> None:
    wanted = everything(url, raw)
    raw.delete("scheduler:queue:dlq")
    raw.set("scheduler:queue:dlq", "no set")
    with Reader(url) as reader:
        found = [record.id for record in reader.dead_letters()]
    assert found == [name for name in wanted if not name.startswith("job-")]
