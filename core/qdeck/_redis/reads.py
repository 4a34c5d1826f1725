"""Plain reads for programs: many commands a round trip, and errors that concern one reply only."""

from __future__ import annotations

import time
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeVar

from qdeck._errors import NotAllowed, OutcomeUnknown, QdeckError, ServerRefused, ServerUnreachable, UsageError
from qdeck._redis.commands import with_errors
from qdeck._redis.errors import is_error

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from qdeck._redis.commands import Command, Program

T = TypeVar("T")
K = TypeVar("K")
CHUNK: Final = 1000  # commands in one round trip: a reply of some hundred KB, a few ms of the server
CHUNK_OF_NUMBERS: Final = 5000  # the same for commands whose replies are a few bytes each
LOCAL_CLOCK: Final = "the server's clock cannot be read (TIME is not allowed): ages use this machine's clock"


def try_all(calls: Sequence[Command], *, chunk: int = CHUNK) -> Program[list[Any]]:
    """Run any number of plain reads, a chunk a round trip. An error of the server is a value among the replies."""
    replies: list[Any] = []
    for at in range(0, len(calls), chunk):
        replies += yield with_errors(*calls[at : at + chunk])
    return replies


def try_each(groups: Sequence[Sequence[Command]], *, chunk: int = CHUNK) -> Program[list[list[Any]]]:
    """Run several plain reads for each of many things like `try_all`; return the replies of each."""
    replies = iter((yield from try_all([command for group in groups for command in group], chunk=chunk)))
    return [list(islice(replies, len(group))) for group in groups]


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


def ignored_words(key: bytes, adapter: str, expected: str, found: str = "") -> str:
    """Return the text about a key that an adapter ignores, because it has another type."""
    known = f", found a {found}" if found else ""
    return f"ignored {key.decode('utf-8', 'replace')!r}: {adapter} expects a {expected}{known}"


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


def scan_set(key: bytes, *, most: int = 1_000_000) -> Program[tuple[list[bytes], QdeckError | None]]:
    """Return the members of a set, slice by slice, at most about `most`; and the error that ended it."""
    found: dict[bytes, None] = {}
    cursor: Any = b"0"
    while True:
        [reply] = yield with_errors((b"SSCAN", key, cursor, b"COUNT", CHUNK))
        if is_error(reply):
            return list(found), reply
        cursor, members = reply
        found.update(dict.fromkeys(members))
        if cursor in (b"0", 0) or len(found) >= most:
            return list(found), None


def number(reply: Any) -> int | None:
    """Return a reply that is a number; None for an error."""
    return None if is_error(reply) else int(reply)


def record(names: Sequence[bytes], reply: Any) -> dict[bytes, bytes | None] | None:
    """Return the reply to HMGET by the names of the fields; None for an error, and where none of them is set."""
    is_known = not is_error(reply) and any(value is not None for value in reply)
    return dict(zip(names, reply, strict=True)) if is_known else None


def field_of_each(keys: Mapping[K, bytes], name: bytes) -> Program[dict[K, bytes | None]]:
    """Return one field of each of these hashes; None for one that cannot be read."""
    replies = yield from try_all([(b"HGET", key, name) for key in keys.values()])
    return {one: None if is_error(reply) else reply for one, reply in zip(keys, replies, strict=True)}


def local_ms() -> int:
    """Return this machine's time, for when the server's may not be read."""
    return time.time_ns() // 1_000_000


def clock() -> Program[int]:
    """Return the server's time, or this machine's without the right to read it."""
    [reply] = yield with_errors((b"TIME",))
    return stamp(reply) or local_ms()


def stamp(reply: Any) -> int | None:
    """Return a reply to TIME in ms; None where the server's clock may not be read."""
    return None if is_error(reply) else ms_of(reply)


def ms_of(reply: Sequence[bytes]) -> int:
    """Return a reply to TIME that is not an error, in ms."""
    return int(reply[0]) * 1000 + int(reply[1]) // 1000
