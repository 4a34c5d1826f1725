"""The batch of a cleaning: copies of what it removes are kept for a day, and undo restores them.

A copy is written in the step that removes the queue, beside it in the same slot; the names are recorded before. So
whatever is removed can be restored, also when the process that cleaned died before the end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import structs

from qdeck._engine import batch_transitions
from qdeck._engine.keys import MESSAGES
from qdeck._engine.stored_numbers import digits
from qdeck._model.reasons import SkipCode
from qdeck._operations import batches
from qdeck._redis import reads, scripts
from qdeck._redis.commands import ordered
from qdeck.messages._registry import ABOUT, CALLBACKS, QUEUES, TASKS

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from qdeck._operations.batches import OpenBatch
    from qdeck._redis.commands import Arg, Command, Program

VERB: Final = "clean"
ADAPTER: Final = "messages"
MOST_ONE: Final = 1024 * 1024  # a longer list is not copied: that would block the server
OVERHEAD: Final = 300  # bytes that a copy takes besides what is in it
SLICE: Final = 100
BACK: Final = b"back"  # in place of a copy that was restored

_WHY: Final = {"gone": SkipCode.UNDO_EXPIRED, "again": SkipCode.ALREADY_THERE}


class Noted(msgspec.Struct, frozen=True, array_like=True):
    """The record of a removed queue: its registration, the set of its task with its time to live, whether it had a
    list.
    """

    about: bytes = b""
    task_set: bytes = b""
    set_ttl_ms: int = -1
    is_empty: bool = False


def copy_key(name: str, batch: str) -> bytes:
    """Return where the copy of a queue is, in the slot of the queue."""
    return f"{{{name}}}:undo:{batch}".encode()


def index_key(batch: str) -> bytes:
    """Return the key of the records: name → record."""
    return f"{MESSAGES}:undo:{batch}".encode()


class Copies:
    """The copies of what one batch removes. `room` is how many bytes they may take."""

    keeps_empty = True
    """Whether undo registers queues again that held nothing."""

    def __init__(self, batch: str, *, room: int = 0, keep_ms: int = batch_transitions.UNDO_TTL_MS) -> None:
        self.id, self.room, self.keep_ms = batch, room, keep_ms
        self.bytes = self.count = 0
        self._noted: dict[str, Noted] = {}

    def note(self, names: Sequence[str], task_set: bytes = b"") -> Program[int]:
        """Write the records of these queues, and return how many bytes the copy of each may take: 0 for none."""
        about, *ttl = yield [(b"HMGET", ABOUT, *names), *([(b"PTTL", task_set)] if task_set else [])]
        self._noted = {name: Noted(text or b"", task_set, *ttl) for name, text in zip(names, about, strict=True)}
        index = index_key(self.id)
        yield ordered(_index(index, self._noted), (b"PEXPIRE", index, self.keep_ms), key=index)
        return min(MOST_ONE, max(0, (self.room - self.bytes) // len(names) - OVERHEAD))

    def record_kept(self, kept: Mapping[str, int], empty: Collection[str]) -> Program[None]:
        """Count what was kept of the queues recorded last, with its bytes, and remove the other records.

        For the `empty` ones, which had no list, the registration is kept, here or in the set of the task.
        """
        if not self._noted:
            return
        self.bytes += sum(size + OVERHEAD for size in kept.values())
        self.count += len(kept)
        index = index_key(self.id)
        bare = {
            name: structs.replace(self._noted[name], is_empty=True)
            for name in empty
            if name in kept or self._noted[name].task_set
        }
        if bare:
            yield _index(index, bare)
        if left := [name for name in self._noted if name not in kept and name not in bare]:
            yield (b"HDEL", index, *left)
        self._noted = {}

    def kept_of(self, names: Sequence[str]) -> Program[set[str]]:
        """Return the queues among these that this batch removed before, and keeps."""
        noted = yield (b"HMGET", index_key(self.id), *names)
        known = [(name, _read(raw)) for name, raw in zip(names, noted, strict=True) if raw is not None]
        there = yield from reads.fetch_all([(b"EXISTS", copy_key(name, self.id)) for name, _ in known])
        return {name for (name, one), copied in zip(known, there, strict=True) if copied or one.is_empty}


class CleaningBatch(Copies):
    """The batch of one cleaning. All batches share one undo limit, so it may keep less than was removed.

    It is opened when there is something to keep. An automatic one belongs to no operator: it is opened only for
    messages, and all of them share half of the limit.
    """

    def __init__(self, detail: str, *, automatic: bool = False) -> None:
        super().__init__(batches.new_batch_id())
        self._detail, self._automatic = detail, automatic
        self._open: OpenBatch | None = None

    @property
    def is_open(self) -> bool:
        """Return whether it is recorded for undo."""
        return self._open is not None

    @property
    def keeps_empty(self) -> bool:  # type: ignore[override]  # it is known when the batch is open
        """Whether undo registers queues again that held nothing."""
        return self._open is not None and not self._automatic

    def note(self, names: Sequence[str], task_set: bytes = b"") -> Program[int]:
        """Open the batch if it is not open yet; then write the records of these queues."""
        if self._open is None:
            self._open = yield from self._begin(names)
        if self._open is None:
            return 0
        yield from self._open.renew(self.count, self.count, self.bytes)
        self.room = self._open.room
        return (yield from super().note(names, task_set))

    def _begin(self, names: Sequence[str]) -> Program[OpenBatch | None]:
        if not self._automatic:
            return (yield from batches.begin(self.id, VERB, adapters=(ADAPTER,), detail=self._detail))
        there = yield from reads.try_all([(b"EXISTS", name) for name in names])
        if all(count == 0 for count in there):
            return None
        return (yield from batches.begin_automatic(self.id, VERB, adapters=(ADAPTER,), detail=self._detail))

    def close(self, counts: Mapping[str, int], names: Sequence[str]) -> Program[int | None]:
        """Record how much is kept, and write the log entry with the first names; return until when it can be undone.

        Do neither if nothing was removed.
        """
        if self._open is None:
            return None
        if not counts["applied"]:
            yield from self._open.forget()
            return None
        entry = self._open.record.entry(counts, undoable=self.count, queues=names)
        yield from self._open.close(counts["applied"], self.count, self.bytes, entry)
        return self._open.undo_until_ms(self.count)


def _index(index: bytes, noted: Mapping[str, Noted]) -> Command:
    return (b"HSET", index, *(arg for name, one in noted.items() for arg in (name, msgspec.msgpack.encode(one))))


def read_noted(batch: str) -> Program[list[tuple[str, Noted]]]:
    """Return the queues of a batch with their records."""
    noted = yield from reads.scan_hash(index_key(batch).decode())
    return [(name.decode("utf-8", "replace"), _read(raw)) for name, raw in noted.items()]


def copied_bytes(names: Sequence[str], batch: str) -> Program[list[int]]:
    """Return how many bytes the copies of queues have; 0 where there is none."""
    return (yield from reads.fetch_all([(b"STRLEN", copy_key(name, batch)) for name in names]))


def restore(rows: Sequence[tuple[str, Noted]], batch: str) -> Program[list[tuple[str, SkipCode | None]]]:
    """Restore queues, and return why the others were not restored; names that were only in a set are left out."""
    found = yield from _restore(rows, batch)
    return [(name, _WHY.get(outcome)) for name, outcome in found if outcome]


def _read(raw: bytes) -> Noted:
    try:
        return msgspec.msgpack.decode(raw, type=Noted)
    except msgspec.MsgspecError:
        return Noted()  # nothing that could be registered again: only the list is restored


def _restore(rows: Sequence[tuple[str, Noted]], batch: str) -> Program[list[tuple[str, str]]]:
    """Return the outcome of each queue: `back`, why not, or nothing where only its name was in the set of its task."""
    kept = yield from copied_bytes([name for name, _ in rows], batch)
    there = yield from reads.fetch_all([(b"EXISTS", name) for name, _ in rows])
    is_taken = {row[0]: bool(at) and size > len(BACK) for row, at, size in zip(rows, there, kept, strict=True)}
    free = yield from _register([(name, noted.about) for name, noted in rows if noted.about and not is_taken[name]])
    mine = [(name, noted) for name, noted in rows if free.get(name, not is_taken[name])]
    script = scripts.plain("messages/restore")
    calls = [script.call((name.encode(), copy_key(name, batch)), ()) for name, _ in mine]
    words: list[bytes] = []
    if mine:
        yield from scripts.check_rights(script, mine[0][0].encode())
        words = yield from scripts.run_each(script, calls)
    found = {name: "again" for name, _ in rows}
    for (name, noted), word in zip(mine, words, strict=True):
        found[name] = "" if word == b"there" else word.decode()  # the cleaning ended before it removed this one
        if word == b"gone" and noted.is_empty:
            # It had a registration only.
            found[name] = "back" if noted.about else ""
        if noted.task_set and word != b"again":
            ttl, key = noted.set_ttl_ms, noted.task_set
            yield from scripts.run(scripts.plain("messages/rejoin"), [key], [ttl, name])
    return list(found.items())


def _register(rows: Sequence[tuple[str, bytes]]) -> Program[dict[str, bool]]:
    """Register queues as they were, with their original time to live; False for one that was registered anew."""
    facts = {name: about.decode("utf-8", "replace").split(" ", 5) for name, about in rows}
    known = [(name, about) for name, about in rows if len(facts[name]) == 6 and digits(facts[name][1]) is not None]
    if not known:
        return {}
    now = yield from reads.clock()
    replies = yield ordered(
        *(call for name, about in known for call in ((b"HSETNX", ABOUT, name, about), (b"HGET", ABOUT, name))),
        key=ABOUT,
    )
    found: dict[str, bool] = {}
    calls: list[tuple[Arg, ...]] = []
    for (name, about), there in zip(known, replies[1::2], strict=True):
        found[name] = bytes(there or b"").split(b" ", 2)[2:] == about.split(b" ", 2)[2:]
        if found[name]:
            _, ttl, _, kind, _, task = facts[name]
            calls.append((b"ZADD", QUEUES, b"NX", now + int(ttl), name))
            calls += [(b"ZADD", TASKS, 0, f"{task}\0{name}")] if task else []
            calls += [(b"ZADD", CALLBACKS, 0, name)] if kind == "callbacks" else []
    if calls:
        yield ordered(*calls, key=QUEUES)
    return found
