"""What changes the server from any screen, one thing at a time: plan, question, apply, report, undo."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from qdeck import QdeckError
from qdeck_console.actions import READ_ONLY
from qdeck_console.format import counted
from qdeck_console.presenters.frame import is_production, seen_environment
from qdeck_console.presenters.parts import naming_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from textual.screen import Screen

    from qdeck.admin import BatchResult, Plan, Skip, Tally, UndoResult
    from qdeck_console.format import Line
    from qdeck_console.operations import OperationRequest
    from qdeck_console.session import Session

Answer = TypeVar("Answer")
AGAIN_S = 6.0  # within which a second `u` undoes what the first one named


@dataclass(slots=True)
class Work:
    """Something long that goes on: what, how far, and whether it was told to end."""

    verb: str
    started: float = field(default_factory=time.monotonic)
    done: int = 0
    total: int | None = None
    cancelled: bool = False
    asks: bool = False  # a dialog is open: nothing goes on until it is answered
    waits: str = ""  # what it waits for before it goes on: then it has no rate

    def words(self) -> str:
        """Return the progress with rate and time left."""
        if self.asks:
            return f"{self.verb}: waits for your answer"
        if self.cancelled:
            return f"{self.verb}: ends after this step"
        if self.total is None:
            return f"{self.verb}: {self.done:,} looked at, esc cancels"
        if self.waits:
            return f"{self.verb}: {self.done:,} of {self.total:,}, {self.waits}, esc cancels"
        passed = max(0.001, time.monotonic() - self.started)
        rate = self.done / passed
        left = f", {(self.total - self.done) / rate:.0f} s left" if rate and self.done else ""
        return f"{self.verb}: {self.done:,} of {self.total:,}, {rate:,.0f}/s{left}, esc cancels"


@dataclass(frozen=True, slots=True)
class NamedBatch:
    """A batch of this console, by a name that its operator knows."""

    batch: str
    name: str


class Operator:
    """What screens have done, one thing at a time."""

    def __init__(self, console: Session) -> None:
        self._console = console
        self.work: Work | None = None
        self.batches: list[NamedBatch] = []
        self.undone: dict[str, UndoResult] = {}
        """What the last undo of each batch did."""
        self._named = ""
        self._named_at = float("-inf")

    def why_not_write(self) -> str:
        """Return why nothing can be changed now; empty when it can."""
        console = self._console
        if console.context.read_only:
            return READ_ONLY
        if console.latest.is_lost:
            return "server lost"
        return f"{self.work.verb} goes on" if self.work is not None else ""

    def start(self, request: OperationRequest, *, after: Callable[[], None] | None = None) -> None:
        """Plan, ask if it must be asked, and apply."""
        self.run(self.act(request, after), request.verb.value)

    def run(self, doing: Awaitable[None], verb: str) -> None:
        """Run something that changes the server, and report when it fails."""
        if self.work is not None:
            return
        self.work = Work(verb)

        async def guarded() -> None:
            try:
                await doing
            except (QdeckError, OSError) as error:
                hint = getattr(error, "hint", "")
                self._console.say(f"{error}" + (f": {hint}" if hint else ""), "bad", "✗")
            except Exception as error:  # noqa: BLE001 - the console must outlive what it cannot do, and tell
                self._console.say(f"{type(error).__name__}: {error}", "bad", "✗")
            finally:
                self.work = None
                self._console.feed.poke()
                self._console.age()

        self._console.run_worker(guarded(), group="act", exit_on_error=False)

    async def act(self, request: OperationRequest, after: Callable[[], None] | None = None) -> None:
        """Do the same as a part of what goes on already."""
        from qdeck_console.operations import aim, make_plan, needs_asking, outcome

        work = self.work
        assert work is not None  # noqa: S101 - run() made it

        def looked(scanned: int, _found: int) -> None:
            work.done = scanned

        plan, left_out = await make_plan(
            self._console.reader, request, progress=looked, cancelled=lambda: work.cancelled
        )
        if not plan.count:
            skip = next(iter((*left_out, *plan.tail.skipped)), None)
            why = "none matches" if skip is None else skip.sentence
            self._console.say(f"nothing to {request.verb.value}: {why}", "warn", "▲")
            return
        if needs_asking(plan) and not await self.ask(plan, left_out):
            self._console.say("nothing was done", "muted", "")
            return
        result = await self.apply(plan)
        words, role, glyph = outcome(result, left_out, to=aim(plan, hide=naming_of(self._console.shown.snapshot)))
        if result.applied and plan.tail.cautions and not needs_asking(plan):  # who was asked has read it
            words = f"{words}; mind: {plan.tail.cautions[0]}"
        self._console.say(words, role, glyph)
        if after is not None:
            after()

    async def ask(
        self, plan: Plan, left_out: list[Skip], *, lines: Sequence[Line] = (), words: tuple[str, str] | None = None
    ) -> bool:
        """Show the plan in numbers and wait for the answer; in production its name has to be typed. `words`: the
        sentence and the answer, where the plan is not all of it.
        """
        from qdeck_console.presenters.confirm import button, plan_lines, title
        from qdeck_console.screens.dialog import inside
        from qdeck_console.screens.prompt import confirmation

        console = self._console
        snapshot = console.shown.snapshot
        environment = seen_environment(snapshot, console.context.environment)
        name = console.context.title if is_production(environment) else ""
        hide = naming_of(snapshot)
        lines = lines or plan_lines(plan, left_out, inside(console.size.width), hide=hide)
        asked, answer_words = words or (title(plan), button(plan))
        dialog = confirmation(console, asked, lines, answer_words, name=name, note=console.context.told)
        answer = await self.answer_to(dialog)
        if answer is not None and console.is_over:
            console.say("the 30 minutes are over", "warn", "▲")
            return False
        return answer is not None

    async def answer_to(self, dialog: Screen[Answer]) -> Answer | None:
        """Show a dialog and wait for its answer: until then nothing goes on, and the footer says so."""
        work = self.work
        if work is not None:
            work.asks = True
        try:
            return await self._console.push_screen_wait(dialog)
        finally:
            if work is not None:
                work.asks = False

    async def apply(self, plan: Plan) -> BatchResult:
        """Apply a plan with progress; what was done until it is cancelled is a batch like any other."""
        work = self.work or Work(plan.verb.value)
        self.work = work
        work.started, work.done, work.total = time.monotonic(), 0, plan.count

        def told(tally: Tally) -> None:
            work.done = tally.done

        result = await self._console.writer.apply(plan, progress=told, cancelled=lambda: work.cancelled)
        if result.undoable:
            from qdeck.admin import Verb

            nouns = ("entry", "entries") if plan.verb is Verb.PURGE else ("job", "jobs")
            self.remember(result.batch, f"{plan.verb.value} of {counted(result.applied, *nouns)}")
        await asyncio.sleep(0)
        return result

    def remember(self, batch: str, name: str) -> None:
        """Note a batch that this console did, for `u`."""
        self.batches = [*(known for known in self.batches if known.batch != batch), NamedBatch(batch, name)]

    def cancel(self) -> bool:
        """End what goes on; false when nothing does."""
        if self.work is None or self.work.cancelled:
            return False
        self.work.cancelled = True
        return True

    def why_not_undo(self) -> str:
        """Return why nothing can be undone now."""
        return self.why_not_write() or ("" if self.batches else "this console did nothing yet")

    def undo_last(self) -> None:
        """Name what was done last; asked again within a few seconds, undo it."""
        self.name_and_undo(self.batches[-1])

    def name_and_undo(self, batch: NamedBatch) -> None:
        """Name a batch; asked for the same one again within a few seconds, undo it."""
        if batch.batch != self._named or time.monotonic() - self._named_at > AGAIN_S:
            self._named, self._named_at = batch.batch, time.monotonic()
            self._console.say(f"u again undoes: {batch.name}", "strong", "◁")
            return
        self._named = ""
        self.undo(batch)

    def undo(self, batch: NamedBatch) -> None:
        """Undo a batch; what an error left of it can be undone later."""
        from qdeck_console.operations import undone

        async def act() -> None:
            result = self.undone[batch.batch] = await self._console.writer.undo(batch.batch)
            if result.error is None:
                self.batches = [known for known in self.batches if known.batch != batch.batch]
            self._console.say(*undone(result, batch.name))

        self.run(act(), "undo")
