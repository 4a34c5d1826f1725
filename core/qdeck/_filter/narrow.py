"""What a filter implies before a record is read, so that few records are read, and little of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from qdeck._filter.compiler import compile_pattern
from qdeck._filter.fields import NATIVE_STATES, STATES
from qdeck._filter.nodes import (
    NOTHING,
    And,
    Comparison,
    Everything,
    Not,
    Or,
    Term,
    WildcardPattern,
    Words,
    all_of,
    any_of,
    negated,
)
from qdeck._filter.times import TimeRange, ranges

if TYPE_CHECKING:
    from collections.abc import Callable
    from collections.abc import Set as AbstractSet

    from qdeck._filter.nodes import Node

TEXT: Final = "text"
"""The name, among the fields that a filter needs, of the text that words are looked for in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pushdown:
    """What must hold for every record that a filter matches, in terms that an index can answer.

    It is necessary, not sufficient: the records found this way are still put to the filter. A set that is None says
    nothing; an open range says nothing, and any other one also says that the record has that time.
    """

    queues: frozenset[str] | None = None
    adapters: frozenset[str] | None = None
    states: frozenset[str] | None = None
    ids: frozenset[str] | None = None
    since: TimeRange = TimeRange()  # noqa: RUF009 - a frozen value
    due: TimeRange = TimeRange()  # noqa: RUF009 - a frozen value
    failed: TimeRange = TimeRange()  # noqa: RUF009 - a frozen value
    enqueued: TimeRange = TimeRange()  # noqa: RUF009 - a frozen value


def needed(node: Node) -> frozenset[str]:
    """Return the names of the fields that the tree uses; TEXT for words."""
    match node:
        case Everything():
            return frozenset()
        case Words():
            return frozenset({TEXT})
        case Term():
            return frozenset({node.field})
        case Not():
            return needed(node.node)
        case _:
            return frozenset[str]().union(*map(needed, node.nodes))


def restricted(node: Node, known: AbstractSet[str], *, weaker: bool = True) -> Node:
    """Return the strongest tree over the known fields that holds wherever `node` does (or, not weaker, the other
    way).
    """
    match node:
        case Everything():
            return node
        case Not():
            return negated(restricted(node.node, known, weaker=not weaker))
        case And():
            return all_of(restricted(part, known, weaker=weaker) for part in node.nodes)
        case Or():
            return any_of(restricted(part, known, weaker=weaker) for part in node.nodes)
        case _:
            if needed(node) <= known:
                return node
            return Everything() if weaker else NOTHING


def pushdown(node: Node, now_ms: int) -> Pushdown:
    """Return what an index can answer of the tree."""
    match node:
        case Term():
            return _of_term(node, now_ms, opposite=node.op is Comparison.NOT)
        case Not(Term() as term):
            return _of_term(term, now_ms, opposite=term.op is not Comparison.NOT)
        case Not(Or() as inner):
            return pushdown(all_of(negated(part) for part in inner.nodes), now_ms)
        case Not(And() as inner):
            return pushdown(any_of(negated(part) for part in inner.nodes), now_ms)
        case And():
            return _combined([pushdown(part, now_ms) for part in node.nodes], _meet, TimeRange.meet)
        case Or():
            return _combined([pushdown(part, now_ms) for part in node.nodes], _join, TimeRange.hull)
        case _:
            return Pushdown()


_Sets = frozenset[str] | None


def _meet(one: _Sets, other: _Sets) -> _Sets:
    return other if one is None else one if other is None else one & other


def _join(one: _Sets, other: _Sets) -> _Sets:
    return None if one is None or other is None else one | other


def _combined(
    parts: list[Pushdown], sets: Callable[[_Sets, _Sets], _Sets], spans: Callable[[TimeRange, TimeRange], TimeRange]
) -> Pushdown:
    whole, *rest = parts
    for part in rest:
        whole = Pushdown(
            queues=sets(whole.queues, part.queues),
            adapters=sets(whole.adapters, part.adapters),
            states=sets(whole.states, part.states),
            ids=sets(whole.ids, part.ids),
            since=spans(whole.since, part.since),
            due=spans(whole.due, part.due),
            failed=spans(whole.failed, part.failed),
            enqueued=spans(whole.enqueued, part.enqueued),
        )
    return whole


def _of_term(term: Term, now_ms: int, *, opposite: bool) -> Pushdown:
    if term.field == "state":
        patterns = [value for value in term.values if isinstance(value, WildcardPattern)]
        words = [pattern.exact for pattern in patterns if pattern.exact in NATIVE_STATES]
        if words and opposite:
            return Pushdown()
        tests = [compile_pattern(pattern) for pattern in patterns]
        fitting = frozenset(state for state in STATES if any(test(state) for test in tests))
        fitting = fitting.union(*(NATIVE_STATES[word or ""] for word in words))
        return Pushdown(states=frozenset(STATES) - fitting if opposite else fitting)
    if opposite:
        return Pushdown()  # the rest of an open world is no set, and a record without the time would be left out
    match term.field:
        case "queue":
            return Pushdown(queues=_exact(term))
        case "adapter":
            return Pushdown(adapters=_exact(term))
        case "id":
            return Pushdown(ids=_exact(term))
        case "age":
            return Pushdown(since=_hull(term, now_ms))
        case "due":
            return Pushdown(due=_hull(term, now_ms))
        case "failed":
            return Pushdown(failed=_hull(term, now_ms))
        case "enqueued":
            return Pushdown(enqueued=_hull(term, now_ms))
        case _:
            return Pushdown()


def _exact(term: Term) -> _Sets:
    exact = [value.exact for value in term.values if isinstance(value, WildcardPattern)]
    names = frozenset(text for text in exact if text is not None)
    return None if None in exact else names


def _hull(term: Term, now_ms: int) -> TimeRange:
    whole, *rest = ranges(term, now_ms)
    for span in rest:
        whole = whole.hull(span)
    return whole
