"""Redrive: dead letters go back at a rate, a few first, and it stops by itself when they die again.

And after-action truth: what became of the jobs of a batch.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from typing import TYPE_CHECKING, Final

from qdeck._deck.reasons import Stop, StopCode
from qdeck._engine import acts
from qdeck._errors import InvalidOption, QdeckError
from qdeck._operations.applying import Application
from qdeck._operations.fates import Fortunes, fates_of
from qdeck._operations.model import BatchResult, Fates, PlanEntry
from qdeck._redis.steps import Pause, Step, waiting
from qdeck.adapters.model import Fate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from qdeck._engine.ops import Program
    from qdeck._operations.applying import Progress
    from qdeck._operations.planfile import Plan
    from qdeck._redis.steps import Steps

SAMPLE: Final = 200  # of the jobs that went back last, how many are watched
ENOUGH: Final = 5  # so many have to end before they are judged, unless fewer were released
TOO_MANY: Final = 0.5  # this part of them dead again stops it
_LOOK_S: Final = 0.5


def read_fates(plan: Plan) -> Program[Fates]:
    """What became of the jobs of a plan since they were retried; those that were left alone are not counted."""
    return (yield from Fortunes(plan).count(plan.entries()))


def told(plan: Plan) -> str:
    """How much can be seen of what becomes of the entries of other adapters, in words; empty where all are ours."""
    return Fortunes(plan).told


class _Watch:
    """The jobs that went back last."""

    def __init__(self, fortunes: Fortunes, told: Callable[[Fates, int], None] | None) -> None:
        self.recent: deque[tuple[int, PlanEntry]] = deque(maxlen=SAMPLE)
        self.fates = Fates()
        self._fortunes, self._told = fortunes, told
        self._count = 0
        self._lost: set[int] = set()

    def add(self, entries: Iterable[PlanEntry]) -> None:
        """These went back."""
        for entry in entries:
            self._count += 1
            self.recent.append((self._count, entry))

    def look(self) -> Steps[None]:
        """Looks what became of them so far. What is nowhere at one look may be between two places: it is running."""
        numbers = [number for number, _ in self.recent]
        found = yield Step(self._fortunes.read([entry for _, entry in self.recent]), writes=False)
        lost = {number for number, fate in zip(numbers, found, strict=True) if fate == Fate.UNKNOWN}
        fates = [
            Fate.RUNNING.value if number in lost and number not in self._lost else fate
            for number, fate in zip(numbers, found, strict=True)
        ]
        self._lost = lost
        self.fates = fates_of(Counter(fate for fate in fates if fate is not None))
        if self._told is not None:
            self._told(self.fates, len(self.recent))

    def verdict(self, *, all_of_them: bool) -> Stop | None:
        """Return why it should stop, when too many of those that ended have died again."""
        fates = self.fates
        ended, bad = fates.over, fates.dead_again + fates.failed_again
        enough = len(self.recent) if all_of_them else ENOUGH
        if ended >= min(enough, len(self.recent), SAMPLE) and ended and bad / ended >= TOO_MANY:
            code = StopCode.FAILED_AGAIN if fates.failed_again else StopCode.DIED_AGAIN
            return Stop(code=code, count=bad, ended=ended)
        return None


def redrive_steps(
    plan: Plan,
    *,
    rate: float | None = None,
    first: int | None = None,
    patience_s: float | None = None,
    grace_s: float = 3.0,
    progress: Progress | None = None,
    watched: Callable[[Fates, int], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
    keep_bytes: int = acts.KEEP_BYTES,
    keep_ms: int = acts.KEEP_MS,
) -> Steps[tuple[BatchResult, Fates]]:
    """Applies a plan of retries: `first` of them, then when they fare well the rest at `rate` a second.

    `watched` hears now and then what became of those that went back last, and how many of them are watched. Where a
    system tells no outcome, `grace_s` is how long the first ones are waited for among the dead letters.
    """
    fortunes = Fortunes(plan)
    if first is not None and fortunes.unseen:
        raise InvalidOption(
            f"how the first ones fare cannot be seen in the adapter {fortunes.unseen}", hint="leave --first out"
        )
    run = Application(plan, keep_bytes=keep_bytes, keep_ms=keep_ms)
    yield Step(run.begin())
    watch = _Watch(fortunes, watched)
    patience = fortunes.patience_s if patience_s is None else patience_s
    error = stopped = None
    try:
        if first is not None:
            stopped = yield from _first_ones(run, watch, first, (patience, grace_s), progress, cancelled)
        if stopped is None:
            stopped = yield from _the_rest(run, watch, rate, progress, cancelled)
    except QdeckError as caught:
        if run.tally.done == 0:
            raise
        error = str(caught)
    try:
        yield Step(run.end("failed" if error else "stopped" if stopped else "done"))
        fates = yield Step(fortunes.count(plan.entries()), writes=False)
    except QdeckError as caught:
        error, fates = error or str(caught), watch.fates
    return run.result(error=error, stopped=stopped), fates


def _first_ones(
    run: Application,
    watch: _Watch,
    first: int,
    waits: tuple[float, float],
    progress: Progress | None,
    cancelled: Callable[[], bool] | None,
) -> Steps[Stop | None]:
    patience_s, grace_s = waits
    while run.tally.applied < first:
        part = yield Step(run.step(first - run.tally.applied))
        if part is None:
            return None
        watch.add(part)
        if progress is not None:
            progress(run.tally)
    until = time.monotonic() + patience_s
    over_at: float | None = None
    while True:
        yield from watch.look()
        stop = watch.verdict(all_of_them=True)
        if stop is not None:
            return stop
        if watch.fates.over < len(watch.recent):
            over_at = None
        else:
            over_at = time.monotonic() if over_at is None else over_at
            # Who tells no outcome may be about to bury them: they are waited for a little.
            if not watch.fates.unknown or time.monotonic() - over_at >= grace_s:
                return None
        if cancelled is not None and cancelled():
            return Stop(code=StopCode.CANCELLED)
        if time.monotonic() >= until:
            if watch.fates.over == 0:
                return Stop(code=StopCode.NONE_ENDED, count=len(watch.recent), seconds=patience_s)
            return watch.verdict(all_of_them=False)
        yield Pause(_LOOK_S)


def _the_rest(
    run: Application,
    watch: _Watch,
    rate: float | None,
    progress: Progress | None,
    cancelled: Callable[[], bool] | None,
) -> Steps[Stop | None]:
    most = acts.SLICE if rate is None else max(1, min(acts.SLICE, int(rate / 5)))
    started, before, looked = time.monotonic(), run.tally.done, time.monotonic()
    while True:
        if cancelled is not None and cancelled():
            return Stop(code=StopCode.CANCELLED)
        part = yield Step(run.step(most))
        if part is None:
            return None
        watch.add(part)
        if progress is not None:
            progress(run.tally)
        if rate is not None:
            ahead = (run.tally.done - before) / rate - (time.monotonic() - started)
            if ahead > 0 and run.tally.done < run.plan.count:
                yield from waiting(ahead, cancelled)
        if time.monotonic() - looked >= _LOOK_S:
            looked = time.monotonic()
            yield from watch.look()
            stop = watch.verdict(all_of_them=False)
            if stop is not None and run.tally.done < run.plan.count:
                return stop
