"""The base class of undoers: a batch is undone step by step, each step once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, NamedTuple

from qdeck._model.reasons import SkipCode, skips_of
from qdeck.adapters import changes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from qdeck._model.reasons import Skip
    from qdeck._redis.commands import Program
    from qdeck.adapters.changes import UndoPart


class KeptUndo(NamedTuple):
    """What is stored of a batch: its changes, how many of them can be undone at most, the bytes of that, and how many
    were undone already.
    """

    applied: int
    undoable: int
    bytes: int
    restored: int = 0


class Undoer(ABC):
    """Undoes what a batch did to the queues of one adapter, and counts what was restored.

    `dependents` waited for jobs of the batch, in whatever queue; `requeued` of the restored jobs ran before. `left` of
    the skipped ones can be restored by a later undo. What an earlier undo of the batch restored counts, too.
    """

    def __init__(self) -> None:
        self.restored = self.dependents = self.requeued = self.left = 0
        self.skipped: list[Skip] = []

    @abstractmethod
    def steps(self) -> Iterator[Program[None]]:
        """Yield the steps; each is made before the next one is asked for."""

    @abstractmethod
    def kept(self) -> Program[KeptUndo]:
        """Return what is stored of the batch, also while it was not applied to its end."""

    def finish(self) -> Program[None]:
        """Do what is left after the last step, and after one that failed."""
        yield from ()  # does nothing, but is a program


class CellUndoer(Undoer):
    """Undoes the changes of an adapter from the cells that were kept, the last change first."""

    def __init__(self, adapter: str, batch: str) -> None:
        super().__init__()
        self._adapter, self._batch = adapter, batch
        self._parts: list[UndoPart] = []

    def steps(self) -> Iterator[Program[None]]:
        """Yield a step for as many changes as are undone in one round trip."""
        yield self._gather()
        for part in self._parts:
            yield self._undo(part)

    def kept(self) -> Program[KeptUndo]:
        """Return what is stored for the batch."""
        count, size, restored = yield from changes.kept_undo(self._adapter, self._batch)
        return KeptUndo(count + restored, count, size, restored)

    def _gather(self) -> Program[None]:
        _, _, self.restored = yield from changes.kept_undo(self._adapter, self._batch)
        self._parts, lost = yield from changes.undo_parts(self._adapter, self._batch)
        if lost:
            self.skipped += skips_of("", [("", SkipCode.UNDO_NOT_KEPT, str(lost))], self._adapter)

    def _undo(self, part: UndoPart) -> Program[None]:
        results = yield from changes.undo_part(part)
        self.restored += sum(result.done for result in results)
        missed = [(result.id, result.code, result.data) for result in results if result.code is not None]
        self.skipped += skips_of("", missed, self._adapter)
