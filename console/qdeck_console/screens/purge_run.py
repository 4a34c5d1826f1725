"""The work of a purge: rules and thresholds for this run, the dry run, its plan, and the dialogs about them."""

from __future__ import annotations

import asyncio
import shutil
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from qdeck import InvalidOption
from qdeck.admin import (
    PURGE_RULES,
    Feature,
    Limits,
    PlanIndex,
    Settings,
    SettingValue,
    Share,
    Shares,
    read_rules,
    save_settings,
)
from qdeck_console.format import counted
from qdeck_console.operations import outcome
from qdeck_console.output_files import check_new_file, new_file
from qdeck_console.presenters import purge as present
from qdeck_console.presenters import purge_result
from qdeck_console.presenters.purge import AppliedPlan, DryRun, PurgeTotals, RuleRow
from qdeck_console.screens.dialog import inside
from qdeck_console.screens.prompt import Prompt, PromptField, confirmation

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from pathlib import Path

    from qdeck.admin import BatchResult, Plan, PlanEntry, QueueRef, Snapshot
    from qdeck_console.console import Console
    from qdeck_console.format import Line


class MadeWith(NamedTuple):
    """The rules and the thresholds of a plan."""

    limits: Limits
    rules: frozenset[str]


class PurgeWork:
    """One run of the purge. `changed` is called after whatever it shows has changed."""

    def __init__(self, console: Console, changed: Callable[[], None]) -> None:
        self.console = console
        self._changed = changed
        self.base = self.limits = Limits()
        self.off: frozenset[str] = frozenset()
        self._off_before: frozenset[str] = frozenset()
        self.dry: DryRun | None = None
        self.plan: Plan | None = None
        self.index: PlanIndex | None = None
        self.made_with: MadeWith | None = None
        self.result: BatchResult | None = None
        self._found = Shares()
        self._summed: tuple[PlanIndex | None, PurgeTotals] = (None, PurgeTotals.of(()))
        self.take_settings()

    def take_settings(self) -> None:
        """Take rules and thresholds from the configuration."""
        found = self.console.contexts.configuration
        settings = found.settings if found is not None else Settings()
        self.base = self.limits = Limits.of(settings)
        self.off = self._off_before = frozenset(PURGE_RULES) - frozenset(read_rules((), settings))

    @property
    def snapshot(self) -> Snapshot | None:
        """The queues as they are shown."""
        return self.console.shown.snapshot

    def rules(self) -> list[str]:
        """Return the rules that there are: those of other adapters only where there is one."""
        snapshot = self.snapshot
        non_native = snapshot is not None and any(not row.has(Feature.PURGE) for row in snapshot.queues)
        return [name for name, rule in PURGE_RULES.items() if non_native or not rule.non_native]

    def on(self) -> tuple[str, ...]:
        """Return the rules that are on."""
        return tuple(rule for rule in self.rules() if rule not in self.off)

    def toggle(self, rule: str) -> None:
        """Turn a rule on or off, for this run."""
        self.off ^= {rule}

    @property
    def shares(self) -> list[Share]:
        """What was found: of the plan, or of the dry run so far."""
        return self.index.shares if self.index is not None else self._found.all()

    @property
    def totals(self) -> PurgeTotals:
        """The totals of what was found. Those of a plan are summed once: it may have shares of ten thousand queues."""
        if self.index is None:
            return PurgeTotals.of(self.shares)
        if self._summed[0] is not self.index:
            self._summed = (self.index, PurgeTotals.of(self.index.shares))
        return self._summed[1]

    def rule_rows(self) -> list[RuleRow]:
        """Return the rules as they are shown."""
        found = self.totals.by_rule
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
        """Return the thresholds of this run that the configuration does not have."""
        return [(row.rule, row.was, row.threshold) for row in self.rule_rows() if row.was]

    # Why something cannot be done now.

    def why_not_change(self) -> str:
        """Return why a rule cannot be changed now."""
        return "dry run in progress" if self.dry is not None else ""

    def why_not_dry_run(self) -> str:
        """Return why no dry run can begin now."""
        work = self.console.operator.work
        if self.console.latest.is_lost:
            return "server lost"
        if not self.on():
            return "all rules are off"
        return f"{work.verb} in progress" if work is not None else ""

    def why_not_apply(self) -> str:
        """Return why the plan cannot be applied now."""
        if self.dry is not None:
            return "the dry run is not finished"
        if self.plan is None:
            return "press d for a dry run first"
        if not self.plan.count:
            return "nothing to do"
        if self.is_whole:
            return (
                "undone: press d for a new dry run" if self.was_undone else "already applied: press d for a new dry run"
            )
        if self.made_with != (self.limits, frozenset(self.on())):
            return "the rules changed: press d for a new dry run"
        snapshot = self.snapshot
        if snapshot is not None and snapshot.at_ms > self.plan.head.expires_ms:
            return "the plan expired: press d for a new dry run"
        return self.console.operator.why_not_write()

    def why_not_save(self) -> str:
        """Return why there is nothing to save in the configuration, or nowhere."""
        found = self.console.contexts.configuration
        if found is None or found.file is None:
            return "no qdeck.toml"
        return "" if self.changed() or self.off != self._off_before else "nothing to save"

    # What was done of the plan.

    @property
    def is_whole(self) -> bool:
        """Whether all of the plan was done."""
        return self.result is not None and not (self.result.stopped or self.result.error)

    @property
    def was_undone(self) -> bool:
        """Whether what the plan did was undone since."""
        back = self.console.operator.undone.get(self.result.batch) if self.result is not None else None
        return back is not None and not back.skipped and back.error is None

    def applied(self) -> AppliedPlan | None:
        """Return what was applied of the plan, unless that was undone."""
        result, operator = self.result, self.console.operator
        if result is None or self.was_undone:
            return None
        why = result.error or str(result.stopped or "") or (result.skipped[0].why if result.skipped else "")
        # What was done since comes first, and what went back as far as it could is not undone again.
        is_last = any(last.batch == result.batch for last in operator.batches[-1:])
        back = operator.undone.get(result.batch)
        is_all = self.plan is not None and result.applied == self.plan.count
        done = present.counts_words(self.totals, present.done_word) if is_all else ""
        return AppliedPlan(
            count=result.applied, done=done, left=result.skipped_count, why=why, lost=result.applied - result.undoable,
            undo_until_ms=result.undo_until_ms if result.undoable and is_last else None,
            back=back.restored if back is not None else 0,
        )  # fmt: skip

    # What is done.

    async def ask_threshold(self, rule: str) -> None:
        """Ask for a threshold for this run."""
        key = PURGE_RULES[rule].setting

        def check(value: str) -> str:
            try:
                self.limits.changed(f"{key}={value}")
            except InvalidOption:
                return "a whole number" if key == "dlq_max_entries" else "a time such as 90s, 15m, 2h or 7d"
            return ""

        value = present.threshold_words(self.limits, rule)
        hint = "a number" if key == "dlq_max_entries" else "90s 15m 2h 7d"
        typed = value.replace(" ", "").replace(",", "")
        field = PromptField(label=key, value=typed, hint=hint, check=check)
        answer = await self.console.push_screen_wait(
            Prompt(self.console, f"{present.name_of(rule)}, for this run", fields=[field])
        )
        if answer is not None:
            self.limits = self.limits.changed(f"{key}={answer[0]}")
            self._changed()

    async def save_settings(self) -> None:
        """Show what the configuration would change to, and write it there."""
        found = self.console.contexts.configuration
        if found is None or found.file is None:
            return
        changes: dict[tuple[str, str], SettingValue] = {}
        for rule, _was, _now in self.changed():
            key = PURGE_RULES[rule].setting
            changes["dead_letters" if key.startswith("dlq_") else "purge", key] = getattr(self.limits, key)
        if self.off != self._off_before:
            changes["purge", "rules"] = [rule for rule in PURGE_RULES if rule not in self.off]
        about: list[Line] = [
            ((f"{table}.{key} ", "text"), ("= ", "muted"), (str(value), "warn bold"))
            for (table, key), value in changes.items()
        ]
        question = confirmation(self.console, f"Save to {found.file.name}", about, "Save")
        if await self.console.push_screen_wait(question) is None:
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
        self._changed()

    def start_dry_run(self, shared: Collection[str]) -> None:
        """Plan what the rules take; nothing is written. `shared` are the names of several queues."""
        snapshot = self.snapshot
        rules = self.on()
        queues = snapshot.queues if snapshot is not None else ()
        self.dry = DryRun(rules, [row for row in queues if row.has(Feature.PURGE)])
        self.plan, self.index, self.result, self._found = None, None, None, Shares()
        self.console.operator.run(self._dry_run(self.dry, shared), "dry run")

    async def _dry_run(self, run: DryRun, shared: Collection[str]) -> None:
        console = self.console
        work = console.operator.work

        def looked(scanned: int, _taken: int) -> None:
            run.scanned = scanned
            if work is not None:
                work.done = scanned

        def watch(queue: QueueRef, rule: str, _scanned: int, entries: Sequence[PlanEntry], last: bool) -> None:
            self._found.take(entries)
            run.now = queue.label(shared) or present.name_of(rule)
            if last:
                run.finish(queue, rule)

        try:
            made_with = MadeWith(self.limits, frozenset(run.rules))
            plan = await console.reader.plan_purge(
                run.rules, self.limits, progress=looked, watch=watch,
                cancelled=lambda: work is not None and work.cancelled,
            )  # fmt: skip
            index = await asyncio.to_thread(PlanIndex.read, plan)
            self.plan, self.index, self.made_with, self._found = plan, index, made_with, Shares()
            words = f"{plan.count:,} would be purged" if plan.count else "no entry is over its threshold"
            console.say(f"{words}; nothing was written", "ok", "✓")
        except InvalidOption:
            if work is None or not work.cancelled:
                raise
            console.say("dry run cancelled: nothing was written", "muted", "")
        finally:
            self.dry = None
            self._changed()

    def start_apply(self, filter_text: str) -> None:
        """Apply exactly this plan, after a question."""
        if self.plan is not None:
            self.console.operator.run(self._apply(self.plan, filter_text), "purge")

    async def _apply(self, plan: Plan, filter_text: str) -> None:
        console, operator = self.console, self.console.operator
        snapshot = self.snapshot
        now_ms = snapshot.at_ms if snapshot is not None else plan.head.created_ms
        shares = self.shares
        sums = self.totals
        done = self.result.applied + self.result.skipped_count if self.result is not None else 0
        cells = inside(console.size.width)
        lines = purge_result.confirm_rows(plan, shares, now_ms, cells, done=done, filter_text=filter_text)
        if not await operator.ask(plan, Counter(), lines=lines, words=(sums.sentence, f"Apply {sums.count - done:,}")):
            console.say("nothing was changed", "muted", "")
            return
        self.result = await operator.apply(plan)
        console.say(*outcome(self.result))
        self._changed()

    async def write_plan(self, plan: Plan) -> None:
        """Copy the plan to a file, after asking for its name."""
        field = PromptField(
            label="file", value=f"{plan.id}.jsonl", hint="qdeck purge --apply FILE applies it", check=check_new_file
        )
        answer = await self.console.push_screen_wait(Prompt(self.console, f"Save the plan {plan.id}", fields=[field]))
        if answer is None:
            self.console.say("nothing was written", "muted", "")
            return
        try:
            path = await asyncio.to_thread(_copy, plan.path, answer[0])
        except OSError as error:
            self.console.say(f"{answer[0]}: {error.strerror or error}", "bad", "✗")
            return
        self.console.say(f"plan of {counted(plan.count, 'entry', 'entries')} written to {path}", "ok", "✓")


def _copy(source: Path, name: str) -> Path:
    with source.open("rb") as read, new_file(name) as (path, written):
        shutil.copyfileobj(read, written)
    return path
