"""Applying the plan of a purge: the dialog before, the progress, and the purges of the agents."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from qdeck.admin import MAX_UNDO_BYTES, threshold
from qdeck_console import format as fmt
from qdeck_console.presenters.charts import thin_bar
from qdeck_console.presenters.confirm import PlanTerm, caution_terms, term_line
from qdeck_console.presenters.line_parts import section
from qdeck_console.presenters.purge import DAY_MS, ROLES, PurgeTotals, name_of
from qdeck_console.text import cut_end, safe_text, wrap

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qdeck.admin import AgentTask, Plan, Share
    from qdeck_console.format import Line, Piece

_ROOM: Final = f"{MAX_UNDO_BYTES >> 20} MiB"


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentPurges:
    """The purges of the agents, and how many bytes are kept for undo."""

    purge: AgentTask
    clean: AgentTask
    undo_bytes: int = 0


def size_words(number: int) -> str:
    """Return bytes as plain text."""
    return "".join(text for text, _ in fmt.size(number))


def auto_lines(runs: AgentPurges | None, now_ms: int, cells: int) -> list[Line]:
    """Return what the agents purged and when, and when they purge next."""
    if runs is None:
        return []
    lines: list[Line] = [section("automatic purge", "", "muted", cells)]
    lines += _task_lines(runs.purge, now_ms, cells, "off; start `qdeck agent --purge-every 3600`")
    lines += [(), section("automatic removal of temporary queues", "", "muted", cells)]
    never = "off; start `qdeck agent --clean-every 3600`"
    return lines + _task_lines(runs.clean, now_ms, cells, never)


def _task_lines(task: AgentTask, now_ms: int, cells: int, never: str) -> list[Line]:
    if task.started_ms is None:
        return [((f" {cut_end(never, cells - 1)}", "muted"),)]
    lines: list[Line] = []
    if task.held:
        lines.append(((" now    ", "muted"), ("runs", "accent"), (f" since {fmt.clock(task.started_ms)}", "muted")))
    if task.ended_ms is not None:
        told, role = _outcome(task)
        ago = f", {fmt.span(now_ms - task.ended_ms)} ago: "
        head = f"{fmt.clock(task.ended_ms)}{ago}"
        lines.append(((" last   ", "muted"), (head, "text"), (cut_end(told, max(8, cells - 8 - len(head))), role)))
        rules = task.summary.get("rules")
        if isinstance(rules, dict) and rules:
            words = ", ".join(f"{name_of(str(rule))} {_count(taken):,}" for rule, taken in rules.items())
            lines += [((f"        {part}", "muted"),) for part in wrap(safe_text(words), cells - 8, most=2)]
    due, every = task.next_ms, task.summary.get("every_s")
    if due is not None and isinstance(every, int | float):
        late = now_ms - due > max(60_000, every * 1000)
        words = f"was due {fmt.clock(due)}: no agent ran it" if late else f"about {fmt.clock(due)}"
        often = f", every {threshold(every)}"
        lines.append(((" next   ", "muted"), (words, "warn" if late else "text"), (often, "muted")))
    if task.holder:
        lines.append(((" agent  ", "muted"), (cut_end(safe_text(task.holder, limit=80), cells - 8), "text")))
    return lines


def _count(taken: Any) -> int:
    number = taken.get("count") if isinstance(taken, dict) else None
    return number if isinstance(number, int) else 0


def _outcome(task: AgentTask) -> tuple[str, str]:
    said = task.summary
    if task.outcome not in ("done", "stopped"):
        return f"{task.outcome}: {safe_text(str(said.get('error', '')), limit=200)}".rstrip(": "), "bad"
    planned, applied = said.get("planned", 0), said.get("applied", 0)
    if said.get("dry_run"):
        return f"{planned:,} planned (dry run)", "text"
    skipped = f", {said['skipped']:,} skipped" if isinstance(said.get("skipped"), int) and said["skipped"] else ""
    words = f"{applied:,} purged{skipped}" if applied or skipped else "nothing to purge"
    return words + (", stopped early" if task.outcome == "stopped" else ""), "text"


def apply_would(plan: Plan, purge_totals: PurgeTotals, undo_bytes: int | None, cells: int) -> list[Line]:
    """Return what applying the plan would do."""
    steps = -(-purge_totals.count // 500)
    words = (
        f"be applied in {fmt.counted(steps, 'step')} of up to 500 entries; each is checked again, skipped if it changed"
    )
    lines: list[Line] = [section("apply would", "", "muted", cells)]
    lines += [((f" {part}", "text"),) for part in wrap(words, cells - 2, most=2)]
    used = f" ({size_words(undo_bytes)} of {_ROOM} used)" if undo_bytes is not None else f", {_ROOM} at most"
    lines.append(((f" keep {size_words(purge_totals.bytes)} for undo", "text"), (used, "muted")))
    totals = plan.tail.totals
    if totals.dependents:
        lines += [
            ((f" {part}", "warn"),)
            for part in wrap(safe_text(f"{totals.dependents:,} {totals.dependents_words}"), cells - 2, most=2)
        ]
    return lines


def _undo_row(plan: Plan, size: int, now_ms: int) -> PlanTerm:
    """Return whether all of a plan of this size can be undone."""
    if plan.undo_limit:
        return PlanTerm("undo", "a part" if plan.tail.undoable else "none", plan.undo_limit, "warn bold")
    words = f"until {fmt.clock(now_ms + DAY_MS)}, keeps {size_words(size)} of {_ROOM}"
    return PlanTerm("undo", "all", words, "ok bold")


def confirm_rows(
    plan: Plan,
    shares: Sequence[Share],
    now_ms: int,
    cells: int,
    *,
    done: int = 0,
    filter_text: str = "",
) -> list[Line]:
    """Return the plan in numbers, for the dialog that asks before it is applied.

    `done` entries of it were applied or skipped before; `filter_text` is the filter of the screen.
    """
    tail, totals, purge_totals = plan.tail, plan.tail.totals, PurgeTotals.of(shares)
    found = f"found {fmt.span(now_ms - plan.head.created_ms)} ago"
    words = f"{fmt.counted(len(purge_totals.by_rule), 'rule')}, {fmt.counted(purge_totals.queues, 'queue')}, {found}"
    rows = [PlanTerm("entries", fmt.count(purge_totals.count), words)]
    if filter_text:
        rows.append(PlanTerm("", "▲", "the filter only hides rows; all is applied", "warn bold"))
    if done:
        rows.append(PlanTerm("before", fmt.count(done), "applied or skipped before"))
    for verb in dict.fromkeys(["discard", *(share.verb for share in shares)]):
        mine = [share for share in shares if share.verb == verb]
        rules = dict.fromkeys(name_of(share.rule) for share in mine)
        role = f"{ROLES.get(verb, 'strong')} bold"
        count = fmt.count(sum(share.count for share in mine))
        rows.append(PlanTerm(verb, count, ", ".join(rules) or "nothing is discarded", role))
    running = "without a live worker; late results are refused" if totals.running else "no running job is touched"
    rows.append(PlanTerm("running", fmt.count(totals.running), running, "warn bold"))
    waiting = totals.dependents_words if totals.dependents else "no job depends on them"
    rows.append(PlanTerm("dependents", fmt.count(totals.dependents), waiting, "warn bold"))
    if totals.failure_handlers:
        rows.append(
            PlanTerm("handlers", fmt.count(totals.failure_handlers), "failure handlers will be made", "warn bold")
        )
    if tail.skipped:
        rows.append(PlanTerm("skipped", fmt.count(len(tail.skipped)), tail.skipped[0].why))
    rows += [_undo_row(plan, purge_totals.bytes, now_ms), *caution_terms(tail.cautions, cells, most=2)]
    return [term_line(row, cells) for row in rows]


def applying_lines(plan: Plan, done: int, total: int, started: float, cells: int) -> list[Line]:
    """Return the progress of applying a plan."""
    passed = max(0.001, time.monotonic() - started)
    rate = done / passed
    right: list[Piece] = [("esc", "accent bold"), (" cancel ", "muted")]
    head: list[Piece] = [(f" plan {safe_text(plan.id, limit=40)}", "strong bold"), ("   applying", "accent")]
    tail: list[Piece] = [(f"  {done:,} of {total:,}", "strong bold"), (f"   {rate:,.0f}/s", "muted")]
    if done and passed > 1:
        tail.append((f"   ~{fmt.span((total - done) / rate * 1000)} left", "muted"))
    bar = max(10, min(60, cells - 2 - fmt.length(tail)))
    return [
        (*fmt.fit(head, cells - fmt.length(right)), *right),
        ((" ", "text"), *thin_bar(done / max(1, total), bar, "accent"), *tail),
        ((" what is applied until then can be undone", "muted"),),
    ]
