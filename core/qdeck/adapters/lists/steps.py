"""What is done to an entry of a list, and to the lists of a task that ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from qdeck._errors import InvalidOption, LayoutMismatch
from qdeck._redis import reads
from qdeck._words import counted
from qdeck.adapters.lists.names import REGISTERED_AT_ONCE, TASK_QUEUES, read_registered, registry_of
from qdeck.adapters.model import ENDS, Act, Entry, raw_of, text_of
from qdeck.adapters.steps import Check, Step, Write

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qdeck._engine.ops import Program

MOST_CLEANED: Final = 500  # entries of one list that a cleanup takes and can give back
_GONE: Final = "it is not in its list any more"


def build(act: Act, entry: Entry, suffix: str) -> Step:
    """The step that does this to one entry: it takes the entry that is equal to the byte, nearest to where it was."""
    seen = entry.seen
    head = seen.score == ENDS[0]
    push, take = ("LPUSH", b"1") if head else ("RPUSH", b"-1")
    checks = (Check("entry", seen.key, seen.member, b"1", _GONE),)
    remove, restore = Write("LREM", seen.key, (take, seen.member)), Write(push, seen.key, (seen.member,))
    if act is Act.DISCARD:
        return Step(
            id=entry.id, checks=checks, writes=(remove,), back_writes=(restore,), back_in_order=not head,
            effect=f"removed from {text_of(seen.key)}",
        )  # fmt: skip
    if act is Act.RETRY:
        if not seen.key.endswith(raw_of(suffix)):
            raise InvalidOption(
                f"{text_of(seen.key)!r} does not tell where it came from", hint="discard it, or move it"
            )
        target = seen.key[: -len(raw_of(suffix))]
    else:
        target = seen.key if act is Act.REQUEUE else seen.key + raw_of(suffix)
    return Step(
        id=entry.id,
        checks=(*checks, Check("list", target, b"", b"1", "another kind of data has the name of its list")),
        writes=(remove, Write("RPUSH", target, (seen.member,))),
        back_checks=(Check("entry", target, seen.member, b"1", "it was taken from its list since"),),
        back_writes=(Write("LREM", target, (b"-1", seen.member)), restore),
        effect=f"to the right end of {text_of(target)}",
        warning="from which end its readers take cannot be known",
        back_in_order=not head,
    )


def clean_task(task_id: str, idle_s: float = 0) -> Program[tuple[list[Step], list[tuple[str, str]]]]:
    """Removes what a task that ended left behind: each registered list with its entries in the registry, one step each.

    What is in use, too long to be given back, or no list, is told and left.
    """
    registry = registry_of(task_id)
    left: list[tuple[str, str]] = []
    try:
        names = yield from read_registered(task_id)
    except LayoutMismatch:
        return [], [(text_of(registry), "is no set, so it registers nothing")]
    steps: list[Step] = []
    for start in range(0, len(names), REGISTERED_AT_ONCE):
        entries = yield from _removable(names[start : start + REGISTERED_AT_ONCE], idle_s, left)
        steps += [_clean(registry, name, found, registered=True) for name, found in entries]
    return steps, left


def clean_orphans(
    names: Sequence[bytes], prefix: str, idle_s: float
) -> Program[tuple[list[Step], list[tuple[str, str]]]]:
    """Removes lists of a queue of many lists whose task no registry names, and that nobody touched for so long."""
    left: list[tuple[str, str]] = []
    registries = {name: TASK_QUEUES + name[len(raw_of(prefix)) :] for name in names}
    there = yield from reads.ask([(b"EXISTS", key) for key in registries.values()])
    lost = [name for name, known in zip(registries, there, strict=True) if known == 0]
    entries = yield from _removable(lost, idle_s, left)
    return [_clean(registries[name], name, found, registered=False) for name, found in entries], left


def _removable(
    names: Sequence[bytes], idle_s: float, left: list[tuple[str, str]]
) -> Program[list[tuple[bytes, Sequence[bytes]]]]:
    sizes = yield from reads.ask([(b"LLEN", name) for name in names])
    idles = yield from reads.ask([(b"OBJECT", b"IDLETIME", name) for name in names])
    found: list[tuple[bytes, Sequence[bytes]]] = []
    for name, size, idle in zip(names, sizes, idles, strict=True):
        why = ""
        if reads.is_error(size) or size > MOST_CLEANED:
            why = "is no list" if reads.is_error(size) else f"has {size:,} entries, over {MOST_CLEANED:,}"
        elif size and isinstance(idle, int) and idle < idle_s:
            why = f"was used {idle:,} s ago"
        if why:
            left.append((text_of(name), why))
            continue
        [entries] = yield reads.read((b"LRANGE", name, 0, MOST_CLEANED))
        found.append((name, reads.good(entries)))
    return found


def _clean(registry: bytes, name: bytes, entries: Sequence[bytes], *, registered: bool) -> Step:
    whole = b"".join(b"%d:%b" % (len(entry), entry) for entry in entries)
    count = counted(len(entries), "entry", "entries")
    there = Check("member", registry, name, b"1", "it is not registered any more")
    nobody = Check("type", registry, b"", None, "its task is registered now")
    restore = [Write("RPUSH", name, tuple(entries))] if entries else []
    return Step(
        id=text_of(name),
        checks=(Check("whole", name, b"", whole, "its list has changed"), there if registered else nobody),
        writes=(Write("UNLINK", name), *([Write("SREM", registry, (name,))] if registered else [])),
        back_checks=(Check("whole", name, b"", b"", "its list is in use again"),),
        back_writes=(*restore, *([Write("SADD", registry, (name,))] if registered else [])),
        effect=f"removed with {count}",
    )
