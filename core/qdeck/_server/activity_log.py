"""The log of operations: a bounded stream on the server for all operators, and a file of this machine."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from qdeck._engine import keys
from qdeck._model.masking import mask_text
from qdeck._private_files import state_dir
from qdeck._redis import reads
from qdeck._redis.commands import with_errors
from qdeck._redis.errors import good
from qdeck._server import queue_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from qdeck._redis.commands import Command, Program

T = TypeVar("T")
KEEP: Final = 10_000  # entries on the server, about
_BEFORE_WORDS: Final = ": "  # a name has no blank
MOST_FILE_BYTES: Final = 8 * 1024 * 1024  # then the file is put aside, once


def write(entry: Mapping[str, Any], *, in_file: bool = True, then: Sequence[Command] = ()) -> Program[None]:
    """Write an entry to the server and to the file; an error of one of them stops no operation.

    Commands of `then` go in the same round trip: a process that is killed sends all of them or none.
    """
    text = msgspec.json.encode(entry)
    if in_file:
        with contextlib.suppress(OSError):
            append(text)
    # A refusal of the server stops nothing; after a lost connection the caller may write it again.
    _, *replies = yield with_errors((b"XADD", keys.ACTIVITY, b"MAXLEN", b"~", KEEP, b"*", b"e", text), *then)
    for reply in replies:
        good(reply)


def append(line: bytes) -> None:
    """Add a line to the file of this machine, which no other user may read."""
    path = state_dir() / "activity.jsonl"
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
    with os.fdopen(handle, "ab", buffering=0) as file:
        file.write(line + b"\n")
        if file.tell() > MOST_FILE_BYTES:
            path.replace(path.with_suffix(".1.jsonl"))


def logged(
    program: Program[T],
    verb: str,
    *,
    queues: Sequence[str] = (),
    detail: str | Callable[[T], str] = "",
    reason: str = "",
    unless: Callable[[T], bool] = lambda _: False,
) -> Program[T]:
    """Run a program and log what it did; log nothing when `unless` returns True, because nothing was changed."""
    done = yield from program
    if not unless(done):
        who, _, host = queue_settings.actor().rpartition("@")
        at_ms = yield from reads.clock()
        entry: dict[str, Any] = {"at_ms": at_ms, "who": who, "host": host, "verb": verb, "queues": list(queues)}
        what = detail if isinstance(detail, str) else detail(done)
        yield from write(entry | {"detail": mask_text(what), "outcome": "done", "reason": mask_text(reason)})
    return done


def schedule(name: str, words: str = "") -> str:
    """Return how entries name a schedule, with what was changed."""
    return f"schedule {name}{f'{_BEFORE_WORDS}{words}' if words else ''}"


def named(detail: str) -> str:
    """Return the schedule or worker of an entry, without what was changed."""
    return detail.partition(_BEFORE_WORDS)[0]


def worker(name: str) -> str:
    """Return how entries name a worker."""
    return f"worker {name}"
