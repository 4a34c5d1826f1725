"""Pieces of lines that every screen uses: section heads, names of queues, pairs of label and value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from qdeck import QueueName
from qdeck.admin import Feature, QueueType
from qdeck_console.format import Line, Piece, counted, fit, length, path
from qdeck_console.text import safe_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from qdeck.admin import Snapshot

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


def in_height(lines: Sequence[Line], height: int, cells: int, where: str = "in a higher window") -> Sequence[Line]:
    """Lines in a pane of so many: blank ones go first, and how many are not seen then is told, and where they are."""
    if len(lines) <= height or height < 1:
        return lines
    kept = [line for line in lines if line]
    if len(kept) <= height:
        spare = height - len(kept)  # as many blank lines as there is room for, the first ones
        blanks = [at for at, line in enumerate(lines) if not line][:spare]
        return [line for at, line in enumerate(lines) if line or at in blanks]
    more = len(kept) - height + 1
    return [*kept[: height - 1], tuple(fit([(f"{more:,} more lines ↓ {where}", "faint")], cells))]


def unread_words(count: int) -> str:
    """How many queues a list leaves out because they could not be read; empty for none."""
    return f"{counted(count, 'queue')} could not be read" if count else ""


def pair(label: str, value: Iterable[Piece], cells: int) -> Line:
    """A quiet label at the left and its value at the right edge."""
    shown = list(value)
    gap = cells - length([(label, "")]) - length(shown)
    return tuple(fit([(label, "muted"), (" " * max(1, gap), "text"), *shown], cells))


def name_parts(name: str, *, hide: str = "") -> list[str]:
    """A queue's name as parts for the eye, without the start that the queues of qdeck share and without
    the usual type `actions` at its end; the detail of a queue has its name in full.
    """
    shown = name.removeprefix(hide) or name
    parts = safe_text(shown, limit=400).split(":")
    return parts[:-1] if len(parts) > 1 and parts[-1] == QueueType.ACTIONS else parts


def common_owner(names: Sequence[str]) -> str:
    """The start of a name (prefix and environment) that all of them share, so that rows need not repeat it."""
    if not names:
        return ""
    start = ":".join(names[0].split(":")[:2]) + ":"
    if not all(name.startswith(start) for name in names):
        return ""
    try:
        return start if QueueName.parse(names[0]).env else ""
    except ValueError:
        return ""


def owner_of(snapshot: Snapshot | None) -> str:
    """The same of the queues of a picture that are qdeck's own: other systems name theirs as they like, and keep
    their names whole. Asked for several times a frame, and found once a picture.
    """
    if snapshot is None:
        return ""
    if _owner[0] is not snapshot:
        _owner[:] = [snapshot, common_owner([row.name for row in snapshot.queues if row.has(Feature.NAMES)])]
    owner: str = _owner[1]
    return owner


_owner: list[Any] = [None, ""]


def queue_path(name: str, cells: int, role: str, *, hide: str = "") -> list[Piece]:
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
