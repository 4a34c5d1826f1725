"""Operations from any screen, one at a time: plan, question, apply, report, undo."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeVar

from qdeck import QdeckError, UsageError
from qdeck_console.actions import LOCKED, READ_ONLY
from qdeck_console.format import counted
from qdeck_console.pace import Pace
from qdeck_console.presenters.frame import is_production, seen_environment
from qdeck_console.presenters.line_parts import naming_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from textual.screen import Screen

    from qdeck.admin import AsyncReader, Batch, BatchResult, Plan, Tally, UndoResult
    from qdeck_console.format import Line
    from qdeck_console.operations import OperationRequest
    from qdeck_console.presenters.confirm import PlanTerm
    from qdeck_console.presenters.redrive import Drive
    from qdeck_console.session import Session

Answer = TypeVar("Answer")
FOLLOWED: Final = 1_000  # jobs of a batch whose outcomes are followed
FOLLOW_S: Final = 1.0
FOLLOWED_S: Final = 600.0
AGAIN_S = 6.0  # within which a second `u` undoes what the first one named


class PageLeftError(Exception):
    """A question was not asked: by then another page was on screen."""


@dataclass(slots=True)
class Work:
    """A running operation: its verb, its progress, and whether it was cancelled."""

    verb: str
    started: float = field(default_factory=time.monotonic)
    done: int = 0
    total: int | None = None
    cancelled: bool = False
    asks: bool = False  # a dialog is open; the operation waits for its input
    waits: str = ""  # what it waits for; then it has no rate
    page: object | None = None  # on which it was asked for
    stops_on: Drive | None = None  # only the page of this redrive stops it

    def words(self, how: str = "esc cancels") -> str:
        """Return the progress with rate and time left, and `how` it is stopped."""
        if self.asks:
            return f"{self.verb}: waiting for input"
        if self.cancelled:
            return f"{self.verb}: stopping after this step"
        if self.total is None:
            return f"{self.verb}: {self.done:,} read, {how}"
        if self.waits:
            return f"{self.verb}: {self.done:,} of {self.total:,}, {self.waits}, {how}"
        passed = max(0.001, time.monotonic() - self.started)
        rate = self.done / passed
        left = f", {(self.total - self.done) / rate:.0f}s left" if rate and self.done else ""
        return f"{self.verb}: {self.done:,} of {self.total:,}, {rate:,.0f}/s{left}, {how}"


@dataclass(frozen=True, slots=True)
class NamedBatch:
    """A batch, with the name that the operator sees; empty for what its record says."""

    batch: str
    name: str = ""


class Operator:
    """Runs the operations of all screens, one at a time."""

    def __init__(self, console: Session) -> None:
        self._console = console
        self.work: Work | None = None
        self.batches: list[NamedBatch] = []
        self.undone: dict[str, UndoResult] = {}
        """What the last undo of each batch did."""
        self._named: NamedBatch | None = None
        self._named_at = float("-inf")
        self._is_naming = False
        self._last_undo = ""
        self._watched: AsyncReader | None = None
        self.drive: Drive | None = None
        """The last redrive."""
        self._followed = ""

    def why_not_write(self) -> str:
        """Return why nothing can be changed now; empty when it can."""
        console = self._console
        if console.context.read_only:
            return LOCKED if console.context.locked else READ_ONLY
        if console.latest.is_lost:
            return "server lost"
        return f"{self.work.verb} in progress" if self.work is not None else ""

    def start(self, request: OperationRequest, *, after: Callable[[], None] | None = None) -> None:
        """Plan, ask if it must be asked, and apply."""
        self.run(self.act(request, after), request.verb.value)

    def run(self, doing: Awaitable[None], verb: str) -> None:
        """Run something that changes the server, and report when it fails."""
        if self.work is not None:
            return
        self.work = Work(verb, page=self._console.screen)

        async def guarded() -> None:
            try:
                await doing
            except PageLeftError:
                self._console.say(f"{verb} was not asked: its page was left; nothing was changed", "warn", "▲")
            except (QdeckError, OSError) as error:
                hint = getattr(error, "hint", "")
                self._console.say(f"{error}" + (f": {hint}" if hint else ""), "bad", "✗")
            except Exception as error:  # noqa: BLE001 - the console must survive, and report
                self._console.say(f"{type(error).__name__}: {error}", "bad", "✗")
            finally:
                self.work = None
                self._console.feed.poke()
                self._console.age()

        self._console.run_worker(guarded(), group="act", exit_on_error=False)

    async def act(self, request: OperationRequest, after: Callable[[], None] | None = None) -> None:
        """Do the same as a part of the running operation."""
        from qdeck_console.operations import aim, left_out_of, make_plan, needs_asking, outcome

        work = self.work
        assert work is not None  # noqa: S101 - run() made it

        def looked(scanned: int, _found: int) -> None:
            work.done = scanned

        plan, left_out = await make_plan(
            self._console.reader, request, progress=looked, cancelled=lambda: work.cancelled
        )
        if not plan.count:
            skip = next(iter((*left_out, *plan.tail.skipped)), None)
            why = "no job matches" if skip is None else skip.sentence
            self._console.say(f"nothing to {request.verb.value}: {why}", "warn", "▲")
            return
        omitted = left_out_of(plan, request, left_out, otherwise=self.why_left_out(plan, request))
        if (needs_asking(plan) or omitted.total()) and not await self.ask(plan, omitted):
            return
        result = await self.apply(plan)
        words, role, glyph = outcome(result, left_out, to=aim(plan, naming=naming_of(self._console.shown.snapshot)))
        self._console.say(words, role, glyph)
        self.follow(result)
        if after is not None:
            after()

    def follow(self, result: BatchResult) -> None:
        """Report the outcomes of the jobs of a batch while they run."""
        self._followed = result.batch
        if 0 < result.applied <= FOLLOWED:
            self._console.run_worker(self._follow(result), group="follow", exit_on_error=False)

    async def _follow(self, result: BatchResult) -> None:
        from qdeck_console.presenters.activity import RAN, became

        reader, pace, said = self._console.reader, Pace(FOLLOW_S), ""
        until = time.monotonic() + FOLLOWED_S
        while result.verb in RAN and time.monotonic() < until:
            await asyncio.sleep(pace.rest())
            if self._followed != result.batch or reader is not self._console.reader:
                return
            try:
                with pace.spending():
                    outcomes = await reader.batch_outcomes(result.batch)
            except (QdeckError, OSError):
                return
            told = became(result, outcomes)
            if outcomes.undone or self._followed != result.batch:
                return
            if outcomes.total > outcomes.pending + outcomes.running and told[0] != said and self.work is None:
                said = told[0]
                self._console.say(*told)
            if not (outcomes.pending or outcomes.running):
                return

    def why_left_out(self, plan: Plan, request: OperationRequest) -> str:
        """Return why jobs that a screen counted are not in a plan: their adapter cannot do it, or they changed."""
        snapshot, verb = self._console.shown.snapshot, request.verb.value
        planned = {queue.adapter for queue in plan.by_queue}
        otherwise = f"changed, or not in a state to {verb}"
        for row in snapshot.queues if snapshot is not None else ():
            size = row.stuck if request.stuck else sum(getattr(row, state) or 0 for state in request.states)
            if size and row.adapter not in planned and (not request.queues or row.ref in request.queues):
                return self._console.reader.why_not(row.adapter, verb, request.states[0]) or otherwise
        return otherwise

    async def ask(
        self,
        plan: Plan,
        left_out: Counter[str],
        *,
        lines: Sequence[Line] = (),
        words: tuple[str, str] | None = None,
        terms: Sequence[PlanTerm] = (),
    ) -> bool:
        """Show the plan in numbers and wait for the answer. `words`: the question and the button, where they are not
        those of the plan; `terms`: what else it is applied with.
        """
        from qdeck_console.presenters.confirm import button, is_undone_whole, plan_lines, title
        from qdeck_console.screens.dialog import inside

        naming = naming_of(self._console.shown.snapshot)
        lines = lines or plan_lines(plan, left_out, inside(self._console.size.width), naming=naming, terms=terms)
        question, answer = words or (title(plan, left_out.total()), button(plan))
        return await self.confirm(question, answer, lines, takes_y=is_undone_whole(plan))

    async def confirm(self, question: str, answer: str, lines: Sequence[Line], *, takes_y: bool = False) -> bool:
        """Ask a question and return whether the answer was given; in production the context's name has to be typed."""
        from qdeck_console.screens.prompt import confirmation

        console = self._console
        environment = seen_environment(console.shown.snapshot, console.context.environment)
        name = console.context.title if is_production(environment) else ""
        dialog = confirmation(console, question, lines, answer, name=name, note=console.context.told, takes_y=takes_y)
        return await self.answer_to(dialog) is not None

    async def answer_to(self, dialog: Screen[Answer]) -> Answer | None:
        """Show a dialog and wait for its answer. None, with a message, where it was cancelled or the time for writing
        has passed. Raise where another page is on screen by now: keys typed there must not answer it.
        """
        work, console = self.work, self._console
        if work is not None:
            if console.screen is not work.page:
                raise PageLeftError
            work.asks = True
        console.keys_from = float("inf")
        try:
            answer = await console.push_screen_wait(dialog)
        finally:
            if work is not None:
                work.asks = False
        if answer is None:
            console.say("nothing was changed", "muted", "")
        elif console.is_over:
            console.say("nothing was changed: the 30 minutes are over", "warn", "▲")
            return None
        return answer

    async def apply(self, plan: Plan) -> BatchResult:
        """Apply a plan with progress. A cancelled one leaves a batch, too."""
        work = self.work or Work(plan.verb.value)
        self.work = work
        work.started, work.done, work.total = time.monotonic(), 0, plan.count

        def told(tally: Tally) -> None:
            work.done = tally.done

        result = await self._console.writer.apply(plan, progress=told, cancelled=lambda: work.cancelled)
        if result.undoable:
            self.remember(result.batch, f"{plan.verb.value} of {counted(result.applied, *result.nouns)}")
        await asyncio.sleep(0)
        return result

    def remember(self, batch: str, name: str) -> None:
        """Note a batch that this console did, for `u`."""
        self.batches = [*(known for known in self.batches if known.batch != batch), NamedBatch(batch, name)]

    def watch_interrupted(self) -> None:
        """Name, once for each client, the batches of this operator whose process ended before they did."""
        if self._watched is not self._console.reader:
            self._watched = self._console.reader
            self._console.run_worker(self._name_interrupted(), group="interrupted", exit_on_error=False)

    async def _name_interrupted(self) -> None:
        """Log them where this console may write, so that every console shows them; wait for those that go on."""
        console, reader, named = self._console, self._watched, set[str]()
        try:
            while reader is not None and reader is console.reader:
                found, left_ms = await reader.interrupted()
                if found and not self.why_not_write():
                    await console.writer.close_interrupted()
                for batch in found:
                    if batch.id not in named:
                        named.add(batch.id)
                        self._name(batch)
                if left_ms is None:
                    return
                await asyncio.sleep(left_ms / 1000 + 0.1)
        except QdeckError:
            if self._watched is reader:
                self._watched = None  # the next refresh that succeeds tries again

    def _name(self, batch: Batch) -> None:
        words = f"interrupted: {batch.progress}"
        if self.why_not_write():
            self._console.say(f"{words} · 9 lists it", "warn", "▲")
            return
        self.remember(batch.id, f"interrupted {batch.title}")
        self._console.say(f"{words} · u undoes it, 9 enter continues it", "warn", "▲")

    def resume(self, batch: str) -> None:
        """Ask whether to apply the rest of a batch that was interrupted, and do it."""
        self.run(self._resume(batch), "continue")

    async def _resume(self, batch: str) -> None:
        from qdeck.admin import own_plan
        from qdeck_console.operations import aim, outcome
        from qdeck_console.presenters.confirm import plan_lines
        from qdeck_console.screens.dialog import inside

        console = self._console
        plan = own_plan(batch)
        record = (await console.reader.batches()).get(batch)
        if record is not None and not record.is_open:
            console.say("it was continued", "muted", "")
            return
        left = plan.count - (record.done if record is not None else 0)
        naming = naming_of(console.shown.snapshot)
        lines = plan_lines(plan, Counter(), inside(console.size.width), naming=naming)
        question = f"Continue to {plan.verb.value} the other {left:,} of {plan.count:,}"
        if await self.confirm(question, f"Continue {left:,}", lines):
            result = await self.apply(plan)
            console.say(*outcome(result, to=aim(plan, naming=naming)))

    def cancel(self) -> bool:
        """Cancel the running operation; return whether there was one."""
        if self.work is None or self.work.cancelled:
            return False
        self.work.cancelled = True
        return True

    def why_not_undo(self) -> str:
        """Return why nothing can be undone now."""
        return self.why_not_write() or ("" if self.batches else self._last_undo or "nothing to undo")

    def undo_last(self) -> None:
        """Name what was done last and is not undone; asked again within a few seconds, undo it."""
        self._name_or_undo(self.batches[::-1])

    def name_and_undo(self, batch: NamedBatch) -> None:
        """Name a batch; asked for the same one again within a few seconds, undo it."""
        self._name_or_undo([batch])

    def _name_or_undo(self, batches: Sequence[NamedBatch]) -> None:
        named, is_recent = self._named, time.monotonic() - self._named_at <= AGAIN_S
        if named is not None and named.batch == batches[0].batch and is_recent:
            self._named = None
            self.undo(named)
        elif not self._is_naming:
            self._is_naming = True
            self._console.run_worker(self._name_first(batches), group="name", exit_on_error=False)

    async def _name_first(self, batches: Sequence[NamedBatch]) -> None:
        """Name the first of these batches that can be undone, as the server has it now; forget those before it."""
        from qdeck_console.operations import already_undone, undo_question

        console, why = self._console, ""
        try:
            for batch in batches:
                try:
                    found = await console.reader.find_batch(batch.batch)
                except UsageError as error:
                    why = str(error)
                else:
                    name = batch.name or found.title
                    if not found.undone:
                        self._named, self._named_at = NamedBatch(batch.batch, name), time.monotonic()
                        words = undo_question(found, name, console.size.width - 4, console.latest.snapshot)
                        console.say(words, "strong", "◁", whole=True)
                        return
                    why = already_undone(found, name)
                self._forget(batch, why)
            console.say(why, "warn", "▲")
        except (QdeckError, OSError) as error:
            console.say(str(error), "bad", "✗")
        finally:
            self._is_naming = False

    def _forget(self, batch: NamedBatch, why: str) -> None:
        """Offer a batch no more, and note why."""
        self.batches = [known for known in self.batches if known.batch != batch.batch]
        self._last_undo = why

    def undo(self, batch: NamedBatch) -> None:
        """Undo a batch; what an error left of it can be undone later."""
        from qdeck_console.operations import undone

        self._followed = ""

        async def act() -> None:
            result = self.undone[batch.batch] = await self._console.writer.undo(batch.batch)
            words, role, glyph = undone(result, batch.name)
            if result.error is None and not result.left:
                self._forget(batch, words)
            self._console.say(words, role, glyph)

        self.run(act(), "undo")
