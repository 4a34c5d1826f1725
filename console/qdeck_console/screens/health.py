"""The verdict with all that is behind it, and the server itself; enter opens what is wrong."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from textual.containers import Vertical

from qdeck._deck.model import Snapshot, Status
from qdeck._deck.vitals import Vitals, read_vitals
from qdeck_console.actions import DEAD, HEALTH, STUCK, WORKERS, Action, bindings
from qdeck_console.contexts import CountedDeck
from qdeck_console.presenters import health as present
from qdeck_console.presenters.health import Row
from qdeck_console.presenters.parts import section
from qdeck_console.screens.frame import WIDE, FrameScreen
from qdeck_console.widgets.lines import Item, LineList, Lines, Listing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.binding import BindingType
    from textual.widget import Widget

    from qdeck_console.feed import Reader
    from qdeck_console.format import Line

SIDE_CELLS = 43


class HealthScreen(FrameScreen):
    """Every check with its value, threshold and since when."""

    TAB = HEALTH
    SCOPE = HEALTH
    BINDINGS: ClassVar[list[BindingType]] = bindings(HEALTH)

    def __init__(self) -> None:
        super().__init__()
        self._since = present.Since()

    def body(self) -> Sequence[Widget]:
        """The checks, and the server beside them."""
        return (Vertical(Lines(id="head"), LineList(id="list"), Lines(id="total"), id="main"), Lines(id="side"))

    @property
    def view(self) -> LineList:
        """The list."""
        return self.query_one("#list", LineList)

    def wants(self) -> Reader | None:
        """What the server tells of itself."""

        async def read(_snapshot: Snapshot) -> Vitals:
            return await self.console.deck.alook(read_vitals())

        return read

    @property
    def vitals(self) -> Vitals | None:
        """What was read of the server."""
        extra = self.was_read
        return extra if isinstance(extra, Vitals) else None

    def _rows(self, snapshot: Snapshot) -> list[Row]:
        found = present.rows(snapshot, self.console.deck.thresholds)
        since = self._since.note(found, snapshot.at_ms)
        wanted = self.filter_text.casefold().strip()
        dated = (
            replace(row, since_ms=since[f"{row.check}/{row.queue or ''}"][0],
                    before=since[f"{row.check}/{row.queue or ''}"][1])
            for row in found
        )  # fmt: skip
        return [row for row in dated if wanted in f"{row.check} {row.queue} {row.detail}".casefold()]

    def draw(self, *, fresh: bool) -> None:
        """Draws the checks and the server."""
        snapshot = self.picture.snapshot
        items: list[Item] = []
        count = 0
        for label, role, number, rows in present.heads(self._rows(snapshot)) if snapshot else ():
            if items and self.is_tall:
                items.append(Item("", 1, ()))
            items.append(Item("", 1, (label, role, number)))
            items += [Item(row.key, 1, row) for row in rows]
            count += len(rows)
        if snapshot and self.size.width < WIDE:
            cells = max(30, min(70, self.size.width - 8))
            items += [Item("", 1, ()), Item("", 1, ("server", "muted", None))]
            items += [Item("", 1, list(line)) for line in self._server(snapshot, cells)[2:]]
        self.view.show(Listing(items, self._draw_item), self.painter)
        self.query_one("#head", Lines).show(lambda w, _h: (present.head(w),) if count else (), self.painter)
        words = f"{count} checks" if snapshot else "…"
        total: Line = (("    ", "text"), (words, "muted"))
        self.query_one("#total", Lines).show(lambda _w, h: ((), total) if h > 1 else (total,), self.painter)
        side = self.query_one("#side", Lines)
        side.show(lambda w, _h: self._server(snapshot, w) if snapshot else (), self.painter)

    def _server(self, snapshot: Snapshot, cells: int) -> list[Line]:
        deck, console = self.console.deck, self.console
        cost = deck.cost.per_second() if isinstance(deck, CountedDeck) else None
        return present.server_lines(
            snapshot, self.vitals, list(console.served), cost, self.picture.took_s, max(20, cells)
        )

    def _draw_item(self, item: Item, cells: int, at_cursor: bool) -> Sequence[Line]:
        row = item.row
        if isinstance(row, Row):
            return (present.row_line(row, cells, at_cursor, hide=self.hide),)
        if isinstance(row, list):
            return ((("    ", "text"), *row),)
        if isinstance(row, tuple) and row:
            label, role, number = row
            return (section(label, "", role, cells, count=number),)
        return ((),)

    def on_line_list_moved(self) -> None:
        """The footer follows the cursor."""
        self.draw_frame()

    def verb(self, action: Action) -> str:
        """The verb of an action, as it would act now."""
        if action.id == "open":
            return "open what is wrong"
        return super().verb(action)

    def why_not(self, action: str) -> str:
        """Why an action cannot act now."""
        if action == "open":
            row = self.view.row
            if not isinstance(row, Row):
                return "no check under the cursor"
            if row.status in (Status.HEALTHY, None):
                return "it is fine" if row.status else "it is not known"
            return "" if self._leads_to(row) else "the server itself: see its configuration"
        return super().why_not(action)

    @staticmethod
    def _leads_to(row: Row) -> str:
        """Where enter goes: a screen, or the queue."""
        if row.check in ("dead_letters", "stuck"):
            return DEAD if row.check == "dead_letters" else STUCK
        if row.check == "workers":
            return row.queue or WORKERS
        return row.queue or ""

    def on_line_list_opened(self, _event: LineList.Opened) -> None:
        """Opens what is wrong: the dead letters, the stuck jobs, or the queue."""
        from qdeck_console.screens.detail import QueueScreen

        row, why = self.view.row, self.why_not("open")
        if why or not isinstance(row, Row):
            self.console.say(why, "muted", "∅")
            return
        place = self._leads_to(row)
        if place in self.console.MODES:
            self.console.action_tab(place)
        else:
            self.console.open(QueueScreen(place))

    def do_tasks(self) -> None:
        """Opens the temporary queues."""
        from qdeck_console.screens.tasks import TasksScreen

        self.console.open(TasksScreen())

    def lists(self) -> bool:
        """Whether there is something to write."""
        return self.picture.snapshot is not None

    def exported(self) -> list[object]:
        """What `w` writes: the checks, then the server."""
        snapshot = self.picture.snapshot
        return [*super().exported(), snapshot.server] if snapshot else []

    def copied(self) -> tuple[str, str]:
        """What `y` takes: the check in words."""
        row = self.view.row
        return ("check", f"{row.check}: {row.detail}") if isinstance(row, Row) else ("", "")
