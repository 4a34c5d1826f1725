"""Numbers of things and times as text."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from msgspec import ValidationError

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def counted(count: int, one: str, many: str = "") -> str:
    """Return a number of things in words: `1 queue`, `1,200 queues`; `many` where it is not `one` and an s."""
    return f"{count:,} {one if count == 1 else many or f'{one}s'}"


def iso(ms: int | None) -> str | None:
    """Return a moment as ISO 8601 in UTC, or None for one that no calendar has."""
    if ms is None:
        return None
    try:
        return (_EPOCH + timedelta(milliseconds=ms)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except OverflowError:
        return None


def invalid_value(error: ValidationError) -> tuple[str, str]:
    """Return what msgspec found wrong, and the path of the value, such as `.a[0]`: it tells both in one text only."""
    text, _, path = str(error).partition(" - at `$")
    return text, path.rstrip("`")
