"""The words for states of jobs, statuses of servers and problems; this module reads nothing."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from qdeck._errors import LayoutMismatch, NotAllowed
from qdeck._formatting import counted, iso, threshold

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from qdeck._model.queue_ref import QueueRef

NATIVE: Final = "native"
NO_STATE: Final = "none"  # the state of a record that belongs to no job


class State(StrEnum):
    """The state of a job; the same words for every adapter."""

    READY = "ready"
    DELAYED = "delayed"
    BLOCKED = "blocked"
    RUNNING = "running"
    DONE = "done"
    DEAD = "dead"
    CANCELLED = "cancelled"


class Verb(StrEnum):
    """What an operator can do to jobs; no adapter supports all of them."""

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
    """In other adapters: end a job as successful, without running it to its end."""
    EXPIRE = "expire"
    """In other adapters: end a job that is too old, by a rule of a purge."""
    PURGE = "purge"
    """All that rules do to jobs."""


class Status(StrEnum):
    """The verdict on a server and its queues, from good to bad."""

    HEALTHY = "healthy"
    DEGRADED = "degraded"
    UNHEALTHY = "unhealthy"

    @property
    def exit_code(self) -> int:
        """The exit code of a command that reports the verdict."""
        return list(Status).index(self)


class Code(StrEnum):
    """What a finding is about. Programs compare codes; people read `Finding.text`."""

    REPLICA = "replica"
    LOADING = "loading"
    SAVE_FAILED = "save_failed"
    NOT_PERSISTED = "not_persisted"
    EVICTION = "eviction"
    MEMORY = "memory"
    UNREADABLE = "unreadable"
    UNKNOWN_SYSTEM = "unknown_system"
    STUCK = "stuck"
    LATE = "late"
    DEAD = "dead"
    NO_WORKER = "no_worker"
    UNKNOWN_TASK = "unknown_task"
    PAUSED = "paused"
    BACKLOG = "backlog"
    OVERDUE = "overdue"
    SET_ASIDE = "set_aside"
    UNDELIVERED = "undelivered"
    HANDLER_STUCK = "handler_stuck"
    DEAD_GROWING = "dead_growing"
    FILLING = "filling"
    FAILING = "failing"
    SCHEDULE_LATE = "schedule_late"
    MEASURE = "measure"


class UnreadableCode(StrEnum):
    """Why something that is stored cannot be read."""

    NOPERM = "noperm"
    WRONGTYPE = "wrongtype"
    VERSION = "version"
    GARBAGE = "garbage"
    ERROR = "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreadable:
    """What cannot be read: a queue, or what `key` holds. `error` is what the server replied."""

    code: UnreadableCode
    error: str = ""
    key: str = ""
    found: str = ""  # a type, or a version
    wanted: str = ""  # likewise, as it should be
    what: str = ""  # of garbage: scores, fields, jobs, the counters
    count: int = 0  # of them
    first: str = ""  # the first of them

    @classmethod
    def of(cls, error: Exception, key: str = "", wanted: str = "") -> Unreadable:
        """Return what an error of the server means for what was read, or for a key that should be of a type."""
        if isinstance(error, LayoutMismatch):
            return cls(code=UnreadableCode.WRONGTYPE, key=key, wanted=wanted)
        code = UnreadableCode.NOPERM if isinstance(error, NotAllowed) else UnreadableCode.ERROR
        return cls(code=code, error=str(error))

    @property
    def text(self) -> str:
        """The reason in words."""
        if self.error:
            return self.error
        if self.code is UnreadableCode.VERSION:
            return LayoutMismatch.words(self.found, self.wanted)
        if self.code is UnreadableCode.WRONGTYPE and not self.key:
            return "a key has another type"
        if self.code is UnreadableCode.WRONGTYPE:
            return f"key {self.key} is {self.found or 'of another type'}, should be {self.wanted}"
        first = f", the first is {self.first}" if self.first else ""
        things = counted(self.count, self.what) if self.count else self.what
        return f"unreadable: {things} of {self.key}{first}"

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One problem that health reports. `queue` is where, when it is one queue; else `queues` is how many.

    `label` is how that queue is shown.
    `severity` is the only measure of the problem: the status, rows, tabs, exit codes and metrics use it.
    """

    code: Code
    severity: Status
    queue: QueueRef | None = None
    label: str = ""
    queues: int = 0
    count: int | None = None
    limit: int | None = None
    name: str | None = None  # what else has a name: a task, a worker, a key, a policy
    problem: Unreadable | None = None  # what cannot be read
    since_ms: int | None = None  # since when it holds, if an agent recorded it
    since_exact: bool = True  # if not, it held already then
    cause: str = ""  # its evidence in words, where it was read

    @property
    def place(self) -> str:
        """Its identity: two findings of one place are the same finding at two moments."""
        name = f"{self.problem.code}:{self.problem.key}" if self.problem else self.name or ""
        return f"{self.code}/{self.queue or ''}/{name}"

    @property
    def text(self) -> str:
        """The sentence, with the number that matters."""
        return _SENTENCES[self.code](self)

    @property
    def row_text(self) -> str:
        """The shorter sentence under the row of its queue."""
        short = _IN_ROW.get(self.code)
        return self.text if short is None or self.queue is None else short(self)

    @property
    def hint(self) -> str:
        """What to do about it, in words; empty where its evidence says so."""
        return HINTS.get(self.code, "")

    @property
    def command(self) -> str:
        """The command that repairs it: of a shell, or of the server's own client where it begins in capitals."""
        make = _COMMANDS.get(self.code)
        return "" if make is None else make(self)

    def as_json(self) -> dict[str, Any]:
        """Return the form of `--json`, of the agent's API and of `qdeck:health`."""
        return {
            "code": self.code.value,
            "severity": self.severity.value,
            "adapter": None if self.queue is None else self.queue.adapter,
            "queue": None if self.queue is None else self.queue.name,
            "message": self.text,
            "count": self.count,
            "limit": self.limit,
            "problem_code": None if self.problem is None else self.problem.code.value,
            "since": iso(self.since_ms),
            "cause": self.cause or None,
            "hint": self.hint or None,
            "command": self.command or None,
            "since_exact": None if self.since_ms is None else self.since_exact,
        }

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """The evidence of a problem. `verb` repairs it where the system of the queue has such a verb."""

    text: str
    verb: Verb | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One rule with what it found. `status` is None when it is unknown, `findings` is empty when there is no
    problem.
    """

    name: str
    status: Status | None = Status.HEALTHY
    detail: str
    value: int | str | None = None
    threshold: int | str | None = None
    findings: tuple[Finding, ...] = ()


def _where(finding: Finding) -> str:
    return finding.label if finding.queue is not None else counted(finding.queues, "queue")


def _jobs(finding: Finding) -> str:
    return counted(finding.count or 0, "job")


def _late(finding: Finding) -> str:
    return _waiting(finding, f" in {_where(finding)}")


def _waiting(finding: Finding, where: str = "") -> str:
    have = "has" if finding.count == 1 else "have"
    return f"{_jobs(finding)}{where} {have} been waiting for over {threshold(finding.limit or 0)}"


def _memory(finding: Finding) -> str:
    return f"the server uses {(finding.count or 0) / (finding.limit or 1):.0%} of its memory limit"


def _set_aside(finding: Finding) -> str:
    count, key = finding.count or 0, finding.name
    was, them = ("was", "it") if count == 1 else ("were", "them")
    return (
        f"{counted(count, 'entry', 'entries')} of the outbox of {finding.label} could not be read and {was} moved to "
        f"quarantine: read {them} with XRANGE {key} - +, then delete {them} with DEL {key}"
    )


def _undelivered(finding: Finding) -> str:
    count = finding.count or 0
    entries = f"{counted(count, 'outbox entry', 'outbox entries')} of {finding.label} {'is' if count == 1 else 'are'}"
    return f"{entries} not delivered to other queues: start a worker of it, or qdeck agent"


def _unreadable(finding: Finding) -> str:
    # A sentence that names a key need not name its queue.
    problem = finding.problem
    return f"{_where(finding)} cannot be read: {problem}" if problem and not problem.key else str(problem)


def _handlers(finding: Finding) -> str:
    return f"worker {finding.name}: {counted(finding.count or 0, 'handler')} ignored cancellation; restart it"


_SENTENCES: Final[Mapping[Code, Callable[[Finding], str]]] = {
    Code.REPLICA: lambda _: "the server is a replica: nothing can be changed here",
    Code.LOADING: lambda _: "the server is still loading its data: numbers are incomplete",
    Code.SAVE_FAILED: lambda _: "the server fails to save its data to disk: see its log",
    Code.NOT_PERSISTED: lambda _: "no append-only file; snapshots off: a restart loses every job",
    Code.EVICTION: lambda f: f"the server may evict queue data when its memory is full (maxmemory-policy {f.name})",
    Code.MEMORY: _memory,
    Code.UNREADABLE: _unreadable,
    Code.UNKNOWN_SYSTEM: lambda f: f"the server has keys of {f.name}, which no adapter reads",
    Code.STUCK: lambda f: f"{_jobs(f)} stuck in {_where(f)}",
    Code.LATE: _late,
    Code.DEAD: lambda f: f"{f.count:,} dead letters in {_where(f)}",
    Code.NO_WORKER: lambda f: f"no live worker for {f.label}, {_jobs(f)} waiting",
    Code.UNKNOWN_TASK: lambda f: f"no worker has task {f.name}, {_jobs(f)} of {f.label} waiting",
    Code.SCHEDULE_LATE: lambda f: f"schedule {f.name} of {f.label} is late: no worker or agent runs it",
    Code.PAUSED: lambda f: f"{f.label} is paused, {_jobs(f)} waiting",
    Code.BACKLOG: lambda f: f"{f.count:,} jobs ready in {f.label} (limit {f.limit:,})",
    Code.OVERDUE: lambda f: f"{f.count:,} jobs {f.name or 'overdue'} in {f.label} (limit {f.limit:,})",
    Code.SET_ASIDE: _set_aside,
    Code.UNDELIVERED: _undelivered,
    Code.HANDLER_STUCK: _handlers,
    Code.DEAD_GROWING: lambda f: f"dead letters of {f.label} grow by {60 * (f.count or 0):,}/h",
    Code.FAILING: lambda f: f"{f.count} % of the attempts of {f.label} fail now, {f.limit} % in the hours before",
    Code.FILLING: lambda f: f"{f.label} fills faster than it drains, +{(f.count or 0) / 60:.1f}/s",
    Code.MEASURE: lambda f: f"{f.count:,} {f.name} (limit {f.limit:,})",
}
_IN_ROW: Final[Mapping[Code, Callable[[Finding], str]]] = {
    Code.UNDELIVERED: lambda f: f"{counted(f.count or 0, 'outbox entry', 'outbox entries')} not delivered, no worker",
    Code.SET_ASIDE: lambda f: f"{counted(f.count or 0, 'entry', 'entries')} of its outbox in quarantine, see {f.name}",
    Code.UNREADABLE: lambda f: str(f.problem),
    Code.STUCK: lambda f: f"{_jobs(f)} stuck",
    Code.LATE: _waiting,
    Code.DEAD: lambda f: f"{f.count:,} dead letters",
    Code.NO_WORKER: lambda f: f"no live worker, {_jobs(f)} waiting",
    Code.UNKNOWN_TASK: lambda f: f"no worker has task {f.name}, {_jobs(f)} waiting",
    Code.SCHEDULE_LATE: lambda f: f"schedule {f.name} is late: no worker or agent runs it",
    Code.PAUSED: lambda f: f"paused, {_jobs(f)} waiting",
    Code.BACKLOG: lambda f: f"{f.count:,} jobs ready (limit {f.limit:,})",
    Code.OVERDUE: lambda f: f"{f.count:,} jobs {f.name or 'overdue'} (limit {f.limit:,})",
    Code.DEAD_GROWING: lambda f: f"dead letters grow by {60 * (f.count or 0):,}/h",
    Code.FAILING: lambda f: f"{f.count} % of its attempts fail now, {f.limit} % in the hours before",
    Code.FILLING: lambda f: f"fills faster than it drains, +{(f.count or 0) / 60:.1f}/s",
}
HINTS: Final[Mapping[Code, str]] = {
    Code.REPLICA: "Connect to the master, or through Sentinel.",
    Code.SAVE_FAILED: "See the server's log; make room on its disk.",
    Code.NOT_PERSISTED: "Set appendonly yes: then a crash loses at most one second of writes.",
    Code.EVICTION: "Set maxmemory-policy noeviction.",
    Code.MEMORY: "Raise maxmemory, or purge old jobs.",
    Code.LOADING: "Wait until it is loaded.",
    Code.UNKNOWN_SYSTEM: "Name plain lists in [adapters.lists], or install an adapter for this system.",
    Code.SCHEDULE_LATE: "Start a worker or an agent: each makes the jobs of schedules.",
    Code.NO_WORKER: "Start a worker, with your application as MODULE:APP.",
    Code.UNKNOWN_TASK: "Start a worker whose application has the task.",
    Code.HANDLER_STUCK: "Restart the worker: its slots are lost until then.",
}
"""What to do about a finding, for every face; a rule about the server needs one."""
_START: Final = "qdeck worker MODULE:APP"
_COMMANDS: Final[Mapping[Code, Callable[[Finding], str]]] = {
    Code.REPLICA: lambda _: "INFO replication",
    Code.SAVE_FAILED: lambda _: "INFO persistence",
    Code.NOT_PERSISTED: lambda _: "CONFIG SET appendonly yes",
    Code.EVICTION: lambda _: "CONFIG SET maxmemory-policy noeviction",
    Code.MEMORY: lambda f: f"CONFIG SET maxmemory {(f.limit or 0) * 3 // 2}",
    Code.SCHEDULE_LATE: lambda _: "qdeck agent",
    Code.NO_WORKER: lambda f: (
        f"{_START} -q {shlex.quote(f.queue.name)}" if f.queue and f.queue.adapter == NATIVE else ""
    ),
    Code.UNKNOWN_TASK: lambda f: f"{_START} -q {shlex.quote(f.queue.name)}" if f.queue else _START,
    Code.HANDLER_STUCK: lambda f: f"qdeck workers stop {shlex.quote(f.name or '')}",
}
