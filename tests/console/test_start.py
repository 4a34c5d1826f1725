"""How the console starts: with little, and with a style sheet that is parsed once."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from textual.css.parse import parse

from qdeck import InvalidOption
from qdeck._deck.deck import Deck
from qdeck._settings import Target
from qdeck_console import commanding, starting
from qdeck_console.__main__ import main
from qdeck_console.app import ConsoleApp
from qdeck_console.contexts import Contexts
from qdeck_console.presenters.frame import Context
from qdeck_console.theme import INK, PAPER
from support.screens import console

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pytest
    from textual.css.model import RuleSet

# What takes long to load, and whatever brings it along.
LATE = (
    "redis", "qdeck._engine.ops", "qdeck._deck.model", "qdeck._filter.filter", "qdeck._operations.model",
    "qdeck._layouts.base", "qdeck_console.operating", "qdeck_console.screens.dead", "qdeck_console.screens.confirm",
    "qdeck_console.screens.help", "textual.widgets._text_area", "croniter", "zoneinfo", "json",
)  # fmt: skip


def test_the_first_frame_needs_nothing_that_reads_a_server() -> None:
    code = f"""
import sys
from qdeck_console.cli.start import open_console
from qdeck_console.running import run_console
from qdeck_console.screens.queues import QueuesScreen
print([name for name in {LATE!r} if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"


def test_what_is_loaded_later_is_there() -> None:
    for name in (*starting.READING, *starting.OTHERS):
        import_module(name)
    for mode, make in starting.SCREENS.items():
        assert getattr(make(), "TAB") == mode  # noqa: B009 - a screen of ours


def test_the_collector_rests_while_a_command_loads_and_works_while_it_runs() -> None:
    code = """
import gc, sys
from qdeck_console.__main__ import main
from qdeck_console.cli import look
seen = []
look.status.callback = lambda: seen.append((gc.isenabled(), gc.get_freeze_count() > 0))
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

    def fail() -> Deck:
        raise wrong

    async def never(*_names: object, **_how: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(starting, "load", never)  # the key comes first
    monkeypatch.setattr(commanding, "why_not", lambda console, _word: str(console.deck))
    contexts = Contexts(Target(url="redis://127.0.0.1:1"))
    app = ConsoleApp(fail, Context(title="x", server=""), contexts=contexts)
    async with app.run_test(size=(80, 24)):
        app.simulate_key("colon")
        await _until_failed(app)
    assert app.failure is wrong


async def test_a_screen_that_cannot_be_loaded_ends_it_and_is_told(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(starting, "OTHERS", ("qdeck_console.no_such_module",))
    monkeypatch.setattr(starting, "CALM_S", 0.0)
    app = ConsoleApp(lambda: Deck(url), Context(title="x", server=""), contexts=Contexts(Target(url=url)))
    async with app.run_test(size=(80, 24)):
        await _until_failed(app)
    assert isinstance(app.failure, ModuleNotFoundError)


async def _until_failed(app: ConsoleApp) -> None:
    async with asyncio.timeout(20):
        while app.failure is None:  # noqa: ASYNC110 - the app has no event for it
            await asyncio.sleep(0.02)
