"""The payload of a job in one line: whole names and values only, so that no value is misread."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from qdeck_console import format as fmt
from qdeck_console.text import cut_end, safe_text, width

if TYPE_CHECKING:
    from qdeck.admin import JobRecord
    from qdeck_console.format import Piece

_LONGEST: Final = 40  # cells of one value, so that a long one does not hide the others
_GAP: Final = "  "


Columns = Sequence[tuple[str, int]]  # a name that all rows have at this place, and how wide its values are


def shared_columns(jobs: Iterable[JobRecord]) -> Columns:
    """Return the pairs with which all these rows begin: they are aligned."""
    shared: list[tuple[str, int]] | None = None
    for job in jobs:
        if job.body is None:
            continue
        found = [(name, width(_shown(value))) for name, value in pairs(job.payload())]
        if shared is None:
            shared = found
            continue
        both = list(zip(shared, found, strict=False))
        same = next((at for at, (old, new) in enumerate(both) if old[0] != new[0]), len(both))
        shared = [(old[0], max(old[1], new[1])) for old, new in both[:same]]
    return shared or []


def _shown(value: str) -> str:
    return cut_end(safe_text(value, limit=400), _LONGEST)


def payload_pieces(job: JobRecord, cells: int, aligned: Columns = ()) -> list[Piece]:
    """Return the payload of a row in `cells`; a pair that does not fit is left out, the first one is cut."""
    if job.body is None:
        return [("…" if job.has_all_facts else fmt.NONE, "ghost")]  # not read yet, or none is kept
    out: list[Piece] = []
    for at, (name, value) in enumerate(pairs(job.payload())):
        gap = _GAP if out else ""
        label = f"{safe_text(name, limit=60)} " if name else ""
        text = _shown(value)
        left = cells - fmt.length(out) - width(gap) - width(label)
        wide = max(width(text), aligned[at][1] if at < len(aligned) else 0)
        if wide > left and at < len(aligned) and out:
            continue  # so that what follows stands below what is its like
        if width(text) > left:
            if out or left < 4:
                continue
            text = cut_end(text, left)
        out += [(gap, "text"), (label, "muted"), (text, "text"), (" " * min(wide - width(text), left), "text")]
    while out and not out[-1][0].strip():
        out.pop()
    return [piece for piece in out if piece[0]]


def arguments(payload: Any) -> list[tuple[int | str, Any]]:
    """Return the arguments of a call with their names, positional ones with their numbers. Other values have none."""
    if (
        isinstance(payload, list)
        and len(payload) == 2
        and isinstance(payload[0], list)
        and isinstance(payload[1], dict)
    ):
        return [*enumerate(payload[0], 1), *arguments(payload[1])]
    if isinstance(payload, Mapping):
        return [(str(name), value) for name, value in payload.items()]
    return [] if payload is None else [("", payload)]


def pairs(payload: Any) -> list[tuple[str, str]]:
    """Return names and values of the arguments as text; positional ones have no name."""
    return [(name if isinstance(name, str) else "", _words(value)) for name, value in arguments(payload)]


def _words(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        return f"{{ {len(value)} keys }}" if value else "{}"
    if isinstance(value, list):
        return f"[ {len(value)} items ]" if value else "[]"
    return str(value).lower() if isinstance(value, bool) else "null" if value is None else str(value)
