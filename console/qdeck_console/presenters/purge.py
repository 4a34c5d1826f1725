"""The purge as a place to work: rules with thresholds, the dry run as it goes, and its plan by rule and queue."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from qdeck.admin import PURGE_RULES, Limits, Takes, purge_verb, threshold
from qdeck_console import format as fmt
from qdeck_console.operations import DONE
from qdeck_console.presenters.charts import thin_bar
from qdeck_console.presenters.line_parts import LEAD, MARGIN, Naming, columns, queue_path, section, sentence
from qdeck_console.text import cut_end, safe_text, width, wrap

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from qdeck.admin import Plan, QueueRef, QueueRow, Share
    from qdeck_console.format import Line, Piece

ROLES: Final = {"cancel": "warn", "discard": "bad"}
_DONE: Final = {**{verb.value: word for verb, word in DONE.items()}, "expire": "expired"}
_BOX: Final = 9
DAY_MS: Final = 86_400_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PurgeTotals:
    """The totals of shares: entries, bytes, rules and queues, and the entries of each rule and of each verb."""

    count: int
    bytes: int
    queues: int
    by_rule: Mapping[str, int]
    by_verb: Mapping[str, int]

    @classmethod
    def of(cls, shares: Sequence[Share]) -> PurgeTotals:
        """Return the totals of what was found."""
        by_rule, by_verb = Counter[str](), Counter[str]()
        for share in shares:
            by_rule[share.rule] += share.count
            by_verb[share.verb] += share.count
        queues = len({share.ref for share in shares})
        size = sum(share.bytes for share in shares)
        return cls(count=by_rule.total(), bytes=size, queues=queues, by_rule=by_rule, by_verb=by_verb)

    @property
    def sentence(self) -> str:
        """The question of the dialog."""
        entries = fmt.counted(self.count, "entry", "entries")
        return f"Purge {entries} of {fmt.counted(self.queues, 'queue')}"


def name_of(rule: str) -> str:
    """Return the name of a rule on screen."""
    return rule.replace("_", " ")


def short_name(rule: str) -> str:
    """Return the shortest name of a rule: its threshold beside it says that something is too old."""
    return PURGE_RULES[rule].label or name_of(rule).removesuffix(" too old")


def verb_of(verb: str) -> Piece:
    """Return what is done to an entry, with its role."""
    return verb, ROLES.get(verb, "muted")


def done_word(verb: str) -> str:
    """Return what was done to an entry, in a word."""
    return _DONE.get(verb, verb)


def at_least(count: int, cells: int) -> str:
    """Return a number that is not exact yet, in at most `cells` cells."""
    full = f"≥ {count:,}"
    return full if len(full) <= cells else f"≥ {fmt.short_count(count)}"


def threshold_words(limits: Limits, rule: str) -> str:
    """Return the threshold of a rule."""
    known = PURGE_RULES[rule]
    if not known.setting:
        return threshold(known.age_s) if known.age_s else fmt.NONE
    value = limits.value(known.setting)
    if known.setting == "dlq_max_entries":
        return f"{value:,.0f}"
    return threshold(limits.ms(known.setting) / 1000)


def verb_by_rule(rule: str, limits: Limits) -> str:
    """Return the verb of a rule; empty where each adapter has its own."""
    known = PURGE_RULES[rule]
    return "" if known.non_native else "discard" if known.takes is Takes.QUEUES else purge_verb(rule, limits)


def weight(rule: str, row: QueueRow) -> int:
    """Estimate the work of a rule in a queue, for the progress of a dry run."""
    state = PURGE_RULES[rule].state
    return 1 + (getattr(row, state) or 0 if state else (row.ready or 0) + (row.done or 0))


class DryRun:
    """The progress of a dry run: sums alone, as there may be ten thousand queues for each rule."""

    def __init__(self, rules: tuple[str, ...], queues: Iterable[QueueRow]) -> None:
        self.rules = rules
        self._counted = [rule for rule in rules if is_counted(rule)]
        # Not the rows, which would outlive their snapshot by minutes.
        self._weights = {row.ref: tuple(weight(rule, row) for rule in self._counted) for row in queues}
        self._total = sum(map(sum, self._weights.values())) or 1
        self._weight = 0
        self._finished: Counter[str] = Counter()
        self.started = time.monotonic()
        self.scanned = 0
        self.now = ""

    def finish(self, queue: QueueRef, rule: str) -> None:
        """Note that a rule has been through a queue."""
        if rule in self._counted and queue in self._weights:
            self._finished[rule] += 1
            self._weight += self._weights[queue][self._counted.index(rule)]

    @property
    def share(self) -> float:
        """How much of it is done."""
        return min(0.99, self._weight / self._total)

    def is_over(self, rule: str) -> bool:
        """Whether a rule has been through every queue; where they are not counted, not before the end of the run."""
        return rule in self._counted and self._finished[rule] >= len(self._weights)


def is_counted(rule: str) -> bool:
    """Return whether it is known beforehand through which queues a rule goes: all of native's."""
    known = PURGE_RULES[rule]
    return not known.non_native and known.takes is not Takes.QUEUES


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleRow:
    """One rule: whether it is on, its threshold, what it was, and what it found."""

    rule: str
    on: bool
    threshold: str
    was: str = ""
    found: int | None = None
    exact: bool = True


def box(row: RuleRow, *, plain: bool) -> Piece:
    """Return the sign for whether a rule is on; in plain text it takes three cells."""
    sign = ("[x]" if row.on else "[ ]") if plain else "■" if row.on else "□"
    return sign, "accent" if row.on else "faint"


def rules_head(cells: int, *, plain: bool = False) -> Line:
    """Return the heads of the rules."""
    name = _rule_width(cells) - 2 * plain
    return (
        (" " * (LEAD + 2 * plain), "text"), *fmt.fit([("rule", "faint")], name), ("  ", "text"),
        *fmt.fit([("older than", "faint")], _BOX + 12), *fmt.fit([("found", "faint")], 8, right=True),
    )  # fmt: skip


def _rule_width(cells: int) -> int:
    return max(16, min(23, cells - LEAD - MARGIN - _BOX - 12 - 8 - 2))


def rule_line(row: RuleRow, cells: int, *, at_cursor: bool, plain: bool = False) -> Line:
    """Return the line of a rule."""
    name = _rule_width(cells) - 2 * plain
    label = "strong bold" if at_cursor else "text" if row.on else "faint"
    value = "faint" if not row.on else "warn bold" if row.was else "text"
    found: list[Piece] = [("off", "faint")]
    if row.on:
        found = [("", "text")] if row.found is None and row.exact else [("…", "ghost")]
        if row.found is not None:
            found = fmt.cell(fmt.count(row.found)) if row.exact else [(at_least(row.found, 8), "muted")]
    return (
        ("  ", "text"),
        box(row, plain=plain),
        (" ", "text"),
        *fmt.fit([(cut_end(name_of(row.rule), name), label)], name),
        (" ", "text"),
        (f" {row.threshold}".ljust(_BOX + 1), f"{value} on-raised"),
        *fmt.fit([(f" was {row.was}" if row.was else "", "muted")], 12),
        *fmt.fit(found, 8, right=True),
    )


def strip_line(rows: Sequence[RuleRow], cells: int, *, plain: bool = False) -> Line:
    """Return the rules that are on in one line, as many as fit, for a screen without room for their pane."""
    line: list[Piece] = [(" rules ", "muted bold")]
    on = [row for row in rows if row.on]
    for at, row in enumerate(on):
        value = f" {row.threshold} "
        piece: list[Piece] = [
            (" ", "text"), box(row, plain=plain), (" ", "text"), (short_name(row.rule), "text"), (" ", "text"),
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


def about_parts(
    row: RuleRow, limits: Limits, changed: Sequence[tuple[str, str, str]], cells: int, *, file: str
) -> tuple[list[Line], list[Line], list[Line], list[Line]]:
    """Return what a rule takes, what is done to that, what is never touched, and what is changed for this run."""
    lines: list[Line] = [section(name_of(row.rule), "", "muted", cells)]
    rule = PURGE_RULES[row.rule]
    lines += [((" " + part, "text"),) for part in wrap(rule.about, cells - 2, most=4)]
    verb = verb_by_rule(row.rule, limits)
    facts = [("result", done_word(verb) if verb else "as its own system does it")]
    if rule.setting:
        facts.append(("setting", rule.setting))
        sharing = [name for name, other in PURGE_RULES.items() if other.setting == rule.setting and other is not rule]
        facts += [("", f"shared with {name_of(name)}") for name in sharing]
    of_queues = rule.takes is Takes.QUEUES
    facts.append(("undo", "24h, up to 1 MiB of a queue" if of_queues else "24h, restores entries as they were"))
    becomes: list[Line] = [((f" {label:<9}", "muted"), (words, "text")) for label, words in facts]
    never = ["running jobs with a live lease", "anything that changed after the dry run"]
    if of_queues:
        never = ["queues with a waiting reader", "queues that were used again since"]
    elif not rule.non_native and verb not in ("cancel", "bury"):
        never.insert(1, "jobs that have not run yet")
    kept = [section("never touched", "", "muted", cells), *(((" • ", "muted"), (words, "text")) for words in never)]
    now_only: list[Line] = []
    if changed:
        now_only.append(section("this run only", "", "muted", cells))
        for name, was, now in changed[:6]:
            now_only.append(((f" {name_of(name)}  ", "text"), (f"{was} → {now}", "warn")))
        if file:
            saves: Line = ((" qdeck.toml stays as it is. ", "muted"), ("S", "accent bold"), (" saves it.", "muted"))
            now_only.append(saves)
        else:
            now_only.append(((" No qdeck.toml to save it to.", "muted"),))
    return lines, becomes, kept, now_only


def within(parts: Sequence[Sequence[Line]], height: int, cells: int) -> list[Line]:
    """Return the lines of sections that fit: blank lines are dropped first, then the last line counts the rest."""
    kept = [line for part in parts if part for line in ((), *part)]
    if len(kept) > height:
        kept = [line for at, line in enumerate(kept) if line or not at]
    if len(kept) > height > 0:
        more = len(kept) - height + 1
        kept = [*kept[: height - 1], tuple(fmt.fit([(f" {more} more lines ↓ enlarge the window", "faint")], cells))]
    return kept


def progress_lines(run: DryRun, cells: int) -> list[Line]:
    """Return the progress of a dry run."""
    passed = max(0.001, time.monotonic() - run.started)
    share = run.share
    head: list[Piece] = [(" dry run", "strong bold"), ("   writes nothing", "muted")]
    right: list[Piece] = [("esc", "accent bold"), (" cancel ", "muted")]
    tail: list[Piece] = [(f"  {100 * share:.0f} %", "strong bold"), (f"   {run.scanned:,} scanned", "muted")]
    if share > 0.05 and passed > 1:
        tail.append((f"   ~{fmt.span((passed / share - passed) * 1000)} left", "muted"))
    bar = max(10, min(60, cells - 2 - fmt.length(tail)))
    rate = f" {run.scanned / passed:,.0f} entries/s in slices of 500"
    return [
        (*fmt.fit(head, cells - fmt.length(right)), *right),
        ((" ", "text"), *thin_bar(share, bar, "accent"), *tail),
        ((rate, "muted"), (f"   {run.now}" if run.now and cells >= 100 else "", "faint")),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedPlan:
    """What was done of a plan: how many were applied, how many skipped and why, and until when `u` undoes it.

    `done` says what was applied where that is all of the plan. `lost` of them exceed the undo limit; `back` were
    restored already.
    """

    count: int
    done: str = ""
    left: int = 0
    why: str = ""
    undo_until_ms: int | None = None
    lost: int = 0
    back: int = 0

    def line(self, cells: int) -> Line:
        """Return the line in place of what would be done."""
        words = f" {self.done}" if self.done and not self.left else f" {self.count:,} applied"
        if self.left:
            words += f", {self.left:,} skipped" + (f": {safe_text(self.why, limit=80)}" if self.why else "")
        if self.back:
            words += f"; {self.back:,} restored, {self.count - self.back:,} not"
        what = "the rest" if self.back else f"all but {self.lost:,}" if self.lost else "it"
        undo = f"   u undoes {what} until {fmt.clock(self.undo_until_ms)}" if self.undo_until_ms is not None else ""
        role = "warn" if self.left or self.lost else "ok"
        return ((cut_end(words, max(20, cells - width(undo) - 1)), role), (undo, "muted"))


def plan_lines(
    plan: Plan,
    purge_totals: PurgeTotals,
    why_not: str,
    done: AppliedPlan | None,
    now_ms: int,
    cells: int,
) -> list[Line]:
    """Return the totals of the plan, its age, and whether it can be applied or what was done of it."""
    age, left = now_ms - plan.head.created_ms, plan.head.expires_ms - now_ms
    head: list[Piece] = [(f" plan {safe_text(plan.id, limit=40)}", "strong bold")]
    when = (
        f"   dry run {fmt.clock(plan.head.created_ms)}, {fmt.span(age)} ago"
        if cells >= 100
        else f"   {fmt.span(age)} old"
    )
    good = f", valid until {fmt.clock(plan.head.expires_ms)[:5]}" if left > 0 else ", expired"
    head.append((when, "muted"))
    right: list[Piece] = [("a", "accent bold"), (" apply ", "muted")] if not why_not else [(f"∅ {why_not} ", "faint")]
    if done is not None:
        right = [(f"{done.count:,} applied ", "ok bold" if not done.left else "warn bold")]
    if fmt.length(head) + len(good) + 2 + fmt.length(right) <= cells:
        head.append((good, "muted" if left > 60_000 else "warn"))
    undo = f"until {fmt.clock(now_ms + DAY_MS)}" if cells >= 90 else "24h"
    told: list[Piece] = [
        (" ", "text"), *_number(purge_totals.count, "entry", "entries"), *_strong(fmt.size(purge_totals.bytes)),
        ("   ", "text"), *_number(len(purge_totals.by_rule), "rule", "rules"),
        *_number(purge_totals.queues, "queue", "queues"),
        (f"undo {undo}", "muted"),
    ]  # fmt: skip
    return [
        (*fmt.fit(head, cells - fmt.length(right)), *right),
        tuple(told),
        done.line(cells) if done is not None else ((f" {verbs_words(purge_totals)}{left_out_words(plan)}", "muted"),),
    ]


def _number(count: int, one: str, many: str) -> list[Piece]:
    return [(f"{count:,}", "strong bold"), (f" {one if count == 1 else many}   ", "muted")]


def _strong(pieces: Sequence[Piece]) -> list[Piece]:
    return [(text, "strong bold" if role == "text" else role) for text, role in pieces]


def verbs_words(purge_totals: PurgeTotals) -> str:
    """Return what a plan does, in words: `1 to bury, 2 to discard`."""
    return counts_words(purge_totals, lambda verb: f"to {verb}") or "nothing to do"


def counts_words(purge_totals: PurgeTotals, word_of: Callable[[str], str]) -> str:
    """Return how many entries there are of each verb, in words."""
    counts = Counter[str]()
    for verb, count in purge_totals.by_verb.items():
        counts[word_of(verb)] += count
    return ", ".join(f"{count:,} {word}" for word, count in counts.items())


def left_out_words(plan: Plan) -> str:
    """Return how many entries that a rule takes are not in the plan, and why."""
    skipped = plan.tail.skipped
    if not skipped:
        return ""
    reasons: dict[str, int] = {}
    for skip in skipped:
        reasons[skip.why] = reasons.get(skip.why, 0) + 1
    told = ", ".join(f"{count:,} {safe_text(why, limit=60)}" for why, count in list(reasons.items())[:3])
    return f"; {len(skipped):,} skipped: {told}"


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
    verbs: tuple[str, ...] = ()
    folded: bool = False
    exact: bool = True
    begun: bool = True


def plan_rows(
    shares: Sequence[Share],
    rules: Sequence[RuleRow],
    dry: DryRun | None,
    limits: Limits,
    folds: Mapping[str, bool],
    filter_text: str,
    height: int,
) -> list[PlanRow]:
    """Return the plan by rule, and under each rule by queue; what the filter leaves. What has no room is folded."""
    wanted = filter_text.casefold().strip()
    by_rule: dict[str, list[Share]] = {row.rule: [] for row in rules}
    for share in shares:
        if share.ref.has(wanted):
            by_rule.setdefault(share.rule, []).append(share)
    awaited = dry.rules if dry is not None else ()
    by_rule = {rule: found for rule, found in by_rule.items() if found or rule in awaited}
    known = {row.rule: row for row in rules}
    rows: list[PlanRow] = []
    left = max(8, height) - len(by_rule)
    for rule, found in by_rule.items():
        folded = folds.get(rule, left < len(found))
        left -= 0 if folded else len(found)
        over = dry is None or dry.is_over(rule)
        row = known.get(rule)
        rows.append(
            PlanRow(
                rule=rule, threshold=row.threshold if row else "", changed=bool(row and row.was),
                count=sum(share.count for share in found), bytes=sum(share.bytes for share in found),
                oldest_s=max((share.oldest_s for share in found if share.oldest_s is not None), default=None),
                verbs=tuple(dict.fromkeys(share.verb for share in found) or filter(None, [verb_by_rule(rule, limits)])),
                folded=folded or not found, exact=over, begun=over or bool(found),
            )
        )  # fmt: skip
        if not folded:
            rows += [
                PlanRow(
                    rule=rule, share=share, count=share.count, bytes=share.bytes, oldest_s=share.oldest_s,
                    verbs=(share.verb,), exact=over,
                )
                for share in sorted(found, key=lambda share: -share.count)
            ]  # fmt: skip
    return rows


def _plan_widths(cells: int) -> tuple[int, int, int, int]:
    """Return the widths of verb, entries, bytes and oldest; without room for names there is no column of bytes."""
    return (17, 9, 10, 10) if cells >= 100 else (15, 7, 8 if cells >= 80 else 0, 8)


def _plan_columns(
    cells: int, effect: Sequence[Piece], entries: Sequence[Piece], size: Sequence[Piece], oldest: Sequence[Piece]
) -> tuple[int, list[Piece]]:
    """Return the cells for the name, and the columns after it."""
    wide = _plan_widths(cells)
    shown = zip((effect, entries, size, oldest), wide, (False, True, True, True), strict=True)
    kept = [(pieces, width_, right) for pieces, width_, right in shown if width_]
    return cells - MARGIN - sum(wide) - len(kept), columns(kept)


def plan_head(cells: int) -> Line:
    """Return the heads of the plan."""
    name, after = _plan_columns(cells, *([(word, "faint")] for word in ("verb", "entries", "bytes", "oldest")))
    return (*fmt.fit([(" " * LEAD + "rule, queue", "faint")], name), *after)


def plan_row_line(row: PlanRow, cells: int, *, naming: Naming, at_cursor: bool) -> Line:
    """Return the line of a rule or of a queue of the plan."""
    words = sentence([verb_of(verb) for verb in row.verbs], gap=", ") if row.share is None or len(row.verbs) > 1 else []
    role = "strong bold" if row.share is None else "text"
    number: list[Piece] = (
        fmt.cell(fmt.count(row.count), role) if row.exact else [(at_least(row.count, _plan_widths(cells)[1]), "muted")]
    )
    weight_of = fmt.size(row.bytes) if row.count else [(fmt.ZERO, "ghost")]
    age = [(fmt.NONE, "ghost")] if row.oldest_s is None else fmt.span_pieces(row.oldest_s * 1000)
    age = age if row.count else [(fmt.ZERO, "ghost")]
    if not row.begun:
        number = weight_of = age = [("…", "ghost")]
    name, after = _plan_columns(cells, words, number, weight_of, age)
    if row.share is None:
        over = f"  > {row.threshold}" if row.threshold != fmt.NONE else ""
        full = name_of(row.rule)
        label: list[Piece] = [
            ("  ", "text"), ("▸ " if row.folded else "▾ ", "ghost"),
            (full if LEAD + width(full + over) <= name else short_name(row.rule),
             "strong bold" if row.begun else "muted"),
            (over, "warn" if row.changed else "muted"),
        ]  # fmt: skip
    else:
        path = queue_path(row.share.ref, name - 7, "strong bold" if at_cursor else "text", naming=naming)
        label = [("      ", "text"), *path]
    return (*fmt.fit(label, name), *after)


def so_far(count: int, size: int, cells: int) -> list[Line]:
    """Return what a dry run has found so far."""
    entries = at_least(count, _plan_widths(cells)[1])
    weight_of: list[Piece] = [("≥ ", "muted"), *fmt.size(size)] if size else []
    name, after = _plan_columns(cells, [], [(entries, "strong bold")], weight_of, [])
    return [(), (*fmt.fit([(" so far", "muted bold")], name), *after)]
