"""Takes packed commands apart again, as far as a cluster needs: where each one ends and which slot it is for."""

from __future__ import annotations

from enum import Enum
from functools import lru_cache
from typing import Final, NamedTuple

from redis.crc import key_slot

_HEAD: Final = 4  # words in which the first key of a command is, but for those that read streams
_CACHED_FROM: Final = 2000  # bytes: a picture of many queues is asked for again and again with the same bytes


class Wide(Enum):
    """Commands that have no key, by whom they are for on a cluster."""

    HOME = "home"  # one server, and always the same one: that of the keys which are sent with it, if any are
    ALL = "all"  # every server that has keys
    WALK = "walk"  # one server after the other


class Command(NamedTuple):
    """One command: its bytes, and its slot or whom it is for."""

    data: bytes
    place: int | Wide
    name: bytes


_WIDE: Final = {
    b"SCAN": Wide.WALK, b"INFO": Wide.ALL, b"SCRIPT": Wide.ALL,
} | dict.fromkeys(
    (b"TIME", b"HELLO", b"PING", b"CONFIG", b"ACL", b"CLIENT", b"COMMAND", b"DBSIZE", b"ROLE", b"LATENCY", b"SLOWLOG",
     b"CLUSTER", b"WAIT", b"WAITAOF"),
    Wide.HOME,
)  # fmt: skip
_SECOND: Final = frozenset({b"OBJECT", b"MEMORY", b"XINFO", b"XGROUP"})
_COUNTED: Final = frozenset({b"EVAL", b"EVALSHA", b"EVAL_RO", b"EVALSHA_RO", b"FCALL", b"FCALL_RO"})
_STREAMS: Final = frozenset({b"XREAD", b"XREADGROUP"})


def split(data: bytes, count: int, *, again: bool) -> tuple[Command, ...]:
    """The commands of a packed request; `again` tells that the same bytes may be sent many times."""
    if count == 1:
        words = _words(data, 0, _HEAD)[1]
        return (Command(data, _place(data, 0, words), words[0].upper()),)
    return _split_again(data) if again and len(data) > _CACHED_FROM else _split(data)


def _split(data: bytes) -> tuple[Command, ...]:
    found = []
    at = 0
    while at < len(data):
        end, words = _words(data, at)
        found.append(Command(data[at:end], _place(data, at, words), words[0].upper()))
        at = end
    return tuple(found)


_split_again = lru_cache(maxsize=256)(_split)


def _words(data: bytes, at: int, most: int | None = None) -> tuple[int, list[bytes]]:
    """The first words of a command, by default all, and where they end."""
    line = data.index(b"\r\n", at)
    found = []
    count, at = int(data[at + 1 : line]), line + 2
    for _ in range(count if most is None else min(count, most)):
        line = data.index(b"\r\n", at)
        start = line + 2
        at = start + int(data[at + 1 : line])
        found.append(data[start:at])
        at += 2
    return at, found


def words_of(command: Command) -> list[bytes]:
    """The words of a command."""
    return _words(command.data, 0)[1]


def _place(data: bytes, at: int, words: list[bytes]) -> int | Wide:
    """The slot of a command, or whom it is for. `words` are at least its first ones."""
    name = words[0].upper()
    if name in _WIDE:
        return _WIDE[name]
    if name in _COUNTED:
        return key_slot(words[3]) if len(words) > 3 and words[2] != b"0" else Wide.HOME
    if name in _STREAMS:
        words = _words(data, at)[1]
        return key_slot(words[[word.upper() for word in words].index(b"STREAMS") + 1])
    first = 2 if name in _SECOND else 1
    return key_slot(words[first]) if len(words) > first else Wide.HOME
