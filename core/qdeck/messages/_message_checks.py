"""Checks of what a message names: queues have to be within the service's prefix and environment, tasks registered.

Other programs write messages. A message may request an answer on a queue that this service does not answer to, and a
callback may name a task that never requested it: both are refused with a reason, and the message is a dead letter.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from qdeck._errors import InvalidName, InvalidOption, UsageError
from qdeck._queue_names import QueueName, QueueType
from qdeck.messages import _cleaning as cleaning
from qdeck.messages import _registry as registry
from qdeck.messages._names import is_within, may_be_elsewhere

if TYPE_CHECKING:
    from collections.abc import Iterable

    from qdeck._redis.commands import Program
    from qdeck.messages._envelopes import DomainAction
    from qdeck.messages._names import Names

REFUSED: Final = "refused"
"""The name under which refusals are counted."""
_RUN: Final = re.compile(r"[A-Za-z0-9._-]+(?::[A-Za-z0-9._-]+)*")


class Refused(UsageError):
    """A message names a queue or a task that this service does not act on."""


def read_allowed(values: Iterable[str]) -> tuple[str, ...]:
    """Return the beginnings of queue names that answers may go to besides the service's own, whole segments each."""
    found = (values,) if isinstance(values, str) else tuple(values)
    for one in found:
        if not isinstance(one, str) or not _RUN.fullmatch(one):
            raise InvalidOption(
                f"replies_to: {one!r} is not the beginning of a queue name",
                hint="Give whole segments without a pattern, such as 'partner:prod' or 'partner:prod:shop'.",
            )
    return found


def read_reply_name(
    action: DomainAction, names: Names, reached_by: str, allowed: tuple[str, ...]
) -> tuple[str, QueueType] | None:
    """Return where an action wants its answer, and the type of that queue; None when it wants none."""
    text = action.reply_to
    if text is None:
        return None
    target = names.shape(text)
    kind = target.type
    if kind not in (QueueType.RESPONSES, QueueType.CALLBACKS):
        raise InvalidName(
            f"{text!r} cannot take an answer: its type is {kind}", hint="Send answers to responses or callbacks."
        )
    if target.is_dead_letter:
        raise InvalidName(f"{text!r} cannot take an answer: it holds dead letters", hint="Name the queue itself.")
    if any(text == one or text.startswith(f"{one}:") for one in allowed):
        return text, kind
    place = names.shape(reached_by)
    hint = "Add its beginning to replies_to of the service, if answers may go there."
    if not is_within(target, place):
        raise Refused(f"reply target {text!r} is outside of {_scope(place)} of {reached_by!r}", hint=hint)
    if may_be_elsewhere(target, place):
        raise Refused(f"reply target {text!r} has a context, which may be another prefix", hint=hint)
    return text, kind


def _scope(place: QueueName) -> str:
    if place.prefix is None and place.env is None:
        return "the names without prefix and environment"
    return f"prefix {place.prefix!r} and environment {place.env!r}"


def proof_of(target: QueueName, correlation: str) -> QueueName:
    """Return the queue whose registration has the task that requested a callback."""
    return target.callbacks(target.detail.partition(":")[0], correlation)


def prove_task(action: DomainAction, names: Names, proof: QueueName) -> Program[bool]:
    """Return whether a callback may end its task; refuse it when that would remove what another task left."""
    task = action.task
    if task is None:
        return False
    [known] = yield from registry.describe([str(proof)])
    if known is not None and known.task == task:
        return True
    if not (yield from cleaning.has_queues(task, names.holds)):
        return False
    registered = "no task" if known is None or not known.task else f"task {known.task!r}"
    raise Refused(
        f"callback claims task {task!r}, but {registered} is registered for its correlation id",
        hint="Only the task that requested a callback ends with it.",
    )


def why_other_task(action: DomainAction, registered: str) -> str:
    """Return why a callback on the queue of one task does not belong there; empty when it does."""
    if not registered or action.task in (None, registered):
        return ""
    return f"callback claims task {action.task!r}, but its queue is registered to task {registered!r}"


def count(names: Names, kind: QueueType) -> Program[None]:
    """Count a refusal."""
    yield from registry.count(REFUSED, names.service, kind.value)
