"""Plain reads for programs: many commands a round trip, and errors that concern one reply only."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final, TypeVar

from qdeck._errors import NotAllowed, OutcomeUnknown, QdeckError, ServerRefused, ServerUnreachable, UsageError
from qdeck._redis.commands import ask
from qdeck._redis.errors import is_error

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qdeck._redis.commands import Command, Program

T = TypeVar("T")
CHUNK: Final = 1000  # commands in one round trip: a reply of some hundred KB, a few ms of the server
LOCAL_CLOCK: Final = "the server's clock may not be read (TIME): ages are by this machine's clock"


def ask_all(calls: Sequence[Command]) -> Program[list[Any]]:
    """Run any number of plain reads, a chunk a round trip. An error of the server is a value among the replies."""
    replies: list[Any] = []
    for at in range(0, len(calls), CHUNK):
        replies += yield ask(*calls[at : at + CHUNK])
    return replies


def fetch_all(calls: Sequence[Command]) -> Program[list[Any]]:
    """Run any number of plain reads, a chunk a round trip."""
    replies: list[Any] = []
    for at in range(0, len(calls), CHUNK):
        replies += yield list(calls[at : at + CHUNK])
    return replies


def concerns_all(error: QdeckError) -> bool:
    """Return whether an error concerns the server, the rights or the request, not one stored value."""
    return isinstance(error, NotAllowed | OutcomeUnknown | ServerRefused | ServerUnreachable | UsageError)


def is_broken(reply: Any) -> bool:
    """Return whether a stored value cannot be read; raise an error that concerns more than that."""
    if is_error(reply) and concerns_all(reply):
        raise reply
    return is_error(reply)


def contained(program: Program[T], name: str, unread: list[str]) -> Program[T | None]:
    """Return the result of a program; an unreadable value is noted under its name, and the result is None."""
    try:
        return (yield from program)
    except QdeckError as error:
        if concerns_all(error):
            raise
        unread.append(unread_words(name, error))
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        unread.append(unread_words(name, f"{type(error).__name__}: {error}"))
    return None


def unread_words(name: str, why: object) -> str:
    """Return the text of a list about a queue that it leaves out."""
    return f"{name} cannot be read: {why}"


def pairs(flat: Sequence[bytes]) -> list[tuple[bytes, bytes]]:
    """Return a flat reply of names and values as pairs."""
    return list(zip(flat[::2], flat[1::2], strict=True))


def scan_hash(key: str | bytes, *, most: int = 1_000_000) -> Program[dict[bytes, bytes]]:
    """Return all of a hash, slice by slice, at most about `most` fields; raise our error when it may not be read."""
    found: dict[bytes, bytes] = {}
    cursor: Any = b"0"
    while True:
        cursor, flat = yield (b"HSCAN", key, cursor, b"COUNT", CHUNK)
        found.update(pairs(flat))
        if cursor in (b"0", 0) or len(found) >= most:
            return found


def local_ms() -> int:
    """Return this machine's time, for when the server's may not be read."""
    return time.time_ns() // 1_000_000


def clock() -> Program[int]:
    """Return the server's time, or this machine's without the right to read it."""
    [reply] = yield ask((b"TIME",))
    return stamp(reply) or local_ms()


def stamp(reply: Any) -> int | None:
    """Return a reply to TIME in ms; None where the server's clock may not be read."""
    return None if is_error(reply) else ms_of(reply)


def ms_of(reply: Sequence[bytes]) -> int:
    """Return a reply to TIME that is not an error, in ms."""
    return int(reply[0]) * 1000 + int(reply[1]) // 1000
