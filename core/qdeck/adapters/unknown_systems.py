"""Queue systems that no adapter reads, found by their keys, so that a server with their jobs does not look empty.

Keys with fixed names are read by their types. The rest is a search like that of the adapters, with one glob and type
each, which is continued at each refresh; names are then compared with the system's pattern.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from qdeck._model import payload
from qdeck._redis import reads
from qdeck._redis.commands import text_of
from qdeck._redis.errors import is_error
from qdeck._redis.keyspace_scan import KeySearch, sweep
from qdeck.adapters.discovery import Pass
from qdeck.adapters.model import FoundKeys

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qdeck._redis.commands import Command, Program
    from qdeck.adapters.discovery import Remembered

STREAMS: Final = "Redis Streams"
KNOWN_S: Final = 60  # for how long the result of a search beside queues is used
MOST_KEYS: Final = 50  # of one search, which are read
STREAM_GROUPS: Final = (b"XINFO", b"GROUPS")
_OWN_STREAMS: Final = b":notifications:"  # of qdeck.messages
_FIXED: Final = (
    ("Resque", b"resque:queues", "set"), ("Resque", b"resque:workers", "set"), ("Resque", b"resque:failed", "list"),
    ("arq", b"arq:queue", "zset"), ("arq", b"arq:queue:health-check", "string"),
    ("dramatiq", b"dramatiq:__heartbeats__", "zset"), ("dramatiq", b"dramatiq:default.msgs", "hash"),
    ("asynq", b"asynq:queues", "set"), ("asynq", b"asynq:servers", "zset"),
    ("taskiq", b"taskiq", "list"), ("taskiq", b"taskiq", "stream"),
)  # fmt: skip
"""System, key and type, under the default prefix of each system."""
ACL_KEYS: Final = ("resque:*", "arq:*", "dramatiq:*", "asynq:*", "taskiq", "huey.*", "saq:*", "*queues:*")
"""What a role has to read so that these systems are found; without it each look is a denial in the server's log."""


class _Search(NamedTuple):
    system: str
    glob: bytes
    kind: str | None
    pattern: re.Pattern[bytes]


_SEARCHES: Final = (
    _Search("huey", b"huey.*", None, re.compile(rb"huey\.(redis|schedule|results)\..")),
    _Search("SAQ", b"saq:*:incomplete", "zset", re.compile(rb"")),
    _Search("SAQ", b"saq:job:*", "string", re.compile(rb"")),
    _Search("Laravel", b"*queues:*", "zset", re.compile(rb"(?:^|[_:-])queues:.+:(?:reserved|delayed)$")),
    _Search("Laravel", b"*queues:*", "list", re.compile(rb"(?:^|database[_-])queues:[^:]+$")),
    _Search("Bull 3 or 4", b"bull:*:id", "string", re.compile(rb"")),
    _Search(STREAMS, b"*", "stream", re.compile(rb"")),
)


class UnknownSystem(NamedTuple):
    """A system that no adapter reads, and one of its keys."""

    name: str
    key: str

    @property
    def is_stream(self) -> bool:
        """Whether all that is known is a consumer group."""
        return self.name == STREAMS


def find(remembered: Remembered, *, with_streams: bool) -> Program[tuple[UnknownSystem, ...]]:
    """Return the systems of which keys were found, with an example each; what may not be read is left out.

    `with_streams` reads the consumer groups of streams, which few roles may.
    """
    wanted = [one for one in _SEARCHES if with_streams or one.system != STREAMS]
    types = yield from reads.try_all([(b"TYPE", key) for _, key, _ in _FIXED])
    found: dict[str, bytes] = {}
    for (system, key, kind), reply in zip(_FIXED, types, strict=True):
        if not is_error(reply) and reply.decode() == kind:
            found.setdefault(system, key)
    passes = [remembered.passes.setdefault(f"unknown {one.system} {one.glob.decode()} {one.kind}", Pass())
              for one in wanted]  # fmt: skip
    searches = [_key_search(one, position) for one, position in zip(wanted, passes, strict=True)]
    yield from sweep(searches, is_first=False)
    for one, position in zip(wanted, passes, strict=True):
        if one.system in found:
            continue
        names = [name for group in position.groups().values() for name in group.names][:MOST_KEYS]
        example = yield from _first(STREAM_GROUPS if one.system == STREAMS else (b"EXISTS",), names)
        if example is not None and example not in found.values():
            found[one.system] = example
    return tuple(UnknownSystem(name, payload.mask_label(text_of(key))) for name, key in found.items())


def _key_search(one: _Search, position: Pass) -> KeySearch:
    def take(names: Sequence[bytes]) -> None:
        for name in names:
            if one.pattern.search(name) and _OWN_STREAMS not in name:
                position.next.setdefault(one.system, FoundKeys(names=[])).add(name)

    return KeySearch(position, one.glob, one.kind, take)


def _first(command: Command, names: Sequence[bytes]) -> Program[bytes | None]:
    """Return the first of these keys for which a command has an answer: a scan may have found one that is gone."""
    replies = yield from reads.try_all([(*command, name) for name in names])
    return next((name for name, reply in zip(names, replies, strict=True) if not is_error(reply) and reply), None)
