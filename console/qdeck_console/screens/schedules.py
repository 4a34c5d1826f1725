"""Cron rules: when each comes next and how it went, run now, pause, resume, and another rule."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from qdeck import QdeckError
from qdeck.admin import MISSED, NATIVE, CronRule, QueueRef, ScheduleRow
from qdeck_console.actions import SCHEDULES, Action, bindings
from qdeck_console.format import counted
from qdeck_console.presenters import schedules as present
from qdeck_console.presenters.nothing import Nothing
from qdeck_console.screens.form import Field, FormScreen
from qdeck_console.screens.tables import TableScreen
from qdeck_console.widgets.lines import Item, LineList, Lines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.binding import BindingType

    from qdeck.admin import Snapshot
    from qdeck_console.feed import Reader
    from qdeck_console.format import Line


class SchedulesScreen(TableScreen):
    """What comes by the clock."""

    TAB = SCHEDULES
    SCOPE = SCHEDULES
    BINDINGS: ClassVar[list[BindingType]] = bindings(SCHEDULES)

    def wants(self) -> Reader | None:
        """All schedules."""

        async def read(_snapshot: Snapshot) -> tuple[ScheduleRow, ...]:
            return tuple(await self.console.reader.schedules())

        return read

    @property
    def chosen(self) -> ScheduleRow | None:
        """The schedule under the cursor."""
        row = self.view.row
        return row if isinstance(row, ScheduleRow) else None

    def head(self, cells: int) -> Line:
        """The heads of the columns."""
        return present.TABLE.head(cells)

    def items(self) -> list[Item]:
        """The schedules that have the text of the filter."""
        wanted = self.filter_text.casefold().strip()
        return [
            Item(row.name, 2 if present.reason(row) else 1, row)
            for row in self.rows
            if isinstance(row, ScheduleRow) and wanted in f"{row.name} {row.queue} {row.task} {row.cron}".casefold()
        ]

    def lines_of(self, item: Item, cells: int, at_cursor: bool) -> Sequence[Line]:
        """One schedule."""
        row = item.row
        if not isinstance(row, ScheduleRow):
            return ()
        return present.lines(row, cells, present.View(self.now_ms, self.hide), at_cursor=at_cursor)

    def nothing(self) -> Nothing:
        """What is said where there is no schedule."""
        about = "A schedule is a cron rule that makes jobs. They are kept in qdeck:schedules, which holds none."
        ways = (
            ("qdeck schedule add NAME", "makes one from the command line"),
            ("app.schedule(…)", "makes one beside the tasks of an application"),
        )
        return Nothing("No schedules here yet", about, ways)

    def words(self, shown: int) -> str:
        """How many there are."""
        if shown:
            return counted(shown, "schedule")
        return "no schedule matches; esc clears the filter" if self.filter_text else "no schedule"

    def draw(self, *, fresh: bool) -> None:
        """Draws the list and the one under the cursor."""
        super().draw(fresh=fresh)
        self._draw_side()

    def _draw_side(self) -> None:
        row = self.chosen

        def make(cells: int, _height: int) -> Sequence[Line]:
            return present.side(row, cells, now_ms=self.now_ms, hide=self.hide) if row is not None else ()

        self.query_one("#side", Lines).show(make, self.painter)

    def on_line_list_moved(self) -> None:
        """Side pane and footer follow the cursor."""
        self._draw_side()
        self.draw_frame()

    def is_offered(self, action: Action) -> bool:
        """Enter opens the last job of a schedule."""
        return super().is_offered(action) or action.id == "open"

    def verb(self, action: Action) -> str:
        """The verb of an action, as it would act now."""
        if action.id == "hold" and self.chosen is not None and not self.chosen.enabled:
            return "resume"
        return "open its last job" if action.id == "open" else super().verb(action)

    def why_not(self, action: str) -> str:
        """Why an action cannot act now."""
        row = self.chosen
        if action == "open":
            return "no schedule under the cursor" if row is None else "" if row.last_id else "it made no job yet"
        if action not in {"fire", "hold", "rule"}:
            return super().why_not(action)
        why = self.console.operator.why_not_write()
        if why or row is None:
            return why or "no schedule under the cursor"
        return "it cannot be read" if row.problem and action != "hold" else ""

    def on_line_list_opened(self, _event: LineList.Opened) -> None:
        """Opens the last job that it made."""
        row, why = self.chosen, self.why_not("open")
        if why or row is None or row.last_id is None:
            self.console.say(why, "muted", "∅")
        else:
            self.console.open_job(QueueRef(NATIVE, row.queue), row.last_id)

    def do_fire(self) -> None:
        """Makes its job now."""
        row = self.chosen
        assert row is not None  # noqa: S101 - why_not looked

        async def act() -> None:
            job_id = await self.console.writer.run_schedule(row.name)
            self.console.say(f"{row.name} made {job_id}", "ok", "✓")

        self.console.operator.run(act(), "run")

    def do_hold(self) -> None:
        """Pauses or resumes it."""
        row = self.chosen
        assert row is not None  # noqa: S101 - why_not looked

        async def act() -> None:
            word = "paused" if row.enabled else "resumed"
            changed = await self.console.writer.enable_schedule(row.name, not row.enabled)
            self.console.say(f"{row.name} {'is' if changed else 'was already'} {word}", "ok", "✓")

        self.console.operator.run(act(), "pause" if row.enabled else "resume")

    def do_rule(self) -> None:
        """Asks for another rule and stores it, in place of exactly the one that was seen."""
        row = self.chosen
        assert row is not None  # noqa: S101 - why_not looked

        def cron(value: str) -> str:
            return _wrong(value, row.tz)

        def zone(value: str) -> str:
            return _wrong(row.cron, value)

        def missed(value: str) -> str:
            return "" if value in MISSED else f"one of {', '.join(MISSED)}"

        fields = [
            Field(label="cron", value=row.cron, hint="minute hour day month weekday", check=cron),
            Field(label="time zone", value=row.tz, hint="as in Europe/Berlin", check=zone),
            Field(
                label="missed turns", value=row.policy, hint="skip, once or all", check=missed, choices=MISSED
            ),
        ]  # fmt: skip

        async def act() -> None:
            about: Sequence[Line] = ((("Turns from now on follow the new rule.", "muted"),),)
            form = FormScreen(self.console, f"Edit the rule of {row.name}", fields, about=about)
            given = await self.console.push_screen_wait(form)
            if given is None or given == (row.cron, row.tz, row.policy):
                self.console.say("nothing was changed", "muted", "")
                return
            if self.console.is_over:
                self.console.say("the 30 minutes are over", "warn", "▲")
                return
            await self.console.writer.edit_schedule(row.name, cron=given[0], tz=given[1], missed=given[2])
            self.console.say(f"{row.name} comes by {given[0]} ({given[1]}) now", "ok", "✓")

        self.console.operator.run(act(), "edit")

    def copied(self) -> tuple[str, str]:
        """What `y` takes: its name."""
        return ("name", self.chosen.name) if self.chosen is not None else ("", "")


def _wrong(cron: str, tz: str) -> str:
    """What is wrong with a rule; empty when nothing is."""
    try:
        CronRule(cron, tz)
    except (QdeckError, ValueError) as error:
        return str(error)
    return ""
