"""Pause and resume queues of other systems, which store neither operator nor reason: the log of operations does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from qdeck._errors import UsageError
from qdeck._model.queue_ref import Feature, QueueRef
from qdeck._model.values import QueueSettings
from qdeck._operations import activity
from qdeck._redis import reads
from qdeck._server import activity_log, queue_settings
from qdeck.adapters import changes

if TYPE_CHECKING:
    from qdeck._model.values import Pause
    from qdeck._redis.commands import Program
    from qdeck.adapters.adapter import Adapter

_ATTEMPTS: Final = 10  # jobs of a busy queue come and go while its change is built


def read_pause(adapter: Adapter, queue: str) -> Program[Pause | None]:
    """Return who paused a queue with qdeck, when and why; None when it is not paused."""
    if (yield from adapter.pause_change(queue, paused=True)) is not None:
        return None
    return (yield from activity.find_pause("pause", _detail(adapter, queue)))


def pause(
    adapter: Adapter, queue: str, label: str, reason: str, replaces: Pause | None = None
) -> Program[QueueSettings]:
    """Pause a queue and log who did and why. A pause that concerns others gets another reason only where it is
    `replaces`; without a reason it stays as it is.
    """
    queue_settings.need_short(reason)
    stands = yield from read_pause(adapter, queue)
    if stands is not None:
        if reason in ("", stands.reason):
            return _settings(adapter, queue, paused=True, changed=False)
        queue_settings.need_replaceable(queue, stands, replaces, (yield from reads.clock()))
    return (yield from _switched(adapter, queue, label, reason, paused=True, is_logged=stands is not None))


def resume(adapter: Adapter, queue: str, label: str, shown: Pause | None = None) -> Program[QueueSettings]:
    """Resume a queue and log who did; with `shown`, only from that pause."""
    if shown is not None:
        stands = yield from read_pause(adapter, queue)
        queue_settings.need_same(queue, stands, shown, (yield from reads.clock()))
    return (yield from _switched(adapter, queue, label, "", paused=False, is_logged=False))


def _switched(
    adapter: Adapter, queue: str, label: str, reason: str, *, paused: bool, is_logged: bool
) -> Program[QueueSettings]:
    """Switch a queue and log it: where nothing was changed only if `is_logged`, for another reason."""
    verb = "pause" if paused else "resume"
    changed = is_logged or (yield from _switch(adapter, queue, verb, paused=paused))
    done = yield from activity_log.logged(
        _value(_settings(adapter, queue, paused=paused, changed=changed)), verb, queues=[label], reason=reason,
        detail=_detail(adapter, queue), unless=lambda left: not left.changed,
    )  # fmt: skip
    return done


def _switch(adapter: Adapter, queue: str, verb: str, *, paused: bool) -> Program[bool]:
    """Make the change, again where the queue changed meanwhile; return whether there was one to make."""
    why = ""
    for attempt in range(_ATTEMPTS):
        change = yield from adapter.pause_change(queue, paused=paused)
        if change is None:
            return attempt > 0
        result = yield from changes.apply_once(change)
        if result.done:
            return True
        why = result.why
    raise UsageError(f"cannot {verb} {queue!r} of {adapter.name}: {why}", hint="Do it with the system's own tool.")


def _value(settings: QueueSettings) -> Program[QueueSettings]:
    yield from ()  # reads nothing, but is a program
    return settings


def _settings(adapter: Adapter, queue: str, *, paused: bool, changed: bool) -> QueueSettings:
    return QueueSettings(queue=queue, adapter=adapter.name, paused=paused, changed=changed)


def _detail(adapter: Adapter, queue: str) -> str:
    """Return how the log names what a pause reaches."""
    is_own = Feature.OWN_PAUSE in adapter.features
    return f"queue {QueueRef(adapter.name, queue)}" if is_own else f"all queues of {adapter.name}"
