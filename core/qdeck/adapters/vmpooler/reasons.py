"""Why a verb cannot be used on an entry of VMPooler, as far as what was read of it says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qdeck._model.values import NO_STATE, State
from qdeck._model.words import Verb
from qdeck.adapters.vmpooler.keys import CREATE_QUEUE, REQUEST_QUEUE, TASKS

if TYPE_CHECKING:
    from qdeck._model.values import JobRecord


def why_not_job(verb: str, job: JobRecord) -> str:
    """Return why a verb cannot be used on an entry of this kind; empty for what its state decides."""
    if job.state == NO_STATE:
        return "it is in no set of its pool; qdeck purge lets its record expire"
    if job.queue == REQUEST_QUEUE:
        return _of_request(verb, job)
    if job.queue == CREATE_QUEUE or job.queue in TASKS:
        return "" if verb == Verb.DISCARD else "a task can only be discarded"
    if verb == Verb.RETRY and job.state == State.DEAD:
        return lacks_for_retry(job)
    return ""


def _of_request(verb: str, job: JobRecord) -> str:
    if job.state in (State.READY, State.RUNNING):
        return "" if verb == Verb.CANCEL else "a request can only be cancelled"
    return "" if verb == Verb.DISCARD else "the request has ended; its record can only be discarded"


def lacks_for_retry(job: JobRecord) -> str:
    """Return what a dead letter lacks: a VM is asked for again by its request, with its alias and its pool."""
    names = {tag.partition(":")[0] for tag in job.tags}
    if job.problem:
        return job.problem
    if job.native_state == "dlq:tasks":
        return "a failed task belongs to no request; ask the API of VMPooler for it again"
    if "request" not in names:
        return "it belongs to no request; the manager refills the pool automatically"
    if "alias" not in names:
        return "its entry does not have the pool_alias of its request"
    return "its entry does not have its pool" if job.queue.startswith("dlq:") else ""
