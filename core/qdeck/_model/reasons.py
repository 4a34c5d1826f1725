"""Codes for what is skipped, stuck, stopped, risky or impossible, which programs compare, and their words for
people.
"""

from __future__ import annotations

from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import msgspec

from qdeck._formatting import duration, threshold
from qdeck._model.queue_ref import QueueRef
from qdeck._model.words import NATIVE

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence


class SkipCode(StrEnum):
    """Why a job is not in a plan, or was skipped by an apply or an undo. Scripts reply with the same codes."""

    MOVED = "moved"
    CHANGED = "changed"
    GONE = "gone"
    LEFT_STATE = "left_state"
    NOT_FOUND = "not_found"
    NO_MATCH = "no_match"
    WRONG_STATE = "wrong_state"
    NO_LEASE = "no_lease"
    NO_RECORD = "no_record"
    LEASE_LOST = "lease_lost"
    RUNS_ANEW = "runs_anew"
    EXPIRED = "expired"
    UNIQUE_HELD = "unique_held"
    OTHERS_WAIT = "others_wait"
    PARENT_ENDED = "parent_ended"
    DEPENDENTS_STARTED = "dependents_started"
    ALREADY_ASKED = "already_asked"
    ALREADY_THERE = "already_there"
    WRONG_TYPE = "wrong_type"
    IN_USE = "in_use"
    PAYLOAD_CHANGED = "payload_changed"
    UNDO_EXPIRED = "undo_expired"
    UNDO_NOT_KEPT = "undo_not_kept"
    DEPENDENTS_NOT_KEPT = "dependents_not_kept"
    ID_NOT_TEXT = "id_not_text"
    QUEUE_NOT_TEXT = "queue_not_text"
    NOT_CAPABLE = "not_capable"
    UNREADABLE = "unreadable"
    PERMANENT = "permanent"

    def words(self, data: str = "") -> str:
        """Return the sentence, without the job as its subject."""
        return _SKIPS[self](data)


_SKIPS: Final[Mapping[SkipCode, Callable[[str], str]]] = MappingProxyType(
    {
        SkipCode.MOVED: lambda state: "has died since" if state == "dead" else f"is {state} now",
        SkipCode.CHANGED: lambda key: f"{key} has changed since" if key else "has changed since",
        SkipCode.GONE: lambda key: f"is no longer in {key}" if key else "is gone",
        SkipCode.LEFT_STATE: lambda state: f"is no longer {state}",
        SkipCode.NOT_FOUND: lambda states: (
            f"there is no such job that is {states}" if states else "there is no such job"
        ),
        SkipCode.NO_MATCH: lambda _: "does not match the filter",
        SkipCode.WRONG_STATE: lambda state: f"is {state}",
        SkipCode.NO_LEASE: lambda _: "has no lease",
        SkipCode.NO_RECORD: lambda _: "has no record",
        SkipCode.LEASE_LOST: lambda _: "it cannot be returned to its worker; it waits in ready",
        SkipCode.RUNS_ANEW: lambda _: "has started again",
        SkipCode.EXPIRED: lambda _: "has expired and will not be started",
        SkipCode.UNIQUE_HELD: lambda job_id: f"its unique name is held by {job_id}",
        SkipCode.OTHERS_WAIT: lambda _: "other jobs wait for it",
        SkipCode.PARENT_ENDED: lambda _: "a job that it waited for has ended",
        SkipCode.DEPENDENTS_STARTED: lambda _: "its dependents have started",
        SkipCode.ALREADY_ASKED: lambda _: "its cancellation was requested",
        SkipCode.ALREADY_THERE: lambda key: f"is in {key} already" if key else "exists again",
        SkipCode.WRONG_TYPE: lambda key: f"{key} holds another type of data",
        SkipCode.IN_USE: lambda _: "a reader is waiting on it",
        SkipCode.PAYLOAD_CHANGED: lambda _: "its payload has changed",
        SkipCode.UNDO_EXPIRED: lambda _: "its copy is no longer kept",
        SkipCode.UNDO_NOT_KEPT: lambda count: f"{int(count):,} jobs are beyond the undo limit",
        SkipCode.DEPENDENTS_NOT_KEPT: lambda count: f"{int(count):,} dependents are beyond the undo limit",
        SkipCode.ID_NOT_TEXT: lambda _: "its id is not a text",
        SkipCode.QUEUE_NOT_TEXT: lambda _: "the name of its queue is not a text",
        SkipCode.NOT_CAPABLE: lambda why: why,
        SkipCode.UNREADABLE: lambda error: error,
        SkipCode.PERMANENT: lambda where: f"the error is permanent; to retry it, name the job or the filter {where}",
    }
)


# Codes whose sentence has another subject than the job.
_OWN_SUBJECT: Final = frozenset(
    {
        SkipCode.NOT_FOUND, SkipCode.LEASE_LOST, SkipCode.UNIQUE_HELD, SkipCode.OTHERS_WAIT, SkipCode.PARENT_ENDED,
        SkipCode.DEPENDENTS_STARTED, SkipCode.ALREADY_ASKED, SkipCode.WRONG_TYPE, SkipCode.PAYLOAD_CHANGED,
        SkipCode.UNDO_EXPIRED, SkipCode.UNDO_NOT_KEPT, SkipCode.DEPENDENTS_NOT_KEPT, SkipCode.ID_NOT_TEXT,
        SkipCode.QUEUE_NOT_TEXT, SkipCode.NOT_CAPABLE, SkipCode.UNREADABLE, SkipCode.PERMANENT,
    }
)  # fmt: skip


class Skip(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A skipped job, with the code of the reason; without an id, a whole queue or many jobs."""

    code: SkipCode
    id: str = ""
    queue: str = ""
    adapter: str = NATIVE
    data: str = ""  # what belongs to the code: a state, an id, a number, or the text of an error

    @property
    def why(self) -> str:
        """The reason in words."""
        return self.code.words(self.data)

    @property
    def sentence(self) -> str:
        """The reason as a sentence of its own."""
        return self.why if self.code in _OWN_SUBJECT else f"it {self.why}"

    @property
    def ref(self) -> QueueRef:
        """The queue that it is of; without a name, one of several."""
        return QueueRef(self.adapter, self.queue)

    def subject(self, shared: Collection[str] = ()) -> str:
        """Return what was skipped: the job, else its queue, else its adapter."""
        return self.id or (self.ref.label(shared) if self.queue else self.adapter)

    def notice(self, shared: Collection[str] = ()) -> str:
        """Return one line that names what was skipped, with the reason."""
        if self.code is SkipCode.NOT_FOUND and self.id:
            that = f" that is {self.data}" if self.data else ""
            return f"no job {self.id}{that}{f' in {self.ref.label(shared)}' if self.queue else ''}"
        name = self.subject(shared)
        if not name:
            return self.why
        return f"skipped: {self.why}" if self.why.startswith(f"{name} ") else f"skipped {name}: {self.sentence}"

    def as_json(self) -> dict[str, str]:
        """Return the form of `--json`, of the agent's API and of its log."""
        return {
            "id": self.id, "code": self.code.value, "why": self.why, "adapter": self.adapter, "queue": self.queue,
        }  # fmt: skip


def skips_of(queue: str, reasons: Iterable[tuple[str, str, str]], adapter: str = NATIVE) -> list[Skip]:
    """Return the skips of a queue for what a script replied: id, code and data of each."""
    return [
        Skip(id=job_id, queue=queue, adapter=adapter, code=SkipCode(code), data=data) for job_id, code, data in reasons
    ]


class StopCode(StrEnum):
    """Why a batch stopped before its plan was done."""

    CANCELLED = "cancelled"
    DIED_AGAIN = "died_again"
    FAILED_AGAIN = "failed_again"
    NONE_ENDED = "none_ended"


class Stop(msgspec.Struct, frozen=True, kw_only=True):
    """Why a batch stopped: `count` of the `ended` jobs, or of the first `count` jobs none within `seconds`.

    `left` of the planned jobs were not reached; `is_sample` where the jobs that ended are a sample.
    """

    code: StopCode
    count: int = 0
    ended: int = 0
    seconds: float = 0
    left: int = 0
    is_sample: bool = False

    @property
    def text(self) -> str:
        """The sentence."""
        if self.code is StopCode.CANCELLED:
            return "it was cancelled"
        if self.code is StopCode.NONE_ENDED:
            return f"none of the first {self.count:,} ended within {self.seconds:.0f}s: check that a worker runs"
        word = "failed" if self.code is StopCode.FAILED_AGAIN else "died"
        jobs = "sampled jobs" if self.is_sample else "jobs that ended"
        left = f"; {self.left:,} not retried" if self.left else ""
        return f"{self.count:,} of {self.ended:,} {jobs} {word} again{left}"

    def __str__(self) -> str:
        return self.text


class StuckCode(StrEnum):
    """Why a job does not move, most urgent first."""

    OWNER_GONE = "owner_gone"
    LEASE_EXPIRED = "lease_expired"
    OVER_LIMIT = "over_limit"
    NO_LEASE = "no_lease"
    UNKNOWN_TASK = "unknown_task"
    OWNER_UNKNOWN = "owner_unknown"
    RUNNING_TOO_LONG = "running_too_long"
    STALLED = "stalled"
    VISIBILITY_EXPIRED = "visibility_expired"
    HANDOVER_LOST = "handover_lost"
    PAYLOAD_MISSING = "payload_missing"
    UNSCHEDULABLE = "unschedulable"
    OVERDUE = "overdue"
    WAITING_TOO_LONG = "waiting_too_long"
    PARENT_FAILED = "parent_failed"
    ALREADY_ENDED = "already_ended"


class Stuck(msgspec.Struct, frozen=True, kw_only=True):
    """Why one job is stuck, for how long, and since when if that is known.

    `name` is what belongs to the code: a state, a key, a job, or what is wrong with it.
    """

    code: StuckCode
    seconds: float = 0
    since_ms: int | None = None
    limit: float = 0
    name: str = ""

    @property
    def text(self) -> str:
        """The reason in words."""
        return _STUCK[self.code](self)

    def __str__(self) -> str:
        return self.text


def _passed(stuck: Stuck) -> str:
    return duration(1000 * stuck.seconds)


_STUCK: Final[Mapping[StuckCode, Callable[[Stuck], str]]] = MappingProxyType(
    {
        StuckCode.OWNER_GONE: lambda s: f"worker lost, lease expired {_passed(s)} ago" if s.seconds else "worker lost",
        StuckCode.LEASE_EXPIRED: lambda s: f"lease expired {_passed(s)} ago" if s.seconds else "lease expired",
        StuckCode.OVER_LIMIT: lambda _: "over the time limit",
        StuckCode.NO_LEASE: lambda _: "no lease",
        StuckCode.UNKNOWN_TASK: lambda _: "no worker has its task",
        StuckCode.OWNER_UNKNOWN: lambda _: "its lease cannot be read",
        StuckCode.RUNNING_TOO_LONG: lambda s: (
            f"{s.name} for {_passed(s)} (limit {threshold(s.limit)}); whether its worker is alive is unknown"
        ),
        StuckCode.STALLED: lambda _: "it neither waits nor has ended: its worker abandoned it, and no other takes it",
        StuckCode.VISIBILITY_EXPIRED: lambda s: (
            f"held by a worker for {_passed(s)} (visibility timeout {threshold(s.limit)})"
        ),
        StuckCode.HANDOVER_LOST: lambda s: f"it is not in {s.name}: no worker will find it",
        StuckCode.PAYLOAD_MISSING: lambda _: "it has no record: the next worker drops it",
        StuckCode.UNSCHEDULABLE: lambda s: f"{s.name}: workers stop at it, and the entries behind it wait",
        StuckCode.OVERDUE: lambda s: f"{_passed(s)} overdue: no worker has moved it to ready",
        StuckCode.WAITING_TOO_LONG: lambda s: f"{s.name} for {_passed(s)} (limit {threshold(s.limit)})",
        StuckCode.PARENT_FAILED: lambda s: f"it waits for {s.name!r}, which failed",
        StuckCode.ALREADY_ENDED: lambda s: f"it has ended, but is still in {s.name}",
    }
)


class CautionCode(StrEnum):
    """What to know before a plan is applied."""

    NO_UNDO = "no_undo"
    ELSEWHERE_UNCHANGED = "elsewhere_unchanged"
    STATUS_ELSEWHERE = "status_elsewhere"
    DESTROYED_OUTSIDE = "destroyed_outside"
    HAS_DEPENDENTS = "has_dependents"
    ORDER_UNKNOWN = "order_unknown"
    NEW_QUEUE = "new_queue"
    TARGET_UNSERVED = "target_unserved"
    TARGET_WITHOUT_TASK = "target_without_task"
    SOURCE_PAUSED = "source_paused"
    TARGET_PAUSED = "target_paused"
    NO_DEAD_LETTER = "no_dead_letter"
    RECORDS_END = "records_end"
    LOW_FIRST = "low_first"


class Caution(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What to know before a plan is applied; `name` is what belongs to the code: what stays, or which status."""

    code: CautionCode
    name: str = ""
    adapter: str = ""  # whose jobs it is about; native ones need no name

    @property
    def text(self) -> str:
        """The sentence, after the adapter."""
        words = _CAUTIONS[self.code](self.name)
        return f"{self.adapter}: {words}" if self.adapter else words

    def as_json(self) -> dict[str, str]:
        """Return the form of `--json`."""
        return {"code": self.code.value, "message": self.text}

    def __str__(self) -> str:
        return self.text


_CAUTIONS: Final[Mapping[CautionCode, Callable[[str], str]]] = MappingProxyType(
    {
        CautionCode.NO_UNDO: lambda _: "this cannot be undone: jobs cannot be returned to the workers that held them",
        CautionCode.ELSEWHERE_UNCHANGED: lambda name: f"{name} is not changed",
        CautionCode.STATUS_ELSEWHERE: lambda status: (
            f"workers drop a job unless its status in {status}: set that status as well"
        ),
        CautionCode.DESTROYED_OUTSIDE: lambda name: (
            f"{name} are destroyed outside Redis; undo restores only those not destroyed yet"
        ),
        CautionCode.HAS_DEPENDENTS: lambda _: (
            "discarding a job may release jobs that began to wait for it after this plan was made"
        ),
        CautionCode.NO_DEAD_LETTER: lambda _: "dlq_enabled is false: what is removed is not copied to the dead letters",
        CautionCode.RECORDS_END: lambda name: f"records of {name} that become orphans this way expire in an hour",
        CautionCode.LOW_FIRST: lambda _: (
            "a score is time minus offset and the lowest goes first: LOW first, CRITICAL last; for a service that adds "
            'the offset, set score = "corrected"'
        ),
        CautionCode.NEW_QUEUE: lambda name: f"the queue {name} does not exist and is created",
        CautionCode.TARGET_UNSERVED: lambda name: f"no live worker serves {name}",
        CautionCode.TARGET_WITHOUT_TASK: lambda name: f"no live worker of the target queue has {name}",
        CautionCode.SOURCE_PAUSED: lambda name: f"{name}; jobs that are moved can run",
        CautionCode.TARGET_PAUSED: lambda name: f"{name}; jobs that are moved wait until it is resumed",
        CautionCode.ORDER_UNKNOWN: lambda _: "it is unknown from which end readers take the entries of a list",
    }
)


class CapabilityCode(StrEnum):
    """Whether an adapter can do something to the jobs of a queue, and why not."""

    OK = "ok"
    STATE = "state"
    NO_SUCH_VERB = "no_such_verb"
    NO_SUCH_STATE = "no_such_state"
    NO_DEAD_LETTERS = "no_dead_letters"
    BY_ITSELF = "by_itself"
    ELSEWHERE = "elsewhere"
    CLUSTER = "cluster"

    def words(self, adapter: str, verb: str, *, note: str = "", states: Sequence[str] = (), state: str = "") -> str:
        """Return why a verb cannot be used, empty when it can; `note` is what the adapter adds."""
        if self is CapabilityCode.OK:
            return ""
        if self is CapabilityCode.NO_SUCH_VERB:
            return f"{adapter} does not support {verb}"
        if self is CapabilityCode.STATE:
            return f"{verb} applies to {' or '.join(states)} jobs here, not to {state} jobs"
        return f"{adapter} cannot {verb}: {note or _INCAPABLE[self]}"


_INCAPABLE: Final[Mapping[CapabilityCode, str]] = MappingProxyType(
    {
        CapabilityCode.NO_SUCH_STATE: "its jobs have no such state",
        CapabilityCode.NO_DEAD_LETTERS: "it has no dead letters",
        CapabilityCode.BY_ITSELF: "it does that itself",
        CapabilityCode.ELSEWHERE: "it does not do that in Redis",
        CapabilityCode.CLUSTER: "the keys of a job are in several slots of the cluster",
    }
)
