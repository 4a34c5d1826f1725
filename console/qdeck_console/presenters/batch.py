"""One operation: the outcomes of its jobs, their errors, what was requested, and what an undo restores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from qdeck.admin import MAX_UNDO_BYTES
from qdeck_console import format as fmt
from qdeck_console.operations import DONE
from qdeck_console.presenters.activity import RAN, REACHED, Later, count_of, name_of, rule_name, sign, what_became
from qdeck_console.presenters.charts import thin_bar
from qdeck_console.presenters.line_parts import Naming, pair, queue_path, section
from qdeck_console.text import cut_end, safe_text, wrap

if TYPE_CHECKING:
    from qdeck.admin import Activity, BatchOutcomes
    from qdeck_console.format import Line, Piece

_LABEL: Final = 9
_MOST_ERRORS: Final = 6
_MOST_QUEUES: Final = 8
_MOST_RULES: Final = 16


def side(row: Activity, cells: int, *, later: Later, now_ms: int, problem: str, naming: Naming) -> list[Line]:
    """Return the details of one operation; `problem` is why its outcomes are unknown."""
    known = later.outcomes
    found = [*_head(row, cells, later, now_ms)]
    if row.verb in REACHED and row.batch is not None and later.undone is None:
        found += [(), *_states(row, known, problem, cells)]
        if known is not None and known.errors and row.verb in RAN:
            found += [(), *_errors(known, cells)]
    elif row.batch is not None:
        found += [(), *_done(row, cells)]
    found += [(), *_how(row, cells, naming)]
    found += [(), *_undo(row, cells, later=later, now_ms=now_ms)]
    if known is not None:
        found += [(), *_store(known, cells)]
    return found


def _head(row: Activity, cells: int, later: Later, now_ms: int) -> list[Line]:
    count = count_of(row)
    title = safe_text(name_of(row), limit=40) + (f" {count:,}" if count is not None else "")
    words, told = what_became(row, later, now_ms)
    glyph, role = sign(row, later, told)
    outcomes = later.outcomes
    if later.undone is not None:
        state = "undone"
    elif later.paused:
        state = "paused"
    elif row.verb in RAN and outcomes is not None and outcomes.dead_again:
        state = "mixed" if outcomes.done else "dead again"
    elif row.verb in RAN and glyph == "▸":
        state = "in progress"
    else:
        state = safe_text(row.outcome, limit=20)
    word = f"{glyph} {state}"
    who = f"{row.batch + ', ' if row.batch else ''}by {row.who} at {fmt.clock(row.at_ms)}"
    who += f", continued by {row.continued_by}" if row.continued_by else ""
    who += "" if row.batch or row.verb not in DONE else "; cannot be undone"
    return [
        (*fmt.fit([(title, "strong bold")], cells - len(word)), (word, f"{role} bold")),
        ((cut_end(safe_text(who, limit=200), cells), "muted"),),
        *([((cut_end(words, cells), told),)] if row.verb in ("pause", "live") and words else []),
    ]


def _states(row: Activity, outcomes: BatchOutcomes | None, problem: str, cells: int) -> list[Line]:
    head = _head_with("outcomes", [(f"{outcomes.jobs:,}", "strong")] if outcomes else [], cells)
    if outcomes is None or not outcomes.jobs:
        words = problem or ("details expired" if outcomes is not None else "…")
        return [head, *(((part, "muted"),) for part in wrap(safe_text(words, limit=200), cells, most=3))]
    total = max(1, outcomes.total)
    ok, bad = outcomes.done, outcomes.dead_again
    worse = max(1 if bad else 0, round(cells * bad / total))
    good = min(round(cells * ok / total), cells - worse)
    rows: list[Line] = [head, (("━" * good, "ok"), ("━" * worse, "bad"), ("━" * (cells - good - worse), "line"))]
    again = "dead again" if row.verb in RAN else "dead"
    for glyph, role, word, count, always in (
        ("✓", "ok", "done", ok, True),
        ("✗", "bad", again, bad, True),
        ("▸", "accent", "running", outcomes.running, False),
        ("◦", "muted", "waiting", outcomes.pending, True),
        ("∅", "muted", "cancelled", outcomes.cancelled, False),
        ("–", "ghost", "no longer stored", outcomes.gone, False),
        ("–", "ghost", "skipped", row.counts.get("skipped", 0), True),
    ):
        if count or always:
            value = fmt.cell(fmt.count(count), "strong bold" if count else "text")
            rows.append(((glyph, role), *pair(f" {word}", value, cells - 1)))
    if not outcomes.is_whole:
        rows.append(((f"of the first {outcomes.total:,}", "faint"),))
    return rows


def _head_with(label: str, value: list[Piece], cells: int) -> Line:
    """Return a section title with a number at its end."""
    line = section(label, "", "muted", cells - (fmt.length(value) + 1 if value else 0), indent=0)
    return (*line, (" ", "text"), *value) if value else line


def _errors(outcomes: BatchOutcomes, cells: int) -> list[Line]:
    lines = [section("dead again, by error", "", "muted", cells, indent=0)]
    shown = list(outcomes.errors.items())
    for name, count in shown[:_MOST_ERRORS]:
        value: list[Piece] = [(f"{count:,}", "text")]
        room = cells - fmt.length(value) - 1
        lines.append((*fmt.fit([(cut_end(safe_text(name, limit=120), room), "text")], room), (" ", "text"), *value))
    if len(shown) > _MOST_ERRORS:
        lines.append(((f"{len(shown) - _MOST_ERRORS:,} other errors", "faint"),))
    if sum(outcomes.errors.values()) < outcomes.dead_again:
        lines.append(((f"of the first {sum(outcomes.errors.values()):,}", "faint"),))
    return lines


def _done(row: Activity, cells: int) -> list[Line]:
    """Return what it did to jobs that have no outcome."""
    lines = [section("result", "", "muted", cells, indent=0)]
    for label, name in (("planned", "planned"), ("done", "applied"), ("skipped", "skipped"), ("restored", "restored")):
        if name in row.counts:
            count = row.counts[name]
            lines.append(pair(label, fmt.cell(fmt.count(count), "strong" if count else "text"), cells))
    return lines if len(lines) > 1 else []


def _how(row: Activity, cells: int, naming: Naming) -> list[Line]:
    found = [section("request", "", "muted", cells, indent=0)]
    rules = row.rules
    for at, used in enumerate(rules[:_MOST_RULES]):
        words: Line = (
            (safe_text(rule_name(used), limit=80), "text"), ("  " + safe_text(used.words, limit=200), "muted"),
        )  # fmt: skip
        label = "" if at else "rule" if len(rules) == 1 else "rules"
        found.append((*fmt.fit([(label, "muted")], _LABEL), *fmt.fit(words, max(8, cells - _LABEL))))
    if len(rules) > _MOST_RULES:
        found.append(((" " * _LABEL + f"{len(rules) - _MOST_RULES} more", "faint"),))
    for name, text in (
        ("filter", row.filter),
        ("detail", row.detail),
        ("reason", row.reason),
        ("plan", row.plan or ""),
        ("from", row.host),
    ):
        if text:
            parts = wrap(safe_text(text, limit=600), max(8, cells - _LABEL), most=8)
            found += [
                (*fmt.fit([(name if not at else "", "muted")], _LABEL), (part, "text")) for at, part in enumerate(parts)
            ]
    for at, queue in enumerate(row.queues[:_MOST_QUEUES]):
        name = "" if at else "queue" if len(row.queues) == 1 else "queues"
        path = queue_path(queue, max(8, cells - _LABEL), "text", naming=naming)
        found.append((*fmt.fit([(name, "muted")], _LABEL), *path))
    if len(row.queues) > _MOST_QUEUES:
        found.append(((" " * _LABEL + f"{len(row.queues) - _MOST_QUEUES} more", "faint"),))
    return found


def _undo(row: Activity, cells: int, *, later: Later, now_ms: int) -> list[Line]:
    undone, outcomes = later.undone, later.outcomes
    left = 0 if row.undo_until_ms is None else row.undo_until_ms - now_ms
    if undone is not None:
        words = f"undone by {safe_text(undone.who, limit=40)} at {fmt.clock(undone.at_ms)}"
        return [_head_with("undo", [], cells), *_words(words, cells)]
    if row.batch is None or left <= 0:
        why = "undo has expired" if row.undo_until_ms else "nothing to undo"
        return [_head_with("undo", [], cells), ((why, "muted"),)]
    found = [_head_with("undo", [*fmt.span_pieces(left), (" left", "muted")], cells)]
    if outcomes is not None and row.verb in REACHED:
        found += _words(_would(outcomes, row.verb), cells)
    elif row.counts.get("applied"):
        found += _words(f"restores {fmt.counted(row.counts['applied'], 'job')}, except those that changed since", cells)
    if row.outcome == "interrupted" and (left := row.counts.get("planned", 0) - (count_of(row) or 0)) > 0:
        found += _words(f"enter continues: {left:,} are left", cells)
    return found


def left_to_undo(outcomes: BatchOutcomes) -> int:
    """Return how many of its jobs an undo restores: those that still wait."""
    return outcomes.left_to_undo


def _would(outcomes: BatchOutcomes, verb: str) -> str:
    back = left_to_undo(outcomes)
    ran = outcomes.running + outcomes.done + outcomes.cancelled + outcomes.gone
    dead = outcomes.dead_again if verb in RAN else 0
    but = []
    if ran:
        but.append(f"{ran:,} ran since")
    if dead:
        but.append(f"{dead:,} died again")
    words = f"restores {fmt.counted(back, 'job')}" if back else "nothing left to undo"
    return words + (f"; {' and '.join(but)}" if but else "")


def _words(words: str, cells: int) -> list[Line]:
    return [((part, "muted"),) for part in wrap(words, cells, most=3)]


def _store(outcomes: BatchOutcomes, cells: int) -> list[Line]:
    """Return how full the undo store is."""
    most = f"{MAX_UNDO_BYTES // 2**20}"
    value = [*fmt.size(outcomes.all_kept_bytes), (" of ", "muted"), (most, "text"), (" MB", "muted")]
    share = outcomes.all_kept_bytes / MAX_UNDO_BYTES
    return [_head_with("undo store", value, cells), tuple(thin_bar(share, cells, "muted"))]
