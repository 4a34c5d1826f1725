"""What a layout is: how one queue system keeps its queues, what can be asked of it and what can be done to it.

A layout answers in programs of plain reads, and builds the steps of its verbs as values; it does no input or output.
Whoever writes one gives sources (which keys hold the entries of a state) and says how an entry reads; paging, filters
and lookups are then the same for all.

Values are structs, because a data class takes half a millisecond to make, and `qdeck status` makes all of these.
"""

from __future__ import annotations

import base64
from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Final

import msgspec

from qdeck._deck import reads
from qdeck._deck.model import Found, JobDetail, JobRecord, Page, QueueRow, State
from qdeck._errors import InvalidOption, UnknownJob
from qdeck._settings.thresholds import Thresholds

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from qdeck._engine.ops import Program
    from qdeck._filter import Filter
    from qdeck._layouts.discovery import Sight
    from qdeck._layouts.steps import Step

SLICE: Final = 500
ENDS: Final = (b"head", b"tail")  # what entries of lists, that have no score, have in its place
MOST_STUCK: Final = 20_000  # entries of one list that are looked at for stuck ones


class Kind(StrEnum):
    """The type of a key on the server."""

    ZSET = "zset"
    SET = "set"
    HASH = "hash"
    LIST = "list"
    NAMES = "names"
    """Not a key but a glob: the entries are the keys whose names match."""


class Act(StrEnum):
    """What can be asked of an entry; the words are those of the verbs of every layout."""

    RETRY = "retry"
    DISCARD = "discard"
    CANCEL = "cancel"
    RUN = "run"
    REQUEUE = "requeue"
    BURY = "bury"
    REPRIORITISE = "reprioritise"
    COMPLETE = "complete"
    EXPIRE = "expire"


class Capability(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a layout can do something: `states` are those in which, `why` tells what it cannot, or what to know."""

    can: bool
    states: tuple[State, ...] = ()
    why: str = ""


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """A key that holds entries of some state. With `down` it is listed from its highest score."""

    key: bytes
    kind: Kind
    state: State
    native_state: str
    down: bool = False


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """An entry as it was read, to the byte: what an act compares before it changes anything."""

    key: bytes
    member: bytes
    score: bytes | None = None
    value: bytes | None = None

    def __str__(self) -> str:
        parts = (self.key, self.member, self.score, self.value)
        return ".".join("-" if part is None else base64.urlsafe_b64encode(part).decode() for part in parts)

    @property
    def mark(self) -> str:
        """What stays the same while an entry is as it was: not to which end of its list it is nearer."""
        return str(msgspec.structs.replace(self, score=None) if self.score in ENDS else self)

    @classmethod
    def parse(cls, text: str) -> Seen:
        """Reads what `str` wrote: so an entry goes into a plan and comes back the same."""
        try:
            parts = [None if part == "-" else base64.urlsafe_b64decode(part) for part in text.split(".")]
            key, member, score, value = parts
        except ValueError as error:
            raise InvalidOption(f"{text!r} is nothing that was seen", hint="pass what a plan holds") from error
        return cls(key=key or b"", member=member or b"", score=score, value=value)


class Raw(msgspec.Struct, frozen=True, kw_only=True):
    """An entry of a source, before its layout has read it."""

    source: Source
    member: bytes
    score: bytes | None = None
    value: bytes | None = None
    at: int | None = None

    def seen(self, value: bytes | None = None) -> Seen:
        """What an act will compare."""
        return Seen(key=self.source.key, member=self.member, score=self.score, value=value or self.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry(JobRecord):
    """One entry of a foreign queue. `problem` tells what is wrong with it, `stuck` why it does not move."""

    seen: Seen
    stuck: str | None = None
    queue_from: str | None = None
    log: str | None = None
    depends_on: tuple[str, ...] = ()


class StateHealth(msgspec.Struct, frozen=True, kw_only=True):
    """One state of one queue in numbers; ages are of those entries that tell theirs."""

    queue: str
    state: State
    size: int | None
    oldest_s: float | None = None
    average_s: float | None = None
    stuck: int | None = None
    exact: bool = True


class LayoutHealth(msgspec.Struct, frozen=True, kw_only=True):
    """What health asks of a layout; `own` is what the system says of itself, with its age. None is unknown."""

    states: tuple[StateHealth, ...] = ()
    tasks: Mapping[str, tuple[int | None, int | None]] = msgspec.field(default_factory=lambda: MappingProxyType({}))
    clones_per_min: float | None = None
    orphaned: int | None = None
    own: Mapping[str, Any] = msgspec.field(default_factory=lambda: MappingProxyType({}))
    notices: tuple[str, ...] = ()


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """The queues of a layout at one moment; `unread` names the keys that are left out, with the reason."""

    rows: tuple[QueueRow, ...] = ()
    notices: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()


class Fate(StrEnum):
    """What became of an entry since it was retried."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    DEAD = "dead_again"
    FAILED = "failed_again"
    """It failed once more, and its own system tries it again later."""
    CANCELLED = "cancelled"
    UNKNOWN = "unknown"
    """It left where it waited, and how it ended is written nowhere."""


class Tried(msgspec.Struct, frozen=True, kw_only=True):
    """A dead letter that was retried: what it was, and no earlier than when. A `twin` is not the only one like it."""

    seen: Seen
    since_ms: int
    twin: bool = False


class Stale(msgspec.Struct, frozen=True, kw_only=True):
    """An entry that a cleanup would take: by which rule, with which act, and why."""

    entry: Entry
    rule: str
    act: Act
    reason: str


class StalePage(msgspec.Struct, frozen=True, kw_only=True):
    """A slice of what a cleanup would take; `cursor` goes on from here, None is the end."""

    found: tuple[Stale, ...] = ()
    cursor: str | None = None
    scanned: int = 0


class Ages(msgspec.Struct, frozen=True, kw_only=True):
    """How old leftovers may be, in seconds; the names and defaults are those of `[purge]` and `[dead_letters]`.

    `dlq_enabled` (1 or 0) is whether a purge leaves a dead letter; who buries by hand always gets one.
    """

    max_pending_age: int = 7200
    max_ready_age: int = 86_400
    max_ready_age_pool: int | None = None
    max_completed_age: int = 3600
    max_orphaned_age: int = 86_400
    max_request_age: int = 86_400
    done_age: int = 14 * 86_400
    dlq_ttl_s: int = 168 * 3600
    dlq_max_entries: int = 10_000
    dlq_enabled: int = 1
    data_ttl_s: int = 168 * 3600


class Layout(ABC):
    """One queue system. Make one for each deck: it may remember from look to look."""

    name: ClassVar[str]
    about: ClassVar[str]
    on_cluster: ClassVar[bool] = False
    repeats: ClassVar[bool] = False
    """Whether entries that are equal to the byte may be several."""
    takes_patterns: ClassVar[bool] = False
    """Whether it is made with the patterns of `[lists]`."""
    takes_priority: ClassVar[tuple[Act, ...]] = ()
    """Besides reprioritising, the acts for which a priority may be given."""
    tells_fates: ClassVar[str] = ""
    """How much can be seen of those that were retried, in words; without any, `fates` is not asked."""
    patience_s: ClassVar[float] = 60.0
    """How long it may take until the first of those that were retried have ended."""

    def __init__(self) -> None:
        self.sight: Sight | None = None
        self.thresholds = Thresholds()

    @abstractmethod
    def fixed_keys(self) -> Mapping[bytes, Kind | None]:
        """The keys with fixed names by which this system is known, and their types; None is any."""

    def patterns(self) -> Sequence[tuple[bytes, str | None]]:
        """What a scan looks for besides: glob and type. Few, for each is a pass over the whole keyspace."""
        return ()

    @property
    def flavour(self) -> str:
        """What else decides to which group a key belongs: what was remembered under another one is looked for anew."""
        return ""

    def gather(self, name: bytes) -> str | None:
        """To which group a key belongs that the scan found; None is not ours."""
        return None

    @abstractmethod
    def capabilities(self) -> Mapping[Act, Capability]:
        """What can be done here, and why the rest cannot."""

    @abstractmethod
    def rows(self, now: int) -> Program[Look]:
        """The queues with their numbers."""

    @abstractmethod
    def sources(self, queue: str, states: Sequence[State]) -> Program[list[Source]]:
        """The keys that hold the entries of these states, in the order in which they are listed."""

    @abstractmethod
    def fill(self, queue: str, raws: Sequence[Raw], now: int) -> Program[list[Entry]]:
        """Entries as they read; those that are no entry of this queue any more are left out."""

    def health(self, now: int, ages: Ages) -> Program[LayoutHealth]:
        """The numbers that a verdict on health needs."""
        from qdeck._layouts.measures import measure

        return (yield from measure(self, now, ages))

    def stale(self, ages: Ages, now: int, cursor: str | None = None) -> Program[StalePage]:
        """The next slice of what a cleanup would take, from plain reads."""
        yield from ()  # no reading: a program all the same
        return StalePage()

    def step(self, act: Act, entry: Entry, now: int, **options: Any) -> Program[Step]:
        """The one atomic step that does this to an entry; raises a UsageError with the reason where it cannot."""
        yield from ()  # no reading: a program all the same
        raise InvalidOption(self.why_not(act, State(entry.state)), hint="see the capabilities of the layout")

    def recall(self, queue: str, state: str, seen: Sequence[Seen], now: int) -> Program[list[Entry | None]]:
        """The entries that were seen so, as they read now; None where one is gone, or is another by now."""
        sources = {source.key: source for source in (yield from self.sources(queue, (State(state),)))}
        by_key: dict[bytes, list[Raw]] = {}
        for one in seen:
            if (source := sources.get(one.key)) is not None:
                raw = Raw(source=source, member=one.member, score=one.score, value=one.value)
                by_key.setdefault(one.key, []).append(raw)
        found: dict[Seen, Entry] = {}
        for raws in by_key.values():
            entries = yield from self.fill(queue, raws, now)
            found |= {entry.seen: entry for entry in entries if (entry.queue, entry.state) == (queue, state)}
        return [found.get(one) for one in seen]

    def outfit(self, act: Act, now: int) -> Program[dict[str, Any]]:
        """What many steps of one act share, read once; they are given it as options."""
        yield from ()  # no reading: a program all the same
        return {}

    def likeness(self, seen: Seen) -> bytes:
        """What an entry and the same one, dead again, have in common; only asked where entries may be equal."""
        return seen.member

    def fates(self, tried: Sequence[Tried], now: int) -> Program[list[Fate]]:
        """What became of entries that were retried, by a bounded look; what cannot be seen is unknown."""
        yield from ()  # no reading: a program all the same
        return [Fate.UNKNOWN] * len(tried)

    def why_not(self, act: Act, state: State) -> str:
        """Why an act cannot be done in a state; empty when it can."""
        capability = self.capabilities().get(act)
        if capability is None or not capability.can:
            return capability.why if capability and capability.why else f"{self.name} has nothing like {act}"
        if state not in capability.states:
            return f"{act} is for what is {' or '.join(capability.states)} here, not {state}"
        return ""

    def page(
        self,
        queue: str,
        states: Sequence[State],
        *,
        wanted: Filter | None = None,
        cursor: str | None = None,
        most: int = SLICE,
    ) -> Program[Page]:
        """The next slice of the entries in these states that match; a cursor of None is the end."""
        from qdeck._layouts import listing

        return (yield from listing.page(self, queue, states, wanted=wanted, cursor=cursor, most=most))

    def job(self, queue: str, wanted: str) -> Program[JobDetail]:
        """All about one entry, given by its id or its key."""
        found = yield from self.entry(queue, wanted)
        if found is None:
            raise UnknownJob(f"no {wanted!r} in queue {queue!r} of {self.name}", hint=f"see: qdeck jobs {queue}")
        return detail_of(found)

    def entry(self, queue: str, wanted: str) -> Program[Entry | None]:
        """One entry, given by its id or its key; a dead one comes after a living one of the same id."""
        from qdeck._layouts import listing

        return (yield from listing.first(self, queue, tuple(State), lambda e: wanted in (e.key, e.id)))

    def find(self, job_id: str) -> Program[list[Found]]:
        """Where an id is, in every queue of this layout."""
        from qdeck._layouts import listing

        now = yield from reads.clock()
        look = yield from self.rows(now)
        found: list[Found] = []
        for row in look.rows:
            entries = yield from listing.every(self, row.name, tuple(State), most=MOST_STUCK)
            found += [
                Found(layout=self.name, queue=row.name, id=entry.id, key=entry.key, state=entry.state)
                for entry in entries
                if entry.id == job_id
            ]
        return found

    def stuck(self, now: int) -> Program[list[Entry]]:
        """Entries that do not move, each with its reason in `stuck`."""
        from qdeck._layouts import listing

        look = yield from self.rows(now)
        waiting = (State.RUNNING, State.READY, State.DELAYED, State.BLOCKED)
        found: list[Entry] = []
        for row in look.rows:
            entries = yield from listing.every(self, row.name, waiting, most=MOST_STUCK)
            found += [entry for entry in entries if entry.stuck is not None]
        return found


def detail_of(entry: Entry) -> JobDetail:
    """An entry as the record of one job."""
    from qdeck._layouts import entry_detail

    return entry_detail.detail_of(entry)


def age_s(now: int, since_ms: int | None) -> float | None:
    """How long ago something was, never negative; None when that is not known."""
    return None if since_ms is None else max(0, now - since_ms) / 1000


def text_of(raw: bytes) -> str:
    """Bytes as a text that gives them back: what is no UTF-8 is escaped."""
    return raw.decode("utf-8", "surrogateescape")


def raw_of(text: str) -> bytes:
    """The bytes that `text_of` read."""
    return text.encode("utf-8", "surrogateescape")
