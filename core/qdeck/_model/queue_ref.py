"""Which queue is meant, by adapter and name, because two adapters may have a queue of one name; and what it offers."""

from __future__ import annotations

from collections import Counter
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from qdeck._adapter_names import NATIVE
from qdeck._errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence


class Feature(StrEnum):
    """Something that queues of some adapters have."""

    PAUSE = "pause"
    """It can be paused."""
    OWN_PAUSE = "own_pause"
    """A pause of it concerns no other queue; other systems pause all their queues at once."""
    MOVE = "move"
    """Jobs can be moved to it."""
    ORDER = "order"
    """Its lists are read by place, from either end."""
    DETAILS = "details"
    """Its limits, workers and history are kept."""
    GROUP_COUNTS = "group_counts"
    """Its dead letters are counted by kind, so that they need not be read."""
    RELATIONS = "relations"
    """Its jobs name those that they wait for, and those that wait for them."""
    LEASES = "leases"
    """Its running jobs have leases of workers that report."""
    ATTEMPTS = "attempts"
    """Its jobs count their attempts, and a retry gives all of them anew."""
    WORKER_REQUESTS = "worker_requests"
    """Its workers accept requests to be quiet or to stop."""
    NAMES = "names"
    """Its name follows the naming rules."""
    STATES = "states"
    """Verbs apply to the states that the verb names; other adapters have states of their own for each verb."""
    PURGE = "purge"
    """The purge rules of job states apply to its jobs; other adapters have rules of their own."""
    PRIORITY_NAMES = "priority_names"
    """Some of its priorities have names."""


_features: Final[dict[str, frozenset[Feature]]] = {NATIVE: frozenset(Feature)}


def register(adapter: str, features: frozenset[Feature]) -> None:
    """Record the features of an adapter's queues."""
    _features[adapter] = features


def has_feature(adapter: str, feature: Feature) -> bool:
    """Return whether the queues of an adapter have something."""
    return feature in _features.get(adapter, ())


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

    def has(self, text: str) -> bool:
        """Return whether its name contains a text, in any case; a text with `/` is searched in `adapter/name`."""
        return text in (str(self) if "/" in text else self.name).casefold()

    def is_in(self, names: Collection[str] | None) -> bool:
        """Return whether it is one of these queues, given by name or as `adapter/name`; None is all of them."""
        return names is None or self.name in names or str(self) in names


class InQueue:
    """A value that belongs to one queue, with its adapter and its name."""

    __slots__ = ()
    adapter: str
    queue: str

    @property
    def ref(self) -> QueueRef:
        """The queue that it is of."""
        return QueueRef(self.adapter, self.queue)

    def has(self, feature: Feature) -> bool:
        """Return whether its queue has something."""
        return has_feature(self.adapter, feature)


def named(refs: Iterable[QueueRef], text: str) -> list[QueueRef]:
    """Return the queues that a text names, of those there are: an exact name wins over `adapter/name`.

    Raises for a name that queues of several adapters have.
    """
    known = list(refs)
    found = [ref for ref in known if ref.name == text] or [ref for ref in known if str(ref) == text]
    if len(found) > 1:
        raise ambiguous(text, found)
    return found


def ambiguous(name: str, refs: Sequence[QueueRef]) -> UsageError:
    """Return the error for a name that queues of several adapters have, with the choices."""
    owners = " and of ".join(ref.adapter for ref in refs)
    return UsageError(f"{name!r} is a queue of {owners}", hint=f"Write {' or '.join(map(str, refs))}.")


def shared_names(refs: Iterable[QueueRef]) -> frozenset[str]:
    """Return the names that queues of several adapters have."""
    counts = Counter(name for _, name in set(refs))
    return frozenset(name for name, count in counts.items() if count > 1)
