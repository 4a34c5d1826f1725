"""Applying a plan: slice by slice, each in one atomic step, at a rate if one is given, and resumed where it ended.

A slice is known by the place of its first entry in the plan. The server keeps its outcome, and how many entries
it took, beside the undo data: so a slice that is sent again, by any process, is done once.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol, TypedDict, Unpack

from qdeck._adapter_names import UNLISTED
from qdeck._engine import batch_transitions
from qdeck._engine.batch_transitions import SliceResult
from qdeck._errors import QdeckError, UsageError
from qdeck._model.reasons import Skip, SkipCode, Stop, StopCode
from qdeck._model.values import QueueRef
from qdeck._operations import batches, interrupted, planning
from qdeck._operations.model import REDRIVE, BatchResult
from qdeck._operations.planfile import check_whole
from qdeck._operations.queue_scope import context_of
from qdeck._redis import reads
from qdeck._redis.commands import Offload, waiting
from qdeck._redis.errors import LOST
from qdeck.adapters.applying import PlanSlices

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from qdeck._operations.planfile import Plan
    from qdeck._redis.commands import Program
    from qdeck.adapters.all import Adapters
    from qdeck.adapters.applying import Applier, PlanSlice

MOST_SKIPS: Final = 10_000  # that are reported one by one
MOST_NAMES: Final = 20  # of temporary queues, in the log
NOTE_EVERY: Final = 100  # slices between two records of the size of undo
_MOST_SKEW_MS: Final = 300_000  # between the clocks of a master and of the replica that took its place
Done = tuple["PlanSlice", SliceResult]


class ApplyOptions(TypedDict, total=False):
    """How a plan is applied: the rate, the callbacks for totals and cancellation, and what is kept for undo.

    An `automatic` batch was not requested by an operator, and stays within the share of such batches.
    """

    rate: float | None
    progress: Callable[[Tally], None] | None
    cancelled: Callable[[], bool] | None
    keep_bytes: int
    keep_ms: int
    automatic: bool


class StopRule(Protocol):
    """A rule that has a sample applied first, and may stop the rest."""

    sample_left: int

    def add(self, done: Sequence[Done]) -> None: ...
    def check(
        self, cancelled: Callable[[], bool] | None, renew: Callable[[], Program[None]], *, is_last: bool
    ) -> Program[Stop | None]: ...


@dataclass(slots=True)
class Tally:
    """The totals of a plan that is being applied."""

    total: int
    done: int = 0
    applied: int = 0
    cancel_requested: int = 0
    undoable: int = 0
    skipped_count: int = 0
    skipped: list[Skip] = field(default_factory=list)
    by_rule: Counter[str] = field(default_factory=Counter)
    queues: list[QueueRef] = field(default_factory=list)
    now_ms: int = 0
    names: list[str] = field(default_factory=list)  # of the first queues that were removed as a whole

    def add(self, part: PlanSlice, acted: SliceResult) -> None:
        """Count the result of a slice."""
        for at, code, data in acted.skipped[: MOST_SKIPS - len(self.skipped)]:
            one = part.entries[at]
            self.skipped.append(one.skip(SkipCode(code), data))
        applied = acted.count - len(acted.skipped)
        if part.first.adapter in UNLISTED and len(self.names) < MOST_NAMES:
            skipped = {at for at, _, _ in acted.skipped}
            self.names += [one.id for at, one in enumerate(part.entries[: acted.count]) if at not in skipped]
        self.done += acted.count
        self.applied += applied
        if part.first.rule is not None and applied:
            self.by_rule[part.first.rule] += applied
        self.cancel_requested += acted.cancel_requested
        self.skipped_count += len(acted.skipped)
        self.undoable += applied - acted.unkept if acted.kept else 0
        self.now_ms = acted.now_ms


class Application:
    """One run over a plan."""

    def __init__(
        self, plan: Plan, adapters: Adapters, *, keep_bytes: int, keep_ms: int, automatic: bool = False
    ) -> None:
        self.plan, self._adapters, self._automatic = plan, adapters, automatic
        self.tally = Tally(plan.count)
        self._slices = PlanSlices(plan.entries(), self._applier_of)
        self._keep_bytes, self._keep_ms = keep_bytes, keep_ms
        self._batch: batches.OpenBatch | None = None
        self._count = 0
        self._appliers: dict[str, Applier] = {}
        self._trip_ms = math.inf

    def begin(self) -> Program[None]:
        """Check that the plan is valid for this server and time, and write the record of its batch."""
        started = time.perf_counter()
        plan, now = self.plan, (yield from reads.clock())
        self._trip_ms = (time.perf_counter() - started) * 1000
        yield from check_server(plan, self._adapters)
        if plan.head.created_ms > now + _MOST_SKEW_MS:
            raise UsageError(f"the plan {plan.path} is dated in the future", hint="Make a new plan.")
        self.tally.queues = list(plan.by_queue) or plan.head.queues
        known = yield from batches.read()
        yield from interrupted.close(self._adapters, known, now)
        self._batch = yield from batches.begin(
            plan.batch, plan.verb.value, queues=self.tally.queues, shared=plan.head.shared, filter=plan.head.filter,
            rules=plan.head.rules, target=plan.head.target, plan=plan.id, planned=plan.count, reason=plan.head.reason,
            keep_bytes=self._keep_bytes, keep_ms=self._keep_ms, expires_ms=plan.head.expires_ms, now=now, known=known,
            automatic=self._automatic,
        )  # fmt: skip

    def step(self, most: int) -> Program[list[Done] | None]:
        """Apply what goes into one round trip, in slices of at most `slice_size` entries; None at the end."""
        parts = self._slices.take(most)
        if not parts:
            return None
        applier, done = self._applier_of(parts[0].first.adapter), list[Done]()
        while parts:  # a call takes as much of a slice as it may read
            yield from self.renew()
            answers = yield from applier.apply(parts, max(0, self._open.room - self._kept_bytes))
            now = [(part, one) for part, one in zip(parts, answers, strict=True) if isinstance(one, SliceResult)]
            parts = [rest for part, one in now if (rest := self._add(part, one)) is not None]
            done += now
            for answer in answers:
                if isinstance(answer, QdeckError):
                    raise answer
        yield from applier.deliver(at_end=False)
        before, self._count = self._count, self._count + len(done)
        if before // NOTE_EVERY < self._count // NOTE_EVERY:
            yield from self._open.note(self.tally.applied, self.tally.undoable, self._kept_bytes)
        return done

    def renew(self) -> Program[None]:
        """Renew the record of the batch, where that is due. Raise if the batch was undone."""
        yield from self._open.renew(self.tally.applied, self.tally.undoable, self._kept_bytes)

    def refused(self) -> Program[None]:
        """Forget the batch: the server refused to do anything of it."""
        if not self._open.is_resumed:
            yield from self._open.forget()

    def _add(self, part: PlanSlice, acted: SliceResult) -> PlanSlice | None:
        """Count what was applied of a slice; return the rest of it."""
        if acted.count > len(part.entries):
            self._slices.extend(part, acted.count)
        rest = part.rest(acted.count)
        self.tally.add(part, acted)
        return rest

    def end(self, outcome: str = "done", detail: str = "") -> Program[None]:
        """Deliver effects on other queues, and record what was done; `detail` is what the log says of it."""
        for applier in self._appliers.values():
            yield from applier.deliver(at_end=True)
        tally = self.tally
        self._open.record.detail = ", ".join(tally.names[:MOST_NAMES]) or detail
        entry = self._open.record.entry(
            {"applied": tally.applied, "skipped": tally.skipped_count},
            at_ms=tally.now_ms or self.plan.head.created_ms, undoable=tally.undoable, outcome=outcome,
        )  # fmt: skip
        yield from self._open.close(tally.applied, tally.undoable, self._kept_bytes, entry)

    def _applier_of(self, name: str) -> Applier:
        if name not in self._appliers:
            context = context_of(self.plan.head, self.plan.head.created_ms)
            self._appliers[name] = self._adapters.instance(name).applier(context, self._keep_ms, self._trip_ms)
        return self._appliers[name]

    @property
    def _open(self) -> batches.OpenBatch:
        if self._batch is None:
            raise AssertionError("the batch was not begun")
        return self._batch

    @property
    def _kept_bytes(self) -> int:
        return sum(applier.kept_bytes for applier in self._appliers.values())

    def result(self, *, error: str | None = None, stopped: Stop | None = None) -> BatchResult:
        """Return what was done."""
        tally = self.tally
        skipped = (*self.plan.tail.skipped, *tally.skipped)
        undoable = 0 if self._open.is_undone else tally.undoable
        return BatchResult(
            batch=self.plan.batch,
            verb=self.plan.verb,
            applied=tally.applied,
            cancel_requested=tally.cancel_requested,
            skipped=skipped,
            skipped_count=tally.skipped_count + len(self.plan.tail.skipped),
            by_rule=dict(tally.by_rule),
            undoable=undoable,
            undo_until_ms=self._open.undo_until_ms(undoable),
            queues=tuple(tally.queues),
            shared=tuple(self.plan.head.shared),
            error=error,
            stopped=stopped,
            is_undone=self._open.is_undone,
        )


def check_server(plan: Plan, adapters: Adapters) -> Program[None]:
    """Raise when the plan was made on another server: by its process, or when it registered the queues."""
    head = plan.head
    run_id, registered = yield from planning.identity(adapters, [*map(QueueRef.parse, head.registered)])
    if run_id is not None and run_id == head.run_id:
        return
    for text, stamp in head.registered.items():
        if registered.get(text) != stamp:
            ref = QueueRef.parse(text)
            name = plan.label(ref)
            if call := planning.registration(adapters, ref):
                yield call  # a user without the right to read it gets that error, not one about another server
            raise UsageError(
                f"the plan {plan.id} was made on another server ({head.address}): {name} is not the same here",
                hint="Make a plan on this server, or apply it on that one.",
            )
    # Without the right to read the run id, each step still compares every byte of what it changes.
    if not head.registered and plan.count and not (run_id is None and head.run_id is None):
        raise UsageError(f"the plan {plan.id} was made on another server ({head.address})", hint="Make a new plan.")


def check_plan(plan: Plan, adapters: Adapters, db: int) -> Program[None]:
    """Raise when a plan was changed, or is for another database or other settings of its adapters; `begin` compares the
    server itself.
    """
    yield Offload(lambda: check_whole(plan))
    made = plan.head.db
    if made is not None and made != db:
        raise UsageError(
            f"the plan {plan.path} was made on database {made}, and this is database {db}",
            hint="Make a plan for this database, or apply it to that one.",
        )
    for name in {queue.adapter for queue in plan.by_queue}:
        if adapters.instance(name).settings_digest != plan.head.adapter_settings.get(name, ""):
            raise UsageError(
                f"the plan {plan.id} was made with other settings of the adapter {name} than those here",
                hint="Make a new plan, or apply it with the configuration that it was made with.",
            )


def apply_steps(
    plan: Plan, adapters: Adapters, db: int, rule: StopRule | None = None, **options: Unpack[ApplyOptions]
) -> Program[BatchResult]:
    """Apply a plan, which must be one for this database; a `rule` has a sample and may stop it."""
    yield from check_plan(plan, adapters, db)
    keep_bytes, keep_ms = (
        options.get("keep_bytes", batch_transitions.MAX_UNDO_BYTES),
        options.get("keep_ms", batch_transitions.UNDO_TTL_MS),
    )
    automatic = options.get("automatic", False)
    run = Application(plan, adapters, keep_bytes=keep_bytes, keep_ms=keep_ms, automatic=automatic)
    yield from run.begin()
    error = stopped = None
    try:
        stopped = yield from _run(run, rule, options)
    except QdeckError as caught:
        if run.tally.done == 0:
            if not isinstance(caught, LOST):  # which may have been done all the same
                yield from run.refused()
            raise
        error = str(caught)
    try:
        yield from run.end("failed" if error else "stopped" if stopped else "done", "" if rule is None else REDRIVE)
    except QdeckError as caught:
        error = error or str(caught)
    return run.result(error=error, stopped=stopped)


def _run(run: Application, rule: StopRule | None, options: ApplyOptions) -> Program[Stop | None]:
    """Apply slice after slice; return why it stopped before the end of the plan."""
    rate, progress, cancelled = options.get("rate"), options.get("progress"), options.get("cancelled")
    most = batch_transitions.SLICE if rate is None else max(1, min(batch_transitions.SLICE, int(rate / 5)))
    started, before = time.monotonic(), 0
    while cancelled is None or not cancelled():
        sample = 0 if rule is None else rule.sample_left
        done = yield from run.step(sample or most)
        if done is None:
            return None
        if progress is not None:
            progress(run.tally)
        is_last = run.tally.done >= run.plan.count
        if rule is not None:
            rule.add(done)
            stopped = yield from rule.check(cancelled, run.renew, is_last=is_last)
            if stopped is not None:
                return stopped
        if sample:  # the sample has no rate: that applies after it
            started, before = time.monotonic(), run.tally.done
        elif rate is not None and not is_last:
            yield from waiting((run.tally.done - before) / rate - (time.monotonic() - started), cancelled, run.renew)
    return Stop(code=StopCode.CANCELLED)
