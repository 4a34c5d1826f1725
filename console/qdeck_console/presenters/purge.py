"""The purge as a place to work: rules with thresholds, the dry run as it goes, and its plan by rule and queue."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from qdeck._deck.model import State
from qdeck._rules.limits import Effect, Limits, Rule
from qdeck_console import format as fmt
from qdeck_console.presenters.charts import thin_bar
from qdeck_console.presenters.parts import LEAD, MARGIN, columns, queue_path, section, sentence
from qdeck_console.text import cut_end, cut_id, safe_text, wrap

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from qdeck._deck.model import QueueRow
    from qdeck._operations.model import BatchResult, PlanEntry
    from qdeck._operations.planfile import Plan
    from qdeck._operations.planindex import Share
    from qdeck_console.format import Line, Piece

KEYS: Final[Mapping[str, str]] = {rule.value: rule.key for rule in Rule} | {
    "pending_too_old": "max_pending_age",
    "request_too_old": "max_request_age",
    "task_too_old": "max_task_age",
}
_ABOUT: Final = {
    "running_without_owner": "A job whose lease ran out so long ago, and that nobody took back: its worker is gone.",
    "ready_too_old": "A job that has been ready for so long. Whoever wanted it has given up on it by now.",
    "done_too_old": "A record of a job that ended well so long ago, with its result and its output.",
    "dead_too_old": "A dead letter that nobody has looked after for so long.",
    "dead_too_many": "The oldest dead letters of a queue beyond so many.",
    "cancelled_too_old": "A job that was cancelled, or that expired before it could start, so long ago.",
    "orphaned_records": "What is kept of a job that is in no state: a leftover of a crash or of another program.",
    "pending_too_old": "A VM that has been pending for so long never came up. The pool clones a new one.",
    "request_too_old": "A request that nobody has asked about for so long.",
    "task_too_old": "A task that ended so long ago.",
    "broken_entries": "An entry that its own system cannot read.",
    "overdue_delayed": "A delayed entry whose time has come for over a minute, and that nobody put in line.",
}
_STATE_OF: Final = {
    "running_without_owner": State.RUNNING,
    "ready_too_old": State.READY,
    "done_too_old": State.DONE,
    "dead_too_old": State.DEAD,
    "dead_too_many": State.DEAD,
    "cancelled_too_old": State.CANCELLED,
}
_EFFECTS: Final = {
    "bury": ("→ dead letters", "muted"),
    "requeue": ("→ ready", "muted"),
    "complete": ("→ completed", "muted"),
    "retry": ("→ ready", "muted"),
    "run": ("→ ready", "muted"),
    "cancel": ("cancelled", "warn"),
    "expire": ("expires", "muted"),
    "discard": ("removed", "bad"),
}
# Seconds of a unit, its name, and from how many seconds on it is used.
_UNITS: Final = ((86_400, "d", 259_200), (3600, "h", 3600), (60, "min", 120), (1, "s", 0))
_BOX: Final = 9
# What is done to entries, by what operators call it: the effects, and the role of their number.
_DONE_TO: Final[Mapping[str, tuple[tuple[str, ...], str]]] = {
    "removed": (("discard",), "bad bold"),
    "cancelled": (("cancel",), "warn bold"),
    "moved": (("bury", "requeue", "complete", "retry", "run"), "strong bold"),
    "expire": (("expire",), "strong bold"),
}


def name_of(rule: str) -> str:
    """A rule as it is called on screen."""
    return rule.replace("_", " ")


def effect_of(effect: str) -> Piece:
    """What becomes of an entry, in a word."""
    return _EFFECTS.get(effect, (effect, "muted"))


def at_least(count: int, cells: int) -> str:
    """A number that is not exact yet, in so many cells."""
    full = f"≥ {count:,}"
    return full if len(full) <= cells else f"≥ {fmt.short_count(count)}"


def age_words(seconds: float) -> str:
    """A threshold as people write it: 30 min, 48 h, 7 d."""
    size, unit = next(unit for unit in _UNITS if seconds >= unit[2])[:2]
    return f"{seconds / size:g} {unit}" if seconds % size == 0 else f"{seconds / size:.3g} {unit}"


def threshold_words(limits: Limits, rule: str) -> str:
    """The threshold of a rule."""
    key = KEYS.get(rule)
    if key is None:
        return fmt.NONE
    value = getattr(limits, key)
    if key == "dlq_max_entries":
        return f"{value:,}"
    return age_words(value * 3600 if key == "dlq_ttl" else value)


def weight(rule: str, row: QueueRow) -> int:
    """About how much work a rule is in a queue, for the progress of a dry run."""
    state = _STATE_OF.get(rule)
    return 1 + (getattr(row, state.value) or 0 if state is not None else (row.ready or 0) + (row.done or 0))


@dataclass(slots=True)
class DryRun:
    """A dry run as it goes: how far it is, and what it found until now."""

    rules: tuple[str, ...]
    weights: Mapping[tuple[str, str], int]
    started: float = field(default_factory=time.monotonic)
    over: set[tuple[str, str]] = field(default_factory=set)
    scanned: int = 0
    now: str = ""

    @property
    def share(self) -> float:
        """How much of it is done."""
        total = sum(self.weights.values()) or 1
        return min(0.99, sum(self.weights.get(pair, 0) for pair in self.over) / total)

    def is_over(self, rule: str) -> bool:
        """Whether a rule has been through every queue."""
        mine = {pair for pair in self.weights if pair[1] == rule}
        return mine <= self.over


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleRow:
    """One rule: whether it is on, its threshold, what it was, and what it found."""

    rule: str
    on: bool
    threshold: str
    was: str = ""
    found: int | None = None
    exact: bool = True


def rules_head(cells: int) -> Line:
    """The heads of the rules."""
    name = _rule_width(cells)
    return (
        (" " * LEAD, "text"), *fmt.fit([("rule", "faint")], name), ("  ", "text"),
        *fmt.fit([("older than", "faint")], _BOX + 12), *fmt.fit([("found", "faint")], 8, right=True),
    )  # fmt: skip


def _rule_width(cells: int) -> int:
    return max(16, min(23, cells - LEAD - MARGIN - _BOX - 12 - 8 - 2))


def rule_line(row: RuleRow, cells: int, *, at_cursor: bool) -> Line:
    """One rule."""
    name = _rule_width(cells)
    label = "strong bold" if at_cursor else "text" if row.on else "faint"
    value = "faint" if not row.on else "warn bold" if row.was else "text"
    found: list[Piece] = [("off", "faint")]
    if row.on:
        found = [("", "text")] if row.found is None and row.exact else [("…", "ghost")]
        if row.found is not None:
            found = fmt.cell(fmt.count(row.found)) if row.exact else [(at_least(row.found, 8), "muted")]
    return (
        ("  ", "text"),
        ("■" if row.on else "□", "accent" if row.on else "faint"),
        (" ", "text"),
        *fmt.fit([(cut_end(name_of(row.rule), name), label)], name),
        (" ", "text"),
        (f" {row.threshold}".ljust(_BOX + 1), f"{value} on-raised"),
        *fmt.fit([(f" was {row.was}" if row.was else "", "muted")], 12),
        *fmt.fit(found, 8, right=True),
    )


def strip_line(rows: Sequence[RuleRow], cells: int) -> Line:
    """The rules in one line, for when they have no pane of their own: those that are on, as many as fit."""
    line: list[Piece] = [(" rules ", "muted bold")]
    on = [row for row in rows if row.on]
    for at, row in enumerate(on):
        value = f" {row.threshold} "
        piece: list[Piece] = [
            (" ■ ", "accent"), (name_of(row.rule), "text"), (" ", "text"),
            (value, f"{'warn bold' if row.was else 'text'} on-raised"),
        ]  # fmt: skip
        more = len(rows) - at
        if fmt.length(line) + fmt.length(piece) + (14 if more > 1 else 0) > cells:
            break
        line += piece
    else:
        at = len(on)
    line += [(f"  {len(rows) - at} more ", "muted"), ("tab", "accent bold")]
    return tuple(fmt.fit(line, cells))


def about_lines(
    row: RuleRow, limits: Limits, changed: Sequence[tuple[str, str, str]], cells: int, *, file: str
) -> list[Line]:
    """What the rule under the cursor does, what is never touched, and what was changed for this run."""
    lines: list[Line] = [section(name_of(row.rule), "", "muted", cells)]
    lines += [((" " + part, "text"),) for part in wrap(_ABOUT.get(row.rule, ""), cells - 2, most=4)]
    effect = limits.effect(Rule(row.rule)) if row.rule in list(Rule) else None
    facts = [("becomes", effect.told if effect is not None else "as its own system does it")]
    if row.rule in KEYS:
        facts.append(("setting", KEYS[row.rule]))
    facts.append(("undo", "24 h, puts it back as it was"))
    lines.append(())
    lines += [((f" {label:<9}", "muted"), (words, "text")) for label, words in facts]
    lines += [(), section("never touched", "", "muted", cells)]
    never = ["running jobs with a live lease", "anything that changed after the dry run"]
    if effect is not Effect.CANCEL and effect is not Effect.BURY:
        never.insert(1, "jobs that still have to run")
    lines += [((" • ", "muted"), (words, "text")) for words in never]
    if changed:
        lines += [(), section("this run only", "", "muted", cells)]
        for rule, was, now in changed[:6]:
            lines.append(((f" {name_of(rule)}  ", "text"), (f"{was} → {now}", "warn")))
        if file:
            lines.append(((" The file keeps what it has. ", "muted"), ("S", "accent bold"), (" saves it.", "muted")))
        else:
            lines.append(((" There is no qdeck.toml to save it in.", "muted"),))
    return lines


def progress_lines(run: DryRun, cells: int) -> list[Line]:
    """How far a dry run is."""
    passed = max(0.001, time.monotonic() - run.started)
    share = run.share
    head: list[Piece] = [(" dry run", "strong bold"), ("   writes nothing", "muted")]
    right: list[Piece] = [("esc", "accent bold"), (" cancel ", "muted")]
    tail: list[Piece] = [(f"  {100 * share:.0f} %", "strong bold"), (f"   {run.scanned:,} looked at", "muted")]
    if share > 0.05 and passed > 1:
        tail.append((f"   ~{passed / share - passed:,.0f} s left", "muted"))
    bar = max(10, min(60, cells - 2 - fmt.length(tail)))
    rate = f" {run.scanned / passed:,.0f} entries/s in slices of 500"
    return [
        (*fmt.fit(head, cells - fmt.length(right)), *right),
        ((" ", "text"), *thin_bar(share, bar, "accent"), *tail),
        ((rate, "muted"), (f"   {run.now}" if run.now and cells >= 100 else "", "faint")),
    ]


def plan_lines(
    plan: Plan, shares: Sequence[Share], why_not: str, result: BatchResult | None, now_ms: int, cells: int
) -> list[Line]:
    """What the plan comes to, how old it is and whether it can be applied."""
    tail = plan.tail
    age, left = now_ms - plan.head.created_ms, plan.head.expires_ms - now_ms
    head: list[Piece] = [(f" plan {safe_text(plan.id, limit=40)}", "strong bold")]
    when = (
        f"   dry run {fmt.clock(plan.head.created_ms)}, {fmt.span(age)} ago"
        if cells >= 100
        else f"   {fmt.span(age)} old"
    )
    good = f", good until {fmt.clock(plan.head.expires_ms)[:5]}" if left > 0 else ", expired"
    head += [(when, "muted"), (good, "muted" if left > 60_000 else "warn")]
    right: list[Piece] = [("a", "accent bold"), (" apply ", "muted")] if not why_not else [(f"∅ {why_not} ", "faint")]
    if result is not None:
        right = [(f"{result.applied:,} applied ", "ok bold" if not result.skipped_count else "warn bold")]
    sums: list[Piece] = [(" ", "text")]
    for count, one, many in (
        (tail.count, "entry", "entries"),
        (len(tail.rules), "rule", "rules"),
        (len(tail.by_queue), "queue", "queues"),
    ):
        sums += [(f"{count:,}", "strong bold"), (f" {one if count == 1 else many}   ", "muted")]
    sums += [*_strong(fmt.size(tail.bytes)), ("   undo 24 h", "muted")]
    return [
        (*fmt.fit(head, cells - fmt.length(right)), *right),
        tuple(sums),
        ((f" {effects_words(shares)}{left_out_words(plan)}", "muted"),),
    ]


def _strong(pieces: Sequence[Piece]) -> list[Piece]:
    return [(text, "strong bold" if role == "text" else role) for text, role in pieces]


def effects_words(shares: Sequence[Share]) -> str:
    """How many are removed, moved and so on."""
    counts: dict[str, int] = {}
    for share in shares:
        word = effect_of(share.effect)[0]
        counts[word] = counts.get(word, 0) + share.count
    return ", ".join(f"{count:,} {word}" for word, count in counts.items()) or "nothing to do"


def left_out_words(plan: Plan) -> str:
    """What is not in the plan though a rule met it."""
    skipped = plan.tail.skipped
    if not skipped:
        return ""
    reasons: dict[str, int] = {}
    for skip in skipped:
        reasons[skip.why] = reasons.get(skip.why, 0) + 1
    told = ", ".join(f"{count:,} {safe_text(why, limit=60)}" for why, count in list(reasons.items())[:3])
    return f"; {len(skipped):,} left out: {told}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRow:
    """A line of the plan: a rule with its sums, or one queue under it."""

    rule: str
    share: Share | None = None
    threshold: str = ""
    changed: bool = False
    count: int = 0
    bytes: int = 0
    oldest_s: float | None = None
    effects: tuple[str, ...] = ()
    folded: bool = False
    exact: bool = True
    begun: bool = True


def _plan_widths(cells: int) -> tuple[int, int, int, int]:
    return (17, 9, 10, 10) if cells >= 100 else (15, 7, 8, 8)


def plan_head(cells: int) -> Line:
    """The heads of the plan."""
    effect, entries, size, oldest = _plan_widths(cells)
    name = cells - MARGIN - effect - entries - size - oldest - 5
    return (
        *fmt.fit([(" rule, queue", "faint")], name + 1),
        *columns([
            ([("effect", "faint")], effect, False), ([("entries", "faint")], entries, True),
            ([("bytes", "faint")], size, True), ([("oldest", "faint")], oldest, True),
        ]),
    )  # fmt: skip


def plan_row_line(row: PlanRow, cells: int, *, hide: str, at_cursor: bool) -> Line:
    """A rule or a queue of the plan."""
    effect, entries, size, oldest = _plan_widths(cells)
    name = cells - MARGIN - effect - entries - size - oldest - 5
    if row.share is None:
        sign = "▸" if row.folded else "▾"
        label: list[Piece] = [
            ("  ", "text"), (f"{sign} ", "ghost"),
            (name_of(row.rule), "strong bold" if row.begun else "muted"),
            (f"  > {row.threshold}" if row.threshold != fmt.NONE else "", "warn" if row.changed else "muted"),
        ]  # fmt: skip
    else:
        label = [
            ("      ", "text"),
            *queue_path(row.share.queue, name - 6, "strong bold" if at_cursor else "text", hide=hide),
        ]
    words = (
        sentence([effect_of(name) for name in row.effects], gap=", ")
        if row.share is None or len(row.effects) > 1
        else []
    )
    role = "strong bold" if row.share is None else "text"
    number: list[Piece] = (
        fmt.cell(fmt.count(row.count), role) if row.exact else [(at_least(row.count, entries), "muted")]
    )
    weight_of = fmt.size(row.bytes) if row.count else [(fmt.ZERO, "ghost")]
    age = fmt.span_pieces(None if row.oldest_s is None else row.oldest_s * 1000)
    if not row.begun:
        number = weight_of = age = [("…", "ghost")]
    return (
        *fmt.fit(label, name + 1),
        *columns([(words, effect, False), (number, entries, True), (weight_of, size, True), (age, oldest, True)]),
    )  # fmt: skip


def sample_lines(share: Share, rule: str, threshold: str, cells: int, *, hide: str) -> list[Line]:
    """The first entries of a queue of the plan, and what they are there for."""
    shown = len(share.samples)
    path = "".join(text for text, _ in queue_path(share.queue, 40, "strong", hide=hide))
    right: list[Piece] = [(f" 1–{shown} of {share.count:,}   ", "muted"), ("enter", "accent bold"), (" all ", "muted")]
    words = f"{name_of(rule)}" + (f", over {threshold}" if threshold != fmt.NONE else "")
    head = section(path, words, "strong", cells - fmt.length(right) - 1)
    lines: list[Line] = [(*head, (" ", "text"), *right)]
    return lines + [entry_line(entry, cells, at_cursor=False) for entry in share.samples]


def entry_head(cells: int) -> Line:
    """The heads of the entries of a plan."""
    heads: list[tuple[Sequence[Piece], int, bool]] = [
        ([("id", "faint")], 22, False), ([("age", "faint")], 8, True), ([("bytes", "faint")], 8, True),
        ([("why", "faint")], max(8, cells - 22 - 8 - 8 - LEAD - MARGIN - 3), False),
    ]  # fmt: skip
    return ((" " * (LEAD - 1), "text"), *columns(heads))


def entry_line(entry: PlanEntry, cells: int, *, at_cursor: bool) -> Line:
    """One entry of a plan."""
    why = max(8, cells - 22 - 8 - 8 - LEAD - MARGIN - 3)
    values: list[tuple[Sequence[Piece], int, bool]] = [
        ([(cut_id(entry.id, 22), "strong bold" if at_cursor else "text")], 22, False),
        (fmt.span_pieces(None if entry.age_s is None else entry.age_s * 1000), 8, True),
        (fmt.size(entry.bytes) if entry.bytes else [(fmt.ZERO, "ghost")], 8, True),
        ([(cut_end(safe_text(entry.reason, limit=300), why), "muted")], why, False),
    ]
    return ((" " * (LEAD - 1), "text"), *columns(values))


def apply_would(plan: Plan, cells: int) -> list[Line]:
    """What applying the plan would do."""
    steps = -(-plan.count // 500)
    size = "".join(text for text, _ in fmt.size(plan.tail.bytes))
    words = (
        f"take {steps:,} step{'s' * (steps != 1)} of 500 at most; each entry is checked again and skipped if it changed"
    )
    lines: list[Line] = [section("apply would", "", "muted", cells)]
    lines += [((f" {part}", "muted"),) for part in wrap(words, cells - 2, most=2)]
    lines.append(((f" keep {size} for undo, 64 MB at most", "muted"),))
    blast = plan.tail.blast
    if blast.dependants:
        lines.append(((f" end {blast.dependants:,} jobs that wait for them", "warn"),))
    return lines


def confirm_rows(plan: Plan, shares: Sequence[Share], age_ms: int, cells: int) -> list[Line]:
    """The plan in numbers, for the dialog that asks before it is applied."""
    tail, blast = plan.tail, plan.tail.blast
    size = "".join(text for text, _ in fmt.size(tail.bytes))
    rows: list[tuple[str, int | str, str, str]] = [
        ("entries", tail.count, "strong bold", f"{len(tail.rules):,} rules, {len(tail.by_queue):,} queues, {size}"),
    ]
    for label, (effects, role) in _DONE_TO.items():
        mine = [share for share in shares if share.effect in effects]
        count = sum(share.count for share in mine)
        if count or label == "removed":
            rules = list(dict.fromkeys(name_of(share.rule) for share in mine))
            rows.append((label, count, role, ", ".join(rules) or "nothing is removed"))
    running = "without an owner; taken back, fenced" if blast.running else "none is touched"
    rows.append(("running", blast.running, "warn bold", running))
    waiting = "jobs wait for them, and do not run any more" if blast.dependants else "no job waits for them"
    rows.append(("waited for", blast.dependants, "warn bold", waiting))
    if blast.handlers:
        rows.append(("handlers", blast.handlers, "warn bold", "failure handlers will be made"))
    if tail.skipped:
        rows.append(("left out", len(tail.skipped), "strong bold", tail.skipped[0].why))
    rows.append(("undo", "all", "ok bold", f"within 24 h; the dry run was {fmt.span(age_ms)} ago"))
    rows += [("", "▲", "warn bold", warning) for warning in tail.warnings[:2]]
    lines: list[Line] = []
    for label, value, role, words in rows:
        text = fmt.count(value) if isinstance(value, int) else value
        number = fmt.fit([(text, "ghost" if text == fmt.ZERO else role)], 9, right=True)
        told = cut_end(safe_text(words, limit=300), cells - 24)
        lines.append((*fmt.fit([(label, "muted")], 12), *number, ("   ", "text"), (told, "text")))
    return lines


def applying_lines(plan: Plan, done: int, total: int, started: float, cells: int) -> list[Line]:
    """How far applying the plan is; what was done until it is cancelled is a batch like any other."""
    passed = max(0.001, time.monotonic() - started)
    rate = done / passed
    right: list[Piece] = [("esc", "accent bold"), (" cancel ", "muted")]
    head: list[Piece] = [(f" plan {safe_text(plan.id, limit=40)}", "strong bold"), ("   applying", "accent")]
    tail: list[Piece] = [(f"  {done:,} of {total:,}", "strong bold"), (f"   {rate:,.0f}/s", "muted")]
    if done and passed > 1:
        tail.append((f"   ~{(total - done) / rate:,.0f} s left", "muted"))
    bar = max(10, min(60, cells - 2 - fmt.length(tail)))
    return [
        (*fmt.fit(head, cells - fmt.length(right)), *right),
        ((" ", "text"), *thin_bar(done / max(1, total), bar, "accent"), *tail),
        ((" what is done until then can be undone", "muted"),),
    ]


def so_far(count: int, size: int, cells: int) -> list[Line]:
    """What a dry run found until now."""
    effect, entries, bytes_, oldest = _plan_widths(cells)
    name = cells - MARGIN - effect - entries - bytes_ - oldest - 5
    values: list[tuple[Sequence[Piece], int, bool]] = [
        ([], effect, False),
        ([(at_least(count, entries), "strong bold")], entries, True),
        ([("≥ ", "muted"), *fmt.size(size)] if size else [], bytes_, True),
        ([], oldest, True),
    ]
    return [(), (*fmt.fit([(" so far", "muted bold")], name + 1), *columns(values))]
