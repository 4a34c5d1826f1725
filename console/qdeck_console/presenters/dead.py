"""The dead letters, newest first, in groups by what went wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from qdeck_console import format as fmt
from qdeck_console.presenters.parts import LEAD, MARGIN, columns, queue_path, section
from qdeck_console.text import cut_end, cut_id, safe_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qdeck._deck.model import JobDetail, JobRecord
    from qdeck_console.format import Line, Piece

PAGE = 200  # entries that are read; groups of everything come with the full screen
MOST_QUEUES = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadSeen:
    """What was read: the newest entries, and all about the one under the cursor."""

    jobs: tuple[JobRecord, ...] = ()
    total: int = 0
    detail: JobDetail | None = None


@dataclass(frozen=True, slots=True)
class DeadGroup:
    """The head of a group: the error, how many of what was read have it, and where."""

    error: str
    count: int
    queues: tuple[str, ...]


def groups(jobs: Sequence[JobRecord]) -> list[tuple[DeadGroup, list[JobRecord]]]:
    """Entries by their error, the largest group first, the newest entry first in each."""
    found: dict[str, list[JobRecord]] = {}
    for job in jobs:
        found.setdefault(job.error or "unknown", []).append(job)
    out = []
    for error, members in found.items():
        members.sort(key=lambda job: (-(job.since_ms or 0), job.id))
        queues = tuple(sorted({job.queue for job in members}))
        out.append((DeadGroup(error, len(members), queues), members))
    out.sort(key=lambda entry: (-entry[0].count, entry[0].error))
    return out


def group_line(group: DeadGroup, cells: int, *, hide: int) -> Line:
    """The head of a group."""
    if len(group.queues) == 1:
        note = "".join(text for text, _ in queue_path(group.queues[0], 40, "muted", hide=hide))
    else:
        note = f"{len(group.queues)} queues"
    return section(cut_end(safe_text(group.error, limit=60), cells // 2), note, "bad", cells, count=group.count)


def _widths(cells: int) -> tuple[int, int, int, bool]:
    """Widths of the id, of the queue (0: none) and of the message, and whether tries are shown."""
    wide = 20 if cells >= 100 else 14
    queue = 24 if cells >= 100 else 0
    tries = cells >= 70
    message = cells - LEAD - MARGIN - wide - 9 - (6 if tries else 0) - (queue + 1 if queue else 0) - 1
    return wide, queue, max(10, message), tries


def head_line(cells: int) -> Line:
    """The heads of the columns."""
    wide, queue, message, tries = _widths(cells)
    parts: list[tuple[Sequence[Piece], int, bool]] = [([("message", "faint")], message, False)]
    if queue:
        parts.insert(0, ([("queue", "faint")], queue, False))
    parts.append(([("died", "faint")], 8, True))
    if tries:
        parts.append(([("tries", "faint")], 5, True))
    return ((" " * LEAD, "text"), *fmt.fit([("id", "faint")], wide), *columns(parts))


def entry_line(job: JobRecord, cells: int, *, hide: int, at_cursor: bool) -> Line:
    """One dead letter."""
    wide, queue, message, tries = _widths(cells)
    name = [(cut_id(job.id, wide), "strong bold" if at_cursor else "text")]
    age = fmt.span_pieces(None if job.age_s is None else job.age_s * 1000)
    text = cut_end(safe_text(job.message or "", limit=400), message)
    parts: list[tuple[Sequence[Piece], int, bool]] = [([(text, "text")], message, False)]
    if queue:
        parts.insert(0, (queue_path(job.queue, queue, "muted", hide=hide), queue, False))
    parts.append((age, 8, True))
    if tries:
        parts.append((fmt.cell(fmt.count(job.attempts), "muted"), 5, True))
    return (("  ", "text"), ("✗", "bad"), (" ", "text"), *fmt.fit(name, wide), *columns(parts))


def total_words(seen: DeadSeen) -> str:
    """How much of everything is shown."""
    shown = len(seen.jobs)
    if shown < seen.total:
        return f"the newest {shown:,} of {seen.total:,} dead letters"
    return f"{shown:,} dead letter{'s' * (shown != 1)}"
