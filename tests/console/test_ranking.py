"""One order of problems on every face, the key that goes through them, and where each is shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from qdeck._server import history
from qdeck.admin import Code, Writer
from qdeck_console.screens.dead import DeadScreen
from qdeck_console.screens.health import HealthScreen
from qdeck_console.screens.queue import QueueScreen
from qdeck_console.screens.queues import QueuesScreen
from qdeck_console.screens.stuck import StuckScreen
from support.screens import app_of, console, fill, lines, until
from support.yard import Yard

if TYPE_CHECKING:
    from collections.abc import Callable

    import redis

    from support.commands import Ran

FEW, MANY, BURIED = "demo:dev:aaa:actions", "demo:dev:zzz:actions", "demo:dev:dead:actions"


@pytest.fixture
def unserved(url: str, raw: redis.Redis) -> None:
    """One queue without a worker has one old job, another has 98, and a third has many dead letters."""
    with Writer(url) as writer:
        for queue, count in ((FEW, 1), (MANY, 98)):
            yard = Yard(writer, raw, queue)
            for _ in range(count):
                yard.ready(600)
        writer.enqueue(BURIED, "t")
        raw.delete(f"{{{BURIED}}}:ready")
        raw.hset(f"{{{BURIED}}}:meta", mapping={"ready": 0, "dead_letter": 1_200})


@pytest.mark.usefixtures("unserved")
async def test_the_problem_of_most_jobs_and_time_comes_first_on_every_face(url: str, qdeck: Callable[..., Ran]) -> None:
    for command in ("status", "health"):
        found = qdeck(command, "--json").json["findings"]
        assert [(one["queue"], one["code"]) for one in found] == [
            (BURIED, "dead"), (MANY, "no_worker"), (FEW, "no_worker")
        ]  # fmt: skip
    nagios = qdeck("health", "--nagios").out
    assert nagios.index(MANY) < nagios.index(FEW)
    async with console(url, size=(100, 36)) as pilot:
        app = app_of(pilot)
        screen = app.screen
        assert isinstance(screen, QueuesScreen)
        shown = [entry.row.name for entry in screen.rows]
        assert shown.index(MANY) < shown.index(FEW)
        headline = lines(app)[1]
        assert "1,200 dead letters" in headline
        assert "and 2 more" in headline
        await pilot.press("8")
        await until(pilot, "fine ")
        health = app.screen
        assert isinstance(health, HealthScreen)
        checks = [row.label for row in health.rows if row.label]
        assert checks.index(MANY) < checks.index(FEW)


def test_a_queue_that_fills_far_faster_than_it_drains_is_found_while_its_jobs_are_young(
    url: str, raw: redis.Redis, qdeck: Callable[..., Ran]
) -> None:
    with Writer(url) as writer:
        writer.enqueue(FEW, "t")
        yard = Yard(writer, raw, FEW)
        at = yard.now_ms - 20_000
        raw.hset(history.LATEST, mapping={"": at, FEW: f"{at} 0 0 0"})
        raw.hset(yard.key("meta"), mapping={"n:enqueued": 496, "n:done": 2, "ready": 416})
    found = {one["code"]: one["severity"] for one in qdeck("status", "--json").json["findings"]}
    assert found.get(Code.FILLING) == "degraded"


async def test_the_key_for_the_next_problem_goes_through_all_of_them_from_every_screen(url: str) -> None:
    fill(url)
    async with console(url, "9", size=(120, 36)) as pilot:
        app = app_of(pilot)
        seen = []
        for number in (1, 2, 3):
            await pilot.press("exclamation_mark")
            screen = await until(pilot, f"problem {number} of 3: ")
            seen.append(screen.partition(f"problem {number} of 3: ")[2].partition("  ")[0])
            kind = StuckScreen if "stuck" in seen[-1] else QueueScreen
            await until(pilot, lambda wanted=kind: isinstance(app.screen, wanted))  # type: ignore[misc]  # bound now
        assert ["stuck" in words for words in seen].count(True) == 1
        await pilot.press("exclamation_mark")
        again = (await until(pilot, "problem 1 of 3: ")).partition("problem 1 of 3: ")[2].partition("  ")[0]
        assert len({*seen}) == 3
        assert again in seen


@pytest.mark.usefixtures("unserved")
async def test_a_problem_of_dead_letters_is_shown_narrowed_to_its_queue(url: str) -> None:
    async with console(url, "8", size=(120, 36)) as pilot:
        app = app_of(pilot)
        await until(pilot, "dead letters, ")
        await pilot.press("slash", *"dead letters", "enter", "enter")
        await until(pilot, lambda: isinstance(app.screen, DeadScreen))
        await until(pilot, f"queue:{BURIED}")
