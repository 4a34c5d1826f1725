"""Steps on foreign data: what is checked, what is written, and what takes it back, as one value and one script call.

A step names every byte that it relies on. If one of them is different now, nothing happens and the step says which.
"""

from __future__ import annotations

import base64
import hashlib
from typing import TYPE_CHECKING, Final

import msgspec

from qdeck._engine import programs, scripts
from qdeck._errors import InvalidOption
from qdeck._redis import reads

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qdeck._engine.ops import Arg, Program
    from qdeck._engine.scripts import Script

KEEP_MS: Final = 24 * 3600 * 1000
CHUNK: Final = 50  # steps in one round trip: the server looks after its others between any two of them
_ALREADY: Final = -1
_OVERHEAD: Final = 40  # of a field of a hash, about


class Check(msgspec.Struct, frozen=True, array_like=True):
    """Something that must still hold. `expected` None is: it must not be there. `why` is told when it does not hold.

    Kinds: `score` of a member, `field` of a hash, `member` of a set, `entry` of a list, `type` of a key, `ttl` (b"-1"
    for none).
    """

    kind: str
    key: bytes
    member: bytes
    expected: bytes | None
    why: str


class Write(msgspec.Struct, frozen=True, array_like=True):
    """One command on one key."""

    command: str
    key: bytes
    args: tuple[bytes, ...] = ()


class Inverse(msgspec.Struct, frozen=True, array_like=True):
    """What takes a step back. `in_order` is after all others, and the first step of its batch first."""

    id: str
    checks: tuple[Check, ...]
    writes: tuple[Write, ...]
    in_order: bool = False


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One atomic, conditional change. `effect` says in words what it does, `warning` what the system may do to it.

    With `back_in_order` it is taken back after the steps before it: what goes back to the end of a line needs that.
    """

    id: str
    checks: tuple[Check, ...]
    writes: tuple[Write, ...]
    back_checks: tuple[Check, ...] = ()
    back_writes: tuple[Write, ...] = ()
    effect: str
    warning: str = ""
    back_in_order: bool = False

    @property
    def inverse(self) -> Inverse:
        """What takes it back."""
        name = self.id.encode("utf-8", "backslashreplace").decode()
        return Inverse(name, self.back_checks, self.back_writes, self.back_in_order)


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a step: `why` tells why it was left alone."""

    id: str
    done: bool
    why: str = ""


def undo_key(adapter: str, batch: str) -> bytes:
    """The hash that keeps what undoes a batch of a foreign adapter."""
    if not batch or not batch.isascii():
        raise InvalidOption(f"{batch!r} is no id of a batch", hint="pass one that an operation gave")
    return f"qdeck:undo:{adapter}:{batch}".encode()


def run(
    adapter: str,
    batch: str,
    steps: Sequence[Step],
    *,
    offset: int = 0,
    places: Sequence[int] = (),
    keep_ms: int = KEEP_MS,
    keeps: bool = True,
) -> Program[list[Outcome]]:
    """Does steps, each atomic by itself; its place in the batch, from `offset` on, makes one that is sent twice one.

    Without `keeps` only the places are kept, and the steps cannot be taken back.
    """
    undo = undo_key(adapter, batch)
    at_places = places or range(offset, offset + len(steps))
    found: list[Outcome] = []
    for at in range(0, len(steps), CHUNK):
        part = steps[at : at + CHUNK]
        calls = [
            _call(undo, "do", place, keep_ms, step.inverse if keeps else None, step.checks, step.writes)
            for place, step in zip(at_places[at : at + CHUNK], part, strict=True)
        ]
        answers = yield from programs.run_each(_script(), calls, undo)
        found += [_outcome(step.id, step.checks, answer) for step, answer in zip(part, answers, strict=True)]
    return found


def run_once(step: Step) -> Program[Outcome]:
    """Does one step that is not kept: nothing takes it back, and sent twice it meets its own change."""
    call = _call(b"qdeck:undo:none", "once", 0, 0, None, step.checks, step.writes)
    [answer] = yield from programs.run_each(_script(), [call])
    return _outcome(step.id, step.checks, answer)


def done_places(adapter: str, batch: str, places: Sequence[int]) -> Program[list[bool]]:
    """Which places of a batch were done already."""
    [kept] = yield reads.read((b"HMGET", undo_key(adapter, batch), *places))
    return [value is not None for value in reads.good(kept)]


def size_of(step: Step) -> int:
    """About how many bytes are kept to take it back."""
    return len(msgspec.msgpack.encode(step.inverse)) + _OVERHEAD


def undo(adapter: str, batch: str) -> Program[list[Outcome]]:
    """Takes a batch back, the last step first, unless they say otherwise.

    What has changed since is left alone, with the reason.
    """
    key = undo_key(adapter, batch)
    kept = yield from reads.scan_hash(key)
    numbers = sorted((int(place) for place in kept if place.isdigit()), reverse=True)
    in_order = [number for number in reversed(numbers) if _inverse(kept[b"%d" % number]).in_order]
    later = set(in_order)
    numbers = [*(number for number in numbers if number not in later), *in_order]
    found: list[Outcome] = []
    for at in range(0, len(numbers), CHUNK):
        part = numbers[at : at + CHUNK]
        inverses = [_inverse(kept[b"%d" % number]) for number in part]
        calls = [
            _call(key, "undo", number, 0, None, inverse.checks, inverse.writes)
            for number, inverse in zip(part, inverses, strict=True)
        ]
        answers = yield from programs.run_each(_script(), calls, key)
        found += [_outcome(inv.id, inv.checks, answer) for inv, answer in zip(inverses, answers, strict=True)]
    return found


def _inverse(kept: bytes) -> Inverse:
    if not kept:
        gone = Check("type", b"qdeck:undo:none", b"", b"none", "what takes it back was too much to be kept")
        return Inverse("", (gone,), ())
    return msgspec.msgpack.decode(kept, type=Inverse)


def _outcome(step_id: str, checks: Sequence[Check], answer: int) -> Outcome:
    if answer in (0, _ALREADY):
        return Outcome(id=step_id, done=True)
    if answer < _ALREADY:
        key = checks[_ALREADY - answer - 1].key.decode("utf-8", "backslashreplace")
        return Outcome(id=step_id, done=False, why=f"{key} is of another type than it should be")
    return Outcome(id=step_id, done=False, why=checks[answer - 1].why)


def _call(
    undo: bytes, mode: str, place: int, keep_ms: int, back: Inverse | None, checks: Sequence[Check],
    writes: Sequence[Write],
) -> tuple[Arg, ...]:  # fmt: skip
    keys = list(dict.fromkeys([*(check.key for check in checks), *(write.key for write in writes)]))
    at = {key: number for number, key in enumerate(keys, 1)}
    kept = b"" if back is None else msgspec.msgpack.encode(back)
    out: list[Arg] = [b"EVALSHA", _script().digest, len(keys) + 1, *keys, undo, mode, place, keep_ms, kept, len(checks)]
    for check in checks:
        expected = b"-" if check.expected is None else b"=" + check.expected
        out += (check.kind, at[check.key], check.member, expected)
    for write in writes:
        out += (len(write.args) + 2, write.command, at[write.key], *write.args)
    return tuple(out)


def _script() -> Script:
    return scripts.plain("adapters/step")


def short(raw: bytes) -> str:
    """A short name for bytes that are an entry without an id."""
    digest = hashlib.sha256(raw).digest()
    return base64.b32encode(digest[:10]).decode().lower()
