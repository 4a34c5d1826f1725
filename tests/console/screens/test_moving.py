"""Lists that move under whoever looks: what is gone, what is marked, and which job a key means."""

from __future__ import annotations

import contextlib
import json
import threading
from typing import TYPE_CHECKING

import pytest

from qdeck._engine import keys, transitions
from qdeck._server import queue_settings
from qdeck.admin import JobRecord, Writer
from qdeck_console import departed_jobs
from qdeck_console.presenters import stuck as present
from qdeck_console.presenters.stuck import StuckRow
from qdeck_console.screens import job_list
from qdeck_console.widgets.lines import LineList
from support.screens import app_of, bury, claim, command, console, row, run, text, until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import redis
    from textual.pilot import Pilot

MAIL, BILLS = "demo:dev:mail:actions", "demo:dev:bills:actions"
REFUSED = {"class": "ConnectionError", "message": "502"}


def view(pilot: Pilot[int]) -> LineList:
    return pilot.app.screen.query_one("#list", LineList)


def at(pilot: Pilot[int]) -> JobRecord:
    """The job under the cursor."""
    found = view(pilot).row
    found = found.job if isinstance(found, StuckRow) else found
    assert isinstance(found, JobRecord)
    return found


def marked(pilot: Pilot[int]) -> set[str]:
    return {key.rpartition("/")[2] for key in view(pilot).marks}


def enqueue(url: str, count: int, queue: str = MAIL) -> list[str]:
    with Writer(url) as writer:
        return [writer.enqueue(queue, "send", [number]).id for number in range(count)]


def state(url: str, job_id: str) -> str:
    with Writer(url) as writer:
        return writer.job(MAIL, job_id).state


def act(url: str, verb: str, *ids: str) -> None:
    """Somebody else does something to jobs."""
    with Writer(url) as writer:
        assert writer.apply(writer.plan(verb, MAIL, ids=ids)).applied == len(ids)


async def test_a_dead_letter_that_is_retried_while_it_is_looked_at_tells_by_whom(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bury(url, MAIL, [REFUSED] * 4)
    monkeypatch.setattr(queue_settings, "account", lambda: "ana\x1b[2J")
    async with console(url, "4") as pilot:
        await until(pilot, "1–4 of 4")
        await pilot.press("tab", "j")
        chosen = at(pilot).id
        act(url, "retry", chosen)
        shown = await until(pilot, "retried by ana")
        assert "\x1b" not in shown
        assert any("s ago" in line for line in shown.splitlines() if "retried by" in line)
        assert view(pilot).cursor.endswith(chosen)
        await pilot.press("x")
        await until(pilot, "it is ready now")
        assert (row(url, MAIL).dead, row(url, MAIL).ready) == (3, 1)
        await pilot.press("j")
        await until(pilot, lambda: "retried by" not in text(app_of(pilot)))
        await until(pilot, "1–3 of 3")


@pytest.mark.slow
async def test_what_was_discarded_is_told_from_the_log_and_goes_after_a_while(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = enqueue(url, 4)
    monkeypatch.setattr(queue_settings, "account", lambda: "ana")
    monkeypatch.setattr(departed_jobs, "SHOWN_S", 2.0)
    async with console(url, "2") as pilot:
        await until(pilot, "1–4 of 4")
        await until(pilot, lambda: view(pilot).row is not None)
        assert at(pilot).id == ids[0]
        act(url, "discard", ids[0])
        await until(pilot, "discarded by ana ")
        await until(pilot, lambda: view(pilot).row is None)
        await until(pilot, "1–3 of 3")
        assert "left the list" not in text(app_of(pilot)), "its time is over"
        await pilot.press("x")
        await until(pilot, "no job under the cursor")
        await pilot.press("j")
        await until(pilot, lambda: view(pilot).row is not None)
        assert at(pilot).id == ids[1], "the next one took its place"


async def test_a_job_in_its_last_lease_is_stuck(url: str, raw: redis.Redis) -> None:
    """The row of its queue, the tab, the list and the command count the same jobs, however many run beside them."""
    enqueue(url, 80)
    running = keys.key(MAIL, "running")
    late, bare, warned = (job.id for job in claim(url, MAIL, 3, lease_ms=600_000))
    raw.zadd(running, {warned: 1})
    assert run(url, transitions.reap(MAIL)).warned == 1
    claim(url, MAIL, 77)  # their leases end before the grace of the one that was warned
    raw.zadd(running, {late: 1, bare: 1})
    raw.hdel(keys.key(MAIL, "lease"), bare)
    with Writer(url) as writer:
        assert {job.id for job in writer.stuck()} == {late, bare, warned}
    assert row(url, MAIL).stuck == 3
    async with console(url, "3") as pilot:
        shown = await until(pilot, "3 stuck jobs")
        assert "worker lost  2" in shown
        assert "no lease  1" in shown
        assert "Stuck 3" in shown
        assert {item.key.rpartition("/")[2] for item in view(pilot).listing.items if item.key} == {late, bare, warned}


@pytest.mark.slow
async def test_a_stuck_job_that_is_taken_back_is_shown_as_gone(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    enqueue(url, 5)
    claim(url, MAIL, 5, lease_ms=1)
    monkeypatch.setattr(queue_settings, "account", lambda: "ana")
    async with console(url, "3") as pilot:
        await until(pilot, "5 stuck jobs")
        await pilot.press("g", "j", "j")
        chosen = at(pilot).id
        act(url, "requeue", chosen)
        await until(pilot, "requeued by ana ")
        await pilot.press("r")
        await until(pilot, "it is ready now")
        assert row(url, MAIL).running == 4, "neither it nor its neighbour"
        await pilot.press("k")
        await until(pilot, lambda: "requeued by" not in text(app_of(pilot)))
        assert at(pilot).id != chosen


@pytest.mark.parametrize(
    ("screen", "verb"),
    [
        ("2", "cancel"),
        pytest.param("3", "requeue", marks=pytest.mark.slow),
        pytest.param("4", "retry", marks=pytest.mark.slow),
    ],
)
async def test_marks_of_jobs_that_are_gone_are_dropped_and_told(url: str, screen: str, verb: str) -> None:
    if screen == "4":
        bury(url, MAIL, [REFUSED] * 6)
    else:
        enqueue(url, 6)
    if screen == "3":
        claim(url, MAIL, 6, lease_ms=1)
    async with console(url, screen) as pilot:
        await until(pilot, "6 stuck jobs" if screen == "3" else "1–6 of 6")
        await pilot.press(*(["tab"] if screen == "4" else []), "g", "space", "space", "space")
        await until(pilot, "◆ 3 marked")
        act(url, verb, *sorted(marked(pilot))[:2])
        await until(pilot, "2 marked jobs left the list")
        await until(pilot, "◆ 1 marked")


async def test_a_range_over_jobs_that_were_not_read_marks_all_of_them(url: str) -> None:
    ids = enqueue(url, 700)
    async with console(url, "2") as pilot:
        await until(pilot, "of 700")
        await pilot.press("j", "j", "v", "G")
        await until(pilot, "of 698, v marks the rest")
        await pilot.press("x")
        await until(pilot, "v completes the range first")
        await pilot.press("v")
        await until(pilot, "698 jobs marked")
        assert marked(pilot) == set(ids[2:])
        await pilot.press("c")
        await until(pilot, "Cancel 698 jobs")
        await pilot.press("tab", "enter")
        await until(pilot, "698 cancelled")
        await until(pilot, "1–2 of 2")


@pytest.mark.slow
async def test_a_range_upwards_in_a_list_that_moves_marks_what_is_between_its_ends(url: str) -> None:
    ids = enqueue(url, 620)
    async with console(url, "2") as pilot:
        await until(pilot, "of 620")
        await pilot.press("G")
        await until(pilot, lambda: view(pilot).row is not None)
        await pilot.press("k", "v", "g")
        await until(pilot, ", v marks the rest")
        await pilot.press("j", "j", "j", "j")
        await until(pilot, lambda: isinstance(view(pilot).row, JobRecord))
        upper = at(pilot).id
        claim(url, MAIL, 2)  # the first ones go, the list moves up
        await until(pilot, "of 618")
        await pilot.press("v")
        await until(pilot, "jobs marked")
        assert marked(pilot) == set(ids[ids.index(upper) : 619])


@pytest.mark.slow
async def test_a_range_of_very_many_is_refused_in_words(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_list, "MOST_MARKED", 200)
    enqueue(url, 300)
    async with console(url, "2") as pilot:
        await until(pilot, "of 300")
        await pilot.press("v", "G", "v")
        await until(pilot, "range of 300 jobs: at most 200 can be marked")
        await pilot.press("escape")
        await until(pilot, lambda: not view(pilot).marks and not view(pilot).in_range)


@contextlib.contextmanager
def moving(step: Callable[[int], None]) -> Iterator[None]:
    """Others change the list all the time."""
    over = threading.Event()

    def run() -> None:
        number = 0
        while not over.wait(0.03):
            step(number)
            number += 1

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


async def test_a_key_means_the_job_under_the_cursor_while_others_are_claimed(url: str) -> None:
    enqueue(url, 300)

    def step(_number: int) -> None:
        claim(url, MAIL, 1)
        enqueue(url, 1)

    async with console(url, "2") as pilot:
        await until(pilot, "of 300")
        await pilot.press("G")
        await until(pilot, lambda: isinstance(view(pilot).row, JobRecord))
        with moving(step):
            for _ in range(2):
                await pilot.press("k", "k")
                await until(pilot, lambda: isinstance(view(pilot).row, JobRecord))
                chosen, place = at(pilot).id, view(pilot).place
                await until(pilot, lambda was=place: view(pilot).place != was)  # type: ignore[misc] # mypy knows no defaults here
                assert at(pilot).id == chosen
                await pilot.press("c")
                await until(pilot, "cancelled by")
                assert state(url, chosen) == "cancelled"
        assert row(url, MAIL).cancelled == 2


@pytest.mark.slow
async def test_a_key_means_the_dead_letter_under_the_cursor_while_others_go(url: str) -> None:
    bury(url, MAIL, [REFUSED] * 60)
    with Writer(url) as writer:
        newest = iter([job.id for job in writer.jobs(MAIL, state="dead", limit=20)])

    def step(_number: int) -> None:
        if (job_id := next(newest, None)) is not None:
            act(url, "discard", job_id)

    async with console(url, "4") as pilot:
        await until(pilot, "of 60")
        await pilot.press("tab", *["j"] * 40)
        chosen, place = at(pilot).id, view(pilot).place
        with moving(step):
            await until(pilot, lambda: view(pilot).place == (place or 0) - 20)
            assert at(pilot).id == chosen
        await pilot.press("r")
        await until(pilot, "retried by")
        assert state(url, chosen) == "ready"
        assert (row(url, MAIL).dead, row(url, MAIL).ready) == (39, 1)


@pytest.mark.slow
async def test_a_key_means_the_stuck_job_under_the_cursor_while_others_go(url: str) -> None:
    enqueue(url, 30)
    claim(url, MAIL, 30, lease_ms=1)
    async with console(url, "3") as pilot:
        await until(pilot, "30 stuck jobs")
        others = [item.key.rpartition("/")[2] for item in view(pilot).listing.items if item.key]
        await pilot.press("g", *["j"] * 20)
        chosen = at(pilot).id
        left = iter(others[:10])

        def step(_number: int) -> None:
            if (job_id := next(left, None)) is not None:
                act(url, "requeue", job_id)

        with moving(step):
            await until(pilot, "20 stuck jobs")
            assert at(pilot).id == chosen
        await pilot.press("r")
        await until(pilot, "its worker loses the lease")
        await pilot.press("tab", "enter")
        await until(pilot, "1 requeued")
        assert state(url, chosen) == "ready"
        assert row(url, MAIL).running == 19


@pytest.mark.slow
async def test_a_key_means_the_queue_under_the_cursor_while_others_come(url: str) -> None:
    enqueue(url, 1)
    enqueue(url, 1, BILLS)

    def step(number: int) -> None:
        if number < 15:
            enqueue(url, 1, f"demo:dev:a{number:02}:actions")

    async with console(url) as pilot:
        await until(pilot, "2 queues")
        await pilot.press("j")
        chosen = view(pilot).cursor
        with moving(step):
            await until(pilot, "17 queues")
            assert view(pilot).cursor == chosen
        await pilot.press("p")
        await until(pilot, "No jobs are claimed until it is resumed.")
        await pilot.press("enter")
        await until(pilot, lambda: bool(row(url, chosen).paused))
        with Writer(url) as writer:
            assert [str(queue.ref) for queue in writer.snapshot().queues if queue.paused] == [chosen]


async def test_all_that_match_are_written_however_few_are_shown(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(present, "MOST", 20)
    enqueue(url, 300)
    claim(url, MAIL, 40, lease_ms=1)
    async with console(url, "2") as pilot:
        await until(pilot, "of 260")
        await command(pilot, f"write {tmp_path}/ready.jsonl")
        await until(pilot, "260 ready jobs written to")
        assert len((tmp_path / "ready.jsonl").read_text().splitlines()) == 260
        await pilot.press("3")
        await until(pilot, "20 stuck jobs of 40")
        await command(pilot, f"write {tmp_path}/stuck.jsonl")
        await until(pilot, "40 rows written to")
        rows = [json.loads(line) for line in (tmp_path / "stuck.jsonl").read_text().splitlines()]
        assert len({row["id"] for row in rows}) == 40
        assert all(row["why"].startswith("worker lost") for row in rows)
        await command(pilot, f"filter id:{rows[7]['id']}")
        await until(pilot, "1 stuck job")
        await pilot.press("w")
        await until(pilot, "Write all matching rows to a file")
        await pilot.press("escape")
        await command(pilot, f"write {tmp_path}/one.jsonl")
        await until(pilot, "1 row written to")
        assert json.loads((tmp_path / "one.jsonl").read_text())["id"] == rows[7]["id"]


async def test_a_job_that_scrolled_out_is_neither_beside_the_list_nor_acted_on(url: str) -> None:
    bury(url, MAIL, [REFUSED] * 8)
    async with console(url, "4") as pilot:
        await until(pilot, "1–8 of 8")
        await pilot.press("tab")
        await until(pilot, lambda: at(pilot).id in text(app_of(pilot)).partition("│")[2])
        chosen = at(pilot).id
        bury(url, MAIL, [REFUSED] * 40)  # the newest come first and push it down
        await until(pilot, lambda: view(pilot).is_out_of_sight)
        await until(pilot, "out of sight: j or k shows it")
        assert chosen not in text(app_of(pilot))
        for key in ("x", "r", "e"):
            await pilot.press(key)
            assert "out of sight" in app_of(pilot).note()[0][0]
        assert row(url, MAIL).dead == 48
        await pilot.press("j")
        await until(pilot, lambda: not view(pilot).is_out_of_sight)
        await pilot.press("k")
        await until(pilot, lambda: at(pilot).id == chosen)
        await until(pilot, chosen)
        await pilot.press("x")
        await until(pilot, "1 discarded")
        assert row(url, MAIL).dead == 47
