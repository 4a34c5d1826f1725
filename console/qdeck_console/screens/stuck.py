"""Every stuck job with why, its owner and whether that owner is alive."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from qdeck import QdeckError, UnknownJob
from qdeck.admin import Code, Entry, Feature, SkipCode, Verb, concerns_all, parse
from qdeck_console.actions import STUCK
from qdeck_console.format import counted
from qdeck_console.leaving import Left, find_out
from qdeck_console.operations import OperationRequest
from qdeck_console.pace import Paces
from qdeck_console.presenters import stuck as present
from qdeck_console.presenters.frame import role_of
from qdeck_console.presenters.parts import unread_words
from qdeck_console.presenters.stuck import Stuck, StuckSeen, Why
from qdeck_console.screens.job_list import JobListScreen
from qdeck_console.widgets.lines import Item

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from qdeck.admin import AsyncReader, JobDetail, JobRecord, QueueRef, QueueRow, Snapshot, Spread, WorkerRow
    from qdeck_console.feed import Reader
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
) -> tuple[list[Stuck], bool]:
    """The stuck jobs of a queue that match, so many at most, and whether these are all.

    Without a filter no more are looked for than the row counts: behind them the list of running jobs may be long.
    """
    count = None if where.strip() else row.stuck or 0
    limit = most if count is None else min(most, count)
    told, is_all = await reader.stuck_running(
        row.name, workers, now_ms, where=where, limit=limit, most_read=MOST_RUNNING
    )
    found: list[Stuck] = []
    for each in told:
        try:
            job = await reader.job(row.ref, each.id)
        except UnknownJob:
            continue  # it ended between the two reads
        stuck = present.held(job, each, workers.get(each.worker or ""))
        found += [] if stuck is None else [stuck]
    return found, is_all or (count is not None and len(told) == count)


async def _theirs(reader: AsyncReader, queue: QueueRef) -> list[Stuck]:
    found: dict[str, Stuck] = {}
    cursor: str | None = None
    for _ in range(MOST_PAGES):
        page = await reader.page(queue, state=WAITING, cursor=cursor)
        entries = [entry for entry in page.jobs if isinstance(entry, Entry) and entry.stuck is not None]
        found |= {entry.key: present.theirs(entry) for entry in entries}
        cursor = page.cursor
        if cursor is None or len(found) >= present.MOST:
            break
    return list(found.values())


class StuckScreen(JobListScreen):
    """What runs longer than it should."""

    TAB = SCOPE = STUCK

    def __init__(self) -> None:
        super().__init__()
        self._usual: dict[QueueRef, Spread | None] = {}
        self._paces = Paces(times=20)

    async def _read_usual(self, found: Sequence[Stuck]) -> None:
        """How long jobs took that are done, of the queue under the cursor and not often."""
        row = self.view.row if self.is_mounted else None
        stuck = row if isinstance(row, Stuck) else found[0] if found else None
        if stuck is None or stuck.why is Why.THEIRS:
            return
        queue = stuck.job.ref
        if self._paces.of(queue).is_due:
            details = await self._paces.read(queue, lambda: self.console.reader.queue_details(queue.name), USUAL_S)
            self._usual[queue] = None if details is None else details.done

    def job_of(self, row: object) -> JobRecord | None:
        """The job that a row shows."""
        return row.job if isinstance(row, Stuck) else None

    def everything(self) -> tuple[OperationRequest, int | None] | None:
        """All stuck jobs that match, of every queue."""
        if not self.view.all_marked:
            return None
        request = OperationRequest(verb=Verb.REQUEUE, where=self.filter_text, states=("running",), stuck=True)
        return request, None if self.filter_text else self.seen.total

    def wants(self) -> Reader | None:
        """The stuck jobs of the queues that have some, as the core finds them, and their owners."""

        async def read(snapshot: Snapshot) -> StuckSeen:
            reader, where, at_ms = self.console.reader, self.filter_text, snapshot.at_ms
            workers = {worker.id: worker for worker in await reader.workers()}
            found: list[Stuck] = []
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
            return StuckSeen(
                jobs=tuple(found), total=total, usual=dict(self._usual), served=served, gone=gone, all_read=all_read,
                unread=len(unread),
            )  # fmt: skip

        return read

    async def _under_cursor(
        self, found: Sequence[Stuck], workers: Mapping[str, WorkerRow], now_ms: int
    ) -> tuple[Stuck | None, Left | None]:
        """The job under the cursor, when it is not among those that were found: stuck still, or where it went."""
        row = self.view.row if self.is_mounted else None
        if isinstance(row, Left):
            return None, None if row.is_over or any(stuck.key == row.key for stuck in found) else row
        if not isinstance(row, Stuck) or any(stuck.key == row.key for stuck in found):
            return None, None
        left = await find_out(self.console.reader, row.job, now_ms)
        if left is not None or not row.job.has(Feature.LEASES):
            return None, left
        try:
            told = await self.console.reader.stuck_job(row.job.queue, row.job.id, workers, now_ms)
            job = await self.console.reader.job(row.job.ref, row.job.id)
            still = None if told is None else present.held(job, told, workers.get(told.worker or ""))
        except UnknownJob:
            still = None
        gone = Left(key=row.key, id=row.job.id, code=SkipCode.LEFT_STATE, data="stuck")
        return still, gone if still is None else None

    def _drop_marks(self, found: Sequence[Stuck], all_read: bool) -> None:
        """Takes the marks of jobs away that are not stuck any more, and tells."""
        if not all_read or not self.is_mounted or self.console.operator.work is not None:
            return
        self.tell_dropped(self.view.drop_marks(set(self.view.marks) - {stuck.key for stuck in found}))

    def _refilter(self) -> None:
        super()._refilter()
        self.console.now_on_screen(self)  # of very many the ones that match are looked for

    @property
    def seen(self) -> StuckSeen:
        """What was read for this screen."""
        extra = self.picture.extra
        return extra if isinstance(extra, StuckSeen) else StuckSeen()

    def head(self, cells: int) -> Line:
        """The heads of the columns."""
        return present.head_line(cells)

    def items(self) -> list[Item]:
        """The entries under the heads of their groups."""
        items: list[Item] = []
        test = parse(self.filter_text).compile()
        shown = [stuck for stuck in self.seen.jobs if test(stuck.job)]
        for why in Why:
            members = [stuck for stuck in shown if stuck.why is why]
            if members:
                items.append(Item("", 1 + int(self.is_tall and bool(items)), (why, members[0].role, len(members))))
                items += [Item(stuck.key, 1 + bool(stuck.reason), stuck) for stuck in members]
                if self.is_tall:
                    items.append(Item("", 1, (why, members)))
        gone, place = self.seen.gone, self.view.place
        if gone is not None and self.view.cursor == gone.key and all(item.key != gone.key for item in items):
            items.insert(min(len(items), place or 0), Item(gone.key, 1, gone, False))
        return items

    def lines_of(self, item: Item, cells: int, at_cursor: bool) -> Sequence[Line]:
        """The lines of an entry or a head."""
        if isinstance(item.row, Left):
            return (present.left_line(item.row, cells, self.now_ms),)
        if isinstance(item.row, Stuck):
            line = present.entry_line(item.row, cells, hide=self.hide, at_cursor=at_cursor)
            return (line, present.reason_line(item.row, cells)) if item.row.reason else (line,)
        if isinstance(item.row, tuple):
            if len(item.row) == 2:
                return (present.note_line(*item.row, cells),)
            why, role, count = item.row
            return [()] * (item.height - 1) + [present.group_line(why, role, count, cells)]
        return ()

    def total_words(self) -> str:
        """How much is shown."""
        shown, total = len(self.seen.jobs), self.seen.total
        words = counted(shown, "stuck job")
        words = words if shown >= total else f"{words} of {total:,}"
        return f"{words}, {unread_words(self.seen.unread)}" if self.seen.unread else words

    def to_export(self) -> Export:
        """What `w` writes: all that is stuck and matches, not only what is shown; as `qdeck stuck` tells it."""
        from qdeck_console import documents
        from qdeck_console.screens.export import Export

        where = self.filter_text

        async def fill(file: ExportFile) -> None:
            await self.console.reader.stuck(
                where=where, cancelled=lambda: file.is_dropped,
                each=lambda some: file.put([documents.stuck(job) for job in some]),
            )  # fmt: skip

        return Export(fill=fill, count=None if where else self.seen.total)

    def empty_lines(self) -> Sequence[Line]:
        """What is said when nothing is stuck."""
        if self.filter_text:
            words = "no stuck job matches" if self.seen.all_read else "none of those that were read matches"
            return (((f"    {words}; esc clears the filter", "muted"),), *self._unread_lines())
        return (
            (("    nothing is stuck", "strong bold"),),
            (("    no running job is past its lease or its time limit", "muted"),),
            *self._unread_lines(),
        )

    def _unread_lines(self) -> Sequence[Line]:
        return (((f"    {unread_words(self.seen.unread)}", "warn"),),) if self.seen.unread else ()

    def detail(self) -> JobDetail | None:
        """All about the job under the cursor."""
        row = self.view.row
        return row.job if isinstance(row, Stuck) else None

    def side(self, cells: int, height: int) -> Sequence[Line]:
        """The job under the cursor, with why it is stuck."""
        row = self.view.row
        if isinstance(row, Left):
            return ((("–  ", "ghost"), ("gone", "faint bold")), ((row.words(self.now_ms), "muted"),))
        if not isinstance(row, Stuck):
            return ()
        return present.side(row, self.seen, cells, now_ms=self.now_ms, hide=self.hide)

    def _all_label(self) -> str:
        total = self.seen.total
        return f"all {total:,}" if total and not self.filter_text else ""

    HANDLERS: ClassVar = {
        **JobListScreen.HANDLERS, "all": replace(JobListScreen.HANDLERS["all"], label=_all_label),
    }  # fmt: skip
