"""Changes of other systems' keys, made and undone by one script: a call for each, made once by its place in a batch."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

from qdeck._deck.reasons import SkipCode
from qdeck._engine.batch_transitions import MAX_UNDO_BYTES, UNDO_TTL_MS
from qdeck._errors import InvalidOption
from qdeck._redis import reads, scripts
from qdeck.adapters.cells import Cell, Change, Mark, ScriptChange, Value, unpacked

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from qdeck._redis.commands import Arg, Program, Script

CHUNK: Final = 50  # changes in one round trip: the server looks after its others between any two of them
CHUNK_BYTES: Final = 1 << 20  # of them in one round trip, unless one alone has more
_WIDTH: Final = 8  # values of a cell
_NOWHERE: Final = b"qdeck:undo:none"
_AnyChange: TypeAlias = Change | ScriptChange


class ChangeResult(msgspec.Struct, frozen=True, kw_only=True):
    """What happened to a change. `code` tells why nothing was done, `data` names the key that has changed.

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
        """Why nothing was done, in words."""
        return "" if self.code is None else self.code.words(self.data)


class Places:
    """Where entries of lists are by now, after what a run took and pushed: a hint, so that none is searched for."""

    def __init__(self) -> None:
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


def undo_key(adapter: str, batch: str) -> bytes:
    """Return the hash that keeps what undoes a batch on the queues of an adapter."""
    if not batch or not batch.isascii():
        raise InvalidOption(f"{batch!r} is no id of a batch", hint="pass one that an operation gave")
    return f"qdeck:undo:{adapter}:{batch}".encode()


def apply(
    adapter: str,
    batch: str,
    changes: Sequence[Change | ScriptChange],
    *,
    places: Sequence[int] = (),
    keep_ms: int = UNDO_TTL_MS,
    keep_bytes: int = MAX_UNDO_BYTES,
    at: Places | None = None,
) -> Program[list[ChangeResult]]:
    """Make changes. The place of each in its batch makes one that is sent twice one.

    Of a batch at most `keep_bytes` are kept: what is done beyond them cannot be undone.
    """
    undo, at = undo_key(adapter, batch), at or Places()
    found: list[ChangeResult] = []
    for part in _parts(changes, places or range(len(changes))):
        replies: list[list[int | bytes]]
        first = part[0][1]
        if isinstance(first, ScriptChange):
            replies = yield from scripts.run(first.script, *_many(undo, part, keep_ms, keep_bytes))
        else:
            calls = [
                _call(undo, ("do", number, keep_ms, keep_bytes, _text(one.id)), [at.follow(cell) for cell in one.cells])
                for number, one in part
                if isinstance(one, Change)
            ]
            replies = yield from scripts.run_each(_script(), calls, undo)
        found += [_result(change, reply) for (_, change), reply in zip(part, replies, strict=True)]
    return found


def _parts(changes: Sequence[_AnyChange], places: Sequence[int]) -> Iterator[list[tuple[int, _AnyChange]]]:
    """Yield changes that are made in one round trip, each with its place: of cells, or of one script and its keys."""
    part: list[tuple[int, _AnyChange]] = []
    size, kind = 0, None
    for number, change in zip(places, changes, strict=True):
        own = (change.script, change.keys, len(change.args)) if isinstance(change, ScriptChange) else None
        size += change.size
        if part and (own != kind or len(part) == CHUNK or size > CHUNK_BYTES):
            yield part
            part, size = [], change.size
        part.append((number, change))
        kind = own
    if part:
        yield part


def _many(
    undo: bytes, part: Sequence[tuple[int, _AnyChange]], keep_ms: int, keep_bytes: int
) -> tuple[Sequence[bytes], Sequence[Arg]]:
    """Return keys and arguments of a script that makes many changes."""
    some = [(number, change) for number, change in part if isinstance(change, ScriptChange)]
    first = some[0][1]
    args: list[Arg] = [keep_ms, keep_bytes, len(first.args)]
    for number, change in some:
        args += (number, _text(change.id), *change.args)
    return (*first.keys, undo), args


def apply_once(change: Change) -> Program[ChangeResult]:
    """Make a change that nothing undoes; sent twice it meets itself."""
    call = _call(_NOWHERE, ("once", 0, 0, 0, _text(change.id)), change.cells)
    [reply] = yield from scripts.run_each(_script(), [call])
    return _result(change, reply)


def done_places(adapter: str, batch: str, places: Sequence[int]) -> Program[list[bool | None]]:
    """Return for each place of a batch whether it can be undone; None for what was not done."""
    kept = yield (b"HMGET", undo_key(adapter, batch), *places)
    return [None if value is None else bool(value) for value in kept]


def undo(adapter: str, batch: str) -> Program[list[ChangeResult]]:
    """Undo a batch, the last change first; what has changed since is left as it is.

    Those that add entries to streams again go last, in the order of these: a stream is only added to at its end.
    """
    key = undo_key(adapter, batch)
    kept = yield from reads.scan_hash(key)
    numbers = sorted((int(place) for place in kept if place.isdigit()), reverse=True)
    added = {number: ident for number in numbers if (ident := _added(_read(kept[b"%d" % number])[1]))}
    numbers = [*(number for number in numbers if number not in added), *sorted(added, key=added.__getitem__)]
    found: list[ChangeResult] = []
    for start in range(0, len(numbers), CHUNK):
        part = [(number, *_read(kept[b"%d" % number])) for number in numbers[start : start + CHUNK]]
        there = [(number, name, cells) for number, name, cells in part if cells]
        calls = [_call(key, ("undo", number, 0, 0, b""), cells) for number, _, cells in there]
        replies = yield from scripts.run_each(_script(), calls, key)
        found += [_outcome(name, cells, reply) for (_, name, cells), reply in zip(there, replies, strict=True)]
    if lost := sum(not kept[b"%d" % number] for number in numbers):
        found.append(ChangeResult(id="", done=False, code=SkipCode.UNDO_NOT_KEPT, data=str(lost)))
    return found


def _read(kept: bytes) -> tuple[str, list[Cell]]:
    """What undoes a change: the id of its entry and cells."""
    if not kept:
        return "", []
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
    named = [cell.key for cell in cells if cell.key] + [cell.ident for cell in cells if cell.kind == "rename"]
    keys = {key: number for number, key in enumerate(dict.fromkeys(named), 1)}
    out: list[Arg] = [*head]
    for cell in cells:
        out += (cell.kind, keys.get(cell.key, 0), cell.ident, _told(cell.before), _told(cell.after))
        out += (cell.part, cell.extra, cell.place)
    return _script().call((*keys, undo), out)


def _text(name: str) -> bytes:
    """An id for reports: what is no text is written out."""
    return name.encode("utf-8", "backslashreplace")


def _script() -> Script:
    return scripts.plain("adapters/change")
