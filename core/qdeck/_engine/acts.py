"""The operations of operators: acts on jobs that were seen, and taking them back."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from qdeck._engine.ops import SLICE_BYTES, Op
from qdeck._engine.scripts import load
from qdeck._redis.commands import text_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from qdeck._redis.commands import Arg

SLICE: Final = 200  # jobs that one act changes at most
KEEP_MS: Final = 24 * 3600 * 1000  # how long an act can be undone
ID_TAKEN: Final = "!"  # seen of a job whose id is taken in the queue that it would be moved to
KEEP_BYTES: Final = 64 * 1024 * 1024  # what is kept of all acts that can be undone


@dataclass(frozen=True, slots=True)
class Acted:
    """What became of a slice: how many of its entries were looked at, and code and data of why some were left alone.

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
class Undone:
    """What became of the undo of a slice: `requeued` of the restored jobs ran before, and wait in ready now."""

    now_ms: int
    restored: int
    count: int
    requeued: int
    skipped: list[tuple[str, str, str]]


def act(
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
    keep_bytes: int = KEEP_BYTES,
    keep_ms: int = KEEP_MS,
    most_bytes: int = SLICE_BYTES,
    now: int = 0,
) -> Op[Acted]:
    """Acts on jobs of one state, given as pairs of id and what was seen: the score as text, of a running job its token.

    `offset`, the place of the first of them in their plan, makes it one when it is sent twice. `group` is as what those
    that die of it are counted: class and shape of a message, a line each.
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
    return Op(load("act"), queue, args, _read_acted, batch)


def edit(
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
) -> Op[Acted]:
    """Gives a job another payload, and lets a dead one run again; `original` is how its events tell the old one."""
    args: list[Arg] = [
        now,
        "edit",
        state,
        0,
        KEEP_BYTES,
        KEEP_MS,
        event,
        after,
        SLICE_BYTES,
        "",
        *entry,
        before,
        original,
    ]
    return Op(load("act"), queue, args, _read_acted, batch)


def _read_acted(reply: Any) -> Acted:
    now, count, kept, requested, outbox, size, *skipped = reply
    reasons = [(skipped[at], *_reason(skipped[at + 1])) for at in range(0, len(skipped), 2)]
    return Acted(now, count, kept == 1, requested, outbox, size, reasons)


def _reason(raw: bytes) -> tuple[str, str]:
    code, _, data = raw.decode("utf-8", "backslashreplace").partition(" ")
    return code, data


def undo(queue: str, batch: str, number: int | str, now: int = 0) -> Op[Undone]:
    """Takes back one slice of a batch, counted from 1 in the order in which they were done.

    `~1` and on are the slices of dependents that died with what was done, `^1` and on those that went on without it.
    """

    def read(reply: Any) -> Undone:
        at, restored, count, requeued, *skipped = reply
        ids = [*map(text_of, skipped[::2])]
        reasons = [(job_id, *_reason(raw)) for job_id, raw in zip(ids, skipped[1::2], strict=True)]
        return Undone(at, restored, count, requeued, reasons)

    return Op(load("undo"), queue, [now, number], read, batch)


def accept(queue: str, job_id: str, fields: Mapping[str, bytes], place: Arg, read_ms: int = 0, now: int = 0) -> Op[int]:
    """Take in a job from the outbox of another queue, once for each `place` of an outbox."""
    args: list[Arg] = [now, read_ms, place, job_id, *(fields.get(name, b"") for name in "schbaey")]
    return Op(load("accept"), queue, args, int)
