"""What a job was given, in one line: whole names and values only, so that nothing is read wrongly."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from qdeck_console import format as fmt
from qdeck_console.text import cut_end, safe_text, width

if TYPE_CHECKING:
    from qdeck._deck.model import JobRecord
    from qdeck_console.format import Piece

_LONGEST: Final = 40  # cells of one value, so that a long one does not hide the others
_GAP: Final = "  "


def payload_pieces(job: JobRecord, cells: int) -> list[Piece]:
    """The payload of a row in at most so many cells; a pair that does not fit is left out, the first one is cut."""
    if job.body is None:
        return [("…", "ghost")]
    out: list[Piece] = []
    for name, value in pairs(job.payload()):
        gap = _GAP if out else ""
        label = f"{safe_text(name, limit=60)} " if name else ""
        text = cut_end(safe_text(value, limit=400), _LONGEST)
        left = cells - fmt.length(out) - width(gap) - width(label)
        if width(text) > left:
            if out or left < 4:
                continue
            text = cut_end(text, left)
        out += [(gap, "text"), (label, "muted"), (text, "text")]
    return [piece for piece in out if piece[0]]


def pairs(payload: Any) -> list[tuple[str, str]]:
    """The arguments of a call as names and values, positional ones without a name; any other value by itself."""
    if (
        isinstance(payload, list)
        and len(payload) == 2
        and isinstance(payload[0], list)
        and isinstance(payload[1], dict)
    ):
        return [("", _words(value)) for value in payload[0]] + _named(payload[1])
    if isinstance(payload, Mapping):
        return _named(payload)
    return [] if payload is None else [("", _words(payload))]


def _named(values: Mapping[Any, Any]) -> list[tuple[str, str]]:
    return [(str(name), _words(value)) for name, value in values.items()]


def _words(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        return f"{{ {len(value)} keys }}" if value else "{}"
    if isinstance(value, list):
        return f"[ {len(value)} items ]" if value else "[]"
    return str(value).lower() if isinstance(value, bool) else "null" if value is None else str(value)
