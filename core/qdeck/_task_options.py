"""Options of tasks and of single calls: one place that checks them and converts them for the engine."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from enum import IntEnum
from typing import Any, Final, Literal

from qdeck._engine.codec import MAX_PRIORITY, UnreadableRecord, read_whole
from qdeck._errors import InvalidOption
from qdeck._queue_names import QueueName

MAX_TAGS: Final = 50
RETRIES: Final = 3
RETRY_DELAY_MS: Final = 5_000
MAX_DELAY_MS: Final = 3_600_000
_LONGEST_S: Final = 10 * 366 * 86_400
_LATEST_S: Final = 10**10 - 1  # in the year 2286: a score holds 13 digits of milliseconds
_TASK: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]{0,199}")


class Priority(IntEnum):
    """Names for priorities; any whole number from 0 to 899 will do, lower first."""

    CRITICAL = 0
    HIGH = 50
    NORMAL = 100
    LOW = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How to run the jobs of a task. Durations are milliseconds here; callers give seconds or a `timedelta`."""

    queue: str
    retries: int = RETRIES
    backoff: Literal["exponential", "fixed"] = "exponential"
    retry_delay_ms: int = RETRY_DELAY_MS
    max_delay_ms: int = MAX_DELAY_MS
    priority: int = int(Priority.NORMAL)
    time_limit_ms: int | None = None
    lease_ms: int | None = None
    expires_ms: int | None = None
    on_failure: str | None = None
    keep_result_ms: int | None = None
    process: bool = False

    def backoff_text(self) -> str | None:
        """Return the policy as a head carries it; None for the default."""
        if (self.backoff, self.retry_delay_ms, self.max_delay_ms) == ("exponential", RETRY_DELAY_MS, MAX_DELAY_MS):
            return None
        return f"{self.backoff[0].upper()} {self.retry_delay_ms} {self.max_delay_ms}"


def retry_delay_ms(backoff: str | None, attempt: int, jitter: float) -> int:
    """Return how long to wait after the failed attempt number `attempt`. `jitter` is from 0 to 1 and spreads by a
    quarter."""
    words = (backoff or f"E {RETRY_DELAY_MS} {MAX_DELAY_MS}").split(" ")
    if len(words) != 3:
        raise UnreadableRecord(f"its backoff cannot be read: {backoff!r}")
    kind, delay, longest = words[0], read_whole(words[1], "retry delay"), read_whole(words[2], "longest delay")
    if kind == "F":
        return delay
    # The cap leaves room for the spread, so that `max_delay` is the longest wait and not its middle.
    grown = min(delay * 2 ** min(attempt - 1, 40), longest / 1.25)
    return int(grown * (0.75 + jitter / 2))


def option_names() -> tuple[str, ...]:
    """Return the options that a task takes; a call takes them with an underscore before."""
    return tuple(field.name.removesuffix("_ms") for field in fields(Options))


def read_options(given: dict[str, Any], base: Options) -> Options:
    """Return options changed by what a task declares or a call overrides."""
    changed: dict[str, Any] = {}
    for name, value in given.items():
        reader = _READERS.get(name)
        if reader is None:
            known = ", ".join(option_names())
            raise InvalidOption(f"there is no option {name!r}", hint=f"Use one of: {known}")
        field, read = reader
        changed[field] = read(name, value)
    kept = {f.name: getattr(base, f.name) for f in fields(Options)}
    return Options(**(kept | changed))


def read_task_name(text: Any) -> str:
    """Return a task's name, as a head can carry it."""
    if not isinstance(text, str) or not _TASK.fullmatch(text):
        raise InvalidOption(
            f"task name {text!r} is not valid",
            hint="Use 1 to 200 of letters, digits and _ . : - starting with a letter.",
        )
    return text


def read_priority(name: str, value: Any) -> int:
    """Return a priority given by name or number."""
    if isinstance(value, str) and value.upper() in Priority.__members__:
        return int(Priority[value.upper()])
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_PRIORITY:
        return int(value)
    raise InvalidOption(
        f"{name} is {value!r}",
        hint=f"Give a whole number from 0 (first) to {MAX_PRIORITY}, or CRITICAL, HIGH, NORMAL, LOW.",
    )


def read_duration(name: str, value: Any) -> int:
    """Return a duration in seconds or as `timedelta`, as milliseconds."""
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or seconds != seconds:
        raise InvalidOption(f"{name} is {value!r}", hint="Give seconds as a number, or a timedelta.")
    if not 0 <= seconds <= _LONGEST_S:
        raise InvalidOption(f"{name} is {value!r}", hint="Give a duration from 0 to ten years.")
    return round(seconds * 1000)


def _read_positive(name: str, value: Any) -> int:
    ms = read_duration(name, value)
    if ms == 0:
        raise InvalidOption(f"{name} is {value!r}", hint="Give a duration longer than 0.")
    return ms


def _read_optional(name: str, value: Any) -> int | None:
    return None if value is None else _read_positive(name, value)


def _read_keep(name: str, value: Any) -> int | None:
    return None if value is None else read_duration(name, value)


def _read_retries(name: str, value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 10_000:
        return value
    raise InvalidOption(f"{name} is {value!r}", hint="Give how many more runs follow a failed one: 0 to 10,000.")


def _read_backoff(name: str, value: Any) -> str:
    if value in ("exponential", "fixed"):
        return str(value)
    raise InvalidOption(f"{name} is {value!r}", hint='Give "exponential" or "fixed".')


def _read_task(_name: str, value: Any) -> str | None:
    return None if value is None else read_task_name(getattr(value, "name", value))


def read_bool(name: str, value: Any) -> bool:
    """Return True or False; refuse values that only count as such: `_unique="CloneUrl"` is a mistake."""
    if isinstance(value, bool):
        return value
    raise InvalidOption(f"{name} is {value!r}", hint="Give True or False.")


def _read_queue(name: str, value: Any) -> str:
    if isinstance(value, str | QueueName):
        return str(value)
    raise InvalidOption(f"{name} is {value!r}", hint="Give a queue name such as shop:prod:orders:actions")


_READERS: Final[dict[str, tuple[str, Any]]] = {
    "queue": ("queue", _read_queue),
    "retries": ("retries", _read_retries),
    "backoff": ("backoff", _read_backoff),
    "retry_delay": ("retry_delay_ms", read_duration),
    "max_delay": ("max_delay_ms", read_duration),
    "priority": ("priority", read_priority),
    "time_limit": ("time_limit_ms", _read_optional),
    "lease": ("lease_ms", _read_optional),
    "expires": ("expires_ms", _read_optional),
    "on_failure": ("on_failure", _read_task),
    "keep_result": ("keep_result_ms", _read_keep),
    "process": ("process", read_bool),
}


def read_due(value: datetime | float) -> int:
    """Return a moment as milliseconds since the epoch."""
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise InvalidOption(f"_at is {value!r}", hint="Give a datetime with a time zone, such as datetime.now(UTC)")
        seconds = value.timestamp()
    elif isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidOption(f"_at is {value!r}", hint="Give a datetime with a time zone, or seconds since 1970.")
    else:
        seconds = value
    if not 0 <= seconds <= _LATEST_S:
        raise InvalidOption(f"_at is {value!r}", hint="Give a moment between the years 1970 and 2286.")
    return round(seconds * 1000)


def read_job_name(value: Any) -> str:
    """Return a job's name: any line of text of 1 to 200 characters."""
    if isinstance(value, str) and 0 < len(value) <= 200 and value.isprintable():
        return value
    raise InvalidOption(f"_name is {value!r}", hint="Give 1 to 200 printable characters on one line.")


def read_tags(value: Any) -> tuple[str, ...]:
    """Return tags: short words without commas."""
    if (
        not isinstance(value, list | tuple | set | frozenset)
        or len(value) > MAX_TAGS
        or not all(
            isinstance(tag, str) and 0 < len(tag) <= 100 and tag.isprintable() and "," not in tag for tag in value
        )
    ):
        raise InvalidOption(f"_tags is {value!r}", hint=f"Give a list of at most {MAX_TAGS} words without commas.")
    return tuple(value)
