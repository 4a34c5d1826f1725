"""Edit and retry: a job gets another payload; its record keeps the old one, and masked secrets stay unchanged."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any, Final

import msgspec

from qdeck._engine import batch_transitions, codec, keys, programs
from qdeck._errors import PayloadTooLarge, UnknownJob, UsageError
from qdeck._hidden_characters import escaped_json
from qdeck._model import payload
from qdeck._model.reasons import skips_of
from qdeck._model.values import NATIVE, QueueRef, State
from qdeck._model.words import Verb
from qdeck._operations import batches
from qdeck._operations.model import BatchResult
from qdeck._redis.commands import raw_of
from qdeck._server import queue_settings
from qdeck.adapters.native import VERBS
from qdeck.adapters.native.job import by_id
from qdeck.adapters.native.records import MOST_SHOWN

if TYPE_CHECKING:
    from collections.abc import Collection

    from qdeck._redis.commands import Program

MOST_ORIGINAL: Final = 32 * 1024  # bytes of a payload that the events of a job can hold


class Draft:
    """A job whose payload is being edited: its queue, its state and its payload."""

    def __init__(self, queue: str, job_id: str, state: str, version: str, body: bytes) -> None:
        self.queue, self.id, self.state, self.version, self.body = queue, job_id, state, version, body

    @property
    def ref(self) -> QueueRef:
        """The queue that it is in."""
        return QueueRef(NATIVE, self.queue)

    @property
    def shown(self) -> Any:
        """The payload for an editor, with its secrets masked."""
        return payload.decode(self.body)

    def text(self) -> str:
        """Return the payload as indented JSON, without a character that a terminal could obey."""
        return msgspec.json.format(escaped_json(codec.encode_json(self.shown).decode()), indent=2)


def read_draft(queue: str, job_id: str) -> Program[Draft]:
    """Return the job as it is now; raise for one that cannot be edited."""
    [place] = yield from by_id(queue, [job_id])
    if place is None:
        raise UnknownJob(f"no job {job_id!r} in {queue}", hint=f"Run qdeck find {job_id} to search every queue.")
    if place.state not in VERBS[Verb.EDIT]:
        raise UsageError(f"job {job_id!r} is {place.state}", hint="Edit a waiting job or a dead letter.")
    size = yield (b"HSTRLEN", keys.key(queue, "body"), raw_of(job_id))
    if size > MOST_SHOWN:
        raise PayloadTooLarge(
            f"the payload of job {job_id!r} takes {size:,} bytes, the limit for editing is {MOST_SHOWN:,}",
            hint="Enqueue it again with a smaller payload.",
        )
    body, head = yield [
        (b"HGET", keys.key(queue, "body"), raw_of(job_id)),
        (b"HGET", keys.key(queue, "head"), raw_of(job_id)),
    ]
    if body is None or head is None:
        raise UnknownJob(f"only the id of job {job_id!r} in {queue} is kept")
    if b"\no" in head:
        raise UsageError(
            f"job {job_id!r} is a failure handler",
            hint="Edit the job that failed: the payload of its handler is its record.",
        )
    return Draft(queue, job_id, State(place.state).value, str(place.at), body)


def new_body(draft: Draft, text: str | bytes) -> bytes:
    """Return the payload of an edited text; a mask that is left in it keeps its secret."""
    try:
        value = codec.decode_json(text.encode() if isinstance(text, str) else text)
    except (msgspec.DecodeError, ValueError) as error:
        raise UsageError(f"the payload is not JSON: {error}") from error
    try:
        before = codec.decode_json(draft.body)
    except (msgspec.DecodeError, ValueError):
        before = None
    value = unmask(value, before)
    body = codec.encode_json(value)
    if len(body) > codec.MAX_PAYLOAD:
        raise PayloadTooLarge(f"the payload takes {len(body):,} bytes, the limit is {codec.MAX_PAYLOAD:,}")
    try:
        codec.decode_call(body)
    except ValueError as error:
        raise UsageError(str(error), hint='Write [[1, 2], {"name": 3}]') from error
    return body


def unmask(value: Any, before: Any) -> Any:
    """Return the value with its masks replaced by the secrets of the value before.

    Items of a list may have moved. Raise where a mask may stand for several secrets, or for none.
    """
    return _restored(value, payload.mask(before), before)


def _restored(value: Any, shown: Any, before: Any) -> Any:
    if isinstance(value, dict):
        if not isinstance(shown, dict):
            shown, before = {}, {}
        places = dict(zip(shown, before, strict=True))
        return {
            places.get(key, key): _restored(item, shown.get(key), before.get(places[key]) if key in places else None)
            for key, item in value.items()
        }
    if isinstance(value, list):
        if not isinstance(shown, list):
            shown, before = [], []
        places_of = _places(value, shown, before)
        return [
            item
            if at is None and not _has_mask(item)
            else _restored(item, *((None, None) if at is None else (shown[at], before[at])))
            for item, at in zip(value, places_of, strict=True)
        ]
    if not isinstance(value, str):
        return value
    if value == shown:
        return before
    if value == payload.MASK or (payload.MASK in value and shown != before):
        raise UsageError(
            f"the secret behind the mask {value[:40]!r} is unknown",
            hint="Write the value itself, or leave the masked text unchanged.",
        )
    return value


def _has_mask(value: Any) -> bool:
    if isinstance(value, dict):
        return any(payload.MASK in key or _has_mask(item) for key, item in value.items())
    if isinstance(value, list):
        return any(map(_has_mask, value))
    return isinstance(value, str) and payload.MASK in value


def _places(items: list[Any], shown: list[Any], before: list[Any]) -> list[int | None]:
    """Return the place of each masked item in the list before; None for items without a mask that moved or are new."""
    texts = [codec.encode_json(item) for item in shown]
    where: dict[bytes, list[int]] = {}
    for at, text in enumerate(texts):
        where.setdefault(text, []).append(at)
    now: dict[bytes, list[int]] = {}
    for at, item in enumerate(items):
        now.setdefault(codec.encode_json(item), []).append(at)
    found: list[int | None] = [None] * len(items)
    taken: set[int] = set()
    for text, ats in now.items():
        places = where.get(text, [])
        if len(places) == len(ats) or (places and all(before[at] == before[places[0]] for at in places)):
            for number, at in enumerate(ats):
                found[at] = places[min(number, len(places) - 1)]
                taken.add(found[at] or 0)
        elif places and _has_mask(items[ats[0]]) and shown[places[0]] != before[places[0]]:
            raise UsageError(
                f"{len(places)} masked items of a list were equal, and {len(ats)} of them are left",
                hint="Write the values themselves, or keep all of them.",
            )
    # Edited items: by similarity, then by place.
    left = [at for at in range(len(shown)) if at not in taken]
    for at, item in enumerate(items):
        if found[at] is None and left and _has_mask(item):
            best = max(left, key=lambda one: (_alike(item, shown[one]), one == at))
            ties = [one for one in left if one != best and _alike(item, shown[one]) == _alike(item, shown[best])]
            if ties and (best != at or len(items) != len(shown)):
                raise UsageError(
                    f"item {at + 1} of a list has a masked value, and its place before is unknown",
                    hint="Write the value itself, or leave the items in their places.",
                )
            found[at] = best
            left.remove(best)
    return found


def _alike(item: Any, shown: Any) -> int:
    """Return how much of an item is unchanged."""
    if isinstance(item, dict) and isinstance(shown, dict):
        return sum(
            key in shown and (shown[key] == value) * (1 + (value != payload.MASK)) for key, value in item.items()
        )
    return int(type(item) is type(shown))


def apply_edit(draft: Draft, body: bytes, reason: str = "", shared: Collection[str] = ()) -> Program[BatchResult]:
    """Give the job the payload, and retry it when it was dead."""
    batch = yield from batches.begin(
        batches.new_batch_id(), Verb.EDIT.value, queues=[draft.ref], shared=sorted(shared), filter=f"id:{draft.id}",
        reason=reason,
    )  # fmt: skip
    event = codec.encode_json(
        {"reason": reason or "edited by an operator", "by": queue_settings.actor(), "batch": batch.id}
    )
    acted = yield from programs.call(
        batch_transitions.edit_job(
            draft.queue, draft.state, (draft.id, draft.version), before=draft.body, after=body,
            original=_as_json(draft.body), batch=batch.id, event=event,
        )
    )  # fmt: skip
    skipped = tuple(skips_of(draft.queue, [(draft.id, code, data) for _, code, data in acted.skipped]))
    applied = 0 if skipped else 1
    entry = batch.record.entry({"applied": applied, "skipped": len(skipped)}, undoable=applied)
    yield from batch.close(applied, applied, len(draft.body), entry)
    return BatchResult(
        batch=batch.id, verb=Verb.EDIT, applied=applied, skipped=skipped, skipped_count=len(skipped),
        undoable=applied, undo_until_ms=batch.undo_until_ms(applied), queues=(draft.ref,), shared=tuple(shared),
    )  # fmt: skip


def _as_json(body: bytes) -> bytes:
    if len(body) > MOST_ORIGINAL:
        return codec.encode_json({"bytes": len(body), "kept": "with the batch, as long as it can be undone"})
    try:
        codec.decode_json(body)
    except (msgspec.DecodeError, ValueError):
        return codec.encode_json({"base64": base64.b64encode(body).decode()})
    return body.replace(b"\n", b" ")  # no newline of JSON is inside a text; events are lines
