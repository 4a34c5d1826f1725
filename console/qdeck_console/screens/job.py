"""One job on a page of its own, with its traceback and its output."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.containers import Vertical

from qdeck import UnknownJob
from qdeck._deck.model import JobDetail, JobRecord, Snapshot
from qdeck_console.actions import JOB, Action, bindings
from qdeck_console.presenters.job_detail import job_lines
from qdeck_console.presenters.parts import common_owner
from qdeck_console.screens.jobacts import JobActs
from qdeck_console.text import safe_text
from qdeck_console.widgets.lines import Item, LineList, Listing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.binding import BindingType
    from textual.widget import Widget

    from qdeck_console.feed import Reader
    from qdeck_console.format import Line

WIDEST = 120


class JobScreen(JobActs):
    """All about one job, live."""

    SCOPE = JOB
    BINDINGS: ClassVar[list[BindingType]] = bindings(JOB)

    def __init__(self, tab: str, queue: str, job_id: str) -> None:
        super().__init__()
        self._tab = tab
        self.queue, self.job_id = queue, job_id
        self._job: JobDetail | None = None
        self._gone = False

    @property
    def tab(self) -> str:
        """The screen it was opened from."""
        return self._tab

    @property
    def reads(self) -> str:
        """What the feed reads for it."""
        return f"job/{self.queue}/{self.job_id}"

    def body(self) -> Sequence[Widget]:
        """The detail as a list of lines without a cursor: the movement keys scroll it."""
        return (Vertical(LineList(id="list"), id="main"),)

    def wants(self) -> Reader | None:
        """This job."""

        async def read(_snapshot: Snapshot) -> JobDetail | UnknownJob:
            try:
                return await self.console.deck.ajob(self.queue, self.job_id)
            except UnknownJob as error:
                return error

        return read

    def targets(self) -> tuple[JobRecord, ...]:
        """This job, as it was seen."""
        return () if self._job is None or self._gone else (self._job,)

    def draw(self, *, fresh: bool) -> None:
        """Draws the job; one that is gone says so and stays readable."""
        picture = self.picture
        mine = picture.extra_of == self.reads
        if mine and isinstance(picture.extra, JobDetail):
            self._job, self._gone = picture.extra, False
        cells = max(20, min(WIDEST, self.size.width - 8))
        hide = common_owner([row.name for row in picture.snapshot.queues]) if picture.snapshot else 0
        lines: list[Line] = []
        if mine and isinstance(picture.extra, UnknownJob):
            self._gone = True
            lines += [((safe_text(str(picture.extra), limit=300), "warn"),), ()]
        if self._job is not None:
            lines += job_lines(self._job, cells, hide=hide, full=True)
        elif not lines:
            lines = [(("…", "ghost"),)]
        self.query_one(LineList).show(Listing([Item("", 1, line) for line in lines], _draw), self.painter)

    def why_not(self, action: str) -> str:
        """Why an action cannot act now."""
        return "" if action == "back" else super().why_not(action)

    def is_offered(self, action: Action) -> bool:
        """Nothing can be opened here."""
        return action.id != "open"

    def do_back(self) -> None:
        """Back to the list."""
        self.console.back()


def _draw(item: Item, _cells: int, _at_cursor: bool) -> Sequence[Line]:
    line = item.row
    return ((("    ", "text"), *line),) if isinstance(line, tuple) else ()
