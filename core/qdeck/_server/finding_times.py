"""The times since when findings hold, as an agent recorded them. Without a record a time is unknown."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import msgspec

from qdeck._engine import codec
from qdeck._engine.stored_numbers import whole
from qdeck._redis.commands import with_errors
from qdeck._redis.errors import is_error

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qdeck._model.words import Code, Finding
    from qdeck._redis.commands import Program
    from qdeck._settings.thresholds import Thresholds

KEY: Final = "qdeck:since"  # string: what agents recorded, as JSON
LIVE_MS: Final = 86_400_000
_MOST_NOTED: Final = 500  # of one code
_GAP_MS: Final = 900_000  # after a longer gap it is unknown what held in between


def dated(findings: Sequence[Finding], thresholds: Thresholds, now_ms: int) -> Program[tuple[Finding, ...]]:
    """Return the findings, each with the time from which it holds if an agent recorded it."""
    noted = (yield from _read_noted()) if findings else {}
    places = noted.get("places")
    if noted.get("thresholds") != msgspec.to_builtins(thresholds) or not isinstance(places, dict):
        return tuple(findings)  # found under other rules
    return tuple(_dated(finding, places.get(finding.place), now_ms) for finding in findings)


def _dated(finding: Finding, noted: Any, now_ms: int) -> Finding:
    if isinstance(noted, list) and len(noted) == 3 and noted[0] == finding.severity:
        at_ms = whole(noted[1])
        if at_ms is not None and 0 < at_ms <= now_ms:
            return replace(finding, since_ms=at_ms, since_exact=noted[2] is True)
    return finding


def _read_noted() -> Program[dict[str, Any]]:
    [raw] = yield with_errors((b"GET", KEY))
    if is_error(raw) or raw is None:
        return {}
    try:
        said = codec.decode_json(raw)
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}


def note(findings: Sequence[Finding], thresholds: Thresholds, now_ms: int) -> Program[None]:
    """Record since when each finding holds; a record of another agent stays."""
    before = yield from _read_noted()
    rules: Any = msgspec.to_builtins(thresholds)
    at_ms = before.get("at")
    fresh = before.get("thresholds") == rules and isinstance(at_ms, int) and 0 <= now_ms - at_ms <= _GAP_MS
    known = before.get("places") if fresh else None
    held: dict[str, Any] = known if isinstance(known, dict) else {}
    now_so: dict[str, Any] = {}
    seen: Counter[Code] = Counter()
    for finding in findings:
        seen[finding.code] += 1
        if seen[finding.code] <= _MOST_NOTED:
            said = held.get(finding.place)
            same = isinstance(said, list) and len(said) == 3 and said[0] == finding.severity
            now_so[finding.place] = said if same else [finding.severity.value, now_ms, fresh]
    text = codec.encode_json({"at": now_ms, "thresholds": rules, "places": now_so})
    yield (b"SET", KEY, text, b"PX", LIVE_MS)
