"""Manual pages from the help of the commands: `python hatch_build.py DIR` writes them, and every wheel has them."""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

if TYPE_CHECKING:
    from collections.abc import Iterator

    import click

ROOT: Final = Path(__file__).parent
_EXIT_CODES: Final = (
    ("0", "done"), ("1", "degraded, or a part was skipped"), ("2", "unhealthy, or failed"), ("64", "wrong usage"),
    ("69", "the server cannot be reached"), ("77", "not allowed"),
)  # fmt: skip


class ManualPages(BuildHookInterface):  # type: ignore[type-arg]
    """Adds the manual pages to a wheel, as files for `share/man/man1`."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the pages into a directory of the build."""
        if version == "editable":
            return
        self._directory = tempfile.TemporaryDirectory(prefix="qdeck-man-")  # until the build is done
        for page in write(Path(self._directory.name)):
            build_data["shared_data"][str(page)] = f"share/man/man1/{page.name}"


def write(directory: Path) -> Iterator[Path]:
    """Write a page for qdeck and one for each of its commands."""
    sys.path[:0] = [str(ROOT / "core"), str(ROOT / "console")]
    import click

    from qdeck_console.cli.run import make_top

    directory.mkdir(parents=True, exist_ok=True)
    top = make_top()
    ctx = click.Context(top, info_name="qdeck")
    commands = [(name, top.get_command(ctx, name)) for name in top.list_commands(ctx)]
    others = [f"qdeck-{name}" for name, _ in commands]
    for name, command in [("qdeck", top), *((f"qdeck-{name}", command) for name, command in commands)]:
        assert command is not None  # noqa: S101 - it is in the list
        page = directory / f"{name}.1"
        page.write_text(render(name, command, ["qdeck", *others]), "utf-8")
        yield page


def render(name: str, command: click.Command, others: list[str]) -> str:
    """Return a manual page; the verbs of a group are sections of its page."""
    import click

    about, rest = _help(command)
    lines = [
        f'.TH {_text(name.upper())} 1 "" qdeck "qdeck manual"',
        ".nh",
        ".ad l",
        ".SH NAME",
        f"{_text(name)} \\- {about.rstrip('.')}",
    ]
    is_top = name == "qdeck"
    ctx = click.Context(command, info_name=name.replace("-", " ", 1))
    lines += [".SH SYNOPSIS", *_synopsis(ctx, command)]
    if rest or is_top:
        lines += [".SH DESCRIPTION", *([_text(about), ".PP"] if is_top else []), *rest]
    if is_top:
        for title, found in getattr(command, "sections", {}).items():
            lines += [f".SS {_text(title)}", *_rows((f"qdeck {each}", help) for each, (_, help) in found.items())]
    elif isinstance(command, click.Group):
        lines.append(".SH COMMANDS")
        for verb in command.list_commands(ctx):
            found_verb = command.get_command(ctx, verb)
            assert found_verb is not None  # noqa: S101 - it is in the list
            lines += _verb(click.Context(found_verb, info_name=verb, parent=ctx), found_verb)
    own, shared = _options(ctx, command)
    lines += [".SH OPTIONS", *own] if own else []
    lines += [".SH SHARED OPTIONS", *shared]
    lines += _examples(command)
    lines += [".SH EXIT STATUS", *_rows(_EXIT_CODES)]
    lines += [".SH SEE ALSO", ",\n".join(f".BR {_text(other)} (1)" for other in others if other != name)]
    return "\n".join(lines).replace(",\n.BR", " ,\n.BR") + "\n"


def _verb(ctx: click.Context, command: click.Command) -> list[str]:
    about, rest = _help(command)
    return [
        f".SS {_text(ctx.command_path)}", *_synopsis(ctx, command), ".PP", _text(about), *([".PP"] if rest else []),
        *rest, *_options(ctx, command)[0], *_examples(command, ".PP\nExample:"),
    ]  # fmt: skip


def _synopsis(ctx: click.Context, command: click.Command) -> list[str]:
    return [f".B {_text(ctx.command_path)}", _text(" ".join(command.collect_usage_pieces(ctx)))]


def _help(command: click.Command) -> tuple[str, list[str]]:
    """Return the first sentence of the help, and its other paragraphs."""
    first, *rest = re.split(r"\n\s*\n", (command.help or "").strip())
    paragraphs = [_text(" ".join(part.split())) for part in rest]
    return " ".join(first.split()), [line for part in paragraphs for line in (".PP", part)][1:]


def _options(ctx: click.Context, command: click.Command) -> tuple[list[str], list[str]]:
    """Return the arguments and options of a command, and the options that all commands share."""
    from qdeck_console.cli.base import shared_options

    shared = {name for option in shared_options() for name in option.opts} | {"--help"}
    rows: tuple[list[tuple[str, str]], list[tuple[str, str]]] = ([], [])
    for param in command.get_params(ctx):
        if (row := param.get_help_record(ctx)) is not None:
            rows[bool(shared & set(param.opts))].append(row)
    return list(_rows(rows[0])), list(_rows(rows[1]))


def _examples(command: click.Command, head: str = ".SH EXAMPLES") -> list[str]:
    examples = getattr(command, "examples", ())
    return [head, ".nf", *map(_text, examples), ".fi"] if examples else []


def _rows(rows: Any) -> Iterator[str]:
    for name, text in rows:
        yield from (".TP", f".B {_text(name)}", _text(text))


def _text(text: str) -> str:
    """Return text for roff: no character of it is a request or an escape."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").replace("`", "\\(ga")
    return f"\\&{escaped}" if escaped.startswith((".", "\\(aq")) else escaped


if __name__ == "__main__":
    for _ in write(Path(sys.argv[1])):
        pass
