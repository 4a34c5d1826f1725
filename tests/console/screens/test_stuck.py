"""The Stuck screen: what its filter matches is looked through once, however often it is asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qdeck._engine import transitions
from qdeck._filter import parse
from qdeck.admin import Writer
from qdeck_console.screens import stuck
from qdeck_console.screens.stuck import StuckScreen
from support.screens import MAIL, app_of, console, run, until

if TYPE_CHECKING:
    import pytest


async def test_a_filter_looks_at_each_job_once_a_refresh(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with Writer(url) as deck:
        deck.enqueue(MAIL, "send", [1])
    run(url, transitions.poll(MAIL, "wrk-gone", 1, free_slots=1, lease_ms=1))
    asked = 0

    def counted(text: str) -> object:
        nonlocal asked
        asked += 1
        return parse(text)

    async with console(url, "3") as pilot:
        await until(pilot, "worker lost  1")
        screen = app_of(pilot).screen
        assert isinstance(screen, StuckScreen)
        await pilot.press("f")  # no refresh while it is asked
        monkeypatch.setattr(stuck, "parse", counted)
        assert len(screen.matching()) == 1
        before = asked
        assert screen.has_jobs()
        assert len(screen.matching()) == 1
        assert asked == before
        screen.filter_text = "id:other"
        assert screen.matching() == []
        assert asked == before + 1
