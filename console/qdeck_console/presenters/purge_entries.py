"""The entries of a plan as rows: the first ones of a queue, and all of them on a page of their own."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, TypeAlias

from qdeck.admin import PURGE_RULES, JobRecord, PlanEntry, Takes
from qdeck_console import format as fmt
from qdeck_console.presenters.line_parts import Naming, queue_path, section
from qdeck_console.presenters.payload import payload_pieces
from qdeck_console.presenters.purge import name_of
from qdeck_console.presenters.table import REST, Column, Table, TableCell
from qdeck_console.text import cut_end, safe_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qdeck.admin import Share
    from qdeck_console.format import Line, Piece

Jobs: TypeAlias = Mapping[str, JobRecord | None]


def sample_lines(share: Share, jobs: Jobs, threshold: str, cells: int, *, naming: Naming) -> list[Line]:
    """Return the first entries of a queue of the plan, with the jobs that were read or why they are taken."""
    rule = share.rule
    shown = len(share.samples)
    path = "".join(text for text, _ in queue_path(share.ref, 40, "strong", naming=naming))
    right: list[Piece] = [(f" 1–{shown} of {share.count:,}   ", "muted"), ("enter", "accent bold"), (" all ", "muted")]
    words = f"{name_of(rule)}" + (f" (limit {threshold})" if threshold != fmt.NONE else "")
    head = section(path, words, "strong", cells - fmt.length(right) - 1)
    lines: list[Line] = [(*head, (" ", "text"), *right)]
    table = table_of(rule, jobs)
    lines.append(table.head(cells))
    return lines + [table.line(entry, cells, jobs, at_cursor=False) for entry in share.samples]


def why_words(reason: str) -> str:
    """Return the reason of an entry without the threshold, which is in the head above it."""
    return _OVER.sub("", safe_text(reason, limit=300))


_OVER: Final = re.compile(r" \(limit [^)]*\)")


def _why(entry: PlanEntry, cell: TableCell[Jobs]) -> Sequence[Piece]:
    job = cell.view.get(entry.id)
    if job is None:
        return [(cut_end(why_words(entry.reason), cell.width), "muted")]
    name = safe_text(job.name or job.task or job.native_state, limit=60)
    pieces: list[Piece] = [(cut_end(name, (cell.width + 1) // 2), "text"), ("  ", "text")]
    return [*pieces, *(payload_pieces(job, cell.width - fmt.length(pieces)) if job.body is not None else ())]


def _bytes(entry: PlanEntry, _: TableCell[Jobs]) -> Sequence[Piece]:
    return fmt.size(entry.bytes) if entry.bytes else [(fmt.ZERO, "ghost")]


def _table(*, of_queues: bool, what: str) -> Table[PlanEntry, Jobs]:
    """Return a table of jobs, or one of queues, whose names are longer than ids."""
    return Table(
        Column(
            "queue" if of_queues else "id",
            lambda room: max(22, min(60, room * 2 // 5)) if of_queues else 22,
            lambda entry, cell: cell.id(entry.id),
        ),
        Column("age", 8, lambda entry, _: fmt.span_pieces(_ms(entry)), right=True),
        Column("bytes", 8, _bytes, right=True),
        Column(what, REST, _why, lead=1),
        drops=(),
    )


def _ms(entry: PlanEntry) -> float | None:
    return None if entry.age_s is None else entry.age_s * 1000


_TABLES: Final = {(of, what): _table(of_queues=of, what=what) for of in (True, False) for what in ("job", "why")}


def table_of(rule: str, jobs: Jobs) -> Table[PlanEntry, Jobs]:
    """Return the table of the entries of a rule: with what the jobs are, as far as they were read, or why they go."""
    return _TABLES[PURGE_RULES[rule].takes is Takes.QUEUES, "job" if any(jobs.values()) else "why"]
