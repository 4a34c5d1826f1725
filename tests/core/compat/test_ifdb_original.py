"""The original beside qdeck: the document's own queue, word for word, at work on the keys that qdeck reads and changes.

Random states from a seed: after each step qdeck lists the tasks that the original takes next, in its order, and counts
what the original counts. VMPooler's manager needs Ruby and its providers: dumps of a run of it are
in `../adapters/dumps`.
"""

from __future__ import annotations

import io
import json
import sys
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

import pytest

from qdeck.admin import State, StuckCode, Writer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

DOCUMENT: Final = Path(__file__).parent / "document"
QUEUE, DATA = "ifdb:task_queue", "ifdb:task_data"
STEPS: Final = 60
VERBS: Final = ("retry", "run", "bury", "complete", "discard", "reprioritise")


def module(monkeypatch: pytest.MonkeyPatch, name: str, **names: Any) -> ModuleType:
    made = ModuleType(name)
    vars(made).update(names)
    monkeypatch.setitem(sys.modules, name, made)
    return made


class Site:
    """The site: its tasks, which fail as they are told, the document's queue and its clean-up."""

    def __init__(self, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.fails = False
        self.failed: Counter[str] = Counter()
        module(monkeypatch, "django.conf", settings=SimpleNamespace(REDIS_URL=url))
        module(monkeypatch, "django.utils", timezone=SimpleNamespace(now=lambda: datetime.now(UTC)))
        self.commands = module(monkeypatch, "django.core.management.base", BaseCommand=object)
        self.tasks = module(monkeypatch, "site_tasks_of_original", CloneFile=self._clone_file)
        self._clone_file.__func__.__module__ = self.tasks.__name__  # type: ignore[attr-defined]
        self.tasks.CloneFile.__func__.__name__ = "CloneFile"
        self.queue: Any = self._run("redis_taskqueue")["task_queue"]
        module(monkeypatch, "core.taskqueue", task_queue=self.queue)
        self.cleanup: type[Any] = self._run("cleanup_task_data")["Command"]

    def _run(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = {"__name__": name}
        exec(compile((DOCUMENT / f"{name}.txt").read_text("utf-8"), name, "exec"), found)  # noqa: S102 - it is the page
        return found

    def _clone_file(self, number: int) -> None:
        if self.fails:
            raise OSError(f"404 for {number}")

    def work(self, *, fails: bool) -> None:
        """Let the worker run what is next; one that meets a broken record stops."""
        try:
            task = self.queue.get_next_task()
        except ValueError:
            return
        self.fails = fails
        if task is not None and not self.queue.execute_task(task):
            self.failed[task["id"]] += 1

    def takes(self) -> tuple[list[str], bool]:
        """Return what the worker would take, each without its outcome, and whether it stops at a broken record."""
        kept = self.queue.redis_client.zrange(QUEUE, 0, -1, withscores=True)
        found: list[str] = []
        try:
            while task := self.queue.get_next_task():
                found.append(task["id"])
                self.queue.redis_client.zrem(QUEUE, task["id"])
            return found, False
        except ValueError:
            return found, True
        finally:
            self.queue.redis_client.delete(QUEUE)
            if kept:
                self.queue.redis_client.zadd(QUEUE, dict(kept))

    def cleans(self, days: int) -> set[str]:
        """Return what the clean-up removes, and put it back."""
        before = self.queue.redis_client.hgetall(DATA)
        command = self.cleanup()
        command.stdout = io.StringIO()
        command.handle(days=days, dry_run=False)
        gone = set(before) - set(self.queue.redis_client.hgetall(DATA))
        for name in gone:
            self.queue.redis_client.hset(DATA, name, before[name])
        return {name.decode() for name in gone}


class Walk:
    """Random steps of the site and of an operator."""

    def __init__(self, site: Site, raw: Any, writer: Writer, seed: int) -> None:
        self.site, self.raw, self.writer, self.random = site, raw, writer, Random(seed)

    def ids(self) -> list[str]:
        return sorted(name.decode() for name in self.raw.hkeys(DATA))

    def record(self, task_id: str) -> dict[str, Any] | None:
        try:
            found: dict[str, Any] = json.loads(self.raw.hget(DATA, task_id))
        except ValueError:
            return None
        return found

    def enqueue(self) -> None:
        random = self.random
        when = random.choice([None, None, None, timedelta(hours=-1), timedelta(hours=1)])
        needs = random.choice([None, None, "gone:1", *self.ids()[-3:]])
        number = random.randrange(1000, 1010)
        self.site.queue.enqueue(
            self.site.tasks.CloneFile, number, priority=random.choice([10, 50, 100, 100, 100]),
            retries=random.randrange(1, 4), dependency=needs, cron=random.choice([None, None, None, "*/30 * * * *"]),
            scheduled_time=None if when is None else datetime.now(UTC) + when,
            name=random.choice([None, f"CloneUrl({number})"]),
        )  # fmt: skip

    def work(self) -> None:
        self.site.work(fails=self.random.random() < 0.4)

    def crash(self) -> None:
        """The worker dies while it runs a task."""
        found, _ = self.site.takes()
        if found and (task := self.record(found[0])) is not None:
            task["start_time"] = datetime.now(UTC).isoformat()
            self.raw.hset(DATA, found[0], json.dumps(task))

    def damage(self) -> None:
        if self.random.random() < 0.5 and (known := self.ids()):
            task_id = self.random.choice(known)
            self.raw.hset(DATA, task_id, self.raw.hget(DATA, task_id)[:40])

    def age(self) -> None:
        for task_id in self.ids():
            task = self.record(task_id)
            if task is not None and task.get("finish_time") and self.random.random() < 0.3:
                ended = datetime.now(UTC) - timedelta(days=self.random.choice([1, 6, 8, 20]))
                self.raw.hset(DATA, task_id, json.dumps(task | {"finish_time": ended.isoformat()}))

    def operate(self) -> None:
        """Use a verb on some tasks; half of the times take it back, which restores every byte."""
        verb, known = self.random.choice(VERBS), self.ids()
        if not known:
            return
        before = self.contents()
        ids = self.random.sample(known, min(len(known), self.random.randrange(1, 4)))
        priority = 20 if verb == "reprioritise" else None
        done = self.writer.apply(self.writer.plan(verb, "ifdb", ids=ids, priority=priority))
        if done.applied and self.random.random() < 0.5:
            self.writer.undo()
            assert self.contents() == before

    def repair(self) -> None:
        """Remove broken records as a purge does."""
        self.writer.apply(self.writer.plan_purge(["broken_entries"]))
        needed = {task["dependency"] for task_id in self.ids() if (task := self.record(task_id)) is not None}
        assert {task_id for task_id in self.ids() if self.record(task_id) is None} <= needed

    def contents(self) -> object:
        return self.raw.hgetall(DATA), self.raw.zrange(QUEUE, 0, -1, withscores=True)

    def step(self) -> None:
        steps: list[tuple[Callable[[], None], int]] = [
            (self.enqueue, 8), (self.work, 8), (self.crash, 1), (self.damage, 2), (self.age, 2), (self.operate, 5),
            (self.repair, 2),
        ]  # fmt: skip
        act = self.random.choices([act for act, _ in steps], [often for _, often in steps])[0]
        act()

    def compare(self) -> None:
        jobs = list(self.writer.jobs("ifdb", limit=10_000)) if self.raw.exists(DATA, QUEUE) else []
        self._compare_order(jobs)
        self._compare_numbers(jobs)
        self._compare_records(jobs)
        self._compare_cleanup()

    def _compare_order(self, jobs: list[Any]) -> None:
        """What is ready or was left running is what the worker takes, in its order, up to a record that stops it."""
        takes, stops = self.site.takes()
        listed: list[str] = []
        for job in jobs:
            if job.stuck is not None and job.stuck.code is StuckCode.UNSCHEDULABLE:
                assert stops
                break
            if job.state in (State.READY, State.RUNNING) and not job.problem:
                listed.append(job.id)
        assert listed == takes

    def _compare_numbers(self, jobs: list[Any]) -> None:
        count = Counter(job.state for job in jobs)
        waiting = sum(count[state] for state in (State.READY, State.RUNNING, State.DELAYED, State.BLOCKED))
        assert (waiting, len(jobs)) == (self.raw.zcard(QUEUE), self.raw.hlen(DATA))
        rows = [row for row in self.writer.snapshot().queues if row.adapter == "ifdb"]
        for row in rows:
            told = (row.ready, row.running, row.delayed, row.blocked, row.done, row.dead)
            states = (State.READY, State.RUNNING, State.DELAYED, State.BLOCKED, State.DONE, State.DEAD)
            assert told == tuple(count[state] for state in states)

    def _compare_records(self, jobs: list[Any]) -> None:
        for job in jobs:
            if (task := self.record(job.id)) is None:
                assert job.problem
                continue
            is_over = {State.DONE: (False, True, False), State.DEAD: (False, False, True)}
            told = (task["pending"], task["success"], task["fail"])
            assert told == is_over.get(State(job.state), (True, False, False))
            assert (job.attempts, job.priority) == (self.site.failed[job.id], task["priority"])
            assert (job.message is not None) == (bool(self.site.failed[job.id]) and job.state != State.DONE)

    def _compare_cleanup(self) -> None:
        """The clean-up of the page, without those that others wait for: they would run."""
        if not self.raw.exists(DATA):
            return
        records = [task for task_id in self.ids() if (task := self.record(task_id)) is not None]
        needed = {task["dependency"] for task in records if not task["success"]}
        plan = self.writer.plan("discard", "ifdb", state=(State.DONE, State.DEAD), where="age>7d")
        assert {entry.id for entry in plan.entries()} == self.site.cleans(7) - needed


@pytest.fixture
def writer(url: str) -> Iterator[Writer]:
    with Writer(url, adapters=("ifdb",)) as writer:
        yield writer


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.parametrize("seed", range(12))
def test_the_original_and_qdeck_agree_after_each_step(
    url: str, raw: Any, writer: Writer, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    walk = Walk(Site(url, monkeypatch), raw, writer, seed)
    for _ in range(STEPS):
        walk.step()
        walk.compare()
