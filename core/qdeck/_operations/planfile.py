"""Plans as files on the operator's side: lines of JSON, written and read as a stream, so that a plan may be any size.

The first line is the head, the last the tail with the sums; between them an entry a line. Every operator who has
the file can apply it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, Self

import msgspec
import platformdirs

from qdeck._engine.batch_transitions import MAX_UNDO_BYTES
from qdeck._errors import UsageError
from qdeck._formatting import counted, duration
from qdeck._model.queue_ref import Feature, has_feature
from qdeck._model.values import NO_STATE, QueueRef, State
from qdeck._model.words import Verb
from qdeck._operations.model import PLAN_FORMAT, PLAN_MOST_LIFE_MS, PLANNED, PlanHead, PlanTail, nouns_of
from qdeck._private_files import draft_beside, give_name, private_folder, state_dir
from qdeck.adapters.native import VERBS
from qdeck.adapters.plans import PlanEntry

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from io import FileIO
    from types import TracebackType

_BUFFER: Final = 1 << 18
_CHUNK: Final = 1 << 20
_ID: Final = re.compile(r"[A-Za-z0-9._:-]{1,128}")
_KEEP_S: Final = 7 * 86400.0  # plans older than this are removed when a new one is made
_PURGES: Final = (Verb.BURY, Verb.CANCEL, Verb.REQUEUE, Verb.DISCARD)
_PURGES_ELSEWHERE: Final = (*_PURGES, Verb.RETRY, Verb.RUN, Verb.COMPLETE, "expire")  # of other adapters
_Kind = tuple[str, str, str, str]  # queue, state, verb, adapter
_encoder: Final = msgspec.json.Encoder()
_entries: Final = msgspec.json.Decoder(PlanEntry)


class _Format(msgspec.Struct):
    format: int = 1  # that of plans that do not name it


class _Made(msgspec.Struct):
    head: _Format


class _Head(msgspec.Struct):
    head: PlanHead


class _Tail(msgspec.Struct):
    tail: PlanTail


def plans_dir() -> Path:
    """Return where plans go unless a path is named."""
    return private_folder(state_dir() / "plans")


@dataclass(frozen=True, slots=True)
class Plan:
    """The exact result of a dry run. Its entries are read from the file each time."""

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
        """The id of its batch."""
        return self.head.batch

    @property
    def by_queue(self) -> dict[QueueRef, int]:
        """How many entries it has of each queue."""
        return {QueueRef.parse(text): count for text, count in self.tail.by_queue.items()}

    @property
    def adapters(self) -> list[str]:
        """The adapters that have entries in it, and not all that were searched."""
        return sorted({ref.adapter for ref, count in self.by_queue.items() if count})

    @property
    def undo_limit(self) -> str:
        """How many entries can be undone, in words, where undo cannot keep all of them."""
        if self.tail.undoable is None:
            return ""
        count = f"about {self.tail.undoable:,}" if self.tail.undoable else "none"
        things = f"{count} of {counted(self.count, *nouns_of(self.head.verb))}"
        return f"{things} can be undone: undo keeps {MAX_UNDO_BYTES >> 20} MiB at most"

    def label(self, queue: QueueRef) -> str:
        """Return how a queue of it is shown."""
        return queue.label(self.head.shared)

    def entries(self) -> Iterator[PlanEntry]:
        """Yield the entries, as they are read."""
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
            raise UsageError(
                f"the plan {self.path} is cut short: {left:,} entries are missing", hint="Make a new plan."
            )


class PlanWriter:
    """A plan that is written entry by entry. The file gets its name when it is complete, and replaces no other file.

    With `replaces` it replaces an earlier form of the same plan.
    """

    def __init__(self, head: PlanHead, path: Path | None = None, *, replaces: bool = False) -> None:
        self.path = path or plans_dir() / f"{head.plan}.jsonl"
        self.head = head
        self.count = 0
        self._replaces = replaces
        self._buffer = bytearray()
        self._hash = hashlib.sha256()
        self._draft: Path | None = None
        self._file: BinaryIO | None = None

    def __enter__(self) -> Self:
        if self.path.parent == platformdirs.user_state_path("qdeck") / "plans":
            _forget_old(self.path.parent)
        if not self._replaces and os.path.lexists(self.path):
            raise self._taken()
        try:
            self._draft, self._file = draft_beside(self.path, buffering=0)
        except OSError as error:
            raise UsageError(f"the plan {self.path} cannot be written: {error.strerror}") from error
        first = _encoder.encode(_Head(self.head)) + b"\n"
        self._hash.update(first)
        self._buffer += first
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
        if self._draft is not None:
            self._draft.unlink(missing_ok=True)

    def _taken(self) -> UsageError:
        return UsageError(f"{self.path} already exists: no plan was written", hint="Name another file for the plan.")

    def add(self, entries: Iterable[PlanEntry]) -> None:
        """Write entries."""
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
        """Write the sums and give the file its name."""
        tail = msgspec.structs.replace(tail, count=self.count, digest=self._hash.hexdigest())
        self._buffer += _encoder.encode(_Tail(tail)) + b"\n"
        self._flush()
        assert self._file is not None  # noqa: S101 - it is open until the end of `with`
        self._file.close()
        self._file = None
        assert self._draft is not None  # noqa: S101 - as the file
        if self._replaces:
            self._draft.replace(self.path)
        else:
            try:
                give_name(self._draft, self.path)
            except FileExistsError as error:
                raise self._taken() from error
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
    """Return the plan of that id, or in that file; raise for one that is not complete."""
    path = _find(ref)
    try:
        with path.open("rb") as file:
            first, last = file.readline(), _last_line(file)
    except OSError as error:
        raise UsageError(f"the plan {path} cannot be read: {error.strerror}") from error
    try:
        made = msgspec.json.decode(first, type=_Made).head.format
        if made != PLAN_FORMAT:
            told = f"the plan {path} has format {made}; this qdeck reads format {PLAN_FORMAT}"
            raise UsageError(told, hint="Upgrade this qdeck." if made > PLAN_FORMAT else "Make a new plan.")
        head = msgspec.json.decode(first, type=_Head).head
        tail = msgspec.json.decode(last, type=_Tail).tail
    except UsageError:
        raise
    except (msgspec.MsgspecError, ValueError) as error:
        raise UsageError(f"{path} is not a complete plan: {error}", hint="Make a new plan.") from error
    plan = Plan(path, head, tail)
    _check_head(plan)
    return plan


def own_plan(batch: str) -> Plan:
    """Return the plan that a batch is of, if it was made on this machine. The server names it: it leads to no other
    file.
    """
    name = batch.removeprefix("b-")
    if not _ID.fullmatch(name):
        raise UsageError(f"there is no plan {name!r}")
    return load_plan(plans_dir() / f"{name}.jsonl")


def _check_head(plan: Plan) -> None:
    head = plan.head
    life = head.expires_ms - head.created_ms
    if not _ID.fullmatch(head.plan):
        raise _changed(plan, f"the id {head.plan!r} is not that of a plan")
    if head.verb not in PLANNED:
        raise _changed(plan, f"{head.verb!r} is not the verb of a plan")
    if life < 0:
        raise _changed(plan, "it expires before it was made")
    if life > PLAN_MOST_LIFE_MS:
        raise _changed(plan, f"it is valid for {duration(life)}")


def _changed(plan: Plan, why: str) -> UsageError:
    return UsageError(f"the plan {plan.path} was changed since it was made: {why}", hint="Make a new plan.")


def _find(ref: str | Path) -> Path:
    path = Path(ref)
    if isinstance(ref, Path) or os.sep in ref:
        return path
    # A file of that name in the current directory may be another user's: plans of this user go first.
    known = plans_dir() / f"{ref}.jsonl" if _ID.fullmatch(ref) else None
    if known is not None and known.exists():
        return known
    if path.exists():
        return path
    if known is None:
        raise UsageError(f"{ref!r} is not a plan", hint="Give the id of a plan, or the path of its file.")
    raise UsageError(
        f"there is no plan {ref!r}", hint=f"Look in {known.parent}; for a plan of another machine, give its file."
    )


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
    """Raise, with the reason, when the plan was changed after it was finished, or has an impossible entry.

    A changed file may have a matching checksum, so the entries are checked as well.
    """
    digest, entries = hashlib.sha256(), 0
    kinds: Counter[_Kind] = Counter()
    wrong = ""
    try:
        with plan.path.open("rb", buffering=_CHUNK) as file:
            left = file.seek(0, os.SEEK_END) - len(_last_line(file)) - 1
            file.seek(0)
            first = file.readline()
            left -= len(first)
            digest.update(first)
            while left > 0 and (lines := file.readlines(min(left, _CHUNK) - 1)):  # those that exceed it are the last
                part = b"".join(lines)
                left -= len(part)
                digest.update(part)
                wrong = wrong or _count_kinds(plan.verb, lines, entries, kinds)
                entries += len(lines)
    except OSError as error:
        raise UsageError(f"the plan {plan.path} cannot be read: {error.strerror}") from error
    if entries != plan.tail.count:
        raise _changed(plan, f"it has {entries:,} entries, and its last line says {plan.tail.count:,}")
    if left or digest.hexdigest() != plan.tail.digest:
        raise _changed(plan, "its first line or its entries do not match the checksum in its last line")
    if wrong:
        raise _changed(plan, wrong)
    by_queue: Counter[str] = Counter()
    states: Counter[str] = Counter()
    for (queue, state, _, adapter), count in kinds.items():
        by_queue[str(QueueRef(adapter, queue))] += count
        states[state] += count
    if by_queue != Counter(plan.tail.by_queue) or states != Counter(plan.tail.states):
        raise _changed(plan, "its last line and its entries have different numbers of jobs")


def _count_kinds(verb: Verb, lines: list[bytes], before: int, kinds: Counter[_Kind]) -> str:
    """Count entries by what is done to them; return why the first wrong one cannot be in a plan."""
    try:
        found = [(one.queue, one.state, one.verb, one.adapter) for one in map(_entries.decode, lines)]
    except (msgspec.MsgspecError, ValueError):
        at = next(at for at, line in enumerate(lines, before + 1) if not _is_entry(line))
        return f"entry {at:,} is not an entry of a plan"
    new = [kind for kind in dict.fromkeys(found) if kind not in kinds]
    kinds.update(found)
    for kind in new:
        why = _why_not(verb, *kind[1:])
        if why:
            return f"entry {before + found.index(kind) + 1:,}: {why}"
    return ""


def _is_entry(line: bytes) -> bool:
    try:
        _entries.decode(line)
    except (msgspec.MsgspecError, ValueError):
        return False
    return True


def _why_not(verb: Verb, state: str, act: str, adapter: str) -> str:
    of_purge = _PURGES if has_feature(adapter, Feature.PURGE) else _PURGES_ELSEWHERE
    if act not in (of_purge if verb is Verb.PURGE else (verb,)):
        return f"the verb {act!r} is not that of a plan to {verb.value}"
    states = (*State, NO_STATE) if verb is Verb.PURGE else VERBS.get(verb, ())
    if has_feature(adapter, Feature.STATES) and state not in states:
        return f"{verb.value} does not apply to a job that is {state}"
    return ""
