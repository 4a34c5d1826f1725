"""What a schedule is: its definition as it is stored, and what a reader sees of it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from qdeck._engine import codec
from qdeck._engine.stored_numbers import digits, whole
from qdeck._errors import InvalidOption, PayloadTooLarge
from qdeck._schedules.rule import Rule, rule_of

if TYPE_CHECKING:
    from qdeck._engine.transitions import NewJob

MISSED: Final = ("skip", "once", "all")
MOST_MISSED: Final = 100  # turns that `all` makes up for at most
MAX_BODY: Final = 64 * 1024
AHEAD_S: Final = 120
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,95}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """A rule and the job that it makes. Tail and body are those of the engine, the same for every turn."""

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
        """The definition of a schedule that makes such jobs; raises when something about it is wrong."""
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise InvalidOption(
                f"schedule name {name!r} is not valid",
                hint="use 1 to 96 of letters, digits and . _ : - starting with a letter or digit",
            )
        if missed not in MISSED:
            raise InvalidOption(f"missed is {missed!r}", hint=f"give one of {', '.join(MISSED)}")
        if job.after or job.delay_ms is not None or job.due_ms is not None:
            raise InvalidOption(
                f"schedule {name!r}: its jobs cannot wait for a time or for other jobs",
                hint="the rule says when; let the job itself enqueue what must wait",
            )
        if len(job.body) > MAX_BODY:
            raise PayloadTooLarge(
                f"arguments of schedule {name!r} take {len(job.body):,} bytes, the limit is {MAX_BODY:,}",
                hint="store the data elsewhere and pass where it is",
            )
        Rule(cron, tz)  # raises when there is no such rule; one that is over by now stands in a program rightly
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

    def rule(self) -> Rule:
        """When its turns are."""
        return rule_of(self.cron, self.tz)

    def turn_id(self, turn: int) -> str:
        """The id of the job of one turn: whoever makes it, it is one."""
        return f"cron:{self.name}:{datetime.fromtimestamp(turn, UTC):%Y%m%dT%H%M%SZ}"

    def encode(self) -> bytes:
        """The definition as it is stored; equal definitions are equal bytes."""
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


def read_definition(name: str, raw: bytes) -> Definition:
    """Reads a stored definition; raises `ValueError` when it is none of ours."""
    said = codec.decode_json(raw)
    if not isinstance(said, dict) or said.get("v") != 1:
        raise ValueError("is not a definition of version 1")
    fields: dict[str, Any] = {}
    for field in ("queue", "task", "cron", "tz", "missed", "template", "body", "unique"):
        if not isinstance(said.get(field), str):
            raise ValueError(f"has no {field}")
        fields[field] = said[field]
    priority = whole(said.get("priority"))
    if priority is None:
        raise ValueError("has no priority")
    return Definition(name=name, priority=priority, **(fields | {"body": fields["body"].encode()}))


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """What is known about a schedule's runs."""

    enabled: bool = True
    since_ms: int = 0
    turn: int = 0  # the last that is settled, in seconds
    last_ms: int = 0
    missed: int = 0
    made: int = 0
    outcome: str = ""
    last_id: str = ""
    readable: bool = True

    def mark(self, now: int) -> int:
        """Turns after this moment are still to come, in seconds."""
        # A turn far ahead was settled while the server's clock was wrong.
        return max(self.turn if self.turn <= now + AHEAD_S else now, self.since_ms // 1000)


def read_past(raw: bytes | None) -> Past:
    """Reads the line that the script keeps; what is missing or broken counts as nothing known."""
    words = (raw or b"").decode("utf-8", "replace").split(" ")
    found = [number for word in words[:6] if (number := digits(word)) is not None]
    if len(words) != 8 or len(found) != 6:
        return Past(readable=raw is None)
    enabled, since, turn, last, missed, made = found
    outcome, last_id = words[6:]
    return Past(
        enabled=enabled == 1,
        since_ms=since,
        turn=turn,
        last_ms=last,
        missed=missed,
        made=made,
        outcome="" if outcome == "-" else outcome,
        last_id="" if last_id == "-" else last_id,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleRow:
    """One schedule as an operator sees it. `late_s` tells that a turn is due and nobody made it: no ticker runs."""

    name: str
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
    last_turn_ms: int | None = None
    last_id: str | None = None
    last_outcome: str | None = None
    missed: int = 0
    made: int = 0
    late_s: float | None = None
    problem: str = ""
