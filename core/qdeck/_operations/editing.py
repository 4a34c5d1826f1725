"""Edit a job: a batch of one, which undo reverts as any other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qdeck._engine import codec
from qdeck._model.reasons import skips_of
from qdeck._model.words import Verb
from qdeck._operations import batches
from qdeck._operations.model import BatchResult
from qdeck._server import queue_settings
from qdeck.adapters.native import editing

if TYPE_CHECKING:
    from collections.abc import Collection

    from qdeck._redis.commands import Program
    from qdeck.adapters.native.editing import Draft


def apply_edit(draft: Draft, body: bytes, reason: str = "", shared: Collection[str] = ()) -> Program[BatchResult]:
    """Give the job the payload, and retry it when it was dead."""
    batch = yield from batches.begin(
        batches.new_batch_id(), Verb.EDIT.value, queues=[draft.ref], shared=sorted(shared), filter=f"id:{draft.id}",
        reason=reason,
    )  # fmt: skip
    event = codec.encode_json(
        {"reason": reason or "edited by an operator", "by": queue_settings.actor(), "batch": batch.id}
    )
    acted = yield from editing.edit(draft, body, batch.id, event)
    skipped = tuple(skips_of(draft.queue, [(draft.id, code, data) for _, code, data in acted.skipped]))
    applied = 0 if skipped else 1
    entry = batch.record.entry({"applied": applied, "skipped": len(skipped)}, undoable=applied)
    yield from batch.close(applied, applied, len(draft.body), entry)
    return BatchResult(
        batch=batch.id, verb=Verb.EDIT, applied=applied, skipped=skipped, skipped_count=len(skipped),
        undoable=applied, undo_until_ms=batch.undo_until_ms(applied), queues=(draft.ref,), shared=tuple(shared),
    )  # fmt: skip
