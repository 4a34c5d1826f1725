"""The plan of an operation in numbers, for the dialog that asks before it is done."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qdeck.admin import PRIORITIES, CautionCode, Feature, Verb, has_feature
from qdeck_console import format as fmt
from qdeck_console.presenters.parts import Naming, name_parts
from qdeck_console.text import cut_end, safe_text, wrap

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qdeck.admin import Activity, Plan, Skip
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


def safe_answer(act: str) -> str:
    """The answer that does nothing. Where jobs would be cancelled, `Cancel` beside `Cancel 3` could be taken for it."""
    return "Keep them" if act.startswith(f"{_WORDS[Verb.CANCEL]} ") else CANCEL


def buttons(act: str, *, on_act: bool, why_not: str, flat: bool) -> list[Piece]:
    """The two answers of a dialog and why the one that acts cannot be given yet. The first piece is the safe one, the
    third is the other one. `flat`: where grounds do not tell, brackets do, in as many cells.
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
    """How far a name that has to be typed is."""
    if typed == wanted:
        return "enter goes on", "muted"
    if not wanted.startswith(typed):
        return "that is not its name", "warn"
    left = len(wanted) - len(typed)
    return (f"{fmt.counted(left, 'letter')} to go", "muted") if typed else ("", "muted")


def live_lines(others: Sequence[Activity]) -> list[Line]:
    """What it means to write in production, and who else may."""
    rows = [
        ("for", "30 min", "then it is read-only again, by itself"),
        ("asks", "", "many, and what has no undo, want the name"),
        ("told", "", "name and reason go into the log (9 Activity)"),
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


def title(plan: Plan) -> str:
    """The sentence at the top: what, how many, where."""
    queues = len(plan.tail.by_queue)
    return f"{_WORDS[plan.verb]} {fmt.counted(plan.count, 'job')}" + (f" of {queues:,} queues" if queues > 1 else "")


def button(plan: Plan) -> str:
    """What the button that does it says."""
    word = "Apply" if plan.verb is Verb.PURGE else _WORDS[plan.verb]
    return f"{word} {plan.count:,}"


def plan_lines(plan: Plan, left_out: Sequence[Skip], cells: int, *, hide: Naming) -> list[Line]:
    """Label, number, words: what is done, where, what else it reaches, and what undo can take back."""
    tail, totals, verb = plan.tail, plan.tail.totals, plan.verb
    rows: list[tuple[str, str, str, str]] = []
    by_count = sorted(plan.by_queue.items(), key=lambda one: -one[1])
    told = [f"{count:,} {_short(plan.label(queue), hide)}" for queue, count in by_count]
    more = f", {len(told) - 3:,} more queues" if len(told) > 3 else ""
    rows.append(("entries", f"{plan.count:,}", "strong bold", ", ".join(told[:3]) + more))
    if plan.head.filter:
        rows.append(("match", "", "text", plan.head.filter))
    if plan.head.target:
        rows.append(("to queue", "", "text", _short(plan.head.target, hide)))
    if plan.head.priority is not None:
        named = {number: name for name, number in PRIORITIES.items()}
        rows.append(("to", f"{plan.head.priority:,}", "strong bold", named.get(plan.head.priority, "priority")))
    if verb in _GOES_AWAY:
        size = "".join(text for text, _ in fmt.size(tail.bytes))
        rows.append(("removed", fmt.count(plan.count), "bad bold", f"{size}, with what is kept about them"))
    if verb is Verb.CANCEL and totals.running:
        rows.append(("running", fmt.count(totals.running), "warn bold", "asked to stop; that is not undone"))
    else:
        rows.append(("running", fmt.count(totals.running), "text", _running(verb, totals.running)))
    if totals.dependents or verb in (*_GOES_AWAY, Verb.CANCEL, Verb.BURY):
        words = "jobs wait for them, and do not run any more" if verb is not Verb.RETRY else "jobs wait for them"
        rows.append(
            (
                "waited for",
                fmt.count(totals.dependents),
                "warn bold",
                words if totals.dependents else "no job waits for them",
            )
        )
    if totals.failure_handlers:
        rows.append(("handlers", fmt.count(totals.failure_handlers), "warn bold", "failure handlers will be made"))
    if totals.unique_held:
        rows.append(
            ("names", fmt.count(totals.unique_held), "warn bold", "have a unique name that another job holds now")
        )
    if left_out or tail.skipped:
        skipped = [*left_out, *tail.skipped]
        rows.append(("skipped", f"{len(skipped):,}", "strong bold", skipped[0].why))
    # What another system may do to them afterwards, in whole sentences.
    for caution in [one for one in tail.cautions if one.code is not CautionCode.NO_UNDO][:2]:
        parts = wrap(safe_text(caution.text, limit=300), cells - 24, most=4)
        rows += [("mind" if not number else "", "▲" if not number else "", "warn bold", part)
                 for number, part in enumerate(parts)]  # fmt: skip
    rows.append(("undo", *_undo(plan)))
    return [line for row in rows for line in _rows(*row, cells)]


def _undo(plan: Plan) -> tuple[str, str, str]:
    if plan.verb is Verb.CANCEL and plan.tail.totals.running:
        left = plan.count - plan.tail.totals.running
        return fmt.count(left), "warn bold", "the others, within 24 h"
    if plan.tail.has_no_undo:
        abroad = sum(count for queue, count in plan.by_queue.items() if not has_feature(queue.adapter, Feature.LEASES))
        lost = "its worker loses it for good" if plan.count - abroad == 1 else "their workers lose them for good"
        if not abroad:
            return "none", "warn bold", lost
        return fmt.count(abroad), "warn bold", f"of other systems, within 24 h; of ours {lost}"
    return "all", "ok bold", "within 24 h; what ran meanwhile stays"


def _running(verb: Verb, running: int) -> str:
    if not running:
        return "none is touched"
    return (
        "taken back, fenced: what their workers say of them is refused" if verb is not Verb.PURGE else "without owner"
    )


def _short(queue: str, hide: Naming) -> str:
    return " ▸ ".join(name_parts(queue, hide=hide))


def _rows(label: str, number: str, role: str, words: str, cells: int) -> list[Line]:
    """A row, on two lines where its words need them: what a plan does is not cut off."""
    first, *rest = wrap(safe_text(words, limit=300), cells - 24, most=2) or [""]
    return [_row(label, number, role, first, cells), *(_row("", "", "text", part, cells) for part in rest)]


def _row(label: str, number: str, role: str, words: str, cells: int) -> Line:
    head: list[Piece] = fmt.fit([(label, "muted")], 12)
    value = fmt.fit([(number, "ghost" if number == fmt.ZERO else role)], 9, right=True)
    return (*head, *value, ("   ", "text"), (cut_end(safe_text(words, limit=300), cells - 24), "text"))
