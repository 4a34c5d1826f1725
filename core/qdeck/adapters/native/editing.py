"""Edit and retry: a job gets another payload, and its record keeps the old one."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any, Final

import msgspec

from qdeck._engine import batch_transitions, codec, keys, programs
from qdeck._engine.codec import BAND, score_of
from qdeck._errors import PayloadTooLarge, UnknownJob, UsageError
from qdeck._hidden_characters import escaped_json
from qdeck._model import payload
from qdeck._model.reasons import SkipCode
from qdeck._model.unmasking import unmask
from qdeck._model.values import NATIVE, QueueRef, State
from qdeck._model.words import Verb
from qdeck._redis.commands import raw_of
from qdeck.adapters.native import VERBS
from qdeck.adapters.native.job import by_id
from qdeck.adapters.native.records import MOST_SHOWN

if TYPE_CHECKING:
    from qdeck._engine.batch_transitions import SliceResult
    from qdeck._model.reasons import Skip
    from qdeck._model.values import JobRecord
    from qdeck._redis.commands import Program
    from qdeck.adapters.plans import PlanEntry

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


def edit(draft: Draft, body: bytes, batch: str, event: bytes) -> Program[SliceResult]:
    """Give the job the payload, and retry it when it was dead."""
    return programs.call(
        batch_transitions.edit_job(
            draft.queue, draft.state, (draft.id, draft.version), before=draft.body, after=body,
            original=_as_json(draft.body), batch=batch, event=event,
        )
    )  # fmt: skip


def difference(job: JobRecord, entry: PlanEntry, now_ms: int) -> Skip | None:
    """Return why a job is no longer what was shown, or None when it is."""
    if entry.state != job.state:
        return entry.skip(SkipCode.MOVED, entry.state)
    changed = entry.skip(SkipCode.CHANGED)
    if job.state == State.RUNNING:
        owner = entry.version.rpartition(":")[0]
        claimed = None if entry.age_s is None else now_ms - entry.age_s * 1000
        late = job.since_ms is not None and claimed is not None and abs(claimed - job.since_ms) > 1000
        return changed if owner != (job.worker or "") or late else None
    score = int(score_of(entry.version))
    before = {State.READY: job.since_ms, State.DELAYED: job.due_ms, State.BLOCKED: None}.get(
        State(job.state), job.since_ms
    )
    now = score % BAND if job.state == State.READY else score
    return changed if before is not None and before != now else None


def _as_json(body: bytes) -> bytes:
    if len(body) > MOST_ORIGINAL:
        return codec.encode_json({"bytes": len(body), "kept": "with the batch, as long as it can be undone"})
    try:
        codec.decode_json(body)
    except (msgspec.DecodeError, ValueError):
        return codec.encode_json({"base64": base64.b64encode(body).decode()})
    return body.replace(b"\n", b" ")  # no newline of JSON is inside a text; events are lines
