"""A redrive over other adapters: a few first, it stops by itself when they die again, and says what it cannot see."""

from __future__ import annotations

import json
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from qdeck import UsageError
from qdeck._operations import redrive
from qdeck._operations.planfile import plans_dir
from qdeck.adapters.lists.adapter import Lists
from qdeck.admin import Outcomes, Stop, StopCode, Writer
from qdeck_console.__main__ import main

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import redis

    from support.servers import Server

COUNT = 30


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks in quick succession."""
    monkeypatch.setattr(redrive, "_LOOK_S", 0.05)


def stamp() -> int:
    return time.time_ns() // 1_000_000


class Scheduler:
    queue = "scheduler"

    def fill(self, raw: redis.Redis) -> None:
        for number in range(COUNT):
            letter = json.dumps({"jobId": f"j{number}", "reason": "boom", "failedAt": "2026-11-18T05:00:00.000Z"})
            raw.zadd("scheduler:queue:dlq", {letter: stamp() - 90_000})

    def work(self, raw: Any, *, well: bool) -> None:
        for job, _ in raw.zpopmin("scheduler:queue:priority"):
            raw.hset("scheduler:processing", job, json.dumps({"workerId": "w1", "startedAt": stamp()}))
            if not well:
                raw.zadd("scheduler:queue:dlq", {json.dumps({"jobId": job.decode(), "reason": "again"}): stamp()})
            raw.hdel("scheduler:processing", job)


class Ifdb:
    queue = "ifdb"

    def fill(self, raw: redis.Redis) -> None:
        for number in range(COUNT):
            task = {"id": f"t{number}", "pending": False, "success": False, "fail": True, "priority": 100, "log": ""}
            raw.hset("ifdb:task_data", f"t{number}", json.dumps(task))

    def work(self, raw: Any, *, well: bool) -> None:
        for name, _ in raw.zpopmin("ifdb:task_queue"):
            task = json.loads(raw.hget("ifdb:task_data", name) or b"{}")
            raw.hset("ifdb:task_data", name, json.dumps(task | {"pending": False, "success": well, "fail": not well}))


class VmPooler:
    queue = "debian"

    def fill(self, raw: redis.Redis) -> None:
        raw.sadd("vmpooler__pools", "debian")
        at = int(time.time()) - 900
        for number in range(COUNT):
            raw.hset(f"vmpooler__odrequest__r{number}", "requested", "deb:debian:1")
            facts = {"vm": f"v{number}", "pool": "debian", "request_id": f"r{number}", "pool_alias": "deb"}
            raw.zadd("vmpooler__dlq__clone", {f"v{number}:{at}:{json.dumps(facts)}": at})

    def work(self, raw: Any, *, well: bool) -> None:
        for task, _ in raw.zpopmin("vmpooler__odcreate__task"):
            request = task.decode().split(":", 3)[3]
            if well:
                raw.hset(f"vmpooler__odrequest__{request}", "status", "ready")
                continue
            at = int(time.time())
            facts = {"vm": f"n{request}", "pool": "debian", "request_id": request, "pool_alias": "deb"}
            raw.zadd("vmpooler__dlq__clone", {f"n{request}:{at}:{json.dumps(facts)}": at})


class OneList:
    queue = "shop:sub:actions"

    def fill(self, raw: redis.Redis) -> None:
        raw.rpush(f"{self.queue}:dead_letter", *(json.dumps({"action_id": f"a{number}"}) for number in range(COUNT)))

    def work(self, raw: Any, *, well: bool) -> None:
        taken = raw.lpop(self.queue)
        if taken is not None and not well:
            raw.rpush(f"{self.queue}:dead_letter", json.dumps(json.loads(taken) | {"attempts": 4}))


System = Scheduler | Ifdb | VmPooler | OneList
SYSTEMS: dict[str, System] = {
    "scheduler": Scheduler(), "ifdb": Ifdb(), "vmpooler": VmPooler(), "lists": OneList()
}  # fmt: skip


@pytest.fixture
def work(shared_server: Server) -> Iterator[Callable[[System, bool], None]]:
    """Starts a worker of a system, whose jobs all end well, or all badly."""
    over = threading.Event()
    threads: list[threading.Thread] = []

    def start(system: System, well: bool) -> None:
        def run() -> None:
            with shared_server.client() as client:
                while not over.wait(0.002):
                    system.work(client, well=well)

        threads.append(threading.Thread(target=run))
        threads[-1].start()

    yield start
    over.set()
    for thread in threads:
        thread.join()


@pytest.mark.parametrize("adapter", SYSTEMS)
def test_it_stops_when_the_first_ones_die_again(
    url: str, raw: redis.Redis, work: Callable[[System, bool], None], adapter: str
) -> None:
    system = SYSTEMS[adapter]
    system.fill(raw)
    with Writer(url, adapters=(adapter,)) as writer:
        plan = writer.plan("retry", system.queue)
        assert plan.count == COUNT
        work(system, False)
        result, outcomes = writer.redrive(plan, rate=1000.0, sample=5, patience_s=20)
        assert (result.applied, outcomes) == (5, Outcomes(total=5, dead_again=5))
        left = plan.count - 5
        assert result.stopped == Stop(code=StopCode.DIED_AGAIN, count=5, ended=5, left=left, is_sample=True)
        assert adapter in writer.outcome_evidence(plan)


@pytest.mark.parametrize("adapter", SYSTEMS)
def test_the_rest_follows_when_they_do_not(
    url: str, raw: redis.Redis, work: Callable[[System, bool], None], adapter: str
) -> None:
    system = SYSTEMS[adapter]
    system.fill(raw)
    with Writer(url, adapters=(adapter,)) as writer:
        plan = writer.plan("retry", system.queue)
        work(system, True)
        result, outcomes = writer.redrive(plan, rate=1000.0, sample=3, patience_s=20, grace_s=0.1)
        assert (result.applied, result.stopped, result.error) == (COUNT, None, None)
        assert (outcomes.total, outcomes.dead_again) == (COUNT, 0)
        until = time.monotonic() + 20
        while (outcomes := writer.outcomes(plan)).done + outcomes.unknown < COUNT:
            assert time.monotonic() < until
        # Two of the systems keep nothing of what ended well: that stays unknown.
        assert outcomes.unknown == (COUNT if adapter in ("scheduler", "lists") else 0)


@pytest.mark.parametrize("adapter", SYSTEMS)
def test_nobody_works(url: str, raw: redis.Redis, adapter: str) -> None:
    system = SYSTEMS[adapter]
    system.fill(raw)
    with Writer(url, adapters=(adapter,)) as writer:
        plan = writer.plan("retry", system.queue)
        result, outcomes = writer.redrive(plan, sample=3, patience_s=0.1)
        assert (result.applied, outcomes) == (3, Outcomes(total=3, waiting=3))
        assert "check that a worker runs" in str(result.stopped)
        writer.undo(result.batch)
        assert writer.outcomes(plan) == Outcomes(), "what was put back is as if it had not been touched"


@pytest.mark.parametrize("adapter", SYSTEMS)
def test_the_log_tells_what_became_of_a_batch(url: str, raw: redis.Redis, adapter: str) -> None:
    system = SYSTEMS[adapter]
    system.fill(raw)
    with Writer(url, adapters=(adapter,)) as writer:
        result = writer.apply(writer.plan("retry", system.queue))
        for number in range(9):
            system.work(raw, well=number % 3 > 0)
        found = writer.batch_outcomes(result.batch)
        well = "unknown" if adapter in ("scheduler", "lists") else "done"
        assert (found.jobs, found.total) == (COUNT, COUNT)
        assert (found.dead_again, getattr(found, well), found.waiting) == (3, 6, COUNT - 9)
        plan = plans_dir() / f"{result.batch[2:]}.jsonl"
        plan.unlink()  # as on another machine: nothing is known there
        assert writer.batch_outcomes(result.batch).jobs == 0


@pytest.mark.parametrize("adapter", SYSTEMS)
def test_the_first_ones_are_told_one_by_one(url: str, raw: redis.Redis, adapter: str) -> None:
    system = SYSTEMS[adapter]
    system.fill(raw)
    with Writer(url, adapters=(adapter,)) as writer:
        plan = writer.plan("retry", system.queue)
        assert {one.outcome for one in writer.sample_outcomes(plan, 5)} == {None}, "nothing went back yet"
        result, _ = writer.redrive(plan, sample=2, patience_s=0.0)
        assert [one.outcome for one in writer.sample_outcomes(plan, 4)] == ["waiting", "waiting", None, None]
        writer.undo(result.batch)
        assert {one.outcome for one in writer.sample_outcomes(plan, 4)} == {None}


def test_of_entries_that_are_the_same_it_is_not_said_which_died(url: str, raw: redis.Redis) -> None:
    name = "shop:sub:actions"
    raw.rpush(f"{name}:dead_letter", "same", "same", "other")
    with Writer(url, adapters=("lists",)) as writer:
        plan = writer.plan("retry", name)
        result, outcomes = writer.redrive(plan, sample=1, patience_s=0.1)
        assert (result.applied, outcomes.waiting) == (1, 1)
        raw.delete(name)
        assert writer.outcomes(plan) == Outcomes(total=1, unknown=1)


def test_an_adapter_that_tells_nothing_refuses_to_watch(
    url: str, raw: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    OneList().fill(raw)
    with Writer(url, adapters=("lists",)) as writer:
        plan = writer.plan("retry", OneList.queue)
        monkeypatch.setattr(Lists, "outcome_evidence", "")
        with pytest.raises(UsageError, match="the adapter lists does not report the outcomes"):
            writer.redrive(plan, sample=1)
        assert writer.adapters.why_not_watch("lists")
        result, outcomes = writer.redrive(plan, rate=10_000.0)
        assert (result.applied, result.stopped, outcomes.total) == (COUNT, None, COUNT)


def test_several_adapters_in_one_redrive(url: str, raw: redis.Redis, work: Callable[[System, bool], None]) -> None:
    for name in ("ifdb", "lists"):
        SYSTEMS[name].fill(raw)
    with Writer(url, adapters=("ifdb", "lists")) as writer:
        plan = writer.plan("retry")
        assert plan.count == 2 * COUNT
        work(SYSTEMS["ifdb"], True)
        result, outcomes = writer.redrive(plan, rate=10_000.0)
        assert (result.applied, outcomes.total) == (2 * COUNT, 2 * COUNT)
        assert outcomes.waiting >= COUNT


def test_the_command_says_why_it_stopped_and_what_is_not_told(
    url: str, raw: redis.Redis, work: Callable[[System, bool], None], capsys: pytest.CaptureFixture[str]
) -> None:
    system = SYSTEMS["lists"]
    system.fill(raw)
    base = ("dead", "retry", system.queue, "--url", url, "--adapter", "lists", "--yes")
    work(system, False)
    assert main([*base, "--where", "id:a*", "--sample", "2", "--rate", "50/s", "--json"]) == 1
    told = capsys.readouterr()
    batch = json.loads(told.out)
    assert batch["stopped"].startswith("2 of 2 sampled jobs died again; ")
    assert batch["stopped_code"] == "died_again"
    assert (batch["outcomes"]["dead_again"], batch["outcomes"]["unknown"]) == (2, 0)
    assert "--apply" in told.err
