"""The keys of BullMQ and their states."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from qdeck._model.values import State
from qdeck._redis.commands import glob_of, raw_of, text_of
from qdeck._settings.model import AdapterSettings
from qdeck.adapters.model import Kind, Source

if TYPE_CHECKING:
    from collections.abc import Sequence

NAME: Final = "bullmq"
STATES: Final = {
    "active": (State.RUNNING, Kind.LIST), "wait": (State.READY, Kind.LIST), "paused": (State.READY, Kind.LIST),
    "prioritized": (State.READY, Kind.ZSET), "delayed": (State.DELAYED, Kind.ZSET),
    "waiting-children": (State.BLOCKED, Kind.ZSET), "failed": (State.DEAD, Kind.ZSET),
    "completed": (State.DONE, Kind.ZSET),
}  # fmt: skip
"""The state and the type of each key, by BullMQ's own name of the state, with which the key ends."""
TICKS: Final = 4096  # of a score of `delayed` in one ms
MAJORS: Final = (5, 6)  # versions whose keys are known
_MARKER: Final = b"0:"  # old versions put markers among the ids that wait
_META: Final = b":meta"


class BullMqSettings(AdapterSettings, frozen=True, kw_only=True):
    """`[adapters.bullmq]`."""

    prefix: str = "bull"
    """The option `prefix` of queues and workers."""


def base_of(prefix: str, queue: str) -> bytes:
    """Return the prefix of all keys of a queue."""
    return prefix.encode() + b":" + raw_of(queue) + b":"


def meta_glob(prefix: str) -> bytes:
    """Return the glob of the hashes that every queue has."""
    return glob_of(prefix.encode()) + b":*" + _META


def queue_of(prefix: str, meta: bytes) -> str | None:
    """Return the queue whose hash has this name."""
    start = prefix.encode() + b":"
    inside = meta.startswith(start) and meta.endswith(_META) and len(meta) > len(start) + len(_META)
    return text_of(meta[len(start) : -len(_META)]) if inside else None


def sources_of(base: bytes, states: Sequence[str]) -> list[Source]:
    """Return the keys that hold the jobs of these states; the next to be consumed first."""
    return [
        Source(key=base + native.encode(), kind=kind, state=state, native_state=native, down=kind is Kind.LIST)
        for native, (state, kind) in STATES.items()
        if state in states
    ]


def is_marker(member: bytes) -> bool:
    """Return whether an entry of a list is a marker."""
    return member.startswith(_MARKER)


def major_of(version: bytes | None) -> int | None:
    """Return the major version that wrote a queue; None for an unknown version."""
    found = re.match(rb"bullmq:([0-9]{1,3})\.", version or b"")
    major = int(found[1]) if found else None
    return major if major in MAJORS else None
