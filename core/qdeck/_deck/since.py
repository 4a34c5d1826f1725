"""Since when a check is as it is: what an agent that judges noted. Of what nobody noted, nothing is known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec

from qdeck._engine import codec, ops
from qdeck._engine.numbers import whole
from qdeck._redis import reads

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qdeck._deck.model import QueueRef
    from qdeck._deck.verdict import Check
    from qdeck._engine.ops import Program
    from qdeck._settings.thresholds import Thresholds

KEY: Final = "qdeck:since"  # string: what the agents that judge noted, as JSON
LIVE_MS: Final = 86_400_000
_MOST_NOTED: Final = 500
_GAP_MS: Final = 900_000  # longer without a look, and what was in between is not known


@dataclass(frozen=True, slots=True, kw_only=True)
class Began:
    """When something came to be as it is; not `exact`: it was so already then."""

    at_ms: int
    exact: bool


def place(check: str, queue: QueueRef | None) -> str:
    """The name of what is judged: a check, of one queue or of all."""
    return f"{check}/{queue or ''}"


def read_since(checks: Sequence[Check], thresholds: Thresholds, now_ms: int) -> Program[dict[str, Began]]:
    """Since when each finding of these checks holds, by its place; one that no agent noted is missing."""
    found: dict[str, Began] = {}
    if not any(check.findings for check in checks):
        return found
    noted = yield from _read_noted()
    places = noted.get("places")
    if noted.get("thresholds") != msgspec.to_builtins(thresholds) or not isinstance(places, dict):
        return found  # judged by other rules
    for check in checks:
        for finding in check.findings:
            name = place(check.name, finding.queue)
            said = places.get(name)
            if isinstance(said, list) and len(said) == 3 and said[0] == finding.severity:
                at_ms = whole(said[1])
                if at_ms is not None and 0 < at_ms <= now_ms:
                    found[name] = Began(at_ms=at_ms, exact=said[2] is True)
    return found


def _read_noted() -> Program[dict[str, Any]]:
    [raw] = yield reads.read((b"GET", KEY))
    if reads.is_error(raw) or raw is None:
        return {}
    try:
        said = codec.decode_json(raw)
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}


def note(checks: Sequence[Check], thresholds: Thresholds, now_ms: int) -> Program[None]:
    """Notes since when each finding holds, for whoever looks later; what another agent noted goes on."""
    before = yield from _read_noted()
    rules: Any = msgspec.to_builtins(thresholds)
    at_ms = before.get("at")
    fresh = before.get("thresholds") == rules and isinstance(at_ms, int) and 0 <= now_ms - at_ms <= _GAP_MS
    known = before.get("places") if fresh else None
    held: dict[str, Any] = known if isinstance(known, dict) else {}
    now_so: dict[str, Any] = {}
    for check in checks:
        for finding in check.findings[:_MOST_NOTED]:
            name = place(check.name, finding.queue)
            said = held.get(name)
            same = isinstance(said, list) and len(said) == 3 and said[0] == finding.severity
            now_so[name] = said if same else [finding.severity.value, now_ms, fresh]
    text = codec.encode_json({"at": now_ms, "thresholds": rules, "places": now_so})
    for reply in (yield ops.commands((b"SET", KEY, text, b"PX", LIVE_MS), key=KEY.encode())):
        reads.good(reply)
