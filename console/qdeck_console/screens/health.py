"""The verdict with all that is behind it, and the server itself; enter opens what is wrong."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final

from textual.containers import Vertical

from qdeck import NotAllowed
from qdeck.admin import Limits, Snapshot, Status, answers
from qdeck_console.actions import HEALTH, QUEUES, ActionHandler
from qdeck_console.presenters import health as present
from qdeck_console.presenters import server as present_server
from qdeck_console.presenters.answers import lines as answer_lines
from qdeck_console.presenters.health import CheckRow, ServerHealth
from qdeck_console.presenters.line_parts import in_height, section
from qdeck_console.presenters.server import RefreshCost, Trips
from qdeck_console.presenters.what_now import block
from qdeck_console.problems import Evidence, evidence_of
from qdeck_console.screens.frame import WIDE
from qdeck_console.screens.lists import ListScreen, ListSpec, RowGroup
from qdeck_console.widgets.lines import LineList, Lines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.widget import Widget

    from qdeck.admin import AsyncReader, Finding
    from qdeck_console.format import Line
    from qdeck_console.screens.export import Export, ExportFile

TASKS: Final = ("maintain", "history", "health", "purge")


class HealthScreen(ListScreen[CheckRow, ServerHealth]):
    """Every check with its value, threshold and since when."""

    TAB = SCOPE = HEALTH
    LIST: ClassVar[ListSpec[CheckRow, ServerHealth]] = ListSpec(
        noun="check", rows=lambda _data: (), key=lambda row: row.key,
        search=lambda row: f"{row.check} {row.label} {row.detail}",
    )  # fmt: skip

    def __init__(self) -> None:
        super().__init__()
        self._since = present.Since()
        self._trips = Trips()
        self._dated: tuple[AsyncReader, dict[str, Finding]] | None = None
        self._rows: Sequence[CheckRow] = ()
        self._still: tuple[int | None, tuple[list[float | None], RefreshCost]] | None = None

    def body(self) -> Sequence[Widget]:
        """The checks, and the server beside them."""
        main = Vertical(Lines(id="summary"), Lines(id="head"), LineList(id="list"), Lines(id="total"), id="main")
        return (main, Lines(id="side"))

    async def read(self, reader: AsyncReader, snapshot: Snapshot) -> ServerHealth:
        """Read the server, and once since when what is wrong is so: later changes are seen here."""
        self._trips.begin()
        vitals = await reader.vitals()
        self._trips.end()
        if self._dated is None or self._dated[0] is not reader:
            dated = await reader.dated(present.listed(snapshot.checks), snapshot.at_ms)
            self._dated = (reader, {finding.place: finding for finding in dated})
        try:
            tasks = await reader.agent_tasks(TASKS)
        except NotAllowed:
            tasks = None
        return ServerHealth(vitals=vitals, dated=self._dated[1], tasks=tasks)

    @property
    def rows(self) -> Sequence[CheckRow]:
        """The checks, as they were drawn last."""
        return self._rows

    def _listed(self, snapshot: Snapshot) -> list[CheckRow]:
        data = self.data or ServerHealth()
        facts = present_server.facts_of(
            snapshot, data.vitals, self._trips, self._load()[1], here_ms=self.feed_state.read_ms, tasks=data.tasks
        )
        return self._since.dated(present.rows(snapshot, facts), snapshot.at_ms, data.dated)

    @property
    def _is_still(self) -> bool:
        """Whether the display is frozen, and what it shows is known."""
        frozen_ms = self.console.frozen_ms
        return frozen_ms is not None and self._still is not None and self._still[0] == frozen_ms

    def _load(self) -> tuple[list[float | None], RefreshCost]:
        """Return the commands of the server and what ours cost, or what they were when the display was frozen."""
        if self._still is None or not self._is_still:
            commands, sent = self.console.cost.per_second()
            cost = RefreshCost(commands=commands, sent_bytes=sent, took_s=self.feed_state.took_s)
            self._still = (self.console.frozen_ms, (list(self.console.served), cost))
        return self._still[1]

    def draw(self, *, fresh: bool) -> None:
        """Draw the checks, the verdict above them and the server beside them."""
        snapshot = self.feed_state.snapshot
        if not self._is_still:
            self._rows = self._listed(snapshot) if snapshot else ()
        self.draw_list()
        self._draw_summary(snapshot)

    def beside(self, cells: int, height: int) -> Sequence[Line]:
        """Return what to do about the check under the cursor, and the server."""
        snapshot, row = self.feed_state.snapshot, self.chosen
        if snapshot is None:
            return ()
        told = block(row.hint, row.command, cells) if row is not None else []
        return in_height([*told, *([()] * bool(told)), *self._server(snapshot, cells)], height, cells)

    def groups(self, rows: Sequence[CheckRow]) -> list[RowGroup[CheckRow]]:
        """Return the checks by how bad they are; the server below them where there is no room beside."""
        snapshot = self.feed_state.snapshot
        told = answer_lines(answers(snapshot.findings, snapshot.checks), self._list_cells) if snapshot else []
        found: list[RowGroup[CheckRow]] = [
            RowGroup((), partial(_head, "questions", "muted", None), text=told),
        ] * bool(told)
        found += [
            RowGroup(group, partial(_head, label, role, count)) for label, role, count, group in present.heads(rows)
        ]
        if snapshot and self.size.width < WIDE:
            lines = self._server(snapshot, max(30, min(70, self.size.width - 8)))[2:]
            text: list[Line] = [(("    ", "text"), *line) for line in lines]
            found.append(RowGroup((), partial(_head, "server", "muted", None), apart=True, text=text))
        return found

    def head(self, cells: int) -> Line:
        """Return the heads of the columns."""
        return present.head(cells)

    def height(self, row: CheckRow) -> int:
        """Return how many lines a check has: what is wrong has its words beside it, or below."""
        return present.height(row, self._list_cells)

    def lines(self, row: CheckRow, cells: int, *, at_cursor: bool) -> Sequence[Line]:
        """Return the lines of a check."""
        return present.row_lines(row, cells, at_cursor, naming=self.naming)

    def total_lines(self, rows: Sequence[CheckRow], _cells: int, height: int) -> Sequence[Line]:
        """Return how many checks there are, and whether some are below."""
        view = self.view
        more = ", more ↓" if view.scroll_offset.y < view.max_scroll_y else ""  # the facts of the server are no checks
        more = f", {view.below:,} more ↓" if view.below else more
        words, row = f"{len(rows)} checks" if self.feed_state.snapshot else "…", self.chosen
        if row is not None and row.command and self.size.width < WIDE:
            told: Line = (
                ("    what now  ", "muted"), ("y", "accent bold"), (" copies  ", "muted"), (row.command, "strong bold"),
            )  # fmt: skip
            return ((("    ", "text"), (row.hint, "text")), told) if height > 1 else (told,)
        line: Line = (("    ", "text"), (words + more, "muted"))
        return ((), line) if height > 1 else (line,)

    def narrow(self, where: str, place: str) -> None:
        """Put the cursor on the row of a finding."""
        row = next((row for row in self._rows if row.place == place), None)
        if row is not None:
            self.view.choose(row.key)

    @property
    def _list_cells(self) -> int:
        return self.view.size.width or self.size.width

    def _draw_summary(self, snapshot: Snapshot | None) -> None:
        panel = self.query_one("#summary", Lines)
        lines = present.summary(snapshot, self._rows, max(40, self._list_cells), naming=self.naming) if snapshot else []
        shows = self.is_tall and self.size.height >= len(self.view.listing.items) + len(lines)
        panel.display = shows and bool(lines)
        panel.styles.height = len(lines)
        panel.show(lambda _w, _h: lines, self.painter)

    def _server(self, snapshot: Snapshot, cells: int) -> list[Line]:
        return present_server.server_lines(
            snapshot, (self.data or ServerHealth()).vitals, *self._load(), max(20, cells)
        )

    def _why_not_open(self) -> str:
        row = self.chosen
        if row is None:
            return "no check under the cursor"
        if row.status in (Status.HEALTHY, None):
            return "the check passes" if row.status else "the result is unknown"
        return "" if leads_to(row).tab != HEALTH else "see the configuration of the server"

    def open(self) -> None:
        """Open what is wrong: the dead letters, the stuck jobs, or the queue."""
        if self.chosen is not None:
            self.console.problems.show(leads_to(self.chosen))

    def lists(self) -> bool:
        """Return whether there is something to write."""
        return self.feed_state.snapshot is not None

    def to_export(self) -> Export:
        """Return what `w` writes: the whole report, as `qdeck health` gives it."""
        from qdeck_console.screens.export import Export

        async def fill(file: ExportFile) -> None:
            found = self.console.contexts.configuration
            limits = Limits() if found is None else Limits.of(found.settings)
            await file.put_all([await self.console.reader.health(limits)])

        return Export(fill=fill, count=1, noun="report")

    def copied(self) -> tuple[str, str]:
        """Return what `y` takes: the command that repairs it, else the check in words."""
        row = self.chosen
        if row is not None and row.command:
            return "command", row.command
        return ("check", f"{row.check}: {row.detail}") if row is not None else ("", "")

    HANDLERS: ClassVar = {
        **ListScreen.HANDLERS,
        "open": ActionHandler(run=open, reason=_why_not_open, label=lambda _screen: "open the cause"),
        "tasks": ActionHandler(run=lambda screen: screen.console.open_temporary_queues()),
    }


def _head(label: str, role: str, count: int | None, cells: int) -> Line:
    return section(label, "", role, cells, count=count)


def leads_to(row: CheckRow) -> Evidence:
    """Return where enter goes; to the list of queues for those beyond the rows of a check."""
    return Evidence(tab=QUEUES) if row.code is None else evidence_of(row.code, row.queue)
