"""The dead letters of all queues: groups first, then the jobs of one group, and the actions on them."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Final

from textual.containers import Horizontal, Vertical

from qdeck.admin import NATIVE, Feature, Group, Headroom, JobRecord, QueueRef, Snapshot, Verb
from qdeck_console.actions import DEAD, ActionHandler
from qdeck_console.dead_groups import Triage, Triaged, key_of, narrowed
from qdeck_console.departed_jobs import GoneJob
from qdeck_console.job_sources import JobSource, ListedJobs, source
from qdeck_console.operations import OperationRequest
from qdeck_console.presenters import dead as present
from qdeck_console.presenters.dead import Alike, ListedDead
from qdeck_console.presenters.jobs import range_words
from qdeck_console.presenters.line_parts import name_parts, unread_words
from qdeck_console.presenters.payload import shared_columns
from qdeck_console.screens import export
from qdeck_console.screens.frame import UNREAD
from qdeck_console.screens.go_back import CANCEL, CLEAR_FILTER, CLEAR_MARKS, BackStep, back
from qdeck_console.screens.job_actions import why_not_act
from qdeck_console.screens.job_list import JobListScreen
from qdeck_console.screens.lists import lines_without_cursor
from qdeck_console.screens.redrive import LAST_REDRIVE
from qdeck_console.screens.redrive import start as start_redrive
from qdeck_console.text import safe_text
from qdeck_console.widgets.lines import Item, LineList, Lines, Listing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.widget import Widget

    from qdeck.admin import AsyncReader, JobDetail
    from qdeck_console.format import Line, Piece
    from qdeck_console.presenters.payload import Columns
    from qdeck_console.presenters.table import Table
    from qdeck_console.screens.export import Export

_CALM_S = 0.5
_NONE = "no dead letters"
CLEAR_GROUP_MARKS: Final = BackStep(
    applies=lambda screen: screen.group_view.all_marked, run=lambda screen: screen.clear_group_marks(),
    label="clear marks",
)  # fmt: skip
TO_GROUPS: Final = BackStep(
    applies=lambda screen: screen.view.has_focus, run=lambda screen: screen.to_groups(), label="groups"
)


class DeadScreen(JobListScreen[ListedDead]):
    """Jobs that are not retried automatically, and why."""

    TAB = SCOPE = DEAD

    def __init__(self) -> None:
        super().__init__()
        self._triage: tuple[tuple[AsyncReader, str], Triage] | None = None
        self._last = ListedDead()
        self._source: tuple[tuple[AsyncReader, str], JobSource] | None = None
        self._listed: tuple[tuple[Group, ...], list[Item]] = ((), [])
        self._touched = False
        self._begun: str | None = None
        self._alike, self._alike_of = Alike(), ""
        self._aligned: Columns = ()

    def body(self) -> Sequence[Widget]:
        """Return limits and groups in full width, below them the jobs of a group with one of them beside."""
        main = Vertical(Lines(id="head"), LineList(id="list"), Lines(id="total"), id="main")
        lower = Horizontal(main, Lines(id="side"), id="lower")
        return (Vertical(Lines(id="room"), Lines(id="ghead"), LineList(id="groups"), lower, id="triage"),)

    @property
    def group_view(self) -> LineList:
        """The groups."""
        return self.query_one("#groups", LineList)

    @property
    def main_list(self) -> LineList:
        """The list that has the keys when no other widget has them."""
        return self.group_view

    @property
    def in_groups(self) -> bool:
        """Whether the groups have the keys."""
        return self.group_view.has_focus

    @property
    def group(self) -> Group | None:
        """The group whose jobs are listed."""
        row = self.group_view.row
        return row if isinstance(row, Group) else None

    @property
    def where(self) -> str:
        """The filter for the jobs that are listed."""
        return narrowed(self.group, self.filter_text) if self.group is not None else self.filter_text

    @property
    def query_key(self) -> str:
        """The groups that match, and the jobs of the one under the cursor."""
        groups = self.query_one_optional("#groups", LineList)  # none while the screen is built
        return f"dead/{self.filter_text}/{groups.cursor if groups is not None else ''}"

    @property
    def whole(self) -> ListedDead:
        """What was read last: the groups stay while another one is chosen."""
        result = self.feed_state.result
        if isinstance(result, ListedDead):
            self._last = result
        return self._last

    @property
    def unfinished(self) -> bool:
        """Whether groups or jobs have not all been read yet."""
        return (self.feed_state.snapshot is not None and not self.whole.triaged.exact) or self.search is not None

    async def work_on(self) -> None:
        """Continue with the groups first."""
        snapshot = self.feed_state.snapshot
        if snapshot is not None and not self.whole.triaged.exact:
            await self.triage().go_on(snapshot)
        elif self.search is not None:
            await self.search.go_on()

    def merged(self, listed: ListedJobs) -> ListedDead:
        """Return what was read of the jobs, with the groups as they were."""
        return replace(self.whole, part=listed.part, detail=listed.detail)

    def source(self) -> JobSource | None:
        """Return the jobs of the group under the cursor."""
        group = self.group
        if group is None:
            return None
        asked = (self.console.reader, self.query_key)
        if self._source is None or self._source[0] != asked:
            self._source = (asked, source(asked[0], group.ref, "dead", self.where))
        return self._source[1]

    def triage(self) -> Triage:
        """Return the groups that match."""
        asked = (self.console.reader, self.filter_text)
        if self._triage is None or self._triage[0] != asked:
            self._triage = (asked, Triage(*asked))
        return self._triage[1]

    def _adapter(self) -> str:
        """Return the adapter of the group's queue."""
        return NATIVE if self.group is None else self.group.adapter

    async def read(self, reader: AsyncReader, snapshot: Snapshot) -> ListedDead:
        """Read on in the groups, and read the limits and the visible jobs."""
        visible = self.group_view.visible_keys() if self.is_mounted else ()
        triaged = await self.triage().look(snapshot, last_key_at=self.console.last_key_at, visible=visible)
        rows = [row for row in snapshot.queues if row.dead and row.has(Feature.DETAILS)]
        rows.sort(key=lambda row: -(row.dead or 0))
        names = [row.name for row in rows[: present.MOST_ROOMS]]
        rooms: list[Headroom] = await reader.dead_limits(names) if names else []
        listed = await self.read_list()
        return ListedDead(triaged=triaged, rooms=tuple(rooms), part=listed.part, detail=listed.detail)

    def draw(self, *, fresh: bool) -> None:
        """Draw limits, groups and jobs."""
        triaged, groups = self.whole.triaged, self.whole.triaged.groups
        if groups is not self._listed[0]:
            self._listed = (groups, [Item(key_of(group), 1, group) for group in groups])
        rows = self._listed[1]
        chosen = self.group_view.cursor
        self._draw_room()
        view = self.group_view
        known = self.feed_state.result_of.startswith(f"dead/{self.filter_text}/")
        if not self._touched and rows and rows[0].key != view.cursor:
            view.cursor = ""  # the operator has not chosen yet: the largest group so far
        told = () if rows else (UNREAD,) if self.is_unread else self.empty_lines() if known else ()
        if told:
            view.show(lines_without_cursor(told), self.painter)
        else:
            view.show(Listing(rows, self._group_lines), self.painter)
            self._leave_jobs(view)
        most = max(4, (self.size.height - 12) // 3) if self.is_tall else 4
        view.styles.height = min(len(rows), most) if rows else "1fr"
        self.query_one("#lower").display = bool(rows)
        self.query_one("#ghead", Lines).show(
            lambda w, _h: (present.groups_title(triaged, w, view.below), present.GROUPS.head(w)) if rows else (),
            self.painter,
        )
        if view.cursor != chosen and rows:
            self._begin()
            return
        self._compare()
        self.draw_list()
        self.read_lacking(fresh=fresh)

    def _leave_jobs(self, view: LineList) -> None:
        """Give the keys back to the groups when the one whose jobs are listed is gone. The cursor stays on nothing
        until it is moved: a key must not act on the group that took its place.
        """
        if view.place is None and self.view.has_focus and time.monotonic() - self.console.last_key_at >= _CALM_S:
            view.focus()

    def _compare(self) -> None:
        """Find what the jobs have in common; what one did not share is shown until another list is read."""
        rows = self.part.rows
        if not rows:
            return
        alike = Alike.of(rows)
        same = self._alike_of == self.query_key
        self._alike = self._alike.and_(alike) if same and len(rows) > 1 else alike
        self._alike_of = self.query_key
        self._aligned = shared_columns(row for row in rows if isinstance(row, JobRecord))

    def _draw_room(self) -> None:
        now_ms, panel = self.now_ms, self.query_one("#room", Lines)
        entries = {room.queue: self.feed_state.listed.of(QueueRef(NATIVE, room.queue)) for room in self.whole.rooms}
        dead_per_min = {queue: entry.row.dead_per_min for queue, entry in entries.items() if entry is not None}
        rooms = present.urgent_first(self.whole.rooms, dead_per_min)[: 2 if self.is_tall else 1]
        blank = int(self.is_tall)
        panel.styles.height = len(rooms) + (2 if rooms else 1) * blank

        def make(cells: int, _height: int) -> Sequence[Line]:
            name = 22 if cells >= 100 else 18
            told = [
                present.room_line(room, dead_per_min.get(room.queue), now_ms, cells, naming=self.naming, name=name)
                for room in rooms
            ]
            return [()] * blank + told

        panel.show(make, self.painter)

    def _group_lines(self, item: Item, cells: int, at_cursor: bool) -> Sequence[Line]:
        triaged = self.whole.triaged
        if not isinstance(item.row, Group):
            return ()
        view = present.GroupView(triaged.total, triaged.exact, self.now_ms, self.naming)
        return (present.GROUPS.line(item.row, cells, view, at_cursor=at_cursor),)

    @property
    def table(self) -> Table[JobRecord, Columns]:
        """The columns of the jobs: what all have in common needs none."""
        return present.jobs_table(self._alike)

    def row_view(self) -> Columns:
        """Return the pairs of the payload that all jobs have."""
        return self._aligned

    def heads(self, cells: int, *, has_rows: bool) -> Sequence[Line]:
        """Return the title of the jobs and the heads of their columns."""
        first, shown = self.visible_rows()
        of = self.group.count if self.group is not None else None
        words = range_words(self.part, first, shown, of) if self.part.reach else "…"
        order = present.order_words(self.part.rows)
        title = present.jobs_title(self.group, words, self.marks_words(), self.filter_text, cells, self._alike, order)
        return (title, self.head(cells))

    def empty_lines(self) -> Sequence[Line]:
        """Return what is shown instead of groups or jobs."""
        triaged: Triaged = self.whole.triaged
        if not triaged.exact:
            return ((("    …", "ghost"), (f"  {triaged.scanned:,} of ~{triaged.of:,} read", "muted")),)
        if self.filter_text:
            told: tuple[Line, ...] = ((("    no dead letter matches; esc clears the filter", "muted"),),)
            told += (((f"    {unread_words(triaged.unread)}", "warn"),),) if triaged.unread else ()
            if ":" in self.filter_text and "*" not in self.filter_text:
                told += ((("    values match as a whole; * is a wildcard, as in error:Time*", "muted"),),)
            return told
        if triaged.groups:
            return ((("    all jobs of this group are gone; j or k selects another group", "muted"),),)
        read = f"{unread_words(triaged.unread)}; " if triaged.unread else ""
        return (
            (("    no dead letters", "strong bold"),),
            ((f"    {read}jobs appear here when their last attempt fails", "muted"),),
        )

    def about(self, job: JobDetail, cells: int) -> Sequence[Line]:
        """Return the details of the job under the cursor."""
        return present.side(job, cells, now_ms=self.now_ms, naming=self.naming)

    def everything(self) -> tuple[OperationRequest, int | None] | None:
        """Return all jobs of the group, or of all groups, when they are marked or the groups have the keys."""
        group = self.group
        if self.group_view.all_marked:
            triaged = self.whole.triaged
            request = OperationRequest(verb=Verb.RETRY, where=self.filter_text, states=("dead",))
            return request, triaged.total if triaged.exact else None
        if group is not None and (self.in_groups or self.view.all_marked):
            request = OperationRequest(verb=Verb.RETRY, queues=(group.ref,), where=self.where, states=("dead",))
            return request, group.count if self.whole.triaged.exact else None
        return None

    def marks_words(self) -> list[Piece]:
        """Return how many jobs are marked: a group under the cursor is not a mark."""
        marked = self.group_view.all_marked or self.view.all_marked or self.view.marks
        return self.marked_words() if marked else []

    def acted(self) -> None:
        """Clear the marks after an action."""
        if self.is_mounted:
            self.group_view.clear_marks()
            self.view.clear_marks()

    def why_no_targets(self) -> str:
        """Return why nothing can be done to the targets."""
        return self.why_range_lacks() if self.group is not None else self._why_not_group()

    def _why_not_group(self) -> str:
        if self.group is not None:
            return ""
        return "no group under the cursor: j or k selects one" if self.whole.triaged.groups else _NONE

    def _why_not_redrive(self) -> str:
        if self.group is None:
            return why_not_act("retry", self)
        blind = "" if self.group_view.all_marked else self.console.reader.why_not_watch(self._adapter())
        return blind or why_not_act("retry", self)

    def why_not_mark(self) -> str:
        """Return why the job under the cursor cannot be marked."""
        return "enter lists the jobs of the group" if self.in_groups else self.why_no_row()

    def why_not_write(self) -> str:
        """Return why nothing can be exported."""
        return "" if self.group is not None else "nothing to export"

    def _all_label(self) -> str:
        if self.group is None:
            return ""
        return f"all {self.whole.triaged.total if self.in_groups else self.group.count:,}"

    def mark_all(self) -> None:
        """Mark all groups, or all jobs of one."""
        (self.group_view if self.in_groups else self.view).toggle_all()
        self.draw(fresh=False)

    def clear_group_marks(self) -> None:
        """Clear the marks of the groups."""
        self.group_view.clear_marks()
        self.draw(fresh=False)

    def to_groups(self) -> None:
        """Give the keys to the groups."""
        self.group_view.focus()
        self.call_after_refresh(self.redraw)

    def to_other_pane(self) -> None:
        """Give the keys to the other pane."""
        (self.view if self.in_groups else self.group_view).focus()
        self.call_after_refresh(self.redraw)

    def redrive(self) -> None:
        """Retry at a rate, a sample first, and show the outcomes."""
        everything = self.everything()
        if everything is not None:
            request = replace(everything[0], matched=everything[1])
        else:
            request = OperationRequest(verb=Verb.RETRY, jobs=self.targets())
        start_redrive(self.console, request, after=self.acted)

    def to_write(self) -> tuple[Sequence[JobRecord], OperationRequest | None]:
        """Return the jobs that are marked, that match, or that the group has."""
        everything = self.everything()
        return ((), everything[0]) if everything is not None else (self.targets(), None)

    def to_export(self) -> Export:
        """Return the details of the jobs, named by their group where it is one."""
        everything = self.everything()
        found = export.of_jobs(self.console, *self.to_write())
        if everything is None or not everything[0].queues or self.group is None:
            return found
        where = " ▸ ".join(name_parts(self.group.ref, naming=self.naming))
        return replace(found, of=f"{safe_text(self.group.error_class, limit=60)} in {where}")

    def copied(self) -> tuple[str, str]:
        """Return what `y` copies: the filter of the group, or the id of the job."""
        if self.in_groups:
            return ("filter", self.where) if self.group is not None else ("", "")
        row = self.view.row
        return ("id", row.id) if isinstance(row, JobRecord | GoneJob) else ("", "")

    def _begin(self) -> None:
        self._begun = self.group_view.cursor
        self.view.forget()
        if self.is_current and self.feed_state.snapshot is not None and self.group is not None:
            self.console.feed.want(self.to_read(), at_once=False)
            self.show(self.console.shown, fresh=False)
            self.fetch()  # the jobs only: queues and groups need not be read for that
        else:
            self.console.now_on_screen(self)

    def on_screen_suspend(self) -> None:
        """Put the groups in order anew when the screen is opened again."""
        if self._triage is not None and self not in self.console.screen_stack:
            self._triage[1].sort_anew()

    def filter_changed(self) -> None:
        """Show what matches the filter."""
        self.group_view.forget()
        self._last, self._touched = ListedDead(), False
        self._begin()

    def on_key(self) -> None:
        """Leave the cursor where it is from the first key on."""
        self._touched = True

    def on_click(self) -> None:
        """Leave the cursor where it is from the first click on."""
        self._touched = True

    def moved(self, event: LineList.Moved) -> None:
        """Read the jobs of another group, or draw another job."""
        if event.view is self.group_view:
            if event.key != self._begun:
                self._begin()
            return
        self.draw_cursor()
        self.query_one("#head", Lines).refresh_lines()

    def open(self) -> None:
        """Go from a group to its jobs, from a job to its page."""
        if not self.in_groups:
            self.open_job()
        elif self.group is not None:
            self.to_other_pane()

    def _pane_label(self) -> str:
        return "jobs" if self.in_groups else "groups"

    HANDLERS: ClassVar = {
        **JobListScreen.HANDLERS,
        "open": ActionHandler(run=open, label=lambda screen: "jobs" if screen.in_groups else ""),
        "next": ActionHandler(run=to_other_pane, reason=_why_not_group, label=_pane_label),
        "previous": ActionHandler(run=to_other_pane, reason=_why_not_group),
        "redrive": ActionHandler(run=redrive, reason=_why_not_redrive),
        "last_redrive": LAST_REDRIVE,
        "mark": ActionHandler(run=JobListScreen.mark, reason=why_not_mark),
        "range": ActionHandler(run=JobListScreen.mark_range, reason=why_not_mark),
        "all": ActionHandler(run=mark_all, reason=_why_not_group, label=_all_label),
        "write": replace(JobListScreen.HANDLERS["write"], reason=why_not_write),
        "back": back(CANCEL, CLEAR_GROUP_MARKS, CLEAR_MARKS, TO_GROUPS, CLEAR_FILTER),
    }
