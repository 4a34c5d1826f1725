"""The parts of the documentation that are made from the console and its commands; `reference.py` writes them."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from project.markdown import table
from qdeck._filter import FIELDS, FieldKind
from qdeck_console.actions import ACTIONS, GROUPS, TABS, places
from qdeck_console.cli.base import CommandHelp, shared_options
from qdeck_console.cli.run import make_top
from qdeck_console.palette_commands import WORDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from qdeck_console.actions import Action

ROOT: Final = Path(__file__).resolve().parents[2]
_SHARED: Final = frozenset(option.name for option in shared_options())
_COMPARED: Final = {
    FieldKind.TEXT: "text",
    FieldKind.STATE: "text",
    FieldKind.TAGS: "text",
    FieldKind.NUMBER: "number",
    FieldKind.AGE: "age",
    FieldKind.TIME: "time, or age",
    FieldKind.PAYLOAD: "text or number",
}


def keys() -> str:
    """Return the keys of the console, by what they are for."""
    parts = []
    for group in GROUPS:
        rows = [(_keys_of(action), action.help, places(action)) for action in ACTIONS if action.group == group]
        if group == "everywhere":
            tabs = " ".join(f"`{number}` {name}" for name, number in TABS.items())
            rows.append((tabs, "open a screen", "everywhere"))
        parts.append(f"## {group.capitalize()}\n\n{table(('key', 'does', 'where'), rows)}")
    return "\n\n".join(parts)


def _keys_of(action: Action) -> str:
    return " ".join(f"`{replace(action, keys=(key,)).key_name}`" for key in action.keys)


def words() -> str:
    """Return the commands that can be typed after a colon."""
    return table(("command", "does"), [(f"`:{f'{word.name} {word.argument}'.strip()}`", word.help) for word in WORDS])


def filter_fields() -> str:
    """Return the fields of a filter."""
    rows = [
        ("`payload.PATH`" if field.kind is FieldKind.PAYLOAD else f"`{field.name}`", _COMPARED[field.kind], field.about)
        for field in FIELDS.values()
    ]
    return table(("field", "value", "what it compares"), rows)


def shared() -> str:
    """Return the options of every command."""
    return table(("option", "does"), _rows(shared_options()))


def commands() -> str:
    """Return every command with its help, its own options and its examples, by the sections of the help."""
    top = make_top()
    parts = []
    for section, names in top.sections.items():
        parts.append(f"## {section}")
        parts += [_command_text(full, command) for full, command in _commands(top, names, "qdeck")]
    return "\n\n".join(parts)


def _commands(group: click.Group, names: Iterable[str], before: str) -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in names:
        found = group.get_command(context, name)
        assert found is not None
        if isinstance(found, click.Group):
            yield from _commands(found, found.list_commands(context), f"{before} {name}")
        else:
            yield f"{before} {name}", found


def _command_text(name: str, command: click.Command) -> str:
    context = click.Context(command, info_name=name)
    usage = " ".join([name, *command.collect_usage_pieces(context)])
    about = "\n\n".join(" ".join(part.split()) for part in (command.help or "").replace("\b", "").split("\n\n"))
    own = _rows([option for option in command.params if option.name not in _SHARED])
    examples = command.examples if isinstance(command, CommandHelp) else ()
    parts = [
        f"### {name}",
        _escaped(about),
        "\n".join(["```text", usage, *(["", *examples] if examples else []), "```"]),
        table(("option", "does"), own) if own else "",
    ]
    return "\n\n".join(part for part in parts if part)


def _rows(options: Iterable[click.Parameter]) -> list[tuple[str, str]]:
    return [_row(option) for option in options if isinstance(option, click.Option) and not option.hidden]


def _row(option: click.Option) -> tuple[str, str]:
    names, about = option.get_help_record(click.Context(click.Command("qdeck"))) or ("", "")
    return f"`{names}`".replace("|", r"\|"), _escaped(" ".join(about.split()))


def _escaped(text: str) -> str:
    return re.sub(r"[*<|]", r"\\\g<0>", text)


def example() -> str:
    """Return the example of a configuration file, which has every setting with its default."""
    return f"```toml\n{(ROOT / 'qdeck.example.toml').read_text('utf-8')}```"


PARTS: Final = {
    "keys": keys,
    "words": words,
    "filter fields": filter_fields,
    "shared options": shared,
    "commands": commands,
    "example": example,
}
