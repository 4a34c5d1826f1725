"""Redrive: a plan of retries that is applied at a rate, a sample first, and stops when its jobs die again."""

from __future__ import annotations

import time
from collections import Counter, deque
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Unpack

from qdeck._errors import InvalidOption, QdeckError
from qdeck._model.reasons import Stop, StopCode
from qdeck._operations.applying import StopRule, apply_steps
from qdeck._operations.model import BatchResult, Outcomes
from qdeck._operations.outcomes import PlanOutcomes, outcomes_of
from qdeck._redis.commands import Sleep
from qdeck.adapters.model import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from qdeck._operations.applying import ApplyOptions, Done
    from qdeck._operations.planfile import Plan
    from qdeck._redis.commands import Program
    from qdeck.adapters.all import Adapters
    from qdeck.adapters.plans import PlanEntry

WATCHED: Final = 200  # how many of the jobs that were retried last are watched
ENOUGH: Final = 5  # how many have to end before the rule applies, unless fewer were retried
TOO_MANY: Final = 0.5  # when this share of them is dead again, the redrive stops
_LOOK_S: Final = 0.5


class Watch(StopRule):
    """The sample and the stop rule of a redrive. It watches the jobs that were retried last."""

    def __init__(
        self,
        plan: Plan,
        adapters: Adapters,
        *,
        sample: int | None = None,
        patience_s: float | None = None,
        grace_s: float = 3.0,
        watched: Callable[[Outcomes, int], None] | None = None,
    ) -> None:
        self.outcomes = Outcomes()
        self.plan_outcomes = PlanOutcomes(plan, adapters)
        if sample is not None and self.plan_outcomes.unseen:
            raise InvalidOption(
                f"the adapter {self.plan_outcomes.unseen} does not report the outcomes of a sample",
                hint="Leave --sample out.",
            )
        self.sample_left = sample or 0
        self._is_sample = sample is not None
        self._patience_s = self.plan_outcomes.patience_s if patience_s is None else patience_s
        self._grace_s = grace_s
        self._watched = watched
        self._recent: deque[tuple[int, PlanEntry]] = deque(maxlen=WATCHED)
        self._lost: set[int] = set()
        self._looked = time.monotonic()
        self._count = self._left = plan.count

    def add(self, done: Sequence[Done]) -> None:
        """Watch the jobs that were applied."""
        for part, acted in done:
            self._left = min(self._left, self._count - part.place - len(part.entries))
            skipped = {at for at, _, _ in acted.skipped}
            applied = [(part.place + at, entry) for at, entry in enumerate(part.entries) if at not in skipped]
            self._recent.extend(applied)
            self.sample_left = max(0, self.sample_left - len(applied))

    def check(
        self, cancelled: Callable[[], bool] | None, renew: Callable[[], Program[None]], *, is_last: bool
    ) -> Program[Stop | None]:
        """Wait for the sample when all of it was applied, and look now and then; return why to stop."""
        if self._is_sample:
            if self.sample_left:
                return None
            self._is_sample = False
            return (yield from self._wait_for_sample(cancelled, renew))
        if time.monotonic() - self._looked < _LOOK_S:
            return None
        yield from self._look()
        return None if is_last else self._verdict(all_of_them=False)

    def _wait_for_sample(
        self, cancelled: Callable[[], bool] | None, renew: Callable[[], Program[None]]
    ) -> Program[Stop | None]:
        until = time.monotonic() + self._patience_s
        over_at: float | None = None
        while True:
            yield from self._look()
            stop = self._verdict(all_of_them=True)
            if stop is not None:
                return stop
            if self.outcomes.over < len(self._recent):
                over_at = None
            else:
                over_at = time.monotonic() if over_at is None else over_at
                # A system that reports no outcome may be about to bury them: wait a little.
                if not self.outcomes.unknown or time.monotonic() - over_at >= self._grace_s:
                    return None
            if cancelled is not None and cancelled():
                return None
            if time.monotonic() >= until:
                if self.outcomes.over == 0:
                    return Stop(code=StopCode.NONE_ENDED, count=len(self._recent), seconds=self._patience_s)
                return self._verdict(all_of_them=False)
            yield from renew()
            yield Sleep(_LOOK_S)

    def _look(self) -> Program[None]:
        """Read the outcomes so far. A job that one read does not find may be between two states: it is running."""
        self._looked = time.monotonic()
        places = [place for place, _ in self._recent]
        found = yield from self.plan_outcomes.read(self._recent)
        lost = {place for place, outcome in zip(places, found, strict=True) if outcome is Outcome.UNKNOWN}
        new = lost - self._lost
        self._lost = lost
        self.outcomes = outcomes_of(
            Counter(Outcome.RUNNING if place in new else outcome for place, outcome in zip(places, found, strict=True))
        )
        if self._watched is not None:
            self._watched(self.outcomes, len(self._recent))

    def _verdict(self, *, all_of_them: bool) -> Stop | None:
        """Return why to stop: too many of those that ended have died again."""
        outcomes = self.outcomes
        ended, bad = outcomes.over, outcomes.dead_again + outcomes.failed_again
        enough = len(self._recent) if all_of_them else ENOUGH
        if ended >= min(enough, len(self._recent), WATCHED) and ended and bad / ended >= TOO_MANY:
            code = StopCode.FAILED_AGAIN if outcomes.failed_again else StopCode.DIED_AGAIN
            return Stop(code=code, count=bad, ended=ended, left=self._left, is_sample=all_of_them)
        return None


def redrive_steps(
    plan: Plan, adapters: Adapters, db: int, watch: Watch, **options: Unpack[ApplyOptions]
) -> Program[tuple[BatchResult, Outcomes]]:
    """Apply a plan of retries under a watch; return what was done and what happened to the jobs."""
    result = yield from apply_steps(plan, adapters, db, watch, **options)
    try:
        return result, (yield from watch.plan_outcomes.count(enumerate(plan.entries())))
    except QdeckError as caught:
        return replace(result, error=result.error or str(caught)), watch.outcomes
