"""What happened to a job that left the list under the cursor: its state now, and the operation, where known."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from qdeck import QdeckError, UnknownJob
from qdeck.admin import SkipCode, Verb
from qdeck_console import format as fmt
from qdeck_console.operations import DONE
from qdeck_console.text import safe_text

if TYPE_CHECKING:
    from qdeck.admin import AsyncReader, HistoryEvent, JobDetail, JobRecord, QueueRef

SHOWN_S: Final = 10.0  # while the cursor stays on it
RECENT_MS: Final = 30_000  # what was done to a job before is not why it left
_OPERATIONS: Final = 50  # the newest ones, in which the one that took a job away is looked for
_NOW: Final = {SkipCode.GONE: "", SkipCode.MOVED: "{} now", SkipCode.LEFT_STATE: "no longer {}"}
_TAKES: Final = frozenset({Verb.DISCARD, Verb.MOVE, Verb.PURGE, Verb.COMPLETE})


@dataclass(frozen=True, slots=True, kw_only=True)
class GoneJob:
    """A job that left the list while it was shown: its state now, and the operation that changed it, where known."""

    key: str
    id: str
    code: SkipCode  # why it is not in the list: what it is now
    data: str = ""
    how: str = ""  # what was done, and by whom
    at_ms: int | None = None
    noticed_at: float = field(default_factory=time.monotonic)

    @property
    def why(self) -> str:
        """The state of the job now, in words."""
        return self.code.words(self.data)

    @property
    def is_over(self) -> bool:
        """Whether it was shown long enough."""
        return time.monotonic() - self.noticed_at >= SHOWN_S

    def words(self, now_ms: int) -> str:
        """Return what was done to it, by whom and how long ago; where that is unknown, that it left the list."""
        if not self.how:
            now = _NOW[self.code].format(self.data)
            return f"left the list: {safe_text(now, limit=80)}" if now else "left the list"
        known = self.at_ms is not None and now_ms
        ago = f" {fmt.span(max(0, now_ms - (self.at_ms or 0)))} ago" if known else ""
        return safe_text(self.how, limit=80) + ago


async def find_out(reader: AsyncReader, job: JobRecord, now_ms: int) -> GoneJob | None:
    """Return where a job that was read a moment ago went; None when it is still in its state."""
    try:
        now = await reader.job(job.ref, job.handle)
    except UnknownJob:
        how, at_ms = await _by_operation(reader, job.ref, now_ms - RECENT_MS)
        return GoneJob(key=job.key, id=job.id, code=SkipCode.GONE, how=how, at_ms=at_ms)
    if now.state == job.state:
        return None
    how, at_ms = _by_history(now, max(job.since_ms or 0, now_ms - RECENT_MS))
    return GoneJob(key=job.key, id=job.id, code=SkipCode.MOVED, data=now.state, how=how, at_ms=at_ms)


def _by_history(now: JobDetail, since_ms: int) -> tuple[str, int | None]:
    """Return the first event since."""
    for event in now.history:
        if event.at_ms > since_ms and (told := _told(event)):
            return told, event.at_ms
    return "", None


def _told(event: HistoryEvent) -> str:
    claimed = event.kind == "claimed"
    by = event.data.get("worker" if claimed else "by")
    if not isinstance(by, str) or not by:
        return ""
    return f"{event.kind} by {by if claimed else by.rpartition('@')[0] or by}"


async def _by_operation(reader: AsyncReader, queue: QueueRef, since_ms: int) -> tuple[str, int | None]:
    """Return the operation that took jobs out of a queue since, where it was only one."""
    try:
        rows = await reader.recent_activity(_OPERATIONS)
    except QdeckError:
        return "", None
    found = [row for row in rows if row.at_ms > since_ms and reader.label(queue) in row.queues and row.verb in _TAKES]
    if len(found) != 1:
        return "", None
    return f"{DONE[Verb(found[0].verb)]} by {found[0].who}", found[0].at_ms
