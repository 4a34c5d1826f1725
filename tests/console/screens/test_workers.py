"""The Workers screen: hosts, what each worker runs and for how long, and asking one to be quiet or to stop."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from qdeck._engine import codec, keys, transitions
from qdeck.admin import WorkerRow, Writer
from qdeck_console.format import length
from qdeck_console.presenters import workers as present
from qdeck_console.presenters.line_parts import PLAIN
from qdeck_console.screens.job import JobScreen
from qdeck_console.screens.workers import WorkerScreen, WorkersScreen
from support.hostile import HOSTILE, is_clean
from support.screens import MAIL, SEARCH, app_of, console, lines, run, text, until

if TYPE_CHECKING:
    import redis

    from qdeck.adapters import Program


def tell(url: str, worker: str, **said: object) -> None:
    """A worker tells of itself."""
    now = time.time_ns() // 1_000_000
    facts = {
        "host": "box-1", "pid": 7, "state": "running", "queues": {MAIL: 2, SEARCH: 1}, "concurrency": 4, "running": 1,
        "done": 600, "failed": 3, "rss": 52_000_000, "started_ms": now - 60_000, "heartbeat_ms": now, "version": "1.0",
    }  # fmt: skip
    with Writer(url) as writer:
        writer.write(_told(worker, codec.encode_json(facts | said)))


def _told(worker: str, line: bytes) -> Program[None]:
    yield (b"HSET", keys.WORKERS, worker.encode("utf-8", "surrogatepass"), line)


@pytest.mark.parametrize("size", [(160, 48), (80, 24)])
async def test_a_worker_its_jobs_and_orders(url: str, size: tuple[int, int]) -> None:
    with Writer(url) as writer:
        for number in range(3):
            writer.enqueue(MAIL, "send", [f"letter {number}"])
    run(url, transitions.poll(MAIL, "wrk-a", 1, free_slots=2, lease_ms=600_000))
    tell(url, "wrk-a", running=2)
    tell(url, "wrk-b", host="box-2")
    tell(url, "wrk-old", heartbeat_ms=1, started_ms=0)
    async with console(url, "7", size=size) as pilot:
        app = app_of(pilot)
        seen = await until(pilot, "2 workers, 1 lost, 3 jobs running")
        assert all(len(line) == size[0] for line in lines(app))
        for word in ("box-1  1", "box-2  1", "wrk-a", "2/4", "lost"):
            assert word in seen, word
        screen = app.screen
        assert isinstance(screen, WorkersScreen)
        await pilot.press("slash", *"wrk-a", "enter")
        await until(pilot, lambda: screen.running is not None and len(screen.running.jobs) == 2)
        if size[0] >= 140:
            await until(pilot, "running jobs  2")
        await pilot.press("enter")
        await until(pilot, "send")
        page = app.screen
        assert isinstance(page, WorkerScreen)
        await until(pilot, "52.0 MB")
        await pilot.press("p")
        await until(pilot, "Quiet wrk-a")
        await pilot.press("tab", "enter")
        await until(pilot, "requested: quiet")
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, JobScreen))
        await until(pilot, "letter")
        await pilot.press("escape", "escape")
        await until(pilot, lambda: app.screen is screen)
        await pilot.press("x")
        await until(pilot, "Stop wrk-a")
        await pilot.press("tab", "enter")
        await until(pilot, "stop requested")
        await pilot.press("escape", "slash", *"old", "enter")
        await until(pilot, lambda: screen.chosen is not None and screen.chosen.id == "wrk-old")
        await pilot.press("p")
        await until(pilot, "the worker is not alive")
        await pilot.press("y")
        await until(pilot, lambda: app.clipboard == "wrk-old")


async def test_a_worker_is_not_stopped_before_it_is_known_what_it_alone_serves(url: str, raw: redis.Redis) -> None:
    with Writer(url) as writer:
        for number in range(7):
            writer.enqueue(MAIL, "send", [number])
    tell(url, "wrk-a")
    tell(url, "wrk-b", queues={SEARCH: 1})
    async with console(url, "7") as pilot:
        await until(pilot, "2 workers")
        for key, word in (("p", "Quiet"), ("x", "Stop")):
            await pilot.press(key)
            shown = await until(pilot, f"{word} wrk-a")
            assert "1   left without a worker" in shown
            assert "7   ready in mail" in shown
            assert "ready in search" not in shown, "another worker serves it"
            await pilot.press("enter")
            await until(pilot, "nothing was changed")
            assert raw.hget(keys.CONTROL, "wrk-a") is None, "enter alone does nothing"
        await pilot.press("p")
        await until(pilot, "Quiet wrk-a")
        await pilot.press("tab", "enter")
        await until(pilot, lambda: raw.hget(keys.CONTROL, "wrk-a") == b"quiet")
        await until(pilot, "p resume")
        await pilot.press("p")
        await until(pilot, "resume requested")
        assert raw.hget(keys.CONTROL, "wrk-a") is None
        await until(pilot, "p quiet")
        raw.hset(keys.CONTROL, "wrk-a", "quiet")
        for answer, stands in ((("enter",), b"quiet"), (("tab", "enter"), None)):
            await until(pilot, "p resume")
            await pilot.press("p")
            shown = await until(pilot, "Resume wrk-a")
            assert "by an unknown operator" in shown, "the last entry of the log is that it was resumed"
            await pilot.press(*answer)
            await until(pilot, lambda: app_of(pilot).operator.work is None)
            assert raw.hget(keys.CONTROL, "wrk-a") == stands


async def test_none_and_read_only(url: str) -> None:
    async with console(url, "7", size=(80, 24), read_only=True) as pilot:
        await until(pilot, "No workers")
        await pilot.press("p")
        await until(pilot, "read-only")
        for word in HOSTILE.values():
            tell(url, word, host=word.encode("utf-8", "replace").decode(), state="running")
        await until(pilot, "workers")
        for _ in range(3):
            await pilot.press("j")
            assert is_clean(text(app_of(pilot)).replace("\n", ""))


def test_jobs_a_second_come_from_heartbeats() -> None:
    speeds = present.Speeds()
    first = WorkerRow(id="a", alive=True, done=100, failed=0, heartbeat_ms=10_000, started_ms=0)
    speeds.note([first])
    assert speeds.of(first) == 10.0
    later = WorkerRow(id="a", alive=True, done=150, failed=10, heartbeat_ms=12_000, started_ms=0)
    speeds.note([later])
    assert speeds.of(later) == 30.0
    speeds.note([])
    assert speeds.told == {}
    assert speeds.of(WorkerRow(id="b", alive=True)) is None


def test_of_one_that_is_gone_nobody_knows_what_it_runs() -> None:
    row = WorkerRow(
        id="wrk-1", alive=False, running=0, concurrency=4, state="running", started_ms=0, heartbeat_ms=90_000,
        heartbeat_s=600.0,
    )  # fmt: skip
    line = present.TABLE.line(row, 118, present.Speeds(), at_cursor=False)
    assert "–/4" in "".join(part for part, _ in line)
    shown = [
        "".join(part for part, _ in line) for line in present.facts(row, 40, now_ms=690_000, speed=None, naming=PLAIN)
    ]
    assert any(line.split() == ["running", "–", "of", "4"] for line in shown)
    assert any(line.split() == ["was", "up", "1m", "30s"] for line in shown)
    head = present.running_head(row, present.Running(), 40)
    assert "jobs still held  0" in "".join(part for part, _ in head)


@pytest.mark.parametrize("cells", [60, 76, 100, 118])
def test_every_width_has_its_columns(cells: int) -> None:
    row = WorkerRow(id="wrk-1", alive=True, running=4, concurrency=4, state="running", done=1_234_567)
    line = present.TABLE.line(row, cells, present.Speeds(), at_cursor=False)
    assert length(line) <= cells
    assert "4/4" in "".join(part for part, _ in line)
    line = present.TABLE.line(
        replace(row, running=10_240, concurrency=12_345), cells, present.Speeds(), at_cursor=False
    )
    assert "10k/12k" in "".join(part for part, _ in line)
    assert length(present.TABLE.head(cells)) <= cells
    assert length(present.host_line("box", [row], cells)) <= cells
