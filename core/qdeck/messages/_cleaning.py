"""Removing temporary queues: those of a task that ended, those whose time is over, and those that nobody owns.

A queue on which somebody waits is never removed, nor one that was used lately. The order makes it safe: the remover
announces itself, and from then on nobody can begin to wait; it looks at the list and removes it in one step; then it
strikes the queue off.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from redis.exceptions import ResponseError

from qdeck._engine import ops
from qdeck._engine import programs as engine
from qdeck._engine.ids import new_id
from qdeck._errors import InvalidName, LayoutMismatch, NotAllowed, UsageError
from qdeck._names import QueueName
from qdeck.adapters.lists.names import read_registered, registry_of
from qdeck.messages import _batch as cleaned
from qdeck.messages import _registry as registry
from qdeck.messages._naming import TaskQueueName

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from qdeck._engine.ops import Program
    from qdeck.messages._batch import Keeper

IDLE_S: Final = 86_400
SLICE: Final = 500
_MAY_BE: Final = re.compile(rb":(?:responses|callbacks):|:(?:enterprise|professional|advance|free):")


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """One queue: what is in it, and what becomes of it (`removed`, `would_remove`, `gone`, `in_use`, `recent`, …).

    `going`: another remover has it in hand.
    How many messages it held is known only when it was removed: to count them would count as a use. `undoable`: a copy
    is kept (or would be), so that undo puts it back.
    """

    name: str
    outcome: str
    messages: int | None = None
    bytes: int = 0
    idle_s: int | None = None
    undoable: bool = False


@dataclass(slots=True)
class CleanReport:
    """What a cleaning did, or would do. Names are kept of the first ones only: there may be a million."""

    dry_run: bool = False
    scanned: int = 0
    removed: int = 0
    messages: int = 0
    bytes: int = 0
    in_use: int = 0
    kept: int = 0
    samples: list[Removal] = field(default_factory=list)
    most_samples: int = 100
    batch: str | None = None
    undoable: int = 0
    undo_until_ms: int | None = None

    def add(self, found: Removal) -> None:
        """Counts one queue."""
        if found.outcome in ("removed", "would_remove"):
            self.removed += 1
            self.messages += found.messages or 0
            self.bytes += found.bytes
            self.undoable += found.undoable
        elif found.outcome == "in_use":
            self.in_use += 1
        elif found.outcome != "gone":
            self.kept += 1
        if len(self.samples) < self.most_samples:
            self.samples.append(found)


def look(names: Sequence[str], idle_s: int = 0) -> Program[list[Removal]]:
    """What `remove` would do, from plain reads."""
    if not names:
        return []
    known = yield from registry.describe(names)
    now = yield from registry.server_ms()
    replies = yield ops.commands(
        *(
            command
            for name in names
            # None of these counts as a use of the key.
            for command in ((b"TYPE", name), (b"OBJECT", b"IDLETIME", name), (b"MEMORY", b"USAGE", name))
        ),
        key=names[0].encode(),
        reads=True,
    )
    found = []
    for i, name in enumerate(names):
        kind, idle, weight = replies[3 * i : 3 * i + 3]
        entry = known[i]
        seconds = idle if isinstance(idle, int) else None
        outcome = "would_remove"
        if kind not in (b"list", b"none") or temporary_name(name.encode()) is None:
            outcome = "foreign"
        elif entry is not None and entry.waited_until_ms > now:
            outcome = "in_use"
        elif kind == b"list" and idle_s and (seconds is None or seconds < idle_s):
            outcome = "unknown" if seconds is None else "recent"
        size = _number(weight)
        undoable = outcome == "would_remove" and size <= cleaned.MOST_ONE
        found.append(Removal(name=name, outcome=outcome, bytes=size, idle_s=seconds, undoable=undoable))
    return found


def _number(reply: object) -> int:
    return reply if isinstance(reply, int) else 0


_WORDS: Final = {
    "busy": "recent", "late": "late", "foreign": "foreign", "unknown": "unknown", "uncopied": "uncopied",
}  # fmt: skip


def remove(
    names: Sequence[str], *, idle_s: int, event: str, keeper: Keeper | None = None, needs_copy: bool = False
) -> Program[list[Removal]]:
    """Removes queues where nobody waits and that were left alone for so long; tells what became of each.

    A keeper puts copies aside, for undo. `needs_copy`: what cannot be copied stays.
    """
    if not names:
        return []
    now = yield from registry.server_ms()
    # Only what is called like a temporary queue is one, whatever is registered.
    ours = {name for name in names if temporary_name(name.encode()) is not None}
    free = yield from registry.begin(names)
    mine = [name for name, answer in zip(names, free, strict=True) if answer == "free" and name in ours]
    keeping: dict[str, Any] = {}
    if keeper is not None and mine:
        yield from keeper.note(mine)
        keeping = {"batch": keeper.batch, "copy_bytes": keeper.most(len(mine))}
    # The clock was read before the announcements were made: all of them last until then.
    dropped = yield from registry.drop_many(mine, now + registry.ACT_MS, idle_s, needs_copy=needs_copy, **keeping)
    ended: list[tuple[str, int, int]] = []
    left = [name for name, answer in zip(names, free, strict=True) if answer == "free" and name not in ours]
    outcome = {name: Removal(name=name, outcome="foreign") for name in left}
    for name, told in zip(mine, dropped, strict=True):
        if isinstance(told, tuple):
            messages, size, copied = told
            ended.append((name, messages, size))
            outcome[name] = Removal(name=name, outcome="removed", messages=messages, bytes=size, undoable=copied == 1)
        elif told == "gone":
            ended.append((name, 0, 0))
            outcome[name] = Removal(name=name, outcome="gone", messages=0)
        else:
            left.append(name)
            outcome[name] = Removal(name=name, outcome=_WORDS[told])
    if ended:
        struck = yield from registry.finish(event, ended, announced=True)
        for (name, *_), registered in zip(ended, struck, strict=True):
            # A registration of which no list was left was all there was of a queue; another may have ended it already.
            if registered and outcome[name].outcome == "gone":
                outcome[name] = Removal(name=name, outcome="removed", messages=0, undoable=keeper is not None)
    if left:
        yield from registry.keep(left)
    if keeper is not None and mine:
        kept = {name: outcome[name].bytes for name in mine if outcome[name].undoable}
        yield from keeper.settle(kept, [name for name in mine if name not in kept])
    return [outcome.get(name) or Removal(name=name, outcome=told) for name, told in zip(names, free, strict=True)]


def _check_id(task_id: str) -> None:
    try:
        task_id.encode()
    except UnicodeEncodeError as error:
        raise UsageError(
            f"no task has the id {task_id!r}: it is not UTF-8", hint="give an id as services do"
        ) from error


def everywhere(_name: str) -> bool:
    """Return that a queue may go, whatever it is called."""
    return True


def clean_task(
    task_id: str,
    *,
    idle_s: int = 0,
    dry_run: bool = False,
    keeper: Keeper | None = None,
    within: Callable[[str], bool] = everywhere,
) -> Program[list[Removal]]:
    """Removes the temporary queues of a task, a slice at a time; those that are `within`."""

    def act(names: Sequence[str]) -> Program[list[Removal]]:
        if dry_run:
            return (yield from look(names, idle_s))
        return (yield from remove(names, idle_s=idle_s, event="cleaned", keeper=keeper))

    return (yield from _each_of(task_id, act, within))


@dataclass(slots=True)
class _Ending:
    """The end of a task by its service: what holds messages is copied first, and only then a batch is made."""

    idle_s: int
    keeper: Keeper

    def remove(self, names: Sequence[str]) -> Program[list[Removal]]:
        there = yield ops.commands(*((b"EXISTS", name) for name in names), key=names[0].encode(), reads=True)
        full = [name for name, count in zip(names, there, strict=True) if count != 0]
        bare = [name for name, count in zip(names, there, strict=True) if count == 0]
        found = yield from remove(bare, idle_s=self.idle_s, event="cleaned", needs_copy=True)
        keeper = (yield from _opened(self.keeper)) if full else None
        found += yield from remove(full, idle_s=self.idle_s, event="cleaned", keeper=keeper, needs_copy=True)
        return found


def end_task(task_id: str, within: Callable[[str], bool], *, idle_s: int = 0) -> Program[list[Removal]]:
    """Remove the temporary queues of a task that are `within`; unread messages are copied for undo, or stay."""
    ending = _Ending(idle_s, automatic(f"task {task_id}"))
    found = yield from _each_of(task_id, ending.remove, within)
    if ending.keeper.is_open:
        yield from end(ending.keeper, report_of(found, dry_run=False))
    return found


def has_queues(task_id: str, within: Callable[[str], bool]) -> Program[bool]:
    """Return whether ending a task would remove anything."""
    _check_id(task_id)
    if any(map(within, (yield from registry.of_task(task_id)))):
        return True
    return bool((yield from _first_queues(task_id, within)))


def _each_of(
    task_id: str, act: Callable[[Sequence[str]], Program[list[Removal]]], within: Callable[[str], bool]
) -> Program[list[Removal]]:
    _check_id(task_id)
    found = yield from _clean_first(task_id, act, within)
    seen: set[str] = {one.name for one in found}
    while True:
        names = [name for name in (yield from registry.of_task(task_id, SLICE + len(seen))) if name not in seen]
        if not names:
            return found
        seen.update(names)
        if mine := list(filter(within, names)):
            found += yield from act(mine)


def sweep_expired(most: int = SLICE) -> Program[list[Removal]]:
    """Removes queues whose time is over, one slice of them."""
    names = yield from registry.expired(most)
    found = yield from remove(names, idle_s=0, event="expired")
    # What is no list is not ours to remove; that it was registered is over all the same.
    foreign = [(one.name, 0, 0) for one in found if one.outcome == "foreign"]
    if foreign:
        yield from registry.finish("expired", foreign)
    return found


def look_expired(start: int = 0, most: int = SLICE) -> Program[list[Removal]]:
    """What a sweep would remove, one slice of it, from plain reads."""
    now = yield from registry.server_ms()
    [reply] = yield ops.commands(
        (b"ZRANGEBYSCORE", registry.QUEUES, b"-inf", now, b"LIMIT", start, most), key=registry.QUEUES, reads=True
    )
    if isinstance(reply, ResponseError):
        raise engine.explain(reply)
    return (yield from look([raw.decode("utf-8", "replace") for raw in reply]))


def goes_on(found: Sequence[Removal], most: int = SLICE) -> bool:
    """Whether another slice is worth a look: this one was full, and something was removed of it."""
    return len(found) >= most and any(one.outcome == "removed" for one in found)


def keep(where: str) -> Program[Keeper]:
    """A keeper for one cleaning by hand, whose batch can be undone."""
    keeper = cleaned.Keeper(f"b-{new_id()}", where)
    yield from keeper.open()
    return keeper


def automatic(where: str) -> Keeper:
    """Return a keeper for what no operator asked for; it is opened when there is something to copy."""
    return cleaned.Keeper(f"b-{new_id()}", where, automatic=True)


def _opened(keeper: Keeper) -> Program[Keeper | None]:
    if not keeper.is_open:
        yield from keeper.open()
    return keeper if keeper.is_open else None


def end(keeper: Keeper, report: CleanReport) -> Program[None]:
    """Ends a cleaning: the log tells of it, and the report until when it can be undone."""
    report.batch = keeper.batch
    report.undo_until_ms = keeper.until_ms if keeper.count else None
    counts = {"applied": report.removed, "skipped": report.in_use + report.kept, "undoable": report.undoable}
    yield from keeper.close(counts)


@dataclass(frozen=True, slots=True)
class Slice:
    """One slice of the search for orphans."""

    cursor: Any
    scanned: int
    found: list[Removal]


def find_orphans(cursor: Any, *, idle_s: int = IDLE_S, count: int = SLICE) -> Program[Slice]:
    """Looks at one slice of the keys for temporary queues that nobody registered and nobody touched for so long."""
    [reply] = yield ops.commands((b"SCAN", cursor, b"COUNT", count, b"TYPE", b"list"), reads=True)
    if isinstance(reply, ResponseError):
        raise engine.explain(reply)
    keys: list[bytes] = reply[1]
    names = [name for key in keys if (name := temporary_name(key)) is not None]
    found: list[Removal] = []
    if names:
        known = yield from registry.describe(names)
        idle = {r.name: r for r in (yield from look(names, idle_s))}
        for name, entry in zip(names, known, strict=True):
            one = idle[name]
            # `look` lets pass what is gone already; here only what was seen to be idle is an orphan.
            if entry is None and one.outcome == "would_remove" and (one.idle_s or 0) >= idle_s:
                found.append(one)
        owned = yield from _owned_elsewhere([one.name for one in found])
        found = [one for one in found if one.name not in owned]
    # On a cluster a cursor is more than a number; at the end it is zero everywhere.
    return Slice(0 if reply[0] in (0, b"0") else reply[0], len(keys), found)


def report_of(found: Sequence[Removal], *, dry_run: bool) -> CleanReport:
    """What became of some queues, all by name."""
    report = CleanReport(dry_run=dry_run, scanned=len(found), most_samples=len(found))
    for one in found:
        report.add(one)
    return report


def report_task(
    task_id: str,
    *,
    idle_s: int = 60,
    dry_run: bool = False,
    undo: bool = True,
    within: Callable[[str], bool] = everywhere,
) -> Program[CleanReport]:
    """Cleans a task by hand, or tells what that would do; with `undo` copies are kept and the log tells of it."""
    _check_id(task_id)
    keeper = (yield from keep(f"task {task_id}")) if undo and not dry_run else None
    found = yield from clean_task(task_id, idle_s=idle_s, dry_run=dry_run, keeper=keeper, within=within)
    report = report_of(found, dry_run=dry_run)
    if keeper is not None:
        yield from end(keeper, report)
    return report


def _owned_elsewhere(names: Sequence[str]) -> Program[set[str]]:
    """Those that the registry of the first generation has: a set `task_queues:<task>` of the names of its queues."""
    asked = [(name, task) for name in names if (task := _first_task(name)) is not None]
    if not asked:
        return set()
    calls = ((b"SISMEMBER", registry_of(task), name) for name, task in asked)
    replies = yield ops.commands(*calls, key=registry_of(asked[0][1]), reads=True)
    return {name for (name, _), reply in zip(asked, replies, strict=True) if reply == 1}


def _first_task(name: str) -> str | None:
    try:
        return TaskQueueName.parse(name).task_id
    except InvalidName:
        return None


def _first_queues(task_id: str, within: Callable[[str], bool]) -> Program[list[str]]:
    """The queues that the first generation registered to a task; names that are none of ours are left alone.

    Names of that generation have neither prefix nor environment, but the task in them.
    """
    try:
        raws = yield from read_registered(task_id)
    except (LayoutMismatch, NotAllowed):
        return []  # something else is called so, or this user has no right to it
    names = (temporary_name(raw) for raw in raws)
    return [name for name in names if name is not None and (_first_task(name) == task_id or within(name))]


def _clean_first(
    task_id: str, act: Callable[[Sequence[str]], Program[list[Removal]]], within: Callable[[str], bool]
) -> Program[list[Removal]]:
    found: list[Removal] = []
    names = yield from _first_queues(task_id, within)
    for start in range(0, len(names), SLICE):
        seen = yield from act(names[start : start + SLICE])
        over = [one.name for one in seen if one.outcome in ("removed", "gone")]
        if over:
            key = registry_of(task_id)
            yield ops.commands((b"SREM", key, *over), key=key)
        found += seen
    return found


def orphans(cursor: Any, *, idle_s: int = IDLE_S, dry_run: bool = True, keeper: Keeper | None = None) -> Program[Slice]:
    """One slice of the search, whose orphans are removed if nobody touched them since they were found."""
    seen = yield from find_orphans(cursor, idle_s=idle_s)
    if dry_run or not seen.found:
        return seen
    if keeper is not None:
        keeper = yield from _opened(keeper)
    gone = yield from remove([one.name for one in seen.found], idle_s=idle_s, event="orphaned", keeper=keeper)
    return Slice(seen.cursor, seen.scanned, gone)


def temporary_name(key: bytes) -> str | None:
    """The name, when a key is called like a temporary queue of any generation."""
    if not _MAY_BE.search(key) or b"{" in key or b"}" in key or len(key) > 400:
        return None
    try:
        text = key.decode("ascii")
    except UnicodeDecodeError:
        return None
    try:
        return text if QueueName.parse(text).is_temporary else None
    except InvalidName:
        pass
    try:
        return str(TaskQueueName.parse(text))
    except InvalidName:
        return None
