"""A list of what the server has, each second anew: rows of a table, perhaps in groups, with one of them beside.

A screen says what its list is made of (`ListSpec`), how it is read, and what its actions do; this draws the list,
searches it and follows the cursor. `docs/how-to/add-a-screen.md` has a whole one.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, TypeVar, cast

from textual.containers import Vertical

from qdeck_console.actions import ActionHandler
from qdeck_console.feed import Query
from qdeck_console.format import counted
from qdeck_console.presenters.empty_state import EmptyState, empty_state_lines
from qdeck_console.presenters.line_parts import MARGIN
from qdeck_console.presenters.table import Table
from qdeck_console.screens.frame import UNREAD, FrameScreen
from qdeck_console.screens.go_back import CLOSE, back
from qdeck_console.text import cut_end
from qdeck_console.widgets.lines import Item, LineList, Lines, Listing, Window
from qdeck_console.widgets.list_items import page_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from textual.widget import Widget

    from qdeck.admin import AsyncReader, Snapshot
    from qdeck_console.format import Line
RowT = TypeVar("RowT")
DataT = TypeVar("DataT")
NOTHING_OPENS: Final[ActionHandler[Any]] = ActionHandler(
    run=lambda _screen: None, reason=lambda _screen: "nothing to open", offered=lambda _screen: False
)


OUT_OF_SIGHT: Final = "out of sight: j or k shows it"


def below(line: Line, cells: int, height: int) -> Sequence[Line]:
    """Return the lines below a list: a rule where there is room, and how much there is."""
    rule: Line = ((" " * MARGIN, "text"), ("─" * (cells - 2 * MARGIN), "line"))
    return (rule, line) if height > 1 else (line,)


def lines_without_cursor(lines: Sequence[Line]) -> Listing:
    """Return lines in the place of a list."""
    return Listing([Item("", 1, line) for line in lines], lambda item, _cells, _at_cursor: (cast("Line", item.row),))


@dataclass(frozen=True, slots=True)
class RowGroup(Generic[RowT]):
    """Rows below a head. `apart`: with a blank line before it, however low the window. `text`: lines of text below the
    head; `foot`: a line below the rows.
    """

    rows: Sequence[RowT]
    head: Callable[[int], Line] | None = None
    apart: bool = False
    text: Sequence[Line] = ()
    foot: Callable[[int], Line] | None = None


class ReadingScreen(FrameScreen, Generic[DataT]):
    """A screen with a query: what `read` returns is its data until the next refresh."""

    @abstractmethod
    async def read(self, reader: AsyncReader, snapshot: Snapshot) -> DataT:
        """Read what the screen shows besides the queues, each second while it is visible."""

    def to_read(self) -> Query[DataT]:
        """Return what the feed shall read, by whatever reader there is then."""
        return Query(self.query_key, lambda snapshot: self.read(self.console.reader, snapshot))

    @property
    def data(self) -> DataT | None:
        """What was read last; None until then, and while the feed reads for another screen."""
        return cast("DataT", self.feed_state.result) if self.feed_state.result_of == self.query_key else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ListSpec(Generic[RowT, DataT]):
    """What a list is made of. `rows` takes them from what was read, `key` tells one from the others, `search` is the
    text of one that `/` searches; `empty` says what to do where there is nothing.
    """

    noun: str
    rows: Callable[[DataT], Sequence[RowT]]
    key: Callable[[RowT], str]
    search: Callable[[RowT], str]
    table: Table[Any, Any] = field(default_factory=Table)
    empty: Callable[[DataT], EmptyState | None] = lambda _data: None


class ListScreen(ReadingScreen[DataT], Generic[RowT, DataT]):
    """A list with heads of columns, a total, and the row under the cursor beside it."""

    LIST: ClassVar[ListSpec[Any, Any]]
    HAS_SIDE: ClassVar[bool] = True

    # What a list may have besides.

    @property
    def table(self) -> Table[Any, Any]:
        """The columns."""
        return self.LIST.table

    def head(self, cells: int) -> Line:
        """Return the heads of the columns."""
        return self.table.head(cells)

    def heads(self, cells: int, *, has_rows: bool) -> Sequence[Line]:
        """Return the lines above the list."""
        return (self.head(cells),) if has_rows else ()

    def count_line(self, words: str) -> Line:
        """Return the line below the list."""
        return (("    ", "text"), (words, "muted"))

    def row_view(self) -> Any:
        """Return what all rows are drawn with."""
        return self.now_ms

    def lines(self, row: RowT, cells: int, *, at_cursor: bool) -> Sequence[Line]:
        """Return the lines of a row, as many as its height says."""
        return (self.table.line(row, cells, self.row_view(), at_cursor=at_cursor),)

    def height(self, _row: RowT) -> int:
        """Return how many lines a row has."""
        return 1

    def groups(self, rows: Sequence[RowT]) -> Iterable[RowGroup[RowT]]:
        """Return the rows that match in their groups."""
        return (RowGroup(rows),)

    def total(self, rows: Sequence[RowT]) -> str:
        """Return how much there is; `rows` are those that match."""
        return self.count_of(rows)

    def count_of(self, rows: Sequence[RowT]) -> str:
        """Return how many rows match, or that none does."""
        noun = self.LIST.noun
        if rows:
            return counted(len(rows), noun)
        return f"no {noun} matches; esc clears the filter" if self.filter_text else f"no {noun}"

    def side(self, _row: RowT, _cells: int, _height: int) -> Sequence[Line]:
        """Return what is beside the list about a row."""
        return ()

    def lacks(self) -> bool:
        """Return whether the pane needs data that was not read; then it is read at once."""
        return False

    # The list.

    def body(self) -> Sequence[Widget]:
        """The list with its heads and total, and one of its rows beside it."""
        main = Vertical(Lines(id="head"), LineList(id="list"), Lines(id="total"), id="main")
        return (main, Lines(id="side")) if self.HAS_SIDE else (main,)

    @property
    def chosen(self) -> RowT | None:
        """The row under the cursor, if it is still there."""
        return cast("RowT | None", self.view.row) if self.view.cursor else None

    @property
    def rows(self) -> Sequence[RowT]:
        """All rows that were read."""
        return self.LIST.rows(self.data) if self.data is not None else ()

    def matching(self) -> list[RowT]:
        """Return the rows that have the text of the filter."""
        wanted = self.filter_text.casefold().strip()
        return [row for row in self.rows if wanted in self.LIST.search(row).casefold()]

    def draw(self, *, fresh: bool) -> None:
        """Draw what is on the screen."""
        self.draw_list()

    def draw_list(self) -> None:
        """Draw the list, its total, and the row under the cursor."""
        rows = self.matching()
        listing = self.listing(rows)
        items = listing.items
        has_rows = len(items) > 0 if isinstance(items, Window) else any(item.key for item in items)
        empty = () if has_rows or not self.is_read else self.empty_lines()
        self.view.show(lines_without_cursor(empty) if empty else listing, self.painter)
        self.query_one("#head", Lines).show(lambda w, _h: self.heads(w, has_rows=has_rows), self.painter)
        self.query_one("#total", Lines).show(partial(self.total_lines, rows), self.painter)
        self._draw_side()

    def total_lines(self, rows: Sequence[RowT], cells: int, height: int) -> Sequence[Line]:
        """Return the lines below the list."""
        words = self.total(rows) if self.is_read else "…"
        return below(UNREAD if self.is_unread else self.count_line(words), cells, height)

    def empty_lines(self) -> Sequence[Line]:
        """Return what stands in the place of the list where nothing matches, or where there is nothing at all."""
        told = self.LIST.empty(self.data) if self.data is not None and not self.filter_text else None
        return empty_state_lines(told, self.view.size.width, self.view.size.height) if told is not None else ()

    @property
    def is_read(self) -> bool:
        """Whether it is known what the list has."""
        return self.data is not None

    def listing(self, rows: Sequence[RowT]) -> Listing:
        """Return the list."""
        return Listing(self.items(rows), self.item_lines)

    def items(self, rows: Sequence[RowT]) -> Sequence[Item]:
        """Return the entries of the list."""
        return self.items_of(rows)

    def items_of(self, rows: Sequence[RowT]) -> list[Item]:
        """Return rows in their groups as entries of a list."""
        items: list[Item] = []
        for group in self.groups(rows):
            if group.head is not None:
                if items and (self.is_tall or group.apart):
                    items.append(Item("", 1, ()))
                items.append(Item("", 1, group.head))
            items += [Item("", 1, line) for line in group.text]
            items += [Item(self.LIST.key(row), self.height(row), row) for row in group.rows]
            if group.foot is not None:
                items.append(Item("", 1, group.foot))
        return items

    def item_lines(self, item: Item, cells: int, at_cursor: bool) -> Sequence[Line]:
        """Return the lines of an entry."""
        if item.key:
            return self.lines(cast("RowT", item.row), cells, at_cursor=at_cursor)
        return (item.row(cells) if callable(item.row) else cast("Line", item.row),)

    def beside(self, cells: int, height: int) -> Sequence[Line]:
        """Return the pane beside the list."""
        row = self.chosen
        if row is not None and self.view.is_out_of_sight:
            return (((cut_end(OUT_OF_SIGHT, cells), "muted"),),)
        return self.side(row, cells, height) if row is not None else ()

    def _draw_side(self) -> None:
        pane = self.query_one_optional("#side", Lines)
        if pane is not None:
            pane.show(self.beside, self.painter)

    def on_line_list_moved(self, event: LineList.Moved) -> None:
        """Draw what follows the cursor."""
        self.moved(event)

    def moved(self, _event: LineList.Moved) -> None:
        """Draw what follows the cursor of a list."""
        self.draw_cursor()

    def draw_cursor(self) -> None:
        """Draw what follows the cursor; what it lacks is read at once."""
        self.query_one("#total", Lines).refresh_lines()
        self._draw_side()
        self.draw_frame()
        if self.lacks():
            self.fetch()

    def fetch(self) -> None:
        """Read at once, without waiting for the next refresh."""
        self.console.feed.poke()

    def on_line_list_opened(self) -> None:
        """Open what is under the cursor, or say why not."""
        self.action_do("open")

    def lists(self) -> bool:
        """Return whether there is something to write."""
        return bool(self.rows)

    HANDLERS: ClassVar[Mapping[str, ActionHandler[Any]]] = {**FrameScreen.HANDLERS, "open": NOTHING_OPENS}


class PageScreen(FrameScreen):
    """A page about one thing, opened over a screen: lines that the movement keys scroll, perhaps with entries."""

    WIDEST: ClassVar[int] = 84

    def body(self) -> Sequence[Widget]:
        """The lines, as a list."""
        return (Vertical(LineList(id="list"), id="main"),)

    def page(self, _cells: int) -> Sequence[Line]:
        """Return what is on the page."""
        return ()

    def draw(self, *, fresh: bool) -> None:
        """Draw the page."""
        cells = max(20, min(self.WIDEST, self.size.width - 8))
        self.view.show(page_of(self.page(cells)), self.painter)

    def on_line_list_moved(self) -> None:
        """The footer follows the cursor."""
        self.draw_frame()

    def on_line_list_opened(self) -> None:
        """Open what is under the cursor, or say why not."""
        self.action_do("open")

    HANDLERS: ClassVar[Mapping[str, ActionHandler[Any]]] = {
        **FrameScreen.HANDLERS,
        "back": back(CLOSE),
        "open": NOTHING_OPENS,
        "filter": ActionHandler(
            run=lambda _screen: None,
            reason=lambda _screen: "nothing to filter",
            offered=lambda _screen: False,
        ),
    }
