"""Redrive: dead letters go back at a rate, a few first, and it stops by itself when they die again.

And after-action truth: what became of the jobs of a batch.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from qdeck._deck import reads
from qdeck._deck.model import NATIVE
from qdeck._engine import acts, keys, ops
from qdeck._errors import InvalidOption, QdeckError
from qdeck._operations.applying import Application, apply_steps
from qdeck._operations.driving import Pause, Step, waiting
from qdeck._operations.model import BatchResult, Fates, PlanEntry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from qdeck._engine.ops import Program
    from qdeck._operations.applying import Progress
    from qdeck._operations.driving import Steps
    from qdeck._operations.planfile import Plan

SAMPLE: Final = 200  # of the jobs that went back last, how many are watched
ENOUGH: Final = 5  # so many have to end before they are judged, unless fewer were released
TOO_MANY: Final = 0.5  # this part of them dead again stops it
_LOOK_S: Final = 0.5
_STATES: Final = ("dead", "done", "running", "ready", "delayed", "blocked", "cancelled")
_CHUNK: Final = 500


def read_fates(entries: Iterable[PlanEntry]) -> Program[Fates]:
    """What became of these jobs since they were retried; those that were left alone are not counted."""
    counts: Counter[str] = Counter()
    held: list[PlanEntry] = []
    for entry in entries:
        if entry.layout != NATIVE:
            continue  # what becomes of it is not for us to see
        if held and (len(held) == _CHUNK or held[0].queue != entry.queue):
            yield from _count_fates(held, counts)
            held = []
        held.append(entry)
    if held:
        yield from _count_fates(held, counts)
    return Fates(
        total=counts.total(),
        done=counts["done"],
        dead_again=counts["dead"],
        waiting=counts["ready"] + counts["delayed"] + counts["blocked"],
        running=counts["running"],
        cancelled=counts["cancelled"],
        gone=counts["gone"],
    )


def _count_fates(entries: Sequence[PlanEntry], counts: Counter[str]) -> Program[None]:
    queue = entries[0].queue
    ids: list[ops.Arg] = [entry.id for entry in entries]
    replies = yield reads.read(*[(b"ZMSCORE", keys.key(queue, state), *ids) for state in _STATES])
    columns = [reads.good(reply, queue) for reply in replies]
    for entry, *scores in zip(entries, *columns, strict=True):
        state = next((name for name, score in zip(_STATES, scores, strict=True) if score is not None), "gone")
        if state == entry.state and entry.state == "dead" and float(scores[0]) == float(entry.seen):
            continue  # it was never touched, or was put back
        counts[state] += 1


@dataclass(slots=True)
class _Watch:
    """The jobs that went back last."""

    recent: deque[PlanEntry]
    fates: Fates
    told: Callable[[Fates, int], None] | None = None

    def look(self) -> Steps[None]:
        """Looks what became of them so far."""
        self.fates = yield Step(read_fates(list(self.recent)), writes=False)
        if self.told is not None:
            self.told(self.fates, len(self.recent))

    def verdict(self, *, all_of_them: bool) -> str | None:
        """Why it should stop, when too many of those that ended have died again."""
        ended, dead = self.fates.settled, self.fates.dead_again
        enough = len(self.recent) if all_of_them else ENOUGH
        if ended >= min(enough, len(self.recent), SAMPLE) and ended and dead / ended >= TOO_MANY:
            return f"{dead:,} of the {ended:,} that ended died again"
        return None


def redrive_steps(
    plan: Plan,
    *,
    rate: float | None = None,
    first: int | None = None,
    patience_s: float = 60.0,
    progress: Progress | None = None,
    watched: Callable[[Fates, int], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
    keep_bytes: int = acts.KEEP_BYTES,
    keep_ms: int = acts.KEEP_MS,
) -> Steps[tuple[BatchResult, Fates]]:
    """Applies a plan of retries: `first` of them, then when they fare well the rest at `rate` a second.

    `watched` hears now and then what became of those that went back last, and how many of them are watched.
    """
    if plan.goes_abroad:
        if first is not None:
            raise InvalidOption(
                "how the first ones fare cannot be seen in other layouts", hint="name a queue, or --layout native"
            )
        options = {"keep_bytes": keep_bytes, "keep_ms": keep_ms}
        return (yield from apply_steps(plan, rate=rate, progress=progress, cancelled=cancelled, **options)), Fates()
    run = Application(plan, keep_bytes=keep_bytes, keep_ms=keep_ms)
    yield Step(run.begin())
    watch = _Watch(deque(maxlen=SAMPLE), Fates(), watched)
    error = stopped = None
    try:
        if first is not None:
            stopped = yield from _first_ones(run, watch, first, patience_s, progress, cancelled)
        if stopped is None:
            stopped = yield from _the_rest(run, watch, rate, progress, cancelled)
    except QdeckError as caught:
        if run.tally.done == 0:
            raise
        error = str(caught)
    try:
        yield Step(run.end("failed" if error else "stopped" if stopped else "done"))
        fates = yield Step(read_fates(plan.entries()), writes=False)
    except QdeckError as caught:
        error, fates = error or str(caught), watch.fates
    return run.result(error=error, stopped=stopped), fates


def _first_ones(
    run: Application,
    watch: _Watch,
    first: int,
    patience_s: float,
    progress: Progress | None,
    cancelled: Callable[[], bool] | None,
) -> Steps[str | None]:
    while run.tally.applied < first:
        part = yield Step(run.step(first - run.tally.applied))
        if part is None:
            return None
        watch.recent.extend(part)
        if progress is not None:
            progress(run.tally)
    until = time.monotonic() + patience_s
    while True:
        yield from watch.look()
        why = watch.verdict(all_of_them=True)
        if why is not None:
            return f"{why}: the rest was left where it is"
        if watch.fates.settled >= len(watch.recent):
            return None
        if cancelled is not None and cancelled():
            return "it was cancelled"
        if time.monotonic() >= until:
            if watch.fates.settled == 0:
                return f"none of the first {len(watch.recent):,} ended within {patience_s:.0f} s: does a worker run?"
            return watch.verdict(all_of_them=False)
        yield Pause(_LOOK_S)


def _the_rest(
    run: Application,
    watch: _Watch,
    rate: float | None,
    progress: Progress | None,
    cancelled: Callable[[], bool] | None,
) -> Steps[str | None]:
    most = acts.SLICE if rate is None else max(1, min(acts.SLICE, int(rate / 5)))
    started, before, looked = time.monotonic(), run.tally.done, time.monotonic()
    while True:
        if cancelled is not None and cancelled():
            return "it was cancelled"
        part = yield Step(run.step(most))
        if part is None:
            return None
        watch.recent.extend(part)
        if progress is not None:
            progress(run.tally)
        if rate is not None:
            ahead = (run.tally.done - before) / rate - (time.monotonic() - started)
            if ahead > 0 and run.tally.done < run.plan.count:
                yield from waiting(ahead, cancelled)
        if time.monotonic() - looked >= _LOOK_S:
            looked = time.monotonic()
            yield from watch.look()
            why = watch.verdict(all_of_them=False)
            if why is not None and run.tally.done < run.plan.count:
                return f"{why}: the rest was left where it is"
