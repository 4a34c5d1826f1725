"""Properties of the filter language: printing and parsing, no crash on any text, and a plain evaluator beside it."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from qdeck import InvalidFilter
from qdeck._filter import FIELDS, STATES, FieldKind, TimeRange
from qdeck._filter.nodes import (
    ANYTHING,
    DAY_MS,
    UNIT_MS,
    Age,
    And,
    Comparison,
    Everything,
    FromNow,
    Instant,
    Node,
    Not,
    Number,
    Or,
    Term,
    Value,
    WildcardPattern,
    Words,
    all_of,
    any_of,
    negated,
)
from qdeck.admin import Filter, explain, parse
from support.records import HOUR, NOW, Job

literals = st.text(max_size=4) | st.sampled_from(
    ["or", "and", "-a", "a*", 'a"', "a\\", "Timeout", "é", "a b", "x,y", "("]
)
patterns = st.lists(literals, min_size=1, max_size=3).map(
    lambda parts: WildcardPattern((*parts[:1], *(part for part in parts[1:-1] if part), *parts[1:][-1:]))
)
phrases = patterns.filter(lambda pattern: pattern.exact != "" and not pattern.is_any)
integers = st.integers(-(10**9), 10**9)
numbers = st.builds(Number, integers | st.floats(allow_nan=False, allow_infinity=False).filter(lambda x: x % 1 != 0))
ages = st.builds(Age, st.integers(0, 10**6), st.sampled_from(sorted(UNIT_MS))) | st.builds(
    Age, st.integers(0, 10**15 - 1), st.just("ms")
)
steps = st.sampled_from([DAY_MS, UNIT_MS["m"], 1000, 100, 10, 1])
instants = st.builds(
    lambda ms, step: Instant(ms // step * step, step), st.integers(-62_135_596_800_000, 253_402_300_799_999), steps
)
moments = st.builds(FromNow, st.integers(1, 10**6) | st.integers(-(10**6), -1), st.sampled_from(sorted(UNIT_MS)))
EQUAL, ORDER = [Comparison.IS, Comparison.NOT], [Comparison.GT, Comparison.GE, Comparison.LT, Comparison.LE]


def terms_of(
    name: str, values: st.SearchStrategy[Value], ordered: st.SearchStrategy[Value] | None
) -> st.SearchStrategy[Term]:
    path = st.lists(literals, min_size=1, max_size=3).map(tuple) if name == "payload" else st.just(())
    several = st.lists(values, min_size=1, max_size=3, unique=True).map(tuple)
    equal = st.builds(Term, st.just(name), st.sampled_from(EQUAL), several, path)
    if ordered is None:
        return equal
    return equal | st.builds(Term, st.just(name), st.sampled_from(ORDER), st.tuples(ordered), path)


def terms(name: str) -> st.SearchStrategy[Term]:
    any_value = st.just(ANYTHING)
    match FIELDS[name].kind:
        case FieldKind.TEXT | FieldKind.TAGS:
            return terms_of(name, patterns, None)
        case FieldKind.STATE:
            return terms_of(
                name, st.sampled_from(STATES).map(lambda state: WildcardPattern((state,))) | any_value, None
            )
        case FieldKind.NUMBER:
            return terms_of(name, numbers | any_value, numbers)
        case FieldKind.AGE:
            return terms_of(name, ages | any_value, ages)
        case FieldKind.TIME:
            return terms_of(name, ages | instants | any_value, ages | instants | moments | st.just(FromNow(0, "s")))
        case FieldKind.PAYLOAD:
            return terms_of(name, patterns, numbers | instants)


def trees(leaves: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            inner.map(negated),
            st.lists(inner, min_size=2, max_size=3).map(all_of),
            st.lists(inner, min_size=2, max_size=3).map(any_of),
        ),
        max_leaves=6,
    )


leaves: st.SearchStrategy[Node] = st.builds(Words, phrases) | st.sampled_from(sorted(FIELDS)).flatmap(terms)


@given(trees(leaves))
def test_printed_tree_parses_to_itself(tree: Node) -> None:
    assert parse(str(tree)).node == tree


@given(st.just(Everything()) | trees(leaves))
def test_canonical_text_is_stable(tree: Node) -> None:
    assert str(parse(str(tree))) == str(tree)


pieces = st.sampled_from(
    [*'-():><=!,*". \\“²１\x00\ud800', "or", "and", "now", "2h", "2026-11-18", "payload.a", "dead", "9" * 5000, *FIELDS]
)


@given(st.text() | st.lists(pieces | st.text(max_size=2), max_size=12).map("".join))
def test_any_text_parses_or_is_an_invalid_filter(text: str) -> None:
    try:
        read: Filter | InvalidFilter = parse(text)
    except InvalidFilter as error:
        read = error
    if isinstance(read, Filter):
        assert parse(str(read)) == read
        assert read.is_everything == (not text.strip())
        read.matches(Job(), NOW)
        read.pushdown(NOW)
    else:
        assert 0 <= read.position <= len(text)
        assert read.hint
        assert [line for line in explain(text, read).split("\n") if not line.isprintable()] == []


# Against a plain evaluator


def plain(node: Node, job: Job) -> bool:
    match node:
        case Everything():
            return True
        case And():
            return all(plain(part, job) for part in node.nodes)
        case Or():
            return any(plain(part, job) for part in node.nodes)
        case Not():
            return not plain(node.node, job)
        case Words():
            return glob(node.pattern, job.text().casefold(), fold=True) is not None
        case Term():
            equal = any(plain_value(node, value, job) for value in node.values)
            return not equal if node.op is Comparison.NOT else equal


def glob(pattern: WildcardPattern, text: str, *, fold: bool = False) -> re.Match[str] | None:
    parts = [part.casefold() if fold else part for part in pattern.parts]
    regex = re.compile(".*".join(map(re.escape, parts)), re.DOTALL)
    return regex.search(text) if fold else regex.fullmatch(text)


def plain_text(pattern: WildcardPattern, text: str) -> bool:
    return text != "" if pattern.is_any else glob(pattern, text) is not None


def plain_value(term: Term, value: Value, job: Job) -> bool:
    match FIELDS[term.field].kind:
        case FieldKind.TEXT | FieldKind.STATE:
            assert isinstance(value, WildcardPattern)
            return plain_text(value, getattr(job, term.field) or "")
        case FieldKind.TAGS:
            assert isinstance(value, WildcardPattern)
            return any(plain_text(value, tag) for tag in job.tags or ("",))
        case FieldKind.NUMBER:
            have = getattr(job, term.field)
            if isinstance(value, WildcardPattern) or have is None:
                return have is not None
            assert isinstance(value, Number)
            return compared(have, term.op, value.value, 0)
        case FieldKind.AGE | FieldKind.TIME:
            have = job.since_ms if term.field == "age" else getattr(job, f"{term.field}_ms")
            if isinstance(value, WildcardPattern) or have is None:
                return have is not None
            if isinstance(value, Age):
                length = have - NOW if term.field == "due" else NOW - have
                return compared(length, term.op, value.ms, value.step_ms)
            if isinstance(value, FromNow):
                return compared(have - NOW, term.op, value.ms, 0)
            assert isinstance(value, Instant)
            return compared(have, term.op, value.ms, value.step_ms)
        case FieldKind.PAYLOAD:
            assert isinstance(value, WildcardPattern)
            assert isinstance(job.data, dict)
            have = job.data.get(term.path[0])
            return isinstance(have, str) and (value.is_any or glob(value, have) is not None)


def compared(have: float, op: Comparison, want: float, step: int) -> bool:
    match op:
        case Comparison.GT:
            return have > want
        case Comparison.GE:
            return have >= want
        case Comparison.LT:
            return have < want
        case Comparison.LE:
            return have <= want
        case _:
            return want <= have < want + step if step else have == want


few_texts = st.text("aB", max_size=3)
few_patterns = st.lists(few_texts, min_size=1, max_size=3).map(
    lambda parts: WildcardPattern((*parts[:1], *(part for part in parts[1:-1] if part), *parts[1:][-1:]))
)
few_phrases = few_patterns.filter(lambda pattern: pattern.exact != "" and not pattern.is_any)
few_numbers = st.builds(Number, st.integers(0, 3) | st.just(1.5))
few_ages = st.builds(Age, st.integers(0, 3), st.sampled_from(["m", "h"]))
few_times = st.builds(lambda at: Instant(NOW + at * HOUR, HOUR), st.integers(-3, 3))
few_states = st.sampled_from(
    [WildcardPattern((state,)) for state in STATES[:3]] + [WildcardPattern(("de", "")), ANYTHING]
)
few_ms = st.none() | st.integers(-4, 4).map(lambda count: NOW + count * HOUR) | st.integers(NOW - 9, NOW + 9)
star = st.just(ANYTHING)

few_leaves: st.SearchStrategy[Node] = st.one_of(
    st.builds(Words, few_phrases),
    *(terms_of(name, few_patterns, None) for name in ("id", "queue", "error", "tag")),
    terms_of("state", few_states, None),
    *(terms_of(name, few_numbers | star, few_numbers) for name in ("priority", "attempts")),
    terms_of("age", few_ages | star, few_ages),
    *(
        terms_of(name, few_ages | few_times | star, few_ages | few_times | st.just(FromNow(-1, "h")))
        for name in ("due", "failed")
    ),
    st.builds(Term, st.just("payload"), st.sampled_from(EQUAL), st.tuples(few_patterns), st.just(("a",))),
)
few_jobs = st.builds(
    Job,
    id=few_texts,
    name=st.none(),
    task=st.none(),
    queue=few_texts,
    state=st.sampled_from(STATES),
    error=st.none() | few_texts,
    message=st.none() | few_texts,
    tags=st.lists(few_texts.filter(bool), max_size=2).map(tuple),
    priority=st.none() | st.integers(0, 3),
    attempts=st.none() | st.integers(0, 3),
    since_ms=few_ms,
    due_ms=few_ms,
    failed_ms=few_ms,
    data=st.dictionaries(st.just("a"), few_texts),
)


@given(trees(few_leaves), few_jobs)
def test_matching_is_that_of_a_plain_evaluator(tree: Node, job: Job) -> None:
    assert Filter(tree).matches(job, NOW) == plain(tree, job)


@given(trees(few_leaves), few_jobs)
def test_pushdown_leaves_no_match_out(tree: Node, job: Job) -> None:
    found = Filter(tree).pushdown(NOW)
    if not plain(tree, job):
        return
    sets = [(found.queues, job.queue), (found.adapters, job.adapter), (found.states, job.state), (found.ids, job.id)]
    assert all(allowed is None or value in allowed for allowed, value in sets)
    for name in ("since", "due", "failed", "enqueued"):
        span, ms = getattr(found, name), getattr(job, f"{name}_ms")
        assert span == TimeRange() or ms is not None
        assert span.lo_ms is None or ms >= span.lo_ms
        assert span.hi_ms is None or ms <= span.hi_ms


@given(trees(few_leaves), few_jobs, st.sets(st.sampled_from([*FIELDS, "text"])))
def test_restricted_filter_leaves_no_match_out(tree: Node, job: Job, known: set[str]) -> None:
    whole = Filter(tree)
    part = whole.restricted(known)
    assert part.fields <= known
    assert part.matches(job, NOW) or not whole.matches(job, NOW)
    assert whole.restricted(whole.fields) == whole
