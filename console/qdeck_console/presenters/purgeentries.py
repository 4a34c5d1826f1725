"""The entries of a plan as rows: the first ones of a queue, and all of them on a page of their own."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from qdeck_console import format as fmt
from qdeck_console.presenters.parts import LEAD, MARGIN, Naming, columns, queue_path, section
from qdeck_console.presenters.payload import payload_pieces
from qdeck_console.presenters.purge import name_of
from qdeck_console.temporary import RULES
from qdeck_console.text import cut_end, cut_id, safe_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from qdeck.admin import JobRecord, PlanEntry, Share
    from qdeck_console.format import Line, Piece


def sample_lines(
    share: Share, jobs: Mapping[str, JobRecord], threshold: str, cells: int, *, hide: Naming
) -> list[Line]:
    """The first entries of a queue of the plan, and what they are there for; what they are, as far as it was read."""
    rule = share.rule
    shown = len(share.samples)
    path = "".join(text for text, _ in queue_path(share.ref, 40, "strong", hide=hide))
    right: list[Piece] = [(f" 1–{shown} of {share.count:,}   ", "muted"), ("enter", "accent bold"), (" all ", "muted")]
    words = f"{name_of(rule)}" + (f", over {threshold}" if threshold != fmt.NONE else "")
    head = section(path, words, "strong", cells - fmt.length(right) - 1)
    lines: list[Line] = [(*head, (" ", "text"), *right)]
    lines.append(entry_head(rule, cells, what="job" if jobs else "why"))
    return lines + [entry_line(entry, cells, at_cursor=False, job=jobs.get(entry.id)) for entry in share.samples]


def why_words(reason: str) -> str:
    """The reason of an entry without the threshold, which the head above it has."""
    return _OVER.sub("", safe_text(reason, limit=300))


_OVER: Final = re.compile(r", over \w+ [\d,.]+(?: [sh]\b)?")


def _entry_widths(rule: str, cells: int) -> tuple[int, int]:
    """The cells of an id and of the reason; queues are known by their names, which are longer."""
    id_ = max(22, min(60, cells * 2 // 5)) if rule in RULES else 22
    return id_, max(8, cells - id_ - 8 - 8 - LEAD - MARGIN - 3)


def entry_head(rule: str, cells: int, *, what: str = "why") -> Line:
    """The heads of the entries of a plan."""
    id_, why = _entry_widths(rule, cells)
    heads: list[tuple[Sequence[Piece], int, bool]] = [
        ([("queue" if rule in RULES else "id", "faint")], id_, False), ([("age", "faint")], 8, True),
        ([("bytes", "faint")], 8, True), ([(f" {what}", "faint")], why, False),
    ]  # fmt: skip
    return ((" " * (LEAD - 1), "text"), *columns(heads))


def entry_line(entry: PlanEntry, cells: int, *, at_cursor: bool, job: JobRecord | None = None) -> Line:
    """One entry of a plan, with what it is or why it is there."""
    id_, why = _entry_widths(entry.rule or "", cells)
    last: list[Piece] = [(cut_end(" " + why_words(entry.reason), why), "muted")]
    if job is not None:
        name = safe_text(job.name or job.task or job.native_state, limit=60)
        last = [(" ", "text"), (cut_end(name, why // 2), "text"), ("  ", "text")]
        last += payload_pieces(job, why - fmt.length(last)) if job.body is not None else []
    values: list[tuple[Sequence[Piece], int, bool]] = [
        ([(cut_id(entry.id, id_), "strong bold" if at_cursor else "text")], id_, False),
        (fmt.span_pieces(None if entry.age_s is None else entry.age_s * 1000), 8, True),
        (fmt.size(entry.bytes) if entry.bytes else [(fmt.ZERO, "ghost")], 8, True),
        (last, why, False),
    ]
    return ((" " * (LEAD - 1), "text"), *columns(values))
