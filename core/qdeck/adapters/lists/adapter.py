"""The `lists` adapter: any list that programs push to and pop from, found by the pattern of its name.

The readers of a list are unknown, and so is the end from which they read. A list that is read while it is shown may
show an entry twice or not at all; changes still compare the exact bytes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Final

import msgspec

from qdeck._list_names import BUILT_IN, LONGEST, SUFFIX, ListNames, glob_of, tags_of
from qdeck._model.payload import whole_text
from qdeck._model.reasons import CapabilityCode
from qdeck._model.values import QueueRow, State
from qdeck._model.words import Verb
from qdeck._redis import reads
from qdeck._redis.commands import raw_of, text_of
from qdeck._redis.errors import is_error
from qdeck._settings.model import AdapterSettings
from qdeck.adapters import message_facts
from qdeck.adapters.adapter import Adapter
from qdeck.adapters.lists import changes
from qdeck.adapters.lists.orphans import OrphanCount
from qdeck.adapters.model import (
    Capability,
    Entry,
    Kind,
    Look,
    Outcome,
    Raw,
    Retried,
    Seen,
    Source,
    age_s,
    change_each,
    short,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from qdeck._redis.commands import Program
    from qdeck.adapters.cells import Change
    from qdeck.adapters.model import FoundKeys, Skipped, Want
    from qdeck.adapters.plans import Context

MOST_HEADS: Final = 1000  # beginnings of names whose queue is remembered
MOST_ENDS: Final = 200  # lists of a look whose first and last entry are read for the oldest
NEAR_END: Final = 250  # entries of each end of a list among which one that was retried is looked for
MOST_OF_ONE: Final = 1000  # entries of one list among very many


class ListSettings(AdapterSettings, frozen=True, kw_only=True):
    """`[adapters.lists]`: which lists are queues, besides those whose names are known."""

    patterns: tuple[str, ...] = ()
    """Such as `{service}:jobs`, or `{service}:jobs:*` for lists that differ only at the end."""


class Lists(Adapter):
    """Lists by patterns of their names."""

    name: str = "lists"
    acl_keys: ClassVar[tuple[str, ...]] = (
        "task_queues:*", "*:actions", "*:actions:*", "*:responses*", "*:callbacks*", "*:notifications*", "*:free*",
        "*:advance*", "*:professional*", "*:enterprise*",
    )  # fmt: skip
    repeats: ClassVar[bool] = True
    short_plans: ClassVar[bool] = True
    settings_type: ClassVar[type[AdapterSettings]] = ListSettings
    outcome_evidence: ClassVar[str] = (
        "an entry that left its list and is not dead again has ended or is with a reader; lists have no outcomes"
    )
    about: ClassVar[str] = "lists named {domain}:{action_type}:{tier}:{task_id}, service:type, or by your own patterns"

    def __init__(self, settings: AdapterSettings | None = None) -> None:
        super().__init__(settings)
        patterns = self.settings.patterns if isinstance(self.settings, ListSettings) else ()
        self.names = ListNames(patterns)
        self._heads: dict[bytes, str] = {}
        self._is_plain = not patterns
        self._dead_end = raw_of(self.names.suffix[1:])
        self._orphans = OrphanCount()

    def fixed_keys(self) -> Mapping[bytes, Kind | None]:
        """Return none: lists can have any name."""
        return {}

    def patterns(self) -> Sequence[tuple[bytes, str | None]]:
        """Return the glob of all lists."""
        return ((b"*", "list"),)

    @property
    def flavour(self) -> str:
        """The patterns of the configuration."""
        return " ".join(pattern.text for pattern in self.names.patterns if pattern.text not in BUILT_IN)

    def gather(self, name: bytes) -> str | None:
        """Return the queue of a key, and whether it holds dead letters."""
        head, _, end = name.rpartition(b":")
        known = self._heads.get(head)
        if known is not None and end and end != self._dead_end and len(name) <= LONGEST:
            return known
        found = self.names.queue_of(name)
        if found is None:
            return None
        label = f"{'dead' if found[1] else 'ready'} {found[0]}"
        # Very many lists that differ only by their end are checked by the first; a pattern of the user's may differ.
        if self._is_plain and not found[1] and len(self._heads) < MOST_HEADS and self.names.groups(name):
            self._heads[head] = label
        return label

    def queue_of_key(self, key: str) -> str | None:
        """Return the queue of a list; a list that is one of many is a queue of its own."""
        found = self.names.queue_of(raw_of(key))
        if found is None or self.discovered is None:
            return None
        queue, dead = found
        is_there = f"{'dead' if dead else 'ready'} {queue}" in self.discovered.groups
        return (key if queue.endswith("*") and not dead else queue) if is_there else None

    def capabilities(self) -> Mapping[Verb, Capability]:
        """Return the verbs of list entries, which do not depend on the reader."""
        return {
            Verb.RETRY: Capability(states=(State.DEAD,), note="to the right end of its list"),
            Verb.DISCARD: Capability(states=(State.READY, State.DEAD)),
            Verb.BURY: Capability(states=(State.READY,)),
            Verb.REQUEUE: Capability(states=(State.READY,), note="to the right end of its own list"),
            Verb.RUN: Capability(code=CapabilityCode.NO_SUCH_STATE, note="lists have no delayed entries"),
            Verb.CANCEL: Capability(
                code=CapabilityCode.NO_SUCH_STATE, note="lists have no cancelled entries; discard the entry instead"
            ),
        }

    def rows(self, now: int) -> Program[Look]:
        """Return a row for each queue; of very many lists, each counts as one entry."""
        known = self.discovered.groups if self.discovered is not None else {}
        groups = {label: known[label] for label in sorted(known, reverse=True) if label.startswith(("ready ", "dead "))}
        notices = []
        measured = yield from _measure(groups, now)
        found: dict[str, QueueRow] = {}
        for (label, group), (size, oldest) in zip(groups.items(), measured, strict=True):
            word, _, queue = label.partition(" ")
            if group.count > len(group.names):
                notices.append(f"{queue}: {group.count:,} lists, each counted as one entry")
            if size:
                row = found.get(queue, QueueRow(adapter=self.name, name=queue, ready=0, dead=0, oldest_exact=False))
                changed: dict[str, Any] = {word: size}
                found[queue] = replace(row, **changed, oldest_s=oldest if word == "ready" else row.oldest_s)
        named = ((queue, key) for queue in found if (keys := groups.get(f"ready {queue}")) for key in keys.names)
        yield from self._orphans.count(named, now)
        for queue, count in self._orphans.found.items():
            if queue in found:
                found[queue] = replace(found[queue], orphaned=count)
        notices += [notice] if (notice := self._orphans.notice) else []
        return Look(rows=tuple(found[name] for name in sorted(found)), notices=tuple(notices))

    def sources(self, queue: str, states: Sequence[str]) -> Program[list[Source]]:
        """Return the list; of a queue of many lists, those that are known, or a scan for all of them."""
        found: list[Source] = []
        groups = self.discovered.groups if self.discovered is not None else {}
        for state, word, suffix in ((State.READY, "ready", ""), (State.DEAD, "dead", self.names.suffix)):
            if state not in states:
                continue
            group = groups.get(f"{word} {queue}")
            if not queue.endswith("*"):
                keys = group.names if group is not None else [raw_of(queue + suffix)]
                down = (yield from _from_the_right(keys)) if state is State.READY else set()
                found += [
                    Source(key=key, kind=Kind.LIST, state=state, native_state=word, down=key in down) for key in keys
                ]
            elif group is not None and group.count <= len(group.names) and self.discovered and self.discovered.complete:
                found += [Source(key=key, kind=Kind.LIST, state=state, native_state=word) for key in group.names]
            else:
                key = glob_of(queue, suffix)
                found.append(Source(key=key, kind=Kind.NAMES, state=state, native_state=word))
        return found

    def fill(self, queue: str, raws: Sequence[Raw], now: int, want: Want) -> Program[list[Entry]]:
        """Return the entries of a list; for names that a scan found, the entries of their lists."""
        if raws and raws[0].source.kind is Kind.NAMES:
            raws = yield from _of_names(self.names, queue, raws)
        if not raws:
            return []
        keys = list(dict.fromkeys(raw.source.key for raw in raws))
        sizes = yield from reads.try_all([(b"LLEN", key) for key in keys])
        known = {key: 0 if is_error(size) else size for key, size in zip(keys, sizes, strict=True)}
        return [_entry(queue, _from_nearer_end(raw, known[raw.source.key]), now) for raw in raws]

    def recall(self, queue: str, state: str, seen: Sequence[Seen], now: int) -> Program[list[Entry | None]]:
        """Return the entries as they were read: the change itself checks whether the list still has them."""
        word = "dead" if state == State.DEAD else "ready"
        sources = {one.key: Source(key=one.key, kind=Kind.LIST, state=State(state), native_state=word) for one in seen}
        raws = yield from self.finder.raws(sources, seen)
        found = self.named([_entry(queue, raw, now) for raw in raws if raw is not None])
        there = iter(found)
        return [None if raw is None else next(there) for raw in raws]

    def identity(self, job_id: str, seen: Seen) -> bytes:
        """The id that it tells, or all of it: who buries an entry may have written a count into it."""
        return seen.key + b"\n" + job_id.encode()

    def outcomes(self, tried: Sequence[Retried], now: int) -> Program[list[Outcome]]:
        """Whether they are at one of the ends of their list, or of its dead letters; between them they are not seen."""
        dead = {one.seen.key for one in tried}
        live = {key: raw_of(self.names.live_of(text_of(key))) for key in dead}
        ends = yield from _ends([*dead, *live.values()])
        found = []
        for one in tried:
            identity, key = one.id, one.seen.key
            if not one.twin and identity in ends[key]:
                found.append(Outcome.DEAD)
            else:
                found.append(Outcome.WAITING if identity in ends[live[key]] else Outcome.UNKNOWN)
        return found

    def changes(self, act: Verb, entries: Sequence[Entry], context: Context) -> Program[Sequence[Change | Skipped]]:
        """Return the changes that move or remove exactly these entries."""
        yield from ()  # reads nothing, but is a program
        return change_each(lambda entry: changes.build(act, entry, self.names), entries)


def _measure(groups: Mapping[str, FoundKeys], now: int) -> Program[list[tuple[int, float | None]]]:
    """Return how many entries each group has, and the age of the oldest among those at the ends of its lists."""
    sizes = yield from reads.try_all([(b"LLEN", name) for group in groups.values() for name in group.names])
    lengths = iter([0 if is_error(size) else int(size) for size in sizes])
    totals: list[int] = []
    near: list[list[bytes]] = []
    left = MOST_ENDS
    for label, group in groups.items():
        of_names = [next(lengths) for _ in group.names]
        totals.append(max(sum(of_names), group.count if group.count > len(group.names) else 0))
        waits = label.startswith("ready ")
        there = [name for name, length in zip(group.names, of_names, strict=True) if length and waits]
        near.append(there[: max(0, left)])
        left -= len(near[-1])
    entries = yield from reads.try_all([(b"LINDEX", name, at) for names in near for name in names for at in (0, -1)])
    moments = iter([message_facts.read(raw).since_ms if isinstance(raw, bytes) else None for raw in entries])
    oldest = [min((at for _ in names for at in (next(moments), next(moments)) if at is not None), default=None)
              for names in near]  # fmt: skip
    return [(total, age_s(now, at)) for total, at in zip(totals, oldest, strict=True)]


def _from_the_right(keys: Sequence[bytes]) -> Program[set[bytes]]:
    """Return the lists whose oldest entry is at the right end, by the times of both ends: BRPOP takes it first."""
    some = keys[:MOST_ENDS]
    replies = yield from reads.try_all([(b"LINDEX", key, at) for key in some for at in (0, -1)])
    moments = [message_facts.read(raw).since_ms if isinstance(raw, bytes) else None for raw in replies]
    ends = zip(some, moments[::2], moments[1::2], strict=True)
    return {key for key, left, right in ends if left is not None and right is not None and left > right}


def _tags(tags: tuple[str, ...], name: str) -> tuple[str, ...]:
    """Return the tags of a message with those of its list, where it does not say them itself."""
    said = {tag.partition(":")[0] for tag in tags}
    return (*tags, *(f"{key}:{value}" for key, value in tags_of(name).items() if key not in said))


def _id(member: bytes) -> str:
    return whole_text(message_facts.read(member).id or short(member))


def _ends(keys: Sequence[bytes]) -> Program[dict[bytes, set[str]]]:
    """Read the entries at both ends of lists."""
    calls = [
        (b"LRANGE", key, first, last) for key in keys for first, last in ((0, NEAR_END - 1), (-NEAR_END, -1))
    ]  # fmt: skip
    replies = yield from reads.try_all(calls)
    found: dict[bytes, set[str]] = {key: set() for key in keys}
    for call, reply in zip(calls, replies, strict=True):
        if not is_error(reply):
            found[call[1]].update(map(_id, reply))
    return found


def _of_names(names: ListNames, queue: str, raws: Sequence[Raw]) -> Program[list[Raw]]:
    """Return the entries of the lists whose names a scan found."""
    state = raws[0].source.state
    mine = [raw.member for raw in raws if names.queue_of(raw.member) == (queue, state is State.DEAD)]
    replies = yield from reads.try_all([(b"LRANGE", key, 0, MOST_OF_ONE - 1) for key in mine])
    found: list[Raw] = []
    for key, reply in zip(mine, replies, strict=True):
        if is_error(reply):
            continue  # a key of another type under such a name
        source = msgspec.structs.replace(raws[0].source, key=key, kind=Kind.LIST)
        found += [Raw(source=source, member=member, at=at) for at, member in enumerate(reply)]
    return found


def _from_nearer_end(raw: Raw, size: int) -> Raw:
    """Return an entry with its index from the nearer end, negative from the right: undo restores it there."""
    place = raw.at or 0
    return msgspec.structs.replace(raw, at=place if place < size / 2 else min(place - size, -1))


def _entry(queue: str, raw: Raw, now: int) -> Entry:
    mark, dead, name = short(raw.member), raw.source.state is State.DEAD, text_of(raw.source.key)
    facts = message_facts.read(raw.member, is_dead=dead)
    tags = _tags(facts.tags, name.removesuffix(SUFFIX))
    failed = facts.failed_ms if dead else None
    return Entry(
        id=facts.id or mark, key=f"lists/{name}/{mark}", adapter="lists", queue=queue,
        state=raw.source.state, native_state=raw.source.native_state,
        seen=raw.seen(), name=name if queue.endswith("*") else None, tags=tags,
        enqueued_ms=facts.since_ms, since_ms=failed or facts.since_ms, age_s=age_s(now, failed or facts.since_ms),
        body=raw.member, worker=None, error=facts.error or ("Error" if dead else None), message=facts.message,
        failed_ms=failed, queue_from=queue if dead else None, attempts=facts.attempts, task=facts.task,
    )  # fmt: skip
