"""What an operation is made of, as values: the verbs, the entries of a plan, what was done and what was taken back.

Entries, heads and tails of plans are structs because a plan of a million entries goes through them.
"""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - structs look their types up when they are made
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final

import msgspec

from qdeck._deck.model import QueueRef, State
from qdeck._deck.reasons import Caution, CautionCode, Skip, Stop
from qdeck._settings.model import UsedRule  # noqa: TC001 - structs look their types up when they are made
from qdeck.adapters.native import VERBS

PLAN_FORMAT: Final = 2
PLAN_LIFE_MS: Final = 3_600_000
PLAN_MOST_LIFE_MS: Final = 24 * 3_600_000  # a file that says that it is good for longer was changed


class Verb(StrEnum):
    """What an operator can do to many jobs."""

    RETRY = "retry"
    DISCARD = "discard"
    CANCEL = "cancel"
    RUN = "run"
    REPRIORITISE = "reprioritise"
    REQUEUE = "requeue"
    BURY = "bury"
    MOVE = "move"
    EDIT = "edit"
    COMPLETE = "complete"
    """Of other adapters: ended well, without having run to its end."""
    PURGE = "purge"

    @property
    def states(self) -> tuple[State, ...]:
        """The states in which a job can be acted on this way."""
        return tuple(State) if self is Verb.PURGE else VERBS.get(self, ())


class PlanTotals(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What else a plan reaches: jobs that others wait for, with a unique name, running, with a failure handler.

    `unique_held` of them would be skipped, because another job holds their unique name by now.
    """

    dependents: int = 0
    unique: int = 0
    unique_held: int = 0
    running: int = 0
    failure_handlers: int = 0


class PlanHead(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The first line of a plan: what it is for, when and where it was made, and how long it is good."""

    plan: str
    verb: str
    created_ms: int
    expires_ms: int
    address: str
    format: int
    run_id: str | None = None
    db: int | None = None  # none in plans of before, which are not bound to one
    queues: list[QueueRef] = []
    shared: list[str] = []  # names that queues of several adapters had then
    registered: dict[str, str] = {}  # queue, as `adapter/name` → when it was registered, where that is kept
    filter: str = ""
    rules: list[UsedRule] = []  # of a purge
    by: str = ""
    reason: str = ""
    priority: int | None = None
    target: str | None = None
    limits: dict[str, Any] = {}  # of a purge: its thresholds
    adapter_settings: dict[str, str] = {}  # adapter → digest of its settings, where they are not the defaults

    @property
    def batch(self) -> str:
        """The id of the batch that its plan becomes: applied twice, by whomever, it is done once."""
        return f"b-{self.plan}"


class PlanTail(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The last line of a plan: its sums. A plan without one was not finished."""

    count: int
    scanned: int = 0
    bytes: int = 0
    states: dict[str, int] = {}
    rules: dict[str, int] = {}
    by_queue: dict[str, int] = {}  # by the text of the queue, `adapter/name`
    totals: PlanTotals = PlanTotals()
    skipped: tuple[Skip, ...] = ()
    cautions: tuple[Caution, ...] = ()
    digest: str = ""

    @property
    def has_no_undo(self) -> bool:
        """Whether native jobs of it cannot be given back to their workers."""
        return any(one.code is CautionCode.NO_UNDO for one in self.cautions)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchResult:
    """What applying a plan did. `cancel_requested` of the applied jobs are running and are ended by their worker; a
    purge counts those of each rule.

    `undoable` of the applied ones can be taken back until `undo_until_ms`; `error` tells why it ended before its plan
    did, and `stopped` that it was told to.
    """

    batch: str
    verb: Verb
    applied: int
    skipped: tuple[Skip, ...]
    skipped_count: int
    cancel_requested: int = 0
    by_rule: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    undoable: int = 0
    undo_until_ms: int | None = None
    queues: tuple[QueueRef, ...] = ()
    shared: tuple[str, ...] = ()  # names that queues of several adapters had when it was planned
    error: str | None = None
    stopped: Stop | None = None

    @property
    def labels(self) -> list[str]:
        """How its queues are shown."""
        return [ref.label(self.shared) for ref in self.queues]


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoResult:
    """What taking a batch back did. `dependents` had died with its jobs, or gone on without them, and wait again.

    `requeued` of the jobs ran when they were buried: their workers lost them, and they wait in ready now.
    `verb` is what the batch had done: `clean` took queues and `clean lists` lists, all others jobs.
    """

    batch: str
    restored: int
    skipped: tuple[Skip, ...]
    dependents: int = 0
    requeued: int = 0
    error: str | None = None
    verb: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcomes:
    """What happened to jobs after an operation, counted. `gone` ended so long ago that nothing is kept.

    Of other adapters: `failed_again` wait for another attempt by their own system, of `unknown` nothing is reported.
    """

    total: int = 0
    done: int = 0
    dead_again: int = 0
    waiting: int = 0
    running: int = 0
    cancelled: int = 0
    gone: int = 0
    failed_again: int = 0
    unknown: int = 0

    @property
    def pending(self) -> int:
        """How many wait, for the first or for another attempt."""
        return self.waiting + self.failed_again

    @property
    def settled(self) -> int:
        """How many have ended."""
        return self.done + self.dead_again + self.cancelled + self.gone

    @property
    def over(self) -> int:
        """How many have ended, or left without an outcome that could be seen, or wait for long after a failure."""
        return self.settled + self.failed_again + self.unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class Activity:
    """One line of the log of operations. `detail` names what no filter does, such as a schedule."""

    at_ms: int
    who: str
    host: str
    verb: str
    queues: tuple[str, ...] = ()
    filter: str = ""
    detail: str = ""
    rules: tuple[UsedRule, ...] = ()  # of a purge
    counts: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    outcome: str = "done"
    batch: str | None = None
    plan: str | None = None
    reason: str = ""
    undo_until_ms: int | None = None
