"""What a table of a command consists of: columns with their priorities, and values."""

from __future__ import annotations

from typing import Final, NamedTuple

LOOKAHEAD: Final = 200
"""Rows that decide the widths of the columns; the others are written as they come."""


class TextColumn(NamedTuple):
    """A column of a table: title, alignment and greatest width; None for ids, which nothing cuts.

    On a narrow terminal the column with the highest `drop` is left out first, and one with 0 never. One that `wraps`
    takes what the others leave, or lines of its own below the row.
    """

    title: str
    right: bool = False
    most: int | None = 60
    drop: int = 0
    wraps: bool = False


class TextCell(NamedTuple):
    """A value of a table, with its role on a terminal, and with what a terminal shows in its place."""

    text: str
    role: str = ""
    drawn: str | None = None
