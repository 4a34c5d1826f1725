"""The verdict with all that is behind it, and the server itself; enter opens what is wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from textual.containers import Vertical

from qdeck import NotAllowed
from qdeck.admin import AgentTask, QueueRef, Snapshot, Status
from qdeck_console.actions import DEAD, HEALTH, QUEUES, STUCK, WORKERS, Action, bindings
from qdeck_console.presenters import health as present
from qdeck_console.presenters import server as present_server
from qdeck_console.presenters.health import HealthSeen, Row
from qdeck_console.presenters.parts import in_height, section
from qdeck_console.presenters.server import Cost, Trips
from qdeck_console.screens.frame import WIDE, FrameScreen
from qdeck_console.widgets.lines import Item, LineList, Lines, Listing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.binding import BindingType
    from textual.widget import Widget

    from qdeck.admin import Finding
    from qdeck_console.feed import Reader
    from qdeck_console.format import Line

TASKS: Final = ("maintain", "history", "health", "purge")


class HealthScreen(FrameScreen):
    """Every check with its value, threshold and since when."""

    TAB = HEALTH
    SCOPE = HEALTH
    BINDINGS: ClassVar[list[BindingType]] = bindings(HEALTH)

    def __init__(self) -> None:
        super().__init__()
        self._since = present.Since()
        self._trips = Trips()
        self._dated: dict[str, Finding] | None = None
        self._shown: list[Row] = []

    def body(self) -> Sequence[Widget]:
        """The checks, and the server beside them."""
        main = Vertical(Lines(id="summary"), Lines(id="head"), LineList(id="list"), Lines(id="total"), id="main")
        return (main, Lines(id="side"))

    def wants(self) -> Reader | None:
        """What the server tells of itself, and once since when what is wrong is so: later changes are seen here."""

        async def read(snapshot: Snapshot) -> HealthSeen:
            reader = self.console.reader
            self._trips.begin()
            vitals = await reader.vitals()
            self._trips.end()
            if self._dated is None:
                dated = await reader.dated(present.listed(snapshot.checks), snapshot.at_ms)
                self._dated = {finding.place: finding for finding in dated}
            return HealthSeen(vitals=vitals, dated=self._dated, tasks=await self._read_agents())

        return read

    async def _read_agents(self) -> list[AgentTask] | None:
        try:
            return await self.console.reader.agent_tasks(TASKS)
        except NotAllowed:
            return None

    def deck_changed(self) -> None:
        """What was asked of the deck before is asked again."""
        self._dated = None

    @property
    def seen(self) -> HealthSeen:
        """What was read of the server."""
        extra = self.was_read
        return extra if isinstance(extra, HealthSeen) else HealthSeen()

    def _cost(self) -> Cost:
        commands, sent = self.console.cost.per_second()
        return Cost(commands=commands, sent_bytes=sent, took_s=self.picture.took_s)

    def _rows(self, snapshot: Snapshot) -> list[Row]:
        seen = self.seen
        facts = present_server.facts_of(
            snapshot, seen.vitals, self._trips, self._cost(), here_ms=self.picture.read_ms, tasks=seen.tasks
        )
        found = present.rows(snapshot, facts)
        return self._since.dated(found, snapshot.at_ms, seen.dated)

    def _matching(self, found: Sequence[Row]) -> list[Row]:
        wanted = self.filter_text.casefold().strip()
        return [row for row in found if wanted in f"{row.check} {row.label} {row.detail}".casefold()]

    def draw(self, *, fresh: bool) -> None:
        """Draws the checks and the server."""
        snapshot = self.picture.snapshot
        self._shown = self._rows(snapshot) if snapshot else []
        matching = self._matching(self._shown)
        cells = self._main_cells()
        items: list[Item] = []
        for label, role, number, rows in present.heads(matching):
            if items and self.is_tall:
                items.append(Item("", 1, ()))
            items.append(Item("", 1, (label, role, number)))
            items += [Item(row.key, present.height(row, cells), row) for row in rows]
        if snapshot and self.size.width < WIDE:
            room = max(30, min(70, self.size.width - 8))
            items += [Item("", 1, ()), Item("", 1, ("server", "muted", None))]
            items += [Item("", 1, list(line)) for line in self._server(snapshot, room)[2:]]
        self.view.show(Listing(items, self._draw_item), self.painter)
        self._draw_summary(snapshot)
        self.query_one("#head", Lines).show(lambda w, _h: (present.head(w),) if matching else (), self.painter)
        words = f"{len(matching)} checks" if snapshot else "…"

        def total(_cells: int, lines: int) -> Sequence[Line]:
            view = self.view
            more = ", more ↓" if view.scroll_offset.y < view.max_scroll_y else ""
            line: Line = (("    ", "text"), (words + more, "muted"))
            return ((), line) if lines > 1 else (line,)

        self.query_one("#total", Lines).show(total, self.painter)
        side = self.query_one("#side", Lines)
        side.show(lambda w, h: in_height(self._server(snapshot, w), h, w) if snapshot else (), self.painter)

    def _main_cells(self) -> int:
        """How wide the list is: what is wrong has its words beside it, or below."""
        return self.view.size.width or self.size.width

    def _draw_summary(self, snapshot: Snapshot | None) -> None:
        panel = self.query_one("#summary", Lines)
        lines = present.summary(snapshot, self._shown, max(40, self._main_cells()), hide=self.hide) if snapshot else []
        shows = self.is_tall and self.size.height >= len(self.view.listing.items) + len(lines)
        panel.display = shows and bool(lines)
        panel.styles.height = len(lines)
        panel.show(lambda _w, _h: lines, self.painter)

    def _server(self, snapshot: Snapshot, cells: int) -> list[Line]:
        return present_server.server_lines(
            snapshot, self.seen.vitals, list(self.console.served), self._cost(), max(20, cells)
        )

    def _draw_item(self, item: Item, cells: int, at_cursor: bool) -> Sequence[Line]:
        row = item.row
        if isinstance(row, Row):
            return present.row_lines(row, cells, at_cursor, hide=self.hide)
        if isinstance(row, list):
            return ((("    ", "text"), *row),)
        if isinstance(row, tuple) and row:
            label, role, number = row
            return (section(label, "", role, cells, count=number),)
        return ((),)

    def on_line_list_moved(self) -> None:
        """The footer follows the cursor."""
        self.query_one("#total", Lines).refresh_lines()
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
    def _leads_to(row: Row) -> str | QueueRef:
        """Where enter goes: a screen, or the queue."""
        if row.check in ("dead_letters", "stuck"):
            return DEAD if row.check == "dead_letters" else STUCK
        if row.check == "late":
            return row.queue or QUEUES
        if row.check == "workers":
            return row.queue or WORKERS
        return row.queue or ""

    def on_line_list_opened(self, _event: LineList.Opened) -> None:
        """Opens what is wrong: the dead letters, the stuck jobs, or the queue."""
        row, why = self.view.row, self.why_not("open")
        if why or not isinstance(row, Row):
            self.console.say(why, "muted", "∅")
            return
        place = self._leads_to(row)
        if isinstance(place, QueueRef):
            self.console.open_queue(place)
        else:
            self.console.action_tab(place)

    def do_tasks(self) -> None:
        """Opens the temporary queues."""
        self.console.open_temporary_queues()

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
