"""Redrive: retry dead letters at a rate, a sample first; a page shows their outcomes and why it stopped."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, ClassVar, Final

from textual.containers import Vertical

from qdeck import QdeckError
from qdeck_console.actions import DEAD, REDRIVE, ActionHandler
from qdeck_console.format import counted, span
from qdeck_console.operations import left_out_of, make_plan, outcome
from qdeck_console.pace import Pace
from qdeck_console.presenters.confirm import PlanTerm, title
from qdeck_console.presenters.line_parts import in_height
from qdeck_console.presenters.redrive import MOST_SAMPLED, WATCHING, Drive, around, redrive_lines
from qdeck_console.screens.frame import WIDE, FrameScreen
from qdeck_console.screens.go_back import CANCEL, CLOSE, BackStep, back
from qdeck_console.screens.lists import PageScreen
from qdeck_console.screens.prompt import Prompt, PromptField
from qdeck_console.widgets.lines import LineList, Lines
from qdeck_console.widgets.list_items import page_of
from qdeck_console.widgets.overflow_line import More

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Sequence

    from textual.widget import Widget

    from qdeck.admin import Outcomes, Plan, Tally
    from qdeck_console.console import Console
    from qdeck_console.operations import OperationRequest

WIDEST: Final = 96
_RATE, _SAMPLE = "20", 10
_MOST_WATCHED: Final = 50_000  # jobs whose outcomes are requested again and again
_DRAW_S: Final = 0.5


def start(console: Console, request: OperationRequest, *, after: Callable[[], None] | None = None) -> None:
    """Plan, ask for rate and sample, ask for confirmation, and redrive on a page of its own."""
    console.operator.run(_redrive(console, request, after), "redrive")


def read_rate(text: str) -> float | None:
    """Return a rate per second as it is typed: 20, 20/s, 300/m, 1000/h."""
    number, _, unit = text.strip().partition("/")
    per = {"": 1, "s": 1, "m": 60, "min": 60, "h": 3600}.get(unit.strip())
    try:
        rate = float(number) / per if per else 0.0
    except ValueError:
        return None
    return rate if 0 < rate < 1e6 else None


def _check_rate(text: str) -> str:
    return "" if read_rate(text) else "enter 20/s, 300/m or 1000/h"


def _check_sample(text: str) -> str:
    return "" if text.isdigit() and 0 < int(text) < 1_000_000 else "enter a whole number"


async def _redrive(console: Console, request: OperationRequest, after: Callable[[], None] | None) -> None:
    operator = console.operator
    work = operator.work

    def looked(scanned: int, _found: int) -> None:
        if work is not None:
            work.done = scanned

    plan, left_out = await make_plan(
        console.reader, request, progress=looked, cancelled=lambda: work is not None and work.cancelled
    )
    if not plan.count:
        skipped = (*left_out, *plan.tail.skipped)
        console.say(f"nothing to retry: {skipped[0].why if skipped else 'none matches'}", "warn", "▲")
        return
    sample = min(_SAMPLE, max(1, plan.count))
    fields = [
        PromptField(label="rate", value=_RATE, hint="5/s, 300/m, 1000/h", check=_check_rate),
        PromptField(
            label="sample",
            value=str(sample),
            hint="this many first; the rest if they succeed",
            check=_check_sample,
        ),
    ]
    answer = await operator.answer_to(Prompt(console, f"Redrive {counted(plan.count, 'job')}", fields=fields))
    omitted = left_out_of(plan, request, left_out, otherwise=operator.why_left_out(plan, request))
    if answer is None or not await _ask(console, plan, omitted, answer[0], int(answer[1])):
        return
    drive = Drive(plan, read_rate(answer[0]) or 1.0, int(answer[1]), told=console.reader.outcome_evidence(plan))
    operator.drive = drive
    if work is not None:
        work.stops_on = drive
    console.open(RedriveScreen(drive))
    await _drive(console, drive, plan)
    if after is not None:
        after()


async def _ask(console: Console, plan: Plan, left_out: Counter[str], rate: str, sample: int) -> bool:
    """Ask whether to redrive a plan, with its rate and its sample."""
    took, first = span(plan.count / (read_rate(rate) or 1.0) * 1000, fine=True), min(sample, plan.count)
    rest = "first; the rest only if they succeed" if first < plan.count else "all of them"
    terms = [
        PlanTerm("rate", "", f"{rate if '/' in rate else f'{rate}/s'}, at least {took} in total"),
        PlanTerm("sample", f"{first:,}", rest),
    ]
    asked = title(plan, left_out.total()).replace("Retry", "Redrive", 1)
    return await console.operator.ask(plan, left_out, words=(asked, f"Redrive {plan.count:,}"), terms=terms)


async def _drive(console: Console, drive: Drive, plan: Plan) -> None:
    operator = console.operator
    work = operator.work
    if work is not None:
        work.total, work.done, work.started, work.waits = plan.count, 0, time.monotonic(), WATCHING
    drive.tell("▸", "accent", f"retrying a sample of {counted(min(drive.sample, plan.count), 'job')}")

    def went(tally: Tally) -> None:
        if drive.done <= drive.sample < tally.done:
            well = "the sample succeeded" if not drive.outcomes.unknown else "none of the sample died again"
            drive.tell("▸", "accent", f"{well}: retrying the rest")
        drive.back, drive.done, drive.skipped = tally.applied, tally.done, tally.skipped_count
        if work is not None:
            work.done = tally.done
            work.waits = WATCHING if drive.phase == "sample" else ""

    def watched(outcomes: Outcomes, count: int) -> None:
        drive.outcomes, drive.watched = outcomes, count

    try:
        result, outcomes = await console.writer.redrive(
            plan, rate=drive.rate, sample=drive.sample, progress=went, watched=watched,
            cancelled=lambda: work is not None and work.cancelled,
        )  # fmt: skip
    except (QdeckError, OSError) as error:
        drive.error, drive.over_at = str(error), time.monotonic()
        drive.tell("✗", "bad", str(error))
        raise
    drive.result, drive.outcomes, drive.watched, drive.over_at = result, outcomes, outcomes.total, time.monotonic()
    drive.back = result.applied
    if result.undoable:
        operator.remember(result.batch, f"redrive of {counted(result.applied, 'job')}")
    words, role, glyph = outcome(result)
    drive.tell(glyph, role, result.stopped.text if result.stopped else words)
    console.say(words, role, glyph)


STOP: Final = BackStep(
    applies=lambda screen: not screen.drive.is_over and CANCEL.applies(screen),
    run=lambda screen: screen.console.operator.cancel(),
    label="stop",
)


class RedriveScreen(PageScreen):
    """A redrive, refreshed live; it continues when the page is closed."""

    TAB, SCOPE = DEAD, REDRIVE

    def __init__(self, drive: Drive) -> None:
        super().__init__()
        self.drive = drive
        self._asking, self._ask_pace = False, Pace(1.0)
        self._watching, self._watch_pace = False, Pace(1.0)

    def body(self) -> Sequence[Widget]:
        """Return lines that the movement keys scroll, with the sample and the events beside them."""
        page = LineList(id="list")
        return (Vertical(page, More(page), id="main"), Lines(id="side"))

    def on_mount(self) -> None:
        """Draw the page regularly."""
        self.set_interval(_DRAW_S, self._tick)

    def _tick(self) -> None:
        if not self.is_current:
            return
        self.draw(fresh=False)
        drive = self.drive
        self._watch_sample()
        settled = drive.outcomes.total and drive.outcomes.ended >= drive.outcomes.total
        small = drive.plan.count <= _MOST_WATCHED
        if drive.is_over and small and not settled and not self._asking and self._ask_pace.is_due:
            self._asking = True
            self.run_worker(self._ask(), group="outcomes", exit_on_error=False)

    def _watch_sample(self) -> None:
        """Read the outcomes of the sample, until all of its jobs have ended."""
        ones = self.drive.sampled
        over = bool(ones) and all(one.outcome not in (None, "waiting", "running") for one in ones)
        if over or self._watching or not self.drive.done or not self._watch_pace.is_due:
            return
        self._watching = True
        self.run_worker(self._read_sample(), group="sample", exit_on_error=False)

    async def _read_sample(self) -> None:
        drive = self.drive
        try:
            most = min(MOST_SAMPLED, drive.sample, drive.done)
            with self._watch_pace.reading():
                drive.sampled = await self.console.reader.sample_outcomes(drive.plan, most)
        except (QdeckError, OSError):
            return  # the frame reports that the server is lost; the next tick reads again
        finally:
            self._watching = False

    async def _ask(self) -> None:
        try:
            with self._ask_pace.reading():
                self.drive.outcomes = await self.console.reader.outcomes(self.drive.plan)
        except (QdeckError, OSError):
            return  # the frame reports that the server is lost; the next tick reads again
        finally:
            self._asking = False

    def draw(self, *, fresh: bool) -> None:
        """Draw the redrive."""
        wide = self.size.width >= WIDE
        cells = max(40, min(WIDEST, (self.query_one(LineList).size.width if wide else self.size.width) - 8))
        lines = redrive_lines(self.drive, cells, naming=self.naming, beside=wide)
        if not self.is_tall:
            lines = [line for line in lines if line]
        self.query_one(LineList).show(page_of(lines), self.painter)
        self.query_one("#side", Lines).show(lambda w, h: in_height(around(self.drive, w), h, w), self.painter)

    HANDLERS: ClassVar = {**PageScreen.HANDLERS, "back": back(STOP, CLOSE)}


def _reopen(screen: FrameScreen) -> None:
    drive = screen.console.operator.drive
    if drive is not None:
        screen.console.open(RedriveScreen(drive))


LAST_REDRIVE: Final[ActionHandler[Any]] = ActionHandler(
    run=_reopen,
    reason=lambda screen: "" if screen.console.operator.drive is not None else "no redrive was started here",
    offered=lambda screen: screen.console.operator.drive is not None,
)
"""Opens the page of the last redrive again, which goes on when it is left."""
