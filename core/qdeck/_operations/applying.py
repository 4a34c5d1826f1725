"""Applying a plan: slice by slice, each in one atomic step, at a rate if one is given, and resumed where it ended.

A slice is known by the place of its first entry in the plan. The server keeps what became of it, and how many entries
it took, beside what undoes it: so a slice that is sent again is done once, whoever sends it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Final

from qdeck._deck import changes
from qdeck._deck.model import NATIVE
from qdeck._deck.reasons import Skip, SkipCode, Stop, StopCode
from qdeck._engine import acts, codec, keys, programs, shapes
from qdeck._errors import QdeckError, UsageError
from qdeck._operations import batches, foreign, planning
from qdeck._operations.model import BatchResult, PlanEntry, Verb
from qdeck._operations.planfile import check_whole
from qdeck._redis import reads
from qdeck._redis.steps import Offload, Step, waiting

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from qdeck._engine.acts import Acted
    from qdeck._engine.ops import Program
    from qdeck._operations.planfile import Plan
    from qdeck._redis.steps import Steps

MOST_SKIPS: Final = 10_000  # that are told one by one
_LONGEST_MS: Final = 4.0  # a call may hold up the server for 5
_LEAST: Final = 20  # entries of a slice at least, and how many more when calls are short again
_COUNT_EVERY: Final = 100  # slices between two looks at how much undo takes
_DELIVER_FROM: Final = 100  # entries of an outbox that are not left to wait for the end
# What these do to a job is little; the others take about twice as long, and a call is not to block the server for long.
_LIGHT: Final = (Verb.RETRY, Verb.DISCARD, Verb.RUN, Verb.REPRIORITISE, Verb.REQUEUE)
_MOST_SKEW_MS: Final = 300_000  # between the clocks of a master and of the replica that took its place
Progress = Callable[["Tally"], None]


@dataclass(slots=True)
class Tally:
    """What applying a plan did so far."""

    total: int
    done: int = 0
    applied: int = 0
    asked: int = 0
    undoable: int = 0
    skipped_count: int = 0
    skipped: list[Skip] = field(default_factory=list)
    queues: list[str] = field(default_factory=list)
    now_ms: int = 0

    def take(self, entries: list[PlanEntry], acted: Acted) -> list[PlanEntry]:
        """Counts what a slice answered; returns the entries that were applied."""
        part = entries[: acted.count]
        left_alone = {at for at, _, _ in acted.skipped}
        for at, code, data in acted.skipped[: MOST_SKIPS - len(self.skipped)]:
            self.skipped.append(Skip(id=part[at].id, code=SkipCode(code), queue=part[at].queue, data=data))
        applied = len(part) - len(left_alone)
        self.done += len(part)
        self.applied += applied
        self.asked += acted.asked
        self.skipped_count += len(left_alone)
        self.undoable += applied - acted.unkept if acted.kept else 0
        self.now_ms = acted.now_ms
        return [entry for at, entry in enumerate(part) if at not in left_alone] if left_alone else part


class Slices:
    """The entries of a plan, as many at a time as are of one queue, state and verb."""

    def __init__(self, entries: Iterator[PlanEntry]) -> None:
        self._entries = entries
        self._held: list[PlanEntry] = []

    def next(self, most: int) -> list[PlanEntry]:
        """The next slice, which stays the next until it is taken."""
        held = self._held
        if len(held) < most:
            held += islice(self._entries, most - len(held))
        if not held:
            return []
        first = held[0]
        kind = (first.queue, first.state, first.verb, first.rule, first.adapter)
        part = held[:most]
        for at, entry in enumerate(part):
            if (entry.queue, entry.state, entry.verb, entry.rule, entry.adapter) != kind:
                return part[:at]
        return part

    def taken(self, count: int) -> None:
        """The first entries of the slice are done with."""
        del self._held[:count]


class Pace:
    """How many entries go into a slice: fewer while calls hold up the server for longer than they may."""

    def __init__(self) -> None:
        self.most = acts.SLICE
        self._trip_ms = math.inf
        self._was_long = False

    def trip(self, ms: float) -> None:
        """What a call takes that does nothing."""
        self._trip_ms = min(self._trip_ms, ms)

    def took(self, count: int, ms: float) -> None:
        """A slice of so many took so long, the way there and back with it."""
        self.trip(ms)
        work_ms = ms - self._trip_ms
        before, self._was_long = self._was_long, work_ms > _LONGEST_MS
        if before and self._was_long:  # once can be this machine's doing
            self.most = max(_LEAST, int(count * _LONGEST_MS / work_ms / 2))
        elif not self._was_long:
            self.most = min(acts.SLICE, self.most + _LEAST)


class Application:
    """One run over a plan."""

    def __init__(self, plan: Plan, *, keep_bytes: int, keep_ms: int) -> None:
        self.plan = plan
        self.tally = Tally(plan.count)
        self._slices = Slices(plan.entries())
        self._keep_bytes, self._keep_ms = keep_bytes, keep_ms
        self._bytes: dict[str, int] = {}
        self._all_bytes = 0
        self._batch: batches.OpenBatch | None = None
        self._calls = 0
        self._pace = Pace()
        self._outbox: set[str] = set()
        self._abroad = foreign.Abroad(plan.head, plan.batch, keep_ms)
        reason = plan.head.reason or f"{plan.verb.value} by an operator"
        self._event = codec.encode_json({"reason": reason, "by": changes.actor(), "batch": plan.batch})
        head = plan.head
        self._rules = {name: limit for name, _, limit in (part.partition(" ") for part in head.where.split("; "))}
        self._extra = head.target if head.target is not None else "" if head.priority is None else head.priority

    def begin(self) -> Program[None]:
        """Checks that the plan is good here and now, and makes its batch known."""
        started = time.perf_counter()
        plan, now = self.plan, (yield from reads.clock())
        self._pace.trip((time.perf_counter() - started) * 1000)
        yield from check_server(plan)
        if plan.head.created_ms > now + _MOST_SKEW_MS:
            raise UsageError(f"the plan {plan.path} was made in the future", hint="make a new plan")
        queues = list(plan.tail.by_queue) or list(plan.head.queues)
        not_ours = {queue for _, queue in plan.head.abroad if queue not in plan.head.queues}
        self.tally.queues = queues
        self._batch = yield from batches.begin(
            plan.batch, plan.verb.value, queues=[queue for queue in queues if queue not in not_ours],
            adapters=foreign.adapters_of(plan.head), where=plan.head.where, target=plan.head.target,
            keep_bytes=self._keep_bytes, keep_ms=self._keep_ms, expires_ms=plan.head.expires_ms,
            now=now,
        )  # fmt: skip
        if not self._batch.is_resumed and plan.count > acts.SLICE:
            yield from self._log("begun", {})

    def step(self, most: int) -> Program[list[PlanEntry] | None]:
        """Does the next slice; gives the entries that were applied, None at the end."""
        part = self._slices.next(min(most, self._pace.most))
        if not part:
            return None
        if part[0].adapter != NATIVE:
            acted = yield from self._abroad.slice(part, self.tally.done, self._open.room - self._all_bytes)
            self._slices.taken(acted.count)
            return self.tally.take(part, acted)
        if part[0].verb not in _LIGHT:
            part = part[: acts.SLICE // 2]
        queue, first, event = part[0].queue, part[0], self._event_of(part)
        op = acts.act(
            queue,
            first.verb,
            first.state,
            [(entry.id, entry.version) for entry in part],
            batch=self.plan.batch,
            offset=self.tally.done,
            event=event,
            extra=self._extra,
            group=shapes.group_of("buried", event) if first.verb == Verb.BURY else "",
            keep_bytes=self._room_for(queue),
            keep_ms=self._keep_ms,
        )
        started = time.perf_counter()
        acted = yield from programs.call(op)
        self._pace.took(acted.count, (time.perf_counter() - started) * 1000)
        if acted.count > len(part):
            part = self._slices.next(acted.count)  # it was done before, as a larger slice
        self._slices.taken(acted.count)
        applied = self.tally.take(part, acted)
        self._calls += 1
        if acted.outbox:
            self._outbox.add(queue)
            if acted.outbox >= _DELIVER_FROM:
                yield from self._deliver(queue)
        if self._calls % _COUNT_EVERY == 0 or queue not in self._bytes:
            yield from self._count([queue])
        if self._calls % _COUNT_EVERY == 0:
            yield from self._open.note(self._kept_bytes)
        return applied

    def _room_for(self, queue: str) -> int:
        """How many bytes may be kept of what this queue is to get back."""
        others = self._all_bytes - self._bytes.get(queue, 0)
        return max(0, self._open.room - others - self._abroad.bytes)

    def _event_of(self, part: list[PlanEntry]) -> bytes:
        """What is written into the history of these jobs. A purge says which of its rules took them, and their ages."""
        first = part[0]
        if first.rule is None:
            return self._event
        ages = [entry.age_s for entry in part if entry.age_s is not None]
        span = f": {min(ages):,.0f} to {max(ages):,.0f} s" if ages else ""
        told = f"{first.rule} {self._rules.get(first.rule, '')}".rstrip() + span
        return codec.encode_json(
            {
                "class": "Purge",
                "message": told,
                "reason": f"purge: {told}",
                "by": changes.actor(),
                "batch": self.plan.batch,
            }
        )

    def _deliver(self, queue: str) -> Program[None]:
        while (yield from programs.deliver(queue)):
            pass

    def _count(self, queues: Sequence[str]) -> Program[None]:
        """How much the undo of these queues takes."""
        found = yield from reads.ask([(b"HGET", keys.undo_key(queue, self.plan.batch), b"bytes") for queue in queues])
        for queue, raw in zip(queues, found, strict=True):
            size = int(reads.good(raw, queue) or 0)
            self._all_bytes += size - self._bytes.get(queue, 0)
            self._bytes[queue] = size

    def end(self, outcome: str = "done") -> Program[None]:
        """Delivers what is meant for other queues, and writes down what was done."""
        for queue in sorted(self._outbox):
            yield from self._deliver(queue)
        yield from self._count(list(self._bytes))
        yield from self._open.close(self.tally.applied, self._kept_bytes)
        counts = {"applied": self.tally.applied, "skipped": self.tally.skipped_count}
        yield from self._log(outcome, counts)

    @property
    def _open(self) -> batches.OpenBatch:
        if self._batch is None:
            raise AssertionError("this run was not begun")
        return self._batch

    @property
    def _kept_bytes(self) -> int:
        return self._all_bytes + self._abroad.bytes

    def _log(self, outcome: str, counts: Mapping[str, int]) -> Program[None]:
        plan, tally = self.plan, self.tally
        yield from self._open.log(
            {"planned": plan.count, **counts}, queues=tally.queues, at_ms=tally.now_ms or plan.head.created_ms,
            undoable=tally.undoable, outcome=outcome, plan=plan.id, reason=plan.head.reason,
        )  # fmt: skip

    def result(self, *, error: str | None = None, stopped: Stop | None = None) -> BatchResult:
        """What was done."""
        tally = self.tally
        skipped = (*self.plan.tail.skipped, *tally.skipped)
        return BatchResult(
            batch=self.plan.batch,
            verb=self.plan.verb,
            applied=tally.applied,
            asked=tally.asked,
            skipped=skipped,
            skipped_count=tally.skipped_count + len(self.plan.tail.skipped),
            undoable=tally.undoable,
            undo_until_ms=self._open.undo_until_ms(tally.undoable),
            queues=tuple(tally.queues),
            error=error,
            stopped=stopped,
        )


def check_server(plan: Plan) -> Program[None]:
    """Raises when the plan was made on another server: by its process, or when it registered the queues."""
    head = plan.head
    run_id, registered = yield from planning.identity(list(head.queues))
    if run_id is not None and run_id == head.run_id:
        return
    for queue, stamp in head.queues.items():
        if registered.get(queue) != stamp:
            [reply] = yield reads.read((b"HGET", keys.QUEUES, queue))
            reads.good(reply, queue)  # who may not see it is told that, and not that it is another server
            raise UsageError(
                f"the plan {plan.id} was made on another server ({head.address}): {queue} is not the same here",
                hint="make a plan on this server, or apply it on that one",
            )
    # Where the server may not be asked for its process, each step still compares what it changes to the byte.
    if not head.queues and plan.count and not (run_id is None and head.run_id is None):
        raise UsageError(f"the plan {plan.id} was made on another server ({head.address})", hint="make a new plan")


def check_plan(plan: Plan, db: int) -> Steps[None]:
    """Raise when a plan is not what it was made as, or not for this database; `begin` asks the server itself."""
    yield Offload(lambda: check_whole(plan))
    made = plan.head.db
    if made is not None and made != db:
        raise UsageError(
            f"the plan {plan.path} was made on database {made}, and this is database {db}",
            hint="make a plan for this database, or apply it to that one",
        )


def apply_steps(
    plan: Plan,
    *,
    rate: float | None = None,
    progress: Progress | None = None,
    cancelled: Callable[[], bool] | None = None,
    keep_bytes: int = acts.KEEP_BYTES,
    keep_ms: int = acts.KEEP_MS,
) -> Steps[BatchResult]:
    """Applies a plan; at most `rate` entries a second where one is given."""
    run = Application(plan, keep_bytes=keep_bytes, keep_ms=keep_ms)
    yield Step(run.begin())
    most = acts.SLICE if rate is None else max(1, min(acts.SLICE, int(rate / 5)))
    started, error, stopped = time.monotonic(), None, None
    while True:
        if cancelled is not None and cancelled():
            stopped = Stop(code=StopCode.CANCELLED)
            break
        try:
            part = yield Step(run.step(most))
        except QdeckError as caught:
            if run.tally.done == 0:
                raise
            error = str(caught)
            break
        if part is None:
            break
        if progress is not None:
            progress(run.tally)
        if rate is not None:
            ahead = run.tally.done / rate - (time.monotonic() - started)
            if ahead > 0 and run.tally.done < plan.count:
                yield from waiting(ahead, cancelled)
    try:
        yield Step(run.end("failed" if error else "stopped" if stopped else "done"))
    except QdeckError as caught:
        error = error or str(caught)
    return run.result(error=error, stopped=stopped)
