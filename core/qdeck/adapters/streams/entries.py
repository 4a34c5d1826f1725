"""Entries of streams: the message that they carry, and what their group knows about them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from qdeck._engine import codec
from qdeck._model.reasons import Stuck, StuckCode
from qdeck._model.values import State
from qdeck._redis.commands import text_of
from qdeck.adapters import message_facts
from qdeck.adapters.cells import unpacked
from qdeck.adapters.model import Entry, Kind, age_s
from qdeck.adapters.streams.groups import Place, moment, read_consumers

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from qdeck._redis.commands import Program
    from qdeck.adapters.model import Raw
    from qdeck.adapters.streams.groups import PendingLimits


def fill(queue: str, raws: Sequence[Raw], now: int, limits: PendingLimits) -> Program[list[Entry]]:
    """Return the entries of a group."""
    silent: set[bytes] = set()
    if any(raw.source.kind is Kind.PENDING for raw in raws):
        place = Place.of(queue)
        known = yield from read_consumers([place])
        silent = {one.name for one in known[place] if limits.is_stuck(one.idle_ms)}
    return [_entry(queue, raw, now, limits, silent) for raw in raws]


def delivery_of(score: bytes | None) -> tuple[int, bytes]:
    """Return how often a pending entry was given to consumers, and the consumer that has it."""
    count, _, consumer = (score or b"0:").partition(b":")
    return int(count), consumer


def _entry(queue: str, raw: Raw, now: int, limits: PendingLimits, silent: Collection[bytes]) -> Entry:
    body = _body(raw.value)
    is_dead = raw.source.kind is Kind.PENDING and limits.is_dead(delivery_of(raw.score)[0], raw.idle_ms)
    facts = message_facts.read(body or b"", is_dead=is_dead)
    enqueued, state, more = moment(raw.member), raw.source.state, dict[str, Any]()
    since = enqueued
    if raw.source.kind is Kind.PENDING:
        deliveries, consumer = delivery_of(raw.score)
        idle = raw.idle_ms
        since = None if idle is None else now - idle
        more = {"attempts": deliveries, "worker": text_of(consumer)}
        state = State.RUNNING
        if is_dead:
            state = State.DEAD
            more |= {
                "error": facts.error or "NotAcknowledged", "failed_ms": since, "queue_from": queue, "worker": None,
                "message": facts.message
                or f"its delivery count is {deliveries}, its last consumer was {text_of(consumer)}",
            }  # fmt: skip
        elif limits.is_stuck(idle):
            more["stuck"] = _stuck(idle or 0, limits, is_silent=consumer in silent)
    entry_id = text_of(raw.member)
    return Entry(
        id=facts.id or entry_id, key=f"streams/{queue}/{raw.source.native_state}/{entry_id}", adapter="streams",
        queue=queue, state=state, native_state=raw.source.native_state, seen=raw.seen(), task=facts.task,
        tags=facts.tags, enqueued_ms=enqueued, since_ms=since, age_s=age_s(now, since), body=body,
        problem=None if raw.value is not None else "it was deleted from the stream", **more,
    )  # fmt: skip


def _stuck(idle_ms: int, limits: PendingLimits, *, is_silent: bool) -> Stuck:
    if is_silent:
        return Stuck(code=StuckCode.OWNER_GONE)
    return Stuck(
        code=StuckCode.WAITING_TOO_LONG, name="pending", seconds=idle_ms / 1000, limit=limits.idle_ms / 1000
    )  # fmt: skip


def _body(value: bytes | None) -> bytes | None:
    """Return the message in the field `data`, or all fields as JSON."""
    if value is None:
        return None
    flat = unpacked(value)
    fields = dict(zip(flat[::2], flat[1::2], strict=True))
    if b"data" in fields:
        return fields[b"data"]
    return codec.encode_json({text_of(name): field.decode("utf-8", "replace") for name, field in fields.items()})
