"""The tables of the documentation, read from their Markdown."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parents[2]
COMMANDS: Final = ROOT / "console" / "docs" / "reference" / "json.md"
_CELL: Final = re.compile(r"(?<!\\)\|")
_TOKEN: Final = re.compile(r"\s*(<[^>]*>|[A-Za-z_]+|[{}\[\],])")
Shape = dict[str, Any] | list[Any] | None  # an object's fields, a list's entries (or none), or any value


class Row(NamedTuple):
    """A row of a table of commands."""

    command: str
    shape: str
    codes: tuple[int, ...]


def tables(path: Path, heading: str) -> list[list[str]]:
    """Return the rows of the tables below a heading, as lists of cells."""
    part = path.read_text("utf-8").split(f"\n## {heading}\n")[1].split("\n## ")[0]
    lines = [line for line in part.splitlines() if line.startswith("|")]
    cells = [[cell.strip().replace(r"\|", "|") for cell in _CELL.split(line)[1:-1]] for line in lines]
    return [row for row in cells[1:] if not set(row[0]) <= {"-"}]


def commands() -> list[Row]:
    """Return the commands that read and that write, with the shape of their JSON and their exit codes."""
    rows = [row for heading in ("Commands that read", "Commands that act") for row in tables(COMMANDS, heading)]
    return [
        Row(row[0].strip("`").removeprefix("qdeck "), row[2], tuple(int(n) for n in re.findall(r"\b\d\b", row[3])))
        for row in rows
    ]


def shapes(text: str) -> list[Shape]:
    """Return the shapes in a cell: of `a or b` one has to fit. Named shapes are on the page."""
    named = {row[0]: read_shape(row[1].strip("`")) for row in tables(COMMANDS, "Shapes")}

    def one(words: str) -> Shape:
        if words.startswith("list of "):
            return [one(words.removeprefix("list of "))]
        found: dict[str, Any] = {}
        for word in words.split(" and "):
            part = read_shape(word.strip("`")) if word.startswith("`") else named[word]
            if not isinstance(part, dict):
                return part
            found |= part
        return found

    return [one(words.strip()) for words in text.removeprefix("*lines* of ").split(" or ")]


def read_shape(text: str) -> Shape:
    """Read `{a, b[{c}], d{<name>{e}}}`."""
    shape, rest = _shape(_TOKEN.findall(text))
    assert not rest, text
    return shape


def _shape(tokens: list[str]) -> tuple[Shape, list[str]]:
    opening, *tokens = tokens
    if opening == "[":
        if tokens[0] == "]":
            return [], tokens[1:]
        inside, tokens = _shape(tokens)
        assert tokens[0] == "]"
        return [inside], tokens[1:]
    assert opening == "{"
    fields: dict[str, Any] = {}
    while tokens[0] != "}":
        name, *tokens = tokens
        fields[name] = None
        if tokens[0] in ("{", "["):
            fields[name], tokens = _shape(tokens)
        if tokens[0] == ",":
            tokens = tokens[1:]
    return fields, tokens[1:]


def misfits(value: Any, shape: Shape, path: str = "") -> list[str]:
    """Return the fields of a shape that a value lacks. A null value lacks none."""
    if shape is None or value is None:
        return []
    if isinstance(shape, list):
        if not isinstance(value, list):
            return [f"{path} is no list"]
        return [miss for entry in value for inside in shape for miss in misfits(entry, inside, f"{path}[]")]
    if not isinstance(value, dict):
        return [f"{path} is no object"]
    found = []
    for name, inside in shape.items():
        if name.startswith("<"):
            found += [miss for key, entry in value.items() for miss in misfits(entry, inside, f"{path}.{key}")]
        elif name not in value:
            found.append(f"{path}.{name} is missing")
        else:
            found += misfits(value[name], inside, f"{path}.{name}")
    return found
