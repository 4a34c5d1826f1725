"""Who applies the slices of a plan: native's act script, and the changes of each other adapter.

Both know a slice by the place of its first entry in the plan, and keep what undoes it: so one that is sent again is
applied once, and answers the same.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

import msgspec

from qdeck._deck import changes
from qdeck._deck.model import NATIVE
from qdeck._deck.reasons import SkipCode
from qdeck._engine import acts, codec, keys, programs, shapes
from qdeck._engine.acts import Acted
from qdeck._operations.model import Verb
from qdeck._operations.places import context_of
from qdeck._operations.slices import SliceSize
from qdeck._redis import reads
from qdeck._settings.limits import Limits, used_rules
from qdeck.adapters import changes as applied
from qdeck.adapters import make
from qdeck.adapters.entry_plans import build_changes
from qdeck.adapters.model import Act, Seen, Skipped

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qdeck._engine.ops import Op
    from qdeck._errors import QdeckError
    from qdeck._operations.model import PlanEntry
    from qdeck._operations.planfile import Plan
    from qdeck._operations.slices import Applier, PlanSlice
    from qdeck._redis.commands import Program
    from qdeck.adapters.cells import Change, ScriptChange
    from qdeck.adapters.model import Entry
    from qdeck.adapters.plans import Context

_DELIVER_FROM: Final = 100  # entries of an outbox that are not left to wait for the end


class NativeApplier:
    """Applies slices of native queues, several in one round trip; one without work took `trip_ms`."""

    takes_several = True

    def __init__(self, plan: Plan, keep_ms: int, trip_ms: float) -> None:
        self.kept_bytes = 0
        self._pace = SliceSize(trip_ms)
        self._plan, self._keep_ms = plan, keep_ms
        self._bytes: dict[str, int] = {}
        self._outbox: dict[str, int] = {}
        head = plan.head
        reason = head.reason or f"{plan.verb.value} by an operator"
        self._event = codec.encode_json({"reason": reason, "by": changes.actor(), "batch": plan.batch})
        self._extra = head.target if head.target is not None else "" if head.priority is None else head.priority

    def size(self, part: PlanSlice, most: int) -> int:
        paced = min(most, self._pace.most)
        return paced if part.is_light else max(1, paced // 2)

    def apply(self, parts: Sequence[PlanSlice], room: int) -> Program[Sequence[Acted | QdeckError]]:
        taken = yield from self._find_taken(parts)
        started = time.perf_counter()
        answers = yield from programs.call_each([self._op(part, room // len(parts), taken) for part in parts])
        count = sum(acted.count for acted in answers if isinstance(acted, Acted))
        self._pace.took(count, (time.perf_counter() - started) * 1000)
        for part, acted in zip(parts, answers, strict=True):
            if isinstance(acted, Acted):
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
        if not ids or self._plan.head.target is None:
            return set()
        there = yield from programs.exists(self._plan.head.target, ids)
        return {job_id for job_id, is_there in zip(ids, there, strict=True) if is_there}

    def _op(self, part: PlanSlice, room: int, taken: set[str]) -> Op[Acted]:
        first, event = part.first, self._event_of(part.entries)
        seen = [(entry.id, entry.version) for entry in part.entries]
        if taken:
            seen = [(job_id, acts.ID_TAKEN if job_id in taken else version) for job_id, version in seen]
        return acts.act(
            first.queue, first.verb, first.state, seen, batch=self._plan.batch, offset=part.place, event=event,
            extra=self._extra, group=shapes.group_of("buried", event) if first.verb == Verb.BURY else "",
            keep_bytes=self._bytes.get(first.queue, 0) + room, keep_ms=self._keep_ms,
        )  # fmt: skip

    def _event_of(self, entries: Sequence[PlanEntry]) -> bytes:
        """What is written into the history of these jobs. A purge says which of its rules took them, and their ages."""
        rule = entries[0].rule
        if rule is None:
            return self._event
        ages = [entry.age_s for entry in entries if entry.age_s is not None]
        span = f": {min(ages):,.0f} to {max(ages):,.0f} s" if ages else ""
        [used] = used_rules([rule], msgspec.convert(self._plan.head.limits, Limits))
        told = (f"{rule} ({used.words})" if used.words else rule) + span
        reason, by = f"purge: {told}", changes.actor()
        return codec.encode_json(
            {"class": "Purge", "message": told, "reason": reason, "by": by, "batch": self._plan.batch}
        )

    def deliver(self, *, at_end: bool) -> Program[None]:
        queues = [queue for queue, length in self._outbox.items() if at_end or length >= _DELIVER_FROM]
        for queue in queues:
            yield from programs.deliver_all(queue)
            self._outbox[queue] = 0
        if at_end and queues:  # what was delivered may have reached other jobs of the same queue
            found = yield from reads.fetch_all(
                [(b"HGET", keys.undo_key(queue, self._plan.batch), b"bytes") for queue in queues]
            )
            for queue, raw in zip(queues, found, strict=True):
                self._note(queue, int(raw or 0))


class AdapterApplier:
    """Applies slices of another adapter's queues: each entry is read again, and its change built and made."""

    takes_several = False

    def __init__(self, name: str, plan: Plan, keep_ms: int) -> None:
        self.kept_bytes = 0
        self._adapter = make(name)
        self._plan, self._keep_ms = plan, keep_ms
        self._places = applied.Places()

    def size(self, part: PlanSlice, most: int) -> int:
        return min(most, applied.CHUNK)

    def apply(self, parts: Sequence[PlanSlice], room: int) -> Program[Sequence[Acted | QdeckError]]:
        [part] = parts
        return [(yield from self._apply(part.entries, part.place, self.kept_bytes + room))]

    def _apply(self, part: Sequence[PlanEntry], place: int, keep_bytes: int) -> Program[Acted]:
        first, adapter = part[0], self._adapter
        now = yield from reads.clock()
        done = yield from applied.done_places(adapter.name, self._plan.batch, range(place, place + len(part)))
        seen = [Seen.parse(entry.version) for entry in part]
        there = yield from adapter.recall(first.queue, first.state, seen, now)
        todo = [(at, entry) for at, entry in enumerate(there) if entry is not None and done[at] is None]
        reasons: dict[int, tuple[str, str]] = {
            at: (SkipCode.CHANGED, "") for at, entry in enumerate(there) if entry is None and done[at] is None
        }
        unkept = done.count(False) + (yield from self._make_changes(part, todo, place, keep_bytes, now, reasons))
        skipped = [(at, code, data) for at, (code, data) in sorted(reasons.items())]
        return Acted(now, len(part), True, 0, 0, self.kept_bytes, skipped, unkept)

    def _make_changes(
        self,
        part: Sequence[PlanEntry],
        todo: list[tuple[int, Entry]],
        place: int,
        keep_bytes: int,
        now: int,
        reasons: dict[int, tuple[str, str]],
    ) -> Program[int]:
        """Make the changes; one that a change before it spoiled is built anew, once. Return how many are not kept."""
        adapter, act, unkept = self._adapter, Act(part[0].verb), 0
        context = context_of(self._plan.head, now, (yield from adapter.prepare(act, now)))
        attempts = [todo]
        for number, some in enumerate(attempts):
            own = _with_rule(context, [part[at] for at, _ in some])
            built = yield from build_changes(adapter, act, [entry for _, entry in some], own)
            ready: list[tuple[int, Entry, Change | ScriptChange]] = []
            for (at, entry), change in zip(some, built, strict=True):
                if isinstance(change, Skipped):
                    reasons[at] = change.code, change.data
                else:
                    ready.append((at, entry, change))
            results = yield from applied.apply(
                adapter.name, self._plan.batch, [change for _, _, change in ready], keep_ms=self._keep_ms,
                keep_bytes=keep_bytes, places=[place + at for at, _, _ in ready], at=self._places,
            )  # fmt: skip
            for (at, entry, _), result in zip(ready, results, strict=True):
                if result.done:
                    reasons.pop(at, None)
                    unkept += not result.undoable
                    self.kept_bytes = result.bytes
                    continue
                reasons[at] = result.code or SkipCode.CHANGED, result.data
                if number == 0:
                    attempts.append([(at, entry)])
        return unkept

    def deliver(self, *, at_end: bool) -> Program[None]:
        yield from ()


def make_applier(name: str, plan: Plan, keep_ms: int, trip_ms: float) -> Applier:
    """Return what applies the slices of an adapter; a round trip without work took `trip_ms`."""
    return NativeApplier(plan, keep_ms, trip_ms) if name == NATIVE else AdapterApplier(name, plan, keep_ms)


def _with_rule(context: Context, entries: Sequence[PlanEntry]) -> Context:
    rule = entries[0].rule if entries else None
    if rule is None:
        return context
    return msgspec.structs.replace(context, reasons=tuple(entry.reason for entry in entries), rule=rule)
