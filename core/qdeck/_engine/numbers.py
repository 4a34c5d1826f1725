"""Numbers as they are stored, read totally: whatever the bytes are, the answer is a number within bounds or None."""

from __future__ import annotations

from typing import Final

MOST: Final = 2**53  # beyond it no number is a count or a moment, and JSON cannot carry it
_DIGITS: Final = 16  # of MOST


def whole(value: object) -> int | None:
    """A number of another program as a whole one; None when it is none, or out of all bounds."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if -MOST <= value <= MOST else None


def score_ms(score: bytes | str | float | None, unit_ms: int = 1) -> int | None:
    """A score as a moment in ms; None when there is none, or it is out of all bounds."""
    try:
        number = None if score is None else whole(float(score))
    except ValueError:
        return None
    return None if number is None else whole(number * unit_ms)


def clipped(score: bytes | str | float) -> int:
    """A score as a whole number, the nearest within bounds: for what only compares."""
    return int(max(-MOST, min(MOST, float(score))))


def digits(raw: bytes | str) -> int | None:
    """A number of plain digits; None when it is none, or longer than any count."""
    text = raw.decode("ascii", "replace") if isinstance(raw, bytes) else raw
    return int(text) if len(text) < _DIGITS and text.isascii() and text.isdigit() else None


def integer(raw: bytes | str | None) -> int | None:
    """A whole number with or without a sign; None when it is none, or out of all bounds."""
    if not raw or len(raw) > _DIGITS + 1:
        return None
    try:
        return whole(int(raw))
    except ValueError:
        return None


def need(raw: bytes | str) -> int:
    """A whole number; raises `ValueError` when it is none, or out of all bounds."""
    found = integer(raw)
    if found is None:
        raise ValueError(f"{raw[:40]!r} is not a whole number within bounds")
    return found
