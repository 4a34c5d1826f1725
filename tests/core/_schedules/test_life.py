"""Schedules with real workers, and with tickers that are frozen past their run."""

from __future__ import annotations

import asyncio
import itertools
import random
import signal
import time
from collections import Counter
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pytest

from core._schedules.registering import schedule
from qdeck._redis import AsyncClient, Endpoint
from qdeck._schedules import store
from qdeck._schedules.ticker import Ticker
from support.beside import Beside
from support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    import redis

    import qdeck
    from support.processes import PythonProcess
    from support.proxy import FaultProxy

QUEUE = "test:actions"


def test_a_worker_ticks_and_a_failed_run_does_not_end_the_schedule(app: qdeck.App, raw: redis.Redis) -> None:
    runs: list[float] = []

    @app.task(retries=0, on_failure="notice")
    def fails() -> None:
        runs.append(time.monotonic())
        raise RuntimeError("again")

    noticed: list[object] = []

    @app.task
    def notice(failure: object) -> None:
        noticed.append(failure)

    schedule(app, "fails", fails, cron="* * * * * *")
    with Beside(app) as worker:
        wait_until(lambda: len(noticed) >= 3)
        made = worker.told("ticked")
    assert len(runs) >= 3
    assert len(made) >= 3
    wait_until(lambda: raw.zcard(f"{{{QUEUE}}}:dead_letter") == len(runs))
    [row] = app.client.run(store.read())
    assert row.last_outcome == "dead"
    app.client.run(store.remove("fails"))


def test_a_worker_registers_what_was_declared_and_notices_what_others_add(app: qdeck.App, raw: redis.Redis) -> None:
    schedule(app, "feeds", "feed", cron="0 0 1 1 *")
    raw.delete(store.SCHEDULES, store.STATE)
    with Beside(app):
        wait_until(lambda: raw.hlen(store.SCHEDULES) == 1)


@pytest.mark.timeout(240)
@pytest.mark.parametrize(("seconds", "rules"), [(6, 1), pytest.param(55, 4, marks=pytest.mark.slow)])
def test_a_ticker_frozen_past_its_turns_and_thawed_makes_no_double(
    app: qdeck.App, raw: redis.Redis, url: str, make_process: Callable[..., PythonProcess], seconds: float, rules: int
) -> None:
    """Two schedulers; one is frozen again and again; the jobs of all runs are done and trimmed at once.

    The slow one has more than 200 runs to make twice or to leave out.
    """
    for rule in range(rules):
        schedule(app, f"feeds-{rule}", "feed", cron="* * * * * *", missed="all")
    schedulers = [make_process("-m", "core._schedules.ticking", url) for _ in range(2)]
    wait_until(lambda: all("ready" in process.stdout for process in schedulers))
    until = time.monotonic() + seconds
    frozen = 0
    while time.monotonic() < until:
        process = schedulers[frozen % 2]
        process.signal(signal.SIGSTOP)
        time.sleep(1.3)
        raw.delete(*(f"{{{QUEUE}}}:{part}" for part in ("ready", "head", "body")))
        process.signal(signal.SIGCONT)
        time.sleep(0.2)
        frozen += 1

    def made() -> Counter[str]:
        told = [line for process in schedulers for line in list(process.stdout) if "'ticked'" in line]
        return Counter(word for line in told for word in line.split("'") if word.startswith("cron:"))

    def nothing_left_out(rule: int) -> bool:
        """The runs of a rule are one second apart."""
        runs = sorted(turn_of(job) for job in made() if job.startswith(f"cron:feeds-{rule}:"))
        return len(runs) >= seconds - 3 and {b - a for a, b in itertools.pairwise(runs)} == {1}

    # The one that was thawed last may have a run still to tell of.
    wait_until(lambda: all(nothing_left_out(rule) for rule in range(rules)))
    for process in schedulers:
        process.kill9()
    assert set(made().values()) == {1}
    assert [row.missed_runs for row in app.client.run(store.read())] == [0] * rules


async def test_turns_go_on_through_a_connection_that_breaks_all_the_time(
    app: qdeck.App, raw: redis.Redis, url: str, make_proxy: Callable[[str], FaultProxy]
) -> None:
    """The rule is data that any ticker reads again: nothing is left out, nothing is made twice."""
    schedule(app, "feeds", "feed", cron="* * * * * *", missed="all")
    proxy = make_proxy(url)
    clients = [AsyncClient(Endpoint(proxy.url)) for _ in range(2)]
    tickers = [asyncio.create_task(Ticker(client).run()) for client in clients]
    for _ in range(60):
        await asyncio.sleep(random.uniform(0.02, 0.1))
        proxy.reset_all()
        if random.random() < 0.3:
            proxy.drop_next_reply(containing=b"EVALSHA")
    await asyncio.sleep(1.5)
    for ticker in tickers:
        ticker.cancel()
    await asyncio.gather(*tickers, return_exceptions=True)
    for client in clients:
        await client.close()
    jobs: Any = raw.zrange(f"{{{QUEUE}}}:ready", 0, -1)
    runs = sorted(turn_of(job.decode()) for job in jobs)
    assert len(runs) >= 3
    assert {b - a for a, b in itertools.pairwise(runs)} == {1}


def turn_of(job: str) -> float:
    return datetime.strptime(job.rpartition(":")[2], "%Y%m%dT%H%M%S%z").timestamp()
