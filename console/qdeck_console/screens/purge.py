"""The purge as a place to work: rules, a dry run, its plan down to each entry, and applying exactly that."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.containers import Vertical

from qdeck.admin import FOREIGN_RULES, Feature, Shares
from qdeck_console.actions import PURGE, Action, bindings
from qdeck_console.presenters import purge as present
from qdeck_console.presenters import purgeruns
from qdeck_console.presenters.purge import Applied, DryRun, PlanRow, RuleRow
from qdeck_console.presenters.purgeentries import sample_lines
from qdeck_console.presenters.purgeruns import Runs
from qdeck_console.screens.purgeentries import NO_JOBS, EntriesScreen, read_jobs
from qdeck_console.screens.purgework import PurgeWork
from qdeck_console.temporary import RULES, FoundQueues
from qdeck_console.widgets.lines import Item, LineList, Lines, Listing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.binding import BindingType
    from textual.widget import Widget

    from qdeck.admin import Snapshot
    from qdeck_console.feed import Reader
    from qdeck_console.format import Line, Piece

_DRAW_S = 0.25
_ON_RULES: frozenset[str] = frozenset({"toggle", "threshold"})


class PurgeScreen(PurgeWork):
    """What a purge would remove, and removing exactly that."""

    TAB = PURGE
    SCOPE = PURGE
    BINDINGS: ClassVar[list[BindingType]] = bindings(PURGE)

    def body(self) -> Sequence[Widget]:
        """The rules, and the plan beside them; where there is little room, one of the two below the rules in a line."""
        rules = Vertical(Lines(id="rhead"), LineList(id="rules"), Lines(id="about"), id="rulepane")
        plan = Vertical(
            Lines(id="planhead"),
            Lines(id="head"),
            LineList(id="list"),
            Lines(id="samples"),
            Lines(id="total"),
            id="main",
        )
        return (Vertical(Lines(id="strip"), id="strips"), rules, plan)

    def on_mount(self) -> None:
        """Takes rules and thresholds from the configuration."""
        self.take_settings()
        self.set_interval(_DRAW_S, self._tick)

    def _tick(self) -> None:
        if self.is_current and (self.dry is not None or self.console.operator.work is not None):
            self.draw(fresh=False)

    def wants(self) -> Reader | None:
        """What the agents did by themselves, and the room for undo."""

        async def read(_snapshot: Snapshot) -> Runs:

            reader = self.console.reader
            purge, clean = await reader.agent_tasks(("purge", "clean"))
            kept = await reader.batches()
            await self._read_samples()
            return Runs(purge=purge, clean=clean, undo_bytes=sum(batch.bytes for batch in kept.values()))

        return read

    async def _read_samples(self) -> None:
        """Reads what the samples under the cursor are, once."""
        row = self.view.row
        share = row.share if isinstance(row, PlanRow) else None
        if share is None or self.dry is not None or share.key in self.whats or share.rule in NO_JOBS:
            return
        self.whats[share.key] = await read_jobs(self.console.reader, share.samples)

    @property
    def rules_view(self) -> LineList:
        """The rules."""
        return self.query_one("#rules", LineList)

    @property
    def main_list(self) -> LineList:
        """The list that has the keys when nothing else has them."""
        return self.rules_view if self.shows_rules else self.view

    @property
    def plan_height(self) -> int:
        """How many lines of the plan there is room for."""
        return self.view.size.height

    @property
    def shows_rules(self) -> bool:
        """Whether the rules have a pane in sight."""
        return self.has_class("-wide") or self.has_class("-rules")

    @property
    def in_rules(self) -> bool:
        """Whether the rules have the keys."""
        return self.rules_view.has_focus

    def draw(self, *, fresh: bool) -> None:
        """Draws rules, what the one under the cursor does, and the plan."""
        rows = self.rule_rows()
        items = [Item(row.rule, 1, row) for row in rows]
        self.rules_view.show(Listing(items, self._rule_lines), self.painter)
        self.rules_view.styles.height = len(rows)
        plain = self.painter.ascii
        self.query_one("#rhead", Lines).show(lambda w, _h: (present.rules_head(w, plain=plain),), self.painter)
        self.query_one("#strip", Lines).show(lambda w, _h: (present.strip_line(rows, w, plain=plain),), self.painter)
        self._draw_about()
        planned = [] if self.plan is None and self.dry is None else self.plan_rows()
        lines = [Item("\n".join((row.rule, *(row.share.key if row.share else ()))), 1, row) for row in planned]
        if not lines:
            lines = [Item("", 1, line) for line in self._empty()]
        self.view.show(Listing(lines, self._plan_lines), self.painter)
        self.query_one("#planhead", Lines).show(self._planhead, self.painter)
        self.query_one("#head", Lines).show(lambda w, _h: (present.plan_head(w),) if planned else (), self.painter)
        self._draw_samples()

    def _rule_lines(self, item: Item, cells: int, at_cursor: bool) -> Sequence[Line]:
        if not isinstance(item.row, RuleRow):
            return ()
        return (present.rule_line(item.row, cells, at_cursor=at_cursor, plain=self.painter.ascii),)

    def _plan_lines(self, item: Item, cells: int, at_cursor: bool) -> Sequence[Line]:
        if isinstance(item.row, PlanRow):
            return (present.plan_row_line(item.row, cells, hide=self.hide, at_cursor=at_cursor),)
        return (item.row,) if isinstance(item.row, tuple) else ()

    def _draw_about(self) -> None:
        row = self.rules_view.row
        found = self.console.contexts.configuration
        file = str(found.file) if found is not None and found.file is not None else ""

        def make(cells: int, height: int) -> Sequence[Line]:
            if not isinstance(row, RuleRow):
                return ()
            about, never, now_only = present.about_parts(row, self.limits, self.changed(), cells, file=file)
            auto = purgeruns.auto_lines(self.runs, self.now_ms, cells)
            parts = [about, never, now_only, auto]
            is_low = sum(len(part) + 1 for part in parts) > height
            return present.within([about, now_only, auto, never] if is_low else parts, height, cells)

        self.query_one("#about", Lines).show(make, self.painter)

    def _planhead(self, cells: int, height: int) -> Sequence[Line]:
        if self.dry is not None:
            return present.progress_lines(self.dry, cells)[:height]
        if self.plan is None:
            return ()
        snapshot = self.picture.snapshot
        now_ms = snapshot.at_ms if snapshot is not None else self.plan.head.created_ms
        work = self.console.operator.work
        if work is not None and work.verb == "purge" and work.total:
            return purgeruns.applying_lines(self.plan, work.done, work.total, work.started, cells)[:height]
        why = self.why_not("apply") if not self.console.operator.why_not_write() else ""
        shares = self.found_shares()
        return present.plan_lines(self.plan, shares, present.Sums.of(shares), why, self._done(), now_ms, cells)[:height]

    def _done(self) -> Applied | None:
        """What was applied of the plan, unless it was taken back."""
        result, cleaned = self.result, self.cleaned
        if (result is None and cleaned is None) or self.was_undone:
            return None
        count, left, why, until, lost = 0, 0, "", None, 0
        if result is not None:
            count, left = result.applied, result.skipped_count
            why = result.error or str(result.stopped or "") or (result.skipped[0].why if result.skipped else "")
            until, lost = result.undo_until_ms if result.undoable else None, result.applied - result.undoable
        if cleaned is not None:
            count, left = count + cleaned.removed, left + cleaned.in_use + cleaned.kept
            until = until or cleaned.undo_until_ms
        operator, ours = self.console.operator, self._batches
        back = sum(done.restored for batch, done in operator.went_back.items() if batch in ours)
        if not any(done.batch in ours for done in operator.last()):
            until = None  # it went back as far as it could, or what was done since comes first
        return Applied(count=count, left=left, why=why, undo_until_ms=until, lost=lost, back=back)

    @property
    def _batches(self) -> set[str | None]:
        """What the plan did: jobs, and temporary queues."""
        return {done.batch for done in (self.result, self.cleaned) if done is not None and done.batch}

    @property
    def was_undone(self) -> bool:
        """Whether what the plan did was taken back since."""
        back = self.console.operator.went_back
        whole = {batch for batch, done in back.items() if not done.skipped and done.error is None}
        return bool(self._batches) and self._batches <= whole

    def _empty(self) -> Sequence[Line]:
        if self.dry is not None:
            return ((("    …", "ghost"),),)
        if self.plan is not None:
            words = (
                "no queue of the plan matches; esc clears the filter"
                if self.filter_text
                else "nothing is over its threshold"
            )
            return ((("    " + words, "muted"),),)
        return (
            (("    no plan yet", "strong bold"),),
            (("    ", "text"), ("d", "accent bold"), (" looks what the rules would take; it writes nothing", "muted")),
        )

    def _draw_samples(self) -> None:
        row, plan = self.view.row, self.plan
        share = row.share if isinstance(row, PlanRow) else None
        rule = next((known for known in self.rule_rows() if share is not None and known.rule == share.rule), None)
        room = self.has_class("-wide") and self.is_tall and plan is not None and self.dry is None
        lines: list[Line] = []
        cells = max(20, self.view.size.width)
        if room and plan is not None and self.found_shares():
            if share is not None and rule is not None:
                jobs = self.whats.get(share.key, {})
                lines += [*sample_lines(share, jobs, rule.threshold, cells, hide=self.hide), ()]
            lines += purgeruns.apply_would(plan, self.found_shares(), self.undo_bytes, cells)
        panel = self.query_one("#samples", Lines)
        panel.styles.height = len(lines)
        panel.display = bool(lines)
        panel.show(lambda _w, _h: lines, self.painter)
        more = self.view.below

        def total(width: int, height: int) -> Sequence[Line]:
            if self.dry is not None:
                sums = present.Sums.of(self.found_shares())
                return present.so_far(sums.count, sums.bytes, width)[-height:]
            return (((f"    {more:,} more ↓", "muted"),),) if more and plan is not None else ()

        self.query_one("#total", Lines).show(total, self.painter)

    def on_resize(self) -> None:
        """Without room for both, the rules are in sight until there is a plan."""
        self.call_after_refresh(self._focus_right)

    def _focus_right(self) -> None:
        if not self.has_class("-wide") and self.plan is None and self.dry is None:
            self.add_class("-rules")
        if not self.query("Input:focus") and self.is_current:
            (self.rules_view if self.shows_rules and not self.view.has_focus else self.view).focus()

    def why_not(self, action: str) -> str:
        """Why an action cannot act now."""
        operator = self.console.operator
        if action in _ON_RULES:
            return self._why_not_rule(action)
        if action == "dryrun":
            if self.console.latest.is_lost:
                return "server lost"
            if not self.on():
                return "no rule is on"
            return f"{operator.work.verb} goes on" if operator.work is not None else ""
        if action == "apply":
            return self._why_not_apply()
        if action == "save":
            return self._why_not_save()
        if action == "write":
            return "" if self.plan is not None else "no plan yet"
        if action in {"next", "previous"}:
            return ""
        if action == "back" and (self.dry is not None or (self.has_class("-rules") and self.plan is not None)):
            return ""
        return super().why_not(action)

    def _why_not_rule(self, action: str) -> str:
        row = self.rules_view.row
        if self.dry is not None:
            return "dry run goes on"
        if not self.in_rules or not isinstance(row, RuleRow):
            return "tab goes to the rules"
        return "it has no threshold" if action == "threshold" and row.rule not in present.KEYS else ""

    def _why_not_apply(self) -> str:
        if self.dry is not None:
            return "dry run is not done"
        if self.plan is None:
            return "dry run first"
        if not self.plan.count and not self.temporary.count:
            return "nothing to do"
        if self.is_done:
            return "undone: d makes another" if self.was_undone else "it is applied: d makes another"
        if self.made_with != (self.limits, frozenset(self.on())):
            return "rules changed: d again"
        snapshot = self.picture.snapshot
        if snapshot is not None and snapshot.at_ms > self.plan.head.expires_ms:
            return "expired: d again"
        return self.console.operator.why_not_write()

    def _why_not_save(self) -> str:
        found = self.console.contexts.configuration
        if found is None or found.file is None:
            return "there is no qdeck.toml"
        off = self.off - set(RULES) != self.off_before - set(RULES)
        return "" if self.changed() or off else "nothing was changed for this run"

    def verb(self, action: Action) -> str:
        """The verb of an action, as it would act now."""
        row = self.rules_view.row
        if action.id == "toggle" and isinstance(row, RuleRow):
            return "off" if row.on else "on"
        if action.id == "dryrun" and self.plan is not None:
            return "dry run again"
        if action.id == "apply" and self.plan is not None:
            begun = self.result is not None or self.cleaned is not None
            return "apply the rest" if begun and not self.is_done else "apply this plan" if not begun else "apply"
        if action.id == "write":
            return "save plan"
        if action.id == "next":
            return "plan" if self.in_rules else "rules"
        if action.id == "open" and not self.in_rules:
            chosen = self.view.row
            return "entries" if isinstance(chosen, PlanRow) and chosen.share is not None else "fold"
        return "cancel" if action.id == "back" and self.dry is not None else super().verb(action)

    @property
    def first(self) -> tuple[str, ...]:
        """What works here and now: on the rules, on the plan, and while a dry run goes on."""
        if self.dry is not None:
            return ("back", "freeze", "apply")
        if self.in_rules:
            return ("toggle", "threshold", "dryrun", "apply", "next", "save", "undo")
        return ("dryrun", "apply", "open", "next", "undo", "save", "filter", "copy", "freeze", "commands", "quit")

    def note(self) -> list[Piece]:
        """The message for the footer; how far a dry run is stands above its plan already."""
        said, work = super().note(), self.console.operator.work
        is_told = self.dry is not None and work is not None and not work.cancelled
        return [] if is_told and work is not None and said == [(work.words(), "accent")] else said

    def is_offered(self, action: Action) -> bool:
        """Nothing opens from a rule, and while a dry run goes on there is room for what can be done about it."""
        if self.dry is not None:
            return action.id in self.first
        return not (action.id == "open" and self.in_rules) and super().is_offered(action)

    def do_toggle(self) -> None:
        """Turns the rule under the cursor on or off, for this run."""
        row = self.rules_view.row
        if isinstance(row, RuleRow):
            self.off ^= {row.rule}
            self.draw(fresh=False)

    def do_next(self) -> None:
        """Gives the keys to the other pane."""
        to_rules = not self.in_rules
        self.set_class(to_rules and not self.has_class("-wide"), "-rules")
        (self.rules_view if to_rules else self.view).focus()
        self.call_after_refresh(self.redraw)

    def do_previous(self) -> None:
        """The same: there are two."""
        self.do_next()

    def do_threshold(self) -> None:
        """Asks for another threshold for this run."""
        row = self.rules_view.row
        if isinstance(row, RuleRow):
            self.run_worker(self.ask_threshold(row), group="ask", exit_on_error=False)

    def do_save(self) -> None:
        """Writes the thresholds and rules of this run to the configuration, after showing what would change."""
        self.run_worker(self.save_settings(), group="ask", exit_on_error=False)

    def do_dryrun(self) -> None:
        """Looks what the rules would take; it writes nothing."""
        snapshot = self.picture.snapshot
        rows = snapshot.queues if snapshot is not None else ()
        rules = self.on()
        self.temporary = FoundQueues(rules)
        weights = {
            (row.ref, rule): present.weight(rule, row)
            for row in rows
            if row.has(Feature.PURGE)
            for rule in rules
            if rule not in FOREIGN_RULES and rule not in RULES
        }
        self.dry = DryRun(rules, weights, waits=self.temporary.waits)
        self.plan, self.index, self.result, self.shares, self.cleaned = None, None, None, Shares(), None
        self.folds.clear()
        self.whats.clear()
        self.remove_class("-rules")
        self.console.operator.run(self.dry_run(self.dry), "dry run")
        self.call_after_refresh(self._focus_right)

    def do_apply(self) -> None:
        """Does exactly what the plan says, after asking."""
        if self.plan is not None:
            self.console.operator.run(self.apply_plan(self.plan), "purge")

    def do_write(self) -> None:
        """Saves the plan to a file of its own, from which a command can apply it."""
        if self.plan is not None:
            self.run_worker(self.write_plan(self.plan), group="ask", exit_on_error=False)

    def do_back(self) -> None:
        """Cancels what goes on, else back to the plan, else clears the filter."""
        if self.console.operator.cancel():
            return
        if self.has_class("-rules") and self.plan is not None:
            self.do_next()
        else:
            super().do_back()

    def on_line_list_moved(self, event: LineList.Moved) -> None:
        """What is told of a rule, and the samples, follow the cursor."""
        if event.view is self.rules_view:
            self._draw_about()
        else:
            self._draw_samples()
        self.draw_frame()

    def on_line_list_opened(self, event: LineList.Opened) -> None:
        """Folds a rule, or opens the entries of a queue."""
        row = self.view.row
        if event.view is self.rules_view or not isinstance(row, PlanRow):
            return
        if row.share is None:
            self.folds[row.rule] = not row.folded
            self.draw(fresh=False)
        elif self.index is not None:
            entries = self.temporary if row.share.rule in RULES else self.index
            threshold = present.threshold_words(self.made_with[0] if self.made_with else self.limits, row.rule)
            self.console.open(EntriesScreen(entries, row.share, threshold))
