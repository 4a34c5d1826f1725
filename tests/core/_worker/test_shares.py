"""How a worker divides its slots among queues, by their weights: a simulation of the rules, and real workers."""

from __future__ import annotations

import asyncio
import heapq
import random
import threading
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench import fairness
from qdeck._worker.fair_share import FairShare, QueueUse
from support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    import qdeck
    from support.beside import Beside

QUEUE = "test:actions"
FAR = "test:far:actions"
NAMES = (QUEUE, FAR)


class Simulation:
    """A worker with queues that always have jobs: what ends is reported to its queue, which may claim in that poll."""

    def __init__(self, weights: list[int], concurrency: int, seed: int, *, quick: int = 0) -> None:
        self.accounts = [QueueUse(weight) for weight in weights]
        self.shares = FairShare()
        self.random = random.Random(seed)
        self.free = concurrency
        self.quick = quick
        self.running: list[tuple[float, int, int]] = []
        self.order: list[str] = []
        self.claim = 0

    def poll(self, queue: int, active: list[int]) -> None:
        """One poll of a queue: it claims what its share entitles it to."""
        rivals = [self.accounts[n] for n in active]
        room = self.shares.slots_for(self.accounts[queue], rivals, self.free, self.quick)
        self.claim = max(self.claim, room)
        self.accounts[queue].count_started(room)
        self.free -= room
        for _ in range(room):
            now = self.running[0][0] if self.running else 0.0
            self.order.append(str(queue))
            heapq.heappush(
                self.running, (now + self.random.choice((1.0, self.random.random())), len(self.order), queue)
            )

    def run(self, starts: int, active: list[int] | None = None) -> None:
        """Let the worker go on until so many more jobs were started."""
        active = list(range(len(self.accounts))) if active is None else active
        until = len(self.order) + starts
        while len(self.order) < until:
            ended = [heapq.heappop(self.running) for _ in range(self.random.randint(0, len(self.running)))]
            self.free += len(ended)
            for queue in {queue for _, _, queue in ended}:
                if queue in active:
                    self.poll(queue, active)
            while self.free:
                chosen = self.shares.choose([self.accounts[n] for n in active])
                assert chosen is not None
                self.poll(self.accounts.index(chosen), active)


@settings(deadline=None, max_examples=40)
@given(
    weights=st.lists(st.integers(1, 9), min_size=2, max_size=8),
    concurrency=st.integers(1, 60),
    seed=st.integers(0, 999),
    quick=st.sampled_from([0, 0, 40]),
)
def test_starts_follow_the_weights(weights: list[int], concurrency: int, seed: int, quick: int) -> None:
    worker = Simulation(weights, concurrency, seed, quick=quick)
    worker.run(250 * sum(weights))
    found = fairness.worst(worker.order, {str(n): weight for n, weight in enumerate(weights)})
    assert found.is_within(0.1, worker.claim), found


def test_a_thousand_queues_share_evenly() -> None:
    worker = Simulation([1] * 1000, 50, 1)
    worker.run(5_000)
    counts = Counter(worker.order)
    assert len(counts) == 1000
    assert set(counts.values()) <= {4, 5, 6}


@settings(deadline=None, max_examples=40)
@given(weight=st.integers(1, 9), idle=st.integers(1, 2000), seed=st.integers(0, 99))
def test_a_queue_that_was_idle_gets_its_share_and_no_more(weight: int, idle: int, seed: int) -> None:
    worker = Simulation([1, weight], 10, seed)
    worker.accounts[1].is_idle = True
    worker.run(idle, [0])
    worker.order.clear()
    worker.run(300 * (1 + weight))
    assert worker.order.index("1") <= 10, "it starts with the first slots that are free"
    found = fairness.worst(worker.order, {"0": 1, "1": weight})
    assert found.is_within(0.1, worker.claim), found


def test_one_queue_gets_all_free_slots() -> None:
    account = QueueUse(3)
    assert FairShare().slots_for(account, [account], 50, 0) == 50


def test_what_was_given_back_does_not_count() -> None:
    shares, one, two = FairShare(), QueueUse(1), QueueUse(1)
    one.count_started(10)
    one.count_started(-10)
    assert shares.choose([one, two]) is one
    assert shares.slots_for(two, [one, two], 10, 0) == 5


@pytest.mark.parametrize("kind", ["async", "sync"])
@pytest.mark.parametrize("weights", [(1, 1), (5, 1)])
def test_a_worker_keeps_to_the_weights(
    app: qdeck.App, start: Callable[..., Beside], kind: str, weights: tuple[int, int]
) -> None:
    order: list[str] = []

    @app.task(name="async")
    async def on_loop(queue: str, seconds: float) -> None:
        order.append(queue)
        await asyncio.sleep(seconds)

    @app.task(name="sync")
    def in_thread(queue: str, seconds: float) -> None:
        order.append(queue)
        time.sleep(seconds)

    task: qdeck.Task[Any, Any] = app.tasks[kind]
    of = dict(zip(NAMES, weights, strict=True))
    enough = fairness.EXPECTED * 2 * sum(weights)
    for queue, weight in of.items():
        share = fairness.EXPECTED * 2 * weight + 200
        app.enqueue_many([task.call(queue, 0.005, _queue=queue) for _ in range(share)])
    start(queues=of, concurrency=10)
    wait_until(lambda: len(order) >= enough)
    found = fairness.worst(order[:enough], of)
    assert found.is_within(0.1, 10), found


def test_a_single_job_beside_a_busy_queue_starts_promptly(app: qdeck.App, start: Callable[..., Beside]) -> None:
    begun = threading.Event()

    @app.task
    async def busy() -> None:
        await asyncio.sleep(0.05)

    @app.task(queue=FAR)
    async def rare() -> None:
        begun.set()

    app.enqueue_many([busy.call() for _ in range(2_000)])
    beside = start(queues={QUEUE: 1, FAR: 1}, concurrency=10)
    executor = beside.worker._executor
    assert executor is not None
    wait_until(lambda: executor.done > 50)
    before = executor.done
    rare.enqueue()
    assert begun.wait(30)
    assert executor.done - before <= 60, "it started after what ran then had ended"
