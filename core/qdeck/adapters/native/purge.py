"""The purge rules of native queues, two of which are not filters: lost leases and orphaned records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from qdeck._formatting import duration
from qdeck._model.reasons import SkipCode
from qdeck._model.values import NO_STATE, State
from qdeck.adapters.native.records import read_lease
from qdeck.adapters.native.walk import Needs, Walk
from qdeck.adapters.plans import Rule

if TYPE_CHECKING:
    from collections.abc import Mapping

    from qdeck._model.values import WorkerRow
    from qdeck._settings.limits import Limits
    from qdeck.adapters.plans import Search

OWNER: Final = "owner"
ORPHANS: Final = "orphans"
_OVER: Final = "for {age} (limit {limit})"
RULES: Final = (
    # What still had to run is never just dropped.
    Rule(
        name="lease_expired", states=(State.RUNNING,), verb="bury", without_dlq="requeue",
        setting="max_pending_age", where="", reason="", code=OWNER,
    ),
    Rule(
        name="ready_too_old", states=(State.READY,), verb="bury", without_dlq="cancel", setting="max_ready_age",
        reason=f"ready {_OVER}",
    ),
    Rule(
        name="done_too_old", states=(State.DONE,), verb="discard", setting="max_completed_age", reason=f"done {_OVER}"
    ),
    Rule(name="dead_too_old", states=(State.DEAD,), verb="discard", setting="dlq_ttl", reason=f"dead {_OVER}"),
    Rule(
        name="dead_too_many", states=(State.DEAD,), verb="discard", setting="dlq_max_entries", rank=True,
        reason="more dead letters than {limit}; dead for {age}",
    ),
    Rule(
        name="cancelled_too_old", states=(State.CANCELLED,), verb="discard", setting="max_request_age",
        reason=f"cancelled {_OVER}",
    ),
    Rule(
        name="orphaned_records", states=(NO_STATE,), verb="discard", setting="max_orphaned_age", where="", reason="",
        code=ORPHANS,
    ),
)  # fmt: skip


def purge_verb(rule: str, limits: Limits) -> str:
    """Return what a rule does to the jobs of a native queue."""
    return next(one.verb_for(limits) for one in RULES if one.name == rule)


class Ownerless(Walk):
    """Jobs whose lease expired long ago; their age is the time since then."""

    def __init__(self, queue: str, search: Search, owners: Mapping[str, WorkerRow] | None) -> None:
        self._limits, self._owners = search.limits, owners
        limit_ms = search.now - search.limits.ms("max_pending_age")
        needs = Needs.of(None, search.now, State.RUNNING, always=("lease",))
        super().__init__(queue, State.RUNNING, needs, search.now, highest=limit_ms - 1)

    def why(self, row: Any) -> tuple[float | None, str] | SkipCode | None:
        """Return how long it has no owner, and whether its last worker is alive."""
        lease = read_lease(row.lease_raw)
        if lease is None:
            return SkipCode.NO_LEASE
        age = (self.now - row.at) / 1000
        owner = f"its worker was {lease.worker}"
        if self._owners is not None:
            known = self._owners.get(lease.worker)
            lives = known is not None and known.alive
            owner = f"its worker {lease.worker} " + ("is alive but does not renew it" if lives else "is gone")
        over = self._limits.words("max_pending_age")
        return age, f"its lease expired {duration(1000 * age)} ago (limit {over}); {owner}"
