"""Removing the lists that tasks left behind in the adapter `lists`: per task, or those that no task claims.

Who reads a list cannot be known, so nothing here is ever done by itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from qdeck._deck.model import State
from qdeck._operations import batches
from qdeck.adapters import changes
from qdeck.adapters.listing import read_slice
from qdeck.adapters.lists.adapter import Lists
from qdeck.adapters.lists.changes import clean_orphans, clean_task
from qdeck.adapters.model import Kind

if TYPE_CHECKING:
    from qdeck._engine.ops import Program
    from qdeck.adapters.cells import Change
    from qdeck.adapters.others import Others

ADAPTER: Final = "lists"
MOST_ORPHANS: Final = 10_000  # in one go


@dataclass(frozen=True, slots=True, kw_only=True)
class ListsCleaned:
    """What was removed, or would be, each with its effect; what was left, each with the reason."""

    batch: str | None = None
    removed: tuple[tuple[str, str], ...] = ()
    left: tuple[tuple[str, str], ...] = ()
    undo_until_ms: int | None = None
    dry_run: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ListsFound:
    """What a cleaning would remove, and what it would leave, each with the reason."""

    where: str
    changes: tuple[Change, ...]
    left: tuple[tuple[str, str], ...]

    @property
    def told(self) -> ListsCleaned:
        """As the report of a dry run."""
        return ListsCleaned(
            removed=tuple((change.id, change.effect) for change in self.changes), left=self.left, dry_run=True
        )


def find(others: Others, task_id: str | None, idle_s: float) -> Program[ListsFound]:
    """Return the lists that `task_queues:{task_id}` names.

    Without a task: lists that differ by their task only, whose task no registry names, and that nobody touched lately.
    """
    found, left = yield from (_orphans(others, idle_s) if task_id is None else clean_task(task_id, idle_s))
    where = "orphaned lists" if task_id is None else f"task {task_id}"
    return ListsFound(where=where, changes=tuple(found), left=tuple(left))


def _orphans(others: Others, idle_s: float) -> Program[tuple[list[Change], list[tuple[str, str]]]]:
    adapter = next((one for one in others.adapters if isinstance(one, Lists)), None)
    found: list[Change] = []
    left: list[tuple[str, str]] = []
    if adapter is None:
        return found, left
    for home, queue in (yield from others.queues()):
        if home is not adapter or not queue.endswith("*"):
            continue
        prefix = queue.removesuffix("*")
        for source in (yield from adapter.sources(queue, (State.READY,))):
            place: str | None = ""
            while place is not None and len(found) < MOST_ORPHANS:
                names = [source.key]
                if source.kind is Kind.NAMES:
                    raws, place = yield from read_slice(source, place, 1000)
                    names = [raw.member for raw in raws]
                else:
                    place = None
                mine = [name for name in names if adapter.names.queue_of(name) == (queue, False)]
                more, kept = yield from clean_orphans(mine, prefix, idle_s)
                found += more
                left += kept
    return found, left


def remove(lists: ListsFound) -> Program[ListsCleaned]:
    """Remove the lists that were found, as a batch."""
    what, found, left = lists.where, lists.changes, lists.left
    if not found:
        return ListsCleaned(left=left)
    batch = yield from batches.begin(batches.new_batch_id(), "clean lists", adapters=[ADAPTER], where=what)
    outcomes = yield from changes.apply(ADAPTER, batch.id, found, keep_bytes=batch.room)
    done = [(change.id, change.effect) for change, outcome in zip(found, outcomes, strict=True) if outcome.done]
    missed = [(outcome.id, outcome.why) for outcome in outcomes if not outcome.done]
    undoable = sum(outcome.undoable for outcome in outcomes)
    yield from batch.close(len(done), max((outcome.bytes for outcome in outcomes), default=0))
    yield from batch.log({"removed": len(done), "left": len(left) + len(missed)}, undoable=undoable)
    return ListsCleaned(
        batch=batch.id,
        removed=tuple(done),
        left=(*left, *missed),
        undo_until_ms=batch.undo_until_ms(undoable),
    )
