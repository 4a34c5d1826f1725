"""Small changes of a Lua script, each of which some test should notice."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# What no operator looks into: strings, comments, and the start of a search for plain text (no text begins with what is
# searched, so a search from 2 finds the same).
_OPAQUE: Final = re.compile(r", 1, true\)|'(?:[^'\\\n]|\\.)*'|\"(?:[^\"\\\n]|\\.)*\"|--[^\n]*")
_CLOSING: Final = ("end", "else", "})", "}", "end)", "},")
_OPPOSITE: Final = {
    "==": "~=", "~=": "==", "<": "<=", "<=": "<", ">": ">=", ">=": ">", "and": "or", "or": "and", "+": "-", "-": "+",
    "true": "false", "false": "true",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """A script file with one change."""

    file: str
    number: int
    line: str
    operator: str
    at: int  # which one of this operator in its line, from 1
    twin: int  # which one of the lines with this text, from 1
    text: str
    piece: str = ""  # of `common`: the piece that was changed

    @property
    def name(self) -> str:
        """What tells it from all others, wherever its line is."""
        twin = f" (line {self.twin} of this text)" if self.twin > 1 else ""
        return f"{self.file}: {self.operator} {self.at}: {self.line}{twin}"


def _opposite(found: re.Match[str]) -> str:
    return _OPPOSITE[found[0]]


# Each finds a place in a line without its strings, and says what stands there instead.
OPERATORS: Final[dict[str, tuple[re.Pattern[str], Callable[[re.Match[str]], str]]]] = {
    "other comparison": (re.compile(r"==|~=|<=|>=|<|>"), _opposite),
    "other connective": (re.compile(r"\b(?:and|or)\b"), _opposite),
    "without not": (re.compile(r"\bnot "), lambda _: ""),
    "other number": (re.compile(r"(?<![\w.])\d+(?![\w.])"), lambda found: str(int(found[0]) + 1)),
    "other sign": (re.compile(r"(?<= )[+-](?= )"), _opposite),
    "other truth": (re.compile(r"\b(?:true|false)\b"), _opposite),
    "always": (re.compile(r"(?<=\bif ).+?(?= then\b)"), lambda _: "true"),
    "never": (re.compile(r"(?<=\bif ).+?(?= then\b)"), lambda _: "false"),
}


def find_mutants(file: str, source: str) -> Iterator[Mutant]:
    """Every mutant of a script file."""
    lines = source.split("\n")
    piece, twins = "", dict[str, int]()
    for number, line in enumerate(lines, 1):
        if line.startswith("--- "):
            piece = line[4:].strip()
        word = line.strip()
        if not word or word.startswith(("--", "#!")):
            continue
        twins[word] = twins.get(word, 0) + 1
        for operator, at, changed in _changes(line, word):
            text = "\n".join([*lines[: number - 1], *changed, *lines[number:]])
            yield Mutant(
                file=file, number=number, line=word, operator=operator, at=at, twin=twins[word], text=text, piece=piece
            )


def _changes(line: str, word: str) -> Iterator[tuple[str, int, list[str]]]:
    if word not in _CLOSING:
        yield "without the line", 1, []
    masked = _OPAQUE.sub(lambda found: "\x00" * len(found[0]), line)
    for operator, (pattern, change) in OPERATORS.items():
        for at, found in enumerate(pattern.finditer(masked), 1):
            yield operator, at, [line[: found.start()] + change(found) + line[found.end() :]]
