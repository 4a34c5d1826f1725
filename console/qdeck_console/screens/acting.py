"""Doing things to jobs from any screen: plan, ask in proportion, apply, tell, and remember the batch for undo."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from qdeck import QdeckError
from qdeck_console.format import counted
from qdeck_console.presenters.frame import is_production, seen_environment
from qdeck_console.presenters.parts import naming_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from textual.screen import Screen

    from qdeck.admin import BatchResult, Plan, Skip, Tally, UndoResult
    from qdeck_console.format import Line
    from qdeck_console.operating import Wish
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
        """Progress with rate and time left."""
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
class Done:
    """A batch of this console, by a name that its operator knows. `after`: the batch of which it is the other half,
    and with which it is taken back.
    """

    batch: str
    name: str
    after: str = ""


class Operator:
    """Does what screens ask for, one thing at a time."""

    def __init__(self, console: Session) -> None:
        self._console = console
        self.work: Work | None = None
        self.batches: list[Done] = []
        self.went_back: dict[str, UndoResult] = {}
        """What taking a batch of this console back did, the last time that it was tried."""
        self._named: list[str] = []
        self._named_at = float("-inf")

    def why_not_write(self) -> str:
        """Why nothing can be changed now; empty when it can."""
        console = self._console
        if console.context.read_only:
            return "read-only: nothing can be changed"
        if console.latest.is_lost:
            return "server lost"
        return f"{self.work.verb} goes on" if self.work is not None else ""

    def start(self, wish: Wish, *, after: Callable[[], None] | None = None) -> None:
        """Plans, asks if it must, and applies."""
        self.run(self.act(wish, after), wish.verb.value)

    def run(self, doing: Awaitable[None], verb: str) -> None:
        """Runs something that changes the deck, and tells when it fails."""
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

    async def act(self, wish: Wish, after: Callable[[], None] | None = None) -> None:
        """Plans, asks if it must, and applies, as a part of what goes on already."""
        from qdeck_console.operating import aim, it, make_plan, needs_asking, outcome

        work = self.work
        assert work is not None  # noqa: S101 - run() made it

        def looked(scanned: int, _found: int) -> None:
            work.done = scanned

        plan, left_out = await make_plan(self._console.reader, wish, progress=looked, cancelled=lambda: work.cancelled)
        if not plan.count:
            why = left_out[0].why if left_out else plan.tail.skipped[0].why if plan.tail.skipped else "none matches"
            self._console.say(f"nothing to {wish.verb.value}: {it(why)}", "warn", "▲")
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
        """Shows the plan in numbers and waits for the answer; in production its name has to be typed. `words`: the
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
        """Shows a dialog and waits for its answer: until then nothing goes on, and the footer says so."""
        work = self.work
        if work is not None:
            work.asks = True
        try:
            return await self._console.push_screen_wait(dialog)
        finally:
            if work is not None:
                work.asks = False

    async def apply(self, plan: Plan) -> BatchResult:
        """Applies a plan with progress; what was done until it is cancelled is a batch like any other."""
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

    def remember(self, batch: str, name: str, *, after: str = "") -> None:
        """Notes a batch that this console did, for `u`."""
        self.batches = [*(done for done in self.batches if done.batch != batch), Done(batch, name, after)]

    def cancel(self) -> bool:
        """Tells what goes on to end; false when nothing does."""
        if self.work is None or self.work.cancelled:
            return False
        self.work.cancelled = True
        return True

    def why_not_undo(self) -> str:
        """Why nothing can be undone now."""
        return self.why_not_write() or ("" if self.batches else "this console did nothing yet")

    def last(self) -> list[Done]:
        """What was done last and can be taken back, all halves of it."""
        last = self.batches[-1:]
        while last and last[0].after and (before := [done for done in self.batches if done.batch == last[0].after]):
            last = [*before, *last]
        return last

    def undo(self) -> None:
        """Names what was done last; asked again within a few seconds, takes it back."""
        self.name_and_undo(self.last())

    def name_and_undo(self, done: Sequence[Done]) -> None:
        """Names batches; asked for the same ones again within a few seconds, takes them back."""
        batches, names = [one.batch for one in done], " and ".join(one.name for one in done)
        if batches != self._named or time.monotonic() - self._named_at > AGAIN_S:
            self._named, self._named_at = batches, time.monotonic()
            self._console.say(f"u again undoes: {names}", "strong", "◁")
            return
        self._named = []
        self.take_back(done)

    def take_back(self, done: Sequence[Done]) -> None:
        """Takes batches back, the last one first; what cannot be taken back ends it."""
        from qdeck_console.operating import undone

        async def act() -> None:
            told: list[tuple[str, str, str]] = []
            for one in reversed(done):
                try:
                    result = await self._console.writer.undo(one.batch)
                except QdeckError as error:
                    if not told:
                        raise
                    told.append((f"{one.name}: {error}", "bad", "✗"))
                    break
                self.went_back[one.batch] = result
                if result.error is None:  # else the rest can go back when it is asked for again
                    self.batches = [kept for kept in self.batches if kept.batch != one.batch]
                told.append(undone(result, one.name))
                if result.error is not None:
                    break
            self._console.say(*told_at_once(told))

        self.run(act(), "undo")


def told_at_once(told: Sequence[tuple[str, str, str]]) -> tuple[str, str, str]:
    """What several batches did, as one message that looks like the worst of them."""
    worst = max(told, key=lambda one: ("ok", "warn", "bad").index(one[1]))
    return "; ".join(words for words, _, _ in told), worst[1], worst[2]
