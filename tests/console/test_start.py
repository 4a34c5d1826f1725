"""How the console starts: with little, and with a style sheet that is parsed once."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from textual.css.parse import parse

from qdeck import InvalidOption
from qdeck_console import palette_actions, startup
from qdeck_console.__main__ import main
from qdeck_console.actions import TABS
from qdeck_console.app import ConsoleApp
from qdeck_console.contexts import Contexts
from qdeck_console.theme import INK, PAPER
from support.screens import app_on, console

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pytest
    from textual.css.model import RuleSet


# What takes long to load, and whatever brings it along.
LATE = (
    "redis", "qdeck._engine.transitions", "qdeck._model.values", "qdeck._filter.filter", "qdeck._operations.model",
    "qdeck.adapters.adapter", "qdeck.adapters.model", "qdeck_console.operations", "qdeck_console.screens.dead",
    "qdeck_console.screens.prompt", "qdeck_console.screens.help", "textual.widgets._text_area",
    "croniter", "zoneinfo", "json",
)  # fmt: skip


def test_the_first_frame_needs_nothing_that_reads_a_server() -> None:
    code = f"""
import sys
from qdeck_console.cli.open_console import open_console
from qdeck_console.run_console import run_console
from qdeck_console.screens.queues import QueuesScreen
print([name for name in {LATE!r} if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"


def test_each_tab_makes_its_screen() -> None:
    for name in TABS:
        assert getattr(startup.screen(name)(), "TAB") == name  # noqa: B009 - a screen of ours


def test_the_collector_rests_while_a_command_loads_and_works_while_it_runs() -> None:
    code = """
import gc, sys
from qdeck_console.__main__ import main
from qdeck_console.cli import status
seen = []
status.status.callback = lambda **_: seen.append((gc.isenabled(), gc.get_freeze_count() > 0))
sys.argv = ["qdeck", "status"]
gc.callbacks.append(lambda phase, info: seen.append("collected") if not gc.get_freeze_count() else None)
main()
print(seen)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[(True, True)]"


def test_the_collector_of_another_program_is_left_alone(capsys: pytest.CaptureFixture[str]) -> None:
    before = gc.get_freeze_count()
    assert main(["--version"]) == 0
    assert gc.isenabled()
    assert gc.get_freeze_count() == before
    assert capsys.readouterr().out.startswith("qdeck ")


async def test_the_style_sheet_is_parsed_once_for_each_set_of_colours(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed: list[str] = []

    def counted(scope: str, css: str, read_from: tuple[str, str], **more: Any) -> Iterable[RuleSet]:
        parsed.append(Path(read_from[0]).name)
        return parse(scope, css, read_from, **more)

    monkeypatch.setattr("textual.css.stylesheet.parse", counted)
    async with console(url) as pilot:
        for theme, palette in (("qdeck-ink", INK), ("qdeck-paper", PAPER)):
            parsed.clear()
            pilot.app.theme = theme
            await pilot.press("4", "8", "1", "question_mark", "escape")
            await pilot.pause()
            assert pilot.app.screen.styles.background.hex == palette.ground
            assert parsed.count("console.tcss") == 1


async def test_a_key_that_asks_for_a_deck_that_cannot_be_leaves_why(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = InvalidOption("no such address")

    def fail(*_: object, **__: object) -> NoReturn:
        raise wrong

    monkeypatch.setattr(ConsoleApp, "_begin", lambda _app: None)  # the key comes first
    monkeypatch.setattr(palette_actions, "why_not", lambda console, _word: str(console.reader))
    monkeypatch.setattr(Contexts, "open", fail)
    app = app_on("redis://127.0.0.1:1")
    async with app.run_test(size=(80, 24)):
        app.simulate_key("colon")
        await _until_failed(app)
    assert app.failure is wrong


async def test_old_garbage_is_collected_once_no_keys_come(monkeypatch: pytest.MonkeyPatch) -> None:
    thresholds, asked, full = gc.get_threshold(), asyncio.Event(), asyncio.Event()
    pressed_at = float("inf")  # keys come all the time

    def last_key_at() -> float:
        asked.set()
        return pressed_at

    def noted(phase: str, info: dict[str, int]) -> None:
        if phase == "stop" and info["generation"] == 2:
            full.set()

    monkeypatch.setattr(startup, "COLLECT_S", 0.0)
    monkeypatch.setattr(startup, "IDLE_S", 0.01)
    gc.callbacks.append(noted)
    collecting = asyncio.create_task(startup.collect_when_idle(last_key_at))
    try:
        async with asyncio.timeout(20):
            for _ in range(3):
                asked.clear()
                await asked.wait()
            assert gc.get_threshold() == (2_000, 2, 1_000_000)
            assert not full.is_set()
            pressed_at = float("-inf")
            await full.wait()
    finally:
        collecting.cancel()
        gc.callbacks.remove(noted)
        gc.set_threshold(*thresholds)


async def _until_failed(app: ConsoleApp) -> None:
    async with asyncio.timeout(20):
        while app.failure is None:  # noqa: ASYNC110 - the app has no event for it
            await asyncio.sleep(0.02)
