"""Times in the formats of other systems."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final

_RUBY: Final = re.compile(r"(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d(?:\.\d+)?) ?([+-]\d\d):?(\d\d)$")


def read_ms(raw: bytes | str | None) -> int | None:
    """Return a time in ms since the epoch: `2026-11-18 00:58:34 -0500`, ISO 8601, or a date; None for other text.

    Without an offset it is UTC: the zone of another host cannot be known.
    """
    if raw is None:
        return None
    try:
        text = (raw.decode() if isinstance(raw, bytes) else raw).strip()
        if found := _RUBY.match(text):
            text = f"{found[1]}T{found[2]}{found[3]}:{found[4]}"
        elif text.endswith(" UTC"):
            text = text[:-4]
        moment = datetime.fromisoformat(text)
        return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, OverflowError, AttributeError):
        return None


def iso(ms: int, *, zulu: bool = False) -> str:
    """Return a time as Python's `isoformat` writes it in UTC, or with `zulu` as JavaScript's `toISOString`."""
    moment = datetime.fromtimestamp(ms / 1000, UTC)
    if zulu:
        return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{ms % 1000:03d}Z"
    return moment.isoformat()
