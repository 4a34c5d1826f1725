"""What a list shows: its entries, how they are drawn, and a list of which only a part is known."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, overload

if TYPE_CHECKING:
    from qdeck_console.format import Line


@dataclass(frozen=True, slots=True)
class Item:
    """An entry of a list: its key (empty for a section head), how many lines it takes, and what it shows."""

    key: str
    height: int
    row: object
    is_there: bool = True  # one that left the list is shown, and never among all that are marked


class Window(Sequence[Item]):
    """A list of any length of which only a part is known: entries of one line each, from `first` on."""

    def __init__(self, total: int, first: int, known: Sequence[Item]) -> None:
        self.total, self.first, self.known = max(total, first + len(known)), first, known

    def __len__(self) -> int:
        return self.total

    @overload
    def __getitem__(self, index: int) -> Item: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Item]: ...
    def __getitem__(self, index: int | slice) -> Item | Sequence[Item]:
        if isinstance(index, slice):
            return [self[at] for at in range(*index.indices(self.total))]
        if not 0 <= index < self.total:
            raise IndexError(index)
        at = index - self.first
        return self.known[at] if 0 <= at < len(self.known) else _UNKNOWN


_UNKNOWN = Item("", 1, None)


@dataclass(frozen=True, slots=True)
class Listing:
    """The entries of a list and how one of them is drawn in a width, with or without the cursor on it; where each
    begins and the index of each key, where these are known.
    """

    items: Sequence[Item] = ()
    draw: Callable[[Item, int, bool], Sequence[Line]] = lambda _item, _cells, _cursor: ()
    tops: Sequence[int] | None = None
    where: Mapping[str, int] | None = None


def indented(item: Item, _cells: int, _at_cursor: bool) -> Sequence[Line]:
    """Draw an entry that is a line of text."""
    return ((("    ", "text"), *item.row),) if isinstance(item.row, tuple) else ()


def page_of(lines: Sequence[Line]) -> Listing:
    """Return lines as a list without a cursor, for a page about one thing."""
    return Listing([Item("", 1, line) for line in lines], indented)


@dataclass(slots=True)
class MarkRange:
    """Marks that follow the cursor: from which entry on, what was marked before, and what of the range is known."""

    key: str
    index: int
    before: dict[str, object]
    known: dict[str, int] = field(default_factory=dict)
