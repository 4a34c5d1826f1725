"""Type what a page of the documentation says, and wait for what it shows.

In the numbered steps of a page, **`bold code`** is typed: a key, or text. Other `code` has to be on the screen then.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from support.screens import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from textual.pilot import Pilot

_HEADING: Final = re.compile(r"^## (.*)$")
_STEP: Final = re.compile(r"^\d+\. ")
_TOKEN: Final = re.compile(r"\*\*`([^`]+)`\*\*|`([^`]+)`")
_KEYS: Final = {"esc": "escape", "page down": "pagedown", "page up": "pageup", "↓": "down", "↑": "up"}
_NAMED: Final = frozenset({"tab", "enter", "space", *_KEYS})


class Token(NamedTuple):
    """What is typed, or what is then on the screen."""

    typed: bool
    text: str


def tokens(page: Path) -> dict[str, list[Token]]:
    """Return what the numbered steps below each heading of a page type and show, of headings that type something."""
    found: dict[str, list[Token]] = {}
    for heading, step in _steps(page):
        for typed, shown in _TOKEN.findall(step):
            found.setdefault(heading, []).append(Token(bool(typed), typed or shown))
    return {heading: these for heading, these in found.items() if any(token.typed for token in these)}


def _steps(page: Path) -> Iterator[tuple[str, str]]:
    """Return each numbered step with its heading; a step goes on in the lines that are indented below it."""
    heading, step = "", ""
    for line in [*page.read_text("utf-8").splitlines(), ""]:
        if step and not line.startswith("   "):
            yield heading, step
            step = ""
        if _STEP.match(line):
            step = line
        elif step:
            step += f" {line.strip()}"
        elif found := _HEADING.match(line):
            heading = found[1]


async def follow(pilot: Pilot[int], steps: list[Token]) -> None:
    """Type and wait, in the order of the page."""
    for token in steps:
        if not token.typed:
            await until(pilot, token.text)
        elif token.text in _NAMED or len(token.text) == 1 or token.text.startswith("ctrl+"):
            await pilot.press(_KEYS.get(token.text, token.text))
        else:
            await pilot.press(*token.text)
        await pilot.pause()
