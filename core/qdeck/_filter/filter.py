"""A filter as its users hold it: parsed once, compiled for a moment, put to many records."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from qdeck._filter import narrow
from qdeck._filter.compiler import Test, compile_node
from qdeck._filter.nodes import Everything
from qdeck._filter.parser import parse_node
from qdeck._filter.times import is_relative

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from qdeck._filter.fields import Record
    from qdeck._filter.narrow import Pushdown
    from qdeck._filter.nodes import Node


def parse(text: str, now_ms: int | None = None) -> Filter:
    """Read a filter, or raise InvalidFilter, which points at the place: a wrong filter never matches everything.

    `now_ms` is the moment that ages count from when a later call names none (the server's, where there is one).
    """
    return Filter(parse_node(text), now_ms)


@dataclass(frozen=True, slots=True)
class Filter:
    """A filter that parsed; equal when the canonical text is, which is `str(filter)`.

    For many records take `compile()` once for each pass: `matches` is for a single one.
    """

    node: Node
    now_ms: int | None = field(default=None, compare=False)
    _timeless: Test | None = field(init=False, default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if not is_relative(self.node):
            object.__setattr__(self, "_timeless", compile_node(self.node, 0))

    def __str__(self) -> str:
        return str(self.node)

    @property
    def is_everything(self) -> bool:
        """Whether it is empty, and so restricts nothing."""
        return isinstance(self.node, Everything)

    @property
    def is_relative(self) -> bool:
        """Whether it has ages or `now` in it, and so depends on the current time."""
        return self._timeless is None

    @property
    def fields(self) -> frozenset[str]:
        """The fields that it uses (`text` for words): other fields need not be read."""
        return narrow.needed(self.node)

    def compile(self, now_ms: int | None = None) -> Test:
        """Return the filter as a function of a record, at one moment, so that a long pass judges all by the same
        clock.
        """
        return self._timeless or compile_node(self.node, self._moment(now_ms))

    def matches(self, record: Record, now_ms: int | None = None) -> bool:
        """Return whether the record matches."""
        return self.compile(now_ms)(record)

    def pushdown(self, now_ms: int | None = None) -> Pushdown:
        """Return what must hold for every match, in terms of queues, states, ids and times: what an index can
        answer.
        """
        return narrow.pushdown(self.node, self._moment(now_ms))

    def restricted(self, fields: AbstractSet[str]) -> Filter:
        """Return the strongest filter over these fields that every match passes: to pick heads before payloads are
        read.
        """
        return Filter(narrow.restricted(self.node, fields), self.now_ms)

    def _moment(self, now_ms: int | None) -> int:
        if now_ms is not None:
            return now_ms
        return time.time_ns() // 1_000_000 if self.now_ms is None else self.now_ms
