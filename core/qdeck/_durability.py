"""Durability of jobs: waits until replicas, or the disk, have what an enqueue wrote, and returns how many have it.

Replication is asynchronous: a master that dies loses what it acknowledged a moment before. `WAIT` and `WAITAOF` return
how far the replicas are, for the writes of their own connection. So a small write is sent before them on the same
connection, and a check that the jobs exist: after a lost reply or a failover, missing jobs must not count as durable.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from qdeck._engine import keys, programs, transitions
from qdeck._errors import InvalidOption, QdeckError, ServerRefused
from qdeck._formatting import counted
from qdeck._redis.commands import Request
from qdeck._redis.errors import ReplyCode, code_of, unknown_command

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qdeck._redis.commands import Command, Program

COUNTER: Final = "n:durable"  # in `{q}:meta`: jobs for which durability was requested
_LEAST_S: Final = 0.02  # for a queue that is reached after the timeout of its call
_SLICE_S: Final = 2.0  # of waiting in one call, well below the timeout for a silent server
_MOST_S: Final = 60.0
_MOST_REPLICAS: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Durable:
    """What an enqueue waits for before it returns: a number of replicas, and with `fsync` their disks.

    With `fsync` the master's own disk counts as well, and without replicas it alone.
    """

    replicas: int = 0
    fsync: bool = False
    timeout: float = 1.0

    def __post_init__(self) -> None:
        if isinstance(self.replicas, bool) or not 0 <= self.replicas <= _MOST_REPLICAS:
            raise InvalidOption(f"replicas is {self.replicas!r}", hint=f"Give a number from 0 to {_MOST_REPLICAS}")
        if not self.replicas and not self.fsync:
            raise InvalidOption("it waits for nothing", hint="Give replicas=1, or fsync=True, or both.")
        if not 0 < self.timeout <= _MOST_S:
            raise InvalidOption(f"timeout is {self.timeout!r}", hint=f"Give seconds, at most {_MOST_S:.0f}")

    def __str__(self) -> str:
        disk = ["the master's disk"] if self.fsync else []
        others = [counted(self.replicas, "replica")] if self.replicas else []
        return " and ".join([*disk, *others])


@dataclass(frozen=True, slots=True, kw_only=True)
class Durability:
    """How durable a job was when its enqueue returned: how many replicas had it, and with `fsync` on disk."""

    wanted: Durable
    replicas: int
    on_disk: bool | None = None
    """Whether the master had it on disk; None when that was not requested."""
    found: bool = True
    """Whether the job was there at that moment: after a failover in between it may not be."""

    @property
    def met(self) -> bool:
        """Return whether the request was fulfilled."""
        return self.found and self.replicas >= self.wanted.replicas and self.on_disk is not False

    def __str__(self) -> str:
        if not self.found:
            return "the job is gone: the master changed in the meantime"
        disk = "" if self.on_disk is None else f", the master's disk {'has' if self.on_disk else 'does not have'} it"
        return f"{self.replicas} of {self.wanted.replicas} replicas have it{disk}"


def read_durable(value: Any) -> Durable | None:
    """Return what is requested: `Durable(…)`, or short a number of replicas; None and False are nothing."""
    if value is None or value is False:
        return None
    if isinstance(value, Durable):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return Durable(replicas=value)
    raise InvalidOption(
        f"durable is {value!r}", hint="Give a number of replicas, or qdeck.Durable(replicas=1, fsync=True)"
    )


def confirm(queue: str, job_ids: Sequence[str], wanted: Durable, until: float | None = None) -> Program[Durability]:
    """Wait until these jobs of one queue are as durable as requested, at most as long as that allows.

    `until` is the end of a wait that several queues share; each waits at least a moment.
    """
    if until is None:
        until = time.monotonic() + wanted.timeout
    while True:
        left = until - time.monotonic()
        told = yield from _wait(queue, job_ids, wanted, max(_LEAST_S, min(left, _SLICE_S)))
        if told.met or not told.found or left <= _SLICE_S:
            return told


def _wait(queue: str, job_ids: Sequence[str], wanted: Durable, seconds: float) -> Program[Durability]:
    found = True
    for at in range(0, len(job_ids) - transitions.SLICE, transitions.SLICE):
        found = found and all((yield from programs.exists(queue, job_ids[at : at + transitions.SLICE])))
    last = job_ids[(len(job_ids) - 1) // transitions.SLICE * transitions.SLICE :]
    meta, ms = keys.key(queue, "meta"), round(seconds * 1000)
    wait: Command = (b"WAITAOF", 1, wanted.replicas, ms) if wanted.fsync else (b"WAIT", wanted.replicas, ms)
    steps: list[Command] = [
        (b"HINCRBY", meta, COUNTER, len(job_ids)),
        (b"HMGET", keys.key(queue, "head"), *last),
        (b"ZMSCORE", keys.key(queue, "done"), *last),
        wait,
    ]
    try:
        _, heads, ended, reply = yield Request(steps, meta)
    except QdeckError as error:
        raise _explain(error) from error
    found = found and all(head is not None or end is not None for head, end in zip(heads, ended, strict=True))
    if wanted.fsync:
        local, replicas = reply
        return Durability(wanted=wanted, replicas=replicas, on_disk=local >= 1, found=found)
    return Durability(wanted=wanted, replicas=reply, found=found)


def _explain(error: QdeckError) -> QdeckError:
    if code_of(error) is ReplyCode.NO_APPENDONLY:
        return ServerRefused(
            "the server has no append-only file", hint="Set appendonly yes on the server, or wait for replicas only."
        )
    if unknown_command(error) == "WAITAOF":
        return ServerRefused("the server does not support WAITAOF", hint="Fsync needs Redis 7.2 or Valkey.")
    return error
