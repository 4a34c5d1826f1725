"""The words that can be typed after `:`, and the search for a command by a few letters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """A command without a key: its name, its argument and its line of help."""

    name: str
    help: str
    argument: str = ""


WORDS: Final = (
    Word(name="find", argument="ID", help="open the job with this id, in any queue"),
    Word(name="queue", argument="NAME", help="open a queue"),
    Word(name="filter", argument="TEXT", help="filter the list"),
    Word(name="context", argument="NAME", help="switch to another server of qdeck.toml"),
    Word(name="live", help="allow changes in production for 30 minutes"),
    Word(name="read-only", help="forbid changes until :live"),
    Word(name="write", argument="FILE", help="write the list to a JSON file"),
    Word(name="theme", argument="NAME", help="change the colours"),
    Word(name="reconnect", help="reconnect to the server now"),
)


def score(query: str, text: str) -> int | None:
    """Return how well a text matches some letters, higher is better; None when it lacks them in this order."""
    wanted, shown = query.casefold().strip(), text.casefold()
    if not wanted:
        return 0
    if shown.startswith(wanted):
        return 1000 - len(shown)
    at = shown.find(wanted)
    if at >= 0:
        return (700 if not shown[at - 1].isalnum() else 500) - at
    total, before = 300, -1
    for letter in wanted:
        if letter.isspace():
            continue
        at = shown.find(letter, before + 1)
        if at < 0:
            return None
        starts = at == 0 or not shown[at - 1].isalnum()
        total -= 0 if at == before + 1 or starts else min(30, at - before)
        before = at
    return total


def split(text: str) -> tuple[Word | None, str]:
    """Return the word at the start of a line when an argument follows, and the argument."""
    name, gap, rest = text.lstrip(": ").partition(" ")
    word = next((word for word in WORDS if word.name == name.casefold()), None)
    return (word, rest.strip()) if word is not None and word.argument and gap else (None, "")
