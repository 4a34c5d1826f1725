"""Removing temporary queues, and what became of each.

A queue that a reader waits on is never removed, nor one that was used lately. The order makes it safe: the remover
announces itself, and from then on no reader can begin to wait; it looks at the list and removes it in one step; then it
strikes the queue off.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from qdeck._engine import batch_transitions
from qdeck._formatting import duration
from qdeck._redis import reads, scripts
from qdeck.messages import _registry as registry
from qdeck.messages._cleaning_batch import MOST_ONE, copy_key
from qdeck.messages._names import temporary_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from qdeck._redis.commands import Program
    from qdeck.messages._cleaning_batch import Copies


class RemovalOutcome(StrEnum):
    """What became of a queue that was to be removed; the scripts reply with the same words."""

    REMOVED = "removed"
    WOULD_REMOVE = "would_remove"
    GONE = "gone"
    IN_USE = "in_use"
    RECENT = "recent"
    BEING_REMOVED = "being_removed"
    LATE = "late"
    FOREIGN = "foreign"
    UNKNOWN = "unknown"
    UNCOPIED = "uncopied"
    FILLED = "filled"

    @property
    def why(self) -> str:
        """Why the queue was left; empty when it was not."""
        return _WHY.get(self, "")


_WHY: Final[Mapping[RemovalOutcome, str]] = MappingProxyType(
    {
        RemovalOutcome.IN_USE: "a reader is waiting on it",
        RemovalOutcome.RECENT: "it was used recently",
        RemovalOutcome.BEING_REMOVED: "another cleaning is removing it",
        RemovalOutcome.LATE: "it took too long; clean again",
        RemovalOutcome.FOREIGN: "it is not a temporary queue",
        RemovalOutcome.UNKNOWN: "the server keeps no idle times",
        RemovalOutcome.UNCOPIED: "it is too large to be kept for undo",
        RemovalOutcome.FILLED: "it holds messages now",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """One queue: what is in it, and what becomes of it.

    `messages` is None where it was not removed and every read would count as a use. `undoable`: a copy is kept (or
    would be), so that undo puts it back.
    """

    name: str
    outcome: RemovalOutcome
    messages: int | None = None
    bytes: int = 0
    idle_s: int | None = None
    undoable: bool = False
    cause: str = ""
    """Why it is orphaned, when it is."""

    @property
    def why(self) -> str:
        """Why the queue was left; empty when it was not."""
        if self.outcome is RemovalOutcome.RECENT and self.idle_s is not None:
            return f"it was used {duration(1000 * self.idle_s)} ago"
        return self.outcome.why


@dataclass(slots=True)
class CleanReport:
    """What a cleaning did, or would do. Names are kept of the first ones only: there may be a million."""

    dry_run: bool = False
    scanned: int = 0
    removed: int = 0
    messages: int | None = 0
    bytes: int = 0
    in_use: int = 0
    kept: int = 0
    samples: list[Removal] = field(default_factory=list)
    most_samples: int = 100
    batch: str | None = None
    undoable: int = 0
    undo_until_ms: int | None = None

    def add(self, found: Removal) -> None:
        """Count one queue."""
        if found.outcome in (RemovalOutcome.REMOVED, RemovalOutcome.WOULD_REMOVE):
            self.removed += 1
            is_known = self.messages is not None and found.messages is not None
            self.messages = (self.messages or 0) + (found.messages or 0) if is_known else None
            self.bytes += found.bytes
            self.undoable += found.undoable
        elif found.outcome is RemovalOutcome.IN_USE:
            self.in_use += 1
        elif found.outcome is not RemovalOutcome.GONE:
            self.kept += 1
        if len(self.samples) < self.most_samples:
            self.samples.append(found)


def look(
    names: Sequence[str], idle_s: int, *, any_list: bool = False, registered: bool = False
) -> Program[list[Removal]]:
    """Return what removing queues would do, from plain reads."""
    if not names:
        return []
    known = yield from registry.describe(names)
    now = yield from reads.clock()
    facts = yield from registry.look(names)
    found: list[Removal] = []
    for name, entry, (kind, idle, size) in zip(names, known, facts, strict=True):
        outcome = RemovalOutcome.WOULD_REMOVE
        if kind not in (b"list", b"none") or not (any_list or temporary_name(name.encode()) is not None):
            outcome = RemovalOutcome.FOREIGN
        elif entry is not None and entry.is_waited_on(now):
            outcome = RemovalOutcome.IN_USE
        elif kind == b"none" and registered and entry is None:
            outcome = RemovalOutcome.GONE
        elif kind == b"list" and idle_s and (idle is None or idle < idle_s):
            outcome = RemovalOutcome.UNKNOWN if idle is None else RemovalOutcome.RECENT
        elif any_list and (size or 0) > MOST_ONE:
            outcome = RemovalOutcome.UNCOPIED
        undoable = outcome is RemovalOutcome.WOULD_REMOVE and (size or 0) <= MOST_ONE
        messages = 0 if kind == b"none" else None
        found.append(
            Removal(
                name=name, outcome=outcome, messages=messages, bytes=size or 0, idle_s=idle, undoable=undoable
            )
        )  # fmt: skip
    would = [at for at, one in enumerate(found) if one.outcome is RemovalOutcome.WOULD_REMOVE and one.messages is None]
    counts = (yield from registry.lengths([found[at].name for at in would])) if would else []
    for at, count in zip(would, counts, strict=True):
        found[at] = replace(found[at], messages=count)
    return found


def remove(
    names: Sequence[str],
    *,
    idle_s: int,
    event: str,
    batch: Copies | None = None,
    needs_copy: bool = False,
    only_empty: bool = False,
    any_list: bool = False,
    task_set: bytes = b"",
    expires: Mapping[str, str] | None = None,
) -> Program[list[Removal]]:
    """Remove queues that no reader waits on and that were not used for so long.

    A batch keeps copies; what cannot be copied stays where it `needs_copy`, and what holds messages where `only_empty`
    ones go. `any_list`: they are lists of any name, of other programs; `task_set` is the set that has their names.
    `expires` has the moments at which their times to live ended; one that lives longer by now stays.
    """
    if not names:
        return []
    now = yield from reads.clock()
    begun = yield from registry.begin(names)
    found: dict[str, Removal] = {}
    for name, word in zip(names, begun, strict=True):
        if word != "free":
            found[name] = Removal(name=name, outcome=RemovalOutcome(word))
        elif not any_list and temporary_name(name.encode()) is None:  # whatever is registered
            found[name] = Removal(name=name, outcome=RemovalOutcome.FOREIGN)
    if expires is not None:
        found = (yield from _find_renewed(names, expires)) | found
    mine = [name for name in names if name not in found]
    room = (yield from batch.note(mine, task_set)) if batch is not None and mine else 0
    # The clock was read before the announcements were made: all of them last until then.
    keep_ms = batch_transitions.UNDO_TTL_MS if batch is None else batch.keep_ms
    args = (now + registry.ACT_MS, idle_s, room, keep_ms, int(needs_copy), int(only_empty))
    for one in (yield from _drop(mine, batch.id if batch is not None else "-", args)):
        found[one.name] = one
    ended = [one for name in mine if (one := found[name]).outcome in (RemovalOutcome.REMOVED, RemovalOutcome.GONE)]
    keeps_empty = batch is not None and batch.keeps_empty
    struck = yield from registry.finish(
        event, [(one.name, one.messages or 0, one.bytes) for one in ended], announced=True
    )
    for one, was_registered in zip(ended, struck, strict=True):
        # A registration of which no list was left was all there was of a queue; another may have ended it already.
        if was_registered and one.outcome is RemovalOutcome.GONE:
            found[one.name] = Removal(
                name=one.name, outcome=RemovalOutcome.REMOVED, messages=0, undoable=keeps_empty
            )  # fmt: skip
    if task_set and ended:
        yield (b"SREM", task_set, *(one.name for one in ended))
    gone = {one.name for one in ended}
    free = (name for name, word in zip(names, begun, strict=True) if word == "free")
    yield from registry.keep([name for name in free if name not in gone])
    if batch is not None:
        kept = {one.name: one.bytes for one in found.values() if one.undoable}
        empty = [one.name for one in ended if one.outcome is RemovalOutcome.GONE and keeps_empty]
        yield from batch.record_kept(kept, empty)
    return [found[name] for name in names]


def _find_renewed(names: Sequence[str], expires: Mapping[str, str]) -> Program[dict[str, Removal]]:
    """Return the queues whose times to live ended at no such moment: they were used since, or are not registered."""
    found: dict[str, Removal] = {}
    for name, entry in zip(names, (yield from registry.describe(names)), strict=True):
        if entry is None or str(entry.expires_ms) != expires[name]:
            outcome = RemovalOutcome.GONE if entry is None else RemovalOutcome.RECENT
            found[name] = Removal(name=name, outcome=outcome)
    return found


def _drop(names: Sequence[str], batch: str, args: tuple[int, ...]) -> Program[list[Removal]]:
    """Remove lists that were not used again, and set their copies aside."""
    if not names:
        return []
    drop = scripts.plain("messages/drop")
    yield from scripts.check_rights(drop, names[0].encode())
    calls = [drop.call((name.encode(), copy_key(name, batch)), args) for name in names]
    found = []
    for name, reply in zip(names, (yield from scripts.run_each(drop, calls)), strict=True):
        if isinstance(reply, list):
            messages, size, copied = map(int, reply)
            removed = RemovalOutcome.REMOVED
            found.append(Removal(name=name, outcome=removed, messages=messages, bytes=size, undoable=copied == 1))
        else:
            found.append(Removal(name=name, outcome=RemovalOutcome(reply.decode())))
    return found
