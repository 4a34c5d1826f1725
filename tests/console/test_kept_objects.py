"""What the console keeps of very many queues, and what a key computes again: counted, without a clock."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from qdeck.admin import QueueRow, ServerInfo, Snapshot, Status, Totals, Writer
from qdeck_console.history import SAMPLES, History
from qdeck_console.presenters import purge as present
from qdeck_console.screens.frame import FrameScreen
from qdeck_console.screens.purge import PurgeScreen
from qdeck_console.screens.purge_entries import EntriesScreen
from qdeck_console.screens.queue import QueueScreen
from support.kept_bytes import kept_bytes
from support.screens import app_of, console, dry_run, until

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

QUEUES = 500
NOW = 10**12


def test_the_chart_of_a_queue_takes_few_bytes() -> None:
    rows = tuple(QueueRow(name=f"demo:dev:q{n}:actions", ready=n, in_per_s=1.5, out_per_s=2.5) for n in range(QUEUES))

    def make() -> History:
        history = History()
        for second in range(4 * SAMPLES):
            seen = Snapshot(at_ms=NOW, server=ServerInfo(), status=Status.HEALTHY, totals=Totals(), queues=rows)
            for _ in history.steps(seen, 1000.0 + second):
                pass
        return history

    assert kept_bytes(make) // QUEUES < 600, "36 samples of three numbers, and little else"


async def test_a_covered_screen_keeps_no_queues(url: str) -> None:
    with Writer(url) as writer:
        writer.enqueue("demo:dev:mail:actions", "send")
    async with console(url, size=(120, 36)) as pilot:
        await until(pilot, "mail")
        below = app_of(pilot).screen
        assert isinstance(below, FrameScreen)
        view = below.view
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app_of(pilot).screen, QueueScreen) and below.feed_state.snapshot is None)
        assert not view.listing.items
        await pilot.press("escape")
        await until(pilot, lambda: app_of(pilot).screen is below and len(view.listing.items) > 0)
        await until(pilot, "mail")
        await pilot.press("question_mark")
        await until(pilot, lambda: app_of(pilot).screen is not below)
        await pilot.pause()
        assert below.feed_state.snapshot is not None, "a dialog covers a part of the screen only"


async def test_a_plan_is_summed_and_laid_out_once(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []

    def noted(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            calls.append(name)
            return function(*arguments)

        return call

    monkeypatch.setattr(present.PurgeTotals, "of", noted("sums", present.PurgeTotals.of))
    monkeypatch.setattr(present, "plan_rows", noted("rows", present.plan_rows))
    with Writer(url) as writer:
        for name in ("mail", "hooks"):
            writer.enqueue(f"demo:dev:{name}:actions", "send")
    async with console(url, "5") as pilot:
        screen = await dry_run(pilot, "would be purged")
        assert isinstance(screen, PurgeScreen)
        await pilot.press("tab")
        await until(pilot, lambda: screen.view.has_focus)
        seen = screen.feed_state.read_at
        await until(pilot, lambda: screen.feed_state.read_at > seen)
        calls.clear()
        seen = screen.feed_state.read_at
        await pilot.press("j", "k", "j", "G", "g")
        await until(pilot, lambda: screen.feed_state.read_at > seen)
        assert calls == []
        await pilot.press("enter")  # folds the rule
        await until(pilot, "▸ ready too old")
        assert set(calls) == {"rows"}
        await pilot.press("enter", "j", "enter")
        await until(pilot, lambda: isinstance(app_of(pilot).screen, EntriesScreen))
