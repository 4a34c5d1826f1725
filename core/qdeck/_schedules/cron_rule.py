"""The runs of a cron rule: wall-clock times of a zone, as rising moments."""

from __future__ import annotations

import heapq
import re
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from itertools import takewhile
from typing import TYPE_CHECKING, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from qdeck._errors import InvalidOption
from qdeck._formatting import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_CRON: Final = 200
MAX_COUNTED: Final = 300  # past runs that are counted at most
_DAY: Final = 86_400
_FIELDS: Final = 5  # that a rule has at least: a sixth is seconds, a seventh the year
_YEARS: Final = 130  # from 1970 to beyond the last year that a rule can name
_ZONE: Final = re.compile(r"[A-Za-z0-9_+/-]{1,64}")


class CronRule:
    """A cron expression in a time zone. Moments are whole seconds since the epoch.

    Every wall-clock time that matches is one run: one that the clock skips is made when the clock would have shown it
    (02:30 of a night that has none is 03:30), one that it shows twice is made the first time. Only where every hour
    matches, both passes of a repeated hour are runs, so that a rule of every ten minutes does not pause for an hour.
    """

    def __init__(self, cron: str, tz: str = "UTC") -> None:
        self.cron = cron
        self.tz = tz
        self._zone = _read_zone(tz)
        self._every_hour = _read_cron(cron)
        self._offsets: dict[int, tuple[int, int]] = {}
        if self.next(0) is None:
            raise InvalidOption(f"cron {cron!r} has no runs", hint="Name a day that the month has.")

    def __repr__(self) -> str:
        return f"<CronRule {self.cron} {self.tz}>"

    def next(self, moment: int) -> int | None:
        """Return the first run after a moment."""
        return next(self.after(moment), None)

    def after(self, moment: int) -> Iterator[int]:
        """Return the runs after a moment, in order, without end if the rule has none."""
        last, waiting = moment, list[int]()
        for wall in self._walls(moment + self._offsets_near(moment)[0]):
            # No later wall-clock time has a run before this.
            bound = int(wall.replace(tzinfo=UTC).timestamp())
            bound -= self._offsets_near(bound)[1]
            while waiting and waiting[0] <= bound:
                run = heapq.heappop(waiting)
                if run > last:
                    last = run
                    yield run
            for run in self._runs_of(wall):
                heapq.heappush(waiting, run)
        while waiting:
            run = heapq.heappop(waiting)
            if run > last:
                last = run
                yield run

    def last_runs(self, moment: int, until: int, most: int) -> tuple[list[int], int]:
        """Return the last runs after a moment and until another, at most `most`, and how many came before them.

        More than `MAX_COUNTED` runs are not counted, so that a rule of every minute that was not served for a year does
        not block its ticker.
        """
        span = 60
        while True:
            start = max(moment, until - span)
            runs = list(takewhile(lambda run: run <= until, self.after(start)))
            if start == moment or len(runs) > MAX_COUNTED:
                break
            span *= 8
        runs = runs[-MAX_COUNTED:]
        kept = runs[-most:] if most else []
        return kept, len(runs) - len(kept)

    def _walls(self, start: int) -> Iterator[datetime]:
        from croniter import croniter

        # As if it were UTC: croniter only steps through the calendar, and no zone's clock confuses it.
        # By default it gives up after 50 years: too early for a rule that names a year.
        steps = croniter(self.cron, datetime.fromtimestamp(start, UTC), max_years_between_matches=_YEARS)
        while True:
            try:
                wall: datetime = steps.get_next(datetime)
            except (OverflowError, ValueError):  # croniter's own errors are ValueErrors
                return
            yield wall.replace(tzinfo=None)

    def _runs_of(self, wall: datetime) -> tuple[int, ...]:
        first = _moment(wall.replace(tzinfo=self._zone))
        if not self._every_hour:
            return (first,)
        again = _moment(wall.replace(tzinfo=self._zone, fold=1))
        return (first, again) if again > first else (first,)

    def _offsets_near(self, moment: int) -> tuple[int, int]:
        """Return the smallest and the greatest offset of the zone within a day or two, in seconds."""
        day = moment // _DAY
        found = self._offsets.get(day)
        if found is None:
            if len(self._offsets) > 1000:
                self._offsets.clear()
            start = datetime.fromtimestamp(day * _DAY, UTC)
            seen = []
            for hours in range(-48, 73, 6):
                offset = (start + timedelta(hours=hours)).astimezone(self._zone).utcoffset()
                seen.append(0 if offset is None else int(offset.total_seconds()))
            found = self._offsets[day] = min(seen), max(seen)
        return found


@lru_cache(maxsize=2048)
def rule_of(cron: str, tz: str) -> CronRule:
    """Return the rule of an expression and a zone, cached: readers need all of them often."""
    return CronRule(cron, tz)


def _moment(when: datetime) -> int:
    return int(when.timestamp())


def _read_zone(tz: str) -> tzinfo:
    if tz == "UTC":
        return UTC
    try:
        if not isinstance(tz, str) or not _ZONE.fullmatch(tz):
            raise ValueError(tz)
        return ZoneInfo(tz)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise InvalidOption(
            f"there is no time zone {tz!r}",
            hint="Give a name such as Europe/Madrid; where the system has no zones: pip install tzdata",
        ) from error


def _read_cron(cron: str) -> bool:
    """Check an expression; return whether every hour matches."""
    from croniter import croniter

    hint = "Write five fields: minute hour day month weekday, such as */30 * * * *."
    if not isinstance(cron, str) or not 0 < len(cron) <= MAX_CRON or not cron.isprintable():
        raise InvalidOption(f"cron is {cron!r}", hint=hint)
    if re.search(r"\b[RrHh]\b(?!\w)", cron) and not cron.startswith("@"):
        raise InvalidOption(f"cron {cron!r}: R and H are random", hint="Write the times themselves.")
    if not cron.startswith("@") and (count := len(cron.split())) < _FIELDS:
        raise InvalidOption(f"cron {cron!r} has {counted(count, 'field')}; five are needed", hint=hint)
    try:
        fields = croniter.expand(cron)[0]
    except (ValueError, TypeError, KeyError) as error:
        raise InvalidOption(f"cron {cron!r} cannot be read: {error}", hint=hint) from error
    return bool(fields[1] == ["*"])
