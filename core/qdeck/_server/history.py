"""History of queues, as agents sample it: packed into a few strings per queue that expire by themselves.

A sample that equals the one before is left out, so an idle queue takes next to no memory; equal totals mean that
nothing happened, and reading fills the gap. A sample is identified by its moment: written twice, or by two agents, it
is one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple

from qdeck._engine.stored_numbers import MAX_NUMBER, digits
from qdeck._redis import reads
from qdeck._redis.commands import with_errors
from qdeck._redis.errors import is_error

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from qdeck._redis.commands import Program

# hash: queue → its last two samples, each as `ms came went died`; "" → ms of the last
LATEST: Final = "qdeck:history"
_LEAVING: Final = ("done", "dead", "cancelled", "expired")


class Flow(NamedTuple):
    """How many jobs came to, left and died in a queue since it was created."""

    came: int
    went: int
    died: int

    @classmethod
    def of(cls, totals: Mapping[str, int]) -> Flow:
        """Return the flow of a queue with these totals."""
        return cls(totals["enqueued"], sum(totals[name] for name in _LEAVING), totals["dead"])


class Tier(NamedTuple):
    """How dense samples are and how long they are kept; a chunk is one string of them."""

    name: str
    step_ms: int
    chunk_ms: int
    keep_ms: int


FINE: Final = Tier("s", 10_000, 1_800_000, 3_600_000)
COARSE: Final = Tier("m", 60_000, 21_600_000, 86_400_000)
MOST_CHUNKS: Final = 200  # of a few KB each, in one round trip
LONGEST_MS: Final = 31 * 86_400_000
_FIELDS: Final = 6
_LEAST_MS: Final = 4_000  # between a sample and now: rates over a shorter time jump
_WIDEST: Final = 63  # bits of a number; qdeck never writes more


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A queue at one moment: how many jobs waited and were dead, and the totals since it was created."""

    at_ms: int
    ready: int
    dead: int
    enqueued: int
    done: int
    failed: int

    def same(self, other: Sample) -> bool:
        """Return whether nothing happened between the two."""
        return self._read_counts() == other._read_counts()

    def _read_counts(self) -> tuple[int, ...]:
        return (self.ready, self.dead, self.enqueued, self.done, self.failed)


def chunk_key(queue: str, tier: Tier, number: int) -> bytes:
    """Return the key of one string of samples."""
    return f"{{{queue}}}:history:{tier.name}{number}".encode()


def pack(sample: Sample, tier: Tier) -> bytes:
    """Return a sample as it is appended: the count of numbers, then the numbers, seven bits a byte."""
    out = bytearray([_FIELDS])
    for number in (sample.at_ms % tier.chunk_ms // tier.step_ms, *sample._read_counts()):
        left = max(0, number)
        while left > 127:
            out.append(left & 127 | 128)
            left >>= 7
        out.append(left)
    return bytes(out)


def unpack(raw: bytes, tier: Tier, number: int) -> list[Sample]:
    """Return the samples of a chunk; skip what a newer qdeck added and a torn end."""
    found: list[Sample] = []
    at = 0
    while at < len(raw):
        count, at = raw[at], at + 1
        numbers = []
        for _ in range(count):
            value, at = _varint(raw, at)
            numbers.append(value)
        if at > len(raw) or len(numbers) < _FIELDS:
            break
        slot, ready, dead, enqueued, done, failed = numbers[:_FIELDS]
        at_ms = number * tier.chunk_ms + slot * tier.step_ms
        found.append(Sample(at_ms=at_ms, ready=ready, dead=dead, enqueued=enqueued, done=done, failed=failed))
    return found


def _varint(raw: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(raw):
        byte = raw[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return min(value, MAX_NUMBER), at
        if (shift := shift + 7) > _WIDEST:
            break
    return value, at + 1  # beyond the end: torn


def read_history(queues: Sequence[str], *, seconds: float = COARSE.keep_ms / 1000) -> Program[dict[str, list[Sample]]]:
    """Return the samples of queues, oldest first: every 10s of the last hour, every minute of the day before it.

    Moments at which no agent ran are missing. A queue without an agent has none.
    """
    now = yield from reads.clock()
    since = now - min(round(seconds * 1000), LONGEST_MS)
    border = max(since, now - FINE.keep_ms)
    [last] = yield with_errors((b"HGET", LATEST, ""))
    last_ms = (digits(last) if isinstance(last, bytes) else None) or 0
    found = yield from _tier(queues, FINE, border, now, last_ms)
    if since >= border:
        return found
    coarse = yield from _tier(queues, COARSE, since, now, last_ms)
    for queue, samples in found.items():
        first = samples[0].at_ms if samples else now
        found[queue] = [*(sample for sample in coarse[queue] if sample.at_ms < first), *samples]
    return found


def _tier(queues: Sequence[str], tier: Tier, since: int, now: int, last_ms: int) -> Program[dict[str, list[Sample]]]:
    # One chunk more: what holds at `since` may have been written before it.
    numbers = range(since // tier.chunk_ms - 1, now // tier.chunk_ms + 1)
    found: dict[str, list[Sample]] = {}
    step = max(1, MOST_CHUNKS // len(numbers))
    for at in range(0, len(queues), step):
        part = queues[at : at + step]
        calls = [(b"GET", chunk_key(queue, tier, number)) for queue in part for number in numbers]
        replies = iter((yield from reads.try_all(calls)))
        for queue in part:
            # A chunk that is not a string is left out, as if it did not exist.
            raws = [reply if isinstance(reply := next(replies), bytes) else b"" for _ in numbers]
            taken = [sample for number, raw in zip(numbers, raws, strict=True) for sample in unpack(raw, tier, number)]
            found[queue] = [sample for sample in _whole(taken, tier, last_ms) if since <= sample.at_ms <= now]
    return found


def _whole(taken: Sequence[Sample], tier: Tier, last_ms: int) -> Iterable[Sample]:
    by_moment = {sample.at_ms: sample for sample in taken}
    ordered = [by_moment[at] for at in sorted(by_moment)]
    if ordered and last_ms > ordered[-1].at_ms:
        # Nothing was written since: nothing happened until the agents' last sample.
        ordered.append(replace(ordered[-1], at_ms=last_ms - last_ms % tier.step_ms))
    return _filled(ordered, tier)


def _filled(samples: Sequence[Sample], tier: Tier) -> Iterable[Sample]:
    before: Sample | None = None
    for sample in samples:
        if before is not None and before.same(sample):
            for at_ms in range(before.at_ms + tier.step_ms, sample.at_ms, tier.step_ms):
                yield replace(before, at_ms=at_ms)
            if sample.at_ms <= before.at_ms:
                continue
        yield sample
        before = sample


def read_flow(names: Sequence[str], now: int) -> Program[tuple[int, dict[str, Flow]] | None]:
    """Return the flow of each queue until some seconds ago, for the first refresh of a reader.

    None without a sample of the last minute, or without the right to read it.
    """
    [last] = yield with_errors((b"HGET", LATEST, ""))
    last_ms = None if is_error(last) else digits(last or b"")
    if last_ms is None or not 0 <= now - last_ms < 60_000:
        return None
    moments: dict[int, dict[str, Flow]] = {}
    for at in range(0, len(names), reads.CHUNK):
        part = names[at : at + reads.CHUNK]
        [replies] = yield with_errors((b"HMGET", LATEST, *part))
        if is_error(replies):
            return None
        for name, raw in zip(part, replies, strict=True):
            for moment, flow in read_latest(raw):
                moments.setdefault(moment, {})[name] = flow
    old = [moment for moment in moments if _LEAST_MS <= now - moment < 60_000]
    return (max(old), moments[max(old)]) if old else None


def read_latest(raw: bytes | None) -> list[tuple[int, Flow]]:
    """Return the moments of a queue's last samples, with its flow until then."""
    words = (raw or b"").split()
    found = [number for word in words if (number := digits(word)) is not None]
    if len(words) % 4 or len(found) != len(words):
        return []
    return [(found[at], Flow(*found[at + 1 : at + 4])) for at in range(0, len(found), 4)]


def of_totals(at_ms: int, ready: int, dead: int, totals: Mapping[str, int]) -> Sample:
    """Return a sample of a queue from its numbers."""
    return Sample(
        at_ms=at_ms, ready=ready, dead=dead, enqueued=totals["enqueued"], done=totals["done"], failed=totals["failed"]
    )
