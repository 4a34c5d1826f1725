"""Tables: what each column is called, how wide it is and what it says of a row; which go where there is no room."""

from __future__ import annotations

from collections.abc import Callable, Sequence  # noqa: TC003 - the types of fields, as data classes keep them
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, TypeVar

from qdeck_console.presenters.line_parts import LEAD, MARGIN, columns
from qdeck_console.text import cut_id, cut_middle, safe_text

if TYPE_CHECKING:
    from qdeck_console.format import Line, Piece

RowT = TypeVar("RowT")
ViewT = TypeVar("ViewT")
REST: Final = -1  # the width of the column that takes what the others leave
_LONGEST: Final = 300
_NARROWEST: Final = 8


class TableCell(NamedTuple, Generic[ViewT]):
    """Where a value is drawn: its width, whether the cursor is on its row, what all rows have in common, and the width
    of the table.
    """

    width: int
    at_cursor: bool
    view: ViewT
    room: int = 0

    def id(self, text: str) -> list[Piece]:
        """Return an id, cut in its middle; bold where the cursor is."""
        return [(cut_id(text, self.width), "strong bold" if self.at_cursor else "text")]

    def name(self, text: str, role: str = "text") -> list[Piece]:
        """Return a name, cut in its middle; bold where the cursor is."""
        return [(cut_middle(safe_text(text, limit=_LONGEST), self.width), "strong bold" if self.at_cursor else role)]


@dataclass(frozen=True, slots=True)
class Column(Generic[RowT, ViewT]):
    """A column; `lead` blanks keep text apart from the numbers before it."""

    head: str
    width: int | Callable[[int], int]
    value: Callable[[RowT, TableCell[ViewT]], Sequence[Piece]]
    right: bool = False
    lead: int = 0

    def cells(self, room: int) -> int:
        """Return its width in a table of this width; 0 where it is not shown."""
        return self.width(room) if callable(self.width) else self.width


def _no_sign(_row: object, _view: object) -> Piece:
    return " ", "text"


class Table(Generic[RowT, ViewT]):
    """Columns, and perhaps a sign before each row. One column takes the rest; others go until it has `least` cells."""

    def __init__(
        self,
        *found: Column[RowT, ViewT],
        sign: Callable[[RowT, ViewT], Piece] = _no_sign,
        least: int | Callable[[int], int] = 18,
        most: int | None = None,
        drops: Sequence[str] | None = None,
    ) -> None:
        """`drops` are the heads of the columns that go, in this order; by default the last one goes first."""
        self._columns, self._sign = found, sign
        self._least, self._most, self._drops = least, most, drops
        self._laid: dict[int, list[tuple[Column[RowT, ViewT], int]]] = {}

    def laid(self, room: int) -> list[tuple[Column[RowT, ViewT], int]]:
        """Return the columns that fit, with their widths."""
        if room not in self._laid:
            self._laid = {room: self._lay(room)}  # of the width of now: the next one is another terminal's
        return self._laid[room]

    def _lay(self, room: int) -> list[tuple[Column[RowT, ViewT], int]]:
        kept = [(column, width) for column in self._columns if (width := column.cells(room))]
        drops = [column.head for column, width in reversed(kept) if width != REST]
        drops = drops if self._drops is None else list(self._drops)
        least = self._least(room) if callable(self._least) else self._least
        while True:
            left = room - LEAD - MARGIN - sum(width for _, width in kept if width != REST) - len(kept) + 1
            if left >= least or not drops:
                break
            head = drops.pop(0)
            kept = [(column, width) for column, width in kept if column.head != head]
        rest = max(_NARROWEST, left if self._most is None else min(left, self._most))
        return [(column, rest if width == REST else width) for column, width in kept]

    def has(self, head: str, room: int) -> bool:
        """Return whether a column is shown."""
        return any(column.head == head for column, _ in self.laid(room))

    def start(self, head: str, room: int) -> int:
        """Return the cell in which a column begins, for what is said below it."""
        laid = self.laid(room)
        at = next((at for at, (column, _) in enumerate(laid) if column.head == head), 0)
        return LEAD + sum(width + 1 for _, width in laid[:at])

    def head(self, room: int, by: str = "") -> Line:
        """Return the heads of the columns; the one that the rows are sorted by stands out."""
        roles = {by: "strong under"} if by else {}
        heads = [([(" " * c.lead + c.head, roles.get(c.head, "faint"))], w, c.right) for c, w in self.laid(room)]
        return ((" " * (LEAD - 1), "text"), *columns(heads))

    def totals(self, room: int, values: Callable[[str, int], Sequence[Piece]]) -> Line:
        """Return a line of values below the columns, each by the head and the width of its column."""
        below = [(values(c.head, width), width, c.right) for c, width in self.laid(room)]
        return ((" " * (LEAD - 1), "text"), *columns(below))

    def line(self, row: RowT, room: int, view: ViewT, *, at_cursor: bool) -> Line:
        """Return the line of a row."""
        values = []
        for c, width in self.laid(room):
            value = c.value(row, TableCell(width - c.lead, at_cursor, view, room))
            values.append(([(" " * c.lead, "text"), *value] if c.lead else value, width, c.right))
        return (("  ", "text"), self._sign(row, view), *columns(values))
