"""Runs of maintenance tasks: one agent claims each, under a lease and a token, by the server's clock."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from qdeck._engine import codec
from qdeck._engine.stored_numbers import digits, score_ms
from qdeck._redis import reads, scripts
from qdeck._redis.commands import Command, with_errors

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from qdeck._redis.commands import Arg, Program, Script

EVERY: Final = "every_s"  # in a summary: the seconds between two runs


@dataclass(frozen=True, slots=True)
class TaskClaim:
    """The reply to a claim: a run with its token, or how long to wait."""

    token: int
    wait_ms: int
    now_ms: int
    started_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskResult:
    """The result of a run: a summary, counters to add, and perhaps a hash to replace."""

    outcome: str = "done"
    summary: Mapping[str, Any] = field(default_factory=dict)
    counters: Mapping[str, int] = field(default_factory=dict)
    hash_key: str = ""
    hash_fields: Mapping[str, str | bytes] = field(default_factory=dict)
    live_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentTask:
    """A maintenance task as the server keeps it: its last run and agent, and the sums of its runs."""

    name: str
    holder: str = ""
    held: bool = False
    started_ms: int | None = None
    ended_ms: int | None = None
    outcome: str = ""
    summary: Mapping[str, Any] = field(default_factory=dict)
    runs: int = 0
    failed: int = 0
    counters: Mapping[str, int] = field(default_factory=dict)

    @property
    def next_ms(self) -> int | None:
        """Return when the next run is due, if an agent still runs."""
        every_ms = score_ms(every, 1000) if isinstance(every := self.summary.get(EVERY), int | float) else None
        return None if self.started_ms is None or every_ms is None else self.started_ms + every_ms


def key(task: str) -> bytes:
    """Return the key of a maintenance task; on a cluster in one slot with its hash, as `qdeck:health` of `health`."""
    return f"qdeck:agent:{{qdeck:{task}}}".encode()


def claim(
    task: str, agent: str, *, every_ms: int, lease_ms: int, aligned: bool = False, now: int = 0
) -> Program[TaskClaim]:
    """Claim the next run of a maintenance task. `aligned` runs start at whole multiples of the interval."""
    args: list[Arg] = [now, "claim", agent, every_ms, lease_ms, int(aligned), secrets.token_hex(8)]
    token, wait, at, started = yield from scripts.run(_script(), [key(task)], args)
    return TaskClaim(token, wait, at, started)


def renew(task: str, token: int, lease_ms: int, now: int = 0) -> Program[bool]:
    """Renew the lease of a run; return False when another agent has the run."""
    kept = yield from scripts.run(_script(), [key(task)], [now, "renew", token, lease_ms])
    return bool(kept)


def finish(task: str, token: int, ending: TaskResult, now: int = 0) -> Program[bool]:
    """End a run and store its result, in one step; return False when another agent has the run."""
    counters = {name: count for name, count in ending.counters.items() if count}
    args: list[Arg] = [now, "finish", token, ending.outcome, codec.encode_json(ending.summary), ending.live_ms]
    args.append(len(counters))
    for name, count in counters.items():
        args += (name, count)
    for name, value in ending.hash_fields.items():
        args += (name, value)
    names = [key(task), *([ending.hash_key.encode()] if ending.hash_key else [])]
    taken = yield from scripts.run(_script(), names, args)
    return bool(taken)


def count(task: str, counters: Mapping[str, int]) -> Program[None]:
    """Add to the counters of a maintenance task, outside of its runs."""
    calls: list[Command] = [(b"HINCRBY", key(task), f"n:{name}", more) for name, more in counters.items() if more]
    if calls:
        yield calls


def read(tasks: Sequence[str]) -> Program[list[AgentTask]]:
    """Return the maintenance tasks, with plain reads."""
    replies = yield with_errors((b"TIME",), *((b"HGETALL", key(task)) for task in tasks))
    now = reads.stamp(replies[0]) or reads.local_ms()
    found = []
    for task, flat in zip(tasks, replies[1:], strict=True):
        # A key of another program: health reports it, and the other tasks are shown.
        found.append(_task(task, {} if reads.is_broken(flat) else dict(reads.pairs(flat)), now))
    return found


def _task(task: str, said: Mapping[bytes, bytes], now: int) -> AgentTask:
    def number(name: bytes) -> int:
        return digits(said.get(name, b"")) or 0

    try:
        summary = codec.decode_json(said.get(b"summary", b"{}"))
    except ValueError:
        summary = {}
    return AgentTask(
        name=task,
        holder=said.get(b"holder", b"").decode("utf-8", "replace"),
        held=number(b"until") > now,
        started_ms=number(b"started") or None,
        ended_ms=number(b"ended") or None,
        outcome=said.get(b"outcome", b"").decode("utf-8", "replace"),
        summary=summary if isinstance(summary, dict) else {},
        runs=number(b"runs"),
        failed=number(b"failed"),
        counters={name[2:].decode("utf-8", "replace"): number(name) for name in said if name.startswith(b"n:")},
    )


def _script() -> Script:
    return scripts.plain("_agent/maintenance")
