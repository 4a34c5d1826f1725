"""How many attempts of a queue fail now, and how many failed in its last hours, from the samples of agents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from qdeck._server import history

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qdeck._redis.commands import Program
    from qdeck._server.history import Sample

HOURS: Final = 6
EVERY_MS: Final = 30_000  # between two reads
MOST_QUEUES: Final = 50
_NOW_MS: Final = 600_000
_LEAST_NOW: Final = 20  # attempts; of fewer a share says nothing
_LEAST_BEFORE: Final = 100


class FailureRates(NamedTuple):
    """Per cent of the attempts that failed: in the last ten minutes, and in the hours before."""

    now: int
    before: int


def read(queues: Sequence[str]) -> Program[dict[str, FailureRates]]:
    """Return the rates of these queues, without those of which too little is known."""
    found = yield from history.read_history(queues, seconds=3600 * HOURS)
    rates = ((queue, _rates(samples)) for queue, samples in found.items())
    return {queue: known for queue, known in rates if known is not None}


def _rates(samples: Sequence[Sample]) -> FailureRates | None:
    if not samples:
        return None
    first, last = samples[0], samples[-1]
    between = next((one for one in reversed(samples) if one.at_ms <= last.at_ms - _NOW_MS), None)
    if between is None:
        return None
    now, before = _share(between, last, _LEAST_NOW), _share(first, between, _LEAST_BEFORE)
    return None if now is None or before is None else FailureRates(now, before)


def _share(since: Sample, until: Sample, least: int) -> int | None:
    failed, done = until.failed - since.failed, until.done - since.done
    return round(100 * failed / (failed + done)) if failed >= 0 <= done and failed + done >= least else None
