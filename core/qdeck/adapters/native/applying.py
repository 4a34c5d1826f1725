"""The applier of native queues: `apply.lua` changes several slices in one round trip, within a time limit."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Final

from qdeck._engine import batch_transitions, codec, keys, programs, signatures
from qdeck._engine.batch_transitions import SliceResult
from qdeck._formatting import duration
from qdeck._model.words import Verb
from qdeck._redis import reads
from qdeck._server import queue_settings
from qdeck._settings.limits import used_rules
from qdeck.adapters.applying import Applier

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qdeck._engine.transitions import Transition
    from qdeck._errors import QdeckError
    from qdeck._redis.commands import Program
    from qdeck.adapters.applying import PlanSlice
    from qdeck.adapters.plans import Context, PlanEntry

_LONGEST_MS: Final = 4.0  # a call may hold up the server for 5
_LEAST: Final = 20  # entries of a slice at least, and how many more when calls are short again
_DELIVER_FROM: Final = 100  # entries of an outbox that are not left to wait for the end


class SliceSize:
    """The number of entries in a slice: fewer while calls block the server for too long."""

    def __init__(self, trip_ms: float = math.inf) -> None:
        self.most = batch_transitions.SLICE
        self._trip_ms = trip_ms  # the shortest round trip in which nothing was changed
        self._was_long = False

    def took(self, count: int, ms: float) -> None:
        """Take in the time that a round trip with this number of entries took."""
        self._trip_ms = min(self._trip_ms, ms)
        work_ms = ms - self._trip_ms
        before, self._was_long = self._was_long, work_ms > _LONGEST_MS
        if before and self._was_long:  # once can be this machine's doing
            self.most = max(_LEAST, int(count * _LONGEST_MS / work_ms / 2))
        elif not self._was_long:
            self.most = min(batch_transitions.SLICE, self.most + _LEAST)


class NativeApplier(Applier):
    """Applies slices of native queues; a round trip without work took `trip_ms`."""

    takes_several = True

    def __init__(self, context: Context, keep_ms: int, trip_ms: float) -> None:
        self.kept_bytes = 0
        self._slice_size = SliceSize(trip_ms)
        self._context, self._keep_ms = context, keep_ms
        self._bytes: dict[str, int] = {}
        self._outbox: dict[str, int] = {}
        self._about = {"by": queue_settings.actor(), "batch": context.batch}

    def size(self, part: PlanSlice, most: int) -> int:
        """Return how many entries block the server for no longer than allowed."""
        paced = min(most, self._slice_size.most)
        return paced if part.is_light else max(1, paced // 2)

    def apply(self, parts: Sequence[PlanSlice], room: int) -> Program[Sequence[SliceResult | QdeckError]]:
        """Apply slices by one script each, all of them in one round trip."""
        taken = yield from self._find_taken(parts)
        started = time.perf_counter()
        answers = yield from programs.call_each([self._op(part, room // len(parts), taken) for part in parts])
        count = sum(acted.count for acted in answers if isinstance(acted, SliceResult))
        self._slice_size.took(count, (time.perf_counter() - started) * 1000)
        for part, acted in zip(parts, answers, strict=True):
            if isinstance(acted, SliceResult):
                self._note(part.first.queue, acted.bytes)
                if acted.outbox:
                    self._outbox[part.first.queue] = acted.outbox
        return answers

    def _note(self, queue: str, kept_bytes: int) -> None:
        self.kept_bytes += kept_bytes - self._bytes.get(queue, 0)
        self._bytes[queue] = kept_bytes

    def _find_taken(self, parts: Sequence[PlanSlice]) -> Program[set[str]]:
        """Return the ids of a move that are taken in its target: these jobs stay where they are."""
        ids = [entry.id for part in parts if part.first.verb == Verb.MOVE for entry in part.entries]
        if not ids or self._context.target is None:
            return set()
        there = yield from programs.exists(self._context.target, ids)
        return {job_id for job_id, is_there in zip(ids, there, strict=True) if is_there}

    def _op(self, part: PlanSlice, room: int, taken: set[str]) -> Transition[SliceResult]:
        first, event, context = part.first, self._event_of(part.entries), self._context
        seen = [(entry.id, entry.version) for entry in part.entries]
        if taken:
            seen = [(job_id, batch_transitions.ID_TAKEN if job_id in taken else version) for job_id, version in seen]
        extra = context.target if context.target is not None else "" if context.priority is None else context.priority
        if first.verb == Verb.RETRY and context.ignore_dependencies:
            extra = batch_transitions.RUN
        return batch_transitions.apply_slice(
            first.queue, first.verb, first.state, seen, batch=context.batch, offset=part.place, event=event,
            extra=extra, group=signatures.signature_of("buried", event) if first.verb == Verb.BURY else "",
            keep_bytes=self._bytes.get(first.queue, 0) + room, keep_ms=self._keep_ms,
        )  # fmt: skip

    def _event_of(self, entries: Sequence[PlanEntry]) -> bytes:
        """Return what is written into the history of these jobs; for a purge, with its rule and their ages."""
        context, rule = self._context, entries[0].rule
        if rule is None:
            return codec.encode_json({"reason": context.reason or f"{entries[0].verb} by an operator", **self._about})
        ages = [entry.age_s for entry in entries if entry.age_s is not None]
        span = f": {duration(1000 * min(ages))} to {duration(1000 * max(ages))}" if ages else ""
        [used] = used_rules([rule], context.limits)
        told = (f"{rule} ({used.words})" if used.words else rule) + span
        return codec.encode_json({"class": "Purge", "message": told, "reason": f"purge: {told}", **self._about})

    def deliver(self, *, at_end: bool) -> Program[None]:
        """Empty the outboxes that are long; at the end, all of them."""
        queues = [queue for queue, length in self._outbox.items() if at_end or length >= _DELIVER_FROM]
        for queue in queues:
            yield from programs.deliver_all(queue)
            self._outbox[queue] = 0
        if at_end and queues:  # what was delivered may have reached other jobs of the same queue
            found = yield from reads.fetch_all(
                [(b"HGET", keys.undo_key(queue, self._context.batch), b"bytes") for queue in queues]
            )
            for queue, raw in zip(queues, found, strict=True):
                self._note(queue, int(raw or 0))
