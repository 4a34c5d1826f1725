"""Numbers, durations, sizes and times as text."""

from __future__ import annotations

import contextlib
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from msgspec import ValidationError

_SECOND: Final = 1000
_MINUTE: Final = 60 * _SECOND
_HOUR: Final = 60 * _MINUTE
_DAY: Final = 24 * _HOUR
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


def local_time(ms: int | None, zone: str = "") -> str:
    """Return a moment for people, in a time zone or else the local one: `2026-11-18 14:05:06 CET`; `-` for none."""
    if ms is None or iso(ms) is None:
        return "-"
    form = "%Y-%m-%d %H:%M:%S %Z"
    if zone:
        from zoneinfo import ZoneInfo  # of no use to most commands

        with contextlib.suppress(KeyError, ValueError, OSError):  # a zone that this machine does not have
            return datetime.fromtimestamp(ms / 1000, ZoneInfo(zone)).strftime(form)
    return time.strftime(form, time.localtime(ms / 1000))


def duration(ms: float, *, fine: bool = False) -> str:
    """Return a duration in two units: `38m 12s`, `2h 05m`, `3d 4h`, `16s`; with `fine`, `0.8s` under ten seconds.

    From a hundred days on it has no hours.
    """
    ms = max(0, int(ms))
    if fine and ms < 10 * _SECOND:
        return f"{ms / _SECOND:.1f}s"
    if ms < _MINUTE:
        return f"{ms // _SECOND}s"
    if ms < _HOUR:
        return f"{ms // _MINUTE}m {ms % _MINUTE // _SECOND:02d}s"
    if ms < _DAY:
        return f"{ms // _HOUR}h {ms % _HOUR // _MINUTE:02d}m"
    days = ms // _DAY
    return f"{days}d {ms % _DAY // _HOUR}h" if days < 100 else f"{days:,}d"


def threshold(seconds: float) -> str:
    """Return the duration of a threshold, without a second unit that is zero: `2h`, `1h 30m`, `90d`."""
    text = duration(_SECOND * seconds)
    first, _, second = text.partition(" ")
    return first if second and not int(second[:-1]) else text


def byte_size(number: int) -> str:
    """Return a number of bytes in three digits at most, with a decimal unit: `1.2 MB`."""
    value, unit = float(number), "B"
    for larger in ("kB", "MB", "GB", "TB"):
        if value < 999.5:
            break
        value, unit = value / 1000, larger
    return f"{value:.0f} {unit}" if unit == "B" or value >= 99.5 else f"{value:.1f} {unit}"


def invalid_value(error: ValidationError) -> tuple[str, str]:
    """Return what msgspec found wrong, and the path of the value, such as `.a[0]`; msgspec has both in one text
    only.
    """
    text, _, path = str(error).partition(" - at `$")
    return text, path.rstrip("`")
