"""What is done to an entry of a list, and to the lists of a task that ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from qdeck._errors import InvalidOption, LayoutMismatch
from qdeck._redis import reads
from qdeck._words import counted
from qdeck.adapters import cells
from qdeck.adapters.cells import GUARD, THERE, Change, End
from qdeck.adapters.lists.names import REGISTERED_AT_ONCE, TASK_QUEUES, read_registered, registry_of
from qdeck.adapters.model import Act, Entry, raw_of, text_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from qdeck._engine.ops import Program
    from qdeck.adapters.cells import Cell

MOST_CLEANED: Final = 500  # entries of one list that a cleanup takes and can give back


def build(act: Act, entry: Entry, suffix: str) -> Change:
    """Return the change that does this to one entry: the one that is equal to the byte, nearest to where it was."""
    seen = entry.seen
    name = text_of(seen.key)
    end, place = (End.LEFT, seen.at) if (seen.at or 0) >= 0 else (End.RIGHT, -1 - (seen.at or 0))
    taken = cells.take(seen.key, seen.member, end, place)
    if act is Act.DISCARD:
        return Change(id=entry.id, cells=(taken,), effect=f"removed from {name}")
    target = name
    if act is Act.RETRY:
        if not name.endswith(suffix):
            raise InvalidOption(f"{name!r} does not tell where it came from", hint="discard it, or move it")
        target = name.removesuffix(suffix)
    elif act is not Act.REQUEUE:
        target = name + suffix
    return Change(
        id=entry.id,
        cells=(taken, cells.push(raw_of(target), seen.member, End.RIGHT)),
        effect=f"to the right end of {target}",
        warning="from which end its readers take cannot be known",
    )


def clean_task(task_id: str, idle_s: float = 0) -> Program[tuple[list[Change], list[tuple[str, str]]]]:
    """Remove what a task that ended left behind: each registered list with its entry in the registry, one change each.

    What is in use, too long to be given back, or no list, is reported and left.
    """
    registry = registry_of(task_id)
    left: list[tuple[str, str]] = []
    try:
        names = yield from read_registered(task_id)
    except LayoutMismatch:
        return [], [(text_of(registry), "is no set, so it registers nothing")]
    found: list[Change] = []
    for start in range(0, len(names), REGISTERED_AT_ONCE):
        part = names[start : start + REGISTERED_AT_ONCE]
        registrations = {name: cells.member(registry, name, THERE, None) for name in part}
        found += yield from _removals(registrations, idle_s, left)
    return found, left


def clean_orphans(
    names: Sequence[bytes], prefix: str, idle_s: float
) -> Program[tuple[list[Change], list[tuple[str, str]]]]:
    """Remove lists of a queue of many lists whose task no registry names, and that nobody touched for so long."""
    left: list[tuple[str, str]] = []
    registries = {name: TASK_QUEUES + name[len(raw_of(prefix)) :] for name in names}
    there = yield from reads.ask([(b"EXISTS", key) for key in registries.values()])
    nobody = {
        name: cells.whole_key(registry, None, GUARD)
        for (name, registry), known in zip(registries.items(), there, strict=True)
        if known == 0
    }
    return (yield from _removals(nobody, idle_s, left)), left


def _removals(registrations: Mapping[bytes, Cell], idle_s: float, left: list[tuple[str, str]]) -> Program[list[Change]]:
    """Remove each list that nobody uses, while it holds what it holds now; and what goes or stays with it."""
    sizes = yield from reads.ask([(b"LLEN", name) for name in registrations])
    idles = yield from reads.ask([(b"OBJECT", b"IDLETIME", name) for name in registrations])
    found: list[Change] = []
    for (name, registration), size, idle in zip(registrations.items(), sizes, idles, strict=True):
        why = ""
        if reads.is_error(size) or size > MOST_CLEANED:
            why = "is no list" if reads.is_error(size) else f"has {size:,} entries, over {MOST_CLEANED:,}"
        elif size and isinstance(idle, int) and idle < idle_s:
            why = f"was used {idle:,} s ago"
        if why:
            left.append((text_of(name), why))
            continue
        [content] = yield reads.read((b"DUMP", name))
        effect = f"removed with {counted(size, 'entry', 'entries')}"
        removed = cells.whole_key(name, cells.digest(reads.good(content)))
        found.append(Change(id=text_of(name), cells=(removed, registration), effect=effect))
    return found
