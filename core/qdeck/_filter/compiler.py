"""Turns the tree of a filter into closures: a million records pass through them, so each does the least it can."""

from __future__ import annotations

import re
from collections.abc import Callable
from operator import attrgetter, ge, gt, le, lt
from typing import TYPE_CHECKING, Any, Final

from qdeck._adapter_names import NATIVE
from qdeck._filter.fields import FIELDS, NATIVE_STATES, PAYLOAD_FIELDS, FieldKind, Record
from qdeck._filter.nodes import (
    And,
    Comparison,
    Everything,
    Instant,
    Node,
    Not,
    Number,
    Or,
    Term,
    WildcardPattern,
    Words,
)
from qdeck._filter.times import ranges
from qdeck._filter.values import instant_in, number_in

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qdeck._filter.times import TimeRange

Test = Callable[[Record], bool]
_Check = Callable[[Any], bool]
_MISSING: Final = object()
_FIRST_WORD: Final = re.compile(r"[, :]")  # ends the word for the state in `pending, started`
_INDEX: Final = re.compile(r"[0-9]{1,9}")


def compile_node(node: Node, now_ms: int) -> Test:
    """Return the test for a tree at a moment."""
    match node:
        case Everything():
            return lambda _: True
        case Words():
            return _words([node.pattern])
        case Term():
            test = _term(node, now_ms)
            return _opposite(test) if node.op is Comparison.NOT else test
        case Not():
            return _opposite(compile_node(node.node, now_ms))
        case And():
            return _all(node, now_ms)
        case Or():
            return _any([compile_node(part, now_ms) for part in sorted(node.nodes, key=_cost)])


def _cost(node: Node) -> int:
    """Return the tests in the order of their cost, so that text and payload are made for few records."""
    match node:
        case Everything():
            return 0
        case Words():
            return 2
        case Term():
            return {FieldKind.PAYLOAD: 3, FieldKind.TAGS: 1}.get(FIELDS[node.field].kind, 0)
        case Not():
            return _cost(node.node)
        case _:
            return max(map(_cost, node.nodes))


def _opposite(test: Test) -> Test:
    return lambda record: not test(record)


def _all(node: And, now_ms: int) -> Test:
    parts = sorted(node.nodes, key=_cost)
    tests = [compile_node(part, now_ms) for part in parts if not isinstance(part, Words)]
    if words := [part.pattern for part in parts if isinstance(part, Words)]:
        # One pass over the text for all words: making the text is the expensive part.
        place = sum(1 for part in parts if not isinstance(part, Words) and _cost(part) <= _cost(Words(words[0])))
        tests.insert(place, _words(words))
    if len(tests) == 1:
        return tests[0]
    if len(tests) == 2:
        first, second = tests
        return lambda record: first(record) and second(record)

    def every(record: Record) -> bool:
        for test in tests:  # noqa: SIM110 - all() with a generator takes three times as long
            if not test(record):
                return False
        return True

    return every


def _any(tests: Sequence[Test]) -> Test:
    if len(tests) == 2:
        first, second = tests
        return lambda record: first(record) or second(record)

    def some(record: Record) -> bool:
        for test in tests:  # noqa: SIM110 - any() with a generator takes three times as long
            if test(record):
                return True
        return False

    return some


def _words(patterns: Sequence[WildcardPattern]) -> Test:
    wanted = [[part.casefold() for part in pattern.parts if part] for pattern in patterns]
    if len(wanted) == 1 and len(wanted[0]) == 1:
        only = wanted[0][0]
        return lambda record: only in record.text().casefold()

    def search(record: Record) -> bool:
        text = record.text().casefold()
        return all(_in_order(text, parts, 0, len(text)) for parts in wanted)

    return search


def _in_order(text: str, parts: Sequence[str], start: int, end: int) -> bool:
    for part in parts:
        found = text.find(part, start, end)
        if found < 0:
            return False
        start = found + len(part)
    return True


def compile_pattern(pattern: WildcardPattern) -> Callable[[str], bool]:
    """Return the test of a whole text: leftmost pieces suffice, so no pattern can make it slow."""
    if pattern.is_any:
        return bool
    first, last, middle = pattern.parts[0], pattern.parts[-1], pattern.parts[1:-1]
    if pattern.exact is not None:
        return lambda text: text == first
    if not middle and not last:
        return lambda text: text.startswith(first)
    if not middle and not first:
        return lambda text: text.endswith(last)
    shortest = len(first) + len(last)
    return lambda text: (
        len(text) >= shortest
        and text.startswith(first)
        and text.endswith(last)
        and _in_order(text, middle, len(first), len(text) - len(last))
    )


def _matchers(patterns: Sequence[WildcardPattern]) -> Callable[[str], bool]:
    checks = [compile_pattern(pattern) for pattern in patterns]
    return checks[0] if len(checks) == 1 else lambda text: any(check(text) for check in checks)


def _term(term: Term, now_ms: int) -> Test:
    field = FIELDS[term.field]
    get: Callable[[Record], Any] = attrgetter(field.attribute)
    patterns = [value for value in term.values if isinstance(value, WildcardPattern)]
    match field.kind:
        case FieldKind.PAYLOAD:
            return _payload(term, patterns)
        case FieldKind.STATE:
            return _state(get, patterns)
        case FieldKind.TEXT:
            return _queue(get, patterns) if term.field == "queue" else _text(get, patterns)
        case FieldKind.TAGS:
            check, untagged = _matchers(patterns), any(pattern.exact == "" for pattern in patterns)
            return lambda record: any(map(check, tags)) if (tags := get(record)) else untagged
        case FieldKind.NUMBER:
            if patterns:
                return lambda record: get(record) is not None
            return _number(get, term.op, [value.value for value in term.values if isinstance(value, Number)])
        case _:
            return _any_range(get, ranges(term, now_ms))


def _text(get: Callable[[Record], Any], patterns: Sequence[WildcardPattern]) -> Test:
    exact = frozenset(pattern.exact for pattern in patterns if pattern.exact)
    if len(exact) == len(patterns):  # the two shapes that nearly every filter has
        if len(exact) == 1:
            (only,) = exact
            return lambda record: bool(get(record) == only)
        return lambda record: get(record) in exact
    check = _matchers(patterns)
    return lambda record: check(get(record) or "")


def _state(get: Callable[[Record], Any], patterns: Sequence[WildcardPattern]) -> Test:
    """Return the test of a state: one of native jobs, or as the system of a job calls it."""
    words = frozenset(pattern.exact for pattern in patterns if pattern.exact in NATIVE_STATES)
    ours = _text(get, [pattern for pattern in patterns if pattern.exact not in words])
    if not words:
        return ours
    own: Callable[[Record], str] = attrgetter("native_state")
    same = {states[0] for word in words if len(states := NATIVE_STATES[word or ""]) == 1}

    def test(record: Record) -> bool:
        if record.adapter == NATIVE:
            return record.state in same or ours(record)
        return _FIRST_WORD.split(own(record), 1)[0] in words or ours(record)

    return test


def _queue(get: Callable[[Record], Any], patterns: Sequence[WildcardPattern]) -> Test:
    """Return the test of a queue, given by its name or as `adapter/name`."""
    by_name = _text(get, patterns)
    if not any("/" in part for pattern in patterns for part in pattern.parts):
        return by_name
    in_full = _text(lambda record: f"{record.adapter}/{record.queue}", patterns)
    return lambda record: by_name(record) or in_full(record)


def _number(get: Callable[[Record], Any], op: Comparison, wanted: Sequence[float]) -> Test:
    limit = wanted[0]
    match op:
        case Comparison.GT:
            return lambda record: (value := get(record)) is not None and value > limit
        case Comparison.GE:
            return lambda record: (value := get(record)) is not None and value >= limit
        case Comparison.LT:
            return lambda record: (value := get(record)) is not None and value < limit
        case Comparison.LE:
            return lambda record: (value := get(record)) is not None and value <= limit
        case _:
            among = frozenset(wanted)
            return lambda record: get(record) in among


def _any_range(get: Callable[[Record], Any], spans: Sequence[TimeRange]) -> Test:
    tests = [_in_range(get, span) for span in spans]
    return tests[0] if len(tests) == 1 else _any(tests)


def _in_range(get: Callable[[Record], Any], span: TimeRange) -> Test:
    lo, hi = span.lo_ms, span.hi_ms
    if lo is not None and hi is not None:
        return lambda record: (ms := get(record)) is not None and lo <= ms <= hi
    if lo is not None:
        return lambda record: (ms := get(record)) is not None and ms >= lo
    if hi is not None:
        return lambda record: (ms := get(record)) is not None and ms <= hi
    return lambda record: get(record) is not None


def _payload(term: Term, patterns: Sequence[WildcardPattern]) -> Test:
    path = [(segment, int(segment) if _INDEX.fullmatch(segment) else None) for segment in term.path]
    inner = [("data", None), *path] if path[0][0] in PAYLOAD_FIELDS and not path[1:] else None

    def find(record: Record) -> object:
        payload = record.payload()
        found = _find(payload, path)
        return _find(payload, inner) if found is _MISSING and inner is not None else found

    if any(pattern.is_any for pattern in patterns):
        return lambda record: find(record) is not _MISSING
    check = _ordered(term) if term.op.is_ordering else _scalar(patterns)

    def test(record: Record) -> bool:
        value = find(record)
        return any(map(check, value)) if isinstance(value, list | tuple) else check(value)

    return test


def _find(payload: object, path: Sequence[tuple[str, int | None]]) -> object:
    here: Any = payload
    match payload:
        case [list() | tuple() as args, dict() as kwargs]:
            name, index = path[0]
            here = kwargs if name in kwargs else args if index is not None else {"args": args, "kwargs": kwargs}
    for name, index in path:
        if isinstance(here, dict):
            here = here.get(name, _MISSING)
        elif isinstance(here, list | tuple) and index is not None and index < len(here):
            here = here[index]
        else:
            return _MISSING
    return here


def _scalar(patterns: Sequence[WildcardPattern]) -> _Check:
    """Compares a JSON scalar by its text, and numbers also by value, so that 42 finds 42.0."""
    check = _matchers(patterns)
    numbers = {number for pattern in patterns if pattern.exact and (number := number_in(pattern.exact)) is not None}

    def test(value: Any) -> bool:
        match value:
            case str():
                return check(value)
            case bool():
                return check("true" if value else "false")
            case None:
                return check("null")
            case int() | float():
                return value in numbers or check(repr(value))
            case _:
                return False

    return test


def _ordered(term: Term) -> _Check:
    (wanted,) = term.values
    if isinstance(wanted, Instant):
        (span,) = ranges(term, 0)
        lo, hi = span.lo_ms, span.hi_ms

        def in_time(value: Any) -> bool:
            found = instant_in(value) if isinstance(value, str) else None
            return found is not None and (lo is None or found.ms >= lo) and (hi is None or found.ms <= hi)

        return in_time

    number = wanted.value if isinstance(wanted, Number) else 0
    compare: Callable[[float, float], bool] = {
        Comparison.GT: gt,
        Comparison.GE: ge,
        Comparison.LT: lt,
        Comparison.LE: le,
    }[term.op]
    return lambda value: isinstance(value, int | float) and not isinstance(value, bool) and compare(value, number)
