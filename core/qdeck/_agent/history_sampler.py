"""Writes the samples that `_server/history.py` reads: only changes, in strings that expire by themselves."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from qdeck._engine.stored_numbers import digits
from qdeck._redis import reads
from qdeck._redis.commands import with_errors
from qdeck._server import history
from qdeck._server.history import COARSE, FINE, LATEST, Sample, Tier

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qdeck._model.values import QueueRow
    from qdeck._redis.commands import Command, Program

SLICE: Final = 500  # writes in one round trip
LATEST_TTL_S: Final = 86_400


@dataclass(slots=True)
class _LastSample:
    """The last sample of a queue that this agent wrote, and the one it left out since."""

    chunk: int
    written: Sample
    left_out: Sample | None = None


@dataclass(slots=True)
class HistorySampler:
    """What one agent keeps between its samples; a new agent writes everything once."""

    keep_ms: int = COARSE.keep_ms
    unread: list[str] = field(default_factory=list)  # queues that failed at the last sample, with the error
    tracks: dict[Tier, dict[str, _LastSample]] = field(default_factory=lambda: {FINE: {}, COARSE: {}})

    def take(self, rows: Sequence[QueueRow], at_ms: int) -> Program[int]:
        """Write one sample of each queue; return the number of appends."""
        usable = [row for row in rows if row.problem is None and row.totals]
        [last] = yield with_errors((b"HGET", LATEST, ""))
        new_minute = (
            (digits(last) if isinstance(last, bytes) else None) or 0
        ) // COARSE.step_ms != at_ms // COARSE.step_ms
        calls: list[Command] = []
        for tier in (FINE, COARSE) if new_minute else (FINE,):
            calls += self._tier(tier, usable, at_ms - at_ms % tier.step_ms)
        self.unread = []
        yield from _send(calls, self.unread)
        yield from reads.contained(_write_latest(usable, at_ms), LATEST, self.unread)
        return len(calls) // 2

    def _tier(self, tier: Tier, rows: Sequence[QueueRow], moment: int) -> list[Command]:
        calls: list[Command] = []
        before, after = self.tracks[tier], {}
        for row in rows:
            sample = history.of_totals(moment, row.ready or 0, row.dead or 0, row.totals)
            after[row.name] = last = _next(before.get(row.name), sample, tier)
            if last.left_out is None:
                calls += _appends(row.name, tier, before.get(row.name), sample, max(self.keep_ms, FINE.keep_ms))
        self.tracks[tier] = after
        return calls


def _next(last: _LastSample | None, sample: Sample, tier: Tier) -> _LastSample:
    chunk = sample.at_ms // tier.chunk_ms
    if last is not None and last.chunk == chunk and last.written.same(sample):
        return _LastSample(chunk, last.written, sample)
    return _LastSample(chunk, sample)


def _appends(queue: str, tier: Tier, last: _LastSample | None, sample: Sample, keep_ms: int) -> list[Command]:
    """Return the commands for a sample, preceded by the last one that was left out: until then nothing changed."""
    samples = [sample]
    if last is not None and last.left_out is not None and not last.left_out.same(sample):
        samples.insert(0, last.left_out)
    calls: list[Command] = []
    for one in samples:
        number = one.at_ms // tier.chunk_ms
        key = history.chunk_key(queue, tier, number)
        ends_s = ((number + 1) * tier.chunk_ms + (tier.keep_ms if tier is FINE else keep_ms)) // 1000
        calls += [(b"APPEND", key, history.pack(one, tier)), (b"EXPIREAT", key, ends_s)]
    return calls


def _send(calls: Sequence[Command], unread: list[str]) -> Program[None]:
    for at in range(0, len(calls), SLICE):
        # Appended twice after a lost reply, a sample is read once.
        part = calls[at : at + SLICE]
        for call, reply in zip(part, (yield with_errors(*part)), strict=True):
            if reads.is_broken(reply):
                unread.append(f"{call[1]!r}: {reply}")  # a key of another program: the other queues continue


def _write_latest(rows: Sequence[QueueRow], at_ms: int) -> Program[None]:
    """Write the last two samples of every queue in one hash, for the first refresh of a reader."""
    known = yield from reads.scan_hash(LATEST)
    pairs: list[bytes] = []
    for row in rows:
        name = row.name.encode()
        before = history.read_latest(known.get(name))[-1:]
        kept = [(moment, flow) for moment, flow in before if moment < at_ms]
        samples = [*kept, (at_ms, history.Flow.of(row.totals))]
        text = " ".join(str(number) for moment, flow in samples for number in (moment, *flow))
        pairs += (name, text.encode())
    gone = list(set(known) - {row.name.encode() for row in rows} - {b""})
    calls: list[Command] = [(b"HSET", LATEST, *pairs[at : at + 2 * SLICE]) for at in range(0, len(pairs), 2 * SLICE)]
    calls += [(b"HDEL", LATEST, *gone[at : at + SLICE]) for at in range(0, len(gone), SLICE)]
    calls += [(b"HSET", LATEST, b"", at_ms), (b"EXPIRE", LATEST, LATEST_TTL_S)]
    for call in calls:  # noqa: UP028 - a list takes no replies
        yield call
