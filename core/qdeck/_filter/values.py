"""Reads the values of a comparison: each kind of field takes its own, and says which when it gets another."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from qdeck._filter.errors import show, wrong
from qdeck._filter.fields import NATIVE_STATES, STATES, FieldKind, nearest
from qdeck._filter.nodes import ANYTHING, DAY_MS, EPOCH, UNIT_MS, Age, Comparison, FromNow, Instant, Number, Value
from qdeck._priority_names import PRIORITIES

if TYPE_CHECKING:
    from qdeck._errors import InvalidFilter
    from qdeck._filter.lexer import RawValue, TermPrefix

_NUMBER: Final = re.compile(r"-?[0-9]{1,30}(\.[0-9]{1,30})?(e[+-]?[0-9]{1,3})?")
_AGE: Final = re.compile(r"([0-9]{1,15})(ms|s|m|h|d|w)")
_AGES: Final = re.compile(r"([0-9]{1,15}(ms|s|m|h|d|w)){1,6}")
_FROM_NOW: Final = re.compile(r"now(?:([+-])(.+))?", re.DOTALL)
_ISO: Final = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}([T ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?(Z|[+-][0-9]{2}:[0-9]{2})?)?"
)
_AGE_HINT: Final = "An age is a number and a unit, ms s m h d or w: 90s, 15m, 2h, 7d, 1h30m."
_TIME_HINT: Final = "A time is 2026-11-18, 2026-11-18T10:15:00Z, now-2h, or an age such as 2h, counted from now."
_MAX_WHOLE: Final = 2**53
_MAX_AGE_MS: Final = 10**15 - 1  # 31,000 years; in any unit it prints in digits that parse again


def value_of(text: str, head: TermPrefix, raw: RawValue) -> Value:
    """Return the value of one comparison in the filter `text`, or the error that says what the field takes."""
    kind = head.field.kind
    if kind is FieldKind.PAYLOAD:
        return _ordered_payload(text, head, raw) if head.op.is_ordering else raw.pattern
    if kind in (FieldKind.TEXT, FieldKind.STATE, FieldKind.TAGS):
        if head.op.is_ordering:
            raise wrong(
                f"{head.field.name!r} cannot be compared with {head.op.value!r}",
                text,
                raw.position - len(head.op),
                f"Write {head.field.name}:value, with * for any text, or {head.field.name}!=value.",
            )
        if kind is FieldKind.STATE:
            _check_state(text, raw)
        return raw.pattern
    if raw.pattern.is_any and not head.op.is_ordering:
        return ANYTHING
    if "*" in raw.text:
        raise wrong(
            f"{show(raw.text)}: {head.field.name!r} does not take patterns",
            text,
            raw.position,
            f"Write {head.field.name}:* alone for any value, or compare with > >= < <=.",
        )
    if kind is FieldKind.NUMBER:
        return _number(text, head, raw)
    return _age(text, head, raw) if kind is FieldKind.AGE else _time(text, head, raw)


def number_in(text: str) -> float | None:
    """Return the number that a text is, whole ones as int; None when it is another text."""
    if not _NUMBER.fullmatch(text):
        return None
    number = float(text) if "." in text or "e" in text else int(text)
    if isinstance(number, float) and number.is_integer() and abs(number) < _MAX_WHOLE:
        return int(number)
    return number if not isinstance(number, float) or math.isfinite(number) else None


def instant_in(text: str) -> Instant | None:
    """Return the point in time that an ISO 8601 text is, UTC unless it says otherwise; None when it is another text."""
    if not (match := _ISO.fullmatch(text)):
        return None
    clock, seconds, fraction, _ = match.groups()
    if fraction:  # to the ms: what is finer than the times of a record says nothing
        text = text.replace(fraction, fraction[:4], 1)
    try:
        when = datetime.fromisoformat(text)
        when = (when if when.tzinfo else when.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    step = DAY_MS if not clock else UNIT_MS["m"] if not seconds else 10 ** (4 - len(fraction[:4])) if fraction else 1000
    return Instant((when - EPOCH) // timedelta(milliseconds=1), step)


def _check_state(text: str, raw: RawValue) -> None:
    exact = raw.pattern.exact
    if exact in STATES or exact in NATIVE_STATES or (exact is None and any(_fits(raw, state) for state in STATES)):
        return
    guess = nearest({"dead_letter": "dead"}.get(raw.text, raw.text), (*STATES, *NATIVE_STATES))
    raise wrong(
        f"unknown state {show(raw.text)}",
        text,
        raw.position,
        f"Did you mean {guess!r}?" if guess else f"The states are {', '.join(STATES)}.",
    )


def _fits(raw: RawValue, state: str) -> bool:
    return re.fullmatch(".*".join(map(re.escape, raw.pattern.parts)), state) is not None


def _number(text: str, head: TermPrefix, raw: RawValue) -> Number:
    names = PRIORITIES if head.field.name == "priority" else {}
    named = names.get(raw.text.upper())
    number = number_in(raw.text) if named is None else named
    if number is None:
        also = f" or {', '.join(names)}" if names else ""
        raise wrong(
            f"{show(raw.text)} is not a number",
            text,
            raw.position,
            f"{head.field.name!r} takes a number{also}: {head.field.name}>=3.",
        )
    return Number(number)


def _age_in(text: str) -> Age | None:
    if not _AGES.fullmatch(text):
        return None
    parts = [Age(int(count), unit) for count, unit in _AGE.findall(text)]
    finest = min(parts, key=lambda part: part.step_ms)
    total_ms = sum(part.ms for part in parts)
    return Age(total_ms // finest.step_ms, finest.unit) if total_ms <= _MAX_AGE_MS else None


def _no_age(text: str, raw: RawValue, what: str, hint: str) -> InvalidFilter:
    if raw.text.isdecimal():
        return wrong(
            f"{show(raw.text)} without a unit", text, raw.position, f"Add s, m, h or d: {raw.text[:9]}m. {hint}"
        )
    unit = re.fullmatch(r"([0-9.]+) *([^\W\d]+)", raw.text)
    if unit and unit[2] not in UNIT_MS:
        place = raw.position + text[raw.position :].find(unit[2])
        return wrong(f"{show(unit[2])} is not a unit of time", text, place, hint)
    return wrong(f"{show(raw.text)} is not {what}", text, raw.position, hint)


def _age(text: str, head: TermPrefix, raw: RawValue) -> Age:
    age = _age_in(raw.text)
    if age is not None:
        return age
    if instant_in(raw.text) or raw.text.startswith("now"):
        raise wrong(
            f"{show(raw.text)} is a time, and 'age' is a length of time",
            text,
            raw.position,
            f"Write enqueued{_mirrored(head.op)}{raw.text}, or an age such as 2h.",
        )
    raise _no_age(text, raw, "an age", _AGE_HINT)


def _mirrored(op: Comparison) -> str:
    return {Comparison.GT: "<", Comparison.GE: "<=", Comparison.LT: ">", Comparison.LE: ">="}.get(op, op.value)


def _time(text: str, head: TermPrefix, raw: RawValue) -> Age | Instant | FromNow:
    found = _age_in(raw.text) or instant_in(raw.text)
    if found is not None:
        return found
    if match := _FROM_NOW.fullmatch(raw.text):
        distance = Age(0, "s") if match[2] is None else _age_in(match[2])
        if distance is not None:
            if not head.op.is_ordering:
                raise wrong(
                    f"{head.field.name}{head.op}{raw.text} would match a single moment only",
                    text,
                    raw.position,
                    f"Compare with > >= < or <=: {head.field.name}<{raw.text}.",
                )
            count = -distance.count if match[1] == "-" else distance.count
            return FromNow(count, distance.unit if count else "s")
    raise _no_age(text, raw, "a time", _TIME_HINT)


def _ordered_payload(text: str, head: TermPrefix, raw: RawValue) -> Number | Instant:
    number = number_in(raw.text)
    found = Number(number) if number is not None else instant_in(raw.text)
    if found is None:
        raise wrong(
            f"{show(raw.text)} is neither a number nor a time",
            text,
            raw.position,
            f"After {head.op.value!r} write a number or a time such as 2026-11-18T10:15Z; text is compared with ':'.",
        )
    return found
