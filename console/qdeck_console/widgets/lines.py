"""A list of entries of one or more lines, of which only the visible ones are drawn."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
from typing import TYPE_CHECKING, ClassVar

from textual.geometry import Region, Size
from textual.message import Message
from textual.reactive import var
from textual.scroll_view import ScrollView
from textual.strip import Strip

from qdeck_console.actions import bindings
from qdeck_console.theme import INK, Painter
from qdeck_console.widgets.list_items import Item, Listing, MarkRange, Window
from qdeck_console.widgets.panel import Lines
from qdeck_console.widgets.strips import marked, strip_of, whole, without_margin

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from textual import events
    from textual.binding import BindingType

    from qdeck_console.format import Line


__all__ = ["Item", "LineList", "Lines", "Listing", "Window"]


class LineList(ScrollView, can_focus=True):
    """A list of entries of one or more lines. Only what is visible is drawn, so that its length costs nothing.

    The cursor is on an entry, not on a row: it stays there when the list moves, and when the entry goes away it stays
    on nothing, because a key pressed at that moment must not act on a neighbour.
    """

    DEFAULT_CSS = "LineList { height: 1fr; scrollbar-size: 0 0; overflow-x: hidden; }"
    BINDINGS: ClassVar[list[BindingType]] = bindings("list")

    rows_seen = var(0)
    """How many lines are visible."""

    class Moved(Message):
        """The cursor is on another entry."""

        def __init__(self, key: str, view: LineList) -> None:
            super().__init__()
            self.key, self.view = key, view

    class Opened(Message):
        """An entry was chosen."""

        def __init__(self, key: str, view: LineList) -> None:
            super().__init__()
            self.key, self.view = key, view

    class Wanted(Message):
        """Entries came into sight that are not known yet."""

        def __init__(self, view: LineList) -> None:
            super().__init__()
            self.view = view

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.painter = Painter(INK)
        self.listing = Listing()
        self.cursor = ""
        self.marks: dict[str, object] = {}  # what is marked, as it was seen last
        self.all_marked = False
        self.fill: Callable[[], None] | None = None
        """Reads what came into sight before it is drawn, where that takes no time; else `Wanted` asks for it."""
        self._range: MarkRange | None = None
        self._pending: int | None = None  # where the cursor goes once it is known who is there
        self._index = 0
        self._tops: Sequence[int] = [0]
        self._where: Mapping[str, int] = {}
        self._drawn: dict[int, list[Strip]] = {}

    def show(self, listing: Listing, painter: Painter) -> None:
        """Show another state of the list; cursor and scroll stay on the same entry."""
        before, was = self._screen_line_of_cursor(), self._where.get(self.cursor)
        self.listing, self.painter = listing, painter
        tops = self._measure(listing)
        self._move_range(was)
        self._drawn.clear()
        self.virtual_size = Size(self.size.width, tops[-1])
        for key in self.marks.keys() & self._where.keys():
            self.marks[key] = listing.items[self._where[key]].row
        if self._pending is not None:  # who is there is not known yet: the cursor waits
            self._set_cursor(min(self._pending, len(listing.items) - 1) if len(listing.items) else None)
        elif not self.cursor:
            self._set_cursor(self._nearest(0, 1))
        elif self.cursor in self._where:
            self._index = self._where[self.cursor]
            if before is not None:
                self.scroll_to(y=max(0, tops[self._index] - before), animate=False, immediate=True)
        self.refresh()

    def _measure(self, listing: Listing) -> Sequence[int]:
        """Return the first line of each entry, and the position of each key."""
        items = listing.items
        if listing.tops is not None and listing.where is not None:
            self._tops, self._where = listing.tops, listing.where
            return self._tops
        if isinstance(items, Window):
            self._tops = range(len(items) + 1)
            self._where = {item.key: items.first + at for at, item in enumerate(items.known) if item.key}
            return self._tops
        where = {item.key: index for index, item in enumerate(items)}
        where.pop("", None)  # section heads
        self._tops, self._where = [0, *accumulate(item.height for item in items)], where
        return self._tops

    def _move_range(self, was: int | None) -> None:
        """The list moved under the range: where it begins is where its first entry is, or as far on as the cursor's."""
        found, now = self._range, self._where.get(self.cursor)
        if found is None or now is None or was is None:
            return
        found.index = self._where.get(found.key, max(0, found.index + now - was))
        found.known = {key: self._where.get(key, at + now - was) for key, at in found.known.items()}
        self._mark_range(now)

    def choose(self, key: str) -> None:
        """Put the cursor on an entry of the list."""
        if key in self._where:
            self._set_cursor(self._where[key])

    def settle(self) -> None:
        """Put the cursor on the first entry when its own is not in the list any more."""
        if self.cursor not in self._where:
            self._set_cursor(self._nearest(0, 1))

    @property
    def row(self) -> object | None:
        """What is under the cursor, if it is still there."""
        index = self._where.get(self.cursor)
        return None if index is None or index >= len(self.listing.items) else self.listing.items[index].row

    def rest(self) -> None:
        """Drop the rows until they are shown again: cursor, marks and scroll stay."""
        self.listing = Listing()
        self._drawn.clear()
        self.refresh()  # Textual lets go of the strips that it keeps

    @property
    def place(self) -> int | None:
        """Where the entry under the cursor is in the list, if it is still there."""
        return self._where.get(self.cursor)

    @property
    def below(self) -> int:
        """How many entries are below the visible part."""
        last = bisect_right(self._tops, round(self.scroll_offset.y) + self.size.height) - 1
        if not self.size.height:
            return 0
        items = self.listing.items
        return len(items) - last if isinstance(items, Window) else sum(1 for item in items[last:] if item.key)

    @property
    def is_out_of_sight(self) -> bool:
        """Whether the entry under the cursor is in the list, and scrolled out of the visible part."""
        index, (first, count) = self._where.get(self.cursor), self.visible_lines()
        if index is None or not count:
            return False
        return self._tops[index] >= first + count or self._tops[index + 1] <= first

    def visible_lines(self) -> tuple[int, int]:
        """The first line that is on screen, and how many are."""
        return round(self.scroll_offset.y), self.size.height

    @property
    def held(self) -> str:
        """The entry that keeps its place on screen when the list moves; empty when the list stays at its top."""
        return self.cursor if self._screen_line_of_cursor() is not None else ""

    @property
    def lacks(self) -> bool:
        """Whether a visible entry is not known yet."""
        items = self.listing.items
        if not isinstance(items, Window):
            return False
        first, count = self.visible_lines()
        return first < items.first or min(first + count, items.total) > items.first + len(items.known)

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Request the rows that became visible."""
        super().watch_scroll_y(old_value, new_value)
        if self.lacks and self.fill is not None:
            self.fill()
        elif self.lacks:
            self.post_message(self.Wanted(self))

    def visible_keys(self) -> list[str]:
        """The entries of which at least a line is on screen."""
        y = round(self.scroll_offset.y)
        first = max(0, bisect_right(self._tops, y) - 1)
        last = bisect_right(self._tops, y + self.size.height)
        return [item.key for item in self.listing.items[first:last] if item.key]

    def _screen_line_of_cursor(self) -> int | None:
        index = self._where.get(self.cursor)
        if index is None or self.scroll_offset.y == 0:
            return None
        line = self._tops[index] - round(self.scroll_offset.y)
        return line if 0 <= line < self.size.height else None

    def _nearest(self, index: int, step: int) -> int | None:
        items = self.listing.items
        if isinstance(items, Window):
            return index if 0 <= index < len(items) else None
        while 0 <= index < len(items):
            if items[index].key:
                return index
            index += step
        return None

    def _set_cursor(self, index: int | None) -> None:
        if index is None:
            return
        before, self._index = self._index, index
        key = self.listing.items[index].key
        self._pending = None if key else index
        changed = key != self.cursor
        self.cursor = key
        if self._range is not None:
            self._mark_range(index)
            self._drawn.clear()
            self.refresh()
        else:
            self._redraw(before, index)
        if changed:
            self.post_message(self.Moved(key, self))
        self._reveal()

    def _redraw(self, *indexes: int) -> None:
        """Draw some entries again, and nothing else."""
        for index in indexes:
            self._drawn.pop(index, None)
            if 0 <= index < len(self._tops) - 1:
                top, bottom = self._tops[index], self._tops[index + 1]
                self.refresh(Region(0, top - round(self.scroll_offset.y), self.size.width, bottom - top))

    def _reveal(self) -> None:
        height, index = self.size.height, self._where.get(self.cursor, self._pending)
        if not height or index is None:
            return
        top, bottom = self._tops[index], self._tops[index + 1]
        if self._nearest(index - 1, -1) is None:
            top = 0  # the heads above the first entry come with it
        y = round(self.scroll_offset.y)
        if top < y:
            self.scroll_to(y=top, animate=False, immediate=True)
        elif bottom > y + height:
            self.scroll_to(y=bottom - height, animate=False, immediate=True)

    def render_lines(self, crop: Region) -> list[Strip]:
        """Some lines, for Textual's compositor."""
        return whole(super().render_lines(crop))

    def render_line(self, y: int) -> Strip:
        """One line, for Textual."""
        line = y + round(self.scroll_offset.y)
        index = bisect_right(self._tops, line) - 1
        cells = self.size.width
        if not 0 <= index < len(self.listing.items):
            return strip_of((), cells, self.painter)
        if index not in self._drawn:
            self._drawn[index] = self._draw(index, cells)
        return self._drawn[index][line - self._tops[index]]

    def _draw(self, index: int, cells: int) -> list[Strip]:
        item = self.listing.items[index]
        at_cursor = bool(item.key) and item.key == self.cursor
        lines = list(self.listing.draw(item, cells, at_cursor))
        lines += [()] * (item.height - len(lines))
        if item.row is None and isinstance(self.listing.items, Window):
            lines = [(("    …", "ghost"),)]
            at_cursor = index == self._pending
        elif item.key and lines and ((self.all_marked and item.is_there) or item.key in self.marks):
            lines[0] = marked(lines[0])
        if not at_cursor:
            strips = [strip_of(line, cells, self.painter) for line in lines]
            if item.key and self.cursor not in self._where and index == self._index and self._pending is None:
                place: Line = ((" ", "text"), ("›", "faint"), *without_margin(lines[0]))
                strips[0] = strip_of(place, cells, self.painter)
            return strips
        ground = "cursor" if self.has_focus and not self.painter.stale else "raised"
        bar = ("▌", "accent" if ground == "cursor" else "faint")
        margin = strip_of((), 1, self.painter)
        return [
            Strip.join([margin, strip_of((bar, *without_margin(line)), cells - 1, self.painter, ground)])
            for line in lines
        ]

    def text(self) -> str:
        """Return what it shows, without its looks."""
        return "\n".join(self.render_line(y).text.rstrip() for y in range(self.size.height))

    def notify_style_update(self) -> None:
        """Forgets what was drawn with the old looks."""
        super().notify_style_update()
        self._drawn.clear()

    def on_resize(self) -> None:
        """Draw again for the new width and keep the cursor visible."""
        self._drawn.clear()
        self.virtual_size = Size(self.size.width, self._tops[-1])
        self.rows_seen = self.size.height
        self._reveal()

    def on_focus(self) -> None:
        """The cursor shines in the pane that has the keys."""
        self._drawn.clear()
        self.refresh()

    on_blur = on_focus

    def on_click(self, event: events.Click) -> None:
        """A click moves the cursor; a second one opens."""
        index = bisect_right(self._tops, event.y + round(self.scroll_offset.y)) - 1
        if 0 <= index < len(self.listing.items) and self.listing.items[index].key:
            self._set_cursor(index)
            if event.chain == 2:
                self.post_message(self.Opened(self.cursor, self))

    def action_move(self, rows: int) -> None:
        """Move the cursor by entries; a list without any is scrolled."""
        if not self._where:
            self.scroll_relative(y=rows, animate=False)
            return
        index = self._where.get(self.cursor, self._index)
        step = 1 if rows > 0 else -1
        if self.cursor not in self._where:  # its entry is gone: the next one took its place
            index = min(index, len(self.listing.items) - 1)
            rows = min(rows, 0)
            found = self._nearest(index, step)
        else:
            found = index
        for _ in range(abs(rows)):
            following = None if found is None else self._nearest(found + step, step)
            if following is None:
                break
            found = following
        self._set_cursor(found)

    def action_page(self, pages: int) -> None:
        """Move the cursor by the height of the list."""
        if not self._where:
            self.scroll_relative(y=pages * max(1, self.size.height - 2), animate=False)
            return
        line = self._tops[self._where.get(self.cursor, self._index)] + pages * max(1, self.size.height - 2)
        index = bisect_right(self._tops, max(0, line)) - 1
        index = min(max(0, index), max(0, len(self.listing.items) - 1))
        step = 1 if pages > 0 else -1
        found = self._nearest(index, step)
        self._set_cursor(self._nearest(index, -step) if found is None else found)

    def action_end(self, first: bool) -> None:
        """Move the cursor to the first or the last entry."""
        if not self._where:
            self.scroll_to(y=0 if first else self._tops[-1], animate=False)
            return
        self._set_cursor(self._nearest(0, 1) if first else self._nearest(len(self.listing.items) - 1, -1))

    def toggle_mark(self) -> None:
        """Mark or unmark the entry under the cursor, and move to the next one."""
        if self.all_marked or self.cursor not in self._where:
            return
        if self.marks.pop(self.cursor, None) is None:
            self.marks[self.cursor] = self.row
        self.action_move(1)
        self._drawn.clear()
        self.refresh()

    def toggle_all(self) -> None:
        """Mark all entries, or remove these marks."""
        was = self.all_marked
        self.clear_marks()
        self.all_marked = not was

    def toggle_range(self) -> None:
        """Mark from here to where the cursor goes, until it is pressed again."""
        if self._range is not None:
            self._range = None
        elif self.cursor in self._where:
            index = self._where[self.cursor]
            self._range = MarkRange(self.cursor, index, dict(self.marks))
            self._mark_range(index)
        self._drawn.clear()
        self.refresh()

    def _mark_range(self, index: int) -> None:
        if self._range is None:
            return
        begun = self._range
        low, high = min(begun.index, index), max(begun.index, index)
        items = self.listing.items
        if isinstance(items, Window):  # rows that were not read cannot be marked yet: see `range_lacks`
            there = range(max(low, items.first), min(high + 1, items.first + len(items.known)))
            found = {items[at].key: at for at in there if items[at].key and items[at].is_there}
            begun.known = {key: at for key, at in begun.known.items() if low <= at <= high} | found
            self.marks = begun.before | {
                key: items[found[key]].row if key in found else self.marks.get(key) for key in begun.known
            }
            return
        between = (item for item in items[low : high + 1] if item.key and item.is_there)
        self.marks = begun.before | {item.key: item.row for item in between}

    @property
    def ranged(self) -> tuple[str, int, str, int] | None:
        """The range that follows the cursor: who is at its upper and at its lower end, and where."""
        if self._range is None:
            return None
        here = self._where.get(self.cursor, self._index if self._pending is None else self._pending)
        ends = sorted([(self._range.index, self._range.key), (here, self.cursor)])
        return ends[0][1], ends[0][0], ends[1][1], ends[1][0]

    @property
    def range_lacks(self) -> bool:
        """Whether there are entries in the range that were not read, and so are not marked."""
        ends = self.ranged
        if ends is None or self._range is None or not isinstance(self.listing.items, Window):
            return False
        return len(self._range.known) < ends[3] - ends[1] + 1

    def end_range(self, found: dict[str, object]) -> None:
        """End the range with all that is in it, as it was read."""
        if self._range is not None:
            self.marks = self._range.before | found
            self.toggle_range()

    def drop_marks(self, keys: Iterable[str]) -> int:
        """Remove the marks of entries that are gone; return how many."""
        gone = [key for key in keys if self.marks.pop(key, None) is not None]
        for key in gone:
            if self._range is not None:
                self._range.before.pop(key, None)
                self._range.known.pop(key, None)
            if key in self._where:
                self._redraw(self._where[key])
        return len(gone)

    def forget(self) -> None:
        """Another list comes: cursor, marks and scroll begin anew."""
        self.cursor, self._pending, self._index = "", None, 0
        self.listing, self._tops, self._where = Listing(), [0], {}
        self.scroll_to(y=0, animate=False, immediate=True)
        self.clear_marks()

    def clear_marks(self) -> None:
        """Remove all marks."""
        self.marks, self.all_marked, self._range = {}, False, None
        self._drawn.clear()
        self.refresh()

    @property
    def in_range(self) -> bool:
        """Whether marks follow the cursor."""
        return self._range is not None

    def action_open(self) -> None:
        """Open what is under the cursor."""
        if self.cursor in self._where or not self._where:
            self.post_message(self.Opened(self.cursor, self))
