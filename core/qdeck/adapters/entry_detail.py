"""The details of an entry of another system, as those of a job."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, Final

from qdeck._model.values import JobDetail, JobFailure, JobRecord

if TYPE_CHECKING:
    from qdeck.adapters.model import Entry, Seen


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryDetail(JobDetail):
    """The details of an entry, with the bytes that a change compares."""

    has_all_facts: ClassVar[bool] = False

    seen: Seen

    @property
    def handle(self) -> str:
        """Its key: several entries may have one id."""
        return self.key


_OF_ENTRY: Final = frozenset(("seen", "problem", "queue_from", "log", "depends_on"))
_RECORD_FIELDS: Final = tuple(f.name for f in fields(JobRecord) if f.name not in _OF_ENTRY)


def detail_of(entry: Entry) -> JobDetail:
    """Return an entry as the details of a job."""
    facts: dict[str, Any] = {name: getattr(entry, name) for name in _RECORD_FIELDS}
    failure = None
    if entry.error is not None or entry.message is not None:
        at = entry.failed_ms if entry.failed_ms is not None else entry.since_ms or 0
        failure = JobFailure(kind="failed", at_ms=at, class_name=entry.error or "Error", message=entry.message or "")
    return EntryDetail(
        **facts, failure=failure, log=entry.log, depends_on=entry.depends_on, body_bytes=len(entry.body or b""),
        seen=entry.seen, problem=entry.problem,
    )  # fmt: skip
