"""One queue on a page of its own: what the side pane of a wide terminal shows, with room."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.containers import Vertical

from qdeck_console.actions import DETAIL, QUEUES, ActionHandler
from qdeck_console.presenters.queue_detail import detail
from qdeck_console.presenters.queues import QueueView, list_in_question
from qdeck_console.screens.lists import PageScreen, ReadingScreen
from qdeck_console.screens.queue_actions import QUEUE_HANDLERS, QueueActing
from qdeck_console.selected_queue import Insights, Looked, read_pasts
from qdeck_console.widgets.lines import LineList
from qdeck_console.widgets.list_items import page_of
from qdeck_console.widgets.overflow_line import More

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.widget import Widget

    from qdeck.admin import AsyncReader, QueueRef, QueueRow, Snapshot
    from qdeck_console.format import Line
    from qdeck_console.queue_findings import ListedQueue


class QueueScreen(QueueActing, PageScreen, ReadingScreen[Looked]):
    """The page of one queue, live."""

    TAB, SCOPE = QUEUES, DETAIL

    def __init__(self, queue: QueueRef) -> None:
        super().__init__()
        self.queue = queue
        self._entry: ListedQueue | None = None
        self._insights = Insights()

    def body(self) -> Sequence[Widget]:
        """The detail as a list of lines without a cursor: the movement keys scroll it."""
        page = LineList(id="list")
        return (Vertical(page, More(page), id="main"),)

    def visible_queues(self) -> list[QueueRef]:
        """This one: its dear numbers are wanted now, however many others there are."""
        return [self.queue]

    @property
    def query_key(self) -> str:
        """What the feed reads for it."""
        return f"queue/{self.queue}"

    async def read(self, reader: AsyncReader, snapshot: Snapshot) -> Looked:
        """Read what agents saw of this queue, and the queue close up."""
        lacking = self.feed_state.history.lacking([self.queue], 1)
        pasts = await read_pasts(reader, lacking)
        row = next((row for row in snapshot.queues if row.ref == self.queue), None)
        return Looked(pasts, None if row is None else await self._insights.look(reader, row))

    def draw(self, *, fresh: bool) -> None:
        """Draw the detail."""
        found = self.feed_state.listed.of(self.queue)
        gone = found is None and self.feed_state.snapshot is not None
        self._entry = found or (None if gone else self._entry)
        view = QueueView(
            feed_state=self.feed_state,
            naming=self.naming,
            reasons_shown=True,
            insight=self._insights.known(self.queue),
            limit=self.console.thresholds.ready_queue_max,
        )
        cells = max(20, min(self.WIDEST, self.size.width - 4))
        lines: list[Line] = []
        if self._entry is not None:
            lines = detail(self._entry, view, cells, chart=7 if self.size.height >= 36 else 3)
        elif gone:
            lines = [((f"{' '.join(self.queue.name.split(':'))} no longer exists", "muted"),)]
        self.query_one(LineList).show(page_of(lines), self.painter)

    @property
    def queue_row(self) -> QueueRow | None:
        """This queue."""
        return self._entry.row if self._entry is not None else None

    def copied(self) -> tuple[str, str]:
        """Return what `y` takes: the command that repairs it, else the name of the queue."""
        remedy = self._entry.remedy if self._entry is not None else None
        if remedy is not None:
            return "command", remedy.command
        row = self.queue_row
        return ("name", row.ref.label(self.naming.shared)) if row is not None else ("", "")

    def lists(self) -> bool:
        """Return whether there is something to write."""
        return self._entry is not None

    def exported(self) -> list[object]:
        """Return what `w` writes: its row."""
        return [self._entry.row] if self._entry is not None else []

    def open(self) -> None:
        """On to its jobs."""
        self.console.show_jobs(self.queue, list_in_question(self._entry))

    HANDLERS: ClassVar = {
        **PageScreen.HANDLERS, **QUEUE_HANDLERS, "open": ActionHandler(run=open, label=lambda _screen: "jobs"),
    }  # fmt: skip
