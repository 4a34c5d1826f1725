"""Cells: the values in other systems' keys that a change compares and writes, each before and after.

What is checked, what is written and its undo all follow from the cells of a change.
"""

from __future__ import annotations

import hashlib
from enum import Enum
from functools import cache
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

from qdeck._model.reasons import Caution  # noqa: TC001 - structs look their types up when they are made
from qdeck._redis import scripts
from qdeck._redis.commands import Script

if TYPE_CHECKING:
    from collections.abc import Iterable

_CHUNK: Final = "-- The chunk of the adapter stands here."


class Mark(Enum):
    """What a cell may contain instead of a value."""

    ANY = b"?"
    GUARD = b"~"


ANY: Final = Mark.ANY
"""Before: whatever is there; an undo restores it."""
GUARD: Final = Mark.GUARD
"""After: it is only looked at. Before: only an undo looks at it, at what is after."""
Value: TypeAlias = bytes | Mark | None
"""None is an absent value."""
THERE: Final = b""
"""The value of what only exists: a member of a set, an entry of a list, a key."""


class End(Enum):
    """The ends of a list, as of LPUSH and RPUSH."""

    LEFT = b"L"
    RIGHT = b"R"


class Cell(msgspec.Struct, frozen=True):
    """One value of one key. Make it with a function of this module.

    In an undo, the cells of one `part` are left as they are when one of them has changed; a cell of no part that has
    changed stops all of it.
    """

    kind: str
    key: bytes
    ident: bytes = b""
    before: Value = None
    after: Value = GUARD
    part: bytes = b""
    extra: bytes = b""
    place: bytes = b""

    @property
    def guards_undo(self) -> Cell:
        """The same guard, for the undo only."""
        return msgspec.structs.replace(self, before=GUARD, after=self.before)


def field(key: bytes, name: bytes, before: Value, after: Value = GUARD, *, part: bytes = b"") -> Cell:
    """Return a field of a hash."""
    return Cell("field", key, name, before, after, part)


def score(key: bytes, member: bytes, before: Value, after: Value = GUARD, *, part: bytes = b"") -> Cell:
    """Return a member of a sorted set, whose value is its score."""
    return Cell("score", key, member, before, after, part)


def member(key: bytes, name: bytes, before: Value, after: Value = GUARD, *, part: bytes = b"") -> Cell:
    """Return a member of a set: THERE or not."""
    return Cell("member", key, name, before, after, part)


def string(key: bytes, before: Value, after: Value = GUARD) -> Cell:
    """Return a plain value; it keeps its time to live."""
    return Cell("string", key, b"", before, after)


def expiry(key: bytes, before: Value, after: Value = GUARD) -> Cell:
    """Return when a key ends, in ms since the epoch. An undo leaves what somebody else set since."""
    return Cell("expiry", key, b"", before, after)


def expiry_later(key: bytes, at_ms: int) -> Cell:
    """Return an expiry that only makes a key live longer; one that this change makes gets it in any case."""
    return Cell("expiry", key, b"", ANY, b"%d" % at_ms, extra=b"later")


def whole_key(key: bytes, before: Value = ANY, after: Value = None) -> Cell:
    """Return a key with all that it holds, which is removed; before may be the digest of its content, or THERE."""
    return Cell("key", key, b"", before, after)


def digest(content: bytes | None) -> Value:
    """Return what `whole_key` compares, from the DUMP of a key. Of a hash or a set it may differ without a change."""
    return None if content is None else hashlib.sha1(content, usedforsecurity=False).hexdigest().encode()


def take(key: bytes, entry: bytes, end: End, at: int | None = None) -> Cell:
    """Return an entry that is taken from a list: the one at an index, as `Seen.at` has it, else the nearest to an end.

    The index is negative where it counts from the right; one that counts from the other end than `end` is not used. An
    undo inserts the entry as far from that end as it was: choose the end at which nothing is taken or added meanwhile.
    """
    helps = at is not None and (at < 0) == (end is End.RIGHT)
    place = b"" if at is None or not helps else b"%d" % (-1 - at if at < 0 else at)
    return Cell("entry", key, entry, THERE, None, extra=end.value, place=place)


def push(key: bytes, entry: bytes, end: End) -> Cell:
    """Return an entry that is pushed to an end of a list, which may not be there yet."""
    return Cell("entry", key, entry, None, THERE, extra=end.value)


def pending(key: bytes, group: bytes, entry_id: bytes, before: Value = ANY, after: Value = None) -> Cell:
    """Return a pending entry of a consumer group, which is acknowledged; its value is `deliveries:consumer`."""
    return Cell("pending", key, entry_id, before, after, extra=group)


def stream_add(key: bytes, *fields: bytes) -> Cell:
    """Return an entry that is added to a stream; an undo removes it unless a group was given it."""
    return Cell("stream", key, b"*", None, packed(fields))


def stream_delete(key: bytes, entry_id: bytes, before: Value = ANY) -> Cell:
    """Return an entry that is deleted from a stream; an undo adds it at the end, under a new id.

    Those of a batch are added in the order that they had; a pending one is given to its group as a new one.
    """
    return Cell("stream", key, entry_id, before, None)


def rename(key: bytes, target: bytes) -> Cell:
    """Return a key that gets another name, which must be free."""
    return Cell("rename", key, target, THERE, None)


def size(key: bytes, count: int) -> Cell:
    """Return a guard: how many entries a key of any type has."""
    return Cell("size", key, b"", b"%d" % count)


def effect(command: str, key: bytes | None, *args: bytes, kind: str = "") -> Cell:
    """Return a command that runs last, is not checked and is not undone: an event, a marker, a counter.

    `kind` is the type that its key must have if it is there.
    """
    return Cell("effect", key or b"", command.encode(), None, packed(args), extra=kind.encode())


def keys_of(some: Iterable[Cell]) -> tuple[bytes, ...]:
    """Return the keys of cells."""
    return tuple(key for cell in some for key in (cell.key, cell.ident if cell.kind == "rename" else b"") if key)


def packed(values: tuple[bytes, ...]) -> bytes:
    """Return values as one: the length of each, a colon and itself."""
    return b"".join(b"%d:%b" % (len(value), value) for value in values)


def unpacked(text: bytes) -> list[bytes]:
    """Return the values that `packed` made one of."""
    found, at = [], 0
    while at < len(text):
        colon = text.index(b":", at)
        end = colon + 1 + int(text[at:colon])
        found.append(text[colon + 1 : end])
        at = end
    return found


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """What is changed in one entry, all or nothing; `effect` describes it."""

    id: str
    cells: tuple[Cell, ...]
    effect: str
    caution: Caution | tuple[Caution, ...] | None = None

    @property
    def keys(self) -> tuple[bytes, ...]:
        """Return the keys of its cells."""
        return keys_of(self.cells)

    @property
    def size(self) -> int:
        """Return about how many bytes of it go to the server."""
        return sum(len(cell.key) + len(cell.ident) + _size(cell.before) + _size(cell.after) for cell in self.cells)


class ScriptChange(msgspec.Struct, frozen=True, kw_only=True):
    """What a script of the adapter changes in one entry, with `args`; those with the same keys go in one call.

    The script is what `adapter_script` makes of a Lua chunk.
    """

    id: str
    script: Script
    keys: tuple[bytes, ...]
    args: tuple[bytes, ...]
    effect: str
    caution: Caution | tuple[Caution, ...] | None = None

    @property
    def size(self) -> int:
        """Return about how many bytes of it go to the server."""
        return sum(map(len, self.args))


@cache
def adapter_script(name: str, chunk: str) -> Script:
    """Return a script that changes many entries: `chunk` is Lua and returns a function for one of them.

    The function gets the args of the entry and `keep`, to which it gives each cell that it changes. It looks at all it
    needs before its first write, and returns a code and a key if it skips the entry. `name` is for errors.
    """
    source = scripts.ask_rights(scripts.read_source("adapters/many").replace(_CHUNK, chunk)).encode()
    return Script(name, source, scripts.digest_of(source))


def _size(value: Value) -> int:
    return len(value) if isinstance(value, bytes) else 1
