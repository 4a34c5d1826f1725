"""A list of jobs of any length on a screen: only the visible part is read, and at once when it is scrolled."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, TypeVar

from qdeck import QdeckError, UnknownJob
from qdeck.admin import Feature, JobDetail, JobRecord
from qdeck_console.actions import ActionHandler
from qdeck_console.departed_jobs import GoneJob, find_out
from qdeck_console.format import counted
from qdeck_console.job_sources import JobSource, ListedJobs, ListPart, RangeEnd, SearchSource
from qdeck_console.pace import Pace
from qdeck_console.presenters.job_detail import gone_lines, left_line
from qdeck_console.presenters.line_parts import in_height
from qdeck_console.screens import export
from qdeck_console.screens.lists import ListScreen, ListSpec
from qdeck_console.screens.marks import MarkingScreen
from qdeck_console.widgets.lines import Item, Window

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qdeck_console.format import Line
    from qdeck_console.operations import OperationRequest
    from qdeck_console.screens.export import Export

_TIMES: Final = 12  # what a step of a search took, between two of them
_FIRST_ROWS: Final = 60  # read before it is known how many fit
MOST_MARKED: Final = 10_000  # one by one: each is kept as it was seen
_NONE_READ: Final = ListPart()
ListedT = TypeVar("ListedT", bound=ListedJobs)
_MARKS_READ: Final = 1000  # marks that are checked at each refresh


class JobListScreen(MarkingScreen, ListScreen[JobRecord | GoneJob, ListedT], Generic[ListedT]):
    """A list of jobs of which only the part around the visible rows is known."""

    LIST: ClassVar[ListSpec[Any, Any]] = ListSpec(
        noun="job", rows=lambda data: data.part.rows, key=lambda row: row.key, search=lambda row: row.id
    )

    def __init__(self) -> None:
        super().__init__()
        self._fetching = self._working = False
        self._fetched: tuple[str, tuple[int, int], str] = ("", (0, 0), "")
        self._looked_after = 0

    @property
    def part(self) -> ListPart:
        """The part of the list that was read."""
        return _NONE_READ if self.data is None else self.data.part

    @abstractmethod
    def source(self) -> JobSource | None:
        """Return where the list comes from now."""

    async def read_list(self, part: ListPart | None = None) -> ListedJobs:
        """Read the visible part of the list with as much above and below it, unless it is given, and the details of
        the job under the cursor.
        """
        source, view = self.source(), self.view
        if source is None:
            return ListedJobs()
        first, count = view.visible_lines()
        count = count or _FIRST_ROWS
        cursor, row = view.cursor, view.row
        around = row.id if view.held and isinstance(row, JobRecord) and row.has(Feature.ORDER) else None
        self._fetched = (self.query_key, (first, count), cursor)
        if part is None:
            at = view.place
            part = await source.read(max(0, first - count), 3 * count, around)
            if at is not None and isinstance(row, JobRecord | GoneJob):
                part = await self._with_left(source, part, row, at)
            await self._drop_marks(source)
        chosen = next(
            (job for job in part.rows if job.key == cursor), part.rows[0] if part.rows and not cursor else None
        )
        if not isinstance(chosen, JobRecord):
            return ListedJobs(part=part)
        try:
            return ListedJobs(part=part, detail=await self.console.reader.job(chosen.ref, chosen.handle))
        except UnknownJob:
            return ListedJobs(part=part)  # it went away between the two reads

    async def _with_left(self, source: JobSource, part: ListPart, row: JobRecord | GoneJob, at: int) -> ListPart:
        """Return the part with the job under the cursor in its place for a while after it left the list."""
        there = next((found for found in part.rows if found.key == row.key), None)
        if isinstance(there, JobRecord):
            return part
        left = row if isinstance(row, GoneJob) else await find_out(self.console.reader, row, self.now_ms)
        return part if left is None or left.is_over else await source.with_left(part, left, at)

    async def _drop_marks(self, source: JobSource) -> None:
        """Clear the marks of jobs that left the list, with a message; of very many some at each refresh."""
        view, operator = self.view, self.console.operator
        marked = [row for row in view.marks.values() if isinstance(row, JobRecord | GoneJob)]
        if not marked or operator.work is not None:
            return
        start = self._looked_after % len(marked)
        some = (marked[start:] + marked[:start])[:_MARKS_READ]
        self._looked_after = start + len(some)
        gone = [row.key for row in some if isinstance(row, GoneJob)]
        jobs = [row for row in some if isinstance(row, JobRecord)]
        there = await source.present(jobs)
        gone += [job.key for job, is_there in zip(jobs, there, strict=True) if not is_there]
        if operator.work is None:
            self.tell_dropped(view.drop_marks(gone))

    @abstractmethod
    def about(self, job: JobDetail, cells: int) -> Sequence[Line]:
        """Return the side pane about the job under the cursor."""

    def has_jobs(self) -> bool:
        """Return whether there is something to mark."""
        return self.part.reach > 0

    def matching(self) -> list[JobRecord | GoneJob]:
        """Return the part of the list that is known: its source has filtered it."""
        return list(self.part.rows)

    def items(self, rows: Sequence[JobRecord | GoneJob]) -> Sequence[Item]:
        """Return the list, of which a part is known."""
        part = self.part
        return Window(part.reach, part.first, [Item(row.key, 1, row, isinstance(row, JobRecord)) for row in rows])

    def lines(self, row: JobRecord | GoneJob, cells: int, *, at_cursor: bool) -> Sequence[Line]:
        """Return the line of a job, or of one that left the list."""
        if isinstance(row, GoneJob):
            return (left_line(row, self.table.laid(cells)[0][1], self.now_ms),)
        return (self.table.line(row, cells, self.row_view(), at_cursor=at_cursor),)

    def draw(self, *, fresh: bool) -> None:
        """Draw what is on the screen; what it lacks is read."""
        self.draw_list()
        self.read_lacking(fresh=fresh)

    def side(self, row: JobRecord | GoneJob, cells: int, height: int) -> Sequence[Line]:
        """Return the job under the cursor, or how it left the list."""
        detail = self.detail()
        if isinstance(row, GoneJob):
            lines: Sequence[Line] = gone_lines(row, cells, self.now_ms)
        else:
            lines = self.about(detail, cells) if detail is not None else ((("…", "ghost"),),)
        return in_height(lines, height, cells, "enter opens it")

    def read_lacking(self, *, fresh: bool) -> None:
        """Read the visible rows that are not known yet, and search on."""
        # A new snapshot may have been read before the list was scrolled: then it lacks the rows fetched since.
        if self.view.lacks and (
            fresh or self._fetched != (self.query_key, self.view.visible_lines(), self.view.cursor)
        ):
            self.fetch()
        if self.unfinished and not self._working and self.is_current and not self.feed_state.is_lost:
            self._working = True
            self.run_worker(self._work_on(), group="search", exit_on_error=False)

    @property
    def search(self) -> SearchSource | None:
        """The search that the list comes from, while it has not seen everything yet."""
        source = self.source()
        return source if isinstance(source, SearchSource) and source.unfinished else None

    @property
    def unfinished(self) -> bool:
        """Whether there is more to search for what is shown."""
        return self.search is not None

    async def work_on(self) -> None:
        """Search on for a moment."""
        if self.search is not None:
            await self.search.go_on()

    async def _work_on(self) -> None:
        """Search between two refreshes, for a small part of the time."""
        pace = Pace(0.02, times=_TIMES)
        try:
            while self.is_current and self.unfinished and not self.feed_state.is_lost:
                with pace.spending():
                    await self.work_on()
                await asyncio.sleep(pace.rest())
        except (QdeckError, OSError):
            self.console.feed.poke()  # the feed reports the error
        finally:
            self._working = False

    def detail(self) -> JobDetail | None:
        """Return the details of the job under the cursor, once it is read."""
        detail = None if self.data is None else self.data.detail
        return detail if detail is not None and detail.key == self.view.cursor else None

    def fetch(self) -> None:
        """Read what is visible at once, without waiting for the next refresh."""
        if not self._fetching and not self.feed_state.is_lost and self.feed_state.snapshot is not None:
            self._fetching = True
            self.run_worker(self._fetch(), group="window", exit_on_error=False)

    async def _fetch(self) -> None:
        name, console, known = self.query_key, self.console, self.part
        asked = self.view.visible_lines()
        try:
            listed = await self.read_list(known if known.rows and not self.view.lacks else None)
        except (QdeckError, OSError):
            console.feed.poke()  # the feed reports the error
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

    def merged(self, listed: ListedJobs) -> ListedJobs:
        """Return what was read of the list, among all that is read for this screen."""
        return listed

    def on_line_list_wanted(self) -> None:
        """Read what came into sight."""
        self.fetch()

    def lacks(self) -> bool:
        """Return whether the details of the job under the cursor is not read yet."""
        return self.detail() is None and isinstance(self.view.row, JobRecord)

    def mark_range(self) -> None:
        """Begin or end a range of marks; what was not read of it is read before it ends."""
        view, ends = self.view, self.view.ranged
        if ends is None or not view.range_lacks:
            self.toggle_range()
            return
        count = ends[3] - ends[1] + 1
        if count > MOST_MARKED:
            words = f"range of {count:,} jobs: at most {MOST_MARKED:,} can be marked; * marks all that match"
            self.console.say(words, "warn", "▲")
        else:
            self.console.operator.run(self._mark(*ends), "mark")

    async def _mark(self, upper: str, first: int, lower: str, last: int) -> None:
        """Read the range from its upper to its lower end, and mark it."""
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
            self.console.say(
                "no job was marked" if work.cancelled else "no job was marked: the list changed", "muted", ""
            )
            view.clear_marks()
        else:
            view.end_range(found)
            self.console.say(f"{counted(len(found), 'job')} marked", "ok", "")
        self.draw(fresh=False)

    def why_no_targets(self) -> str:
        """Return why nothing can be done to the targets."""
        return self.why_range_lacks()

    def why_range_lacks(self) -> str:
        """Return what completes a range of which only a part is marked."""
        return "v completes the range first" if self.view.range_lacks else ""

    def copied(self) -> tuple[str, str]:
        """Return what `y` copies: the id under the cursor."""
        row = self.view.row
        return ("id", row.id) if isinstance(row, JobRecord | GoneJob) else ("", "")

    @abstractmethod
    def to_write(self) -> tuple[Sequence[JobRecord], OperationRequest | None]:
        """Return what is exported: some jobs, or all that match, which are read while they are written."""

    def to_export(self) -> Export:
        """Return the details of the jobs."""
        return export.of_jobs(self.console, *self.to_write())

    def visible_rows(self) -> tuple[int, int]:
        """Return the first visible row and how many are visible, without a job that left the list."""
        view, part = self.view, self.part
        first, count = view.visible_lines()
        first, count = min(first, max(0, part.reach - 1)), min(count, part.reach - first)
        if part.reach > part.total:
            left = next(
                (part.first + at for at, row in enumerate(part.rows) if isinstance(row, GoneJob)), first + count
            )
            first, count = first - (left < first), count - (first <= left < first + count)
        return first, count

    HANDLERS: ClassVar = {
        **MarkingScreen.HANDLERS,
        "write": ActionHandler(
            run=lambda screen: screen.write(),
            reason=lambda screen: screen.why_not_write() or screen.why_no_targets(),
            label=lambda _screen: "export",
        ),
    }
