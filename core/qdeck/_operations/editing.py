"""Edit and retry: a job gets another payload; the one it had stays in its record, its secrets stay what they are."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any, Final

import msgspec

from qdeck._deck import changes, jobs, payload, reads
from qdeck._deck.model import State
from qdeck._engine import acts, codec, keys, programs
from qdeck._engine.ids import new_id
from qdeck._errors import PayloadTooLarge, UnknownJob, UsageError
from qdeck._operations import activity, registry
from qdeck._operations.model import BatchResult, Skip, Verb

if TYPE_CHECKING:
    from qdeck._engine.ops import Program

MOST_ORIGINAL: Final = 32 * 1024  # bytes of a payload that the events of a job can hold


class Draft:
    """A job whose payload is being edited: where it was seen, and what it had."""

    def __init__(self, queue: str, job_id: str, state: str, seen: str, body: bytes) -> None:
        self.queue, self.id, self.state, self.seen, self.body = queue, job_id, state, seen, body

    @property
    def shown(self) -> Any:
        """The payload for an editor, with its secrets masked."""
        return payload.decode(self.body)

    def text(self) -> str:
        """The payload as indented JSON."""
        return msgspec.json.format(codec.encode_json(self.shown), indent=2).decode()


def read_draft(queue: str, job_id: str) -> Program[Draft]:
    """The job as it is now; raises for one that cannot be edited."""
    [place] = yield from jobs.by_id(queue, [job_id])
    if place is None:
        raise UnknownJob(f"no job {job_id!r} in {queue}", hint=f"qdeck find {job_id} looks in every queue")
    if place.state not in Verb.EDIT.states:
        raise UsageError(f"job {job_id!r} is {place.state}", hint="a job that waits, or a dead letter, can be edited")
    body, head = yield reads.read(
        (b"HGET", keys.key(queue, "body"), jobs.raw_id(job_id)), (b"HGET", keys.key(queue, "head"), jobs.raw_id(job_id))
    )
    body, head = reads.good(body, queue), reads.good(head, queue)
    if body is None or head is None:
        raise UnknownJob(f"of job {job_id!r} in {queue} nothing but its id is kept")
    if b"\no" in head:
        raise UsageError(
            f"job {job_id!r} is a failure handler", hint="its payload is the record of the job that failed"
        )
    return Draft(queue, job_id, State(place.state).value, str(int(place.score)), body)


def new_body(draft: Draft, text: str | bytes) -> bytes:
    """The payload that an edited text means; where it still has a mask, the secret stays what it was."""
    try:
        value = codec.decode_json(text.encode() if isinstance(text, str) else text)
    except (msgspec.DecodeError, ValueError) as error:
        raise UsageError(f"the payload is no JSON: {error}") from error
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
        raise UsageError(str(error), hint='write [[1, 2], {"name": 3}]') from error
    return body


def unmask(value: Any, before: Any) -> Any:
    """The value with what is masked in it put back from the same place of the one before."""
    if isinstance(value, dict):
        old = before if isinstance(before, dict) else {}
        return {key: unmask(item, old.get(key)) for key, item in value.items()}
    if isinstance(value, list):
        old_items = before if isinstance(before, list) else []
        return [unmask(item, old_items[at] if at < len(old_items) else None) for at, item in enumerate(value)]
    if not isinstance(value, str) or payload.MASK not in value or before is None:
        return value
    is_masked = value == payload.MASK or (isinstance(before, str) and value == payload.mask_text(before))
    return before if is_masked else value


def apply_edit(draft: Draft, body: bytes, reason: str = "") -> Program[BatchResult]:
    """Gives the job the payload, and lets it run again when it was dead."""
    now = yield from reads.clock()
    batch = f"b-{new_id()}"
    by = changes.actor()
    kept = registry.Kept(
        batch=batch, verb=Verb.EDIT.value, by=by, at_ms=now, until_ms=now + acts.KEEP_MS, queues=[draft.queue]
    )
    yield from registry.write(kept)
    event = codec.encode_json({"reason": reason or "edited by an operator", "by": by, "batch": batch})
    entry = (draft.id, draft.seen)
    acted = yield from programs.call(
        acts.edit(
            draft.queue, draft.state, entry, before=draft.body, after=body, original=_as_json(draft.body), batch=batch,
            event=event,
        )
    )  # fmt: skip
    skipped = tuple(Skip(id=draft.id, why=why, queue=draft.queue) for _, why in acted.skipped)
    applied = kept.applied = 0 if skipped else 1
    yield from registry.write(kept)
    yield from activity.record(
        activity.make(
            Verb.EDIT.value, now, queues=[draft.queue], where=f"id:{draft.id}", batch=batch, reason=reason,
            counts={"applied": applied, "skipped": len(skipped)}, undo_until_ms=kept.until_ms,
        )
    )  # fmt: skip
    return BatchResult(
        batch=batch, verb=Verb.EDIT, applied=applied, skipped=skipped, skipped_count=len(skipped),
        undoable=applied, undo_until_ms=kept.until_ms, queues=(draft.queue,),
    )  # fmt: skip


def _as_json(body: bytes) -> bytes:
    if len(body) > MOST_ORIGINAL:
        return codec.encode_json({"bytes": len(body), "kept": "with the batch, as long as it can be undone"})
    try:
        codec.decode_json(body)
    except (msgspec.DecodeError, ValueError):
        return codec.encode_json({"base64": base64.b64encode(body).decode()})
    return body.replace(b"\n", b" ")  # no newline of JSON is inside a text; events are lines
