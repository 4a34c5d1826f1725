"""Signs of ASCII only: every screen and every dialog, where each sign of another kind would be a question mark."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

import qdeck_console
from qdeck.admin import load_configuration
from qdeck_console.actions import TABS
from qdeck_console.contexts import Contexts
from qdeck_console.screens.editor import EditorScreen
from qdeck_console.screens.prompt import confirmation, live_question
from qdeck_console.text import plain_signs
from qdeck_console.textual_compat import strips_of
from support.screens import app_of, console, until
from support.still import paint

if TYPE_CHECKING:
    import redis
    from textual.pilot import Pilot

    from qdeck_console.app import ConsoleApp

HOME: Final = Path(qdeck_console.__file__).parent


def others(app: ConsoleApp) -> str:
    """What the screen on top shows that is not ASCII, with the lines that have it."""
    strips = strips_of(app.screen)
    lines = ["".join(part.text for part in strip) for strip in strips]
    return "\n".join(line.rstrip() for line in lines if not line.isascii())


async def look(pilot: Pilot[int], where: str) -> None:
    await pilot.pause(0.1)
    app = app_of(pilot)
    await until(pilot, lambda: app.shown.snapshot is not None)
    found = others(app)
    assert not found, f"{where}:\n{found}"


def test_every_sign_of_ours_has_one_of_ascii() -> None:
    """Whatever stands in a text of the console's own; what only reads text of others is left out."""
    lost = {}
    for file in sorted(HOME.rglob("*.py")):
        if file.name in {"output.py", "documents.py"}:  # they clean and check what others wrote
            continue
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            value = node.value if isinstance(node, ast.Constant) else None
            if isinstance(value, str) and not plain_signs(f"a {value} b").isascii():
                lost[value] = file.name
    assert not lost


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("colour", ["", "1"])
async def test_every_screen_and_dialog_is_ascii(
    url: str, raw: redis.Redis, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, colour: str
) -> None:
    monkeypatch.setenv("QDECK_ASCII", "1")
    monkeypatch.setenv("NO_COLOR", colour)
    monkeypatch.setenv("EDITOR", "/nonexistent")
    monkeypatch.delenv("VISUAL", raising=False)
    paint(url, raw)
    file = tmp_path / "qdeck.toml"
    file.touch(0o600)
    file.write_text(f'[contexts.here]\nurl = "{url}"\n[contexts.there]\nurl = "{url}"\nenvironment = "prod"\n')
    async with console(url) as pilot:
        app = app_of(pilot)
        app.contexts = Contexts(app.contexts.target, load_configuration(file))
        for size in ((160, 48), (80, 24)):
            await pilot.resize_terminal(*size)
            for name, number in TABS.items():
                await pilot.press(str(number))
                await until(pilot, lambda name=name: getattr(app.screen, "TAB", "") == name)  # type: ignore[misc] # a default
                await look(pilot, f"{name} at {size}")
        for keys, where in (
            (("question_mark",), "help"), (("question_mark", "slash", "r"), "help, searched"), (("colon",), "palette"),
            (("o",), "contexts"), (("w",), "file"), (("1", "slash", "i"), "filter"),
        ):  # fmt: skip
            await pilot.press(*keys)
            await look(pilot, where)
            await pilot.press("escape", "escape", "1")
        await pilot.press("4", "slash", *"age>", "enter")
        await look(pilot, "a filter that is wrong")
        await pilot.press("escape", "escape")
        for size in ((160, 48), (80, 24)):
            await pilot.resize_terminal(*size)
            await pilot.press("1", "enter")
            await look(pilot, "a queue or its jobs")
            await pilot.press("escape", "4")
            await until(pilot, lambda: bool(app.screen.query("#groups")))
            app.screen.query_one("#groups").focus()
            await pilot.press("g", "r")
            await until(pilot, "Cancel")
            await look(pilot, "confirm")
            await pilot.press("escape", "tab", "enter")
            await look(pilot, "a job")
            await pilot.press("4", "R")
            await look(pilot, "redrive")
            await pilot.press("escape", "5", "tab", "e")
            await look(pilot, "a threshold")
            await pilot.press("escape", "d")
            await until(pilot, "nothing was written")
            await look(pilot, "a plan")
            await pilot.press("1", "t")
            await look(pilot, "temporary queues")
            await pilot.press("escape")
        app.ask(EditorScreen(app, "a job", "{}", lambda _text: "wrong", wrong="not JSON"), lambda _text: None)
        await look(pilot, "editor")
        await pilot.press("escape")
        await pilot.resize_terminal(40, 10)
        await look(pilot, "a window that is too small")


async def test_dialogs_of_production_are_ascii_in_the_console_of_linux(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "linux")
    async with console(url) as pilot:
        app = app_of(pilot)
        app.ask(live_question(app), lambda _answer: None)
        await look(pilot, "live")
        await pilot.press("escape")
        plan = (("entries", "muted"), (" · ", "ghost"), ("3 ▸ 4 → …", "text"))
        app.ask(
            confirmation(app, "Purge", [plan], "Apply 3", name="prod-eu", note="live since 12:01"), lambda _yes: None
        )
        await pilot.press("p")
        await look(pilot, "confirm with a name")
