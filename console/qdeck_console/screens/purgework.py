"""What a purge screen knows and does, without how it looks: rules, dry run, plan, and the dialogs about them."""

from __future__ import annotations

import asyncio
import shutil
from typing import TYPE_CHECKING, Final

from qdeck import InvalidOption
from qdeck.admin import (
    FOREIGN_RULES,
    Feature,
    Limits,
    PlanIndex,
    PurgeRule,
    Settings,
    SettingValue,
    Share,
    Shares,
    purge_verb,
    read_rules,
    save_settings,
)
from qdeck_console.newfile import check_new_file, new_file
from qdeck_console.operating import outcome
from qdeck_console.presenters import purge as present
from qdeck_console.presenters import purgeruns
from qdeck_console.presenters.purge import DryRun, PlanRow, RuleRow
from qdeck_console.presenters.purgeruns import Runs
from qdeck_console.screens.acting import told_at_once
from qdeck_console.screens.confirm import ConfirmScreen
from qdeck_console.screens.dialog import inside
from qdeck_console.screens.form import Field, FormScreen
from qdeck_console.screens.frame import FrameScreen
from qdeck_console.temporary import ORPHANED, RULES, FoundQueues, queues_words
from qdeck_console.widgets.lines import LineList

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from qdeck.admin import BatchResult, JobRecord, Plan, PlanEntry, QueueRef
    from qdeck.messages import CleanReport
    from qdeck_console.format import Line

_CLEANS: Final = (("qdeck clean", "strong"), (" takes them", "muted"))


class PurgeWork(FrameScreen):
    """One run of the purge: its thresholds, what was found, and what is done."""

    @property
    def plan_height(self) -> int:
        """How many lines of the plan there is room for."""
        raise NotImplementedError

    def __init__(self) -> None:
        super().__init__()
        self.base = self.limits = Limits()
        self.off: set[str] = set()
        self.off_before: set[str] = set()
        self.dry: DryRun | None = None
        self.shares = Shares()
        self.plan: Plan | None = None
        self.index: PlanIndex | None = None
        self.made_with: tuple[Limits, frozenset[str]] | None = None
        self.temporary = FoundQueues()
        self.result: BatchResult | None = None
        self.cleaned: CleanReport | None = None
        self.folds: dict[str, bool] = {}
        self.whats: dict[tuple[str, str, str, str], dict[str, JobRecord]] = {}  # the samples of a share, as jobs

    def take_settings(self) -> None:
        """Takes rules and thresholds from the configuration."""
        found = self.console.contexts.configuration
        settings = found.settings if found is not None else Settings()
        self.base = self.limits = Limits.of(settings)
        wanted = read_rules((), settings)
        whole = all(rule in wanted for rule in PurgeRule)
        self.off_before = {rule for rule in PurgeRule if rule not in wanted}
        self.off_before |= set() if whole else {rule for rule in FOREIGN_RULES if rule not in wanted}
        self.off_before.add(ORPHANED)  # whose they are, an operator has to judge
        self.off = set(self.off_before)

    def rules(self) -> list[str]:
        """The rules that there are: those of other adapters only where there is one."""
        snapshot = self.picture.snapshot
        foreign = snapshot is not None and any(not row.has(Feature.PURGE) for row in snapshot.queues)
        return [*(rule.value for rule in PurgeRule), *(FOREIGN_RULES if foreign else ()), *RULES]

    def on(self) -> tuple[str, ...]:
        """The rules that are on."""
        return tuple(rule for rule in self.rules() if rule not in self.off)

    def of_plan(self) -> tuple[str, ...]:
        """The rules that are on and take jobs."""
        return tuple(rule for rule in self.on() if rule not in RULES)

    def found_shares(self) -> list[Share]:
        """What was found: of the plan, or of the dry run so far, and whole queues."""
        return [*(self.index.shares if self.index is not None else self.shares.all()), *self.temporary.shares]

    @property
    def runs(self) -> Runs | None:
        """What the agents did by themselves."""
        found = self.was_read
        return found if isinstance(found, Runs) else None

    @property
    def undo_bytes(self) -> int | None:
        """How much of the room for undo is taken."""
        return self.runs.undo_bytes if self.runs is not None else None

    def rule_rows(self) -> list[RuleRow]:
        """The rules as they are shown."""
        found: dict[str, int] = {}
        for share in self.found_shares():
            found[share.rule] = found.get(share.rule, 0) + share.count
        rows, any_run = [], self.dry is not None or self.plan is not None
        for rule in self.rules():
            now, was = (present.threshold_words(limits, rule) for limits in (self.limits, self.base))
            count = found.get(rule, 0) if any_run else None
            exact = self.dry is None or self.dry.is_over(rule)
            rows.append(
                RuleRow(
                    rule=rule, on=rule not in self.off, threshold=now, was=was if was != now else "",
                    found=count if exact or count else None, exact=exact,
                )
            )  # fmt: skip
        return rows

    def changed(self) -> list[tuple[str, str, str]]:
        """The thresholds of this run that the configuration does not have."""
        return [(row.rule, row.was, row.threshold) for row in self.rule_rows() if row.was]

    def plan_rows(self) -> list[PlanRow]:
        """The plan by rule, and under each rule by queue; what the filter leaves."""
        wanted = self.filter_text.casefold().strip()
        by_rule: dict[str, list[Share]] = {rule: [] for rule in self.rules()}
        for share in self.found_shares():
            if share.ref.has(wanted):
                by_rule.setdefault(share.rule, []).append(share)
        awaited = self.dry.rules if self.dry is not None else ()
        by_rule = {rule: shares for rule, shares in by_rule.items() if shares or rule in awaited}
        thresholds = {row.rule: row for row in self.rule_rows()}
        room = max(8, self.plan_height)
        rows: list[PlanRow] = []
        left = room - len(by_rule)
        for rule, shares in by_rule.items():
            folded = self.folds.get(rule, left < len(shares))
            left -= 0 if folded else len(shares)
            known = thresholds.get(rule)
            over = self.dry is None or self.dry.is_over(rule)
            rows.append(
                PlanRow(
                    rule=rule, threshold=known.threshold if known else "", changed=bool(known and known.was),
                    count=sum(share.count for share in shares), bytes=sum(share.bytes for share in shares),
                    oldest_s=max((share.oldest_s for share in shares if share.oldest_s is not None), default=None),
                    verbs=tuple(dict.fromkeys(share.verb for share in shares)) or self._verb_of(rule),
                    folded=folded or not shares,
                    exact=over, begun=over or bool(shares),
                )
            )  # fmt: skip
            if not folded:
                rows += [
                    PlanRow(
                        rule=rule, share=share, count=share.count, bytes=share.bytes, oldest_s=share.oldest_s,
                        verbs=(share.verb,), exact=over,
                    )
                    for share in sorted(shares, key=lambda share: -share.count)
                ]  # fmt: skip
        return rows

    def _verb_of(self, rule: str) -> tuple[str, ...]:
        """What a rule does, before it found anything; of those of other systems that is theirs to say."""
        if rule in RULES:
            return ("discard",)
        if rule not in list(PurgeRule):
            return ()
        return (purge_verb(rule, self.limits),)

    async def ask_threshold(self, row: RuleRow) -> None:
        """Asks for a threshold for this run."""
        key = present.KEYS[row.rule]

        def check(value: str) -> str:
            try:
                self.limits.changed(f"{key}={value}")
            except InvalidOption:
                return "write a whole number" if key == "dlq_max_entries" else "write 90s, 15m, 2h or 7d"
            return ""

        hint = "a number" if key == "dlq_max_entries" else "90s 15m 2h 7d"
        field = Field(
            label=key,
            value=row.threshold.replace(" min", "m").replace(" ", "").replace(",", ""),
            hint=hint,
            check=check,
        )
        answer = await self.console.push_screen_wait(
            FormScreen(self.console, f"{present.name_of(row.rule)}, for this run", [field])
        )
        if answer is not None:
            self.limits = self.limits.changed(f"{key}={answer[0]}")
            self.draw(fresh=False)
            self.draw_frame()

    async def save_settings(self) -> None:
        """Shows what the configuration would change to, and writes it there."""
        found = self.console.contexts.configuration
        if found is None or found.file is None:
            return
        changes: dict[tuple[str, str], SettingValue] = {}
        written = self.off - set(RULES)
        for rule, _was, _now in self.changed():
            key = present.KEYS[rule]
            changes["dead_letters" if key.startswith("dlq_") else "purge", key] = getattr(self.limits, key)
        if written != self.off_before - set(RULES):
            changes["purge", "rules"] = list(self.of_plan())
        about: list[Line] = [
            ((f"{table}.{key} ", "text"), ("= ", "muted"), (str(value), "warn bold"))
            for (table, key), value in changes.items()
        ]
        if not await self.console.push_screen_wait(
            ConfirmScreen(self.console, f"Save to {found.file.name}", about, "Save")
        ):
            self.console.say("nothing was saved", "muted", "")
            return
        try:
            self.console.contexts.take_configuration(await asyncio.to_thread(save_settings, found.file, changes))
        except InvalidOption as error:
            self.console.say(f"{error}: {error.hint}", "bad", "✗")
            return
        limits, off = self.limits, self.off
        self.take_settings()
        self.limits, self.off = limits, off
        self.console.say(f"saved to {found.file}", "ok", "✓")
        self.draw(fresh=False)

    async def dry_run(self, run: DryRun) -> None:
        """Makes the plan, and tells on the way what is found."""
        console = self.console
        work = console.operator.work

        def looked(scanned: int, _taken: int) -> None:
            run.scanned = scanned
            if work is not None:
                work.done = scanned

        def watch(queue: QueueRef, rule: str, _scanned: int, entries: Sequence[PlanEntry], last: bool) -> None:
            self.shares.take(entries)
            run.now = queue.label(self.hide.shared)
            if last:
                run.over.add((queue, rule))

        def found() -> bool:
            queues = self.temporary
            run.scanned, run.now, run.waits = scanned_before + queues.scanned, "temporary queues", queues.waits
            if work is not None:
                work.done = run.scanned
            return work is not None and work.cancelled

        try:
            rules = [rule for rule in run.rules if rule not in RULES]
            wanted = read_rules(rules) if rules else ()
            made_with = (self.limits, frozenset(run.rules))
            plan = await console.reader.plan_purge(
                wanted, self.limits, progress=looked, watch=watch,
                cancelled=lambda: work is not None and work.cancelled,
            )  # fmt: skip
            index = await asyncio.to_thread(PlanIndex.read, plan)
            scanned_before = run.scanned
            await self.temporary.search(console.reader, found)
            if found():
                raise InvalidOption("cancelled")
            self.plan, self.index, self.made_with = plan, index, made_with
            count = plan.count + self.temporary.count
            words = f"{count:,} would go" if count else "nothing is over its threshold"
            console.say(f"{words}; nothing was written", "ok", "✓")
        except InvalidOption:
            if work is None or not work.cancelled:
                raise
            console.say("dry run cancelled: nothing was written", "muted", "")
        finally:
            self.dry = None
            if self.is_mounted:
                self.redraw()
                self.query_one("#list", LineList).settle()  # the cursor was on a rule that found nothing

    async def apply_plan(self, plan: Plan) -> None:
        """Asks with the plan in numbers, and applies it."""
        console, operator = self.console, self.console.operator
        snapshot = self.picture.snapshot
        now_ms = snapshot.at_ms if snapshot is not None else plan.head.created_ms
        shares = self.found_shares()
        sums = present.Sums.of(shares)
        done = self.result.applied + self.result.skipped_count if self.result is not None else 0
        lines = purgeruns.confirm_rows(
            plan, shares, now_ms, inside(console.size.width),
            done=done, undo_bytes=self.undo_bytes or 0, filter_text=self.filter_text,
        )  # fmt: skip
        if not await operator.ask(plan, [], lines=lines, words=(sums.sentence, f"Apply {sums.count - done:,}")):
            console.say("nothing was done", "muted", "")
            return
        told: list[tuple[str, str, str]] = []
        result = await operator.apply(plan) if plan.count and not self.is_whole else None
        if result is not None:
            self.result = result
            told.append(outcome(result))
        if self.temporary.count and self.cleaned is None and (result is None or self.is_whole):
            told.append(await self._clean())
        console.say(*told_at_once(told))
        self.redraw()

    @property
    def is_whole(self) -> bool:
        """Whether all of the plan was done."""
        return self.result is not None and not (self.result.stopped or self.result.error)

    @property
    def is_done(self) -> bool:
        """Whether all that was found was dealt with."""
        plan_done = self.is_whole or (self.plan is not None and not self.plan.count)
        return plan_done and (self.cleaned is not None or not self.temporary.count)

    async def _clean(self) -> tuple[str, str, str]:
        """Removes the temporary queues that were found, as a batch of their own; what came of it in words."""
        operator = self.console.operator
        work = operator.work
        if work is not None:
            work.done, work.total = 0, self.temporary.count

        def removed(count: int) -> bool:
            if work is not None:
                work.done = count
            return work is not None and work.cancelled

        report = await self.temporary.remove(self.console.writer, removed)
        self.cleaned = report
        if report.batch is not None and report.undoable:
            jobs = self.result.batch if self.result is not None and self.result.undoable else ""
            operator.remember(report.batch, f"purge of {queues_words(report.undoable)}", after=jobs)
        left = report.in_use + report.kept
        words = f"{queues_words(report.removed)} removed" + (f", {left:,} left: they are used" if left else "")
        is_cut = work is not None and work.cancelled
        words += "; cancelled: d finds the others" if is_cut else ""
        return words, "warn" if left or is_cut else "ok", "▲" if left or is_cut else "✓"

    async def write_plan(self, plan: Plan) -> None:
        """Copies the plan to a file that is named."""
        field = Field(
            label="to the file", value=f"{plan.id}.jsonl", hint="qdeck purge --apply FILE does it", check=check_new_file
        )
        queues = self.temporary.count
        about: list[Line] = []
        if queues:
            about = [(("▲ ", "warn"), (f"{queues_words(queues)} not in the file: ", "text"), *_CLEANS)]
        answer = await self.console.push_screen_wait(
            FormScreen(self.console, f"Save the plan {plan.id}", [field], about=about)
        )
        if answer is None:
            self.console.say("nothing was written", "muted", "")
            return
        try:
            path = await asyncio.to_thread(_copy, plan.path, answer[0])
        except OSError as error:
            self.console.say(f"{answer[0]}: {error.strerror or error}", "bad", "✗")
            return
        words = f"; without the {queues_words(queues)}" if queues else ""
        self.console.say(f"plan of {plan.count:,} written to {path}{words}", "ok", "✓")


def _copy(source: Path, name: str) -> Path:
    with source.open("rb") as read, new_file(name) as (path, written):
        shutil.copyfileobj(read, written)
    return path
