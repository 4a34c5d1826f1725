"""The outcomes of native jobs after an operation, from their states and from what queues store of the batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from qdeck._engine import codec, keys, programs
from qdeck._model.masking import mask_text
from qdeck._redis.commands import raw_of
from qdeck.adapters.model import Outcome
from qdeck.adapters.native.job_values import read_values
from qdeck.adapters.outcomes import KeptOutcomes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qdeck._redis.commands import Program
    from qdeck.adapters.plans import PlanEntry

MOST: Final = 20_000  # jobs of a batch that are looked up
MOST_ERRORS: Final = 500  # of those that died again: what they died of
_SLICES: Final = 10  # of what a batch keeps, in one round trip
_OUTCOMES: Final = {
    "dead": Outcome.DEAD, "done": Outcome.DONE, "running": Outcome.RUNNING, "ready": Outcome.WAITING,
    "delayed": Outcome.WAITING, "blocked": Outcome.WAITING, "cancelled": Outcome.CANCELLED,
}  # fmt: skip


def of_planned(entries: Sequence[PlanEntry]) -> Program[list[Outcome | None]]:
    """Return the outcome of each entry of one queue; None for one that is dead as it was."""
    states = yield from _read_states(entries[0].queue, [entry.id for entry in entries])
    return [
        None if state == entry.state == "dead" and score == codec.score_of(entry.version) else _outcome_of(state)
        for entry, (state, score) in zip(entries, states, strict=True)
    ]


def of_batch(batch: str, queues: Sequence[str], target: str | None) -> Program[KeptOutcomes]:
    """Return the outcomes of a batch, which moved its jobs to `target`; of very many jobs, those of the first."""
    found = KeptOutcomes()
    for queue in queues:
        slices = yield (b"HGET", keys.undo_key(queue, batch), b"slices")
        numbers = range(1, int(slices or 0) + 1)
        for at in range(0, len(numbers), _SLICES):
            for kept in (yield from programs.read_slices(queue, batch, numbers[at : at + _SLICES])):
                # An undo removes what it restored.
                ids = list((kept.get("c") or {}).get("ids") or []) if kept is not None else []
                found.jobs += len(ids)
                if ids and found.outcomes.total() < MOST:
                    yield from _count(target or queue, ids, found)
    return found


def _count(queue: str, ids: Sequence[bytes], found: KeptOutcomes) -> Program[None]:
    states = yield from _read_states(queue, ids)
    found.outcomes.update(_outcome_of(state) for state, _ in states)
    dead = [job_id for job_id, (state, _) in zip(ids, states, strict=True) if state == "dead"]
    errors = yield from last_errors(queue, dead[: MOST_ERRORS - found.errors.total()])
    found.errors.update(error or "unknown" for error, _ in errors)


def _outcome_of(state: str | None) -> Outcome:
    return Outcome.GONE if state is None else _OUTCOMES[state]


def _read_states(queue: str, ids: Sequence[str | bytes]) -> Program[list[tuple[str | None, float]]]:
    """Return the state of each job, and its score in that state; None where it is in none."""
    replies = yield [(b"ZMSCORE", keys.key(queue, state), *ids) for state in _OUTCOMES]
    return [
        next(
            ((state, float(score)) for state, score in zip(_OUTCOMES, scores, strict=True) if score is not None),
            (None, 0.0),
        )
        for scores in zip(*replies, strict=True)
    ]


def last_errors(queue: str, ids: Sequence[str | bytes]) -> Program[list[tuple[str, str]]]:
    """Return class and message of the last error of each job."""
    if not ids:
        return []
    raws = [job_id if isinstance(job_id, bytes) else raw_of(job_id) for job_id in ids]
    [values] = yield from read_values(queue, ("error",), raws)
    found = []
    for raw in values:
        last = next((event.data for event in reversed(codec.read_events(raw)) if event.data.get("class")), {})
        found.append((str(last.get("class") or ""), mask_text(str(last.get("message") or ""))))
    return found
