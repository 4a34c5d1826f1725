"""One job on a page of its own: payload, relations, every attempt with its error, and its output."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, ClassVar

from textual.containers import Vertical

from qdeck import QdeckError, UnknownJob
from qdeck_console.actions import JOB, ActionHandler
from qdeck_console.presenters import job_page as present
from qdeck_console.presenters import job_past as past
from qdeck_console.presenters.job_detail import trouble
from qdeck_console.screens.frame import WIDE
from qdeck_console.screens.job_actions import JOB_HANDLERS, JobActing
from qdeck_console.screens.lists import PageScreen, ReadingScreen
from qdeck_console.selected_queue import JobAround, JobInsight
from qdeck_console.widgets.lines import Item, LineList, Lines, Listing
from qdeck_console.widgets.list_items import indented
from qdeck_console.widgets.overflow_line import More

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.widget import Widget

    from qdeck.admin import AsyncReader, JobDetail, JobRecord, QueueRef, Snapshot
    from qdeck_console.format import Line
    from qdeck_console.presenters.trace import Keyed

WIDEST = 120
LEFT = 64


class JobScreen(JobActing, PageScreen, ReadingScreen[JobAround | UnknownJob]):
    """The page of a job, refreshed each second."""

    SCOPE = JOB

    def __init__(self, tab: str, queue: QueueRef, job_id: str) -> None:
        super().__init__()
        self._tab = tab
        self.queue, self.job_id = queue, job_id
        self._insight = JobInsight()
        self._seen: JobAround | None = None
        self._gone = False
        self._chosen: int | None = None  # the last failed attempt, until another is chosen
        self._folded: set[str] = set()
        self._unfolded = False

    @property
    def tab(self) -> str:
        """The screen from which it was opened."""
        return self._tab

    @property
    def query_key(self) -> str:
        """The key of its query."""
        return f"job/{self.queue}/{self.job_id}"

    @property
    def queue_in_sight(self) -> QueueRef:
        """Its queue."""
        return self.queue

    def body(self) -> Sequence[Widget]:
        """Return the payload at the left, the history at the right; on narrow terminals one below the other."""
        left, right = LineList(id="list"), LineList(id="past")
        return (
            Lines(id="job-head"),
            Vertical(left, More(left), id="main"),
            Vertical(right, More(right), id="job-side"),
        )

    async def read(self, reader: AsyncReader, _snapshot: Snapshot) -> JobAround | UnknownJob:
        """Read this job, its dependencies and its dependents."""
        try:
            return await self._insight.look(reader, self.queue, self.job_id)
        except UnknownJob as error:
            return error

    @property
    def _job(self) -> JobDetail | None:
        return self._seen.job if self._seen is not None else None

    def targets(self) -> tuple[JobRecord, ...]:
        """Return this job, as it was read."""
        return () if self._job is None or self._gone else (self._job,)

    @property
    def is_wide(self) -> bool:
        """Whether there is room for two panes."""
        return self.size.width >= WIDE

    @property
    def chosen_attempt(self) -> int:
        """The failed attempt whose error is shown."""
        count = len(past.failed(self._job)) if self._job is not None else 0
        return count - 1 if self._chosen is None else min(self._chosen, count - 1)

    def draw(self, *, fresh: bool) -> None:
        """Draw the job; one that is gone stays readable, with a notice."""
        data = self.data
        notice: list[Line] = []
        if isinstance(data, JobAround):
            self._seen, self._gone = data, False
        elif data is not None:
            self._gone = True
            words = "; its last known state is below" if self._job is not None else ""
            notice = [(("    ", "text"), (f"the job is no longer stored{words}", "warn"))]
        self._draw_head(notice)
        left, right = self._panes()
        self._show("#list", left if self.is_wide else [*right, ("", ()), *left])
        self._show("#past", right if self.is_wide else [])

    def _draw_head(self, notice: list[Line]) -> None:
        job, now_ms = self._job, self.now_ms
        naming = self.naming

        def make(_cells: int, _height: int) -> Sequence[Line]:
            cells = self.size.width - 5
            if job is None:
                return notice or ((("    …", "ghost"),),)
            lines = present.header(job, cells, now_ms=now_ms, naming=naming)
            return [*((("    ", "text"), *line) for line in lines), *notice, ()]

        head = self.query_one("#job-head", Lines)
        wrong = job is not None and bool(trouble(job))
        head.styles.height = (3 + wrong if job is not None else 1) + (len(notice) if job is not None else 0)
        head.show(make, self.painter)

    def _panes(self) -> tuple[list[Keyed], list[Keyed]]:
        seen = self._seen
        if seen is None:
            return [], []
        job, width = seen.job, self.size.width
        cells = LEFT - 8 if self.is_wide else max(20, min(WIDEST, width - 8))
        beside = max(20, min(WIDEST, width - LEFT - 6)) if self.is_wide else cells
        now_ms = self.now_ms
        left = [
            *present.tree(job, cells, self._folded),
            *present.relations(job, cells, naming=self.naming, now_ms=now_ms, related=seen.related, kin=seen.kin),
            *present.facts(job, cells),
        ]
        chosen = self.chosen_attempt if self.chosen_attempt >= 0 else None
        right = past.timeline(job, beside, chosen=chosen, now_ms=now_ms)
        if chosen is not None or job.failure is not None:
            right += past.error(job, chosen, beside, unfolded=self._unfolded)
        return left, [*right, *past.output(job, beside)]

    def _show(self, where: str, lines: list[Keyed]) -> None:
        items = [Item(key, 1, line) for key, line in lines]
        self.query_one(where, LineList).show(Listing(items, indented), self.painter)

    def _why_not_pane(self) -> str:
        return "" if self.is_wide else "both parts are in one pane"

    def _why_no_others(self) -> str:
        count = len(past.failed(self._job)) if self._job is not None else 0
        return "" if count > 1 else "only one attempt failed" if count else "no attempt failed"

    def _why_not_earlier(self) -> str:
        return self._why_no_others() or ("this is the first attempt" if self.chosen_attempt == 0 else "")

    def _why_not_later(self) -> str:
        last = len(past.failed(self._job)) - 1 if self._job is not None else 0
        return self._why_no_others() or ("this is the last attempt" if self.chosen_attempt == last else "")

    def to_other_pane(self) -> None:
        """Give the keys to the other pane."""
        left, right = self.query_one("#list", LineList), self.query_one("#past", LineList)
        (right if left.has_focus else left).focus()

    def turn(self, step: int) -> None:
        """Show the error of another failed attempt."""
        self._chosen = self.chosen_attempt + step
        self.draw(fresh=False)

    def open(self) -> None:
        """Fold or unfold, or open a job that this one depends on or that depends on it."""
        key = self.focused.cursor if isinstance(self.focused, LineList) else ""
        if key.startswith("p/"):
            self._folded ^= {key}
        elif key == "traceback":
            self._unfolded = not self._unfolded
        elif key.startswith("job/"):
            self.console.run_worker(self._open(key.removeprefix("job/")), group="find", exit_on_error=False)
            return
        self.draw(fresh=False)

    async def _open(self, job_id: str) -> None:
        try:
            found = await self.console.reader.find(job_id)
        except (QdeckError, OSError) as error:
            self.console.say(str(error), "bad", "✗")
            return
        if found:
            self.console.open_job(found[0].ref, found[0].id)
        else:
            self.console.say(f"no queue has job {job_id}", "warn", "▲")

    def copied(self) -> tuple[str, str]:
        """Return what `y` copies: the value under the cursor when it is one of the payload, else the id."""
        view = self.query_one("#list", LineList)
        if self._job is not None and view.has_focus and view.cursor.startswith("p/") and view.cursor != "p/":
            value = present.value_at(self._job, view.cursor)
            if value is not None:
                return "value", value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
        return "id", self.job_id

    def lists(self) -> bool:
        """Return whether there is something to export."""
        return self._job is not None

    def exported(self) -> list[object]:
        """Return what `w` exports: the details of the job."""
        return [self._job] if self._job is not None else []

    HANDLERS: ClassVar = {
        **PageScreen.HANDLERS,
        **JOB_HANDLERS,
        # Opening is for lines that have something below them: it is not in the footer.
        "open": ActionHandler(run=open, offered=lambda _screen: False),
        "next": ActionHandler(run=to_other_pane, reason=_why_not_pane, offered=lambda screen: screen.is_wide),
        "earlier": ActionHandler(run=lambda screen: screen.turn(-1), reason=_why_not_earlier),
        "later_try": ActionHandler(run=lambda screen: screen.turn(1), reason=_why_not_later),
    }
