"""The immutable values that adapters produce and every face shows: snapshot, queues, jobs, workers.

Times are ms since the epoch by the server's clock, ages are seconds. None is a value that the adapter does not have, or
that this user may not read.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

from qdeck._model import payload
from qdeck._model.queue_ref import Feature, InQueue, QueueRef, has_feature
from qdeck._model.words import NATIVE, NO_STATE, Cause, Check, Code, Finding, State, Status, Unreadable
from qdeck._priority_names import PRIORITY_NAMES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from qdeck._model.reasons import Stuck

__all__ = [
    "NATIVE",
    "NO_STATE",
    "Check",
    "Code",
    "Finding",
    "HistoryEvent",
    "JobDetail",
    "JobFailure",
    "JobLocation",
    "JobRecord",
    "Page",
    "QueueRef",
    "QueueRow",
    "QueueSettings",
    "ServerInfo",
    "Snapshot",
    "State",
    "Status",
    "Totals",
    "WorkerRow",
]

# What a restart keeps: `ServerInfo.persistence`. INFO only shows that there is no append-only file.
AOF: Final = "aof"
SNAPSHOTS: Final = "snapshots"
NOTHING: Final = "none"
NO_AOF: Final = "no aof"
LATE_S: Final = 30  # without a heartbeat, from which a worker of qdeck is not called running


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerInfo:
    """The server's description of itself; None where the rights do not allow to read it."""

    name: str | None = None
    version: str | None = None
    mode: str | None = None
    role: str | None = None
    address: str = ""
    uptime_s: int | None = None
    clients: int | None = None
    memory_bytes: int | None = None
    max_memory_bytes: int | None = None
    eviction: str | None = None
    persistence: str | None = None
    save_failed: bool | None = None
    loading: bool | None = None
    commands_per_s: int | None = None


class UnknownTaskJobs(NamedTuple):
    """A task that no living worker of a queue has, and how many of its jobs wait for one."""

    task: str
    jobs: int
    since_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """Who paused something, when and why; None and an empty reason where that is not stored."""

    who: str | None = None
    at_ms: int | None = None
    reason: str = ""

    def __post_init__(self) -> None:
        _mask_fields(self, ("who", "reason"))

    def words(self, ago: str) -> str:
        """Return who, when and why in words; `ago` is how long ago that was, where it is stored."""
        who = f"by {self.who}" if self.who else "by an unknown operator"
        when = f", {ago} ago" if self.at_ms is not None else ""
        return f"{who}{when}" + (f": {self.reason}" if self.reason else "")

    def concerns_others(self, operator: str) -> bool:
        """Whether an operator lifts or replaces it only after a question: it has a reason, or is by somebody else."""
        return bool(self.reason) or self.who != operator


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRow:
    """One queue at one moment. With a `problem` it could not be read, and its numbers are None."""

    adapter: str = NATIVE
    name: str
    ready: int | None = None
    delayed: int | None = None
    blocked: int | None = None
    running: int | None = None
    done: int | None = None
    dead: int | None = None
    cancelled: int | None = None
    stuck: int | None = None
    over_limit: int = 0  # of the stuck jobs, those over their time limit
    overdue: int | None = None  # delayed jobs that are due and were not moved to ready
    overdue_word: str = "overdue"  # what its system calls these; pending VMs are not due at a time
    late: int | None = None  # those that wait for their start for longer than the threshold
    late_delayed: int | None = None  # of these, those that are still delayed
    oldest_s: float | None = None
    oldest_exact: bool = True
    paused: bool = False
    pause: Pause | None = None  # of native queues
    limit: int | None = None
    rate: tuple[int, int] | None = None  # so many starts in so many ms
    in_per_s: float | None = None
    out_per_s: float | None = None
    dead_per_min: float | None = None
    failing: tuple[int, int] | None = None  # per cent of its attempts that fail now, and that failed in its last hours
    workers: int | None = None
    totals: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    unknown_tasks: tuple[UnknownTaskJobs, ...] = ()
    set_aside: int | None = None  # entries of its outbox that could not be read
    undelivered: int | None = None  # entries of its outbox that no worker delivers
    orphaned: int | None = None  # lists of tasks that have no owner, as far as they were looked at
    serves_others: bool = False  # what it holds asks for jobs of other queues
    problem: Unreadable | None = None
    ref: QueueRef = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "ref", QueueRef(self.adapter, self.name))

    def has(self, feature: Feature) -> bool:
        """Return whether the queue has a feature."""
        return has_feature(self.adapter, feature)

    @property
    def is_unread(self) -> bool:
        """Return whether not even its dead letters could be counted: lists leave it out."""
        return self.problem is not None and self.dead is None


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """A number that a system has besides those of its queues: over `limit`, the last good value, it is a finding.

    `what` follows the number in words, as in `1,200 seconds since the last check`. A value of None is unknown.
    """

    name: str
    what: str
    value: int | None
    limit: int
    critical: int | None = None
    code: Code = Code.MEASURE


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """Sums over all queues that could be read."""

    ready: int = 0
    delayed: int = 0
    blocked: int = 0
    running: int = 0
    stuck: int = 0
    late: int = 0
    dead: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """All queues of a server at one moment.

    `notices` are what could not be read and why; `local_clock`: the server's clock may not be read. Of very many queues
    each refresh reads only some: `fresh` names those that were read (None: all), `counted_ms` is the moment of the
    oldest numbers. `shared` are the names that queues of several adapters have.
    """

    at_ms: int
    server: ServerInfo
    status: Status = Status.HEALTHY
    findings: tuple[Finding, ...] = ()
    adapters: tuple[str, ...] = ()
    totals: Totals = Totals()
    queues: tuple[QueueRow, ...] = ()
    fresh: frozenset[QueueRef] | None = None
    shared: frozenset[str] = frozenset()
    counted_ms: int = 0
    notices: tuple[str, ...] = ()
    local_clock: bool = False
    workers_alive: int | None = None
    stuck_handlers: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))  # of living workers
    severities: Mapping[Code, Status] = field(default_factory=lambda: MappingProxyType({}))  # the worst of each code
    checks: tuple[Check, ...] = ()  # every rule, whether it found something or not
    measures: tuple[Measure, ...] = ()  # of other systems
    late_schedules: tuple[tuple[QueueRef, str], ...] | None = ()  # queue and name of each; None is unknown
    causes: Mapping[QueueRef, Mapping[Code, Cause]] = field(default_factory=lambda: MappingProxyType({}))  # if read
    unknown_systems: tuple[str, ...] = ()  # that no adapter reads, each with an example key


def _mask_fields(row: object, names: tuple[str, ...]) -> None:
    """Mask all values that are shown and exported as text, whatever system they are from."""
    for name in names:
        text = getattr(row, name)
        if text is not None and (shown := payload.mask_label(text)) is not text:
            object.__setattr__(row, name, shown)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRecord(InQueue):
    """One job of a list; `key` is its exact identity, `since_ms` the moment it came into its state."""

    has_all_facts: ClassVar[bool] = True
    """Whether a fact that is missing is missing: other systems do not keep all of them."""

    id: str
    key: str
    adapter: str = NATIVE
    queue: str
    state: str
    native_state: str
    name: str | None = None
    task: str | None = None
    priority: int | None = None
    priority_bound: str | None = None  # such as `≥HIGH`, where its system does not store which it is
    attempts: int | None = None
    crashes: int | None = None
    tags: tuple[str, ...] = ()
    enqueued_ms: int | None = None
    due_ms: int | None = None
    since_ms: int | None = None
    age_s: float | None = None
    worker: str | None = None
    lease_until_ms: int | None = None
    error: str | None = None
    message: str | None = None
    failed_ms: int | None = None
    body: bytes | None = field(default=None, repr=False)
    is_handler: bool = False
    problem: str | None = None  # what of it cannot be read
    stuck: Stuck | None = None  # why it does not move

    def __post_init__(self) -> None:
        _mask_fields(self, ("name", "task", "error", "problem"))
        if self.tags and (tags := tuple(map(payload.mask_label, self.tags))) != self.tags:
            object.__setattr__(self, "tags", tags)

    @property
    def handle(self) -> str:
        """Return its name in its queue: its id, or its key where ids may occur twice."""
        return self.id

    @property
    def is_permanent(self) -> bool:
        """Whether its system would not try again after its error; native jobs say so with their attempts."""
        return False

    @property
    def priority_name(self) -> str | None:
        """Return its priority where its system has names for them."""
        is_named = self.priority is not None and self.has(Feature.PRIORITY_NAMES)
        return PRIORITY_NAMES.get(self.priority or 0) if is_named else None

    @property
    def priority_text(self) -> str | None:
        """Return its priority as its system writes it: a name, or a number."""
        return self.priority_bound if self.priority is None else self.priority_name or str(self.priority)

    @property
    def moment_ms(self) -> int:
        """When it came into its state, 0 where its system stores no time; jobs that ended are listed by it."""
        return self.since_ms or self.failed_ms or 0

    def payload(self) -> Any:
        """Return the payload as JSON with secrets masked; decoded at each call, because few are read."""
        return payload.read(self.body, is_handler=self.is_handler)

    def text(self) -> str:
        """Return all the text of the job for a filter's words; secrets are masked here, too."""
        words = (self.id, self.name, self.task, self.error, self.message, self.worker, *self.tags)
        return "\n".join([*(word for word in words if word), payload.text(self.payload())])


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryEvent:
    """One thing that happened to a job."""

    at_ms: int
    kind: str
    data: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFailure:
    """The last failure of a job. `class_name` is the bare class, or the event that replaces one."""

    kind: str
    at_ms: int
    class_name: str
    message: str
    traceback: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDetail(JobRecord):
    """Everything about one job."""

    history: tuple[HistoryEvent, ...] = ()
    failure: JobFailure | None = None
    depends_on: tuple[str, ...] = ()
    dependents: tuple[str, ...] = ()
    more_dependents: bool = False
    has_result: bool = False
    result: Any = None
    log: str | None = None
    unique: bool = False
    retries: int | None = None
    outages: int | None = None
    backoff: str | None = None
    on_failure: str | None = None
    handler_of: str | None = None
    run_anyway: bool = False
    expires_ms: int | None = None
    expires_after_ms: int | None = None
    time_limit_ms: int | None = None
    lease_ms: int | None = None
    keep_result_ms: int | None = None
    claimed_ms: int | None = None
    cancel_requested: bool = False
    body_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A slice of a list of jobs; `cursor` is where the next one begins, None at the end."""

    jobs: tuple[JobRecord, ...]
    cursor: str | None
    scanned: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLocation(InQueue):
    """The place of a job: queue and state. `match` is the field by which it was found."""

    adapter: str = NATIVE
    queue: str
    id: str
    key: str
    state: str
    match: str = "id"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerRow:
    """One worker as it last described itself; `requested` is what an operator requested of it."""

    id: str
    adapter: str = NATIVE
    alive: bool
    state: str | None = None
    requested: str | None = None
    host: str | None = None
    pid: int | None = None
    version: str | None = None
    queues: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    concurrency: int | None = None
    running: int | None = None
    done: int | None = None
    failed: int | None = None
    stuck_handlers: int | None = None  # that ignored their cancellation
    memory_bytes: int | None = None
    started_ms: int | None = None
    heartbeat_ms: int | None = None
    heartbeat_s: float | None = None

    def __post_init__(self) -> None:
        _mask_fields(self, ("state", "requested", "host", "version"))

    def has(self, feature: Feature) -> bool:
        """Return whether the worker has a feature."""
        return has_feature(self.adapter, feature)

    @property
    def condition(self) -> str | None:
        """Return its state in a word; what it reported last does not hold once its heartbeat stopped."""
        if not self.alive:
            return "stopped" if self.state == "stopped" else "lost"
        if self.adapter == NATIVE and (self.heartbeat_s or 0) > LATE_S:
            return "no heartbeat"
        return self.state

    @property
    def is_claiming(self) -> bool:
        """Whether it claims jobs: one that was asked to be quiet or to stop claims none."""
        return self.alive and self.requested is None and self.state not in ("quiet", "stopping")


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSettings:
    """The settings of a queue after a change; `changed` is false when they were the same before."""

    queue: str
    adapter: str = NATIVE
    paused: bool
    changed: bool
