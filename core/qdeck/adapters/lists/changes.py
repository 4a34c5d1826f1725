"""The changes of verbs in lists."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qdeck._model.reasons import Caution, CautionCode
from qdeck._model.words import Verb
from qdeck._redis.commands import raw_of, text_of
from qdeck.adapters import cells
from qdeck.adapters.cells import Change, End
from qdeck.adapters.model import Entry, Skipped

if TYPE_CHECKING:
    from qdeck._list_names import ListNames


def build(act: Verb, entry: Entry, names: ListNames) -> Change:
    """Return the change of a verb for one entry: the nearest one with the same bytes."""
    seen = entry.seen
    name = text_of(seen.key)
    taken = cells.take(seen.key, seen.member, End.LEFT if (seen.at or 0) >= 0 else End.RIGHT, seen.at)
    if act is Verb.DISCARD:
        return Change(id=entry.id, cells=(taken,), effect=f"removed from {name}")
    target = name
    if act is Verb.RETRY:
        target = names.live_of(name)
        if target == name:
            raise Skipped.because(f"{name!r} does not name the list that it came from")
    elif act is not Verb.REQUEUE:
        target = name + names.suffix
    return Change(
        id=entry.id,
        cells=(taken, cells.push(raw_of(target), seen.member, End.RIGHT)),
        effect=f"moved to the right end of {target}",
        caution=Caution(code=CautionCode.ORDER_UNKNOWN),
    )
