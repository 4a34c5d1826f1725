"""Who works, where, on what and for how long; enter opens a worker, and there a job."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from textual.containers import Vertical

from qdeck.admin import Feature, JobRecord, Snapshot, WorkerRow
from qdeck_console.actions import WORKERS, Action, bindings
from qdeck_console.format import counted
from qdeck_console.presenters import workers as present
from qdeck_console.presenters.nothing import Nothing
from qdeck_console.presenters.workers import Running, Speeds
from qdeck_console.screens.tables import TableScreen
from qdeck_console.widgets.lines import Item, LineList, Lines, Listing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.binding import BindingType
    from textual.widget import Widget

    from qdeck_console.feed import Reader
    from qdeck_console.format import Line

MOST_QUEUES = 20  # of a worker, whose running jobs are looked through
MOST_JOBS = 200  # of each of them
WIDEST = 100
NOTHING = Running()


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkersSeen:
    """What was read: all workers, and what the one in sight runs."""

    rows: tuple[WorkerRow, ...] = ()
    of: str = ""
    running: Running = NOTHING


class WorkersBase(TableScreen):
    """Reads the workers, and what one of them runs."""

    def __init__(self) -> None:
        super().__init__()
        self.speeds = Speeds()

    @property
    def seen(self) -> WorkersSeen:
        """What was read."""
        extra = self.was_read
        return extra if isinstance(extra, WorkersSeen) else WorkersSeen()

    def in_sight(self) -> str:
        """The worker that is looked at."""
        raise NotImplementedError

    @property
    def chosen(self) -> WorkerRow | None:
        """The worker that the keys act on."""
        return next((row for row in self.seen.rows if row.id == self.in_sight()), None)

    @property
    def running(self) -> Running | None:
        """What it runs, once it is read."""
        return self.seen.running if self.seen.of == self.in_sight() and self.in_sight() else None

    def wants(self) -> Reader | None:
        """All workers, and the running jobs of the one in sight."""

        async def read(snapshot: Snapshot) -> WorkersSeen:
            rows = tuple(await self.console.reader.workers())
            self.speeds.note(rows)
            wanted = self.in_sight()
            row = next((row for row in rows if row.id == wanted), rows[0] if rows and not wanted else None)
            if row is None:
                return WorkersSeen(rows=rows)
            return WorkersSeen(rows=rows, of=row.id, running=await self._read_running(row, snapshot))

        return read

    async def _read_running(self, row: WorkerRow, snapshot: Snapshot) -> Running:
        busy = {row.name: row.ref for row in snapshot.queues if row.running and row.has(Feature.LEASES)}
        queues = [busy[queue] for queue in row.queues if queue in busy]
        found: list[JobRecord] = []
        partial = len(queues) > MOST_QUEUES
        for queue in queues[:MOST_QUEUES]:
            page = await self.console.reader.page(queue, state="running", most=MOST_JOBS, bodies=False)
            found += [job for job in page.jobs if job.worker == row.id]
            partial = partial or page.scanned >= MOST_JOBS
        found.sort(key=lambda job: job.since_ms or 0)
        return Running(jobs=tuple(found), partial=partial)

    def why_not(self, action: str) -> str:
        """Why an action cannot act now."""
        if action not in {"quiet", "stop"}:
            return super().why_not(action)
        row, why = self.chosen, self.console.operator.why_not_write()
        if why or row is None:
            return why or "no worker under the cursor"
        return "" if row.alive else "it is gone"

    def do_quiet(self) -> None:
        """Asks the worker to take nothing new."""
        self._order("quiet", "was asked to take nothing new")

    def do_stop(self) -> None:
        """Asks the worker to end."""
        self._order("stop", "was asked to finish and end")

    def _order(self, what: str, told: str) -> None:
        worker = self.in_sight()

        async def act() -> None:
            await self.console.writer.order_worker(worker, what)
            self.console.say(f"{worker} {told}", "ok", "✓")

        self.console.operator.run(act(), what)

    def copied(self) -> tuple[str, str]:
        """What `y` takes: the worker's id."""
        return ("worker", self.in_sight()) if self.in_sight() else ("", "")

    def lists(self) -> bool:
        """Whether there is something to write."""
        return bool(self.seen.rows)

    def exported(self) -> list[object]:
        """What `w` writes: all workers."""
        return list(self.seen.rows)


class WorkersScreen(WorkersBase):
    """All workers, by host."""

    TAB = WORKERS
    SCOPE = WORKERS
    BINDINGS: ClassVar[list[BindingType]] = bindings(WORKERS)

    def in_sight(self) -> str:
        """That under the cursor."""
        return self.view.cursor

    def head(self, cells: int) -> Line:
        """The heads of the columns."""
        return present.TABLE.head(cells)

    def items(self) -> list[Item]:
        """The workers whose id, host or queues have the text of the filter, below their hosts."""
        wanted = self.filter_text.casefold().strip()
        rows = [
            row for row in self.seen.rows if wanted in " ".join([row.id, row.host or "", *row.queues]).casefold()
        ]  # fmt: skip
        hosts: dict[str, list[WorkerRow]] = {}
        for row in rows:
            hosts.setdefault(row.host or "", []).append(row)
        items: list[Item] = []
        for host, group in sorted(hosts.items(), key=lambda pair: (any(r.alive for r in pair[1]), pair[0])):
            if items and self.is_tall:
                items.append(Item("", 1, ()))
            items.append(Item("", 1, (host, group)))
            items += [Item(row.id, 1, row) for row in group]
        return items

    def lines_of(self, item: Item, cells: int, at_cursor: bool) -> Sequence[Line]:
        """One worker, or the head of a host."""
        row = item.row
        if isinstance(row, WorkerRow):
            return (present.TABLE.line(row, cells, self.speeds, at_cursor=at_cursor),)
        return (present.host_line(row[0], row[1], cells),) if isinstance(row, tuple) and row else ((),)

    def nothing(self) -> Nothing:
        """What is said when no worker was ever heard of."""
        about = (
            "Workers of qdeck note in qdeck:workers what they run, and none did. "
            "Those of other systems tell nothing of themselves. Jobs wait until a worker comes."
        )
        ways = (
            ("qdeck worker MODULE:APP", "runs the tasks of an application"),
            ("3", "what waits for a worker, and for how long"),
            ("qdeck demo", "a server of its own, with workers and work"),
        )
        return Nothing("No worker has told of itself", about, ways)

    def words(self, shown: int) -> str:
        """How many there are."""
        rows = self.seen.rows
        if not shown:
            return "no worker matches; esc clears the filter" if self.filter_text else "no worker"
        alive = sum(1 for row in rows if row.alive)
        gone = f", {len(rows) - alive:,} gone" if alive < len(rows) else ""
        running = sum(row.running or 0 for row in rows if row.alive)
        return f"{counted(alive, 'worker')}{gone}, {counted(running, 'job runs', 'jobs run')}"

    def draw(self, *, fresh: bool) -> None:
        """Draws the list and the worker under the cursor."""
        super().draw(fresh=fresh)
        self._draw_side()

    def _draw_side(self) -> None:
        self.query_one("#side", Lines).show(self._side, self.painter)

    def _side(self, cells: int, height: int) -> Sequence[Line]:
        row, running = self.chosen, self.running
        if row is None:
            return ()
        lines = present.facts(row, cells, now_ms=self.now_ms, speed=self.speeds.of(row), hide=self.hide)
        lines += [(), present.running_head(row, running, cells)]
        if running is None:
            return [*lines, (("…", "ghost"),)]
        room = max(1, height - len(lines) - 1)
        lines += [present.running_line(job, cells, now_ms=self.now_ms, hide=self.hide) for job in running.jobs[:room]]
        if len(running.jobs) > room:
            lines.append(((f"{len(running.jobs) - room:,} more, enter shows them", "faint"),))
        return lines

    def on_line_list_moved(self) -> None:
        """Side pane and footer follow the cursor; what the worker runs is read at once."""
        self._draw_side()
        self.draw_frame()
        if self.running is None and self.seen.rows:
            self.console.feed.poke()

    def is_offered(self, action: Action) -> bool:
        """Enter opens a worker."""
        return super().is_offered(action) or action.id == "open"

    def why_not(self, action: str) -> str:
        """Why an action cannot act now."""
        if action == "open":
            return "" if self.chosen is not None else "no worker under the cursor"
        return super().why_not(action)

    def on_line_list_opened(self, event: LineList.Opened) -> None:
        """Opens the worker under the cursor."""
        self.console.open(WorkerScreen(event.key))


class WorkerScreen(WorkersBase):
    """One worker on a page of its own, with the jobs that it runs."""

    TAB = WORKERS
    SCOPE = WORKERS
    BINDINGS: ClassVar[list[BindingType]] = bindings(WORKERS)

    def __init__(self, worker: str) -> None:
        super().__init__()
        self.worker = worker
        self._last: WorkerRow | None = None

    def body(self) -> Sequence[Widget]:
        """What it tells of itself, and the jobs as a list."""
        return (Vertical(LineList(id="list"), id="main"),)

    @property
    def reads(self) -> str:
        """What the feed reads for it."""
        return f"worker/{self.worker}"

    def in_sight(self) -> str:
        """Itself."""
        return self.worker

    def draw(self, *, fresh: bool) -> None:
        """Draws the worker and its jobs."""
        self._last = self.chosen or self._last
        cells = max(20, min(WIDEST, self.size.width - 8))
        items: list[Item] = []
        if self._last is not None:
            speed = self.speeds.of(self._last)
            lines = present.facts(self._last, cells, now_ms=self.now_ms, speed=speed, hide=self.hide)
            lines += [(), present.running_head(self._last, self.running, cells)]
            items = [Item("", 1, line) for line in lines]
        elif self.picture.extra_of == self.reads:
            items = [Item("", 1, (("it is gone: nothing is known about it", "muted"),))]
        jobs = self.running.jobs if self.running is not None else ()
        items += [Item(job.key, 1, job) for job in jobs]
        self.view.show(Listing(items, self._draw_item), self.painter)

    def _draw_item(self, item: Item, cells: int, _at_cursor: bool) -> Sequence[Line]:
        row = item.row
        room = max(20, min(WIDEST, cells - 8))
        if isinstance(row, JobRecord):
            return (((" " * 4, "text"), *present.running_line(row, room, now_ms=self.now_ms, hide=self.hide)),)
        return (((" " * 4, "text"), *row),) if isinstance(row, tuple) else ()

    def why_not(self, action: str) -> str:
        """Why an action cannot act now."""
        if action == "back":
            return ""
        if action == "open":
            return "" if isinstance(self.view.row, JobRecord) else "it runs no job"
        if action == "filter":
            return "there is nothing to filter"
        return super().why_not(action)

    def is_offered(self, action: Action) -> bool:
        """Enter opens a job."""
        return action.id != "filter"

    def on_line_list_moved(self) -> None:
        """The footer follows the cursor."""
        self.draw_frame()

    def on_line_list_opened(self, _event: LineList.Opened) -> None:
        """Opens the job under the cursor."""
        row = self.view.row
        if isinstance(row, JobRecord):
            self.console.open_job(row.ref, row.id)

    def do_back(self) -> None:
        """Back to the list."""
        self.console.back()
