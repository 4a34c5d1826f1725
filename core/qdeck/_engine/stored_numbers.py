"""Numbers as they are stored: any bytes give a number within bounds, or None."""

from __future__ import annotations

from typing import Final

MAX_NUMBER: Final = 2**53  # beyond it no number is a count or a moment, and JSON cannot carry it
_DIGITS: Final = 16  # of MAX_NUMBER


def whole(value: object) -> int | None:
    """Return a number of another program as a whole one; None for other values and those out of bounds."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if -MAX_NUMBER <= value <= MAX_NUMBER else None


def score_ms(score: bytes | str | float | None, unit_ms: int = 1) -> int | None:
    """Return a score as a moment in ms; None without one, and for one out of bounds."""
    try:
        number = None if score is None else whole(float(score))
    except ValueError:
        return None
    return None if number is None else whole(number * unit_ms)


def clamped(score: bytes | str | float) -> int:
    """Return a score as a whole number, or the nearest bound: for comparisons only."""
    return int(max(-MAX_NUMBER, min(MAX_NUMBER, float(score))))


def digits(raw: bytes | str) -> int | None:
    """Return a number of plain digits; None for other text and for one that is too long."""
    text = raw.decode("ascii", "replace") if isinstance(raw, bytes) else raw
    return int(text) if len(text) < _DIGITS and text.isascii() and text.isdigit() else None


def integer(raw: bytes | str | None) -> int | None:
    """Return a whole number with or without a sign; None for other text and those out of bounds."""
    if not raw or len(raw) > _DIGITS + 1:
        return None
    try:
        return whole(int(raw))
    except ValueError:
        return None


def require_integer(raw: bytes | str) -> int:
    """Return a whole number; raise `ValueError` for other text and those out of bounds."""
    found = integer(raw)
    if found is None:
        raise ValueError(f"{raw[:40]!r} is not a whole number within bounds")
    return found
