"""One queue on a page of its own: what the side pane of a wide terminal shows, with room."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, ClassVar

from textual.containers import Vertical

from qdeck_console.actions import DETAIL, QUEUES, Action, bindings
from qdeck_console.insight import Insights, Looked, read_pasts
from qdeck_console.presenters.queue_detail import detail
from qdeck_console.presenters.queues import Drawer, list_in_question
from qdeck_console.screens.queueacts import QueueActs
from qdeck_console.widgets.items import page_of
from qdeck_console.widgets.lines import LineList
from qdeck_console.widgets.more import More

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.binding import BindingType
    from textual.widget import Widget

    from qdeck.admin import QueueRef, Snapshot
    from qdeck_console.feed import Reader
    from qdeck_console.format import Line
    from qdeck_console.judging import Entry

WIDEST = 84


class QueueScreen(QueueActs):
    """All about one queue, live."""

    TAB = QUEUES
    SCOPE = DETAIL
    BINDINGS: ClassVar[list[BindingType]] = bindings(DETAIL)

    def __init__(self, queue: QueueRef) -> None:
        super().__init__()
        self.queue = queue
        self._entry: Entry | None = None
        self._insights = Insights()

    def body(self) -> Sequence[Widget]:
        """The detail as a list of lines without a cursor: the movement keys scroll it."""
        page = LineList(id="list")
        return (Vertical(page, More(page), id="main"),)

    def visible_queues(self) -> list[QueueRef]:
        """This one: its dear numbers are wanted now, however many others there are."""
        return [self.queue]

    @property
    def reads(self) -> str:
        """What the feed reads for it."""
        return f"queue/{self.queue}"

    def wants(self) -> Reader:
        """What agents saw of this queue, and the queue close up."""

        async def read(snapshot: Snapshot) -> Looked:
            reader = self.console.reader
            lacking = self.picture.history.lacking([self.queue], 1)
            pasts = await read_pasts(reader, lacking)
            row = next((row for row in snapshot.queues if row.ref == self.queue), None)
            return Looked(pasts, None if row is None else await self._insights.look(reader, row))

        return read

    def deck_changed(self) -> None:
        """Another deck, which may see more or less, is read anew."""
        self._insights = Insights()

    def draw(self, *, fresh: bool) -> None:
        """Draws the detail."""
        found = self.picture.judged.of(self.queue)
        gone = found is None and self.picture.snapshot is not None
        self._entry = found or (None if gone else self._entry)
        drawer = Drawer(
            picture=self.picture,
            hide=self.hide,
            reasons_shown=True,
            insight=self._insights.known(self.queue),
            limit=self.console.thresholds.ready_queue_max,
        )
        cells = max(20, min(WIDEST, self.size.width - 4))
        lines: list[Line] = []
        if self._entry is not None:
            lines = detail(self._entry, drawer, cells, chart=7 if self.size.height >= 36 else 3)
        elif gone:
            lines = [((f"{' '.join(self.queue.name.split(':'))} is gone: no such queue on the server", "muted"),)]
        self.query_one(LineList).show(page_of(lines), self.painter)

    def why_not(self, action: str) -> str:
        """Why an action cannot act now."""
        if action == "back":
            return ""
        return super().why_not(action)

    def selected(self) -> Entry | None:
        """This queue."""
        return self._entry

    def lists(self) -> bool:
        """Whether there is something to write."""
        return self._entry is not None

    def exported(self) -> list[object]:
        """What `w` writes: its row."""
        return [self._entry.row] if self._entry is not None else []

    def verb(self, action: Action) -> str:
        """The verb of an action, as it would act now."""
        return "jobs" if action.id == "open" else super().verb(action)

    def on_line_list_opened(self) -> None:
        """On to its jobs."""
        self.console.show_jobs(self.queue, list_in_question(self._entry))

    def do_back(self) -> None:
        """Back to the list."""
        self.console.last_key_at = time.monotonic()
        self.console.back()
