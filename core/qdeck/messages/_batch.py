"""Temporary queues that a cleaning by hand removed: a copy is kept for a day, and undo puts them back.

The copy is written in the step that removes the queue, beside it in the same slot; the names are noted before. So
whatever is removed can be put back, also when the one who cleaned did not live to see it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from qdeck._deck.reasons import Skip, SkipCode
from qdeck._engine import acts, keys, ops, programs, scripts
from qdeck._engine.numbers import digits
from qdeck._operations import activity, batches
from qdeck._redis import reads
from qdeck._redis.steps import Step
from qdeck.messages._registry import ABOUT, CALLBACKS, QUEUES, TASKS, copy_key

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from qdeck._engine.ops import Program
    from qdeck._operations.batches import Batch, OpenBatch
    from qdeck._redis.steps import Steps

VERB: Final = "clean"
MOST_ONE: Final = 1024 * 1024  # a longer list is not copied: that would block the server
OVERHEAD: Final = 300  # bytes that a copy takes besides what is in it
SLICE: Final = 100

_WHY: Final = {"gone": SkipCode.UNDO_EXPIRED, "again": SkipCode.ALREADY_THERE}


def index_key(batch: str) -> bytes:
    """Where the names are: name → what the registry knew about it."""
    return f"{keys.MESSAGES}:undo:{batch}".encode()


class Keeper:
    """What one cleaning keeps. The room for all that can be undone is one, so it may be less than was removed."""

    def __init__(self, batch: str, where: str, *, automatic: bool = False) -> None:
        self.batch = batch
        self._automatic = automatic
        self.count = 0
        self.until_ms = 0
        self._where = where
        self._room = self._bytes = 0
        self._open: OpenBatch | None = None

    def open(self) -> Program[None]:
        """Tells that this batch can be undone, before anything is removed."""
        begin = batches.begin_automatic if self._automatic else batches.begin
        self._open = yield from begin(self.batch, VERB, where=self._where)
        if self._open is not None:
            self._room, self.until_ms = self._open.room, self._open.record.until_ms

    @property
    def is_open(self) -> bool:
        """Whether there is a batch; an automatic one is opened late, and not once they used up their share."""
        return self._open is not None

    def most(self, count: int) -> int:
        """How many bytes the copy of each of so many queues may take."""
        return min(MOST_ONE, max(0, self._room // max(1, count) - OVERHEAD))

    def note(self, names: Sequence[str]) -> Program[None]:
        """Notes what the registry knows about queues that are to be removed."""
        [about] = yield reads.read((b"HMGET", ABOUT, *names))
        flat = [part for name, text in zip(names, reads.good(about), strict=True) for part in (name, text or b"")]
        index = index_key(self.batch)
        for reply in (yield ops.commands((b"HSET", index, *flat), (b"PEXPIRE", index, acts.KEEP_MS), key=index)):
            reads.good(reply)

    def settle(self, kept: Mapping[str, int], left: Sequence[str]) -> Program[None]:
        """Counts what was kept, with its bytes, and strikes off what was not."""
        self.count += len(kept)
        size = sum(size + OVERHEAD for size in kept.values())
        self._room -= size
        self._bytes += size
        if left:
            index = index_key(self.batch)
            [reply] = yield ops.commands((b"HDEL", index, *left), key=index)
            reads.good(reply)

    def close(self, counts: Mapping[str, int]) -> Program[None]:
        """Writes how much is kept, and the line of the log."""
        if self._open is not None:
            yield from self._open.close(counts.get("applied", 0), self._bytes)
        undoable = self.until_ms if self.count else None
        entry = activity.make(
            VERB, (yield from reads.clock()), where=self._where, counts=counts, batch=self.batch, undo_until_ms=undoable
        )
        yield from activity.record(entry)


def put_back_steps(
    batch: Batch, progress: Callable[[int], None] | None = None, cancelled: Callable[[], bool] | None = None
) -> Steps[tuple[int, list[Skip], bool]]:
    """Puts the queues of a cleaning back: how many, which not and why, and whether all were looked at."""
    restored, skipped = 0, list[Skip]()
    noted = yield Step(reads.scan_hash(index_key(batch.id).decode()), writes=False)
    rows = [(name.decode("utf-8", "replace"), about) for name, about in noted.items()]
    for start in range(0, len(rows), SLICE):
        if cancelled is not None and cancelled():
            return restored, skipped, False
        for name, told in (yield Step(_put_back(rows[start : start + SLICE], batch.id))):
            if told == "back":
                restored += 1
            else:
                skipped.append(Skip(id=name, code=_WHY[told], queue=name))
        if progress is not None:
            progress(restored)
    return restored, skipped, True


def _put_back(rows: Sequence[tuple[str, bytes]], batch: str) -> Program[list[tuple[str, str]]]:
    now = yield from reads.clock()
    found: list[tuple[str, str]] = []
    for name, about in rows:
        if about and not (yield from _register(name, about, now)):
            found.append((name, "again"))
            continue
        script = scripts.plain("messages/put_back")
        reply: bytes = yield from programs.run_script(script, [name.encode(), copy_key(name, batch)], [])
        word = reply.decode()
        # Of a queue that was registered and empty, the registration is all there was.
        found.append((name, "back" if word == "gone" and about else word))
    return found


def _register(name: str, about: bytes, now: int) -> Program[bool]:
    """Registers a queue as it was, for as long as it had been made for; False when it is another's by now."""
    words = about.decode("utf-8", "replace").split(" ", 5)
    ttl = digits(words[1]) if len(words) == 6 else None
    if ttl is None:
        return True  # nothing that could be registered again: the list alone comes back
    until, kind, task = now + ttl, words[3], words[5]
    made, there = yield ops.commands((b"HSETNX", ABOUT, name, about), (b"HGET", ABOUT, name), key=ABOUT)
    reads.good(made)
    if bytes(reads.good(there) or b"").split(b" ", 2)[2:] != about.split(b" ", 2)[2:]:
        return False
    commands: list[tuple[bytes | str | int, ...]] = [(b"ZADD", QUEUES, b"NX", until, name)]
    if task:
        commands.append((b"ZADD", TASKS, 0, f"{task}\0{name}"))
    if kind == "callbacks":
        commands.append((b"ZADD", CALLBACKS, 0, name))
    for reply in (yield ops.commands(*commands, key=QUEUES)):
        reads.good(reply)
    return True
