"""Discovery of the systems on a server: fixed keys first, then a scan in slices that continues at each refresh.

The scan keeps counts and a bounded number of names, so a server with millions of keys takes little memory. What it
found is stored on the operator's machine; that a key has gone since is noticed when it is read.
"""

from __future__ import annotations

import hashlib
import time
from typing import TYPE_CHECKING, Any, Final

import msgspec

from qdeck._private_files import draft_beside, private_folder, state_dir
from qdeck._redis import reads
from qdeck._redis.errors import is_error
from qdeck._redis.keyspace_scan import KeySearch, ScanPosition, UnregisteredQueues, sweep
from qdeck._redis.parallel_programs import all_of
from qdeck.adapters.model import Discovered, FoundKeys

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from qdeck._redis.commands import Program
    from qdeck.adapters.adapter import Adapter

KEPT_EVERY_S: Final = 10.0  # how often a client that refreshes stores what it found
BELIEVED_S: Final = (
    600  # how long an adapter without any of its fixed keys stays absent when a whole pass found nothing
)
MOST_DIGITS: Final = 20  # of a cursor


class Pass(ScanPosition):
    """A pass through the keyspace: what the last one found, and how far this one came.

    `empty_s` is when a pass ended that found nothing, for an adapter that also has fixed keys.
    """

    found: dict[str, FoundKeys] = msgspec.field(default_factory=dict)
    next: dict[str, FoundKeys] = msgspec.field(default_factory=dict)
    empty_s: int = 0

    def finish(self) -> None:
        """Replace what is known by what this pass found."""
        self.found, self.next, self.passes = self.next, {}, 1

    @property
    def is_empty(self) -> bool:
        """Whether a complete pass found nothing, and no other one has begun."""
        return self.passes > 0 and self.cursor == "0" and not self.found

    @property
    def can_wait(self) -> bool:
        """Whether it was empty a short while ago."""
        return self.is_empty and 0 <= time.time() - self.empty_s < BELIEVED_S

    def groups(self) -> dict[str, FoundKeys]:
        """Return what is known: from the last pass, and what is new in this one."""
        return {
            **self.next,
            **self.found,
            **{k: g for k, g in self.next.items() if g.count > self.found.get(k, _NONE).count},
        }


_NONE: Final = FoundKeys()


class Remembered(msgspec.Struct):
    """What an operator's machine stores about one server, by adapter and pattern."""

    passes: dict[str, Pass] = {}
    strays: UnregisteredQueues | None = None


def look(adapters: Sequence[Adapter], remembered: Remembered) -> Program[tuple[list[str], list[str]]]:
    """Set the `sight` of each adapter; return notices, and the keys that are ignored with the reasons."""
    notices: list[str] = []
    unread: list[str] = []
    waiting = [adapter for adapter in adapters if _can_wait(adapter, remembered)]
    programs: list[Program[Any]] = [
        _read_types(adapters, unread),
        _sweep([adapter for adapter in adapters if adapter not in waiting], remembered, unread),
    ]
    types, _ = yield from all_of(programs)
    there = [adapter for adapter in waiting if set(types[adapter.name].values()) != {"none"}]
    yield from _sweep(there, remembered, unread)
    for adapter in adapters:
        passes = _passes(adapter, remembered)
        groups = {name: group for one in passes for name, group in one.groups().items()}
        complete = all(one.passes for one in passes)
        adapter.discovered = Discovered(types[adapter.name], groups, complete)
        for key, kind in adapter.fixed_keys().items():
            found = types[adapter.name][key]
            if kind is not None and found not in ("none", kind.value):
                unread.append(reads.ignored_words(key, adapter.name, kind, found))
        if not complete:
            notices.append(f"the server has many keys; the search for {adapter.name} is not complete yet")
    return notices, unread


def _read_types(adapters: Sequence[Adapter], unread: list[str]) -> Program[dict[str, dict[bytes, str]]]:
    fixed = [(adapter, key) for adapter in adapters for key in adapter.fixed_keys()]
    replies = yield from reads.try_all([(b"TYPE", key) for _, key in fixed])
    types: dict[str, dict[bytes, str]] = {adapter.name: {} for adapter in adapters}
    for (adapter, key), reply in zip(fixed, replies, strict=True):
        types[adapter.name][key] = "none" if is_error(reply) else _text(reply)
        if is_error(reply):
            unread.append(f"{_shown(key)} cannot be read: {reply}")
    return types


def _passes(adapter: Adapter, remembered: Remembered) -> list[Pass]:
    names = [_name(adapter, number) for number in range(len(adapter.patterns()))]
    return [remembered.passes.setdefault(name, Pass()) for name in names]


def _can_wait(adapter: Adapter, remembered: Remembered) -> bool:
    """Return whether its fixed keys are enough: it had no other keys a short while ago."""
    return bool(adapter.fixed_keys()) and all(one.can_wait for one in _passes(adapter, remembered))


def _sweep(adapters: Sequence[Adapter], remembered: Remembered, unread: list[str]) -> Program[None]:
    searches = [
        _search(adapter, one, glob, kind)
        for adapter in adapters
        for (glob, kind), one in zip(adapter.patterns(), _passes(adapter, remembered), strict=True)
    ]
    refused = yield from sweep(searches, is_first=all(search.position.is_new for search in searches))
    if refused is not None:
        unread.append(f"keys cannot be searched (SCAN): {refused}")
        return
    for adapter in adapters:
        for one in _passes(adapter, remembered) if adapter.fixed_keys() else ():
            if one.is_empty and not one.can_wait:
                one.empty_s = int(time.time())


def _search(adapter: Adapter, one: Pass, glob: bytes, kind: str | None) -> KeySearch:
    def take(names: Sequence[bytes]) -> None:
        for name in names:
            group = adapter.gather(name)
            if group is not None:
                one.next.setdefault(group, FoundKeys(names=[])).add(name)

    return KeySearch(one, glob, kind, take)


def _name(adapter: Adapter, number: int) -> str:
    return f"{adapter.name} {adapter.patterns()[number][0].decode()} {adapter.flavour}".rstrip()


def _text(reply: Any) -> str:
    return reply.decode() if isinstance(reply, bytes) else str(reply)


def _shown(key: bytes) -> str:
    return repr(key.decode("utf-8", "replace"))


def memory_path(address: str) -> Path:
    """Return the file that stores what was found on a server."""
    digest = hashlib.sha256(address.encode()).hexdigest()[:16]
    return private_folder(state_dir() / "sights") / f"{digest}.json"


def recall(address: str) -> Remembered:
    """Return what is stored about a server; nothing if the file cannot be read."""
    try:
        kept = msgspec.json.decode(memory_path(address).read_bytes(), type=Remembered)
        if not all(map(_is_cursor, (*kept.passes.values(), *([kept.strays] if kept.strays else ())))):
            return Remembered(passes={})  # the server would always refuse it
        return _relabelled(kept, lambda label: label.encode("latin-1").decode("utf-8", "surrogateescape"))
    except (OSError, UnicodeError, msgspec.MsgspecError):
        return Remembered(passes={})


def _is_cursor(position: ScanPosition) -> bool:
    return position.cursor.isascii() and position.cursor.isdigit() and int(position.cursor[: MOST_DIGITS + 1]) < 2**64


def _relabelled(remembered: Remembered, change: Callable[[str], str]) -> Remembered:
    """Return the same with other names of groups: JSON cannot contain those of keys that are not UTF-8."""

    def changed(groups: Mapping[str, FoundKeys]) -> dict[str, FoundKeys]:
        return {change(label): group for label, group in groups.items()}

    return Remembered(
        passes={
            name: msgspec.structs.replace(one, found=changed(one.found), next=changed(one.next))
            for name, one in remembered.passes.items()
        },
        strays=remembered.strays,
    )


def remember(address: str, remembered: Remembered) -> None:
    """Store what was found if it is new; if the file cannot be written, the next command searches again."""
    plain = _relabelled(remembered, lambda label: label.encode("utf-8", "surrogateescape").decode("latin-1"))
    told = msgspec.json.encode(plain, order="deterministic")
    try:
        path = memory_path(address)
        if path.exists() and path.read_bytes() == told:
            return
        draft, file = draft_beside(path)
        try:
            with file:
                file.write(told)
            draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)
    except OSError:
        return
