"""How the tasks of Celery read: those that wait, those that workers hold, and those of which there is a result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from qdeck._deck import payload
from qdeck._deck.model import State
from qdeck._deck.reasons import Stuck, StuckCode
from qdeck._engine.stored_numbers import score_ms, whole
from qdeck._redis.commands import ask, text_of
from qdeck._redis.errors import is_error
from qdeck.adapters.celery import messages
from qdeck.adapters.celery.keys import NAME, RESULTS, sent_key
from qdeck.adapters.celery.messages import MOST_BYTES, Message, text
from qdeck.adapters.json_values import stored_json, whole_text
from qdeck.adapters.model import Entry, short
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


def fill_waiting(queue: str, raws: Sequence[Raw], now: int) -> list[Entry]:
    """Return the tasks of messages in a list."""
    return [_task(queue, raw, messages.read(raw.member), State.READY, WAITING, now) for raw in raws]


def fill_held(keys: CeleryKeys, queue: str, raws: Sequence[Raw], now: int, timeout_s: int) -> Program[list[Entry]]:
    """Return the tasks of a queue that workers hold: they run, were fetched in advance, or wait for their time."""
    [reply] = yield ask((b"ZMSCORE", keys.unacked_index, *(raw.member for raw in raws)))
    scores = [None] * len(raws) if is_error(reply) else reply
    found: list[Entry] = []
    for raw, score in zip(raws, scores, strict=True):
        message, routed = held_in(raw.value)
        if routed != queue:
            continue
        due = None if message is None else read_ms(text(message.headers.get("eta")))
        is_due = due is None or due <= now
        state, since = State.RUNNING if is_due else State.DELAYED, score_ms(score, 1000)
        late_s = None if since is None else (now - since) / 1000
        stuck = None
        if is_due and late_s is not None and late_s > timeout_s:
            stuck = Stuck(code=StuckCode.VISIBILITY_EXPIRED, seconds=late_s, limit=timeout_s)
        seen = raw.seen(score=score)
        found.append(_task(queue, raw, message, state, HELD, now, since=since, stuck=stuck, seen=seen))
    return found


def held_in(value: bytes | None) -> tuple[Message | None, str | None]:
    """Return the message that a worker holds, and its queue: `[message, exchange, routing key]`."""
    held = messages.decoded(value)
    if not isinstance(held, list) or len(held) != 3 or not isinstance(held[0], dict):
        return None, None
    return Message(held[0]), held[2] if isinstance(held[2], str) else None


def _task(
    queue: str, raw: Raw, message: Message | None, state: State, native: str, now: int, *, since: int | None = None,
    stuck: Stuck | None = None, seen: Any = None,
) -> Entry:  # fmt: skip
    facts: dict[str, Any] = {
        "adapter": NAME, "queue": queue, "state": state, "native_state": native, "since_ms": since, "stuck": stuck,
        "seen": seen or raw.seen(),
    }  # fmt: skip
    if message is None or not message.id:
        name = short(raw.member)
        return Entry(id=name, key=f"{NAME}/{queue}/{native}/{name}", problem="it is no message of Celery", **facts)
    headers = message.headers
    tag = text(message.properties.get("delivery_tag")) or message.id
    return Entry(
        id=message.id, key=f"{NAME}/{queue}/{native}/{tag}", task=text(headers.get("task")),
        name=text(headers.get("shadow")), attempts=whole(headers.get("retries")),
        priority=whole(message.properties.get("priority")), due_ms=read_ms(text(headers.get("eta"))),
        worker=None, body=stored_json(message.call()), **facts,
    )  # fmt: skip


def fill_results(keys: CeleryKeys, raws: Sequence[Raw], now: int) -> Program[list[Entry]]:
    """Return the tasks whose result is kept; those that go on are in their queues."""
    ids = [raw.member.removeprefix(keys.results) for raw in raws]
    values = yield ask(*((b"GETRANGE", raw.member, 0, MOST_BYTES) for raw in raws))
    sent = yield ask(*((b"EXISTS", sent_key(task)) for task in ids))
    found: list[Entry] = []
    for raw, task, value, was_sent in zip(raws, ids, values, sent, strict=True):
        if is_error(value) or not value:
            continue
        entry = _result(raw, text_of(task), messages.decoded(value), value, is_sent=was_sent == 1)
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
            f"its result has over {MOST_BYTES:,} bytes" if len(stored) > MOST_BYTES else "its result is no JSON object"
        )
        return Entry(state=State.DEAD, native_state="broken", problem=why, **facts)
    status = value.get("status")
    state = _STATES.get(status) if isinstance(status, str) else None
    if state is None:
        return None
    at, queue = read_ms(text(value.get("date_done"))), text(value.get("queue"))
    class_name, message = _error(value) if state is State.DEAD else (None, None)
    if state is State.DEAD and is_sent:
        state = State.DONE
    native = f"{str(status).lower()}, sent again" if is_sent else str(status).lower()
    call = {name: value[name] for name in ("args", "kwargs") if value.get(name) is not None}
    return Entry(
        state=state, native_state=native, task=text(value.get("name")), since_ms=at, queue_from=queue,
        failed_ms=at if class_name else None, error=class_name, message=message,
        attempts=whole(value.get("retries")), worker=text(value.get("worker")),
        log=text(value.get("traceback")), body=stored_json(call) if call else None, **facts,
    )  # fmt: skip


def _error(value: dict[str, Any]) -> tuple[str, str | None]:
    """Class and message of the error that a failed task raised."""
    result = value.get("result")
    if isinstance(result, dict) and isinstance(name := result.get("exc_type"), str):
        said = result.get("exc_message")
        words = " ".join(str(one) for one in said) if isinstance(said, list) else str(said or "")
        return payload.mask_text(whole_text(name)), payload.mask_text(whole_text(words[:10_000]))
    found, words = error_of(str(value.get("traceback") or ""))
    return found or "Error", payload.mask_text(whole_text(words[:10_000]))
