"""The keys of RQ and their states."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from qdeck._model.values import State
from qdeck._redis.commands import raw_of
from qdeck.adapters.model import Kind, Source

if TYPE_CHECKING:
    from collections.abc import Sequence

NAME: Final = "rq"
QUEUES: Final = b"rq:queues"
WORKERS: Final = b"rq:workers"
SUSPENDED: Final = b"rq:suspended"
QUEUE: Final = b"rq:queue:"
HANDOVER: Final = "handover"
STARTED: Final = "started"
QUEUED: Final = "queued"
REGISTRIES: Final = {
    STARTED: (b"rq:wip:", State.RUNNING),
    "scheduled": (b"rq:scheduled:", State.DELAYED),
    "deferred": (b"rq:deferred:", State.BLOCKED),
    "failed": (b"rq:failed:", State.DEAD),
    "finished": (b"rq:finished:", State.DONE),
    "canceled": (b"rq:canceled:", State.CANCELLED),
}
"""The prefix of the sorted set and the state, by RQ's own name of the state."""


def queue_key(queue: str) -> bytes:
    """Return the list of the jobs that wait in a queue."""
    return QUEUE + raw_of(queue)


def handover_key(queue: str) -> bytes:
    """Return the list of the jobs that a worker has taken and not begun."""
    return queue_key(queue) + b":intermediate"


def first_seen_key(queue: str, job: bytes) -> bytes:
    """Return when RQ's maintenance first found a job in that list."""
    return handover_key(queue) + b":first_seen:" + job


def registry_key(native_state: str, queue: str) -> bytes:
    """Return the sorted set of the jobs of a queue in a state."""
    return REGISTRIES[native_state][0] + raw_of(queue)


def job_key(job: bytes) -> bytes:
    """Return the hash of a job."""
    return b"rq:job:" + job


def dependents_key(job: bytes) -> bytes:
    """Return the set of the jobs that wait for a job."""
    return b"rq:job:" + job + b":dependents"


def dependencies_key(job: bytes) -> bytes:
    """Return the set of the jobs that a job waits for; RQ writes its name with two colons."""
    return b"rq:job::" + job + b":dependencies"


def executions_key(job: bytes) -> bytes:
    """Return the sorted set of the executions of a job."""
    return b"rq:executions:" + job


def execution_key(job: bytes, execution: bytes) -> bytes:
    """Return the hash of one execution."""
    return b"rq:execution:" + job + b":" + execution


def results_key(job: bytes) -> bytes:
    """Return the stream of the results of a job."""
    return b"rq:results:" + job


def group_key(group: bytes) -> bytes:
    """Return the set of the jobs of a group."""
    return b"rq:group:" + group


def job_of(native_state: str, member: bytes) -> bytes:
    """Return the id of the job that is listed as this member of a state's key."""
    if native_state != STARTED:
        return member
    job, colon, _ = member.rpartition(b":")  # job:execution; RQ 1 has no executions
    return job if colon else member


def sources_of(queue: str, states: Sequence[str]) -> list[Source]:
    """Return the keys that hold the jobs of these states."""
    found = []
    if State.RUNNING in states:
        handover = Source(key=handover_key(queue), kind=Kind.LIST, state=State.RUNNING, native_state=HANDOVER)
        found.append(handover)
    if State.READY in states:
        found.append(Source(key=queue_key(queue), kind=Kind.LIST, state=State.READY, native_state=QUEUED))
    found += [
        Source(key=prefix + raw_of(queue), kind=Kind.ZSET, state=state, native_state=native)
        for native, (prefix, state) in REGISTRIES.items()
        if state in states
    ]
    return found
