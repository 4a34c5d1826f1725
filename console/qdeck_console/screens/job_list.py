"""A list of jobs of any length on a screen: what is in sight is read, whoever scrolls is answered at once."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar, Final, Generic

from qdeck import QdeckError, UnknownJob
from qdeck.admin import Feature, JobDetail, JobRecord
from qdeck_console.actions import ActionHandler
from qdeck_console.format import counted
from qdeck_console.leaving import Left, find_out
from qdeck_console.pace import Pace
from qdeck_console.presenters.parts import in_height
from qdeck_console.screens import export
from qdeck_console.screens.frame import UNREAD
from qdeck_console.screens.lists import DataT, ReadingScreen, below, lines_without_cursor
from qdeck_console.screens.marks import MarkingScreen
from qdeck_console.sources import JobSearch, JobSource, ListPart, RangeEnd
from qdeck_console.widgets.lines import Item, LineList, Lines, Listing, Window

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qdeck_console.format import Line
    from qdeck_console.operations import OperationRequest
    from qdeck_console.screens.export import Export

_TIMES: Final = 12  # what a step of a search took, between two of them
_FIRST_ROWS: Final = 60  # read before it is known how many fit
MOST_MARKED: Final = 10_000  # one by one: each is kept as it was seen
_MARKS_READ: Final = 1000  # marks that are looked after at each picture


@dataclass(frozen=True, slots=True, kw_only=True)
class JobsInSight:
    """What was read of a list, and all about the job under the cursor."""

    part: ListPart = field(default_factory=ListPart)
    detail: JobDetail | None = None


class JobListScreen(MarkingScreen, ReadingScreen[DataT], Generic[DataT]):
    """A list of jobs of which only the part around what is in sight is known."""

    def __init__(self) -> None:
        super().__init__()
        self._fetching = self._working = False
        self._fetched: tuple[str, tuple[int, int], str] = ("", (0, 0), "")
        self._looked_after = 0

    @property
    @abstractmethod
    def seen(self) -> JobsInSight:
        """What was read for this screen."""

    @abstractmethod
    def source(self) -> JobSource | None:
        """Where the list comes from now."""

    async def read_list(self, part: ListPart | None = None) -> JobsInSight:
        """The part of the list that is in sight, with as much above and below it, or one that was read already; and
        all about the job under the cursor.
        """
        source, view = self.source(), self.view
        if source is None:
            return JobsInSight()
        first, count = view.visible_lines()
        count = count or _FIRST_ROWS
        cursor, row = view.cursor, view.row
        around = row.id if view.held and isinstance(row, JobRecord) and row.has(Feature.ORDER) else None
        self._fetched = (self.query_key, (first, count), cursor)
        if part is None:
            at = view.place
            part = await source.read(max(0, first - count), 3 * count, around)
            if at is not None and isinstance(row, JobRecord | Left):
                part = await self._with_left(source, part, row, at)
            await self._drop_marks(source)
        chosen = next(
            (job for job in part.rows if job.key == cursor), part.rows[0] if part.rows and not cursor else None
        )
        if not isinstance(chosen, JobRecord):
            return JobsInSight(part=part)
        try:
            return JobsInSight(part=part, detail=await self.console.reader.job(chosen.ref, chosen.handle))
        except UnknownJob:
            return JobsInSight(part=part)  # it went away between the two reads

    async def _with_left(self, source: JobSource, part: ListPart, row: JobRecord | Left, at: int) -> ListPart:
        """With the job under the cursor in its place, if it left the list, until it was shown for long enough."""
        there = next((found for found in part.rows if found.key == row.key), None)
        if isinstance(there, JobRecord):
            return part
        left = row if isinstance(row, Left) else await find_out(self.console.reader, row, self.now_ms)
        return part if left is None or left.is_over else await source.with_left(part, left, at)

    async def _drop_marks(self, source: JobSource) -> None:
        """Takes the marks of jobs away that left the list, and tells; of very many some at each picture."""
        view, operator = self.view, self.console.operator
        marked = [row for row in view.marks.values() if isinstance(row, JobRecord | Left)]
        if not marked or operator.work is not None:
            return
        start = self._looked_after % len(marked)
        some = (marked[start:] + marked[:start])[:_MARKS_READ]
        self._looked_after = start + len(some)
        gone = [row.key for row in some if isinstance(row, Left)]
        jobs = [row for row in some if isinstance(row, JobRecord)]
        there = await source.present(jobs)
        gone += [job.key for job, is_there in zip(jobs, there, strict=True) if not is_there]
        if operator.work is None:
            self.tell_dropped(view.drop_marks(gone))

    @abstractmethod
    def head(self, cells: int) -> Line:
        """Return the heads of the columns."""

    @abstractmethod
    def lines_of(self, item: Item, cells: int, at_cursor: bool) -> Sequence[Line]:
        """Return the line of an entry."""

    @abstractmethod
    def total_words(self) -> str:
        """Return how much is shown."""

    @abstractmethod
    def empty_lines(self) -> Sequence[Line]:
        """Return what is said when there is nothing to show."""

    @abstractmethod
    def side(self, cells: int, height: int) -> Sequence[Line]:
        """Return the side pane."""

    def has_jobs(self) -> bool:
        """Whether there is something to mark."""
        return self.seen.part.reach > 0

    def items(self) -> Sequence[Item]:
        """Return the list, of which a part is known."""
        part = self.seen.part
        return Window(part.reach, part.first, [Item(row.key, 1, row, isinstance(row, JobRecord)) for row in part.rows])

    def draw(self, *, fresh: bool) -> None:
        """Draw what is on the screen."""
        self.draw_list(fresh=fresh)

    def draw_list(self, *, fresh: bool) -> None:
        """Draw list, total and side pane; what came into sight meanwhile is asked for."""
        items = self.items()
        has_rows = len(items) > 0
        if has_rows:
            self.view.show(Listing(items, self.lines_of), self.painter)
        else:
            told = (UNREAD,) if self.is_unread else self.empty_lines() if self.data is not None else ()
            self.view.show(lines_without_cursor(told), self.painter)
        self.query_one("#head", Lines).show(lambda w, _h: (self.head(w),) if has_rows else (), self.painter)
        words = self.total_words() if has_rows else ""
        self.query_one("#total", Lines).show(lambda w, h: below(self.count_line(words), w, h), self.painter)
        self._draw_side()
        self._read_what_lacks(fresh=fresh)

    def _draw_side(self) -> None:
        self.query_one("#side", Lines).show(self._side_in_height, self.painter)

    def _side_in_height(self, cells: int, height: int) -> Sequence[Line]:
        return in_height(self.side(cells, height), height, cells, "enter opens it")

    def _read_what_lacks(self, *, fresh: bool) -> None:
        # A new picture may have been read before the list moved on: then what was fetched since is not in it.
        if self.view.lacks and (
            fresh or self._fetched != (self.query_key, self.view.visible_lines(), self.view.cursor)
        ):
            self.fetch()
        if self.unfinished and not self._working and self.is_current and not self.picture.is_lost:
            self._working = True
            self.run_worker(self._work_on(), group="search", exit_on_error=False)

    @property
    def search(self) -> JobSearch | None:
        """The search that the list comes from, while it has not seen everything yet."""
        source = self.source()
        return source if isinstance(source, JobSearch) and source.unfinished else None

    @property
    def unfinished(self) -> bool:
        """Whether there is more to search for what is shown."""
        return self.search is not None

    async def work_on(self) -> None:
        """Search on for a moment."""
        if self.search is not None:
            await self.search.go_on()

    async def _work_on(self) -> None:
        """Goes on between two pictures, and leaves most of the time to others."""
        pace = Pace(0.02, times=_TIMES)
        try:
            while self.is_current and self.unfinished and not self.picture.is_lost:
                with pace.spending():
                    await self.work_on()
                await asyncio.sleep(pace.rest())
        except (QdeckError, OSError):
            self.console.feed.poke()  # it will tell what is wrong
        finally:
            self._working = False

    def detail(self) -> JobDetail | None:
        """All about the job under the cursor, once it is read."""
        detail = self.seen.detail
        return detail if detail is not None and detail.key == self.view.cursor else None

    def fetch(self) -> None:
        """Reads what is in sight at once, without waiting for the next picture."""
        if not self._fetching and not self.picture.is_lost and self.picture.snapshot is not None:
            self._fetching = True
            self.run_worker(self._fetch(), group="window", exit_on_error=False)

    async def _fetch(self) -> None:
        name, console, known = self.query_key, self.console, self.seen.part
        asked = self.view.visible_lines()
        try:
            listed = await self.read_list(known if known.rows and not self.view.lacks else None)
        except (QdeckError, OSError):
            console.feed.poke()  # it will tell what is wrong
            return
        finally:
            self._fetching = False
        if name != self.query_key and self.is_current:
            self.fetch()  # another list was chosen meanwhile
        elif self.is_current:
            console.shown = replace(console.shown, result=self.merged(listed), result_of=name)
            self.show(console.shown, fresh=False)
            is_behind = self.view.lacks and self.view.visible_lines() != asked
            on_another = isinstance(self.view.row, JobRecord) and self._fetched[2] != self.view.cursor
            if is_behind or (self.detail() is None and on_another):
                self.fetch()  # the list or the cursor moved on meanwhile

    def merged(self, listed: JobsInSight) -> object:
        """What was read of the list, among all that is read for this screen."""
        return listed

    def on_line_list_wanted(self) -> None:
        """Read what came into sight."""
        self.fetch()

    def on_line_list_opened(self) -> None:
        """Open what is under the cursor, or say why not."""
        self.action_do("open")

    def on_line_list_moved(self, event: LineList.Moved) -> None:
        """Draw what follows the cursor."""
        self.moved(event)

    def moved(self, _event: LineList.Moved) -> None:
        """Draw what follows the cursor of a list."""
        self.entry_moved()

    def entry_moved(self) -> None:
        """Draw the side pane and the footer for another entry; what they lack is read at once."""
        self.query_one("#total", Lines).refresh_lines()
        self._draw_side()
        self.draw_frame()
        if self.detail() is None and isinstance(self.view.row, JobRecord):
            self.fetch()

    def mark_range(self) -> None:
        """Begin or end a range of marks; what was not read of it is read before it ends."""
        view, ends = self.view, self.view.ranged
        if ends is None or not view.range_lacks:
            self.toggle_range()
            return
        count = ends[3] - ends[1] + 1
        if count > MOST_MARKED:
            words = (
                f"the range has {count:,} jobs, {MOST_MARKED:,} at most are marked one by one: * takes all that match"
            )
            self.console.say(words, "warn", "▲")
        else:
            self.console.operator.run(self._mark(*ends), "mark")

    async def _mark(self, upper: str, first: int, lower: str, last: int) -> None:
        """Reads the range from its upper to its lower end, and marks it."""
        source, name, view, work = self.source(), self.query_key, self.view, self.console.operator.work
        found: dict[str, object] = {}
        if source is None or work is None:
            return
        work.total = last - first + 1
        end = view.marks.get(lower)
        begin = view.marks.get(upper)
        if not isinstance(begin, JobRecord):
            [*rows] = (await source.read(first, 1)).rows
            begin = next((row for row in rows if isinstance(row, JobRecord)), None)
        if begin is not None:
            found[begin.key] = begin
            last_id = end.id if isinstance(end, JobRecord) else ""
            async for some in source.between(begin, RangeEnd(id=last_id, key=lower, place=last)):
                found |= {job.key: job for job in some}
                work.done = len(found)
                if work.cancelled or len(found) > MOST_MARKED:
                    break
        if work.cancelled or name != self.query_key or not view.in_range:
            self.console.say("nothing of the range was marked" if work.cancelled else "the list changed", "muted", "")
            view.clear_marks()
        else:
            view.end_range(found)
            self.console.say(f"{counted(len(found), 'job')} of the range marked", "ok", "")
        self.draw(fresh=False)

    def why_no_targets(self) -> str:
        """Return why nothing can be done to the targets."""
        return self.why_range_lacks()

    def why_range_lacks(self) -> str:
        """Return what to do about a range of which only a part is marked."""
        return "v reads and ends the range first" if self.view.range_lacks else ""

    def why_not_write(self) -> str:
        """Return why nothing can be written to a file."""
        if not self.lists():
            return "nothing to write"
        return self.why_no_targets() or (f"{self.console.busy} goes on" if self.console.busy else "")

    def copied(self) -> tuple[str, str]:
        """What `y` takes: the id under the cursor."""
        row = self.view.row
        return ("id", row.id) if isinstance(row, JobRecord | Left) else ("", "")

    def lists(self) -> bool:
        """Whether there is something to write: what is known of the list."""
        return bool(self.seen.part.rows)

    @abstractmethod
    def to_write(self) -> tuple[Sequence[JobRecord], OperationRequest | None]:
        """What is written to a file: some jobs, or all that match, which are read as they are written."""

    def to_export(self) -> Export:
        """All about the jobs."""
        return export.of_jobs(self.console, *self.to_write())

    def visible_rows(self) -> tuple[int, int]:
        """The first row in sight, and how many are; one that left and is shown a while longer is none of the list."""
        view, part = self.view, self.seen.part
        first, count = view.visible_lines()
        first, count = min(first, max(0, part.reach - 1)), min(count, part.reach - first)
        if part.reach > part.total:
            left = next((part.first + at for at, row in enumerate(part.rows) if isinstance(row, Left)), first + count)
            first, count = first - (left < first), count - (first <= left < first + count)
        return first, count

    def gone(self) -> Left | None:
        """The job under the cursor, when it left the list."""
        row = self.view.row
        return row if isinstance(row, Left) else None

    HANDLERS: ClassVar = {
        **MarkingScreen.HANDLERS,
        "write": ActionHandler(run=lambda screen: screen.write(), reason=why_not_write, label=lambda _screen: "export"),
    }
