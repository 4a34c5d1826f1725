"""Pieces of lines that every screen uses: section heads, names of queues, pairs of label and value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from qdeck import QueueName
from qdeck._names import QueueType
from qdeck_console.format import Line, Piece, fit, length, path
from qdeck_console.text import safe_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from qdeck._deck.model import Snapshot

MARGIN: Final = 1
LEAD: Final = 4  # margin, cursor bar, glyph, gap: text begins at the same column on every screen


def section(label: str, note: str, role: str, cells: int, *, count: int | None = None, indent: int = MARGIN) -> Line:
    """A head: bold label, its count, words about it, and a hairline to the edge."""
    pieces: list[Piece] = [(" " * indent + label, f"{role} bold")]
    if count is not None:
        pieces.append((f"  {count:,}", role))
    if note:
        pieces.append((f"  {note}", "muted"))
    left = cells - length(pieces) - 1 - MARGIN * (indent > 0)
    if left > 1:
        pieces += [(" ", "text"), ("─" * left, "line")]
    return tuple(pieces)


def pair(label: str, value: Iterable[Piece], cells: int) -> Line:
    """A quiet label at the left and its value at the right edge."""
    shown = list(value)
    gap = cells - length([(label, "")]) - length(shown)
    return tuple(fit([(label, "muted"), (" " * max(1, gap), "text"), *shown], cells))


def name_parts(name: str, *, hide: int = 0) -> list[str]:
    """A queue's name as parts for the eye, without the `hide` leading segments that all queues share and without
    the usual type `actions` at its end; the detail of a queue has its name in full.
    """
    parts = safe_text(name, limit=400).split(":")
    if 0 < hide < len(parts):
        parts = parts[hide:]
    return parts[:-1] if len(parts) > 1 and parts[-1] == QueueType.ACTIONS else parts


def common_owner(names: Sequence[str]) -> int:
    """How many leading segments (prefix and environment) all queues share, so that rows need not repeat them."""
    if not names:
        return 0
    first = names[0].split(":")[:2]
    start = ":".join(first) + ":"
    if not all(name.startswith(start) for name in names):
        return 0
    try:
        return 2 if QueueName.parse(names[0]).env else 0
    except ValueError:
        return 0


def owner_of(snapshot: Snapshot | None) -> int:
    """The same of all queues of a picture. Asked for several times a frame, and found once a picture."""
    if snapshot is None:
        return 0
    if _owner[0] is not snapshot:
        _owner[:] = [snapshot, common_owner([row.name for row in snapshot.queues])]
    hide: int = _owner[1]
    return hide


_owner: list[Any] = [None, 0]


def queue_path(name: str, cells: int, role: str, *, hide: int = 0) -> list[Piece]:
    """A queue's name in so many cells at most."""
    return path(name_parts(name, hide=hide), cells, role)


def sentence(pieces: Iterable[tuple[str, str]], gap: str = "  ·  ") -> list[Piece]:
    """Phrases with a dot between them."""
    out: list[Piece] = []
    for text, role in pieces:
        if out:
            out.append((gap, "ghost"))
        out.append((text, role))
    return out


def columns(cells: Sequence[tuple[Sequence[Piece], int, bool]]) -> list[Piece]:
    """Values in columns of a width, one gap of one cell before each; numbers at the right."""
    out: list[Piece] = []
    for pieces, wide, right in cells:
        out.append((" ", "text"))
        out += fit(pieces, wide, right=right)
    return out
