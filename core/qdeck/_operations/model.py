"""The values of operations: the verbs, the entries of a plan, the results of a batch and of its undo.

Entries, heads and tails of plans are structs because a plan of a million entries goes through them.
"""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - structs look their types up when they are made
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

import msgspec

from qdeck._errors import InvalidOption
from qdeck._model.reasons import Caution, CautionCode, Skip, Stop
from qdeck._model.values import QueueRef  # noqa: TC001 - structs look their types up when they are made
from qdeck._model.words import Verb
from qdeck._settings.model import UsedRule  # noqa: TC001 - structs look their types up when they are made
from qdeck.adapters.plans import PlanTotals

PLAN_FORMAT: Final = 2
REDRIVE: Final = "redrive"  # the detail that the log has of one
PLANNED: Final = tuple(verb for verb in Verb if verb is not Verb.EXPIRE)
PLAN_LIFE_MS: Final = 3_600_000
PLAN_MOST_LIFE_MS: Final = 24 * 3_600_000  # a file that claims to be valid for longer was changed


def planned_verb(word: str) -> Verb:
    """Return the verb of a plan: only rules of a purge let jobs expire."""
    if word not in PLANNED:
        raise InvalidOption(f"{word!r} is not a verb", hint=f"Use one of: {', '.join(PLANNED)}")
    return Verb(word)


def nouns_of(verb: str) -> tuple[str, str]:
    """Return what a batch of that verb changes: one of them, and several."""
    return {"clean": ("queue", "queues"), "purge": ("entry", "entries")}.get(verb, ("job", "jobs"))


class PlanHead(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The first line of a plan: what it is for, when and where it was made, and until when it is valid."""

    plan: str
    verb: str
    created_ms: int
    expires_ms: int
    address: str
    format: int
    run_id: str | None = None
    db: int | None = None  # none in older plans, which are not bound to one
    queues: list[QueueRef] = []
    shared: list[str] = []  # names that queues of several adapters had then
    registered: dict[str, str] = {}  # queue, as `adapter/name` → when it was registered, where that is kept
    filter: str = ""
    rules: list[UsedRule] = []  # of a purge
    by: str = ""
    reason: str = ""
    priority: int | None = None
    target: str | None = None
    ignore_dependencies: bool = False  # of a retry
    limits: dict[str, Any] = {}  # of a purge: its thresholds
    adapter_settings: dict[str, str] = {}  # adapter → digest of its settings, where they are not the defaults

    @property
    def batch(self) -> str:
        """The id of the batch that its plan becomes: a plan that is applied twice, by any user, is done once."""
        return f"b-{self.plan}"


class PlanTail(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The last line of a plan: its sums. A plan without one was not finished."""

    count: int
    scanned: int = 0
    bytes: int = 0
    states: dict[str, int] = {}
    rules: dict[str, int] = {}
    by_queue: dict[str, int] = {}  # by the text of the queue, `adapter/name`
    totals: PlanTotals = msgspec.field(default_factory=PlanTotals)
    skipped: tuple[Skip, ...] = ()
    cautions: tuple[Caution, ...] = ()
    undoable: int | None = None  # about how many of them can be undone, beside other batches; None for all
    digest: str = ""

    @property
    def has_no_undo(self) -> bool:
        """Whether it has native jobs that their workers cannot get back."""
        return any(one.code is CautionCode.NO_UNDO for one in self.cautions)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchResult:
    """What applying a plan did. `cancel_requested` of the applied jobs are running and are ended by their worker; a
    purge counts those of each rule.

    `undoable` of the applied ones can be undone until `undo_until_ms`; `error` says why it ended before its plan
    did, and `stopped` that it was cancelled or that a stop rule ended it. One that `is_undone` was undone meanwhile.
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
    is_undone: bool = False

    @property
    def nouns(self) -> tuple[str, str]:
        """What it changed: one of them, and several."""
        return nouns_of(self.verb.value)

    @property
    def labels(self) -> list[str]:
        """How its queues are shown."""
        return [ref.label(self.shared) for ref in self.queues]


class Undo(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The undo of a batch: by whom and when, and what it restored when it `ended`."""

    by: str
    at_ms: int
    open_until_ms: int = 0
    ended: bool = False
    restored: int = 0
    skipped: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoResult:
    """What an undo did. `dependents` had died with its jobs, or continued without them, and wait again.

    `requeued` of the jobs ran when they were buried: their workers lost them, and they wait in ready now. `left` of the
    skipped ones can be restored by a later undo of the batch.
    `verb` is what the batch had done: `clean` took queues and `clean lists` lists, all others jobs. With `earlier` it
    had been undone before, and nothing was written.
    """

    batch: str
    restored: int
    skipped: tuple[Skip, ...]
    dependents: int = 0
    requeued: int = 0
    left: int = 0
    error: str | None = None
    verb: str = ""
    earlier: Undo | None = None

    @property
    def nouns(self) -> tuple[str, str]:
        """What it restored: one of them, and several."""
        return nouns_of(self.verb)


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
    def ended(self) -> int:
        """How many have ended."""
        return self.done + self.dead_again + self.cancelled + self.gone

    @property
    def over(self) -> int:
        """How many have ended, or left without a visible outcome, or wait long after a failure."""
        return self.ended + self.failed_again + self.unknown

    @property
    def left_to_undo(self) -> int:
        """How many of these retried jobs an undo can restore: those that wait, and those of unknown outcome."""
        return self.pending + self.unknown

    @property
    def no_undo(self) -> str:
        """Why an undo of these retried jobs restores nothing; empty where it restores some."""
        if not self.total or self.left_to_undo:
            return ""
        if self.dead_again < self.total:
            return "no job of it is waiting"
        one = self.total == 1
        return "the job is a dead letter again" if one else f"the {self.total:,} jobs are dead letters again"


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
    continued_by: str = ""  # the operator who applied the rest of what was interrupted

    @property
    def is_redrive(self) -> bool:
        """Whether it is a retry with a sample or a rule that stops it."""
        return self.verb == Verb.RETRY and self.detail == REDRIVE
