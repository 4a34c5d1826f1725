"""Who of the agents does a chore: one claim a run, kept by a lease, fenced by a token, on the server's clock."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from redis.exceptions import ResponseError

from qdeck._engine import codec, ops, programs, scripts
from qdeck._engine.numbers import digits, score_ms
from qdeck._redis import reads

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from qdeck._engine.ops import Arg, Program
    from qdeck._engine.scripts import Script

PREFIX: Final = "qdeck:agent:"
EVERY: Final = "every_s"  # in a summary: the seconds between two runs


@dataclass(frozen=True, slots=True)
class Claim:
    """The answer to a claim: a run with its token, or how long to wait."""

    token: int
    wait_ms: int
    now_ms: int
    started_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """What a run leaves: a summary, counters that grow, and perhaps a hash that it replaces."""

    outcome: str = "done"
    summary: Mapping[str, Any] = field(default_factory=dict)
    counters: Mapping[str, int] = field(default_factory=dict)
    hash_key: str = ""
    hash_fields: Mapping[str, str | bytes] = field(default_factory=dict)
    live_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """A chore as the server knows it: its last run, whoever did it, and what its runs added up to."""

    chore: str
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
        """When the next run is due, if the agent that did the last one is still there, or another in its place."""
        every_ms = score_ms(every, 1000) if isinstance(every := self.summary.get(EVERY), int | float) else None
        return None if self.started_ms is None or every_ms is None else self.started_ms + every_ms


def key(chore: str) -> bytes:
    """The key of a chore; on a cluster in one slot with what it leaves, as `qdeck:health` of the chore `health`."""
    return f"{PREFIX}{{qdeck:{chore}}}".encode()


def claim(
    chore: str, agent: str, *, every_ms: int, lease_ms: int, aligned: bool = False, now: int = 0
) -> Program[Claim]:
    """Asks for the next run of a chore. `aligned` runs start at whole multiples of the interval."""
    args: list[Arg] = [now, "claim", agent, every_ms, lease_ms, int(aligned), secrets.token_hex(8)]
    token, wait, at, started = yield from programs.run_script(_script(), [key(chore)], args)
    return Claim(token, wait, at, started)


def renew(chore: str, token: int, lease_ms: int, now: int = 0) -> Program[bool]:
    """Keeps a run; False when it is another's."""
    kept = yield from programs.run_script(_script(), [key(chore)], [now, "renew", token, lease_ms])
    return bool(kept)


def finish(chore: str, token: int, ending: Ending, now: int = 0) -> Program[bool]:
    """Ends a run and writes what it leaves, in one step; False when the run is another's, and nothing was written."""
    counters = {name: count for name, count in ending.counters.items() if count}
    args: list[Arg] = [now, "finish", token, ending.outcome, codec.encode_json(ending.summary), ending.live_ms]
    args.append(len(counters))
    for name, count in counters.items():
        args += (name, count)
    for name, value in ending.hash_fields.items():
        args += (name, value)
    names = [key(chore), *([ending.hash_key.encode()] if ending.hash_key else [])]
    taken = yield from programs.run_script(_script(), names, args)
    return bool(taken)


def count(chore: str, counters: Mapping[str, int]) -> Program[None]:
    """Adds to the counters of a chore what was done outside its runs."""
    calls = [(b"HINCRBY", key(chore), f"n:{name}", more) for name, more in counters.items() if more]
    if calls:
        for reply in (yield ops.commands(*calls, key=key(chore))):
            reads.good(reply)


def read(chores: Sequence[str]) -> Program[list[Slot]]:
    """The chores as the server knows them, with plain reads."""
    replies = yield reads.read((b"TIME",), *((b"HGETALL", key(chore)) for chore in chores))
    now = reads.stamp(replies[0]) or reads.local_ms()
    found = []
    for chore, flat in zip(chores, replies[1:], strict=True):
        error = programs.explain(flat) if isinstance(flat, ResponseError) else None
        if error is not None and reads.concerns_all(error):
            raise error
        # A key that is not ours: health reports it, and the other chores are shown.
        found.append(_slot(chore, {} if error else dict(reads.pairs(flat)), now))
    return found


def _slot(chore: str, said: Mapping[bytes, bytes], now: int) -> Slot:
    def number(name: bytes) -> int:
        return digits(said.get(name, b"")) or 0

    try:
        summary = codec.decode_json(said.get(b"summary", b"{}"))
    except ValueError:
        summary = {}
    return Slot(
        chore=chore,
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
    return scripts.plain("_agent/slot")
