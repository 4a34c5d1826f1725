"""Changes of other systems' keys, made and undone by one script: a call for each, made once by its place in a batch."""

from __future__ import annotations

import re
from bisect import bisect_left, insort
from collections import Counter, defaultdict
from itertools import groupby
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import msgspec

from qdeck._engine.batch_transitions import MAX_UNDO_BYTES, UNDO_TTL_MS
from qdeck._errors import InvalidOption
from qdeck._model.reasons import SkipCode
from qdeck._redis import reads, scripts
from qdeck.adapters.cells import Cell, Change, Mark, ScriptChange, Value, keys_of, unpacked

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from qdeck._redis.commands import Arg, Program, Script

CHUNK: Final = 50  # changes in one round trip: the server looks after its others between any two of them
CHUNK_BYTES: Final = 1 << 20  # of them in one round trip, unless one alone has more
_WIDTH: Final = 8  # values of a cell
_TAG: Final = re.compile(rb"[^{]*\{([^}]+)\}")
_NOWHERE: Final = b"qdeck:undo:none"
_AnyChange: TypeAlias = Change | ScriptChange
_Placed: TypeAlias = tuple[int, _AnyChange]


class ChangeResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a change. `code` is why nothing was changed, `data` names the key that has changed.

    `undoable` is whether it can be undone, `bytes` what its batch keeps for that by now; `failed` is the error of an
    effect.
    """

    id: str
    done: bool
    code: SkipCode | None = None
    data: str = ""
    undoable: bool = False
    bytes: int = 0
    failed: str = ""

    @property
    def why(self) -> str:
        """Return why nothing was changed, as text."""
        return "" if self.code is None else self.code.words(self.data)


class ListShifts:
    """What a run did so far: where entries of lists are by now, and what is kept of its batch under each hash tag.

    A place is a hint, so that none is searched for.
    """

    def __init__(self) -> None:
        self.kept: dict[bytes, int] = {}
        self._taken: defaultdict[tuple[bytes, bytes], list[int]] = defaultdict(list)
        self._pushed: Counter[tuple[bytes, bytes]] = Counter()

    def follow(self, cell: Cell) -> Cell:
        """Return a cell with its place of now, and note what it does."""
        if cell.kind != "entry":
            return cell
        end = cell.key, cell.extra
        if cell.after is not None:
            self._pushed[end] += 1
        if cell.after is not None or not cell.place:
            return cell
        place, taken = int(cell.place), self._taken[end]
        now = place - bisect_left(taken, place) + self._pushed[end]
        insort(taken, place)
        return msgspec.structs.replace(cell, place=b"%d" % now)


def undo_key(adapter: str, batch: str, tag: bytes = b"") -> bytes:
    """Return the hash that keeps the undo data of a batch on the queues of an adapter, in the slot of a hash tag."""
    if not batch or not batch.isascii():
        raise InvalidOption(f"{batch!r} is not the id of a batch", hint="Use the id that an operation returned.")
    return b"qdeck:undo:" + (b"{%b}:" % tag if tag else b"") + f"{adapter}:{batch}".encode()


def _tags_key(adapter: str, batch: str) -> bytes:
    """Return the set of the hash tags under which there is more of a batch."""
    return undo_key(adapter, batch) + b":tags"


def _tag_of(keys: Iterable[bytes]) -> bytes:
    """Return the hash tag that keys have in common, and none where they have several or none."""
    tags = {found[1] if (found := _TAG.match(key)) else b"" for key in keys}
    return tags.pop() if len(tags) == 1 else b""


def apply(
    adapter: str,
    batch: str,
    changes: Sequence[Change | ScriptChange],
    *,
    places: Sequence[int] = (),
    keep_ms: int = UNDO_TTL_MS,
    keep_bytes: int = MAX_UNDO_BYTES,
    at: ListShifts | None = None,
) -> Program[list[ChangeResult]]:
    """Make changes. Each is identified by its place in the batch, so one that is sent twice is made once.

    Of a batch at most `keep_bytes` are kept: what is done beyond them cannot be undone.
    """
    at = at or ListShifts()
    found: list[ChangeResult] = []
    for tag, part in _parts(changes, places or range(len(changes))):
        undo, room = undo_key(adapter, batch, tag), keep_bytes - sum(at.kept.values()) + at.kept.get(tag, 0)
        if tag and tag not in at.kept:  # first of all: what is not known to be kept cannot be undone
            yield [(b"SADD", _tags_key(adapter, batch), tag), (b"PEXPIRE", _tags_key(adapter, batch), keep_ms)]
        replies: list[list[int | bytes]]
        first = part[0][1]
        if isinstance(first, ScriptChange):
            replies = yield from scripts.run(first.script, *_many(undo, part, keep_ms, room))
        else:
            calls = [
                _call(undo, ("do", number, keep_ms, room, _text(one.id)), [at.follow(cell) for cell in one.cells])
                for number, one in part
                if isinstance(one, Change)
            ]
            replies = yield from scripts.run_each(_script(), calls, undo)
        for (_, change), reply in zip(part, replies, strict=True):
            result = _result(change, reply)
            at.kept[tag] = result.bytes if result.done else at.kept.get(tag, 0)
            found.append(msgspec.structs.replace(result, bytes=sum(at.kept.values())))
    return found


def _parts(changes: Sequence[_AnyChange], places: Sequence[int]) -> Iterator[tuple[bytes, list[_Placed]]]:
    """Yield changes that are made in one round trip: of one hash tag, and of cells or of one script with its keys."""
    part: list[_Placed] = []
    size, kind, tag = 0, None, b""
    for number, change in zip(places, changes, strict=True):
        own = (change.script, change.keys, len(change.args)) if isinstance(change, ScriptChange) else None
        under = _tag_of(change.keys)
        size += change.size
        if part and ((own, under) != (kind, tag) or len(part) == CHUNK or size > CHUNK_BYTES):
            yield tag, part
            part, size = [], change.size
        part.append((number, change))
        kind, tag = own, under
    if part:
        yield tag, part


def _many(undo: bytes, part: Sequence[_Placed], keep_ms: int, keep_bytes: int) -> tuple[Sequence[bytes], Sequence[Arg]]:
    """Return keys and arguments of a script that makes many changes."""
    some = [(number, change) for number, change in part if isinstance(change, ScriptChange)]
    first = some[0][1]
    args: list[Arg] = [keep_ms, keep_bytes, len(first.args)]
    for number, change in some:
        args += (number, _text(change.id), *change.args)
    return (*first.keys, undo), args


def apply_once(change: Change) -> Program[ChangeResult]:
    """Make a change that cannot be undone; sent twice, it finds its own values."""
    call = _call(_NOWHERE, ("once", 0, 0, 0, _text(change.id)), change.cells)
    [reply] = yield from scripts.run_each(_script(), [call])
    return _result(change, reply)


def done_places(adapter: str, batch: str, places: Sequence[int]) -> Program[list[bool | None]]:
    """Return for each place of a batch whether it can be undone; None for what was not done."""
    tags, kept = yield [
        (b"SMEMBERS", _tags_key(adapter, batch)), (b"HMGET", undo_key(adapter, batch), *places)
    ]  # fmt: skip
    rows = [kept]
    if tags:
        rows += yield [(b"HMGET", undo_key(adapter, batch, tag), *places) for tag in sorted(tags)]
    found = [next((value for value in values if value is not None), None) for values in zip(*rows, strict=True)]
    return [None if value is None else bool(value) for value in found]


def kept_undo(adapter: str, batch: str) -> Program[tuple[int, int, int]]:
    """Return how many changes of a batch can be undone, the bytes of that, and how many were undone already."""
    found = yield from _undo_keys(adapter, batch)
    sizes = yield from reads.fetch_all([(b"HLEN", key) for key in found])
    sums = yield from reads.fetch_all([(b"HMGET", key, b"bytes", b"restored") for key in found])
    left = sum(sizes) - sum(one is not None for row in sums for one in row)
    return left, sum(int(size or 0) for size, _ in sums), sum(int(done or 0) for _, done in sums)


def _undo_keys(adapter: str, batch: str) -> Program[list[bytes]]:
    """Return the hashes that keep the undo data of a batch."""
    tags = yield (b"SMEMBERS", _tags_key(adapter, batch))
    return [undo_key(adapter, batch, tag) for tag in (b"", *sorted(tags))]


class UndoPart(NamedTuple):
    """Changes that are undone in one round trip: the key that keeps them, and the place and the cells of each."""

    key: bytes
    kept: list[tuple[int, bytes]]


def undo(adapter: str, batch: str) -> Program[list[ChangeResult]]:
    """Undo a batch, the last change first; what has changed since is left as it is."""
    parts, lost = yield from undo_parts(adapter, batch)
    found: list[ChangeResult] = []
    for part in parts:
        found += yield from undo_part(part)
    return [*found, *([ChangeResult(id="", done=False, code=SkipCode.UNDO_NOT_KEPT, data=str(lost))] if lost else [])]


def undo_parts(adapter: str, batch: str) -> Program[tuple[list[UndoPart], int]]:
    """Return what is undone one after the other, and of how many changes nothing is kept; the last change goes first.

    Those that add entries to streams again go last, in the order of these: a stream is only added to at its end.
    """
    kept: dict[int, tuple[bytes, bytes]] = {}
    for key in (yield from _undo_keys(adapter, batch)):
        values = yield from reads.scan_hash(key)
        kept |= {int(place): (key, value) for place, value in values.items() if place.isdigit()}
    numbers = sorted((number for number, (_, value) in kept.items() if value), reverse=True)
    added = {number: ident for number in numbers if (ident := _added(_read(kept[number][1])[1]))}
    numbers = [*(number for number in numbers if number not in added), *sorted(added, key=added.__getitem__)]
    parts: list[UndoPart] = []
    for key, group in groupby(numbers, key=lambda number: kept[number][0]):
        some = [(number, kept[number][1]) for number in group]
        parts += [UndoPart(key, some[start : start + CHUNK]) for start in range(0, len(some), CHUNK)]
    return parts, len(kept) - len(numbers)


def undo_part(part: UndoPart) -> Program[list[ChangeResult]]:
    """Undo some changes in one round trip."""
    read = [(number, *_read(value)) for number, value in part.kept]
    calls = [_call(part.key, ("undo", number, 0, 0, b""), cells) for number, _, cells in read]
    replies = yield from scripts.run_each(_script(), calls, part.key)
    return [_outcome(name, cells, reply) for (_, name, cells), reply in zip(read, replies, strict=True)]


def _read(kept: bytes) -> tuple[str, list[Cell]]:
    """The stored undo of a change: the id of its entry, and cells."""
    name, *values = unpacked(kept)
    cells = []
    for at in range(0, len(values), _WIDTH):
        kind, key, ident, before, after, part, extra, place = values[at : at + _WIDTH]
        cells.append(Cell(kind.decode(), key, ident, _value(before), _value(after), part, extra, place))
    return name.decode(), cells


def _added(cells: Sequence[Cell]) -> tuple[bytes, int, int] | None:
    """Return the first entry that these cells add to a stream again: its key, and the parts of its id."""
    for cell in cells:
        if cell.kind == "stream" and isinstance(cell.after, bytes):
            ms, _, number = cell.ident.partition(b"-")
            return cell.key, int(ms), int(number)
    return None


def _value(text: bytes) -> Value:
    return text[1:] if text[:1] == b"=" else None if text == b"-" else Mark(text)


def _told(value: Value) -> bytes:
    return b"-" if value is None else value.value if isinstance(value, Mark) else b"=" + value


def _result(change: _AnyChange, reply: list[int | bytes]) -> ChangeResult:
    return _outcome(change.id, change.cells if isinstance(change, Change) else (), reply)


def _outcome(name: str, cells: Sequence[Cell], reply: list[int | bytes]) -> ChangeResult:
    """Read a reply; one of a script that makes many changes names the key by itself."""
    number = int(reply[0])
    if number > 0:
        key = cells[number - 1].key if cells else bytes(reply[2])
        data = key.decode("utf-8", "backslashreplace")
        return ChangeResult(id=name, done=False, code=SkipCode(bytes(reply[1]).decode()), data=data)
    failed = reply[3].decode("utf-8", "backslashreplace") if isinstance(reply[3], bytes) else ""
    return ChangeResult(id=name, done=True, undoable=reply[2] == 1, bytes=int(reply[1]), failed=failed)


def _call(undo: bytes, head: tuple[Arg, ...], cells: Sequence[Cell]) -> tuple[Arg, ...]:
    keys = {key: number for number, key in enumerate(dict.fromkeys(keys_of(cells)), 1)}
    out: list[Arg] = [*head]
    for cell in cells:
        out += (cell.kind, keys.get(cell.key, 0), cell.ident, _told(cell.before), _told(cell.after))
        out += (cell.part, cell.extra, cell.place)
    return _script().call((*keys, undo), out)


def _text(name: str) -> bytes:
    """Return an id for reports; bytes that are not text are escaped."""
    return name.encode("utf-8", "backslashreplace")


def _script() -> Script:
    return scripts.plain("adapters/change")
