"""The queues that an operation covers, with their adapters; and the context of a plan's changes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from qdeck._errors import InvalidOption, UsageError
from qdeck._model.payload import whole_text
from qdeck._model.values import QueueRef
from qdeck._model.words import Verb
from qdeck._settings.limits import Limits
from qdeck.adapters.plans import Context

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qdeck._filter import Filter
    from qdeck._operations.model import PlanHead
    from qdeck._operations.request import PlanRequest
    from qdeck._redis.commands import Program
    from qdeck.adapters.adapter import Adapter
    from qdeck.adapters.all import Adapters


@dataclass(slots=True)
class Places:
    """Queues, each with its adapter. `unread` has what was left out of all queues: the queue, or the adapter alone, and
    the reason; `shared` the names that queues of several adapters have.
    """

    queues: list[tuple[Adapter, str]] = field(default_factory=list)
    unread: list[tuple[QueueRef, str]] = field(default_factory=list)
    shared: frozenset[str] = frozenset()

    @property
    def refs(self) -> list[QueueRef]:
        """All of them. Raise for a name that is not text, because a plan is text."""
        return [QueueRef(adapter.name, whole_text(queue)) for adapter, queue in self.queues]

    @property
    def adapters(self) -> list[Adapter]:
        """Their adapters."""
        return list(dict.fromkeys(adapter for adapter, _ in self.queues))


def places_of_request(adapters: Adapters, request: PlanRequest) -> Program[Places]:
    """Return the queues that a plan covers. A named queue must exist, and its adapter must support the verb."""
    places = yield from places_of(adapters, request.queues, request.wanted)
    verb = request.verb.value
    if request.verb is Verb.PURGE:
        return places
    able = [(adapter, queue) for adapter, queue in places.queues if not adapter.why_not(verb)]
    if len(able) < len(places.queues) and (request.queues or not able):
        adapter, queue = next(pair for pair in places.queues if pair not in able)
        named = f"{queue!r}: " if request.queues else ""
        raise InvalidOption(named + adapter.why_not(verb), hint=f"{adapter.name} can {', '.join(adapter.able())}")
    places.queues = able
    if request.priority is not None and request.verb is not Verb.REPRIORITISE:
        deaf = next((adapter.name for adapter, _ in able if verb not in adapter.takes_priority), None)
        if deaf is not None:
            raise InvalidOption(
                f"{verb} takes no priority in the adapter {deaf}", hint="Name a queue whose adapter takes one."
            )
    return places


def places_of(adapters: Adapters, queues: Sequence[str | QueueRef], wanted: Filter | None = None) -> Program[Places]:
    """Return these queues with their adapters, or all that a filter allows."""
    places = Places()
    for queue in queues:
        ref, adapter = yield from adapters.resolve(queue)
        if adapter not in adapters.shown:
            what = f"there is no queue {str(queue)!r} in these adapters"
            raise UsageError(what, hint="Run qdeck status to list the queues.")
        yield from adapter.need(ref.name)
        places.queues.append((adapter, ref.name))
    if not queues:
        only = None if wanted is None else wanted.pushdown(0).queues
        places.queues = yield from adapters.queues(places.unread, only)
    places.shared = adapters.shared
    return places


def context_of(head: PlanHead, now: int, prepared: Any = None) -> Context:
    """Return the context of the changes of a plan."""
    limits = msgspec.convert(head.limits, Limits)
    return Context(
        now=now, limits=limits, batch=head.batch, target=head.target, priority=head.priority, reason=head.reason,
        prepared=prepared, ignore_dependencies=head.ignore_dependencies,
    )  # fmt: skip
