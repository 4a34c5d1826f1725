"""The help of every command: one line in the list of commands, plain options, and examples that parse."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import click
import pytest

from qdeck.admin import parse
from qdeck_console.cli.base import CommandHelp
from qdeck_console.cli.run import SECTIONS, make_top

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def tree(command: click.Command, path: tuple[str, ...] = ("qdeck",)) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Yield all commands with their paths."""
    yield path, command
    if isinstance(command, click.Group):
        ctx = click.Context(command)
        for name in command.list_commands(ctx):
            found = command.get_command(ctx, name)
            assert found is not None
            yield from tree(found, (*path, name))


COMMANDS = dict(tree(make_top()))


def parsed(example: str) -> tuple[list[str], dict[str, object]]:
    """Return the names of the commands that an example would run, and the parameters of the last."""
    words = shlex.split(example.partition(" > ")[0].partition(" >> ")[0], comments=True)
    assert words[0] == "qdeck"
    names, args = ["qdeck"], words[1:]
    ctx = make_top().make_context("qdeck", args)
    while isinstance(ctx.command, click.Group) and (rest := [*ctx._protected_args, *ctx.args]):
        name, command, args = ctx.command.resolve_command(ctx, rest)
        assert name is not None
        assert command is not None
        names.append(name)
        ctx = command.make_context(name, args, parent=ctx)
    ctx.close()  # an option can have opened a file
    return names, ctx.params


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_every_command_has_examples_that_parse(
    path: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "payload.json").write_text("{}")
    command = COMMANDS[path]
    assert isinstance(command, CommandHelp)
    assert command.examples
    for example in command.examples:
        names, params = parsed(example)
        assert names[: len(path)] == list(path), example
        parse(str(params.get("where") or ""))


def test_an_example_with_an_unknown_option_or_command_is_noticed() -> None:
    for example in ("qdeck jobs shop:mail:actions --stat dead", "qdeck deat", "qdeck jobs list"):
        with pytest.raises(click.UsageError):
            parsed(example)


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_every_argument_and_option_is_explained(path: tuple[str, ...]) -> None:
    for param in COMMANDS[path].params:
        text = getattr(param, "help", None) or ""
        text = text.removeprefix("[required] ")
        assert text[:1].isupper() or text[:1].isdigit(), (path, param.name)
        assert text.endswith((".", "…")), (path, param.name, text)


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_help_begins_with_one_short_sentence_in_the_imperative(path: tuple[str, ...]) -> None:
    first = (COMMANDS[path].help or "").partition("\n\n")[0]
    assert first.endswith("."), first
    assert len(first) <= 100, first
    assert not first.split()[0].endswith("s"), first


def test_the_list_of_commands_has_the_first_sentence_of_each() -> None:
    for commands in SECTIONS.values():
        for name, (_, about) in commands.items():
            assert (COMMANDS["qdeck", name].help or "").partition("\n\n")[0] == about
