"""The plan of an operation in numbers, for the dialog that asks before it is applied."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from qdeck.admin import PRIORITY_NAMES, CautionCode, Feature, Verb, has_feature
from qdeck_console import format as fmt
from qdeck_console.presenters.activity import REACHED
from qdeck_console.presenters.line_parts import Naming, name_parts
from qdeck_console.text import cut_end, safe_text, wrap

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterable, Sequence

    from qdeck.admin import Activity, Caution, Plan
    from qdeck_console.format import Line, Piece

_WORDS: dict[Verb, str] = {
    Verb.RETRY: "Retry",
    Verb.DISCARD: "Discard",
    Verb.CANCEL: "Cancel",
    Verb.RUN: "Run now",
    Verb.REPRIORITISE: "Reprioritise",
    Verb.REQUEUE: "Requeue",
    Verb.BURY: "Bury",
    Verb.MOVE: "Move",
    Verb.EDIT: "Edit",
    Verb.PURGE: "Purge",
}
_GOES_AWAY = (Verb.DISCARD, Verb.PURGE)
CANCEL = "Cancel"
_WORDS_OF_LIVE = 46
_MOST_REASONS: Final = 3  # why jobs are left out
_MOST_READ: Final = 100  # entries of a plan that are read for the question
_MOST_CAUTIONS: Final = 4


def safe_answer(act: str) -> str:
    """Return the label of the button that does nothing: `Cancel` beside `Cancel 3` would be ambiguous."""
    return "Keep them" if act.startswith(f"{_WORDS[Verb.CANCEL]} ") else CANCEL


def buttons(act: str, *, on_act: bool, why_not: str, flat: bool) -> list[Piece]:
    """Return the two buttons of a dialog and why the one that acts is disabled: the first piece is the safe button, the
    third the other one. `flat`: with brackets, where background colours cannot mark buttons, in the same width.
    """
    roles = ["text on-raised", "text on-raised"]
    roles[int(on_act)] = "strong bold on-bad_dim" if on_act else "strong bold on-cursor"
    marks = ["[]", "[]"] if flat else ["  ", "  "]
    if why_not:
        roles[0] = "text on-raised" if on_act else "strong bold on-raised"
        roles[1], marks[1] = "faint on-raised", "()" if flat else "  "
    if flat:  # the one that has the focus shines, the others are text like any other
        roles = [role.replace("on-raised", "on-panel").replace("on-bad_dim", "on-cursor") for role in roles]
    first, second = (f"{mark[0]} {word} {mark[1]}" for mark, word in zip(marks, (safe_answer(act), act), strict=True))
    pieces: list[Piece] = [(first, roles[0]), ("   ", "text"), (second, roles[1])]
    return [*pieces, (f"   {why_not}", "muted")] if why_not else pieces


def to_go(typed: str, wanted: str) -> Piece:
    """Return how much of a name is still to be typed."""
    if typed == wanted:
        return "enter continues", "muted"
    if not wanted.startswith(typed):
        return "not the name", "warn"
    left = len(wanted) - len(typed)
    return (f"{fmt.counted(left, 'character')} left", "muted") if typed else ("", "muted")


def live_lines(others: Sequence[Activity]) -> list[Line]:
    """Return what writing in production means, and who else may write."""
    rows = [
        ("for", "30m", "then read-only again"),
        ("confirm", "", "bulk and irreversible actions: context name"),
        ("recorded", "", "context, operator and reason, in 9 Activity"),
    ]
    if others:
        last = others[-1]
        words = f"{last.who}@{last.host} since {fmt.clock(last.at_ms)}: {last.reason}"
        rows.append(("also", f"{len(others):,} live", words))
    return [
        (
            *fmt.fit([(label, "muted")], 12), *fmt.fit([(number, "strong bold")], 8), ("   ", "text"),
            (cut_end(safe_text(words, limit=300), _WORDS_OF_LIVE), "text"),
        )
        for label, number, words in rows
    ]  # fmt: skip


def title(plan: Plan, left_out: int = 0) -> str:
    """Return the question at the top: the verb, how many jobs, of how many that were asked for, in how many queues."""
    queues = len(plan.tail.by_queue)
    jobs = f"{plan.count:,} of {plan.count + left_out:,} jobs" if left_out else fmt.counted(plan.count, "job")
    return f"{_WORDS[plan.verb]} {jobs}" + (f" in {queues:,} queues" if queues > 1 else "")


def button(plan: Plan) -> str:
    """Return the label of the button that acts."""
    word = "Apply" if plan.verb is Verb.PURGE else _WORDS[plan.verb]
    return f"{word} {plan.count:,}"


class PlanTerm(NamedTuple):
    """A term of an operation: label, number with its role, and words."""

    label: str
    number: str
    words: str
    role: str = "strong bold"


def plan_lines(
    plan: Plan, left_out: Counter[str], cells: int, *, naming: Naming, terms: Sequence[PlanTerm] = ()
) -> list[Line]:
    """Return what is done, where and on which terms, what else it reaches, what is left out and why, and what undo can
    restore. `left_out` counts jobs by the reason.
    """
    rows = [_jobs(plan, naming), *terms, *_asked(plan, naming), *_change(plan, cells), _running(plan), *_reached(plan)]
    rows += [PlanTerm("left out", f"{count:,}", why) for why, count in left_out.most_common(_MOST_REASONS)]
    more = sum(left_out.values()) - sum(count for _, count in left_out.most_common(_MOST_REASONS))
    rows += [PlanTerm("", f"{more:,}", "for other reasons")] if more else []
    cautions = [one for one in plan.tail.cautions if one.code is not CautionCode.NO_UNDO]
    return question_lines([*rows, *caution_terms(cautions, cells, most=4, label="note"), _undo(plan)], cells)


def caution_terms(cautions: Sequence[Caution], cells: int, *, most: int, label: str = "") -> list[PlanTerm]:
    """Return what another system does with the jobs, in whole sentences of at most `most` lines."""
    rows = []
    for caution in cautions[:_MOST_CAUTIONS]:
        parts = wrap(safe_text(caution.text, limit=300), cells - 24, most=most)
        rows += [PlanTerm("" if at else label, "" if at else "▲", part, "warn bold") for at, part in enumerate(parts)]
    return rows


def question_lines(rows: Iterable[PlanTerm], cells: int) -> list[Line]:
    """Return the terms of an operation as lines of a question."""
    return [line for row in rows for line in _lines(row, cells)]


def _jobs(plan: Plan, naming: Naming) -> PlanTerm:
    by_count = sorted(plan.by_queue.items(), key=lambda one: -one[1])
    told = [f"{count:,} {_short(plan.label(queue), naming)}" for queue, count in by_count]
    more = f", {len(told) - 3:,} more queues" if len(told) > 3 else ""
    return PlanTerm("jobs", f"{plan.count:,}", ", ".join(told[:3]) + more)


def _asked(plan: Plan, naming: Naming) -> list[PlanTerm]:
    """Return the filter, and to what jobs are changed."""
    rows = [PlanTerm("filter", "", plan.head.filter)] if plan.head.filter else []
    if plan.head.target:
        rows.append(PlanTerm("to queue", "", _short(plan.head.target, naming)))
    if plan.head.priority is not None:
        name = PRIORITY_NAMES.get(plan.head.priority, "priority")
        rows.append(PlanTerm("to", f"{plan.head.priority:,}", name))
    if plan.verb in _GOES_AWAY:
        size = "".join(text for text, _ in fmt.size(plan.tail.bytes))
        rows.append(PlanTerm("removed", fmt.count(plan.count), f"{size}, with their history", "bad bold"))
    return rows


def _change(plan: Plan, cells: int) -> list[PlanTerm]:
    """Return what is done to jobs of another system, where it is the same for all: its name does not say it."""
    if all(has_feature(queue.adapter, Feature.STATES) for queue in plan.by_queue):
        return []
    changes = {entry.reason for entry in islice(plan.entries(), _MOST_READ)}
    if len(changes) != 1 or plan.count > _MOST_READ:
        return []
    parts = wrap(safe_text(changes.pop(), limit=300), cells - 24, most=3)
    return [PlanTerm("" if at else "change", "", part) for at, part in enumerate(parts)]


def _has_leases(plan: Plan) -> bool:
    """Return whether workers hold leases on jobs of a plan: only then is one requested to stop, or loses its job."""
    return any(has_feature(queue.adapter, Feature.LEASES) for queue in plan.by_queue)


def _running(plan: Plan) -> PlanTerm:
    count, verb = plan.tail.totals.running, plan.verb
    if not count:
        return PlanTerm("running", fmt.count(count), "none")
    if verb is Verb.PURGE:
        return PlanTerm("running", fmt.count(count), "without a live worker", "text")
    if not _has_leases(plan):
        return PlanTerm("running", fmt.count(count), f"{_WORDS[verb].lower()} acts at once", "warn bold")
    if verb is Verb.CANCEL:
        return PlanTerm("running", fmt.count(count), "requested to stop; undo does not restart them", "warn bold")
    whose, late = ("its worker", "a late result is") if count == 1 else ("their workers", "late results are")
    return PlanTerm("running", fmt.count(count), f"taken from {whose}; {late} refused", "text")


def _reached(plan: Plan) -> list[PlanTerm]:
    """Return what else it reaches: dependents, failure handlers, unique names."""
    totals, verb, rows = plan.tail.totals, plan.verb, []
    if totals.dependents or verb in (*_GOES_AWAY, Verb.CANCEL, Verb.BURY):
        words = "of them have dependents" if verb in (Verb.RETRY, Verb.COMPLETE) else totals.dependents_words
        words = words if totals.dependents else "no job waits for them"
        rows.append(PlanTerm("dependents", fmt.count(totals.dependents), words, "warn bold"))
    if totals.failure_handlers:
        rows.append(
            PlanTerm("handlers", fmt.count(totals.failure_handlers), "failure handlers are enqueued", "warn bold")
        )
    if totals.waiting_again:
        rows.append(PlanTerm("waiting", fmt.count(totals.waiting_again), "wait until their dependency has succeeded"))
    if totals.unique_held:
        words = "skipped: another job holds their unique name"
        rows.append(PlanTerm("unique", fmt.count(totals.unique_held), words, "warn bold"))
    return rows


def _undo(plan: Plan) -> PlanTerm:
    if plan.verb is Verb.CANCEL and plan.tail.totals.running and _has_leases(plan):
        left = plan.count - plan.tail.totals.running
        return PlanTerm("undo", fmt.count(left), "jobs that are not running, for 24h", "warn bold")
    if plan.tail.undoable is not None:
        return undo_limit(plan)
    if not plan.tail.has_no_undo:
        since = "; jobs that have run since cannot be restored" if plan.verb in REACHED else ""
        return PlanTerm("undo", "all", f"{fmt.counted(plan.count, 'job')}, for 24h{since}", "ok bold")
    others = sum(count for queue, count in plan.by_queue.items() if not has_feature(queue.adapter, Feature.LEASES))
    if others:
        words = "of other systems, for 24h; native jobs cannot be returned to their workers"
        return PlanTerm("undo", fmt.count(others), words, "warn bold")
    words = "its worker loses the lease" if plan.count == 1 else "their workers lose the leases"
    return PlanTerm("undo", "none", f"not possible: {words}", "warn bold")


def is_undone_whole(plan: Plan) -> bool:
    """Return whether undo restores all that a plan does: then `y` may confirm it."""
    return _undo(plan).number == "all" and not plan.tail.cautions and not plan.tail.totals.failure_handlers


def undo_limit(plan: Plan) -> PlanTerm:
    """Return how many entries of a plan can be undone, where undo cannot keep all."""
    return PlanTerm("undo", "a part" if plan.tail.undoable else "none", plan.undo_limit, "bad bold")


def _short(queue: str, naming: Naming) -> str:
    return " ▸ ".join(name_parts(queue, naming=naming))


def _lines(row: PlanTerm, cells: int) -> list[Line]:
    """Return a row, on two lines where its words need them: what a plan does is not cut off."""
    first, *rest = wrap(safe_text(row.words, limit=300), cells - 24, most=2) or [""]
    return [term_line(row._replace(words=first), cells), *(term_line(PlanTerm("", "", part), cells) for part in rest)]


def term_line(row: PlanTerm, cells: int) -> Line:
    """Return a term on one line."""
    head: list[Piece] = fmt.fit([(row.label, "muted")], 12)
    value = fmt.fit([(row.number, "ghost" if row.number == fmt.ZERO else row.role)], 9, right=True)
    return (*head, *value, ("   ", "text"), (cut_end(safe_text(row.words, limit=300), cells - 24), "text"))
