"""Cron rules: when each comes next and how it went, run now, pause, resume, and another rule."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final, TypeAlias

from qdeck import QdeckError
from qdeck.admin import MISSED, NATIVE, Code, CronRule, QueueRef, ScheduleRow, State, Verb
from qdeck_console.actions import SCHEDULES, ActionHandler
from qdeck_console.operations import OperationRequest
from qdeck_console.presenters import schedules as present
from qdeck_console.presenters.confirm import PlanTerm
from qdeck_console.presenters.empty_state import EmptyState
from qdeck_console.presenters.frame import role_of
from qdeck_console.screens.lists import ListScreen, ListSpec
from qdeck_console.screens.pausing import ask_reason, may_lift
from qdeck_console.screens.prompt import Prompt, PromptField

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qdeck.admin import AsyncReader, Pause, Snapshot
    from qdeck_console.format import Line


EMPTY: Final = EmptyState(
    "No schedules",
    "A schedule creates jobs by a cron rule. qdeck:schedules is empty.",
    (
        ("qdeck schedule add NAME", "add one with a command"),
        ("app.schedule(…)", "declare one in an application"),
    ),
)
NONE: Final = "no schedule under the cursor"
Schedules: TypeAlias = tuple[ScheduleRow, ...]


class SchedulesScreen(ListScreen[ScheduleRow, Schedules]):
    """The screen Schedules."""

    SCOPE = TAB = SCHEDULES
    LIST: ClassVar[ListSpec[ScheduleRow, Schedules]] = ListSpec(
        noun="schedule",
        table=present.TABLE,
        rows=lambda rows: rows,
        key=lambda row: row.name if row.adapter is None else f"{row.adapter}/{row.queue}/{row.name}/{row.last_id}",
        search=lambda row: f"{row.name} {row.queue} {row.task} {row.cron}",
        empty=lambda _rows: EMPTY,
    )

    async def read(self, reader: AsyncReader, _snapshot: Snapshot) -> Schedules:
        """Read all schedules."""
        return tuple(await reader.schedules())

    def height(self, row: ScheduleRow) -> int:
        """Return how many lines a schedule has: one that is in trouble says why."""
        return 2 if present.reason(row) else 1

    def lines(self, row: ScheduleRow, cells: int, *, at_cursor: bool) -> Sequence[Line]:
        """Return the lines of a schedule."""
        return present.lines(row, cells, self._shared(), at_cursor=at_cursor)

    def side(self, row: ScheduleRow, cells: int, _height: int) -> Sequence[Line]:
        """Return the details of one schedule."""
        return present.side(row, cells, self._shared())

    def _shared(self) -> present.SchedulesView:
        snapshot = self.feed_state.snapshot
        late = "warn" if snapshot is None else role_of(snapshot, Code.SCHEDULE_LATE, "warn")
        return present.SchedulesView(self.now_ms, self.naming, late)

    def _why_not_open(self) -> str:
        row = self.chosen
        return NONE if row is None else "" if row.last_id or row.next_id else "the schedule made no job yet"

    def _why_not_hold(self) -> str:
        row = self.chosen
        if row is not None and row.adapter is not None:
            return row.why_fixed or f"schedules of {row.adapter} are tasks: open it to change it"
        return self.console.operator.why_not_write() or ("" if row is not None else NONE)

    def _why_not(self) -> str:
        why, row = self._why_not_hold(), self.chosen
        return why or ("the schedule cannot be read" if row is not None and row.problem else "")

    def _why_not_fire(self) -> str:
        row = self.chosen
        if row is not None and row.adapter is not None and row.next_id is not None:
            return self.console.operator.why_not_write()
        return self._why_not()

    def _open_label(self) -> str:
        row = self.chosen
        return "open its next job" if row is not None and row.last_id is None and row.next_id else "open its last job"

    def open(self) -> None:
        """Open the last job that it made, or the one that it made for its next run."""
        row = self.chosen
        job = None if row is None else row.last_id or row.next_id
        if row is not None and job is not None:
            self.console.open_job(QueueRef(row.adapter or NATIVE, row.queue), job)

    def fire(self) -> None:
        """Make its job now, or run the one that its system made for the next run."""
        row = self.chosen
        assert row is not None  # noqa: S101 - its reason was asked for

        async def act() -> None:
            if row.adapter is not None and row.next_id is not None:
                job = await self.console.reader.job(QueueRef(row.adapter, row.queue), row.next_id)
                if job.state == State.READY:
                    self.console.say(f"{row.name} is due: a worker of {row.adapter} runs it next", "warn", "▲")
                    return
                await self.console.operator.act(OperationRequest(verb=Verb.RUN, jobs=(job,)))
                return
            if not row.enabled and not await self._may_lift(f"Run {row.name} now", row, "Run"):
                return
            job_id = await self.console.writer.run_schedule(row.name)
            self.console.say(f"{row.name}: enqueued job {job_id}", "ok", "✓")

        self.console.operator.run(act(), "run")

    def hold(self) -> None:
        """Pauses it for a reason, or resumes it after the question where others are concerned."""
        row = self.chosen
        assert row is not None  # noqa: S101 - its reason was asked for

        async def act() -> None:
            word = "paused" if row.enabled else "resumed"
            reason, stands = "", None
            if row.enabled:
                given = await ask_reason(self.console, row.name, "It makes no jobs until it is resumed.")
                if given is None:
                    return
                reason = given
            else:
                stands = await self._may_lift(f"Resume {row.name}", row, "Resume")
                if stands is None:
                    return
            writer = self.console.writer
            changed = await writer.enable_schedule(row.name, not row.enabled, reason=reason, shown=stands)
            self.console.say(f"{row.name} {'is' if changed else 'was already'} {word}", "ok", "✓")

        self.console.operator.run(act(), "pause" if row.enabled else "resume")

    async def _may_lift(self, title: str, row: ScheduleRow, act: str) -> Pause | None:
        """Return the pause of a schedule that may be passed over, after the question where it concerns others."""
        stands = await self.console.reader.schedule_pause(row.name)
        rule = PlanTerm("rule", "", f"{row.cron} ({row.tz}): {row.task} in {row.queue}")
        return stands if await may_lift(self.console, title, stands, rule, act=act) else None

    def edit_rule(self) -> None:
        """Ask for another rule and store it, if the schedule has not changed since."""
        row = self.chosen
        assert row is not None  # noqa: S101 - its reason was asked for

        def cron(value: str) -> str:
            return _wrong(value, row.tz)

        def zone(value: str) -> str:
            return _wrong(row.cron, value)

        def missed(value: str) -> str:
            return "" if value in MISSED else f"one of {', '.join(MISSED)}"

        fields = [
            PromptField(label="cron", value=row.cron, hint="minute hour day month weekday", check=cron),
            PromptField(label="time zone", value=row.tz, hint="such as Europe/Madrid", check=zone),
            PromptField(
                label="missed runs", value=row.policy, hint="skip, once or all", check=missed, choices=MISSED
            ),
        ]  # fmt: skip

        async def act() -> None:
            about: Sequence[Line] = ((("The new rule applies from the next run.", "muted"),),)
            form = Prompt(self.console, f"Edit schedule {row.name}", about, fields)
            given = await self.console.operator.answer_to(form)
            if given is None:
                return
            if given == (row.cron, row.tz, row.policy):
                self.console.say("nothing was changed", "muted", "")
                return
            await self.console.writer.edit_schedule(
                row.name, cron=given[0], tz=given[1], missed=given[2], version=row.version
            )
            self.console.say(f"{row.name}: the rule is {given[0]} ({given[1]})", "ok", "✓")

        self.console.operator.run(act(), "edit")

    def copied(self) -> tuple[str, str]:
        """Return what `y` takes: its name."""
        return ("name", self.chosen.name) if self.chosen is not None else ("", "")

    def _hold_label(self) -> str:
        return "resume" if self.chosen is not None and not self.chosen.enabled else ""

    HANDLERS: ClassVar = {
        **ListScreen.HANDLERS,
        "open": ActionHandler(run=open, reason=_why_not_open, label=_open_label),
        "fire": ActionHandler(run=fire, reason=_why_not_fire),
        "hold": ActionHandler(run=hold, reason=_why_not_hold, label=_hold_label),
        "rule": ActionHandler(run=edit_rule, reason=_why_not),
    }


def _wrong(cron: str, tz: str) -> str:
    """Return what is wrong with a rule; empty when nothing is."""
    try:
        CronRule(cron, tz)
    except (QdeckError, ValueError) as error:
        return str(error)
    return ""
