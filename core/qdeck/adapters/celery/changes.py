"""The changes of verbs in Celery, as cells."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from qdeck._model.reasons import Caution, CautionCode, SkipCode
from qdeck._model.values import State
from qdeck._model.words import Verb
from qdeck.adapters import cells
from qdeck.adapters.celery import messages, tasks
from qdeck.adapters.celery.keys import sent_key
from qdeck.adapters.cells import Change, End
from qdeck.adapters.model import Skipped
from qdeck.adapters.stored_values import decode_json

if TYPE_CHECKING:
    from qdeck.adapters.celery.keys import CeleryKeys
    from qdeck.adapters.model import Entry

KEEP_SENT_MS: Final = 7 * 86_400_000  # longer than Celery keeps results by default
_SWITCH_ON: Final = "its result does not contain the call; set result_extended = True in the application"


def build(keys: CeleryKeys, act: Verb, entry: Entry, now: int) -> Change:
    """Return the change that a verb makes to a task."""
    if act is Verb.RETRY:
        return _sent_again(keys, entry, now)
    if act is Verb.REQUEUE:
        return _put_back(keys, entry)
    seen = entry.seen
    if entry.native_state == tasks.WAITING:
        taken = cells.take(seen.key, seen.member, End.LEFT, seen.at)
        return Change(id=entry.id, cells=(taken,), effect="removed from its queue; no result is written")
    not_sent = cells.string(sent_key(entry.id.encode()), None)  # else a retry at the same time would lose its result
    return Change(id=entry.id, cells=(not_sent, cells.string(seen.member, seen.value, None)), effect="result removed")


def _sent_again(keys: CeleryKeys, entry: Entry, now: int) -> Change:
    seen = entry.seen
    result = decode_json(seen.value)
    queue = result.get("queue") if isinstance(result, dict) else None
    message = messages.new_message(result, queue) if isinstance(queue, str) else None
    if message is None or not isinstance(queue, str):
        raise Skipped.because(_SWITCH_ON)
    note, task = sent_key(entry.id.encode()), messages.sent_id(entry.id).encode()
    return Change(
        id=entry.id,
        cells=(
            cells.string(seen.member, seen.value),
            cells.string(note, None, task),
            cells.expiry(note, None, b"%d" % (now + KEEP_SENT_MS)),
            cells.push(keys.list_for(queue, 0), message, End.LEFT),
        ),
        effect=f"sent to {queue} as the new task {task.decode()}",
        caution=Caution(code=CautionCode.ELSEWHERE_UNCHANGED, name="the failed result of a task that is sent again"),
    )


def _put_back(keys: CeleryKeys, entry: Entry) -> Change:
    if entry.stuck is None or entry.state != State.RUNNING:
        raise Skipped.because("a worker may still hold it; its visibility timeout has not passed")
    seen = entry.seen
    message, queue = tasks.held_in(seen.value)
    if message is None or queue is None:
        raise Skipped(SkipCode.UNREADABLE, "it is not a Celery message")
    return Change(
        id=entry.id,
        cells=(
            cells.score(keys.unacked_index, seen.member, seen.score, None),
            cells.field(keys.unacked, seen.member, seen.value, None),
            cells.push(
                keys.list_for(queue, message.properties.get("priority")), messages.redelivered(message), End.RIGHT
            ),
        ),
        effect=f"requeued in {queue} as the next message",
    )
