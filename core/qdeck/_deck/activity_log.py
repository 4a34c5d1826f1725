"""The log of operations: a bounded stream on the server for everybody, and a file of this machine."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from qdeck._deck import queue_settings
from qdeck._engine import keys
from qdeck._files import state_dir
from qdeck._redis import reads
from qdeck._redis.commands import ask

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from qdeck._redis.commands import Program

T = TypeVar("T")
KEEP: Final = 10_000  # entries on the server, about
MOST_FILE_BYTES: Final = 8 * 1024 * 1024  # then the file is put aside, once


def write(entry: Mapping[str, Any], *, in_file: bool = True) -> Program[None]:
    """Write an entry to the server and to the file; an error of one of them stops no operation."""
    text = msgspec.json.encode(entry)
    if in_file:
        with contextlib.suppress(OSError):
            append(text)
    # What the server refuses stops nothing; where it was away, the caller may write it again.
    yield ask((b"XADD", keys.ACTIVITY, b"MAXLEN", b"~", KEEP, b"*", b"e", text))


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
    detail: str = "",
    unless: Callable[[T], bool] = lambda _: False,
) -> Program[T]:
    """Run a program and log what it did; log nothing where it changed nothing, and `unless` says so."""
    done = yield from program
    if not unless(done):
        who, _, host = queue_settings.actor().rpartition("@")
        at_ms = yield from reads.clock()
        entry: dict[str, Any] = {"at_ms": at_ms, "who": who, "host": host, "verb": verb, "queues": list(queues)}
        yield from write(entry | {"detail": detail, "outcome": "done"})
    return done


def logged_schedule(program: Program[T], verb: str, name: str) -> Program[T]:
    """Run a change of a schedule and log it."""
    return logged(program, verb, detail=f"schedule {name}", unless=lambda done: done in (False, "same"))
