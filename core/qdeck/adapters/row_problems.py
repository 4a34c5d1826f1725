"""What is wrong with a queue whose numbers could not all be read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from qdeck._model.words import Unreadable
from qdeck._redis.errors import is_error

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qdeck._redis.commands import Command

_TYPES: Final = {b"L": "list", b"Z": "zset", b"H": "hash", b"S": "set"}


def problem_of(commands: Sequence[Command], replies: Sequence[Any]) -> Unreadable | None:
    """Return the first problem among the replies to reads of one queue, with the key and the type that it should be."""
    for command, reply in zip(commands, replies, strict=True):
        if is_error(reply):
            name, key = command[0], command[1]
            shown = key.decode("utf-8", "backslashreplace") if isinstance(key, bytes) else str(key)
            return Unreadable.of(reply, shown, _TYPES.get(name[:1] if isinstance(name, bytes) else b"", ""))
    return None
