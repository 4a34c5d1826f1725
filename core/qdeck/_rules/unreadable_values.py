"""What is stored and cannot be read: a key of another type, a score that is not a time, a field that qdeck never
wrote. Reading goes on around it; here it is reported, with the queue or the key named.

Bounded: the counts are of whole lists, the fields of some jobs of each list, and of the keys beside the queues.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import msgspec

from qdeck._engine import codec, keys
from qdeck._engine.stored_numbers import digits, score_ms
from qdeck._errors import QdeckError
from qdeck._model.values import Check, Code, Finding, QueueRef, Status
from qdeck._model.verdict import Findings, make_check
from qdeck._model.words import Unreadable
from qdeck._operations import activity, batches
from qdeck._redis import reads
from qdeck._redis.commands import with_errors
from qdeck._redis.errors import LOST, is_error
from qdeck._schedules import store
from qdeck._schedules.model import read_definition, read_state
from qdeck._server import finding_times, history, workers
from qdeck.adapters.native.unreadable import garbage, other_type

if TYPE_CHECKING:
    from collections.abc import Callable

    from qdeck._model.values import Snapshot
    from qdeck._redis.commands import Program
    from qdeck.adapters.all import Adapters

_FIELDS: Final = 1000  # of a key beside the queues
_NUMBERS: Final = (b"until", b"started", b"ended", b"token", b"runs", b"failed")  # of what an agent keeps of its runs


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """A key beside the queues: its type, and whether a field of it is as qdeck writes it."""

    key: str
    kind: str
    is_ours: Callable[[bytes, bytes], bool]


def _is_json(value: bytes) -> bool:
    return isinstance(codec.decode_json(value), dict)


def _is_batch(value: bytes) -> bool:
    msgspec.json.decode(value, type=batches.Batch)
    return True


def _is_schedule(name: bytes, value: bytes) -> bool:
    read_definition(name.decode(), value).rule()
    return True


def _is_sample(field: bytes, value: bytes) -> bool:
    return digits(value) is not None if not field else bool(history.read_latest(value))


def _is_run(field: bytes, value: bytes) -> bool:
    if field in _NUMBERS or field.startswith(b"n:"):
        return digits(value) is not None
    return field != b"summary" or _is_json(value)


def _is_about(_: bytes, value: bytes) -> bool:
    words = value.split(b" ", 5)
    return len(words) == 6 and digits(words[0]) is not None and digits(words[1]) is not None


STORED: Final = (
    Stored(key=keys.QUEUES, kind="hash", is_ours=lambda name, at: name.isascii() and digits(at) is not None),
    Stored(
        key=keys.WORKERS, kind="hash",
        is_ours=lambda name, said: not name or workers.read_worker(name, said, None, 0).heartbeat_ms is not None,
    ),
    Stored(key=keys.CONTROL, kind="hash", is_ours=lambda _, asked: asked in (b"quiet", b"stop")),
    Stored(key=keys.ACTIVITY, kind="stream", is_ours=lambda _, entry: activity.read_entry(entry) is not None),
    Stored(key=keys.UNDO, kind="hash", is_ours=lambda _, kept: _is_batch(kept)),
    Stored(key=store.SCHEDULES, kind="hash", is_ours=_is_schedule),
    Stored(key=store.STATE, kind="hash", is_ours=lambda name, line: not name or read_state(line).readable),
    Stored(key=history.LATEST, kind="hash", is_ours=_is_sample),
    Stored(key=finding_times.KEY, kind="string", is_ours=lambda _, noted: _is_json(noted)),
    Stored(key="qdeck:health", kind="hash", is_ours=lambda name, told: name != b"metrics" or _is_json(told)),
    *(Stored(key=f"qdeck:agent:{{qdeck:{task}}}", kind="hash", is_ours=_is_run) for task in keys.MAINTENANCE_TASKS),
    *(
        Stored(key=f"{keys.MESSAGES}:{part}", kind="zset", is_ours=lambda _, at: score_ms(at) is not None)
        for part in ("queues", "tasks", "waiting", "callbacks")
    ),
    Stored(key=f"{keys.MESSAGES}:about", kind="hash", is_ours=_is_about),
    Stored(
        key=f"{keys.MESSAGES}:metrics", kind="hash",
        is_ours=lambda name, count: name.count(b" ") == 3 and digits(count) is not None,
    ),
)  # fmt: skip


def check(seen: Snapshot, adapters: Adapters, notices: list[str]) -> Program[Check]:
    """Return the check `unreadable`, with a finding for each key that holds what cannot be read."""
    found: list[tuple[Unreadable, QueueRef | None]] = []
    for adapter in adapters.shown:
        rows = [row for row in seen.queues if row.adapter == adapter.name and row.problem is None]
        try:
            found += yield from adapter.unreadable(rows, notices)
        except LOST:
            raise
        except QdeckError as error:  # a key of another type, or one that this user may not read
            found.append((Unreadable.of(error), None))
    found += [(problem, None) for problem in (yield from _beside())]
    made = Findings(seen.shared)
    findings = [
        Finding(code=Code.UNREADABLE, severity=Status.DEGRADED, problem=problem)
        if ref is None
        else made.of_queue(Code.UNREADABLE, Status.DEGRADED, ref, problem=problem)
        for problem, ref in found
    ]
    return make_check(
        "unreadable", findings, "everything that was checked can be read", value=len(findings), threshold=0
    )


def _beside() -> Program[list[Unreadable]]:
    """Return what cannot be read in the keys beside the queues."""
    found: list[Unreadable] = []
    kinds = yield from reads.try_all([(b"TYPE", one.key) for one in STORED])
    for one, kind in zip(STORED, kinds, strict=True):
        if not isinstance(kind, bytes) or kind == b"none":
            continue
        if kind != one.kind.encode():
            found.append(other_type(one.key, one.kind, kind))
            continue
        broken = [field for field, value in (yield from _fields(one)) if not _passes(one, field, value)]
        if broken:
            name = broken[0].decode("utf-8", "replace")[:60]
            found.append(garbage("field", len(broken), one.key, repr(name)))
    return found


def _passes(one: Stored, field: bytes, value: bytes) -> bool:
    try:
        return one.is_ours(field, value)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return False


def _fields(one: Stored) -> Program[list[tuple[bytes, bytes]]]:
    if one.kind == "hash":
        return list((yield from reads.scan_hash(one.key, most=_FIELDS)).items())
    if one.kind == "string":
        [value] = yield with_errors((b"GET", one.key))
        return [] if not isinstance(value, bytes) else [(b"", value)]
    if one.kind == "stream":
        [page] = yield with_errors((b"XREVRANGE", one.key, b"+", b"-", b"COUNT", _FIELDS))
        return [] if is_error(page) else [(at, dict(reads.pairs(flat)).get(b"e", b"")) for at, flat in page]
    [flat] = yield with_errors((b"ZRANGE", one.key, 0, _FIELDS - 1, b"WITHSCORES"))
    return [] if is_error(flat) else reads.pairs(flat)
