"""Every stuck job with why, its owner and whether that owner is alive."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final

from qdeck import QdeckError, UnknownJob
from qdeck.admin import Code, Entry, Feature, SkipCode, Verb, concerns_all, parse
from qdeck_console.actions import STUCK
from qdeck_console.departed_jobs import GoneJob, find_out
from qdeck_console.format import counted
from qdeck_console.operations import OperationRequest
from qdeck_console.pace import Paces
from qdeck_console.presenters import stuck as present
from qdeck_console.presenters.frame import role_of
from qdeck_console.presenters.line_parts import in_height, unread_words
from qdeck_console.presenters.stuck import StuckJobs, StuckRow, Why
from qdeck_console.screens.job_actions import JOB_HANDLERS, why_not_act
from qdeck_console.screens.lists import ListScreen, ListSpec, RowGroup
from qdeck_console.screens.marks import MarkingScreen
from qdeck_console.widgets.lines import Item

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from qdeck.admin import AsyncReader, JobRecord, QueueRef, QueueRow, Snapshot, Spread, WorkerRow
    from qdeck_console.format import Line
    from qdeck_console.screens.export import Export, ExportFile

MOST_QUEUES = 20
USUAL_S = 30.0
MOST_JOBS = 240  # that are shown: all about each is read
LEAST_OF_QUEUE = 12  # of them
MOST_RUNNING = 5_000  # running jobs of a queue of qdeck that are looked at
MOST_PAGES = 12  # of a queue of another adapter: each kind of entry takes one at least
WAITING = ("running", "ready", "delayed", "blocked")


async def _native(
    reader: AsyncReader, row: QueueRow, where: str, workers: Mapping[str, WorkerRow], most: int, now_ms: int
) -> tuple[list[StuckRow], bool]:
    """Return at most `most` stuck jobs of a queue that match, and whether these are all.

    Without a filter no more are looked for than the row counts: behind them the list of running jobs may be long.
    """
    count = None if where.strip() else row.stuck or 0
    limit = most if count is None else min(most, count)
    told, is_all = await reader.stuck_running(
        row.name, workers, now_ms, where=where, limit=limit, most_read=MOST_RUNNING
    )
    found: list[StuckRow] = []
    for each in told:
        try:
            job = await reader.job(row.ref, each.id)
        except UnknownJob:
            continue  # it ended between the two reads
        stuck = present.held(job, workers.get(job.worker or ""))
        found += [] if stuck is None else [stuck]
    return found, is_all or (count is not None and len(told) == count)


async def _theirs(reader: AsyncReader, queue: QueueRef) -> list[StuckRow]:
    found: dict[str, StuckRow] = {}
    cursor: str | None = None
    for _ in range(MOST_PAGES):
        page = await reader.page(queue, state=WAITING, cursor=cursor)
        entries = [entry for entry in page.jobs if isinstance(entry, Entry) and entry.stuck is not None]
        found |= {entry.key: present.theirs(entry) for entry in entries}
        cursor = page.cursor
        if cursor is None or len(found) >= present.MOST:
            break
    return list(found.values())


NOTHING_READ: Final = StuckJobs()


class StuckScreen(MarkingScreen, ListScreen[StuckRow | GoneJob, StuckJobs]):
    """The screen Stuck."""

    TAB = SCOPE = STUCK
    LIST: ClassVar[ListSpec[StuckRow | GoneJob, StuckJobs]] = ListSpec(
        noun="stuck job", rows=lambda data: data.jobs, key=lambda row: row.key, search=lambda row: row.key
    )

    def __init__(self) -> None:
        super().__init__()
        self._usual: dict[QueueRef, Spread | None] = {}
        self._paces = Paces(times=20)
        self._matched: tuple[StuckJobs, str, list[StuckRow | GoneJob]] = (NOTHING_READ, "", [])

    async def _read_usual(self, found: Sequence[StuckRow]) -> None:
        """Return how long jobs took that are done, of the queue under the cursor and not often."""
        row = self.view.row if self.is_mounted else None
        stuck = row if isinstance(row, StuckRow) else found[0] if found else None
        if stuck is None or stuck.why is Why.THEIRS:
            return
        queue = stuck.job.ref
        if self._paces.of(queue).is_due:
            details = await self._paces.read(queue, lambda: self.console.reader.queue_details(queue.name), USUAL_S)
            self._usual[queue] = None if details is None else details.done

    def job_of(self, row: object) -> JobRecord | None:
        """The job that a row shows."""
        return row.job if isinstance(row, StuckRow) else None

    def everything(self) -> tuple[OperationRequest, int | None] | None:
        """All stuck jobs that match, of every queue."""
        if not self.view.all_marked:
            return None
        request = OperationRequest(verb=Verb.REQUEUE, where=self.filter_text, states=("running",), stuck=True)
        return request, None if self.filter_text else (self.data or StuckJobs()).total

    async def read(self, reader: AsyncReader, snapshot: Snapshot) -> StuckJobs:
        """Read the stuck jobs of the queues that have some, as the core finds them, and their owners."""
        where, at_ms = self.filter_text, snapshot.at_ms
        workers = {worker.id: worker for worker in await reader.workers()}
        found: list[StuckRow] = []
        rows = sorted((row for row in snapshot.queues if row.stuck), key=lambda row: -(row.stuck or 0))
        rows, all_read = rows[:MOST_QUEUES], len(rows) <= MOST_QUEUES
        most = min(present.MOST, max(LEAST_OF_QUEUE, MOST_JOBS // max(1, len(rows))))
        unread = {row.ref for row in snapshot.queues if row.problem is not None}
        for row in rows:
            try:
                if not row.has(Feature.LEASES):
                    found += await _theirs(reader, row.ref)
                    continue
                stuck, over = await _native(reader, row, where, workers, most, at_ms)
            except QdeckError as error:
                if concerns_all(error):
                    raise
                unread.add(row.ref)
                continue
            unread.discard(row.ref)
            all_read = all_read and over
            found += stuck
        kept, gone = await self._under_cursor(found, workers, at_ms)
        found += [kept] if kept is not None else []
        role = role_of(snapshot, Code.STUCK, "warn")
        found = [replace(stuck, role=role) for stuck in found]
        found.sort(key=lambda stuck: (stuck.why, stuck.job.queue, stuck.job.ref, stuck.job.id))
        served = {row.ref: row.workers for row in snapshot.queues}
        await self._read_usual(found)
        self._drop_marks(found, all_read)
        total = snapshot.totals.stuck
        return StuckJobs(
            jobs=tuple(found), total=total, usual=dict(self._usual), served=served, gone=gone, all_read=all_read,
            unread=len(unread),
        )  # fmt: skip

    async def _under_cursor(
        self, found: Sequence[StuckRow], workers: Mapping[str, WorkerRow], now_ms: int
    ) -> tuple[StuckRow | None, GoneJob | None]:
        """The job under the cursor, when it is not among those that were found: stuck still, or where it went."""
        row = self.view.row if self.is_mounted else None
        if isinstance(row, GoneJob):
            return None, None if row.is_over or any(stuck.key == row.key for stuck in found) else row
        if not isinstance(row, StuckRow) or any(stuck.key == row.key for stuck in found):
            return None, None
        left = await find_out(self.console.reader, row.job, now_ms)
        if left is not None or not row.job.has(Feature.LEASES):
            return None, left
        try:
            job = await self.console.reader.job(row.job.ref, row.job.id)
            still = present.held(job, workers.get(job.worker or ""))
        except UnknownJob:
            still = None
        gone = GoneJob(key=row.key, id=row.job.id, code=SkipCode.LEFT_STATE, data="stuck")
        return still, gone if still is None else None

    def _drop_marks(self, found: Sequence[StuckRow], all_read: bool) -> None:
        """Remove the marks of jobs that are no longer stuck, and report it."""
        if not all_read or not self.is_mounted or self.console.operator.work is not None:
            return
        self.tell_dropped(self.view.drop_marks(set(self.view.marks) - {stuck.key for stuck in found}))

    def filter_changed(self) -> None:
        """Show what matches; of very many the ones that match are looked for."""
        self.redraw()
        self.view.settle()
        self.console.now_on_screen(self)

    def has_jobs(self) -> bool:
        """Return whether there is something to mark."""
        return bool(self.matching())

    def matching(self) -> list[StuckRow | GoneJob]:
        """Return the stuck jobs that the filter matches: asked at each frame, looked through once."""
        data, wanted = self.data or NOTHING_READ, self.filter_text
        if self._matched[0] is not data or self._matched[1] != wanted:
            test = parse(wanted).compile()
            self._matched = (data, wanted, [stuck for stuck in data.jobs if test(stuck.job)])
        return self._matched[2]

    def groups(self, rows: Sequence[StuckRow | GoneJob]) -> list[RowGroup[StuckRow | GoneJob]]:
        """Return the jobs by why they are stuck."""
        found: list[RowGroup[StuckRow | GoneJob]] = []
        for why in Why:
            jobs = [row for row in rows if isinstance(row, StuckRow) and row.why is why]
            if jobs:
                foot = partial(present.note_line, why, jobs) if self.is_tall else None
                found.append(RowGroup(jobs, partial(present.group_line, why, jobs[0].role, len(jobs)), foot=foot))
        return found

    def items(self, rows: Sequence[StuckRow | GoneJob]) -> list[Item]:
        """Return the jobs as entries, with the one under the cursor in its place when it left the list."""
        items = self.items_of(rows)
        gone, place = (self.data or StuckJobs()).gone, self.view.place
        if gone is not None and self.view.cursor == gone.key and all(item.key != gone.key for item in items):
            items.insert(min(len(items), place or 0), Item(gone.key, 1, gone, False))
        return items

    def head(self, cells: int) -> Line:
        """Return the heads of the columns."""
        return present.head_line(cells)

    def height(self, row: StuckRow | GoneJob) -> int:
        """Return how many lines a job has."""
        return 2 if isinstance(row, StuckRow) and row.reason else 1

    def lines(self, row: StuckRow | GoneJob, cells: int, *, at_cursor: bool) -> Sequence[Line]:
        """Return the lines of a job."""
        if isinstance(row, GoneJob):
            return (present.left_line(row, cells, self.now_ms),)
        line = present.entry_line(row, cells, naming=self.naming, at_cursor=at_cursor)
        return (line, present.reason_line(row, cells)) if row.reason else (line,)

    def total(self, rows: Sequence[StuckRow | GoneJob]) -> str:
        """Return how much is shown."""
        if not rows:
            return ""
        data = self.data or StuckJobs()
        shown, words = len(data.jobs), counted(len(data.jobs), "stuck job")
        words = words if shown >= data.total else f"{words} of {data.total:,}"
        return f"{words}, {unread_words(data.unread)}" if data.unread else words

    def to_export(self) -> Export:
        """Return what `w` writes: all stuck jobs that match, not only those on screen, as `qdeck stuck` lists them."""
        from qdeck_console import documents
        from qdeck_console.screens.export import Export

        where = self.filter_text

        async def fill(file: ExportFile) -> None:
            await self.console.reader.stuck(
                where=where, cancelled=lambda: file.is_dropped,
                each=lambda some: file.put([documents.stuck(job) for job in some]),
            )  # fmt: skip

        return Export(fill=fill, count=None if where else (self.data or StuckJobs()).total)

    def empty_lines(self) -> Sequence[Line]:
        """Return what is said when nothing is stuck."""
        data = self.data or StuckJobs()
        unread: Sequence[Line] = (((f"    {unread_words(data.unread)}", "warn"),),) if data.unread else ()
        if self.filter_text:
            words = "no stuck job matches" if data.all_read else "no job matches so far"
            return (((f"    {words}; esc clears the filter", "muted"),), *unread)
        return (
            (("    no stuck jobs", "strong bold"),),
            (("    every running job has a lease and is within its time limit", "muted"),),
            *unread,
        )

    def lacks(self) -> bool:
        """Return whether the details of the job under the cursor is not read yet."""
        return not isinstance(self.chosen, StuckRow)

    def side(self, row: StuckRow | GoneJob, cells: int, height: int) -> Sequence[Line]:
        """Return the job under the cursor, with why it is stuck."""
        if isinstance(row, GoneJob):
            lines: Sequence[Line] = ((("–  ", "ghost"), ("gone", "faint bold")), ((row.words(self.now_ms), "muted"),))
        else:
            lines = present.side(row, self.data or StuckJobs(), cells, now_ms=self.now_ms, naming=self.naming)
        return in_height(lines, height, cells, "enter opens it")

    def _all_label(self) -> str:
        total = (self.data or StuckJobs()).total
        return f"all {total:,}" if total and not self.filter_text else ""

    HANDLERS: ClassVar = {
        **MarkingScreen.HANDLERS, "all": replace(MarkingScreen.HANDLERS["all"], label=_all_label),
        "run": replace(JOB_HANDLERS["run"], offered=lambda screen: not why_not_act("run", screen)),
    }  # fmt: skip
