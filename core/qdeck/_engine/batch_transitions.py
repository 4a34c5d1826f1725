"""Transitions of operators: apply a slice of a batch, undo it, and take in jobs from another queue."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from qdeck._engine.scripts import load
from qdeck._engine.transitions import SLICE_BYTES, Transition
from qdeck._redis.commands import text_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from qdeck._redis.commands import Arg

SLICE: Final = 200  # jobs in a slice at most
UNDO_TTL_MS: Final = 24 * 3600 * 1000  # how long a batch can be undone
ID_TAKEN: Final = "!"  # the version of a job whose id is taken in the target queue
MAX_UNDO_BYTES: Final = 64 * 1024 * 1024  # kept for the undo of all batches


@dataclass(frozen=True, slots=True)
class SliceResult:
    """The result of a slice: how many entries were read, and code and data of the skipped ones.

    `kept` is whether it can be undone, but for `unkept` entries.
    """

    now_ms: int
    count: int
    kept: bool
    cancel_requested: int
    outbox: int
    bytes: int
    skipped: list[tuple[int, str, str]]
    unkept: int = 0


@dataclass(frozen=True, slots=True)
class UndoneSlice:
    """The result of the undo of a slice: `requeued` of the restored jobs ran before, and wait in ready now."""

    now_ms: int
    restored: int
    count: int
    requeued: int
    skipped: list[tuple[str, str, str]]


RUN: Final = "run"  # `extra` of a retry: jobs that died with a dependency do not wait for it again


def apply_slice(
    queue: str,
    verb: str,
    state: str,
    entries: Sequence[tuple[str, str]],
    *,
    batch: str,
    offset: int | str,
    event: bytes,
    extra: Arg = "",
    group: str = "",
    keep_bytes: int = MAX_UNDO_BYTES,
    keep_ms: int = UNDO_TTL_MS,
    most_bytes: int = SLICE_BYTES,
    now: int = 0,
) -> Transition[SliceResult]:
    """Apply a verb to jobs of one state, given as pairs of id and version (of a running job its token).

    `offset` is the place of the first entry in its plan: sent twice, the slice is applied once. `group` is the
    signature under which jobs that die of it are counted.
    """
    args = (
        now,
        verb,
        state,
        offset,
        keep_bytes,
        keep_ms,
        event,
        extra,
        most_bytes,
        group,
        *chain.from_iterable(entries),
    )
    return Transition(load("apply"), queue, args, _read_slice, batch)


def edit_job(
    queue: str,
    state: str,
    entry: tuple[Arg, Arg],
    *,
    before: bytes,
    after: bytes,
    original: bytes,
    batch: str,
    event: bytes,
    now: int = 0,
) -> Transition[SliceResult]:
    """Replace the payload of a job, and retry a dead one; `original` is how its events record the old payload."""
    args: list[Arg] = [
        now,
        "edit",
        state,
        0,
        MAX_UNDO_BYTES,
        UNDO_TTL_MS,
        event,
        after,
        SLICE_BYTES,
        "",
        *entry,
        before,
        original,
    ]
    return Transition(load("apply"), queue, args, _read_slice, batch)


def _read_slice(reply: Any) -> SliceResult:
    now, count, kept, requested, outbox, size, *skipped = reply
    reasons = [(skipped[at], *_reason(skipped[at + 1])) for at in range(0, len(skipped), 2)]
    return SliceResult(now, count, kept == 1, requested, outbox, size, reasons)


def _reason(raw: bytes) -> tuple[str, str]:
    code, _, data = raw.decode("utf-8", "backslashreplace").partition(" ")
    return code, data


def undo_slice(
    queue: str, batch: str, number: int | str, now: int = 0, *, stays: Sequence[str] = ()
) -> Transition[UndoneSlice]:
    """Undo one slice of a batch, counted from 1 in the order in which they were applied; skip the jobs in `stays`.

    `died:1` and on are slices of dependents that died of the batch, `continued:1` and on of those that stopped waiting.
    """

    def read(reply: Any) -> UndoneSlice:
        at, restored, count, requeued, *skipped = reply
        ids = [*map(text_of, skipped[::2])]
        reasons = [(job_id, *_reason(raw)) for job_id, raw in zip(ids, skipped[1::2], strict=True)]
        return UndoneSlice(at, restored, count, requeued, reasons)

    return Transition(load("undo"), queue, [now, number, *stays], read, batch)


def accept_job(
    queue: str, job_id: str, fields: Mapping[str, bytes], place: Arg, read_ms: int = 0, now: int = 0
) -> Transition[int]:
    """Take in a job from the outbox of another queue, once for each `place` of an outbox."""
    args: list[Arg] = [now, read_ms, place, job_id, *(fields.get(name, b"") for name in "schbaey")]
    return Transition(load("accept"), queue, args, int)
