"""Tasks of Celery: waiting ones, those that workers hold, and those with a result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from qdeck._engine.stored_numbers import score_ms, whole
from qdeck._model import payload
from qdeck._model.payload import shown_text, whole_text
from qdeck._model.reasons import Stuck, StuckCode
from qdeck._model.values import State
from qdeck._redis.commands import text_of, with_errors
from qdeck._redis.errors import is_error
from qdeck.adapters.celery import messages
from qdeck.adapters.celery.keys import NAME, RESULTS, sent_key
from qdeck.adapters.celery.messages import Message
from qdeck.adapters.model import Entry, short
from qdeck.adapters.stored_values import MOST_BYTES, decode_json, stored_json
from qdeck.adapters.times import read_ms
from qdeck.adapters.tracebacks import error_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qdeck._redis.commands import Program
    from qdeck.adapters.celery.keys import CeleryKeys
    from qdeck.adapters.model import Raw

WAITING: Final = "waiting"
HELD: Final = "unacked"
RESULT: Final = "result"
_STATES: Final = {"SUCCESS": State.DONE, "FAILURE": State.DEAD, "REVOKED": State.CANCELLED}


def fill_waiting(queue: str, raws: Sequence[Raw]) -> list[Entry]:
    """Return the tasks of messages in a list."""
    return [_task(queue, raw, messages.read(raw.member), State.READY, WAITING) for raw in raws]


class Held(NamedTuple):
    """A message that a worker holds: its task runs, was fetched in advance, or waits for its time."""

    raw: Raw
    message: Message | None
    queue: str | None
    state: State
    score: bytes | None
    since_ms: int | None
    stuck: Stuck | None


def read_held(keys: CeleryKeys, raws: Sequence[Raw], now: int, timeout_s: int) -> Program[list[Held]]:
    """Decode these messages, and read since when workers hold them."""
    [reply] = yield with_errors((b"ZMSCORE", keys.unacked_index, *(raw.member for raw in raws)))
    scores = [None] * len(raws) if is_error(reply) else reply
    return [_held(raw, score, now, timeout_s) for raw, score in zip(raws, scores, strict=True)]


def _held(raw: Raw, score: bytes | None, now: int, timeout_s: int) -> Held:
    message, queue = held_in(raw.value)
    due = None if message is None else read_ms(shown_text(message.headers.get("eta")))
    is_due, since, stuck = due is None or due <= now, score_ms(score, 1000), None
    late_s = None if since is None else (now - since) / 1000
    if is_due and late_s is not None and late_s > timeout_s:
        stuck = Stuck(code=StuckCode.VISIBILITY_EXPIRED, seconds=late_s, limit=timeout_s)
    return Held(raw, message, queue, State.RUNNING if is_due else State.DELAYED, score, since, stuck)


def fill_held(keys: CeleryKeys, queue: str, raws: Sequence[Raw], now: int, timeout_s: int) -> Program[list[Entry]]:
    """Return the tasks of a queue among these messages, which workers hold."""
    return [
        _task(
            queue, one.raw, one.message, one.state, HELD,
            since=one.since_ms, stuck=one.stuck, seen=one.raw.seen(score=one.score),
        )
        for one in (yield from read_held(keys, raws, now, timeout_s))
        if one.queue == queue
    ]  # fmt: skip


def held_in(value: bytes | None) -> tuple[Message | None, str | None]:
    """Return the message that a worker holds, and its queue: `[message, exchange, routing key]`."""
    held = decode_json(value)
    if not isinstance(held, list) or len(held) != 3 or not isinstance(held[0], dict):
        return None, None
    return Message(held[0]), held[2] if isinstance(held[2], str) else None


def _task(
    queue: str, raw: Raw, message: Message | None, state: State, native: str, *, since: int | None = None,
    stuck: Stuck | None = None, seen: Any = None,
) -> Entry:  # fmt: skip
    facts: dict[str, Any] = {
        "adapter": NAME, "queue": queue, "state": state, "native_state": native, "since_ms": since, "stuck": stuck,
        "seen": seen or raw.seen(),
    }  # fmt: skip
    if message is None or not message.id:
        name = short(raw.member)
        return Entry(id=name, key=f"{NAME}/{queue}/{native}/{name}", problem="it is not a Celery message", **facts)
    headers = message.headers
    tag = shown_text(message.properties.get("delivery_tag")) or message.id
    return Entry(
        id=message.id, key=f"{NAME}/{queue}/{native}/{tag}", task=shown_text(headers.get("task")),
        name=shown_text(headers.get("shadow")), attempts=whole(headers.get("retries")),
        priority=whole(message.properties.get("priority")), due_ms=read_ms(shown_text(headers.get("eta"))),
        worker=None, body=stored_json(message.call()), tags=message.marks(), **facts,
    )  # fmt: skip


def fill_results(keys: CeleryKeys, raws: Sequence[Raw]) -> Program[list[Entry]]:
    """Return the tasks of stored results, without those that are still in their queues."""
    ids = [raw.member.removeprefix(keys.results) for raw in raws]
    values = yield with_errors(*((b"GETRANGE", raw.member, 0, MOST_BYTES) for raw in raws))
    sent = yield with_errors(*((b"EXISTS", sent_key(task)) for task in ids))
    found: list[Entry] = []
    for raw, task, value, was_sent in zip(raws, ids, values, sent, strict=True):
        if is_error(value) or not value:
            continue
        entry = _result(raw, text_of(task), decode_json(value), value, is_sent=was_sent == 1)
        if entry is not None:
            found.append(entry)
    return found


def _result(raw: Raw, task: str, value: Any, stored: bytes, *, is_sent: bool) -> Entry | None:
    facts: dict[str, Any] = {
        "id": task, "key": f"{NAME}/{RESULTS}/{task}", "adapter": NAME, "queue": RESULTS,
        "seen": raw.seen(stored),
    }  # fmt: skip
    if not isinstance(value, dict):
        why = (
            f"its result is larger than {MOST_BYTES:,} bytes"
            if len(stored) > MOST_BYTES
            else "its result is not a JSON object"
        )
        return Entry(state=State.DEAD, native_state="broken", problem=why, **facts)
    status = value.get("status")
    state = _STATES.get(status) if isinstance(status, str) else None
    if state is None:
        return None
    at, queue = read_ms(shown_text(value.get("date_done"))), shown_text(value.get("queue"))
    class_name, message = _error(value) if state is State.DEAD else (None, None)
    if state is State.DEAD and is_sent:
        state = State.DONE
    native = f"{str(status).lower()}, sent again" if is_sent else str(status).lower()
    call = {name: value[name] for name in ("args", "kwargs") if value.get(name) is not None}
    return Entry(
        state=state, native_state=native, task=shown_text(value.get("name")), since_ms=at, queue_from=queue,
        failed_ms=at if class_name else None, error=class_name, message=message,
        attempts=whole(value.get("retries")), worker=shown_text(value.get("worker")),
        log=shown_text(value.get("traceback")), body=stored_json(call) if call else None,
        tags=messages.marks(value.get("group_id"), value.get("parent_id")), **facts,
    )  # fmt: skip


def _error(value: dict[str, Any]) -> tuple[str, str | None]:
    """Return class and message of the error that a failed task raised."""
    result = value.get("result")
    if isinstance(result, dict) and isinstance(name := result.get("exc_type"), str):
        said = result.get("exc_message")
        words = " ".join(str(one) for one in said) if isinstance(said, list) else str(said or "")
        return payload.mask_text(whole_text(name)), payload.mask_text(whole_text(words[:10_000]))
    found, words = error_of(str(value.get("traceback") or ""))
    return found or "Error", payload.mask_text(whole_text(words[:10_000]))
