"""Plans as files on the operator's side: lines of JSON, written and read as a stream, so that a plan may be any size.

The first line is the head, the last the tail with the sums; between them an entry a line. Whoever has the file can
apply it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, Self

import msgspec
import platformdirs

from qdeck._errors import UsageError
from qdeck._files import private_folder, state_dir
from qdeck._operations.model import PLAN_FORMAT, PlanEntry, PlanHead, PlanTail, Verb

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from io import FileIO
    from types import TracebackType

_BUFFER: Final = 1 << 18
_CHUNK: Final = 1 << 20
_ID: Final = re.compile(r"[A-Za-z0-9._:-]{1,128}")
_KEEP_S: Final = 7 * 86400.0  # plans older than that are removed when a new one is made
_encoder: Final = msgspec.json.Encoder()
_entries: Final = msgspec.json.Decoder(PlanEntry)


class _Head(msgspec.Struct):
    head: PlanHead


class _Tail(msgspec.Struct):
    tail: PlanTail


def plans_dir() -> Path:
    """Where plans go unless a path is named."""
    return private_folder(state_dir() / "plans")


@dataclass(frozen=True, slots=True)
class Plan:
    """The exact outcome of a dry run. Its entries are read from the file each time they are asked for."""

    path: Path
    head: PlanHead
    tail: PlanTail

    @property
    def id(self) -> str:
        """Its id, which fixes that of its batch."""
        return self.head.plan

    @property
    def verb(self) -> Verb:
        """What it does."""
        return Verb(self.head.verb)

    @property
    def count(self) -> int:
        """How many entries it has."""
        return self.tail.count

    @property
    def batch(self) -> str:
        """The id of the batch that it becomes: applied twice, by whomever, it is done once."""
        return f"b-{self.head.plan}"

    @property
    def goes_abroad(self) -> bool:
        """Whether it takes something of other layouts, rather than having looked there in vain."""
        return any(self.tail.by_queue.get(queue) for _, queue in self.head.abroad)

    def entries(self) -> Iterator[PlanEntry]:
        """The entries, as they are read."""
        with self.path.open("rb", buffering=_BUFFER) as file:
            file.readline()
            left = self.tail.count
            decode = _entries.decode
            for line in file:
                if left == 0:
                    return
                left -= 1
                yield decode(line)
        if left:
            raise UsageError(f"the plan {self.path} was cut: {left:,} entries are missing", hint="make a new plan")


class PlanWriter:
    """Writes a plan entry by entry. The file gets its name when it is complete."""

    def __init__(self, head: PlanHead, path: Path | None = None) -> None:
        self.path = path or plans_dir() / f"{head.plan}.jsonl"
        self.head = head
        self.count = 0
        self._draft = self.path.with_name(f".{self.path.name}.{os.getpid()}.draft")
        self._buffer = bytearray()
        self._hash = hashlib.sha256()
        self._file: BinaryIO | None = None

    def __enter__(self) -> Self:
        if self.path.parent == platformdirs.user_state_path("qdeck") / "plans":
            _forget_old(self.path.parent)
        handle = os.open(self._draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        self._file = os.fdopen(handle, "wb", buffering=0)
        first = _encoder.encode(_Head(self.head)) + b"\n"
        self._hash.update(first)
        self._buffer += first
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
        if kind is not None:
            self._draft.unlink(missing_ok=True)

    def add(self, entries: Iterable[PlanEntry]) -> None:
        """Writes entries."""
        lines = [_encoder.encode(entry) for entry in entries]
        if not lines:
            return
        self.count += len(lines)
        text = b"\n".join(lines) + b"\n"
        self._hash.update(text)
        self._buffer += text
        if len(self._buffer) >= _BUFFER:
            self._flush()

    def finish(self, tail: PlanTail) -> Plan:
        """Writes the sums and gives the file its name."""
        tail = msgspec.structs.replace(tail, count=self.count, digest=self._hash.hexdigest())
        self._buffer += _encoder.encode(_Tail(tail)) + b"\n"
        self._flush()
        assert self._file is not None  # noqa: S101 - it is open until the end of `with`
        self._file.close()
        self._file = None
        self._draft.replace(self.path)
        return Plan(self.path, self.head, tail)

    def _flush(self) -> None:
        assert self._file is not None  # noqa: S101 - it is open until the end of `with`
        self._file.write(self._buffer)
        self._buffer.clear()


def _forget_old(folder: Path) -> None:
    before = time.time() - _KEEP_S
    for path in folder.glob("*.jsonl"):
        with contextlib.suppress(OSError):
            if path.stat().st_mtime < before:
                path.unlink()


def load_plan(ref: str | Path) -> Plan:
    """The plan of that id, or in that file; raises for one that is not whole."""
    path = _find(ref)
    try:
        with path.open("rb") as file:
            first, last = file.readline(), _last_line(file)
    except OSError as error:
        raise UsageError(f"the plan {path} cannot be read: {error.strerror}") from error
    try:
        head = msgspec.json.decode(first, type=_Head).head
        if head.format > PLAN_FORMAT:
            raise UsageError(f"the plan {path} has format {head.format}", hint="upgrade this qdeck")
        Verb(head.verb)
        tail = msgspec.json.decode(last, type=_Tail).tail
    except UsageError:
        raise
    except (msgspec.MsgspecError, ValueError) as error:
        raise UsageError(f"{path} is no complete plan: {error}", hint="make a new plan") from error
    return Plan(path, head, tail)


def _find(ref: str | Path) -> Path:
    path = Path(ref)
    if isinstance(ref, Path) or path.exists() or os.sep in ref:
        return path
    if not _ID.fullmatch(ref):
        raise UsageError(f"{ref!r} is no plan", hint="give the id of a plan, or the path of its file")
    path = plans_dir() / f"{ref}.jsonl"
    if not path.exists():
        raise UsageError(
            f"there is no plan {ref!r}", hint=f"plans are in {path.parent}; one of another machine: its file"
        )
    return path


def _last_line(file: BinaryIO | FileIO) -> bytes:
    size = file.seek(0, os.SEEK_END)
    step = 65536
    while True:
        file.seek(max(0, size - step))
        tail = file.read().rstrip(b"\n")
        cut = tail.rfind(b"\n")
        if cut >= 0 or step >= size:
            return tail[cut + 1 :]
        step *= 4


def check_whole(plan: Plan) -> None:
    """Raises when the head and the entries of a plan are not those that it was finished with."""
    digest, lines = hashlib.sha256(), 0
    try:
        with plan.path.open("rb", buffering=0) as file:
            left = file.seek(0, os.SEEK_END) - len(_last_line(file)) - 1
            file.seek(0)
            while left > 0 and (part := file.read(min(left, _CHUNK))):
                left -= len(part)
                lines += part.count(b"\n")
                digest.update(part)
    except OSError as error:
        raise UsageError(f"the plan {plan.path} cannot be read: {error.strerror}") from error
    if left or lines != plan.tail.count + 1 or digest.hexdigest() != plan.tail.digest:
        raise UsageError(f"the plan {plan.path} was changed since it was made", hint="make a new plan")
