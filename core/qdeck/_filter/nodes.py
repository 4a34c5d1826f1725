"""The syntax tree of a filter, and its canonical text.

Trees are made with `all_of`, `any_of` and `negated`, which keep them flat, so that there is one tree for each
canonical text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

UNIT_MS: Final = MappingProxyType({"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000})
DAY_MS: Final = UNIT_MS["d"]
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
CONJUNCTIONS: Final = frozenset({"or", "and"})

# Narrower than what the lexer takes, so that the canonical text never depends on its finer points.
_BARE: Final = re.compile(r"[\w.@/+#$%&;~^|?*-]+")
_BARE_SEGMENT: Final = re.compile(r"[\w$@/+-]+")


class Comparison(StrEnum):
    """How a field is compared with a value."""

    IS = ":"
    NOT = "!="
    GT = ">"
    GE = ">="
    LT = "<"
    LE = "<="

    @property
    def is_ordering(self) -> bool:
        """Return whether it compares order, which takes one value that has an order."""
        return self not in (Comparison.IS, Comparison.NOT)


@dataclass(frozen=True, slots=True)
class WildcardPattern:
    """A text with gaps: the pieces between the `*`; one piece is the exact text."""

    parts: tuple[str, ...]

    @property
    def exact(self) -> str | None:
        """Return the text itself when it has no `*`."""
        return self.parts[0] if len(self.parts) == 1 else None

    @property
    def is_any(self) -> bool:
        """Return whether it is a lone `*`."""
        return self.parts == ("", "")

    def __str__(self) -> str:
        bare = "*".join(self.parts)
        if not any("*" in part for part in self.parts) and _BARE.fullmatch(bare):
            return bare
        return '"' + "*".join(_escape(part) for part in self.parts) + '"'


ANYTHING: Final = WildcardPattern(("", ""))


@dataclass(frozen=True, slots=True)
class Number:
    """A number; whole numbers are int, so that they print as they are written."""

    value: float

    def __str__(self) -> str:
        return repr(self.value)


@dataclass(frozen=True, slots=True)
class Age:
    """A length of time, counted in the smallest unit that was written, which is its precision."""

    count: int
    unit: str

    @property
    def ms(self) -> int:
        """The length in ms."""
        return self.count * self.step_ms

    @property
    def step_ms(self) -> int:
        """The precision in ms."""
        return UNIT_MS[self.unit]

    def __str__(self) -> str:
        return f"{self.count}{self.unit}"


@dataclass(frozen=True, slots=True)
class Instant:
    """A point in time, and how precisely it was written: a day, a minute, a second or a fraction of one."""

    ms: int
    step_ms: int

    def __str__(self) -> str:
        when = EPOCH + timedelta(milliseconds=self.ms)
        # isoformat, because strftime does not pad the years before 1000 everywhere.
        if self.step_ms == DAY_MS:
            return when.date().isoformat()
        bare = when.replace(tzinfo=None)
        if self.step_ms == UNIT_MS["m"]:
            return f"{bare.isoformat(timespec='minutes')}Z"
        digits = 4 - len(str(self.step_ms))
        text = bare.isoformat(timespec="milliseconds")
        return f"{text[:-4] if digits == 0 else text[: len(text) - 3 + digits]}Z"


@dataclass(frozen=True, slots=True)
class FromNow:
    """A point in time relative to now: `now`, `now-2h`, `now+5m`."""

    count: int
    unit: str

    @property
    def ms(self) -> int:
        """The distance in ms, negative for the past."""
        return self.count * UNIT_MS[self.unit]

    def __str__(self) -> str:
        return f"now{self.count:+d}{self.unit}" if self.count else "now"


Value = WildcardPattern | Number | Age | Instant | FromNow


@dataclass(frozen=True, slots=True)
class Everything:
    """A blank filter."""

    def __str__(self) -> str:
        return ""


@dataclass(frozen=True, slots=True)
class Words:
    """A word or phrase that is searched everywhere."""

    pattern: WildcardPattern

    def __str__(self) -> str:
        text = str(self.pattern)
        return f'"{text}"' if text.startswith("-") or text.lower() in CONJUNCTIONS else text


@dataclass(frozen=True, slots=True)
class Term:
    """A comparison of one field; `path` leads into the payload, and is empty for every other field."""

    field: str
    op: Comparison
    values: tuple[Value, ...]
    path: tuple[str, ...] = ()

    def __str__(self) -> str:
        path = "".join(f".{_segment(segment)}" for segment in self.path)
        return f"{self.field}{path}{self.op}{','.join(map(str, self.values))}"


@dataclass(frozen=True, slots=True)
class Not:
    """What does not match `node`."""

    node: Node

    def __str__(self) -> str:
        return f"-({self.node})" if isinstance(self.node, And | Or) else f"-{self.node}"


@dataclass(frozen=True, slots=True)
class And:
    """What matches all of the nodes."""

    nodes: tuple[Node, ...]

    def __str__(self) -> str:
        return " ".join(f"({node})" if isinstance(node, Or) else str(node) for node in self.nodes)


@dataclass(frozen=True, slots=True)
class Or:
    """What matches one of the nodes."""

    nodes: tuple[Node, ...]

    def __str__(self) -> str:
        return " or ".join(map(str, self.nodes))


Node = Everything | Words | Term | Not | And | Or
NOTHING: Final = Not(Everything())


def all_of(nodes: Iterable[Node]) -> Node:
    """Return the conjunction of the nodes, flat."""
    flat: list[Node] = []
    for node in nodes:
        if node == NOTHING:
            return NOTHING
        if not isinstance(node, Everything):
            flat.extend(node.nodes if isinstance(node, And) else (node,))
    return flat[0] if len(flat) == 1 else And(tuple(flat)) if flat else Everything()


def any_of(nodes: Iterable[Node]) -> Node:
    """Return the disjunction of the nodes, flat."""
    flat: list[Node] = []
    for node in nodes:
        if isinstance(node, Everything):
            return node
        if node != NOTHING:
            flat.extend(node.nodes if isinstance(node, Or) else (node,))
    return flat[0] if len(flat) == 1 else Or(tuple(flat)) if flat else NOTHING


def negated(node: Node) -> Node:
    """Return the opposite of the node, without a double negation."""
    return node.node if isinstance(node, Not) else Not(node)


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("*", "\\*")


def _segment(segment: str) -> str:
    return segment if _BARE_SEGMENT.fullmatch(segment) else f'"{_escape(segment)}"'
