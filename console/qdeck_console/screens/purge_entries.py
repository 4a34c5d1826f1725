"""Every entry of one queue of a plan, read from its file as it is scrolled through."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from textual.containers import Vertical

from qdeck import QdeckError
from qdeck.admin import PURGE_RULES, Feature, PlanEntry, Takes
from qdeck_console.actions import ENTRIES, PURGE, ActionHandler
from qdeck_console.format import NONE
from qdeck_console.presenters import purge as present
from qdeck_console.presenters.line_parts import queue_path
from qdeck_console.presenters.purge_entries import table_of
from qdeck_console.screens.frame import FrameScreen
from qdeck_console.screens.go_back import CANCEL, CLOSE, back
from qdeck_console.screens.lists import NOTHING_OPENS, ReadingScreen
from qdeck_console.widgets.lines import Item, LineList, Lines, Listing, Window

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from textual.widget import Widget

    from qdeck.admin import AsyncReader, JobRecord, PlanIndex, Share, Snapshot
    from qdeck_console.format import Line
    from qdeck_console.screens.export import Export, ExportFile
    from qdeck_console.theme import Painter

_FIRST_ROWS = 60
_AT_ONCE = 20  # jobs read one by one for one refresh
_MOST_KEPT = 500
_LONGEST_BODY = 20_000
_SLICE = 200  # entries that are read at once to be written


async def read_jobs(reader: AsyncReader, share: Share, entries: Iterable[PlanEntry]) -> dict[str, JobRecord]:
    """Return the jobs of the entries of a share, by id; those that still exist."""
    ids = [entry.id for entry in entries]
    if share.has(Feature.ORDER):
        jobs = await reader.jobs_now(share.queue, ids)
        return {job.id: job for job in jobs if job is not None}
    found: dict[str, JobRecord] = {}
    for job_id in ids:
        with contextlib.suppress(QdeckError):  # it may be gone, and a system need not tell of each
            job = await reader.job(share.ref, job_id)
            # A long payload would be read again at each frame, for a few words of it.
            found[job_id] = job if len(job.body or b"") <= _LONGEST_BODY else replace(job, body=None)
    return found


class EntriesScreen(ReadingScreen[None]):
    """The entries of a plan that one rule takes of one queue."""

    TAB, SCOPE = PURGE, ENTRIES

    def __init__(self, index: PlanIndex, share: Share, threshold: str) -> None:
        super().__init__()
        self.index, self.share, self.threshold = index, share, threshold
        self._window = Window(share.count, 0, ())
        self._jobs: Mapping[str, JobRecord | None] = {}
        self._shown: tuple[Window, Mapping[str, JobRecord | None], Painter] | None = None

    @property
    def query_key(self) -> str:
        """The name of what the feed reads for this screen."""
        return f"plan/{self.share.key}"

    async def read(self, reader: AsyncReader, _snapshot: Snapshot) -> None:
        """Read the jobs of the visible entries, some at a time, and each once."""
        if PURGE_RULES[self.share.rule].takes is not Takes.JOBS:
            return
        first, count = self.view.visible_lines()
        rows = [item.row for item in self._window[first : first + count]]
        wanted = [row for row in rows if isinstance(row, PlanEntry) and row.id not in self._jobs]
        if not wanted:
            return
        wanted = wanted if self.share.has(Feature.ORDER) else wanted[:_AT_ONCE]
        found = await read_jobs(reader, self.share, wanted)
        kept = self._jobs if len(self._jobs) <= _MOST_KEPT else {}
        self._jobs = {**kept, **{entry.id: found.get(entry.id) for entry in wanted}}

    def body(self) -> Sequence[Widget]:
        """Return the heading and the list."""
        return (Vertical(Lines(id="heading"), Lines(id="head"), LineList(id="list"), Lines(id="total"), id="main"),)

    def draw(self, *, fresh: bool) -> None:
        """Read the visible entries, and draw them."""
        first, count = self.view.visible_lines()
        count = count or _FIRST_ROWS
        share = self.share
        if self.view.lacks or not self._window.known:
            begin = max(0, first - count)
            entries = self.index.entries(share, begin, 3 * count)
            items = [Item(f"{begin + at}/{entry.id}", 1, entry) for at, entry in enumerate(entries)]
            self._window = Window(share.count, begin, items)
        shown = (self._window, self._jobs, self.painter)
        if self.view.listing.items is not self._window or shown != self._shown:
            self._shown = shown  # a refresh without news draws no line again
            self.view.show(Listing(self._window, self._lines), self.painter)
        table = table_of(share.rule, self._jobs)
        path = queue_path(share.ref, 60, "strong bold", naming=self.naming)
        effect = present.verb_of(share.verb)
        over = f" (limit {self.threshold})" if self.threshold != NONE else ""
        self.query_one("#heading", Lines).show(
            lambda _w, _h: ((), ((" ", "text"), *path, (f"  {present.name_of(share.rule)}{over}  ", "muted"), effect)),
            self.painter,
        )
        self.query_one("#head", Lines).show(lambda w, _h: (table.head(w),), self.painter)
        last = min(share.count, first + count)
        words = f"    {first + 1:,}–{last:,} of {share.count:,}, in the order of the plan"
        self.query_one("#total", Lines).show(lambda _w, h: ((), ((words, "muted"),))[-h:], self.painter)

    def _lines(self, item: Item, cells: int, at_cursor: bool) -> Sequence[Line]:
        entry = item.row
        if not isinstance(entry, PlanEntry):
            return ()
        return (table_of(self.share.rule, self._jobs).line(entry, cells, self._jobs, at_cursor=at_cursor),)

    def on_mount(self) -> None:
        """Have entries read before they are drawn: they are in a file of this machine."""
        self.view.fill = lambda: self.draw(fresh=False)

    def on_line_list_moved(self) -> None:
        """The footer follows the cursor."""
        self.draw_frame()

    def lists(self) -> bool:
        """Return whether there are rows to write; a frame does not search all of them."""
        return self.share.count > 0

    def copied(self) -> tuple[str, str]:
        """Return what `y` takes: the id under the cursor."""
        row = self.view.row
        return ("id", row.id) if isinstance(row, PlanEntry) else ("", "")

    def to_export(self) -> Export:
        """Return what `w` writes: all entries of the page, read from the plan as they are written."""
        from qdeck_console.screens.export import Export

        async def fill(file: ExportFile) -> None:
            for first in range(0, self.share.count, _SLICE):
                await file.put_all(self.index.entries(self.share, first, _SLICE))
                if file.is_dropped:
                    return

        return Export(fill=fill, count=self.share.count)

    HANDLERS: ClassVar[Mapping[str, ActionHandler[Any]]] = {
        **FrameScreen.HANDLERS,
        "back": back(CANCEL, CLOSE),
        "open": NOTHING_OPENS,
    }
