"""Batches over the queues of other adapters: what is written for a job of ours is done here to theirs.

An entry of a plan holds what was seen of it, to the byte. Applying reads it again, builds the one step that its adapter
has for the verb, and the server does the step only while all that it relies on still is so.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from qdeck._deck import native
from qdeck._deck.model import NATIVE, QueueRef
from qdeck._deck.reasons import CapabilityCode
from qdeck._errors import InvalidOption, UsageError
from qdeck._operations.model import Verb
from qdeck._settings.limits import Limits
from qdeck.adapters.model import Act
from qdeck.adapters.plans import Context, shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qdeck._deck.native import Memory
    from qdeck._filter import Filter
    from qdeck._operations.model import PlanHead
    from qdeck._operations.request import Wish
    from qdeck._redis.commands import Program
    from qdeck.adapters.adapter import Adapter
    from qdeck.adapters.others import Others


@dataclass(slots=True)
class Ground:
    """The queues that a plan is about: our own by name, and those of other adapters. `unread` has what was left out of
    all queues: the queue, or the adapter alone, and the reason.
    """

    native: tuple[str, ...] = ()
    foreign: list[tuple[Adapter, str]] = field(default_factory=list)
    unread: list[tuple[QueueRef, str]] = field(default_factory=list)
    shared: frozenset[str] = frozenset()

    @property
    def refs(self) -> list[QueueRef]:
        """All of them; bytes of a name that are no text are told, for a plan is a text."""
        native = [QueueRef(NATIVE, queue) for queue in self.native]
        return native + [QueueRef(adapter.name, shown(queue)) for adapter, queue in self.foreign]


def survey(memory: Memory, others: Others, wish: Wish) -> Program[Ground]:
    """Where a wish is to be fulfilled. A queue that is named must be there, and its adapter must know the verb."""
    ground = yield from _survey(memory, others, wish.queues, _named_in(wish))
    if wish.verb is Verb.PURGE:
        return ground
    if wish.verb is Verb.COMPLETE and ground.native:
        if wish.queues or not ground.foreign:
            raise InvalidOption(
                CapabilityCode.NO_SUCH_VERB.words(NATIVE, "complete"), hint="cancel its jobs, or discard them"
            )
        ground.native = ()
    able = [(adapter, queue) for adapter, queue in ground.foreign if not adapter.why_not(wish.verb.value)]
    if wish.queues and len(able) < len(ground.foreign):
        adapter, queue = next(pair for pair in ground.foreign if pair not in able)
        raise InvalidOption(f"{queue!r}: {adapter.why_not(wish.verb.value)}", hint=_hint(adapter))
    if ground.foreign and not able and not ground.native:
        adapter = ground.foreign[0][0]
        raise InvalidOption(adapter.why_not(wish.verb.value), hint=_hint(adapter))
    ground.foreign = able
    if wish.priority is not None and wish.verb is not Verb.REPRIORITISE:
        deaf = [adapter.name for adapter, _ in able if Act(wish.verb.value) not in adapter.takes_priority]
        if ground.native or deaf:
            where = "native" if ground.native else deaf[0]
            raise InvalidOption(
                f"{wish.verb.value} takes no priority in the adapter {where}", hint="name a queue of the scheduler"
            )
    return ground


def _named_in(wish: Wish) -> frozenset[str] | None:
    return None if wish.wanted is None else wish.wanted.pushdown(0).queues


def _survey(
    memory: Memory, others: Others, queues: Sequence[str | QueueRef], limits: frozenset[str] | None
) -> Program[Ground]:
    ground = Ground()
    if queues:
        names: list[str] = []
        for queue in queues:
            ref, home = yield from others.resolve(queue)
            if home is not None:
                ground.foreign.append((home, ref.name))
                continue
            if not others.shows_native:
                told = str(queue)
                raise UsageError(f"there is no queue {told!r} in these adapters", hint="qdeck status lists the queues")
            yield from native.need_queue(memory, ref.name)
            names.append(ref.name)
        ground.native, ground.shared = tuple(names), others.shared
        return ground
    if others.shows_native:
        known = yield from native.names(memory)
        wanted = [queue for queue in known if QueueRef(NATIVE, queue).is_in(limits)]
        ground.native = tuple((yield from native.readable(wanted, ground.unread)))
    if others.adapters:
        found = yield from others.queues(ground.unread)
        ground.foreign = [(adapter, queue) for adapter, queue in found if QueueRef(adapter.name, queue).is_in(limits)]
    ground.shared = others.shared
    return ground


def ground_of(
    memory: Memory, others: Others, queues: Sequence[str | QueueRef], wanted: Filter | None = None
) -> Program[Ground]:
    """Where something is looked for: in these queues, or in all that a filter leaves."""
    return (yield from _survey(memory, others, queues, None if wanted is None else wanted.pushdown(0).queues))


def _hint(adapter: Adapter) -> str:
    can = [act.value for act, capability in adapter.capabilities().items() if capability.can]
    return f"{adapter.name} can {', '.join(can)}"


def context_of(head: PlanHead, now: int, prepared: Any) -> Context:
    """What the changes of a plan are made for."""
    limits = msgspec.convert(head.limits, Limits)
    return Context(now=now, limits=limits, priority=head.priority, reason=head.reason, prepared=prepared)
