"""The reason line of a queue: the cause in the words of its evidence, and the key that acts on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from qdeck.admin import Pause, QueueRef, Writer
from qdeck_console.screens.dead import DeadScreen
from qdeck_console.screens.stuck import StuckScreen
from support.screens import HOOKS, MAIL, SEARCH, app_of, bury, console, until

if TYPE_CHECKING:
    from collections.abc import Callable

    import redis

    from support.commands import Ran
    from support.servers import Server


def _webhooks(url: str, raw: redis.Redis) -> None:
    """Write 110 dead letters of which most died of one server."""
    raw.hset(f"{{{HOOKS}}}:meta", mapping={"dead_max": 10**6})
    down = {"class": "ConnectionError", "message": "502 Bad Gateway for url https://hooks.globex.example/orders/7"}
    bury(url, HOOKS, [down] * 90)
    bury(url, HOOKS, [{"class": "KeyError", "message": "'id'"}] * 20)


async def test_dead_letters_name_what_most_of_them_died_of_and_r_shows_them(
    url: str, raw: redis.Redis, qdeck: Callable[..., Ran]
) -> None:
    _webhooks(url, raw)
    cause = "90 × 502 from hooks.globex.example"
    [found] = [one for one in qdeck("status", "--json").json["findings"] if one["code"] == "dead"]
    assert found["cause"] == cause
    assert cause in qdeck("status").out
    for key in ("R", "enter"):
        async with console(url, size=(100, 30)) as pilot:
            app = app_of(pilot)
            await until(pilot, f"{cause} · R redrive")
            await pilot.press(key)
            await until(pilot, lambda app=app: isinstance(app.screen, DeadScreen))  # type: ignore[misc]  # bound now
            await until(pilot, f"queue:{HOOKS}")
    async with console(url, "8", size=(100, 30)) as pilot:
        await until(pilot, f"110 dead letters: {cause}")


async def test_a_stuck_job_is_named_with_its_reason_and_limit(url: str, raw: redis.Redis) -> None:
    seconds, _ = raw.time()
    hours = seconds - 4 * 3600
    raw.sadd("vmpooler__pools", "win-2025")
    raw.sadd("vmpooler__pending__win-2025", "slow-sloth")
    raw.hset("vmpooler__vm__slow-sloth", mapping={"clone": f"{hours}", "template": "win-2025"})
    async with console(url, size=(120, 30), adapters=("vmpooler",)) as pilot:
        shown = await until(pilot, "slow-sloth: pending for ")
        line = next(line for line in shown.splitlines() if "slow-sloth" in line)
        assert "(limit 2h) · b bury" in line
        assert "1 stuck" not in line
        await pilot.press("b")
        await until(pilot, lambda: isinstance(app_of(pilot).screen, StuckScreen))
        await until(pilot, "queue:win-2025")


async def test_a_paused_queue_says_in_its_row_who_paused_it_and_why(url: str) -> None:
    with Writer(url) as writer:
        writer.enqueue(SEARCH, "reindex")
        writer.enqueue(MAIL, "send")
        for queue, reason in ((SEARCH, "index is rebuilt"), (MAIL, "provider is down")):
            writer.pause(queue, reason=reason)
        writer.apply(writer.plan("discard", MAIL, state="ready"))
        pauses = [writer.pause_of(QueueRef.parse(f"native/{queue}")) for queue in (SEARCH, MAIL)]
    assert all(isinstance(pause, Pause) and pause.who for pause in pauses)
    who = pauses[0].who if pauses[0] else ""
    async with console(url, size=(120, 30)) as pilot:
        shown = await until(pilot, "index is rebuilt")
        line = next(line for line in shown.splitlines() if "index is rebuilt" in line)
        assert f"paused by {who} at " in line
        assert " · p resume" in line
        assert "provider is down" in shown, "a paused queue in which nothing waits says so, too"


async def test_a_queue_without_a_worker_names_the_tasks_that_wait_and_its_last_worker(
    url: str, raw: redis.Redis
) -> None:
    with Writer(url) as writer:
        writer.enqueue(MAIL, "shop.send")
    seconds, _ = raw.time()
    gone = f'{{"heartbeat_ms": {seconds * 1000 - 120_000}, "state": "running", "host": "eu-3", "queues": ["{MAIL}"]}}'
    raw.hset("qdeck:workers", "mailer-7", gone)
    async with console(url, size=(120, 30)) as pilot:
        await until(pilot, "no live worker: task shop.send waits; the last worker, mailer-7 on eu-3, was lost 2m 0")


@pytest.mark.parametrize("size", [(160, 48), (120, 36)])
async def test_what_now_has_the_command_that_starts_a_worker_and_y_copies_it(url: str, size: tuple[int, int]) -> None:
    with Writer(url) as writer:
        writer.enqueue(MAIL, "shop.send")
    command = f"qdeck worker MODULE:APP -q {MAIL}"
    async with console(url, size=size) as pilot:
        app = app_of(pilot)
        await until(pilot, "· enter what now")
        await pilot.press("enter")
        shown = await until(pilot, "y copies it")
        assert "shop.send waits" in shown
        assert command in shown
        await pilot.press("y")
        await until(pilot, lambda: app.clipboard == command)


@pytest.mark.parametrize("size", [(160, 48), (80, 24)])
async def test_health_has_the_line_that_repairs_the_server_and_y_copies_it(
    make_server: Callable[..., Server], size: tuple[int, int]
) -> None:
    server = make_server("--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru", "--appendonly", "yes")
    command = "CONFIG SET maxmemory-policy noeviction"
    async with console(server.url, "8", size=size) as pilot:
        app = app_of(pilot)
        await until(pilot, command)
        await pilot.press("y")
        await until(pilot, lambda: app.clipboard == command)


async def test_a_worker_whose_heartbeat_stopped_is_not_called_running(
    url: str, raw: redis.Redis, qdeck: Callable[..., Ran]
) -> None:
    seconds, _ = raw.time()
    for name, silent_s in (("fresh", 1), ("late", 36), ("gone", 300)):
        said = f'{{"heartbeat_ms": {(seconds - silent_s) * 1000}, "state": "running", "queues": ["{MAIL}"]}}'
        raw.hset("qdeck:workers", name, said)
    expected = {"fresh": "running", "late": "no heartbeat", "gone": "lost"}
    assert {row["id"]: row["condition"] for row in qdeck("workers", "--json").json} == expected
    lines = qdeck("workers").out.splitlines()
    assert all(expected[name] in next(line for line in lines if name in line) for name in expected)
    async with console(url, "7", size=(120, 30)) as pilot:
        await until(pilot, "no heartbeat")
