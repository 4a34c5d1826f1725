"""How far a walk over many jobs came, and what a change of many jobs did so far."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from qdeck._deck.changes import SLICE
from qdeck._deck.model import Batch, JobRecord, Page, Plan, PlanEntry, Skip

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from qdeck._errors import QdeckError

# The leases of running jobs are renewed while they are listed, and `ready` becomes `running`.
_MOVING: Final = ("running", "ready")


class Walk:
    """How far a walk over pages came. A job that moves while it goes on is given once."""

    def __init__(self, limit: int | None) -> None:
        self.cursor: str | None = None
        self.goes_on = limit is None or limit > 0
        self._left = limit
        self._seen: set[str] = set()

    def take(self, page: Page) -> Iterator[JobRecord]:
        """The records of a page that were not given before, within the limit."""
        self.cursor = page.cursor
        self.goes_on = page.cursor is not None
        for record in page.jobs:
            if record.id in self._seen:
                continue
            if record.state in _MOVING:
                self._seen.add(record.id)
            yield record
            if self._left is not None:
                self._left -= 1
                if self._left == 0:
                    self.goes_on = False
                    return


class Tally:
    """What became of the entries of a plan so far."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._applied = self._asked = 0
        self._skipped = list(plan.skipped)
        self._error: str | None = None

    def slices(self) -> Iterator[Sequence[PlanEntry]]:
        """The entries, as many at a time as one step changes."""
        entries = self._plan.entries
        for at in range(0, len(entries), SLICE):
            yield entries[at : at + SLICE]

    def take(self, entries: Sequence[PlanEntry], answers: Sequence[str]) -> None:
        """Counts what a step answered."""
        for entry, answer in zip(entries, answers, strict=True):
            if answer in ("ok", "asked"):
                self._applied += 1
                self._asked += answer == "asked"
            else:
                self._skipped.append(Skip(id=entry.id, why=answer))

    def stop(self, error: QdeckError) -> None:
        """Ends early; an error before anything was done is raised again."""
        if self._applied == 0:
            raise error
        self._error = str(error)

    def batch(self) -> Batch:
        """What was done."""
        return Batch(
            batch=self._plan.id,
            verb=self._plan.verb,
            queue=self._plan.queue,
            applied=self._applied,
            asked=self._asked,
            skipped=tuple(self._skipped),
            error=self._error,
        )
