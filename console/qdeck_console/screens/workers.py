"""The screen Workers: workers with their running jobs; enter opens a worker, and there a job."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final

from qdeck.admin import Feature, JobRecord, QueueRef, Snapshot, WorkerRow, served_only_by
from qdeck_console.actions import WORKERS, ActionHandler
from qdeck_console.format import counted
from qdeck_console.presenters import workers as present
from qdeck_console.presenters.empty_state import EmptyState
from qdeck_console.presenters.queue_questions import order_lines
from qdeck_console.presenters.workers import Running, Speeds
from qdeck_console.screens.dialog import inside
from qdeck_console.screens.lists import ListScreen, ListSpec, PageScreen, ReadingScreen, RowGroup
from qdeck_console.screens.pausing import may_lift
from qdeck_console.widgets.lines import Item, Listing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qdeck.admin import AsyncReader
    from qdeck_console.format import Line

MOST_QUEUES: Final = 20  # of a worker, whose running jobs are looked through
MOST_JOBS: Final = 200  # of each of them
EMPTY: Final = EmptyState(
    "No workers",
    "Workers register in qdeck:workers, and none is there. Jobs wait until a worker claims them.",
    (
        ("qdeck worker MODULE:APP", "runs the tasks of an application"),
        ("3", "stuck jobs, and for how long"),
        ("qdeck demo", "a demo server with workers and jobs"),
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Workers:
    """What was read: all workers, and what one of them runs."""

    rows: tuple[WorkerRow, ...] = ()
    of: str = ""
    running: Running | None = None


class ReadingWorkers(ReadingScreen[Workers]):
    """A screen that reads the workers, and what one of them runs."""

    SCOPE = TAB = WORKERS

    def __init__(self) -> None:
        super().__init__()
        self.speeds = Speeds()

    @property
    def in_sight(self) -> str:
        """The id of the worker under the cursor; empty for the first one."""
        raise NotImplementedError

    @property
    def worker(self) -> WorkerRow | None:
        """The worker under the cursor."""
        data = self.data or Workers()
        return next((row for row in data.rows if row.id == self.in_sight), None)

    @property
    def running(self) -> Running | None:
        """What it runs, once it is read."""
        data = self.data or Workers()
        return data.running if data.of and data.of == self.in_sight else None

    async def read(self, reader: AsyncReader, snapshot: Snapshot) -> Workers:
        """Read all workers, and the running jobs of the visible one."""
        rows, wanted = tuple(await reader.workers()), self.in_sight
        self.speeds.note(rows)
        row = next((row for row in rows if row.id == wanted), rows[0] if rows and not wanted else None)
        if row is None:
            return Workers(rows=rows)
        return Workers(rows=rows, of=row.id, running=await _running(reader, row, snapshot))

    def copied(self) -> tuple[str, str]:
        """Return what `y` takes: the worker's id."""
        return ("worker", self.in_sight) if self.in_sight else ("", "")


async def _running(reader: AsyncReader, row: WorkerRow, snapshot: Snapshot) -> Running:
    busy = {queue.ref for queue in snapshot.queues if queue.running}
    queues = [ref for ref in (QueueRef(row.adapter, name) for name in row.queues) if ref in busy]
    found: list[JobRecord] = []
    partial = len(queues) > MOST_QUEUES
    for queue in queues[:MOST_QUEUES]:
        page = await reader.page(queue, state="running", most=MOST_JOBS, bodies=False)
        found += [job for job in page.jobs if job.worker == row.id]
        partial = partial or page.scanned >= MOST_JOBS
    found.sort(key=lambda job: job.since_ms or 0)
    return Running(jobs=tuple(found), partial=partial)


def _why_not_open(screen: ReadingWorkers) -> str:
    return "" if screen.worker is not None else "no worker under the cursor"


def _why_not_order(screen: ReadingWorkers) -> str:
    row, why = screen.worker, screen.console.operator.why_not_write()
    if why or row is None:
        return why or "no worker under the cursor"
    if not row.has(Feature.WORKER_REQUESTS):
        return f"workers of {row.adapter} take no requests"
    return "" if row.alive else "the worker is not alive"


def _is_quiet(screen: ReadingWorkers) -> bool:
    row = screen.worker
    return row is not None and row.requested != "stop" and "quiet" in (row.requested, row.state)


def _order(what: str, screen: ReadingWorkers) -> None:
    """Ask the worker to be quiet or to stop, or to resume, after the question."""
    console, row = screen.console, screen.worker
    if row is None:
        return
    what = "resume" if what == "quiet" and _is_quiet(screen) else what

    async def act() -> None:
        stands = await console.reader.quiet_request(row.id) if what == "resume" else None
        if stands is not None:
            is_confirmed = await may_lift(console, f"Resume {row.id}", stands, label="quiet")
        else:
            is_confirmed = await _is_confirmed(screen, row, what)
        if is_confirmed:
            await console.writer.order_worker(row.id, what, shown=stands)
            console.say(f"{what} requested of {row.id}", "ok", "✓")

    console.operator.run(act(), what)


async def _is_confirmed(screen: ReadingWorkers, row: WorkerRow, what: str) -> bool:
    console = screen.console
    snapshot = console.latest.snapshot
    ready = {queue.ref: queue.ready or 0 for queue in snapshot.queues} if snapshot is not None else {}
    alone = sorted(served_only_by(row.id, await console.reader.workers()), key=lambda queue: -ready.get(queue, 0))
    lines = order_lines(
        row,
        {queue: ready.get(queue, 0) for queue in alone},
        inside(console.size.width),
        naming=screen.naming,
        stops=what == "stop",
    )
    return await console.operator.confirm(f"{what.capitalize()} {row.id}", what.capitalize(), lines)


ORDERS: Final = {
    "quiet": ActionHandler(
        run=partial(_order, "quiet"),
        reason=_why_not_order,
        label=lambda screen: "resume" if _is_quiet(screen) else "",
    ),
    "stop": ActionHandler(run=partial(_order, "stop"), reason=_why_not_order),
}


class WorkersScreen(ReadingWorkers, ListScreen[WorkerRow, Workers]):
    """All workers, by host."""

    LIST: ClassVar[ListSpec[WorkerRow, Workers]] = ListSpec(
        noun="worker",
        table=present.TABLE,
        rows=lambda data: data.rows,
        key=lambda row: row.id,
        search=lambda row: " ".join([row.id, row.host or "", *row.queues]),
        empty=lambda _data: EMPTY,
    )

    @property
    def in_sight(self) -> str:
        """That under the cursor."""
        return self.view.cursor

    def row_view(self) -> Speeds:
        """Return what all rows are drawn with."""
        return self.speeds

    def groups(self, rows: Sequence[WorkerRow]) -> list[RowGroup[WorkerRow]]:
        """Return the workers by host, hosts where none is alive first."""
        hosts: dict[str, list[WorkerRow]] = {}
        for row in rows:
            hosts.setdefault(row.host or "", []).append(row)
        ordered = sorted(hosts.items(), key=lambda pair: (any(row.alive for row in pair[1]), pair[0]))
        return [RowGroup(group, partial(present.host_line, host, group)) for host, group in ordered]

    def total(self, rows: Sequence[WorkerRow]) -> str:
        """Return how many workers there are, of all."""
        if not rows:
            return self.count_of(rows)
        alive = [row for row in self.rows if row.alive]
        ended = "".join(f", {words}" for words in present.ended_words(self.rows))
        running = sum(row.running or 0 for row in alive)
        return f"{counted(len(alive), 'worker')}{ended}, {counted(running, 'job')} running"

    def side(self, row: WorkerRow, cells: int, height: int) -> Sequence[Line]:
        """Return a worker with the jobs that it runs."""
        running = self.running
        lines = present.facts(row, cells, now_ms=self.now_ms, speed=self.speeds.of(row), naming=self.naming)
        lines += [(), present.running_head(row, running, cells)]
        if running is None:
            return [*lines, (("…", "ghost"),)]
        room = max(1, height - len(lines) - 1)
        lines += [
            present.running_line(job, cells, now_ms=self.now_ms, naming=self.naming) for job in running.jobs[:room]
        ]
        if len(running.jobs) > room:
            lines.append(((f"{len(running.jobs) - room:,} more, enter shows them", "faint"),))
        return lines

    def lacks(self) -> bool:
        """Return whether it is not read yet what the worker under the cursor runs."""
        return self.running is None and bool(self.rows)

    def open(self) -> None:
        """Open the worker under the cursor."""
        self.console.open(WorkerScreen(self.in_sight))

    HANDLERS: ClassVar = {**ListScreen.HANDLERS, **ORDERS, "open": ActionHandler(run=open, reason=_why_not_open)}


class WorkerScreen(ReadingWorkers, PageScreen):
    """One worker on a page of its own, with the jobs that it runs."""

    WIDEST = 100

    def __init__(self, worker: str) -> None:
        super().__init__()
        self.worker_id = worker
        self._last: WorkerRow | None = None

    @property
    def query_key(self) -> str:
        """What the feed reads for it."""
        return f"worker/{self.worker_id}"

    @property
    def in_sight(self) -> str:
        """Itself."""
        return self.worker_id

    def draw(self, *, fresh: bool) -> None:
        """Draw the worker and its jobs."""
        self._last = self.worker or self._last
        cells = max(20, min(self.WIDEST, self.size.width - 8))
        items: list[Item] = []
        if self._last is not None:
            speed = self.speeds.of(self._last)
            lines = present.facts(self._last, cells, now_ms=self.now_ms, speed=speed, naming=self.naming)
            lines += [(), present.running_head(self._last, self.running, cells)]
            items = [Item("", 1, line) for line in lines]
        elif self.data is not None:
            items = [Item("", 1, (("the worker is not alive", "muted"),))]
        jobs = self.running.jobs if self.running is not None else ()
        items += [Item(job.key, 1, job) for job in jobs]
        self.view.show(Listing(items, self._item_lines), self.painter)

    def _item_lines(self, item: Item, cells: int, _at_cursor: bool) -> Sequence[Line]:
        row = item.row
        room = max(20, min(self.WIDEST, cells - 8))
        if isinstance(row, JobRecord):
            return (((" " * 4, "text"), *present.running_line(row, room, now_ms=self.now_ms, naming=self.naming)),)
        return (((" " * 4, "text"), *row),) if isinstance(row, tuple) else ()

    def lists(self) -> bool:
        """Return whether there is something to write: all workers."""
        return bool(self.data and self.data.rows)

    def exported(self) -> list[object]:
        """Return what `w` writes: all workers."""
        return list(self.data.rows) if self.data is not None else []

    def _why_not_open(self) -> str:
        return "" if isinstance(self.view.row, JobRecord) else "the worker runs no job"

    def open(self) -> None:
        """Open the job under the cursor."""
        row = self.view.row
        if isinstance(row, JobRecord):
            self.console.open_job(row.ref, row.id)

    HANDLERS: ClassVar = {
        **PageScreen.HANDLERS, **ORDERS, "open": ActionHandler(run=open, reason=_why_not_open),
    }  # fmt: skip
