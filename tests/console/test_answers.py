"""Three questions first: does work start in time, does it succeed, are workers and server well; on every face."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qdeck.admin import Writer
from support.screens import MAIL, SEARCH, app_of, console, lines, until
from support.yard import Yard

if TYPE_CHECKING:
    from collections.abc import Callable

    import redis

    from support.commands import Ran


def _unserved(url: str, raw: redis.Redis) -> None:
    """Write a queue without a worker and one with nothing to do."""
    with Writer(url) as writer:
        yard = Yard(writer, raw, MAIL)
        for _ in range(3):
            yard.ready(600)
        writer.enqueue(SEARCH, "t")
        writer.apply(writer.plan("discard", SEARCH, state="ready"))


def test_status_and_health_answer_the_questions_over_all_and_per_queue_with_the_next_command(
    url: str, raw: redis.Redis, qdeck: Callable[..., Ran]
) -> None:
    _unserved(url, raw)
    start = f"qdeck worker MODULE:APP -q {MAIL}"
    expected = [("flow", "unhealthy", start), ("execution", "healthy", None), ("liveness", "unhealthy", start)]
    seen = qdeck("status", "--json").json
    for found in (seen["answers"], qdeck("health", "--json").json["answers"]):
        assert [(one["question"], one["status"], one["command"]) for one in found] == expected
    of = {row["name"]: row["answers"] for row in seen["queues"]}
    assert of[MAIL] == {"flow": "unhealthy", "execution": "healthy", "liveness": "unhealthy"}
    assert set(of[SEARCH].values()) == {"healthy"}
    told = {line.split()[0]: line for line in qdeck("status").out.splitlines() if line.startswith("  ")}
    assert "unhealthy" in told["flow"]
    assert start in told["flow"]
    assert "healthy" in told["execution"]


async def test_the_console_answers_them_in_the_verdict_in_health_and_on_the_page_of_a_queue(
    url: str, raw: redis.Redis
) -> None:
    _unserved(url, raw)
    async with console(url, size=(160, 48)) as pilot:
        await until(pilot, "no live worker: ")
        assert "✗ flow  • execution  ✗ liveness" in lines(app_of(pilot))[1]
    async with console(url, "8", size=(80, 24)) as pilot:
        shown = await until(pilot, "questions ")
        assert "✗ flow       no live worker for" in shown
        assert "• execution" in shown
        await pilot.press("1", "enter")
        await until(pilot, "✗ flow  • execution  ✗ liveness")
