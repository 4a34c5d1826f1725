"""What a schedule is: its stored definition, its stored state, and its row for operators."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from qdeck._engine import codec
from qdeck._engine.stored_numbers import digits, whole
from qdeck._errors import InvalidOption, PayloadTooLarge
from qdeck._schedules.cron_rule import CronRule, rule_of

if TYPE_CHECKING:
    from qdeck._engine.transitions import NewJob

MISSED: Final = ("skip", "once", "all")
MAX_MISSED: Final = 100  # missed runs that `all` makes at most
MAX_BODY: Final = 64 * 1024
AHEAD_S: Final = 120
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,95}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """A rule and the job that it makes. Template and body are those of the engine, the same for every run."""

    name: str
    queue: str
    task: str
    cron: str
    tz: str
    missed: str
    priority: int
    template: str
    body: bytes
    unique: str = ""

    @classmethod
    def of(cls, name: str, queue: str, job: NewJob, *, cron: str, tz: str = "UTC", missed: str = "once") -> Definition:
        """Return the definition of a schedule that makes such jobs; raise for invalid values."""
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise InvalidOption(
                f"schedule name {name!r} is not valid",
                hint="Use 1 to 96 of letters, digits and . _ : - starting with a letter or digit.",
            )
        if missed not in MISSED:
            raise InvalidOption(f"missed is {missed!r}", hint=f"Give one of {', '.join(MISSED)}")
        if job.after or job.delay_ms is not None or job.due_ms is not None:
            raise InvalidOption(
                f"schedule {name!r}: its jobs cannot wait for a time or for other jobs",
                hint="The rule says when; let the job itself enqueue what must wait.",
            )
        if len(job.body) > MAX_BODY:
            raise PayloadTooLarge(
                f"arguments of schedule {name!r} take {len(job.body):,} bytes, the limit is {MAX_BODY:,}",
                hint="Store the data elsewhere and pass its location.",
            )
        CronRule(cron, tz)  # raises for an invalid rule; one that is over by now is valid
        task = job.template.split("\n", 1)[0].split(" ", 2)[2]
        return cls(
            name=name,
            queue=queue,
            task=task,
            cron=cron,
            tz=tz,
            missed=missed,
            priority=job.priority,
            template=job.template,
            body=job.body,
            unique=job.unique,
        )

    def rule(self) -> CronRule:
        """Return its cron rule."""
        return rule_of(self.cron, self.tz)

    def run_id(self, run: int) -> str:
        """Return the id of the job of one run: made twice, it is one job."""
        return f"cron:{self.name}:{datetime.fromtimestamp(run, UTC):%Y%m%dT%H%M%SZ}"

    def encode(self) -> bytes:
        """Return the definition as it is stored; equal definitions are equal bytes."""
        return codec.encode_json(
            {
                "v": 1,
                "queue": self.queue,
                "task": self.task,
                "cron": self.cron,
                "tz": self.tz,
                "missed": self.missed,
                "priority": self.priority,
                "template": self.template,
                "body": self.body.decode(),
                "unique": self.unique,
            }
        )


def version_of(raw: bytes) -> str:
    """Return the version of a stored definition: another one has another version."""
    return hashlib.sha256(raw).hexdigest()[:16]


def read_definition(name: str, raw: bytes) -> Definition:
    """Read a stored definition; raise `ValueError` for another text."""
    stored = codec.decode_json(raw)
    if not isinstance(stored, dict) or stored.get("v") != 1:
        raise ValueError("is not a definition of version 1")
    fields: dict[str, Any] = {}
    for field in ("queue", "task", "cron", "tz", "missed", "template", "body", "unique"):
        if not isinstance(stored.get(field), str):
            raise ValueError(f"has no {field}")
        fields[field] = stored[field]
    priority = whole(stored.get("priority"))
    if priority is None:
        raise ValueError("has no priority")
    return Definition(name=name, priority=priority, **(fields | {"body": fields["body"].encode()}))


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleState:
    """What is stored about the runs of a schedule."""

    enabled: bool = True
    since_ms: int = 0
    last_run: int = 0  # the last run that was handled, in seconds
    last_ms: int = 0
    missed_runs: int = 0
    jobs_made: int = 0
    outcome: str = ""
    last_id: str = ""
    readable: bool = True

    def handled_until(self, now: int) -> int:
        """Return the runs after this moment, in seconds."""
        # A run far ahead was recorded while the server's clock was wrong.
        return max(self.last_run if self.last_run <= now + AHEAD_S else now, self.since_ms // 1000)


def read_state(raw: bytes | None) -> ScheduleState:
    """Read the line that the script keeps; what is missing or broken counts as no runs."""
    words = (raw or b"").decode("utf-8", "replace").split(" ")
    found = [number for word in words[:6] if (number := digits(word)) is not None]
    if len(words) != 8 or len(found) != 6:
        return ScheduleState(readable=raw is None)
    enabled, since, run, last, missed, made = found
    outcome, last_id = words[6:]
    return ScheduleState(
        enabled=enabled == 1,
        since_ms=since,
        last_run=run,
        last_ms=last,
        missed_runs=missed,
        jobs_made=made,
        outcome="" if outcome == "-" else outcome,
        last_id="" if last_id == "-" else last_id,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleRow:
    """One schedule, as operators see it. `late_s` is set when a run is due and no ticker made it; `adapter` is None for
    a native one, and only those can be changed: `why_fixed` is why another one cannot. `next_id` is the delayed job of
    the next run, where its system makes it ahead.
    """

    name: str
    adapter: str | None = None
    version: str = ""
    queue: str = ""
    task: str = ""
    cron: str = ""
    tz: str = ""
    policy: str = ""
    priority: int | None = None
    payload: bytes = b""
    enabled: bool = True
    next_ms: int | None = None
    last_ms: int | None = None
    last_run_ms: int | None = None
    last_id: str | None = None
    next_id: str | None = None
    last_outcome: str | None = None
    missed_runs: int = 0
    jobs_made: int = 0
    late_s: float | None = None
    problem: str = ""
    why_fixed: str = ""
