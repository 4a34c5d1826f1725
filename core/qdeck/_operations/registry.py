"""Which batches can be undone: a small hash on the server, so that the room for all of them is one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from qdeck._engine import keys, ops
from qdeck._engine.acts import KEEP_BYTES
from qdeck._redis import reads

if TYPE_CHECKING:
    from qdeck._engine.ops import Program

MOST: Final = 1000  # batches that are remembered


class Kept(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One batch that can be undone. `bytes` is what its undo takes, as far as was counted.

    `applied` is known when it ended: one that ended without having done anything is not what an undo is asked for.
    """

    batch: str
    verb: str
    by: str
    at_ms: int
    until_ms: int
    queues: list[str] = []
    adapters: list[str] = []  # other adapters that have something of it
    where: str = ""
    target: str | None = None
    bytes: int = 0
    undone: bool = False
    applied: int | None = None
    automatic: bool = False  # no operator asked for it: a service removed what its task left, or an agent orphans


def read() -> Program[dict[str, Kept]]:
    """The batches that are remembered; an entry that cannot be read is passed over."""
    raw = yield from reads.scan_hash(keys.UNDO)
    found = {}
    for name, value in raw.items():
        try:
            found[name.decode()] = msgspec.json.decode(value, type=Kept)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            continue
    return found


def write(kept: Kept) -> Program[None]:
    """Remembers a batch."""
    [reply] = yield ops.commands((b"HSET", keys.UNDO, kept.batch, msgspec.json.encode(kept)), key=keys.UNDO.encode())
    reads.good(reply)


def sweep(known: dict[str, Kept], now: int) -> Program[None]:
    """Forgets the batches whose time is over, and the oldest beyond a bound."""
    over = [name for name, kept in known.items() if kept.until_ms < now]
    rest = sorted((kept.at_ms, name) for name, kept in known.items() if name not in set(over))
    over += [name for _, name in rest[:-MOST]]
    if over:
        [reply] = yield ops.commands((b"HDEL", keys.UNDO, *over), key=keys.UNDO.encode())
        reads.good(reply)
        for name in over:
            del known[name]


def room(known: dict[str, Kept], batch: str, most: int = KEEP_BYTES) -> int:
    """How many bytes a batch may keep beside the others."""
    return max(0, most - sum(kept.bytes for name, kept in known.items() if name != batch))


def room_for_automatic(known: dict[str, Kept]) -> int:
    """Return how many bytes an automatic batch may keep: all of them have half of the batches and of the bytes.

    They follow from messages, which others write. So no flood of them takes the undo of what operators do.
    """
    others = {name: kept for name, kept in known.items() if kept.automatic}
    if len(others) >= MOST // 2:
        return 0
    return min(room(known, ""), room(others, "", KEEP_BYTES // 2))
