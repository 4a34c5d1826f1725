"""The changes of verbs in BullMQ: a script requeues jobs as BullMQ's own scripts do, and cells remove them."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

from qdeck._model.reasons import SkipCode
from qdeck._model.words import Verb
from qdeck._redis.commands import with_errors
from qdeck._redis.errors import is_error
from qdeck._redis.scripts import read_source
from qdeck.adapters import cells
from qdeck.adapters.bullmq.keys import STATES, major_of
from qdeck.adapters.cells import ANY, GUARD, Cell, Change, End, ScriptChange, adapter_script
from qdeck.adapters.model import Kind, Skipped, change_each

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qdeck._redis.commands import Program, Script
    from qdeck.adapters.model import Entry

_NEEDED: Final = (b"parentKey", b"rjk", b"deid", b"priority", b"opts")
_EFFECTS: Final = {
    Verb.RETRY: "added to its queue again", Verb.RUN: "added to its queue now",
    Verb.REQUEUE: "requeued as the next job",
}  # fmt: skip
_PARTS: Final = (b":logs", b":processed", b":failed", b":unsuccessful")
Facts = dict[bytes, bytes | None]


def build(base: bytes, act: Verb, entries: Sequence[Entry]) -> Program[Sequence[Change | ScriptChange | Skipped]]:
    """Return the change of a verb for each of these jobs of one queue."""
    version, *replies = yield with_errors(
        (b"HGET", base + b"meta", b"version"), *((b"HMGET", base + one.seen.member, *_NEEDED) for one in entries)
    )
    major = None if is_error(version) else major_of(version)
    facts = [None if is_error(reply) else dict(zip(_NEEDED, reply, strict=True)) for reply in replies]
    return change_each(lambda one: _build(base, act, *one, major), zip(entries, facts, strict=True))


def _build(base: bytes, act: Verb, entry: Entry, facts: Facts | None, major: int | None) -> Change | ScriptChange:
    if major is None:
        raise Skipped.because("its queue was written by an unknown version of BullMQ")
    if entry.problem is not None or facts is None:
        raise Skipped(SkipCode.NO_RECORD)
    if act is Verb.DISCARD:
        return _removed(base, entry, facts)
    if act is Verb.REQUEUE and entry.stuck is None:
        raise Skipped.because("its worker holds the lock")
    return _in_line(base, act, entry, facts, major)


def _in_line(base: bytes, act: Verb, entry: Entry, facts: Facts, major: int) -> ScriptChange:
    """Requeue a job at the end, or first if its worker lost it."""
    is_lifo = act is Verb.RETRY and b'"lifo":true' in (facts[b"opts"] or b"").replace(b" ", b"")
    end = b"R" if act is Verb.REQUEUE or is_lifo else b"L"
    names = (entry.native_state, "wait", "paused", "prioritized", "meta", "active", "marker", "events", "pc", "stalled")
    return ScriptChange(
        id=entry.id, script=_line_script(),
        keys=tuple(base + name.encode() for name in names),
        args=(base, entry.seen.member, entry.native_state.encode(), entry.seen.score or b"", b"%d" % major, end),
        effect=_EFFECTS[act],
    )  # fmt: skip


@cache
def _line_script() -> Script:
    return adapter_script("bullmq/line", read_source("adapters/bullmq/line"))


def _removed(base: bytes, entry: Entry, facts: Facts) -> Change:
    """Remove a job with all its keys; skip children of a flow and jobs of a scheduler."""
    if facts[b"parentKey"]:
        raise Skipped.because("it is a child of another job, which waits for it or counts it")
    if facts[b"rjk"]:
        raise Skipped.because("a job scheduler created it and creates the next job from it")
    seen, job = entry.seen, base + entry.seen.member
    is_list = STATES[entry.native_state][1] is Kind.LIST
    taken = cells.take(seen.key, seen.member, End.LEFT, seen.at) if is_list else cells.score(
        seen.key, seen.member, seen.score, None
    )  # fmt: skip
    made: list[Cell] = [
        taken, cells.whole_key(job + b":dependencies", None, GUARD), cells.whole_key(job + b":lock", None, GUARD),
        cells.whole_key(job, ANY), *(cells.whole_key(job + part, ANY) for part in _PARTS),
    ]  # fmt: skip
    if facts[b"deid"]:
        made.append(cells.string(base + b"de:" + facts[b"deid"], entry.seen.member, None))
    event = (b"*", b"event", b"removed", b"jobId", entry.seen.member, b"prev", entry.native_state.encode())
    made.append(cells.effect("XADD", base + b"events", *event, kind="stream"))
    return Change(id=entry.id, cells=tuple(made), effect="removed with its record")
