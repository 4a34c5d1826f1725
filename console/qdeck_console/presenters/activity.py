"""The log of operations as rows: who did what where, and what became of it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from qdeck.admin import Verb
from qdeck_console import format as fmt
from qdeck_console.operations import DONE
from qdeck_console.presenters.line_parts import MARGIN, Naming, name_parts
from qdeck_console.presenters.table import REST, Column, Table, TableCell
from qdeck_console.text import cut_end, safe_text, width

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from qdeck.admin import Activity, BatchOutcomes, BatchResult, UsedRule
    from qdeck_console.format import Line, Piece

REACHED: Final = frozenset({"retry", "requeue", "run", "edit", "reprioritise", "move"})  # jobs that go on elsewhere
RAN: Final = frozenset({"retry", "requeue", "run", "edit"})  # jobs that shall run
OPEN: Final = ("running", "interrupted")  # outcomes of what was not applied to its end
_MOST_QUEUES: Final = 20  # that an entry of the log names
_LOOKS: Final = {
    "done": ("✓", "ok"),
    "failed": ("✗", "bad"),
    "running": ("▸", "accent"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Later:
    """What is known of an operation besides its line in the log."""

    undone: Activity | None = None
    outcomes: BatchOutcomes | None = None
    paused: bool = False  # the queue that it paused is so still
    resumed: Activity | None = None
    ended: bool = False  # a context that it opened is read-only again


class ActivityView(NamedTuple):
    """What a row is drawn with besides its line in the log."""

    later: Later
    now_ms: int
    naming: Naming


def _plain(view: ActivityView) -> str:
    return "faint" if view.later.undone else "text"


def _verb(row: Activity, cell: TableCell[ActivityView]) -> list[Piece]:
    role = "faint" if cell.view.later.undone else "strong"
    return [(cut_end(safe_text(name_of(row), limit=40), cell.width), f"{role} bold")]


def name_of(row: Activity) -> str:
    """Return the name of an operation."""
    return row.detail if row.is_redrive else row.verb


def _place(row: Activity, cell: TableCell[ActivityView]) -> list[Piece]:
    strong = cell.at_cursor and not cell.view.later.undone
    return _where(row, cell.view.naming, cell.width, "strong" if strong else _plain(cell.view))


def _result(row: Activity, cell: TableCell[ActivityView]) -> list[Piece]:
    words, role = what_became(row, cell.view.later, cell.view.now_ms)
    return [(cut_end(words, cell.width), role if role != "text" else _plain(cell.view))]


def _undo(row: Activity, cell: TableCell[ActivityView]) -> list[Piece]:
    later = cell.view.later
    known = later.outcomes if row.verb in REACHED else None
    restores_none = known is not None and known.is_whole and bool(known.no_undo)
    if row.undo_until_ms is None or later.undone or restores_none:
        return [(fmt.NONE, "ghost")]
    left = row.undo_until_ms - cell.view.now_ms
    return fmt.span_pieces(left) if left > 0 else [("over", "faint")]


def _sign(row: Activity, view: ActivityView) -> Piece:
    return sign(row, view.later, what_became(row, view.later, view.now_ms)[1])


def table_of(rows: Sequence[Activity] = ()) -> Table[Activity, ActivityView]:
    """Return the columns, as wide as this log needs them. When it is narrow, who goes first, then the time for undo."""
    when = max([8, *(width(fmt.clock(row.at_ms)) for row in rows)])
    who = min(17, max([3, *(width(safe_text(row.who, limit=20)) for row in rows)]))
    what = min(14, max([9, *(width(safe_text(row.verb, limit=20)) for row in rows)]))
    return Table(
        Column("time", when, lambda row, cell: [(fmt.clock(row.at_ms), _plain(cell.view))]),
        Column("who", who, lambda row, cell: [(cut_end(safe_text(row.who, limit=80), cell.width), "muted")]),
        Column("operation", what, _verb),
        Column("where", 22, _place),
        Column("count", 7, lambda row, cell: fmt.cell(fmt.count(count_of(row)), _plain(cell.view)), right=True),
        Column("result", REST, _result, lead=1),
        Column("undo", 8, _undo, right=True),
        sign=_sign,
        least=25,
        drops=("who", "undo", "where", "count"),
    )


def lines(
    row: Activity, table: Table[Activity, ActivityView], cells: int, view: ActivityView, *, at_cursor: bool
) -> list[Line]:
    """Return the lines of an operation; what it was for and why is on a second line."""
    first = table.line(row, cells, view, at_cursor=at_cursor)
    if height(row, table, cells) == 1:
        return [first]
    why, quiet = _why(row), "faint" if view.later.undone else "muted"
    indent = table.start("operation", cells)
    room = max(8, cells - indent - MARGIN)
    second: list[Piece] = []
    if not table.has("where", cells):
        second = _where(row, view.naming, min(room, 30), _plain(view))
        second += [("  ·  ", "ghost")] if why else []
    second.append((safe_text(why, limit=300), quiet))
    return [first, ((" " * indent, "text"), *fmt.fit(second, room))]


def _why(row: Activity) -> str:
    """The filter or the rules, and the reason; what stands in the first line already is not said again."""
    rules = [rule_name(one) for one in row.rules]
    what = (row.filter or ("" if row.is_redrive else row.detail) or "".join(rules[:1])) if row.queues else ""
    if len(rules) > 1:
        what = f"{len(rules)} rules: {', '.join(rules)}"
    continued = f"continued by {row.continued_by}" if row.continued_by else ""
    return "  ·  ".join(part for part in (what, row.reason, continued) if part)


def rule_name(used: UsedRule) -> str:
    """The name of a rule, in words."""
    return used.rule.replace("_", " ")


def height(row: Activity, table: Table[Activity, ActivityView], cells: int) -> int:
    """Return how many lines it takes: the queue is on the second line when it has no column."""
    return 2 if _why(row) or (row.queues and not table.has("where", cells)) else 1


def _where(row: Activity, naming: Naming, cells: int, role: str) -> list[Piece]:
    if len(row.queues) == 1:
        return fmt.path(name_parts(row.queues[0], naming=naming), cells, role)
    if row.queues:
        more = "≥ " if len(row.queues) >= _MOST_QUEUES else ""
        return [(f"{more}{len(row.queues):,} queues", role)]
    rules = "".join(rule_name(one) for one in row.rules[:1])
    words = safe_text(row.filter or row.detail or rules, limit=200)
    words = f"{len(row.rules)} rules" if len(row.rules) > 1 else words
    return [(cut_end(words, cells), role)] if words else [(fmt.NONE, "ghost")]


def count_of(row: Activity) -> int | None:
    """Return how many jobs it changed."""
    return row.counts.get("applied", row.counts.get("restored", row.counts.get("removed")))


def sign(row: Activity, later: Later, told: str) -> Piece:
    """The sign of an operation, with its role."""
    if later.undone:
        return ("◁", "faint")
    if later.paused:
        return ("║", "warn")
    glyph, role = _LOOKS.get(row.outcome, ("▲", "warn"))
    outcomes = later.outcomes
    if glyph == "✓" and row.verb in RAN and outcomes is not None and (outcomes.pending or outcomes.running):
        return ("▸", "accent")
    return ("▲", "warn") if told == "warn" and glyph == "✓" else (glyph, role)


def what_became(row: Activity, later: Later, now_ms: int) -> Piece:
    """Return its outcome in words, with their role."""
    undone = later.undone
    if undone is not None:
        told = undone.counts.get("restored")
        when = fmt.clock(undone.at_ms)
        when = when[:-3] if when.count(":") == 2 else when  # to the minute; of another day it is already
        skipped = undone.counts.get("skipped", 0)
        words = f"undone by {safe_text(undone.who, limit=20)} {when}"
        words += f": {told or 0:,} restored" + (f", {skipped:,} skipped" if skipped else "")
        return words, "text"
    if row.outcome not in OPEN and later.outcomes is not None and row.verb in RAN and later.outcomes.total:
        return truth(later.outcomes)
    if row.verb == "pause" and row.queues:
        if later.paused:
            return f"still paused, {fmt.span(max(0, now_ms - row.at_ms))}", "warn"
        if later.resumed is not None:
            who = safe_text(later.resumed.who, limit=20)
            return f"resumed by {who}, {fmt.clock(later.resumed.at_ms)}", "text"
        return "resumed", "text"
    if row.verb == "live":
        until = row.counts.get("until_ms")
        if until is None:
            return "", "text"
        over = later.ended or until <= now_ms
        return ("ended" if over else f"ends {fmt.clock(until)}"), "text"
    return _outcome(row)


def _outcome(row: Activity) -> Piece:
    if row.outcome in OPEN:
        return _progress(row), "warn" if row.outcome == "interrupted" else "text"
    applied, skipped = count_of(row), row.counts.get("skipped", row.counts.get("left", 0))
    role = "bad" if row.outcome == "failed" else "text"
    if applied is None:
        return safe_text(row.outcome, limit=60), role
    done = DONE[Verb(row.verb)] if row.verb in DONE else "restored" if row.verb == "undo" else "done"
    words = f"{applied:,} {done}" + (f", {skipped:,} skipped" if skipped else "")
    if row.outcome not in ("done", "running"):
        words = f"{safe_text(row.outcome, limit=30)}: {words}"
    return words, role


def _progress(row: Activity) -> str:
    """Return the progress of an operation that runs or was interrupted."""
    words = [f"{row.outcome}: {count_of(row) or 0:,}"]
    if "planned" in row.counts:
        words.append(f"of {row.counts['planned']:,}")
    return " ".join(words)


def truth(outcomes: BatchOutcomes) -> tuple[str, str]:
    """Return where the jobs of a batch are now, in words, with their role."""
    parts = [
        (outcomes.done, "done"), (outcomes.dead_again, "dead again"), (outcomes.running, "running"),
        (outcomes.pending, "waiting"), (outcomes.cancelled, "cancelled"),
        (outcomes.gone, "no longer stored"), (outcomes.unknown, "outcome unknown"),
    ]  # fmt: skip
    words = ", ".join(f"{count:,} {word}" for count, word in parts if count)
    if not outcomes.is_whole:
        words = f"≥ {words}"
    return words or "no longer kept", "warn" if outcomes.dead_again else "text"


def became(result: BatchResult, outcomes: BatchOutcomes) -> tuple[str, str, str]:
    """Return what became of the jobs of a batch in a few words, with role and glyph."""
    words = f"{result.applied:,} {DONE[result.verb]}: {truth(outcomes)[0]}"
    if outcomes.dead_again:
        return words, "warn", "▲"
    return (words, "accent", "▸") if outcomes.pending or outcomes.running else (words, "ok", "✓")


def pairs_of_pauses(rows: Iterable[Activity]) -> dict[str, Activity | None]:
    """Of each pause in the log, the newest first, what ended it; None is the last one of its queue: it may hold."""
    ended: dict[str, Activity | None] = {}
    last: dict[str, Activity] = {}
    for row in rows:
        if row.verb in ("pause", "resume") and len(row.queues) == 1:
            if row.verb == "pause":
                ended.setdefault(identity(row), last.get(row.queues[0]))
            last[row.queues[0]] = row
    return ended


def identity(row: Activity) -> str:
    """Return the identity of a line of the log."""
    return f"{row.at_ms}/{row.verb}/{row.batch}/{row.filter}/{row.detail}/{','.join(row.queues)}"


def day(at_ms: int) -> str:
    """The group of a moment."""
    then = time.localtime(at_ms / 1000)
    return "today" if time.strftime("%Y%j", then) == time.strftime("%Y%j") else "before"
