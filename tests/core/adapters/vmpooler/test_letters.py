"""Dead letters by kind, as the document asks for them, and its fourth key, which is a hash of lists."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest

from core.adapters.vmpooler.written import dead, entry
from qdeck.admin import Limits, Writer, read_rules
from qdeck.testing.adapters import values
from support.agents import running
from support.commands import Ran, runner

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import redis

KEY = "vmpooler__dlq__tasks"


@pytest.fixture
def writer(url: str, raw: redis.Redis) -> Iterator[Writer]:
    raw.sadd("vmpooler__pools", "centos-7")
    with Writer(url, adapters=("vmpooler",)) as writer:
        yield writer


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    return runner(capsys)


async def ask(url: str, query: str) -> Any:
    async with running(url) as agent:
        answer = await agent.ask(f"/api/v1/queue/dlq?{query}")
    return answer.json | {"code": answer.code}


@pytest.mark.parametrize("word", ["pending", "dlq:pending", "vmpooler__dlq__pending"])
async def test_the_documents_own_request(url: str, raw: redis.Redis, word: str) -> None:
    """`GET /api/v1/queue/dlq?queue=pending&limit=50`, newest first, of all pools."""
    raw.sadd("vmpooler__pools", "centos-7", "debian-12")
    for number in range(60):
        dead(raw, "pending", f"vm-{number}", 1000 - number, pool=("centos-7", "debian-12", None)[number % 3])
    dead(raw, "clone", "other", 5)
    found = await ask(url, f"queue={word}&limit=50")
    assert (found["code"], found["total"]) == (200, 60)
    assert [one["id"] for one in found["entries"]] == [f"vm-{number}" for number in range(59, 9, -1)]
    newest = found["entries"][0]
    assert (newest["queue_from"], newest["retry_count"], newest["error_class"]) == ("pending", 3, "StandardError")
    assert newest["payload"]["request_id"] == "req-123456"


async def test_a_kind_without_dead_letters_is_empty_and_other_words_are_unknown(url: str, raw: redis.Redis) -> None:
    dead(raw, "clone", "vm")
    found = await ask(url, "queue=ready")
    assert (found["code"], found["total"], found["entries"]) == (200, 0, [])
    assert (await ask(url, "queue=running"))["code"] == 404


async def test_a_pool_with_the_name_of_a_kind_is_the_pool(url: str, raw: redis.Redis) -> None:
    raw.sadd("vmpooler__pools", "pending")
    dead(raw, "clone", "of-the-pool", pool="pending")
    dead(raw, "pending", "of-the-kind")
    assert [one["id"] for one in (await ask(url, "queue=pending"))["entries"]] == ["of-the-pool"]
    assert [one["id"] for one in (await ask(url, "queue=dlq:pending"))["entries"]] == ["of-the-kind"]


def test_commands_take_a_kind(writer: Writer, raw: redis.Redis, url: str, run: Callable[..., Ran]) -> None:
    for kind in ("pending", "clone", "ready"):
        dead(raw, kind, f"vm-{kind}", error_class=f"{kind.title()}Error")
    listed = run("dead", "--kind", "clone", "--where", "error:*Error", "--json", "--url", url)
    assert [one["id"] for one in listed.json] == ["vm-clone"]
    assert [one["error_class"] for one in run("dead", "--group", "--kind", "ready", "--json", "--url", url).json] == [
        "ReadyError"
    ]
    assert json.loads(run("dead", "export", "--kind", "pending", "--url", url).out)["id"] == "vm-pending"
    assert run("dead", "discard", "--kind", "ready", "--yes", "--url", url).code == 0
    assert not raw.exists("vmpooler__dlq__ready")
    assert raw.exists("vmpooler__dlq__clone", "vmpooler__dlq__pending") == 2
    assert run("dead", "--kind", "running", "--url", url).code == 64
    assert writer.undo().restored == 1


def failed_tasks(raw: redis.Redis) -> None:
    now = int(time.time())
    items = [entry("vm-1", now - 3600, disk="10"), entry("vm-2", now - 60, pool="debian-12")]
    raw.hset(KEY, "disk", json.dumps(items))
    raw.hset(KEY, "snapshot", '["vm-3:before", "vm-4:before"]')
    raw.hset(KEY, "other", "text")


def test_each_failed_task_is_a_dead_letter_with_its_age(writer: Writer, raw: redis.Redis) -> None:
    failed_tasks(raw)
    rows = {row.name: row.dead for row in writer.snapshot().queues}
    assert rows == {"centos-7": 1, "debian-12": 1, "dlq:tasks": 3}
    found = {one.id: one for name in rows for one in writer.jobs(name, state="dead")}
    assert {name: one.task for name, one in found.items()} == {
        "vm-1": "disk", "vm-2": "disk", "vm-3:before": "snapshot", "vm-4:before": "snapshot", "text": "other",
    }  # fmt: skip
    assert [found[name].age_s for name in ("vm-1", "vm-2")] == pytest.approx([3600, 60], abs=20)
    assert found["vm-3:before"].age_s is None
    assert (found["vm-1"].error, found["vm-1"].attempts) == ("StandardError", 4)
    raw.hset(KEY, "snapshot", '["vm-3:before"]')
    assert {row.name: row.dead for row in writer.snapshot().queues}["dlq:tasks"] == 2


async def test_the_api_has_each_failed_task(url: str, raw: redis.Redis) -> None:
    failed_tasks(raw)
    found = await ask(url, "queue=tasks&limit=2")
    assert (found["total"], [one["id"] for one in found["entries"]]) == (5, ["vm-2", "vm-1"])


@pytest.mark.parametrize("ids", [["vm-1"], ["vm-1", "vm-2"], ["vm-3:before", "vm-4:before", "text"]])
def test_one_failed_task_is_discarded_and_comes_back(writer: Writer, raw: redis.Redis, ids: list[str]) -> None:
    failed_tasks(raw)
    before = values(raw)
    assert writer.apply(writer.plan("discard", ids=ids, state="dead")).applied == len(ids)
    left = {one.id for row in writer.snapshot().queues for one in writer.jobs(row.name, state="dead")}
    assert left == {"vm-1", "vm-2", "vm-3:before", "vm-4:before", "text"} - set(ids)
    undone = writer.undo()
    assert (undone.restored, undone.skipped) == (len(ids), ())
    assert values(raw) == before


def test_failed_tasks_go_one_by_one_by_their_own_age(writer: Writer, raw: redis.Redis) -> None:
    failed_tasks(raw)
    plan = writer.plan_purge(read_rules(("dead_too_old",)), Limits(dlq_ttl=0.5))
    assert [one.id for one in plan.entries()] == ["vm-1"]
    raw.hset(KEY, "disk", json.dumps([*json.loads(raw.hget(KEY, "disk") or ""), "vm-9:10"]))  # one more failed since
    assert writer.apply(plan).applied == 1
    assert [one if isinstance(one, str) else one["vm"] for one in json.loads(raw.hget(KEY, "disk") or "")] == [
        "vm-2", "vm-9:10",
    ]  # fmt: skip
