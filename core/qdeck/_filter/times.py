"""Turns comparisons of ages and times into ranges of ms, for matching and for an index alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from qdeck._filter.nodes import Age, Comparison, Everything, FromNow, Instant, Not, Term, Words

if TYPE_CHECKING:
    from qdeck._filter.nodes import Node, Value


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeRange:
    """Whole ms since the epoch from `lo_ms` to `hi_ms`, both included; None is open."""

    lo_ms: int | None = None
    hi_ms: int | None = None

    def meet(self, other: TimeRange) -> TimeRange:
        """Return the intersection."""
        return TimeRange(
            lo_ms=max((ms for ms in (self.lo_ms, other.lo_ms) if ms is not None), default=None),
            hi_ms=min((ms for ms in (self.hi_ms, other.hi_ms) if ms is not None), default=None),
        )

    def hull(self, other: TimeRange) -> TimeRange:
        """Return the smallest range that contains both."""
        return TimeRange(
            lo_ms=None if self.lo_ms is None or other.lo_ms is None else min(self.lo_ms, other.lo_ms),
            hi_ms=None if self.hi_ms is None or other.hi_ms is None else max(self.hi_ms, other.hi_ms),
        )


def ranges(term: Term, now_ms: int) -> list[TimeRange]:
    """Return the range of a record's time if one of the values holds; for `!=`, if one of them does not."""
    return [_range(term, value, now_ms) for value in term.values]


def is_relative(node: Node) -> bool:
    """Return whether the filter depends on the current time."""
    match node:
        case Term():
            return any(isinstance(value, Age | FromNow) for value in node.values)
        case Not():
            return is_relative(node.node)
        case Everything() | Words():
            return False
        case _:
            return any(map(is_relative, node.nodes))


def _range(term: Term, value: Value, now_ms: int) -> TimeRange:
    match value:
        case Instant():
            return _span(term.op, value.ms, value.step_ms)
        case FromNow():
            return _span(term.op, now_ms + value.ms, 1)
        case Age():
            span = _span(term.op, value.ms, value.step_ms)
            lo, hi = span.lo_ms, span.hi_ms
            if term.field == "due":  # ages of what is to come count forward
                return TimeRange(lo_ms=None if lo is None else now_ms + lo, hi_ms=None if hi is None else now_ms + hi)
            return TimeRange(lo_ms=None if hi is None else now_ms - hi, hi_ms=None if lo is None else now_ms - lo)
        case _:
            return TimeRange()  # `*`: any time will do


def _span(op: Comparison, ms: int, step_ms: int) -> TimeRange:
    match op:
        case Comparison.GT:
            return TimeRange(lo_ms=ms + 1)
        case Comparison.GE:
            return TimeRange(lo_ms=ms)
        case Comparison.LT:
            return TimeRange(hi_ms=ms - 1)
        case Comparison.LE:
            return TimeRange(hi_ms=ms)
        case _:
            return TimeRange(lo_ms=ms, hi_ms=ms + step_ms - 1)
