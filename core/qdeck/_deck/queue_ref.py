"""Which queue is meant: the adapter and the name, because two adapters may have a queue of one name."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable


class QueueRef(NamedTuple):
    """The identity of a queue; its text is `adapter/name`. Names of native queues have no `/`, others may."""

    adapter: str
    name: str

    def __str__(self) -> str:
        return f"{self.adapter}/{self.name}"

    @classmethod
    def parse(cls, text: str) -> QueueRef:
        """Read what `str` wrote."""
        adapter, _, name = text.partition("/")
        return cls(adapter, name)

    def label(self, shared: Collection[str]) -> str:
        """Return how the queue is shown: its name, with the adapter where the name is one of `shared`."""
        return str(self) if self.name in shared else self.name

    def is_in(self, names: Collection[str] | None) -> bool:
        """Whether it is one of these queues, given by name or as `adapter/name`; None is all of them."""
        return names is None or self.name in names or str(self) in names


class InQueue:
    """What is of one queue and has its adapter and its name."""

    __slots__ = ()
    adapter: str
    queue: str

    @property
    def ref(self) -> QueueRef:
        """The queue that it is of."""
        return QueueRef(self.adapter, self.queue)


def shared_names(refs: Iterable[QueueRef]) -> frozenset[str]:
    """Return the names that queues of several adapters have."""
    counts = Counter(name for _, name in set(refs))
    return frozenset(name for name, count in counts.items() if count > 1)
