"""The jobs of the model: what a producer asks for, and what becomes of it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Final

BAND: Final = 10**13
RESEND_MS: Final = 60_000
UNDELETED_MS: Final = 86_400_000
Entry = dict[str, str | bytes]  # of an outbox
BOOM: Final = "Boom\n"  # as what all events of the tests are counted
LOST: Final = ("WorkerCrashed\nits worker died with it", "Outage\nits worker was lost with many others")


@dataclass(slots=True, kw_only=True)
class Spec:
    """A job as a producer asks for it."""

    id: str
    priority: int = 100
    retries: int = 0
    delay_ms: int | None = None
    due_ms: int | None = None
    unique: str = ""
    after: tuple[str, ...] = ()
    expires_ms: int | None = None
    expires_after_ms: int | None = None
    lease_ms: int | None = None
    handler: str | None = None  # `task` or `task queue`
    anyway: bool = False
    body: bytes = b"[[],{}]"
    task: str = "send"
    origin: str | None = None


@dataclass(slots=True)
class Job:
    """A job of the model, in one state."""

    spec: Spec
    enqueued: int
    priority: int
    state: str = "new"
    at: float = 0  # the score in its state
    needs: list[str] = field(default_factory=list)
    attempts: tuple[int, int, int] | None = None
    events: list[str] = field(default_factory=list)
    lease: str = ""  # `worker:number claimed ms score`
    flags: str = ""
    log: bytes = b""
    result: bytes = b""
    kept: bool = True  # else the id alone is known
    version: int = 0  # of the last change of its priority
    group: str = ""  # of a dead letter: the digest as which it is counted

    @property
    def lease_text(self) -> str:
        return f"{self.lease} {self.flags}" if self.flags else self.lease

    @property
    def tries_text(self) -> str:
        text = "{} {} {}".format(*(self.attempts or (0, 0, 0)))
        return f"{text} {self.group}" if self.group else text

    @property
    def owner(self) -> str:
        return self.lease.partition(" ")[0].rpartition(":")[0]

    @property
    def expires_at(self) -> int | None:
        # A head with both, which no client of ours writes, goes by the moment: it stands first.
        if self.spec.expires_ms is None and self.spec.expires_after_ms is not None:
            return self.enqueued + self.spec.expires_after_ms
        return self.spec.expires_ms

    @property
    def head(self) -> bytes:
        spec = self.spec
        lines = [f"{self.enqueued} {self.priority} {spec.retries} {spec.task}"]
        lines += [f"n{spec.unique}", "u"] if spec.unique else []
        lines += [f"x{spec.expires_ms}"] if spec.expires_ms is not None else []
        lines += [f"l{spec.lease_ms}"] if spec.lease_ms is not None else []
        lines += [f"x+{spec.expires_after_ms}"] if spec.expires_after_ms is not None else []
        lines += [f"f{spec.handler}"] if spec.handler is not None else []
        lines += [f"o{spec.origin}"] if spec.origin is not None else []
        lines += ["drun"] if spec.anyway else []
        lines += [f"v{self.version}"] if self.version else []
        return "\n".join(lines).encode()

    def handler(self, now: int) -> tuple[str, Spec]:
        """The job that is made when this one is buried, and the queue it is for (none: the same)."""
        task, _, queue = (self.spec.handler or "").partition(" ")
        attempts = b"%d %d %d" % self.attempts if self.attempts else b""
        parts = (self.spec.id.encode(), self.head, attempts, "\n".join(self.events).encode(), self.spec.body)
        made = Spec(
            id=f"{self.spec.id}-f{now}",
            priority=self.priority,
            retries=3,
            task=task,
            origin=self.spec.id,
            body=b"".join(b"%d:%s," % (len(part), part) for part in parts),
        )
        return queue, made


@dataclass(slots=True)
class Group:
    """Dead letters of one kind."""

    kind: str
    count: int = 0
    first: int = 0
    last: int = 0
    sample: str = ""

    @property
    def text(self) -> bytes:
        return f"{self.count} {self.first} {self.last} {self.sample}\n{self.kind}".encode()


def join(groups: dict[str, Group], job: Job, kind: str) -> None:
    """A job died: it counts from now on."""
    digest = hashlib.sha1(kind.encode(), usedforsecurity=False).hexdigest()[:10]
    group = groups.setdefault(digest, Group(kind, first=int(job.at)))
    group.count += 1
    group.first, job.group = min(group.first, int(job.at)), digest
    if (job.at, job.spec.id) > (group.last, group.sample):
        group.last, group.sample = int(job.at), job.spec.id


def leave(groups: dict[str, Group], job: Job) -> None:
    """A job is dead no more."""
    if job.group:
        groups[job.group].count -= 1
        if not groups[job.group].count:
            del groups[job.group]
        job.group = ""


def renew_newest(groups: dict[str, Group], jobs: dict[str, Job]) -> None:
    """Groups whose newest job has left get the newest of those that stay."""
    for digest, group in groups.items():
        stays = {job_id: job for job_id, job in jobs.items() if job.group == digest}
        if group.sample not in stays:
            group.last, group.sample = max((int(job.at), job_id) for job_id, job in stays.items())


@dataclass(slots=True)
class Answer:
    """What a turn tells a worker."""

    stale: list[str]
    jobs: list[str]
    wait_ms: int = 0


class Late(Exception):
    """What was announced was announced too long ago."""


class Refused(Exception):
    """A job waits for one that is not there."""
