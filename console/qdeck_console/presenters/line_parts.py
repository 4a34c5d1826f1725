"""Pieces of lines that every screen uses: section heads, names of queues, pairs of label and value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from qdeck import QueueName
from qdeck.admin import Feature, QueueRef, QueueType
from qdeck_console.format import Line, Piece, counted, fit, length, path
from qdeck_console.text import safe_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from qdeck.admin import Snapshot

MARGIN: Final = 1
_ROOMY: Final = 46  # cells of a line, from which on the number of what it lacks is a phrase
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


def in_height(lines: Sequence[Line], height: int, cells: int, where: str = "enlarge the window") -> Sequence[Line]:
    """Return the lines that fit a pane: blank ones go first; the last line then says how many are hidden, and where."""
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
    """Return how many queues a list leaves out because they could not be read; empty for none."""
    return f"{counted(count, 'queue')} could not be read" if count else ""


def more_words(count: int, room: int) -> str:
    """Return how many more there are than a line of `room` cells shows."""
    return f"  {'and ' if room >= _ROOMY else ''}{count:,} more"


def pair(label: str, value: Iterable[Piece], cells: int) -> Line:
    """A quiet label at the left and its value at the right edge."""
    shown = list(value)
    gap = cells - length([(label, "")]) - length(shown)
    return tuple(fit([(label, "muted"), (" " * max(1, gap), "text"), *shown], cells))


class Naming(NamedTuple):
    """How queues are named on screen: without the start that native ones share, with the adapter where a name of
    several needs it.
    """

    owner: str = ""
    shared: frozenset[str] = frozenset()


PLAIN: Final = Naming()


def name_parts(queue: QueueRef | str, *, naming: Naming = PLAIN) -> list[str]:
    """A queue as parts for the eye, without the start that the queues of qdeck share and without the usual type
    `actions` at its end; the detail of a queue has its name in full. A text is a label, as logs and plans keep it.
    """
    label = queue.label(naming.shared) if isinstance(queue, QueueRef) else queue
    parts = safe_text(label.removeprefix(naming.owner) or label, limit=400).split(":")
    if len(parts) > 2 and parts[-2:] == ["streams", "main"]:
        return [*parts[:-3], f"{parts[-3]}:streams"]  # the last part of all of them says nothing
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


def naming_of(snapshot: Snapshot | None) -> Naming:
    """Return how the queues of a snapshot are named: those of other systems keep their full names. Asked
    for several times a frame, and found once a picture.
    """
    if snapshot is None:
        return PLAIN
    if _naming[0] is not snapshot:
        owner = common_owner([row.name for row in snapshot.queues if row.has(Feature.NAMES)])
        _naming[:] = [snapshot, Naming(owner, snapshot.shared)]
    naming: Naming = _naming[1]
    return naming


_naming: list[Any] = [None, PLAIN]


def queue_path(queue: QueueRef | str, cells: int, role: str, *, naming: Naming = PLAIN) -> list[Piece]:
    """Return the name of a queue, in at most `cells` cells."""
    return path(name_parts(queue, naming=naming), cells, role)


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
