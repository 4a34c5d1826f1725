"""What a question says before anything is done: all terms of what was asked for, and what another system does then."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from core.adapters.test_conformance import FILL
from qdeck._engine import transitions
from qdeck.admin import ADAPTERS, Writer
from qdeck.testing.adapters import values
from qdeck_console.screens.job import JobScreen
from qdeck_console.screens.prompt import Prompt
from support.screens import HOOKS, MAIL, app_of, app_on, bury, command, console, row, run, shown, undo, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import redis
    from textual.pilot import Pilot


@contextlib.asynccontextmanager
async def page_of(url: str, job: str) -> AsyncIterator[Pilot[int]]:
    """The page of a job of another system."""
    async with shown(app_on(url, title="others", adapters=ADAPTERS)) as pilot:
        await command(pilot, f"find {job}")
        await until(pilot, lambda: isinstance(pilot.app.screen, JobScreen) and pilot.app.screen.targets() != ())
        yield pilot


async def words(pilot: Pilot[int], title: str) -> str:
    """The words of a question, once its title is shown."""
    return " ".join((await until(pilot, title, 10)).replace("┃", "").split())


async def test_a_redrive_repeats_its_rate_and_its_sample(url: str) -> None:
    bury(url, HOOKS, [{"class": "ConnectionError", "message": "refused"}] * 22)
    async with console(url, "4") as pilot:
        await until(pilot, "22 dead letters in 1 group")
        await pilot.press("R")
        await until(pilot, lambda: isinstance(app_of(pilot).screen, Prompt), 10)
        await pilot.press("end", "ctrl+u", *"300/m", "tab", "end", "ctrl+u", "5", "enter")
        asked = await words(pilot, "Redrive 22 jobs")
        assert "rate 300/m, at least 4.4s in total" in asked
        assert "sample 5 first; the rest only if they succeed" in asked
        await pilot.press("escape")
        await until(pilot, "nothing was changed", 10)
        assert row(url, HOOKS).dead == 22


async def test_a_question_about_all_says_how_many_are_left_out_and_why(url: str, raw: redis.Redis) -> None:
    FILL["scheduler"]().populate(raw)
    with Writer(url) as writer:
        for number in range(2):
            writer.enqueue(MAIL, "send", [number])
    run(url, transitions.poll(MAIL, "wrk-gone", 1, free_slots=2, lease_ms=1))
    async with shown(app_on(url, title="others", adapters=ADAPTERS)) as pilot:
        await pilot.press("3")
        await until(pilot, "5 stuck jobs")
        await pilot.press("asterisk")
        await until(pilot, "requeue all 5", 10)
        await pilot.press("r")
        asked = await words(pilot, "Requeue 2 of 5 jobs")
        assert "2 changed, or not in a state to requeue" in asked
        assert "1 its worker and start time cannot be read" in asked


async def test_what_stays_outside_is_said_before_a_vm_is_buried(url: str, raw: redis.Redis) -> None:
    FILL["vmpooler"]().populate(raw)
    async with page_of(url, "left-over") as pilot:
        before = values(raw)
        await pilot.press("b")
        assert "the VM itself is not changed" in await words(pilot, "Bury 1 job ")
        assert values(raw) == before


async def test_a_running_vm_is_cancelled_after_a_question_that_says_it_is_destroyed(url: str, raw: redis.Redis) -> None:
    FILL["vmpooler"]().populate(raw)
    raw.sadd("vmpooler__running__debian-12", "in-use")
    async with page_of(url, "in-use") as pilot:
        before = values(raw)
        await pilot.press("c")
        asked = await words(pilot, "Cancel 1 job ")
        assert "VMs are destroyed outside Redis; undo restores" in asked
        assert "undo all" in asked, "until it is destroyed"
        assert "requested to stop" not in asked, "no worker of qdeck has it"
        assert values(raw) == before
        await pilot.press("tab", "enter")
        await until(pilot, "1 cancelled", 10)
        await undo(pilot)
        await until(pilot, lambda: values(raw) == before, 10)
