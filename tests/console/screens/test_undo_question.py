"""`u` names the batch before it acts, and offers none that was undone."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING

import pytest

from qdeck._server import queue_settings
from qdeck.admin import Writer
from support import screens
from support.screens import HOOKS, app_of, console, fill, row, text

if TYPE_CHECKING:
    from textual.pilot import Pilot

until = partial(screens.until, seconds=10.0)


def retry(url: str, most: int | None = None) -> str:
    """Retry dead letters; return the batch."""
    with Writer(url) as writer:
        ids = [job.id for job in writer.page(HOOKS, state="dead").jobs][:most]
        return writer.apply(writer.plan("retry", HOOKS, ids=ids)).batch


async def retry_all(pilot: Pilot[int]) -> None:
    """Retry the group under the cursor of Dead."""
    await until(pilot, "12 dead letters in 1 group, exact")
    await pilot.press("r")
    await until(pilot, "Retry 12 jobs")
    await pilot.press("tab", "enter")
    await until(pilot, "12 retried · u undoes it")


@pytest.mark.parametrize("size", [(120, 36), (80, 24)])
async def test_u_names_verb_jobs_queue_age_operator_and_batch(url: str, size: tuple[int, int]) -> None:
    fill(url)
    async with console(url, "4", size=size) as pilot:
        await retry_all(pilot)
        with Writer(url) as writer:
            [batch] = writer.batches()
        await pilot.press("u")
        seen = await until(pilot, "again")
        named = next(line for line in seen.splitlines() if "again" in line)
        assert re.search(r"undo\S* retry of 12 jobs in hooks, \d+s ago by you, b-\w{6}", named), named
        assert size[0] < 120 or batch in named
        assert row(url, HOOKS).dead == 0, "it is named first"
        await pilot.press("u")
        await until(pilot, "undone: retry of 12 jobs")
    assert row(url, HOOKS).dead == 12


async def test_u_names_the_operator_of_another_ones_batch(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(url)
    monkeypatch.setattr(queue_settings, "account", lambda: "ana")
    batch = retry(url, 5)
    monkeypatch.setattr(queue_settings, "account", lambda: "ben")
    async with console(url, "9") as pilot:
        await until(pilot, "1 operation")
        await pilot.press("u")
        seen = await until(pilot, "press u again to undo: retry of 5 jobs in hooks")
        assert "ago by ana@" in seen
        assert batch in seen
        await pilot.press("u")
        await until(pilot, "undone: retry of 5 jobs")
    assert row(url, HOOKS).dead == 12


async def test_a_batch_that_another_console_undid_is_not_offered(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(url)
    async with console(url, "4") as pilot:
        await retry_all(pilot)
        monkeypatch.setattr(queue_settings, "account", lambda: "ana")
        with Writer(url) as writer:
            writer.undo(next(iter(writer.batches())))
        monkeypatch.setattr(queue_settings, "account", lambda: "ben")
        await pilot.press("u")
        await until(pilot, "already undone: retry of 12 jobs, by ana at")
        await pilot.press("u")
        await pilot.pause(0.1)
        assert "again to undo" not in text(app_of(pilot))
        await pilot.press("9")
        await until(pilot, "2 operations")
        await pilot.press("G", "u")
        await until(pilot, "already undone by ana at")
    with Writer(url) as writer:
        assert [one.verb for one in writer.activity()] == ["retry", "undo"]


async def test_of_several_batches_u_offers_the_last_that_is_not_undone(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(url)
    async with console(url, "4") as pilot:
        await until(pilot, "12 dead letters in 1 group")
        await pilot.press("tab")
        await until(pilot, "1–12 of 12")
        await pilot.press("r")
        await until(pilot, "1 retried · u undoes it")
        await until(pilot, "1–11 of 11")
        await pilot.press("j", "x")
        await until(pilot, "1 discarded · u undoes it")
        monkeypatch.setattr(queue_settings, "account", lambda: "ana")
        with Writer(url) as writer:
            writer.undo(next(batch.id for batch in writer.batches().values() if batch.verb == "discard"))
        await pilot.press("u")
        await until(pilot, "press u again to undo: retry of 1 job in hooks")
        await pilot.press("u")
        await until(pilot, "undone: retry of 1 job")
    assert row(url, HOOKS).dead == 12
