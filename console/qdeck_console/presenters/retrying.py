"""What a verb does to a job of another system, in the words of its adapter."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from qdeck.admin import Verb, make_adapter

if TYPE_CHECKING:
    from qdeck.admin import JobRecord


@cache
def retry_words(adapter: str) -> str:
    """Return what a retry does, or why there is none."""
    made = make_adapter(adapter)
    capability = made.capabilities().get(Verb.RETRY)
    if capability is None or not capability.can:
        return f"Cannot be retried: {made.why_not(Verb.RETRY)}."
    note = capability.note or f"retried as {adapter} does"
    return f"{note[:1].upper()}{note[1:]}."


@cache
def verb_words(job: JobRecord, verb: Verb) -> str:
    """Return what a verb does to a job, or why it is not possible."""
    made = make_adapter(job.adapter)
    if why := made.why_not_job(verb, job):
        return f"not possible: {why}"
    return made.capabilities()[verb].note or f"as {job.adapter} does"
