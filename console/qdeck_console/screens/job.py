"""One job on a page of its own: payload, relations, every try with its error, and its output."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, ClassVar

from textual.containers import Vertical

from qdeck import QdeckError, UnknownJob
from qdeck_console.actions import JOB, ActionHandler
from qdeck_console.insight import JobAround, JobInsight
from qdeck_console.presenters import job_page as present
from qdeck_console.presenters import job_past as past
from qdeck_console.presenters.job_detail import trouble
from qdeck_console.screens.back import CLOSE, back
from qdeck_console.screens.frame import WIDE, FrameScreen
from qdeck_console.screens.job_actions import JOB_HANDLERS, JobActing
from qdeck_console.screens.lists import ReadingScreen
from qdeck_console.widgets.items import indented
from qdeck_console.widgets.lines import Item, LineList, Lines, Listing
from qdeck_console.widgets.more import More

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.widget import Widget

    from qdeck.admin import AsyncReader, JobDetail, JobRecord, QueueRef, Snapshot
    from qdeck_console.format import Line
    from qdeck_console.presenters.trace import Keyed

WIDEST = 120
LEFT = 64


class JobScreen(JobActing, ReadingScreen[JobAround | UnknownJob]):
    """All about one job, live."""

    SCOPE = JOB

    def __init__(self, tab: str, queue: QueueRef, job_id: str) -> None:
        super().__init__()
        self._tab = tab
        self.queue, self.job_id = queue, job_id
        self._insight = JobInsight()
        self._seen: JobAround | None = None
        self._gone = False
        self._try: int | None = None  # the last one, until another is chosen
        self._folded: set[str] = set()
        self._unfolded = False

    @property
    def tab(self) -> str:
        """The screen it was opened from."""
        return self._tab

    @property
    def query_key(self) -> str:
        """What the feed reads for it."""
        return f"job/{self.queue}/{self.job_id}"

    def body(self) -> Sequence[Widget]:
        """What it is at the left, what happened to it at the right; on narrow terminals one below the other."""
        left, right = LineList(id="list"), LineList(id="past")
        return (
            Lines(id="job-head"),
            Vertical(left, More(left), id="main"),
            Vertical(right, More(right), id="job-side"),
        )

    async def read(self, reader: AsyncReader, _snapshot: Snapshot) -> JobAround | UnknownJob:
        """Read this job, and those around it."""
        try:
            return await self._insight.look(reader, self.queue, self.job_id)
        except UnknownJob as error:
            return error

    @property
    def _job(self) -> JobDetail | None:
        return self._seen.job if self._seen is not None else None

    def targets(self) -> tuple[JobRecord, ...]:
        """This job, as it was seen."""
        return () if self._job is None or self._gone else (self._job,)

    @property
    def is_wide(self) -> bool:
        """Whether there is room for two panes."""
        return self.size.width >= WIDE

    @property
    def chosen_try(self) -> int:
        """The try whose error is shown."""
        count = len(past.tries(self._job)) if self._job is not None else 0
        return count - 1 if self._try is None else min(self._try, count - 1)

    def draw(self, *, fresh: bool) -> None:
        """Draws the job; one that is gone says so and stays readable."""
        data = self.data
        notice: list[Line] = []
        if isinstance(data, JobAround):
            self._seen, self._gone = data, False
        elif data is not None:
            self._gone = True
            words = "what was read last is below" if self._job is not None else "nothing of it was read before"
            notice = [(("    ", "text"), (f"gone: its queue does not have it any more; {words}", "warn"))]
        self._draw_head(notice)
        left, right = self._panes()
        self._show("#list", left if self.is_wide else [*right, ("", ()), *left])
        self._show("#past", right if self.is_wide else [])

    def _draw_head(self, notice: list[Line]) -> None:
        job, now_ms = self._job, self.now_ms
        hide = self.hide

        def make(_cells: int, _height: int) -> Sequence[Line]:
            cells = self.size.width - 5
            if job is None:
                return notice or ((("    …", "ghost"),),)
            lines = present.header(job, cells, now_ms=now_ms, hide=hide)
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
            *present.relations(job, cells, hide=self.hide, now_ms=now_ms, related=seen.related, kin=seen.kin),
            *present.facts(job, cells),
        ]
        chosen = self.chosen_try if self.chosen_try >= 0 else None
        right = past.timeline(job, beside, chosen=chosen, now_ms=now_ms)
        if chosen is not None:
            right += past.error(job, chosen, beside, unfolded=self._unfolded)
        return left, [*right, *past.output(job, beside)]

    def _show(self, where: str, lines: list[Keyed]) -> None:
        items = [Item(key, 1, line) for key, line in lines]
        self.query_one(where, LineList).show(Listing(items, indented), self.painter)

    def _why_not_pane(self) -> str:
        return "" if self.is_wide else "there is one pane"

    def _why_no_tries(self) -> str:
        count = len(past.tries(self._job)) if self._job is not None else 0
        return "" if count > 1 else "it failed once" if count else "it did not fail"

    def _why_not_earlier(self) -> str:
        return self._why_no_tries() or ("that is the first try" if self.chosen_try == 0 else "")

    def _why_not_later(self) -> str:
        last = len(past.tries(self._job)) - 1 if self._job is not None else 0
        return self._why_no_tries() or ("that is the last try" if self.chosen_try == last else "")

    def to_other_pane(self) -> None:
        """Give the keys to the other pane."""
        left, right = self.query_one("#list", LineList), self.query_one("#past", LineList)
        (right if left.has_focus else left).focus()

    def turn(self, step: int) -> None:
        """Show the error of another try."""
        self._try = self.chosen_try + step
        self.draw(fresh=False)

    def on_line_list_opened(self, event: LineList.Opened) -> None:
        """Fold or unfold, or open a job that this one has to do with."""
        key = event.key
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
            self.console.say(f"no queue has {job_id} any more", "warn", "▲")

    def copied(self) -> tuple[str, str]:
        """What `y` takes: the value under the cursor when it is one of the payload, else the id."""
        view = self.query_one("#list", LineList)
        if self._job is not None and view.has_focus and view.cursor.startswith("p/") and view.cursor != "p/":
            value = present.value_at(self._job, view.cursor)
            if value is not None:
                return "value", value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
        return "id", self.job_id

    def lists(self) -> bool:
        """Whether there is something to write."""
        return self._job is not None

    def exported(self) -> list[object]:
        """What `w` writes: all about the job."""
        return [self._job] if self._job is not None else []

    HANDLERS: ClassVar = {
        **FrameScreen.HANDLERS,
        **JOB_HANDLERS,
        # Opening is for lines that have something below them: it is not in the footer.
        "open": ActionHandler(run=lambda screen: screen.draw(fresh=False), offered=lambda _screen: False),
        "next": ActionHandler(run=to_other_pane, reason=_why_not_pane, offered=lambda screen: screen.is_wide),
        "earlier": ActionHandler(run=lambda screen: screen.turn(-1), reason=_why_not_earlier),
        "later_try": ActionHandler(run=lambda screen: screen.turn(1), reason=_why_not_later),
        "back": back(CLOSE),
    }
