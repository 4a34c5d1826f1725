"""The values of the adapter protocol: entries and their sources, capabilities, outcomes, numbers for health.

Values are structs, because a data class takes half a millisecond to make, and `qdeck status` makes all of these.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping  # noqa: TC003 - structs look their types up when they are asked for
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeAlias, TypeVar

import msgspec

from qdeck._errors import InvalidOption, UsageError
from qdeck._model.queue_ref import QueueRef  # noqa: TC001 - structs look their types up when they are made
from qdeck._model.reasons import CapabilityCode, SkipCode
from qdeck._model.values import JobRecord, Measure, QueueRow, State

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

T = TypeVar("T")
C = TypeVar("C")

SLICE: Final = 500
PERMANENT: Final = "permanent"  # the tag of a dead letter whose error stays until somebody changes a configuration
NO_QUEUE: Final = "\0"  # in place of a queue: what is of no queue in particular, such as dead letters of all pools
MOST_RUNS_S: Final = 7_200  # how long a job may run that has no lease, until it counts as stuck
KEEP_NAMES: Final = 1000  # of one group
_SHORT: Final = 64  # bytes of what a plan keeps whole
_HIDDEN: Final = "~"  # before a digest


class Kind(StrEnum):
    """The type of a key on the server."""

    ZSET = "zset"
    SET = "set"
    HASH = "hash"
    LIST = "list"
    STREAM = "stream"
    """The entries of a stream that were not delivered to its consumer group yet."""
    PENDING = "pending"
    """The entries of a stream that were delivered to a consumer of its group and not acknowledged."""
    NAMES = "names"
    """Not a key but a glob: the entries are the keys whose names match."""


class Part(StrEnum):
    """The parts of an entry that its system may store separately."""

    RECORD = "record"
    """Its task, times and state."""
    ERROR = "error"
    """Class and message of its last error."""
    BODY = "body"
    """The payload."""


Want: TypeAlias = frozenset[Part]
ALL: Final[Want] = frozenset(Part)


class Capability(msgspec.Struct, frozen=True, kw_only=True):
    """Whether an adapter supports a verb: the states to which it applies, and a note, or the reason why not."""

    states: tuple[State, ...] = ()
    code: CapabilityCode = CapabilityCode.OK
    note: str = ""

    @property
    def can(self) -> bool:
        """Whether the verb is supported."""
        return self.code is CapabilityCode.OK


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """A key that holds entries of some state, listed in the order in which they are consumed.

    A sorted set is listed from its lowest score, with `down` from its highest; a list from the left, with `down` from
    the right. Of a stream, `group` is the consumer group.
    """

    key: bytes
    kind: Kind
    state: State
    native_state: str
    down: bool = False
    group: bytes = b""


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """The exact bytes of an entry as it was read, which a change compares first.

    `at` is its index in a list, negative from the right end, where it is searched first. A plan keeps digests of long
    values: then `hides_member` or `hides_value` is set, until it is read again.
    """

    key: bytes
    member: bytes
    score: bytes | None = None
    value: bytes | None = None
    at: int | None = None
    hides_member: bool = False
    hides_value: bool = False

    def __str__(self) -> str:
        parts = [self.key, self.member, self.score, self.value]
        parts += [] if self.at is None else [b"%d" % self.at]
        texts = ["-" if part is None else base64.urlsafe_b64encode(part).decode() for part in parts]
        texts[1] = _HIDDEN * self.hides_member + texts[1]
        texts[3] = _HIDDEN * self.hides_value + texts[3]
        return ".".join(texts)

    @property
    def mark(self) -> str:
        """Return what stays equal while an entry is unchanged: everything but its index in a list."""
        return str(msgspec.structs.replace(self.shortened(), at=None))

    def shortened(self, *, member: bool = True) -> Seen:
        """Return what a plan keeps: long members and values are replaced by digests."""
        hides_member = member and not self.hides_member and len(self.member) > _SHORT
        hides_value = self.value is not None and not self.hides_value and len(self.value) > _SHORT
        return msgspec.structs.replace(
            self,
            member=digest_of(self.member) if hides_member else self.member,
            value=digest_of(self.value) if hides_value and self.value is not None else self.value,
            hides_member=self.hides_member or hides_member,
            hides_value=self.hides_value or hides_value,
        )

    @classmethod
    def parse(cls, text: str) -> Seen:
        """Parse what `str` returned, as it is stored in a plan."""
        try:
            texts = text.split(".")
            parts = [None if part == "-" else base64.urlsafe_b64decode(part.lstrip(_HIDDEN)) for part in texts]
            key, member, score, value, at = parts if len(parts) > 4 else (*parts, None)
            place = None if at is None else int(at)
        except ValueError as error:
            raise InvalidOption(
                f"{text!r} is not the version of a planned job", hint="Use the version from a plan."
            ) from error
        hidden = [part.startswith(_HIDDEN) for part in texts]
        return cls(
            key=key or b"", member=member or b"", score=score, value=value, at=place,
            hides_member=hidden[1], hides_value=hidden[3],
        )  # fmt: skip


class Raw(msgspec.Struct, frozen=True, kw_only=True):
    """An entry of a source, not decoded.

    Of a stream, `member` is its id and `value` has its fields, as `cells.unpacked` reads them; of a pending one,
    `score` is `deliveries:consumer`, and `idle_ms` says how long ago it was given to its consumer.
    """

    source: Source
    member: bytes
    score: bytes | None = None
    value: bytes | None = None
    at: int | None = None
    idle_ms: int | None = None

    def seen(self, value: bytes | None = None, *, score: bytes | None = None) -> Seen:
        """Return what a change compares: this and, if they are stored elsewhere, a value or a score."""
        value, score = value or self.value, score or self.score
        return Seen(key=self.source.key, member=self.member, score=score, value=value, at=self.at)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry(JobRecord):
    """A job in a queue of another system; `problem` says what is wrong with it."""

    has_all_facts: ClassVar[bool] = False

    seen: Seen
    queue_from: str | None = None
    log: str | None = None
    depends_on: tuple[str, ...] = ()

    @property
    def handle(self) -> str:
        """Its key: several entries may have one id."""
        return self.key

    @property
    def is_permanent(self) -> bool:
        """Whether its system would not try again after its error."""
        return PERMANENT in self.tags


class StateHealth(msgspec.Struct, frozen=True, kw_only=True):
    """The numbers of one state of one queue; ages are of entries whose age is known, `unknown` counts the others."""

    queue: str
    state: State
    size: int | None
    oldest_s: float | None = None
    average_s: float | None = None
    stuck: int | None = None
    exact: bool = True
    unknown: int = 0


class AdapterHealth(msgspec.Struct, frozen=True, kw_only=True):
    """The numbers of an adapter for the health checks. None is unknown.

    `facts` are further facts about the system, as JSON; None for an adapter that is not listed there. `rates` are per
    minute, by name.
    """

    states: tuple[StateHealth, ...] = ()
    tasks: Mapping[str, tuple[int | None, int | None]] = msgspec.field(default_factory=lambda: MappingProxyType({}))
    orphaned: int | None = None
    facts: Mapping[str, Any] | None = msgspec.field(default_factory=lambda: MappingProxyType({}))
    notices: tuple[str, ...] = ()
    rates: Mapping[str, float | None] = msgspec.field(default_factory=lambda: MappingProxyType({}))


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """The queues of an adapter at one moment; `unread` names the keys that are ignored, with the reason.

    `measures` are checked in addition to the numbers of its queues; `late_schedules` are queues with the names of those
    recurring jobs that are due and did not run.
    """

    rows: tuple[QueueRow, ...] = ()
    notices: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    measures: tuple[Measure, ...] = ()
    late_schedules: tuple[tuple[QueueRef, str], ...] = ()


class Outcome(StrEnum):
    """What happened to an entry since it was retried."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    DEAD = "dead_again"
    FAILED = "failed_again"
    """It failed again, and its own system will retry it."""
    CANCELLED = "cancelled"
    GONE = "gone"
    """It ended so long ago that nothing is stored about it."""
    UNKNOWN = "unknown"
    """It is no longer waiting, and its outcome is not stored."""


class Retried(msgspec.Struct, frozen=True, kw_only=True):
    """A dead letter that was retried: its id, its bytes, and the earliest time of the retry.

    A `twin` has an equal entry beside it.
    """

    id: str
    seen: Seen
    since_ms: int
    twin: bool = False


class FoundKeys(msgspec.Struct):
    """Keys that belong together: how many there are, and the names of the first of them."""

    count: int = 0
    names: list[bytes] = []

    def add(self, name: bytes) -> None:
        """Add a key; a scan may return the same one twice."""
        if len(self.names) < KEEP_NAMES:
            if name in self.names[-20:]:
                return
            self.names.append(name)
        self.count += 1


@dataclass(slots=True)
class Discovered:
    """What a refresh found of an adapter's keys."""

    types: Mapping[bytes, str] = field(default_factory=dict)
    groups: Mapping[str, FoundKeys] = field(default_factory=dict)
    complete: bool = True

    @property
    def is_there(self) -> bool:
        """Whether any key of this adapter exists."""
        return any(kind != "none" for kind in self.types.values()) or bool(self.groups)


def age_s(now: int, since_ms: int | None) -> float | None:
    """Return how long ago something was, never negative; None if unknown."""
    return None if since_ms is None else max(0, now - since_ms) / 1000


def digest_of(raw: bytes) -> bytes:
    """Return the digest that replaces long bytes in a plan."""
    return hashlib.sha256(raw).digest()[:16]


def short(raw: bytes) -> str:
    """Return a short name for an entry without an id."""
    digest = hashlib.sha256(raw).digest()
    return base64.b32encode(digest[:10]).decode().lower()


class Skipped(UsageError):
    """Why a verb skips an entry: the code of the reason, and its data."""

    def __init__(self, code: SkipCode, data: str = "") -> None:
        super().__init__(code.words(data))
        self.code, self.data = code, data

    @classmethod
    def because(cls, why: str) -> Skipped:
        """Return one for a reason of the system itself, which has no code."""
        return cls(SkipCode.NOT_CAPABLE, why)


def change_each(build: Callable[[T], C], items: Iterable[T]) -> list[C | Skipped]:
    """Return the change that `build` makes for each item, or the `Skipped` that it raises."""
    found: list[C | Skipped] = []
    for item in items:
        try:
            found.append(build(item))
        except Skipped as skipped:
            found.append(skipped)
    return found
