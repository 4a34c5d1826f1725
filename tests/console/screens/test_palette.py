"""The palette, the help and what leaves the console: every command by name, and why one cannot act."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING

import pytest
from textual.widgets import Input

from qdeck import InvalidOption
from qdeck.admin import NATIVE, Target, Writer, load_configuration
from qdeck_console.actions import ACTIONS
from qdeck_console.contexts import Contexts
from qdeck_console.palette_actions import every
from qdeck_console.palette_commands import WORDS, score, split
from qdeck_console.screens.frame import FrameScreen
from qdeck_console.screens.job import JobScreen
from qdeck_console.screens.queue import QueueScreen
from support.screens import HOOKS, MAIL, app_in, app_of, command, console, fill, shown, text, until

if TYPE_CHECKING:
    from pathlib import Path

    from qdeck_console.app import ConsoleApp


def test_fuzzy_search_prefers_beginnings() -> None:
    names = ["freeze", "retry", "requeue", "read-only", "first"]
    found = sorted(
        (name for name in names if score("re", name) is not None), key=lambda name: -(score("re", name) or 0)
    )
    assert found[:3] == ["retry", "requeue", "read-only"]
    assert score("rdl", "read-only") is not None
    assert score("zz", "retry") is None
    assert score("", "anything") == 0


def test_a_word_and_what_follows_it() -> None:
    word, rest = split(":find  job-1 ")
    assert word is not None
    assert (word.name, rest) == ("find", "job-1")
    assert split("find") == (None, "")
    assert split("live now") == (None, "")
    assert len({word.name for word in WORDS}) == len(WORDS)


async def test_every_action_is_a_command_and_one_that_cannot_act_says_why(url: str) -> None:
    fill(url)
    async with console(url, size=(80, 24), read_only=True) as pilot:
        app = app_of(pilot)
        assert isinstance(app.screen, FrameScreen)
        commands = every(app, app.screen)
        keys = {command.keys for command in commands}
        assert {action.key_name for action in ACTIONS if action.group != "move"} <= keys
        await pilot.press("ctrl+p")
        await until(pilot, "enter run")
        await pilot.press("enter")
        assert app.screen.query("#words"), "nothing was named, so nothing was changed"
        await pilot.press(*"pause")
        shown = await until(pilot, "∅ read-only")
        assert "freeze" not in shown
        await pilot.press("enter")
        await until(pilot, "pause: read-only")
        await pilot.press("colon", *"xyzxyz")
        await until(pilot, "no command matches")
        await pilot.press("escape")
        await command(pilot, "sort")
        await until(pilot, lambda: "by name" in text(app) or "sorted" in text(app) or "name ↓" in text(app))
        await command(pilot, "stuck")
        await until(pilot, "wrk-gone")
        assert app.current_mode == "stuck"
        await command(pilot, "last")
        await command(pilot, "theme pap")
        await until(pilot, lambda: app.theme == "qdeck-paper")
        await pilot.press("colon", *"theme", "tab")
        await until(pilot, "qdeck-16")
        await pilot.press("escape", "question_mark", "slash", *"freeze", "enter")
        await until(pilot, "FROZEN")


async def test_find_opens_a_job_wherever_it_is(url: str) -> None:
    fill(url)
    with Writer(url) as writer:
        made = writer.enqueue(MAIL, "send", ["letter"], id="job-wanted")
    async with console(url) as pilot:
        app = app_of(pilot)
        await command(pilot, "find nowhere")
        await until(pilot, "nowhere was not found in any queue")
        await command(pilot, f"find {made.id}")
        await until(pilot, "letter")
        assert isinstance(app.screen, JobScreen)
        await pilot.press("escape")
        await command(pilot, "queue hooks")
        await until(pilot, HOOKS)
        await pilot.press("escape")
        await command(pilot, "filter mail")
        await until(pilot, "1 of 3 queues")
        await pilot.press("colon", *"filter", "enter", "escape", "escape")
        await until(pilot, "3 queues,")


async def test_copy_and_write(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(url)
    monkeypatch.chdir(tmp_path)
    async with console(url) as pilot:
        app = app_of(pilot)
        await until(pilot, "3 queues,")
        await pilot.press("g", "y")
        await until(pilot, "name sent to the clipboard")
        assert app.clipboard == MAIL
        await pilot.press("w")
        await until(pilot, "Write 3 rows to a file")
        await pilot.press("enter")
        await until(pilot, "3 rows written to")
        [path] = list(tmp_path.iterdir())
        assert path.stat().st_mode & 0o077 == 0
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        assert {row["name"] for row in rows} >= {MAIL, HOOKS}
        await command(pilot, f"write {path.name}")
        await until(pilot, "already exists")
        await command(pilot, "write no/such/folder")
        await until(pilot, "No such file")
        assert len(list(tmp_path.iterdir())) == 1


async def test_the_mouse_works_in_dialogs(url: str) -> None:
    fill(url)
    async with console(url) as pilot:
        app = app_of(pilot)
        await pilot.press("colon", *"freeze")
        await until(pilot, lambda: "sort" not in text(app).split("freeze")[0][-200:])
        await pilot.click("#choices", offset=(5, 0))
        await until(pilot, "FROZEN")
        await pilot.press("f", "question_mark", "slash", *"stuck")
        await until(pilot, lambda: bool(app.screen.query("#choices")) and app.screen.query_one("#choices").display)
        await pilot.click("#choices", offset=(5, 0))
        await until(pilot, lambda: app.current_mode == "stuck")


async def test_a_queue_is_opened_by_some_letters_of_its_name(url: str) -> None:
    fill(url)
    async with console(url, size=(120, 36)) as pilot:
        await until(pilot, "hooks")
        await pilot.press("colon", *"hoo")
        await until(pilot, "open the queue")
        await pilot.press("tab")
        await until(pilot, lambda: app_of(pilot).screen.query_one("#words", Input).value == HOOKS)
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app_of(pilot).screen, QueueScreen))
        await until(pilot, HOOKS)


async def test_tab_keeps_the_word_and_completes_its_argument(url: str) -> None:
    fill(url)
    async with console(url) as pilot:
        await pilot.press("colon", *"theme pap")
        await until(pilot, "qdeck-paper")
        await pilot.press("tab")
        box = app_of(pilot).screen.query_one("#words", Input)
        await until(pilot, lambda: box.value == "theme qdeck-paper")
        await pilot.press("enter")
        await until(pilot, lambda: app_of(pilot).theme == "qdeck-paper")


async def test_up_writes_the_last_commands(url: str) -> None:
    fill(url)
    async with console(url) as pilot:
        for name in ("stuck", "theme qdeck-paper"):
            await command(pilot, name)
        await pilot.press("colon", "up")
        box = app_of(pilot).screen.query_one("#words", Input)
        await until(pilot, lambda: box.value == "theme qdeck-paper")
        await pilot.press("up")
        await until(pilot, lambda: box.value == "stuck")
        await pilot.press("up")
        assert box.value == "stuck"
        await pilot.press("down", "down")
        await until(pilot, lambda: box.value == "")
        await pilot.press("down")
        assert box.value == "", "the list moves"


def _is_open(app: ConsoleApp, tab: str) -> bool:
    return app.current_mode == tab


async def test_no_two_lines_are_equal(url: str) -> None:
    fill(url)
    async with console(url) as pilot:
        app = app_of(pilot)
        for tab in ("queues", "stuck", "workers", "schedules"):
            await command(pilot, tab)
            await until(pilot, partial(_is_open, app, tab))
            assert isinstance(app.screen, FrameScreen)
            lines = [(one.title, one.argument) for one in every(app, app.screen)]
            assert len(set(lines)) == len(lines), tab


async def test_a_filter_of_the_configuration_is_set_by_its_name(url: str, tmp_path: Path) -> None:
    fill(url)
    file = tmp_path / "qdeck.toml"
    file.write_text('[filters]\nno-mail = "-queue:*mail*"\n')
    app = app_in(Contexts(Target(url=url, adapters=(NATIVE,)), load_configuration(file)))
    async with shown(app) as pilot:
        await command(pilot, "stuck")
        await until(pilot, "wrk-gone")
        await pilot.press("colon", *"filter no")
        await until(pilot, "-queue:*mail*")
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, FrameScreen) and app.screen.filter_text == "-queue:*mail*")


def test_a_filter_of_the_configuration_is_checked(tmp_path: Path) -> None:
    file = tmp_path / "qdeck.toml"
    file.write_text('[filters]\nslow = "agee>2h"\n')
    with pytest.raises(
        InvalidOption, match=r"qdeck.toml: filters.slow: unknown field 'agee', at character 1"
    ) as raised:
        load_configuration(file)
    assert "Did you mean 'age'?" in (raised.value.hint or "")
