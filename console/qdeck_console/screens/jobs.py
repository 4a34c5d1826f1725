"""The jobs of one queue: a list for each state, of any length."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Final

from textual.containers import Vertical

from qdeck.admin import NATIVE, Feature, JobRecord, Snapshot, State, Verb, newest_first
from qdeck_console.actions import JOBS, QUEUES, ActionHandler
from qdeck_console.job_sources import JobSource, ListedJobs, source
from qdeck_console.operations import OperationRequest
from qdeck_console.presenters import jobs as present
from qdeck_console.presenters.job_detail import job_lines
from qdeck_console.presenters.line_parts import MARGIN, name_parts
from qdeck_console.screens.go_back import CANCEL, CLEAR_FILTER, CLEAR_MARKS, BackStep, back
from qdeck_console.screens.job_actions import JOB_HANDLERS
from qdeck_console.screens.job_list import JobListScreen
from qdeck_console.screens.queue_actions import PAUSE, QueueActing
from qdeck_console.screens.target_queue import ask_target
from qdeck_console.text import safe_text
from qdeck_console.widgets.lines import LineList, Lines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.widget import Widget

    from qdeck.admin import AsyncReader, JobDetail, QueueRef, QueueRow
    from qdeck_console.departed_jobs import GoneJob
    from qdeck_console.format import Line
    from qdeck_console.presenters.table import Table


TO_QUEUES: Final = BackStep(
    applies=lambda _screen: True, run=lambda screen: screen.console.action_tab(QUEUES), label="queues"
)


class JobsScreen(JobListScreen[ListedJobs], QueueActing):
    """One list per state of a queue."""

    TAB = SCOPE = JOBS

    def __init__(self) -> None:
        super().__init__()
        self.queue: QueueRef | None = None
        self.state = State.READY
        self.newest: dict[State, bool] = {}
        self._source: tuple[tuple[object, ...], JobSource] | None = None

    def body(self) -> Sequence[Widget]:
        """The queue and its states, the list with its heads and total, and one job beside it."""
        main = Vertical(Lines(id="heading"), Lines(id="head"), LineList(id="list"), Lines(id="total"), id="main")
        return (main, Lines(id="side"))

    def choose(self, queue: QueueRef, state: State | None = None) -> None:
        """Show another queue, by default the first of its lists that has jobs."""
        row = self._row_of(queue, self.console.latest.snapshot)
        filled = [s for s in present.STATES if row is not None and getattr(row, s.value)]
        self.queue, self.state = queue, state or (filled[0] if filled else State.READY)
        self._begin()

    @property
    def queue_row(self) -> QueueRow | None:
        """The queue, for what acts on it."""
        return self.row

    def _begin(self) -> None:
        if self.is_mounted:
            self.view.forget()
            self.console.now_on_screen(self)

    @property
    def row(self) -> QueueRow | None:
        """The queue at the last refresh."""
        return self._row_of(self.queue, self.feed_state.snapshot)

    @staticmethod
    def _row_of(queue: QueueRef | None, snapshot: Snapshot | None) -> QueueRow | None:
        return next((row for row in snapshot.queues if row.ref == queue), None) if snapshot else None

    @property
    def query_key(self) -> str:
        """The list that is shown."""
        return f"jobs/{self.queue}/{self.state}/{self.is_newest}/{self.filter_text}"

    @property
    def is_newest(self) -> bool:
        """Whether the newest come first."""
        return newest_first(self.state, self.newest.get(self.state))

    def source(self) -> JobSource | None:
        """The list of this queue and state."""
        if self.queue is None:
            return None
        reader = self.console.reader
        asked = (reader, self.queue, self.state, self.filter_text, self.is_newest)
        if self._source is None or self._source[0] != asked:
            made = source(reader, self.queue, self.state, self.filter_text, newest=self.is_newest)
            self._source = (asked, made)
        return self._source[1]

    async def read(self, _reader: AsyncReader, snapshot: Snapshot) -> ListedJobs:
        """Read the visible part of the list."""
        return await self.read_list() if self._row_of(self.queue, snapshot) is not None else ListedJobs()

    def on_screen_resume(self) -> None:
        """Begin with the fullest queue when none was chosen."""
        self._choose_any()

    def _choose_any(self) -> None:
        snapshot = self.console.latest.snapshot
        if self.queue is None and snapshot is not None and snapshot.queues:
            sizes = ("ready", "running", "delayed", "dead")
            fullest = max(snapshot.queues, key=lambda row: sum(getattr(row, state) or 0 for state in sizes))
            self.choose(fullest.ref)

    def draw(self, *, fresh: bool) -> None:
        """Draw the queue and its states, then the list."""
        if self.queue is None and self.feed_state.snapshot is not None and self.feed_state.snapshot.queues:
            self._choose_any()
            return
        self.query_one("#heading", Lines).show(self._title, self.painter)
        self.draw_list()
        self.read_lacking(fresh=fresh)

    def _title(self, cells: int, height: int) -> Sequence[Line]:
        if self.queue is None:
            return ()
        entry = self.feed_state.listed.of(self.queue)
        return (
            present.title_line(self.queue, entry, cells, naming=self.naming),
            present.states_line(self.state, entry, cells),
            (),
        )[:height]

    @property
    def table(self) -> Table[JobRecord, int]:
        """The columns of this state."""
        return present.table_of(self.state, self.part.rows)

    def total(self, rows: Sequence[JobRecord | GoneJob]) -> str:
        """Return which part of the list is visible."""
        if not rows:
            return ""
        row = self.row
        of = getattr(row, self.state.value) if row is not None else None
        words = present.range_words(self.part, *self.visible_rows(), of)
        adapter = NATIVE if row is None else row.adapter
        return f"{words}  ·  {present.order_words(self.state, adapter, newest=self.is_newest)}"

    def empty_lines(self) -> Sequence[Line]:
        """Return what is said when there is nothing to show."""
        margin = (" " * (MARGIN + 3), "text")
        part, row = self.part, self.row
        if self.queue is None:
            return (
                (margin, ("no queue yet", "strong bold")),
                (margin, ("a queue appears with its first job", "muted")),
            )
        if row is None:
            told = (margin, ("1 lists the queues of this server", "muted"))
            return ((margin, ("this queue no longer exists", "strong bold")), told)
        if row.problem is not None:
            return (
                (margin, ("this queue cannot be read", "bad bold")),
                (margin, (safe_text(row.problem.text, limit=300), "text")),
            )
        if self.filter_text:
            words = "no job matches; esc clears the filter"
            if not part.exact:
                words = f"no match in the first {part.scanned:,} jobs"
            return ((margin, (words, "muted")),)
        return (
            (margin, (f"no {self.state.value} jobs", "strong bold")),
            (margin, ("tab", "accent bold"), (" shows the next state with jobs", "muted")),
        )

    def about(self, job: JobDetail, cells: int) -> Sequence[Line]:
        """Return the details of the job under the cursor."""
        return job_lines(job, cells, now_ms=self.now_ms, naming=self.naming)

    def everything(self) -> tuple[OperationRequest, int | None] | None:
        """All jobs of this list that match."""
        if not self.view.all_marked or self.queue is None:
            return None
        part = self.part
        request = OperationRequest(
            verb=Verb.CANCEL, queues=(self.queue,), where=self.filter_text, states=(self.state.value,)
        )
        return request, part.total if part.exact else None

    def to_write(self) -> tuple[Sequence[JobRecord], OperationRequest | None]:
        """The jobs that are marked, or all of the list that match."""
        if self.view.marks:
            return self.targets(), None
        states = (self.state.value,)
        queues = () if self.queue is None else (self.queue,)
        return (), OperationRequest(verb=Verb.CANCEL, queues=queues, where=self.filter_text, states=states)

    def turn(self, step: int) -> None:
        """Show the next state with jobs; the very next when all are empty."""
        row, at = self.row, present.STATES.index(self.state)
        order = [present.STATES[(at + step * n) % len(present.STATES)] for n in range(1, len(present.STATES))]
        self.state = next((state for state in order if row is not None and getattr(row, state.value)), order[0])
        self._begin()

    def _why_not_order(self) -> str:
        if self.state is State.READY:
            return "ready jobs are listed in the order they run"
        return "" if self.row is None or self.row.has(Feature.ORDER) else f"jobs of {self.row.adapter} have one order"

    def change_order(self) -> None:
        """Show the newest first, or the oldest."""
        self.newest[self.state] = not self.is_newest
        self._begin()

    def move(self) -> None:
        """Move jobs to another queue, which is asked for."""
        self.console.operator.run(self._move(), "move")

    async def _move(self) -> None:
        jobs, everything = self.targets(), self.everything()
        if self.queue is None:
            return
        count = f"{len(jobs):,} jobs" if len(jobs) > 1 else "1 job"
        what = "all matching jobs" if everything is not None else count
        where = " ▸ ".join(name_parts(self.queue, naming=self.naming))
        target = await ask_target(self.console, f"Move {what} of {where}", self.queue)
        if target is None:
            return
        if everything is None:
            request = OperationRequest(verb=Verb.MOVE, jobs=jobs, target=target)
        else:
            request = OperationRequest(
                verb=Verb.MOVE, queues=everything[0].queues, where=everything[0].where, states=everything[0].states,
                target=target,
            )  # fmt: skip
        await self.console.operator.act(request, self.acted)

    def filter_changed(self) -> None:
        """Show what matches the filter."""
        self.view.forget()
        self.console.now_on_screen(self)

    HANDLERS: ClassVar = {
        **JobListScreen.HANDLERS,
        "pause": PAUSE,
        "move": replace(JOB_HANDLERS["move"], run=move),
        "next": ActionHandler(run=lambda screen: screen.turn(1)),
        "previous": ActionHandler(run=lambda screen: screen.turn(-1)),
        "order": ActionHandler(
            run=change_order,
            reason=_why_not_order,
            label=lambda screen: "oldest" if screen.is_newest else "newest",
        ),
        "back": back(CANCEL, CLEAR_MARKS, CLEAR_FILTER, TO_QUEUES),
    }
