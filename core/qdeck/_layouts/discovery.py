"""Which layouts are on a server: fixed names first, then a scan in slices that goes on from look to look.

The scan keeps counts and a bounded number of names, never all of them, so a server with millions of keys costs little
memory here. What it found is remembered on the operator's side; a name that has gone since is found out by reading it.
"""

from __future__ import annotations

import hashlib
import itertools
import time
from typing import TYPE_CHECKING, Any, Final

import msgspec

from qdeck._deck import reads
from qdeck._files import draft_beside, private_folder, state_dir
from qdeck._layouts.model import Group, Sight
from qdeck._layouts.together import all_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from qdeck._engine.ops import Program
    from qdeck._layouts.base import Layout

STEP: Final = 6000  # keys that the server looks at in one call: about a ms
KEPT_EVERY_S: Final = 10.0  # what was found is written down by who looks again and again
FIRST_S: Final = 1.2  # of the first look, until every key was seen once: longer nobody wants to wait for a picture
NEXT_S: Final = 0.08  # of those after it, where the first did not come to the end
NEXT_STEPS: Final = 3
MOST_DIGITS: Final = 20  # of a cursor


class Pass(msgspec.Struct):
    """One way through the keyspace: what the pass before it found, and how far this one came.

    `passes` is 1 when there was a whole one, however many there were.
    """

    cursor: str = "0"
    found: dict[str, Group] = {}
    next: dict[str, Group] = {}
    passes: int = 0

    def groups(self) -> dict[str, Group]:
        """What is known: of the pass before, and what is new in this one."""
        return {
            **self.next,
            **self.found,
            **{k: g for k, g in self.next.items() if g.count > self.found.get(k, _NONE).count},
        }


_NONE: Final = Group()


class Strays(msgspec.Struct):
    """How far the look for queues of qdeck came on a server without a registry of them, and what it found."""

    cursor: str = "0"
    is_swept: bool = False
    names: list[str] = []


class Remembered(msgspec.Struct):
    """What an operator's machine remembers of one server, by layout and pattern."""

    passes: dict[str, Pass] = {}
    strays: Strays | None = None


def look(layouts: Sequence[Layout], remembered: Remembered) -> Program[tuple[list[str], list[str]]]:
    """Gives each layout its sight; returns notices, and what was left out with the reason."""
    notices: list[str] = []
    unread: list[str] = []
    programs: list[Program[Any]] = [_read_types(layouts, unread), _sweep(layouts, remembered, unread)]
    types, _ = yield from all_of(programs)
    for layout in layouts:
        passes = [remembered.passes[_name(layout, i)] for i in range(len(layout.patterns()))]
        groups = {name: group for one in passes for name, group in one.groups().items()}
        complete = all(one.passes for one in passes)
        layout.sight = Sight(types[layout.name], groups, complete)
        for key, kind in layout.fixed_keys().items():
            found = types[layout.name][key]
            if kind is not None and found not in ("none", kind.value):
                unread.append(f"{_shown(key)} holds a {found}, {layout.name} needs a {kind}: it is left out")
        if not complete:
            notices.append(f"the server has many keys: not all were looked through yet for {layout.name}")
    return notices, unread


def _read_types(layouts: Sequence[Layout], unread: list[str]) -> Program[dict[str, dict[bytes, str]]]:
    fixed = [(layout, key) for layout in layouts for key in layout.fixed_keys()]
    replies = yield from reads.ask([(b"TYPE", key) for _, key in fixed])
    types: dict[str, dict[bytes, str]] = {layout.name: {} for layout in layouts}
    for (layout, key), reply in zip(fixed, replies, strict=True):
        types[layout.name][key] = "none" if reads.is_error(reply) else _text(reply)
        if reads.is_error(reply):
            unread.append(f"{_shown(key)} may not be looked at: {reply}")
    return types


def _sweep(layouts: Sequence[Layout], remembered: Remembered, unread: list[str]) -> Program[None]:
    walks: list[tuple[Layout, Pass, bytes, str | None]] = []
    for layout in layouts:
        for i, (glob, kind) in enumerate(layout.patterns()):
            one = remembered.passes.setdefault(_name(layout, i), Pass(found={}, next={}))
            walks.append((layout, one, glob, kind))
    fresh = all(one.passes == 0 and one.cursor == "0" for _, one, _, _ in walks)
    until = time.monotonic() + (FIRST_S if fresh else NEXT_S)
    for number in itertools.count():
        # Until every key was seen once the scan goes on; after that it takes a few steps a look.
        due = [walk for walk in walks if (walk[1].passes == 0 and time.monotonic() < until) or number < NEXT_STEPS]
        due = [walk for walk in due if number == 0 or walk[1].cursor != "0"]
        if not due:
            return
        replies = yield reads.read(*(_scan(one, glob, kind) for _, one, glob, kind in due))
        for (layout, one, _, _), reply in zip(due, replies, strict=True):
            if reads.is_error(reply):
                unread.append(f"keys may not be looked for (SCAN): {reply}")
                return
            _take(layout, one, reply)


def _scan(one: Pass, glob: bytes, kind: str | None) -> reads.Call:
    call: reads.Call = (b"SCAN", one.cursor, b"MATCH", glob, b"COUNT", STEP)
    return call if kind is None else (*call, b"TYPE", kind)


def _take(layout: Layout, one: Pass, reply: Any) -> None:
    cursor, names = reply
    for name in names:
        group = layout.gather(name)
        if group is not None:
            one.next.setdefault(group, Group(names=[])).add(name)
    one.cursor = _text(cursor)
    if one.cursor == "0":
        one.found, one.next, one.passes = one.next, {}, 1


def _name(layout: Layout, number: int) -> str:
    return f"{layout.name} {layout.patterns()[number][0].decode()} {layout.flavour}".rstrip()


def _text(reply: Any) -> str:
    return reply.decode() if isinstance(reply, bytes) else str(reply)


def _shown(key: bytes) -> str:
    return repr(key.decode("utf-8", "replace"))


def memory_path(address: str) -> Path:
    """The file that remembers what was found on a server."""
    digest = hashlib.sha256(address.encode()).hexdigest()[:16]
    return private_folder(state_dir() / "sights") / f"{digest}.json"


def recall(address: str) -> Remembered:
    """What is remembered of a server; a file that cannot be read is nothing."""
    try:
        kept = msgspec.json.decode(memory_path(address).read_bytes(), type=Remembered)
        if not all(map(_is_cursor, (*kept.passes.values(), *([kept.strays] if kept.strays else ())))):
            return Remembered(passes={})  # the server would refuse it for ever
        return _relabelled(kept, lambda label: label.encode("latin-1").decode("utf-8", "surrogateescape"))
    except (OSError, UnicodeError, msgspec.MsgspecError):
        return Remembered(passes={})


def _is_cursor(place: Pass | Strays) -> bool:
    return place.cursor.isascii() and place.cursor.isdigit() and int(place.cursor[: MOST_DIGITS + 1]) < 2**64


def _relabelled(remembered: Remembered, change: Callable[[str], str]) -> Remembered:
    """The same with other names of groups: those of keys that are no UTF-8 are no text that JSON can hold."""

    def changed(groups: Mapping[str, Group]) -> dict[str, Group]:
        return {change(label): group for label, group in groups.items()}

    return Remembered(
        passes={
            name: Pass(cursor=one.cursor, found=changed(one.found), next=changed(one.next), passes=one.passes)
            for name, one in remembered.passes.items()
        },
        strays=remembered.strays,
    )


def remember(address: str, remembered: Remembered) -> None:
    """Keeps what was found, if it is anything new; where nothing may be written, the next look looks again."""
    plain = _relabelled(remembered, lambda label: label.encode("utf-8", "surrogateescape").decode("latin-1"))
    told = msgspec.json.encode(plain)
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
