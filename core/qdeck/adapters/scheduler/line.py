"""The scheduler's line: how a service makes scores, and where in the line a job with one would stand."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from qdeck._model.reasons import Caution, CautionCode
from qdeck._redis import reads
from qdeck._redis.commands import with_errors
from qdeck._redis.errors import is_error
from qdeck._settings.model import AdapterSettings

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from qdeck._redis.commands import Program

PRIORITY: Final = b"scheduler:queue:priority"
OFFSETS: Final = MappingProxyType({"CRITICAL": 0, "HIGH": 1_000_000, "NORMAL": 2_000_000, "LOW": 3_000_000})

SKEW_MS: Final = 1000  # that the clock of a worker may be behind the server's, or ahead of it


class Score(StrEnum):
    """How a version of the service makes scores of a time and the offset of a priority."""

    DOCUMENT = "document"
    CORRECTED = "corrected"


class SchedulerSettings(AdapterSettings, frozen=True, kw_only=True):
    """`[adapters.scheduler]`."""

    score: Score | None = None
    """`document`: time minus offset, LOW first. `corrected`: time plus offset, CRITICAL first. Default: as in line."""


@dataclass(frozen=True, slots=True)
class Line:
    """The line as a plan finds it: the score that each priority gives now, and how many jobs stand before it."""

    scores: Mapping[str, int]
    before: Mapping[str, int]
    length: int
    sign: int

    def place(self, priority: str) -> str:
        """Return where in the line a job of this priority will stand."""
        if not self.length:
            return "the line is empty"
        before, all_of_them = self.before[priority], self.length
        if before in (0, all_of_them):
            jobs = f"all {all_of_them:,} jobs" if all_of_them > 1 else "the 1 job"
            return f"{'behind' if before else 'ahead of'} {jobs} in line"
        return f"behind {before:,} of {all_of_them:,} jobs in line"

    @property
    def order(self) -> Caution | None:
        """Why CRITICAL goes last, where the service subtracts the offsets and a job does not go to an empty line."""
        return Caution(code=CautionCode.LOW_FIRST) if self.sign < 0 and self.length else None


def read_line(score: Score | None, now: int) -> Program[Line]:
    """Return the line, and the scores of a service with this setting."""
    last, length = yield with_errors((b"ZREVRANGE", PRIORITY, 0, 0, b"WITHSCORES"), (b"ZCARD", PRIORITY))
    sign = _sign_of(score, last, now)
    scores = {name: now + sign * offset for name, offset in OFFSETS.items()}
    counts = yield with_errors(*((b"ZCOUNT", PRIORITY, b"-inf", b"(%d" % score) for score in scores.values()))
    before = {name: 0 if is_error(count) else int(count) for name, count in zip(scores, counts, strict=True)}
    return Line(scores, before, 0 if is_error(length) else int(length), sign)


def read_sign(score: Score | None, now: int) -> Program[int]:
    """Return what a service with this setting does with offsets: 1 where it adds them, else -1."""
    last = None if score else (yield from reads.try_all([(b"ZREVRANGE", PRIORITY, 0, 0, b"WITHSCORES")]))[0]
    return _sign_of(score, last, now)


def times_of(score: int, sign: int, now: int) -> dict[str, int]:
    """Return when a job with this score was enqueued, for each priority that it can have: none was in the future."""
    times = {name: score - sign * offset for name, offset in OFFSETS.items()}
    return {name: at for name, at in times.items() if at <= now + SKEW_MS}


def bound_of(names: Collection[str], sign: int) -> str | None:
    """Return the priorities that a job can have as a bound, such as `≥NORMAL`; None if it can have all of them."""
    if len(names) in (0, len(OFFSETS)):
        return None
    return f"≥{[*names][-1]}" if sign < 0 else f"≤{next(iter(names))}"


def _sign_of(score: Score | None, last: Any, now: int) -> int:
    """Return what the service does with offsets. Where it adds them, a normal job's score lies ahead for half an hour;
    where it subtracts them, as the document does, none ever does.
    """
    if score is not None:
        return 1 if score is Score.CORRECTED else -1
    return 1 if not is_error(last) and last and float(last[1]) > now else -1
