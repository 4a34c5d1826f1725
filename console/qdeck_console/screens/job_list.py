"""What the lists of jobs have in common: heads, a list by job identity, a total, and the job beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from qdeck.admin import JobRecord
from qdeck_console.actions import ActionHandler
from qdeck_console.presenters.parts import MARGIN, in_height
from qdeck_console.screens.back import CANCEL, CLEAR_FILTER, CLEAR_MARKS, back
from qdeck_console.screens.frame import UNREAD, FrameScreen
from qdeck_console.screens.job_actions import JOB_HANDLERS, JobActing
from qdeck_console.widgets.lines import Item, LineList, Lines, Listing

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from qdeck.admin import JobDetail
    from qdeck_console.format import Line, Piece


class JobListScreen(JobActing):
    """A live list of jobs whose entries can be marked and acted on."""

    LANGUAGE: ClassVar[bool] = True

    def head(self, cells: int) -> Line:
        """The heads of the columns."""
        raise NotImplementedError

    def items(self) -> Sequence[Item]:
        """The entries and the heads of their groups."""
        raise NotImplementedError

    def lines_of(self, item: Item, cells: int, at_cursor: bool) -> Sequence[Line]:
        """The lines of an entry or a head."""
        raise NotImplementedError

    def total_words(self) -> str:
        """How much is shown."""
        raise NotImplementedError

    def empty_lines(self) -> Sequence[Line]:
        """What is said when there is nothing to show."""
        raise NotImplementedError

    def side(self, cells: int, height: int) -> Sequence[Line]:
        """The side pane."""
        raise NotImplementedError

    def detail(self) -> JobDetail | None:
        """All about the job under the cursor, once it is read."""
        raise NotImplementedError

    def draw(self, *, fresh: bool) -> None:
        """Draws list, total and side pane."""
        items = self.items()
        has_rows = len(items) > 0
        draw: Callable[[Item, int, bool], Sequence[Line]] = self.lines_of
        if not has_rows and (self.picture.extra_of == self.reads or self.is_unread):
            told = (UNREAD,) if self.is_unread else self.empty_lines()
            items = [Item("", 1, line) for line in told]
            draw = plain_line
        self.view.show(Listing(items, draw), self.painter)
        self.query_one("#head", Lines).show(lambda w, _h: (self.head(w),) if has_rows else (), self.painter)
        words = self.total_words() if has_rows else ""

        def total(cells: int, height: int) -> Sequence[Line]:
            more = f", {self.view.below:,} more ↓" if self.view.below else ""
            rule: Line = ((" " * MARGIN, "text"), ("─" * (cells - 2 * MARGIN), "line"))
            line: Line = (("    ", "text"), (words + more, "muted"), *self.marks_words())
            return (rule, line) if height > 1 else (line,)

        self.query_one("#total", Lines).show(total, self.painter)
        self._draw_side()

    def _draw_side(self) -> None:
        self.query_one("#side", Lines).show(self._side_in_height, self.painter)

    def _side_in_height(self, cells: int, height: int) -> Sequence[Line]:
        return in_height(self.side(cells, height), height, cells, "enter opens it")

    def job_of(self, row: object) -> JobRecord | None:
        """The job that a row shows."""
        return row if isinstance(row, JobRecord) else None

    def pointed(self) -> object | None:
        """The row under the cursor."""
        return self.view.row

    def targets(self) -> tuple[JobRecord, ...]:
        """The marked jobs, else the one under the cursor."""
        rows = list(self.view.marks.values()) or [self.view.row]
        return tuple(job for row in rows if (job := self.job_of(row)) is not None)

    def acted(self) -> None:
        """Marks were for what was done."""
        if self.is_mounted:
            self.view.clear_marks()

    def tell_dropped(self, count: int) -> None:
        """Tells of marks that were taken away because their jobs are gone."""
        if count:
            many = f"{count:,} marked jobs are gone: their marks are"
            words = "1 marked job is gone: its mark is" if count == 1 else many
            self.console.say(f"{words} dropped", "warn", "▲")

    def marks_words(self) -> list[Piece]:
        """How many are marked, for the total."""
        view = self.view
        everything = self.everything()
        if everything is not None:
            count = "" if everything[1] is None else f" {everything[1]:,}"
            return [("  ◆ ", "accent bold"), (f"all{count} that match", "accent")]
        if not view.marks:
            return []
        words, ends = f"{len(view.marks):,} marked", view.ranged
        if ends is not None:
            whole = ends[3] - ends[1] + 1
            words += f" of {whole:,} in the range, v reads the others" if view.range_lacks else ", v ends the range"
        return [("  ◆ ", "accent bold"), (words, "accent")]

    def clear_marks(self) -> None:
        """Take all marks away."""
        self.view.clear_marks()
        self.draw(fresh=False)

    def mark(self) -> None:
        """Mark the entry under the cursor."""
        self.view.toggle_mark()
        self.draw(fresh=False)

    def mark_range(self) -> None:
        """Begin or end a range of marks."""
        self.view.toggle_range()
        self.draw(fresh=False)

    def mark_all(self) -> None:
        """Mark all that match, not only what is shown."""
        self.view.toggle_all()
        self.draw(fresh=False)

    def why_not_mark(self) -> str:
        """Return why the entry under the cursor cannot be marked."""
        return "" if self.view.row is not None else "no job under the cursor"

    def _why_not_mark_all(self) -> str:
        return "" if len(self.items()) else "there is none"

    def on_line_list_wanted(self) -> None:
        """Reads what came into sight."""
        self.wanted()

    def on_line_list_moved(self, event: LineList.Moved) -> None:
        """Tells who draws what follows the cursor."""
        self.moved(event)

    def on_line_list_opened(self) -> None:
        """Open what is under the cursor, or say why not."""
        self.action_do("open")

    def wanted(self) -> None:
        """Reads what came into sight."""
        self.console.feed.poke()

    def moved(self, _event: LineList.Moved) -> None:
        """The side pane follows the cursor; what it lacks is read at once."""
        if self.view.in_range:
            self.query_one("#total", Lines).refresh_lines()
        self._draw_side()
        self.draw_frame()
        if self.wants() and self.detail() is None:
            self.console.feed.poke()

    def open(self) -> None:
        """Open the job under the cursor."""
        job = self.job_of(self.view.row)
        if job is not None:
            self.console.open_job(job.ref, job.id)

    HANDLERS: ClassVar[Mapping[str, ActionHandler[Any]]] = {
        **FrameScreen.HANDLERS,
        **JOB_HANDLERS,
        "open": ActionHandler(run=open),
        "mark": ActionHandler(run=mark, reason=why_not_mark),
        "range": ActionHandler(run=lambda screen: screen.mark_range(), reason=why_not_mark),
        "all": ActionHandler(run=mark_all, reason=_why_not_mark_all),
        "back": back(CANCEL, CLEAR_MARKS, CLEAR_FILTER),
    }


def plain_line(item: Item, _cells: int, _at_cursor: bool) -> Sequence[Line]:
    """Draws an item that is a line."""
    return (item.row,) if isinstance(item.row, tuple) else ()
