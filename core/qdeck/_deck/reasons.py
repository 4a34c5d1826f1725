"""Why something is not done, stuck, stopped or risky: codes that programs compare, and the words for people."""

from __future__ import annotations

from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import msgspec

from qdeck._deck.queue_ref import QueueRef
from qdeck._deck.words import NATIVE

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence


class SkipCode(StrEnum):
    """Why a job is not in a plan, or was left alone by an apply or an undo. Scripts reply with the same codes."""

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

    def words(self, data: str = "") -> str:
        """Return the sentence, without the job as its subject."""
        return _SKIPS[self](data)


_SKIPS: Final[Mapping[SkipCode, Callable[[str], str]]] = MappingProxyType(
    {
        SkipCode.MOVED: lambda state: f"is {state} now",
        SkipCode.CHANGED: lambda key: f"{key} has changed since" if key else "has changed since",
        SkipCode.GONE: lambda key: f"is not in {key} any more" if key else "is gone",
        SkipCode.LEFT_STATE: lambda state: f"is not {state} any more",
        SkipCode.NOT_FOUND: lambda states: (
            f"there is no such job that is {states}" if states else "there is no such job"
        ),
        SkipCode.NO_MATCH: lambda _: "does not match the filter",
        SkipCode.WRONG_STATE: lambda state: f"is {state}",
        SkipCode.NO_LEASE: lambda _: "has no lease",
        SkipCode.NO_RECORD: lambda _: "has no record",
        SkipCode.LEASE_LOST: lambda _: "its worker has lost the lease for good; it waits in ready",
        SkipCode.RUNS_ANEW: lambda _: "was started again since",
        SkipCode.EXPIRED: lambda _: "may not start any more: it has expired",
        SkipCode.UNIQUE_HELD: lambda job_id: f"its unique name is held by {job_id}",
        SkipCode.OTHERS_WAIT: lambda _: "others wait for it",
        SkipCode.PARENT_ENDED: lambda _: "a job that it waited for has ended",
        SkipCode.ALREADY_ASKED: lambda _: "its cancellation was requested",
        SkipCode.ALREADY_THERE: lambda key: f"is in {key} already" if key else "is there again",
        SkipCode.WRONG_TYPE: lambda key: f"{key} holds another type of data",
        SkipCode.IN_USE: lambda _: "a reader waits on it",
        SkipCode.PAYLOAD_CHANGED: lambda _: "its payload has changed",
        SkipCode.UNDO_EXPIRED: lambda _: "its copy is not kept any more",
        SkipCode.UNDO_NOT_KEPT: lambda count: f"there was no room to keep what {int(count):,} jobs need to be undone",
        SkipCode.DEPENDENTS_NOT_KEPT: lambda count: f"there was no room to keep the state of {int(count):,} dependents",
        SkipCode.ID_NOT_TEXT: lambda _: "its id is not a text",
        SkipCode.QUEUE_NOT_TEXT: lambda _: "the name of its queue is not a text",
        SkipCode.NOT_CAPABLE: lambda why: why,
        SkipCode.UNREADABLE: lambda error: error,
    }
)


# Those whose sentence has another subject than the job.
_OWN_SUBJECT: Final = frozenset(
    {
        SkipCode.NOT_FOUND, SkipCode.LEASE_LOST, SkipCode.UNIQUE_HELD, SkipCode.OTHERS_WAIT, SkipCode.PARENT_ENDED,
        SkipCode.ALREADY_ASKED, SkipCode.WRONG_TYPE, SkipCode.PAYLOAD_CHANGED, SkipCode.UNDO_EXPIRED,
        SkipCode.UNDO_NOT_KEPT, SkipCode.DEPENDENTS_NOT_KEPT, SkipCode.ID_NOT_TEXT, SkipCode.QUEUE_NOT_TEXT,
        SkipCode.NOT_CAPABLE, SkipCode.UNREADABLE,
    }
)  # fmt: skip


class Skip(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A job that was left alone, with the code of the reason; without an id, a whole queue or many jobs."""

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
        """Return what was left alone: the job, else its queue, else its adapter."""
        return self.id or (self.ref.label(shared) if self.queue else self.adapter)

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
    """Why a batch stopped: `count` of the `ended` jobs, or of the first `count` jobs none within `seconds`."""

    code: StopCode
    count: int = 0
    ended: int = 0
    seconds: float = 0

    @property
    def text(self) -> str:
        """The sentence."""
        if self.code is StopCode.CANCELLED:
            return "it was cancelled"
        if self.code is StopCode.NONE_ENDED:
            return f"none of the first {self.count:,} ended within {self.seconds:.0f} s: does a worker run?"
        word = "failed" if self.code is StopCode.FAILED_AGAIN else "died"
        return f"{self.count:,} of the {self.ended:,} that ended {word} again: the rest was left where it is"

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


def _in_seconds(seconds: float) -> str:
    return f"{seconds:,.0f} s"


class Stuck(msgspec.Struct, frozen=True, kw_only=True):
    """Why one job is stuck; `name` is what belongs to the code: a state, a key, a job, or what is wrong with it."""

    code: StuckCode
    seconds: float = 0
    limit: float = 0
    name: str = ""

    def words(self, span: Callable[[float], str] = _in_seconds) -> str:
        """Return the reason, with durations as `span` writes them."""
        return _STUCK[self.code](self, span)

    def __str__(self) -> str:
        return self.words()


_STUCK: Final[Mapping[StuckCode, Callable[[Stuck, Callable[[float], str]], str]]] = MappingProxyType(
    {
        StuckCode.OWNER_GONE: lambda *_: "owner gone",
        StuckCode.LEASE_EXPIRED: lambda *_: "lease expired",
        StuckCode.OVER_LIMIT: lambda *_: "over its time limit",
        StuckCode.NO_LEASE: lambda *_: "no lease",
        StuckCode.UNKNOWN_TASK: lambda *_: "no worker knows its task",
        StuckCode.OWNER_UNKNOWN: lambda *_: "which worker has it since when cannot be read",
        StuckCode.RUNNING_TOO_LONG: lambda s, span: (
            f"{s.name} for {span(s.seconds)}, over {span(s.limit)}; whether its worker lives is not known here"
        ),
        StuckCode.STALLED: lambda *_: "it neither waits nor has ended: its worker left it, and no other takes it",
        StuckCode.VISIBILITY_EXPIRED: lambda s, span: (
            f"a worker has held it for {span(s.seconds)}, over the visibility timeout of {span(s.limit)}"
        ),
        StuckCode.HANDOVER_LOST: lambda s, _: f"it is not in {s.name}: no worker will find it",
        StuckCode.PAYLOAD_MISSING: lambda *_: "it has no record: the next worker drops it",
        StuckCode.UNSCHEDULABLE: lambda s, _: f"{s.name}: its workers stop at it, and what is behind it waits",
        StuckCode.OVERDUE: lambda s, span: f"due for {span(s.seconds)}, and no worker put it in line",
        StuckCode.WAITING_TOO_LONG: lambda s, span: f"{s.name} for {span(s.seconds)}, over {span(s.limit)}",
        StuckCode.PARENT_FAILED: lambda s, _: f"it waits for {s.name!r}, which failed",
        StuckCode.ALREADY_ENDED: lambda s, _: f"it has ended already, and is still in {s.name}",
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


class Caution(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What to know before a plan is applied; `name` is what belongs to the code: what stays, or which status."""

    code: CautionCode
    name: str = ""

    @property
    def text(self) -> str:
        """The sentence."""
        return _CAUTIONS[self.code](self.name)

    def as_json(self) -> dict[str, str]:
        """Return the form of `--json`."""
        return {"code": self.code.value, "message": self.text}

    def __str__(self) -> str:
        return self.text


_CAUTIONS: Final[Mapping[CautionCode, Callable[[str], str]]] = MappingProxyType(
    {
        CautionCode.NO_UNDO: lambda _: "this cannot be undone: the workers that have these jobs lose them for good",
        CautionCode.ELSEWHERE_UNCHANGED: lambda name: f"{name} stays as it is",
        CautionCode.STATUS_ELSEWHERE: lambda status: f"its worker drops it if its status in {status}; set it there too",
        CautionCode.DESTROYED_OUTSIDE: lambda name: f"undo does not bring back {name} that were destroyed meanwhile",
        CautionCode.HAS_DEPENDENTS: lambda _: "a job that another waits for by now would let it run",
        CautionCode.ORDER_UNKNOWN: lambda _: "from which end its readers take cannot be known",
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
            return f"{adapter} has nothing like {verb}"
        if self is CapabilityCode.STATE:
            return f"{verb} is for what is {' or '.join(states)} here, not {state}"
        return f"{adapter} cannot {verb}: {note or _INCAPABLE[self]}"


_INCAPABLE: Final[Mapping[CapabilityCode, str]] = MappingProxyType(
    {
        CapabilityCode.NO_SUCH_STATE: "its jobs have no such state",
        CapabilityCode.NO_DEAD_LETTERS: "it has no dead letters",
        CapabilityCode.BY_ITSELF: "it does that by itself",
        CapabilityCode.ELSEWHERE: "that is not done in Redis",
        CapabilityCode.CLUSTER: "the keys of a job are in several slots of the cluster",
    }
)
