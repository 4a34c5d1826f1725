"""What a console that was killed left half done is named by the next one, which undoes it or continues it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from core._operations.test_interrupted import kill
from core._operations.yard import QUEUE, Yard
from qdeck.admin import Writer
from qdeck_console.screens.activity import BatchScreen
from support.screens import app_of, console, text, undo, until

if TYPE_CHECKING:
    import redis

TOTAL = 1200


@pytest.fixture
def yard(url: str, raw: redis.Redis) -> Yard:
    return Yard(url, raw)


@pytest.fixture
def half(yard: Yard) -> tuple[str, int]:
    """A discard that was killed in the middle: its batch, and how many jobs it removed."""
    yard.bulk_dead(TOTAL)
    with Writer(yard.url) as writer:
        plan = writer.plan("discard", QUEUE)
        kill(writer, plan.id, 1)
    yard.interrupt(plan.batch)
    gone = TOTAL - len(yard.ids("dead"))
    assert 0 < gone < TOTAL
    return plan.batch, gone


async def test_it_is_named_at_the_start_and_u_undoes_it(url: str, yard: Yard, half: tuple[str, int]) -> None:
    batch, gone = half
    async with console(url) as pilot:
        await until(pilot, f"interrupted: discard of {gone:,} of {TOTAL:,} jobs")
        await until(pilot, "u undoes it")
        await pilot.press("u")
        await until(pilot, f"press u again to undo: interrupted discard of {gone:,} jobs")
        await pilot.press("u")
        await until(pilot, "undone: interrupted discard")
        assert len(yard.ids("dead")) == TOTAL
        await pilot.press("9")
        seen = await until(pilot, "undo")
        assert "discard" in seen, "no operation disappears from the log"
    with Writer(url) as writer:
        assert [(one.verb, one.outcome) for one in writer.activity()] == [("discard", "interrupted"), ("undo", "done")]
        assert writer.batches()[batch].undone
    async with console(url) as pilot:
        await until(pilot, "1 queue")
        await pilot.press("9")
        await until(pilot, "discard")
        assert "u undoes it" not in text(app_of(pilot)), "it is named once"


async def test_enter_continues_it(url: str, yard: Yard, half: tuple[str, int]) -> None:
    _, gone = half
    left = TOTAL - gone
    async with console(url, "9") as pilot:
        seen = await until(pilot, f"interrupted: {gone:,} of {TOTAL:,}")
        assert "nothing is kept to undo it" not in seen
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app_of(pilot).screen, BatchScreen))
        await until(pilot, f"enter continues: {left:,} are left")
        await pilot.press("enter")
        await until(pilot, f"Continue to discard the other {left:,} of {TOTAL:,}")
        await pilot.press("right", "enter")
        await until(pilot, lambda: not yard.ids("dead"))
        await until(pilot, f"{TOTAL:,} discarded")
        await pilot.press("enter")
        await until(pilot, "it was continued")
    with Writer(url) as writer:
        assert [one.outcome for one in writer.activity()] == ["interrupted", "done"]
        assert writer.undo().restored == TOTAL


async def test_one_that_goes_on_elsewhere_is_named_when_it_stops(url: str, yard: Yard, half: tuple[str, int]) -> None:
    batch, gone = half
    now_ms = int(yard.raw.time()[0]) * 1000
    yard.interrupt(batch, appliers={"another": now_ms + 3000})
    async with console(url, "9") as pilot:
        seen = await until(pilot, "running: ")
        assert "interrupted" not in seen
        await pilot.press("u")
        await until(pilot, "still being applied by")
        await until(pilot, f"interrupted: discard of {gone:,} of {TOTAL:,} jobs")


async def test_after_an_undo_that_did_nothing_u_says_what_happened(url: str, yard: Yard) -> None:
    job = yard.die()
    async with console(url, "4") as pilot:
        await until(pilot, "TimeoutError")
        await pilot.press("enter")
        await until(pilot, job[-6:])
        await pilot.press("r")
        await until(pilot, "1 retried")
        [claimed] = yard.claim()
        yard.end(claimed)
        await undo(pilot)
        await until(pilot, "undo of retry of 1 job: nothing restored; 1 skipped")
        await pilot.press("u")
        await until(pilot, "nothing restored")
        assert "nothing to undo" not in text(app_of(pilot))
