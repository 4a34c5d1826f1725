"""What can be typed after `:`, and finding a command by a few of its letters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """A command that has no key: its name, what follows it, and a sentence about it."""

    name: str
    help: str
    argument: str = ""


WORDS: Final = (
    Word(name="find", argument="ID", help="open the job of this id, in whatever queue it is"),
    Word(name="queue", argument="NAME", help="open a queue"),
    Word(name="filter", argument="TEXT", help="show only what matches"),
    Word(name="context", argument="NAME", help="look at another server of qdeck.toml"),
    Word(name="live", help="write in production, for 30 minutes"),
    Word(name="read-only", help="write no more, until :live"),
    Word(name="write", argument="FILE", help="what is listed as JSON to a file"),
    Word(name="theme", argument="NAME", help="other colours"),
    Word(name="reconnect", help="try now to reach a server that was lost"),
)


def score(query: str, text: str) -> int | None:
    """How well a text answers to some letters, the more the better; None when it does not have them in this order."""
    wanted, said = query.casefold().strip(), text.casefold()
    if not wanted:
        return 0
    if said.startswith(wanted):
        return 1000 - len(said)
    at = said.find(wanted)
    if at >= 0:
        return (700 if not said[at - 1].isalnum() else 500) - at
    total, before = 300, -1
    for letter in wanted:
        if letter.isspace():
            continue
        at = said.find(letter, before + 1)
        if at < 0:
            return None
        starts = at == 0 or not said[at - 1].isalnum()
        total -= 0 if at == before + 1 or starts else min(30, at - before)
        before = at
    return total


def split(text: str) -> tuple[Word | None, str]:
    """The word that a line begins with, when something follows that it takes, and what follows."""
    name, gap, rest = text.lstrip(": ").partition(" ")
    word = next((word for word in WORDS if word.name == name.casefold()), None)
    return (word, rest.strip()) if word is not None and word.argument and gap else (None, "")
