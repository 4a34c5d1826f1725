"""The purge as a place to work: rules, a dry run, its plan down to each entry, and applying exactly that."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Final

from textual.containers import Vertical

from qdeck.admin import PURGE_RULES, Takes
from qdeck_console.actions import PURGE, ActionHandler
from qdeck_console.presenters import purge as present
from qdeck_console.presenters import purge_result
from qdeck_console.presenters.purge import PlanRow, RuleRow
from qdeck_console.presenters.purge_entries import sample_lines
from qdeck_console.presenters.purge_result import AgentPurges
from qdeck_console.screens.frame import FrameScreen
from qdeck_console.screens.lists import ReadingScreen
from qdeck_console.screens.purge_entries import EntriesScreen, read_jobs
from qdeck_console.screens.purge_run import PurgeWork
from qdeck_console.widgets.lines import Item, LineList, Lines, Listing

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from textual.widget import Widget

    from qdeck.admin import AsyncReader, JobRecord, Plan, Share, Snapshot
    from qdeck_console.format import Line, Piece

_DRAW_S: Final = 0.25
_DRY_RUN_KEYS: Final = ("back", "freeze", "apply")
_RULE_KEYS: Final = ("toggle", "threshold", "dryrun", "apply", "next", "save", "undo")
_PLAN_KEYS: Final = (
    "dryrun", "apply", "open", "next", "undo", "save", "filter", "copy", "freeze", "commands", "quit",
)  # fmt: skip


class PurgeScreen(ReadingScreen[AgentPurges]):
    """The screen Purge: rules, dry run and plan."""

    TAB, SCOPE = PURGE, PURGE

    def __init__(self) -> None:
        super().__init__()
        self._jobs: dict[tuple[str, str, str, str], dict[str, JobRecord]] = {}  # the samples of a share
        self._folds: dict[str, bool] = {}
        self._laid: tuple[tuple[Any, ...], Listing] | None = None

    @cached_property
    def work(self) -> PurgeWork:
        """The rules of this run, its plan, and what was done of it."""
        return PurgeWork(self.console, self._changed)

    def on_mount(self) -> None:
        """Draw more often than once a second while something goes on."""
        self.set_interval(_DRAW_S, self._tick)

    def _changed(self) -> None:
        if self.is_mounted:
            self.redraw()
            self.view.settle()  # the cursor was on a rule that found nothing

    def _tick(self) -> None:
        if self.is_current and (self.work.dry is not None or self.console.operator.work is not None):
            self.draw(fresh=False)

    async def read(self, reader: AsyncReader, _snapshot: Snapshot) -> AgentPurges:
        """Read what the agents did by themselves, the room for undo, and once the jobs of samples under the cursor."""
        purge, clean = await reader.agent_tasks(("purge", "clean"))
        kept = await reader.batches()
        share = self._share
        takes_jobs = share is not None and PURGE_RULES[share.rule].takes is Takes.JOBS
        if share is not None and takes_jobs and self.work.dry is None and share.key not in self._jobs:
            self._jobs[share.key] = await read_jobs(reader, share, share.samples)
        return AgentPurges(purge=purge, clean=clean, undo_bytes=sum(batch.bytes for batch in kept.values()))

    # Where the keys are.

    @property
    def rules_view(self) -> LineList:
        """The rules."""
        return self.query_one("#rules", LineList)

    @property
    def main_list(self) -> LineList:
        """The list that has the keys when nothing else has them."""
        return self.rules_view if self.shows_rules else self.view

    @property
    def shows_rules(self) -> bool:
        """Whether the pane of the rules is visible."""
        return self.has_class("-wide") or self.has_class("-rules")

    @property
    def in_rules(self) -> bool:
        """Whether the rules have the keys."""
        return self.rules_view.has_focus

    @property
    def _rule(self) -> RuleRow | None:
        row = self.rules_view.row
        return row if isinstance(row, RuleRow) else None

    @property
    def _row(self) -> PlanRow | None:
        row = self.view.row
        return row if isinstance(row, PlanRow) else None

    @property
    def _share(self) -> Share | None:
        return self._row.share if self._row is not None else None

    # What is drawn.

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

    def draw(self, *, fresh: bool) -> None:
        """Draw rules, what the one under the cursor does, and the plan."""
        rows = self.work.rule_rows()
        self.rules_view.show(Listing([Item(row.rule, 1, row) for row in rows], self._rule_lines), self.painter)
        self.rules_view.styles.height = len(rows)
        plain = self.painter.ascii
        self.query_one("#rhead", Lines).show(lambda w, _h: (present.rules_head(w, plain=plain),), self.painter)
        self.query_one("#strip", Lines).show(lambda w, _h: (present.strip_line(rows, w, plain=plain),), self.painter)
        self._draw_about()
        self._draw_plan(rows)
        self._draw_samples()

    def _rule_lines(self, item: Item, cells: int, at_cursor: bool) -> Sequence[Line]:
        if not isinstance(item.row, RuleRow):
            return ()
        return (present.rule_line(item.row, cells, at_cursor=at_cursor, plain=self.painter.ascii),)

    def _plan_lines(self, item: Item, cells: int, at_cursor: bool) -> Sequence[Line]:
        if isinstance(item.row, PlanRow):
            return (present.plan_row_line(item.row, cells, naming=self.naming, at_cursor=at_cursor),)
        return (item.row,) if isinstance(item.row, tuple) else ()

    def _draw_about(self) -> None:
        row, work = self._rule, self.work
        found = self.console.contexts.configuration
        file = str(found.file) if found is not None and found.file is not None else ""

        def make(cells: int, height: int) -> Sequence[Line]:
            if row is None:
                return ()
            about, becomes, never, now_only = present.about_parts(row, work.limits, work.changed(), cells, file=file)
            auto = purge_result.auto_lines(self.data, self.now_ms, cells)
            parts = [about, becomes, never, now_only, auto]
            is_low = sum(len(part) + 1 for part in parts) > height
            return present.within([about, now_only, auto, becomes, never] if is_low else parts, height, cells)

        self.query_one("#about", Lines).show(make, self.painter)

    def _draw_plan(self, rules: Sequence[RuleRow]) -> None:
        planned = self._planned(rules)
        self.view.show(
            planned or Listing([Item("", 1, line) for line in self._empty()], self._plan_lines), self.painter
        )
        self.query_one("#planhead", Lines).show(self._planhead, self.painter)
        self.query_one("#head", Lines).show(lambda w, _h: (present.plan_head(w),) if planned else (), self.painter)

    def _planned(self, rules: Sequence[RuleRow]) -> Listing | None:
        """Return the plan as a list; None where there is no line to show. It is laid out again only when a part of it
        changes: it may have a line for each of ten thousand queues.
        """
        work = self.work
        if work.plan is None and work.dry is None:
            return None
        made_of = (work.index, tuple(rules), work.limits, dict(self._folds), self.filter_text, self.view.size.height)
        if work.index is None or self._laid is None or self._laid[0] != made_of:
            height = self.view.size.height
            rows = present.plan_rows(work.shares, rules, work.dry, work.limits, self._folds, self.filter_text, height)
            items = [Item("\n".join((row.rule, *(row.share.key if row.share else ()))), 1, row) for row in rows]
            where = {item.key: at for at, item in enumerate(items)}
            self._laid = (made_of, Listing(items, self._plan_lines, range(len(items) + 1), where))
        return self._laid[1] if self._laid[1].items else None

    def _planhead(self, cells: int, height: int) -> Sequence[Line]:
        work, plan, operator = self.work, self.work.plan, self.console.operator
        if work.dry is not None:
            return present.progress_lines(work.dry, cells)[:height]
        if plan is None:
            return ()
        now_ms = self.now_ms or plan.head.created_ms
        doing = operator.work
        if doing is not None and doing.verb == "purge" and doing.total:
            return purge_result.applying_lines(plan, doing.done, doing.total, doing.started, cells)[:height]
        why = work.why_not_apply() if not operator.why_not_write() else ""
        return present.plan_lines(plan, work.totals, why, work.applied(), now_ms, cells)[:height]

    def _empty(self) -> Sequence[Line]:
        if self.work.dry is not None:
            return ((("    …", "ghost"),),)
        if self.work.plan is not None:
            words = "no queue matches; esc clears the filter" if self.filter_text else "no entry is over its threshold"
            return ((("    " + words, "muted"),),)
        return (
            (("    no plan yet", "strong bold"),),
            (("    ", "text"), ("d", "accent bold"), (" plans what the rules would purge and writes nothing", "muted")),
        )

    def _draw_samples(self) -> None:
        share, plan, dry = self._share, self.work.plan, self.work.dry
        lines: list[Line] = []
        cells = max(20, self.view.size.width)
        if self.has_class("-wide") and self.is_tall and plan is not None and dry is None and plan.count:
            lines = self._sample_lines(plan, share, cells)
        panel = self.query_one("#samples", Lines)
        panel.styles.height = len(lines)
        panel.display = bool(lines)
        panel.show(lambda _w, _h: lines, self.painter)
        more = self.view.below

        def total(width: int, height: int) -> Sequence[Line]:
            if dry is not None:
                sums = self.work.totals
                return present.so_far(sums.count, sums.bytes, width)[-height:]
            return (((f"    {more:,} more ↓", "muted"),),) if more and plan is not None else ()

        self.query_one("#total", Lines).show(total, self.painter)

    def _sample_lines(self, plan: Plan, share: Share | None, cells: int) -> list[Line]:
        lines: list[Line] = []
        if share is not None:
            threshold = present.threshold_words(self.work.limits, share.rule)
            jobs = self._jobs.get(share.key, {})
            lines += [*sample_lines(share, jobs, threshold, cells, naming=self.naming), ()]
        undo_bytes = self.data.undo_bytes if self.data is not None else None
        return lines + purge_result.apply_would(plan, self.work.totals, undo_bytes, cells)

    def on_resize(self) -> None:
        """Without room for both, the rules are visible until there is a plan."""
        self.call_after_refresh(self._focus_right)

    def _focus_right(self) -> None:
        if not self.has_class("-wide") and self.work.plan is None and self.work.dry is None:
            self.add_class("-rules")
        if not self.query("Input:focus") and self.is_current:
            (self.rules_view if self.shows_rules and not self.view.has_focus else self.view).focus()

    def on_line_list_moved(self, event: LineList.Moved) -> None:
        """The text about a rule, and the samples, follow the cursor."""
        if event.view is self.rules_view:
            self._draw_about()
        else:
            self._draw_samples()
        self.draw_frame()

    # The footer.

    @property
    def first(self) -> tuple[str, ...]:
        """What works here and now: on the rules, on the plan, and while a dry run goes on."""
        return _DRY_RUN_KEYS if self.work.dry is not None else _RULE_KEYS if self.in_rules else _PLAN_KEYS

    def note(self) -> list[Piece]:
        """The message for the footer; how far a dry run is stands above its plan already."""
        said, work = self.console.note(), self.console.operator.work
        is_told = self.work.dry is not None and work is not None and not work.cancelled
        return [] if is_told and work is not None and said == [(work.words(), "accent")] else said

    @property
    def only(self) -> tuple[str, ...]:
        """While a dry run goes on there is room for what can be done about it."""
        return _DRY_RUN_KEYS if self.work.dry is not None else ()

    # The actions.

    def _why_not_rule(self) -> str:
        return self.work.why_not_change() or (
            "" if self.in_rules and self._rule is not None else "press tab for the rules"
        )

    def _why_not_threshold(self) -> str:
        why, row = self._why_not_rule(), self._rule
        return why or ("" if row is not None and PURGE_RULES[row.rule].setting else "this rule has no threshold")

    def _why_not_back(self) -> str:
        can = self.work.dry is not None or (self.has_class("-rules") and self.work.plan is not None)
        return "" if can else FrameScreen.HANDLERS["back"].reason(self)

    def _toggle(self) -> None:
        if self._rule is not None:
            self.work.toggle(self._rule.rule)
            self.draw(fresh=False)

    def _threshold(self) -> None:
        if self._rule is not None:
            self.run_worker(self.work.ask_threshold(self._rule.rule), group="ask", exit_on_error=False)

    def _to_other_pane(self) -> None:
        to_rules = not self.in_rules
        self.set_class(to_rules and not self.has_class("-wide"), "-rules")
        (self.rules_view if to_rules else self.view).focus()
        self.call_after_refresh(self.redraw)

    def _dry_run(self) -> None:
        self._folds.clear()
        self._jobs.clear()
        self.remove_class("-rules")
        self.work.start_dry_run(self.naming.shared)
        self.call_after_refresh(self._focus_right)

    def _apply(self) -> None:
        self.work.start_apply(self.filter_text)

    def _apply_label(self) -> str:
        if self.work.plan is None:
            return ""
        begun = self.work.result is not None
        return "apply the rest" if begun and not self.work.is_whole else "apply this plan" if not begun else "apply"

    def _write(self) -> None:
        if self.work.plan is not None:
            self.run_worker(self.work.write_plan(self.work.plan), group="ask", exit_on_error=False)

    def _back(self) -> None:
        if self.console.operator.cancel():
            return
        if self.has_class("-rules") and self.work.plan is not None:
            self._to_other_pane()
        else:
            self.set_filter("")

    def on_line_list_opened(self, event: LineList.Opened) -> None:
        """Fold a rule, or open the entries of a queue."""
        row, work = self._row, self.work
        if event.view is self.rules_view or row is None:
            return
        if row.share is None:
            self._folds[row.rule] = not row.folded
            self.draw(fresh=False)
        elif work.index is not None:
            limits = work.made_with.limits if work.made_with is not None else work.limits
            self.console.open(EntriesScreen(work.index, row.share, present.threshold_words(limits, row.rule)))

    HANDLERS: ClassVar[Mapping[str, ActionHandler[Any]]] = {
        **FrameScreen.HANDLERS,
        "toggle": ActionHandler(
            run=_toggle, reason=_why_not_rule,
            label=lambda screen: "" if screen._rule is None else "off" if screen._rule.on else "on",
        ),
        "threshold": ActionHandler(run=_threshold, reason=_why_not_threshold),
        "dryrun": ActionHandler(
            run=_dry_run, reason=lambda screen: screen.work.why_not_dry_run(),
            label=lambda screen: "dry run again" if screen.work.plan is not None else "",
        ),
        "apply": ActionHandler(
            run=_apply, reason=lambda screen: screen.work.why_not_apply(), label=_apply_label
        ),
        "save": ActionHandler(
            run=lambda screen: screen.run_worker(screen.work.save_settings(), group="ask", exit_on_error=False),
            reason=lambda screen: screen.work.why_not_save(),
        ),
        "write": ActionHandler(
            run=_write, reason=lambda screen: "" if screen.work.plan is not None else "no plan yet",
            label=lambda _screen: "save plan",
        ),
        "next": ActionHandler(run=_to_other_pane, label=lambda screen: "plan" if screen.in_rules else "rules"),
        "previous": ActionHandler(run=_to_other_pane),
        "open": ActionHandler(
            run=lambda _screen: None, offered=lambda screen: not screen.in_rules,
            label=lambda screen: "" if screen.in_rules else "entries" if screen._share is not None else "fold",
        ),
        "back": ActionHandler(
            run=_back, reason=_why_not_back, offered=lambda screen: not screen.why_not("back"),
            label=lambda screen: "cancel" if screen.work.dry is not None else "",
        ),
    }  # fmt: skip
