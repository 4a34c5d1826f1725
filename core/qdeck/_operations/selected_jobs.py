"""Plans of selected jobs: each only as it was when it was shown."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import msgspec

from qdeck._model.payload import whole_text
from qdeck._model.reasons import Skip, SkipCode
from qdeck._model.values import JobRecord, QueueRef, State
from qdeck._operations.planfile import PlanWriter
from qdeck._operations.planning import build
from qdeck._operations.request import PlanRequest
from qdeck.adapters.model import Seen
from qdeck.adapters.native.editing import difference

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qdeck._model.words import Verb
    from qdeck._operations.planfile import Plan
    from qdeck._redis.commands import Program
    from qdeck.adapters.all import Adapters
    from qdeck.adapters.plans import PlanEntry

Place = tuple[QueueRef, str, str]


def plan(
    address: str, adapters: Adapters, jobs: Sequence[JobRecord], verb: Verb, *, db: int, **request: Any
) -> Program[tuple[Plan, list[Skip]]]:
    """Make the plan. A job that changed after it was shown is returned with the reason instead."""
    seen = {_place(job): job for job in jobs}
    queues = tuple(sorted({job.ref for job in jobs}))
    ids = tuple(dict.fromkeys(job.handle for job in jobs))
    made = yield from build(
        address, PlanRequest(verb=verb, queues=queues, ids=ids, **request), db=db, adapters=adapters
    )
    kept, left_out = _compare(made, seen, adapters)
    return (_only(made, kept) if len(kept) < made.count else made), left_out


def _place(job: JobRecord) -> Place:
    """Return what identifies a job: in other adapters ids may repeat, and the version of an entry identifies it."""
    seen = getattr(job, "seen", None)
    return job.ref, whole_text(job.id), seen.mark if isinstance(seen, Seen) else ""


def _compare(plan: Plan, seen: dict[Place, JobRecord], adapters: Adapters) -> tuple[list[PlanEntry], list[Skip]]:
    kept, skips = [], {(skip.ref, skip.id): skip for skip in plan.tail.skipped}
    met = set()
    for entry in plan.entries():
        mark = adapters.instance(entry.adapter).mark(entry.version)
        place = entry.ref, entry.id, mark
        place = place if place in seen else (entry.ref, entry.id, "")
        job = seen.get(place)
        if job is None:
            if mark:
                skips.setdefault((entry.ref, entry.id), entry.skip(SkipCode.CHANGED))
            continue  # the same id in another queue: not the one that was meant
        # An entry with a version was found by that version, so it is the same.
        skip = None if mark else difference(job, entry, plan.head.created_ms)
        if skip is not None:
            skips[entry.ref, entry.id] = skip
        else:
            kept.append(entry)
            met.add(place)
    return kept, [
        skips.get((ref, job_id))
        or Skip(id=job_id, queue=ref.name, adapter=ref.adapter, code=SkipCode.LEFT_STATE, data=job.state)
        for (ref, job_id, mark), job in seen.items()
        if (ref, job_id, mark) not in met
    ]


def _only(plan: Plan, kept: Sequence[PlanEntry]) -> Plan:
    """Return the plan with these entries only, in the file that it had."""
    states = Counter(entry.state for entry in kept)
    tail = msgspec.structs.replace(
        plan.tail,
        states=dict(states),
        by_queue=dict(Counter(str(entry.ref) for entry in kept)),
        bytes=sum(entry.bytes for entry in kept),
        totals=msgspec.structs.replace(plan.tail.totals, running=states[State.RUNNING]) if kept else plan.tail.totals,
        skipped=(),
        undoable=None if plan.tail.undoable is None or plan.tail.undoable >= len(kept) else plan.tail.undoable,
    )
    with PlanWriter(plan.head, plan.path, replaces=True) as writer:
        writer.add(kept)
        return writer.finish(tail)
