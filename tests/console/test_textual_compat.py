"""What the console uses of Textual beside its public API is there, and nothing else of it is used or hidden."""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import os
import pkgutil
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import textual
from textual.css.stylesheet import Stylesheet
from textual.driver import Driver
from textual.drivers import linux_driver, web_driver
from textual.message_pump import MessagePump
from textual.screen import Screen
from textual.widgets import Static

import qdeck_console
from qdeck_console import textual_compat as compat

if TYPE_CHECKING:
    from collections.abc import Iterator

HOME = Path(qdeck_console.__file__).parent
OURS = HOME / "textual_compat.py"
THEIRS = (MessagePump, Driver, Stylesheet)


class Plain(compat.QuietApp):
    """An app with a line."""

    def compose(self) -> Iterator[Static]:
        yield Static("a line")


class Modes(Plain):
    """An app with two modes."""

    MODES = {"one": Screen, "two": Screen}  # noqa: RUF012 - as Textual has it
    DEFAULT_MODE = "one"


async def test_the_strips_of_a_screen_are_what_it_draws() -> None:
    async with Plain().run_test(size=(20, 3)) as pilot:
        drawn = compat.strips_of(pilot.app.screen)
        assert [strip.text.rstrip() for strip in drawn] == ["a line", "", ""]
        assert [strip.cell_length for strip in drawn] == [20] * 3


async def test_the_screens_of_every_mode_are_found() -> None:
    async with Modes().run_test() as pilot:
        app = pilot.app
        await app.push_screen(Screen())
        await app.switch_mode("two")
        opened = compat.all_screens(app)
        assert {mode: len(stack) for mode, stack in opened.items() if mode in Modes.MODES} == {"one": 2, "two": 1}
        assert opened["two"][-1] is app.screen


async def test_an_app_that_was_told_to_exit_is_ending() -> None:
    async with Plain().run_test() as pilot:
        assert not compat.is_ending(pilot.app)
        pilot.app.exit(0)
        assert compat.is_ending(pilot.app)


async def test_only_a_failure_before_the_app_was_told_to_exit_ends_it_with_1() -> None:
    def fail() -> None:
        raise ValueError("half a screen")

    with pytest.raises(ValueError, match="half a screen"):
        async with Plain().run_test() as pilot:
            pilot.app.call_later(fail)
    app = Plain()
    async with app.run_test():
        app.call_later(fail)
        app.exit(7)
    assert (app.return_value, app.return_code) == (7, 0)


async def test_the_driver_of_a_terminal_writes_to_another_file(monkeypatch: pytest.MonkeyPatch) -> None:
    class StartedError(Exception):
        pass

    def begin(file: object) -> None:
        raise StartedError(file)

    monkeypatch.setattr(linux_driver, "WriterThread", begin)
    driver = linux_driver.LinuxDriver(Plain())
    compat.write_through(driver, "ours")
    with pytest.raises(StartedError, match="ours"):
        driver.start_application_mode()  # type: ignore[no-untyped-call]  # Textual's


async def test_the_driver_of_a_browser_reads_through_another_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    class Packets:
        """A message that is no key, in the frames of Textual's protocol."""

        def __init__(self, before: compat.InputReader) -> None:
            self.before, self.is_closed = before, False

        def __iter__(self) -> Iterator[bytes]:
            packet = b'{"type": "blur"}'
            yield b"M" + len(packet).to_bytes(4, "big") + packet

        def close(self) -> None:
            self.is_closed = True

    made: list[Packets] = []
    sizes: list[int] = []

    def wrap(reader: compat.InputReader) -> Packets:
        made.append(Packets(reader))
        return made[0]

    keys, keyboard = os.pipe()
    with os.fdopen(keys) as pipe, os.fdopen(keyboard):
        monkeypatch.setattr(sys, "__stdin__", pipe)
        driver = web_driver.WebDriver(Plain())
        compat.read_through(driver, wrap)
        compat.before_meta(driver, sizes.append)
        driver.run_input_thread()
    assert hasattr(made[0].before, "close")
    assert made[0].is_closed
    assert sizes == [len(b'{"type": "blur"}')]


def private_names_of_textual() -> set[str]:
    """Every private attribute and method that Textual's own code names."""
    names: set[str] = set()
    for path in Path(textual.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute):
                names.add(node.attr)
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                names.add(node.name)
    return {name for name in names if name.startswith("_") and not name.startswith("__")}


def named_in(path: Path) -> tuple[set[str], set[str]]:
    """The private names that a module uses, and those that it defines."""
    used, defined = set[str](), set[str]()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute) and node.attr.startswith("_"):
            (defined if isinstance(node.ctx, ast.Store) else used).add(node.attr)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            defined.add(node.name)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            defined.add(node.target.id)
    return used, defined


def test_no_other_module_uses_a_private_name_of_textual() -> None:
    theirs = private_names_of_textual()
    found = {}
    for path in HOME.rglob("*.py"):
        used, defined = named_in(path)
        wrong = {name for name in used & theirs - defined if name != "_replace"}  # of named tuples
        if wrong and path != OURS:
            found[str(path.relative_to(HOME))] = sorted(wrong)
    assert found == {}
    assert named_in(OURS)[0] & theirs, "the names are no longer found, so this test shows nothing"


def classes() -> Iterator[type]:
    """The classes of the console that build on one of Textual's."""
    for module in pkgutil.walk_packages([str(HOME)], f"{qdeck_console.__name__}."):
        if not module.name.endswith("__main__"):
            for value in vars(importlib.import_module(module.name)).values():
                if isinstance(value, type) and issubclass(value, THEIRS) and value.__module__ == module.name:
                    yield value


@functools.cache
def private_names_of(cls: type) -> set[str]:
    """The private methods of a class, and what its methods assign to `self`."""
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(cls))).body
    assert isinstance(tree, ast.ClassDef)
    names = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    names |= {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and ast.unparse(node.value) == "self"
    }
    return {name for name in names if name.startswith("_") and not name.startswith("__")}


def test_no_class_of_ours_hides_a_private_name_of_textual() -> None:
    found = {}
    for cls in classes():
        theirs = [base for base in cls.__mro__ if base.__module__.startswith("textual.")]
        if hidden := private_names_of(cls) & set[str]().union(*map(private_names_of, theirs)):
            found[cls.__name__] = hidden
    assert found == {"QuietApp": {"_handle_exception"}}
