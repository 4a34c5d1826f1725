"""The dead letters as triage: groups over everything first, then the entries of one, and what is done about them."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Final

from textual.containers import Horizontal, Vertical

from qdeck.admin import NATIVE, Feature, Group, Headroom, JobRecord, QueueRef, Snapshot, Verb
from qdeck_console.actions import DEAD, ActionHandler
from qdeck_console.leaving import SHOWN_S, Left
from qdeck_console.operations import OperationRequest
from qdeck_console.presenters import dead as present
from qdeck_console.presenters.dead import Alike, DeadInSight
from qdeck_console.presenters.job_detail import gone_lines
from qdeck_console.presenters.jobs import range_words
from qdeck_console.presenters.parts import unread_words
from qdeck_console.presenters.payload import shared_columns
from qdeck_console.screens.back import CANCEL, CLEAR_FILTER, CLEAR_MARKS, BackStep, back
from qdeck_console.screens.frame import UNREAD
from qdeck_console.screens.job_actions import why_not_act
from qdeck_console.screens.job_list import JobListScreen, JobsInSight
from qdeck_console.screens.lists import lines_without_cursor
from qdeck_console.screens.redrive import start as start_redrive
from qdeck_console.sources import JobSource, source
from qdeck_console.triage import Triage, Triaged, key_of, narrowed
from qdeck_console.widgets.lines import Item, LineList, Lines, Listing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.widget import Widget

    from qdeck.admin import AsyncReader
    from qdeck_console.format import Line, Piece
    from qdeck_console.presenters.payload import Columns

_CALM_S = 0.5
_NONE = "there is none"
CLEAR_GROUP_MARKS: Final = BackStep(
    applies=lambda screen: screen.group_view.all_marked, run=lambda screen: screen.clear_group_marks(),
    label="clear marks",
)  # fmt: skip
TO_GROUPS: Final = BackStep(
    applies=lambda screen: screen.view.has_focus, run=lambda screen: screen.to_groups(), label="groups"
)


class DeadScreen(JobListScreen[DeadInSight]):
    """What will not run again by itself, and why."""

    TAB = SCOPE = DEAD

    def __init__(self) -> None:
        super().__init__()
        self._triage: tuple[tuple[AsyncReader, str], Triage] | None = None
        self._last = DeadInSight()
        self._source: tuple[tuple[AsyncReader, str], JobSource] | None = None
        self._listed: tuple[tuple[Group, ...], list[Item]] = ((), [])
        self._touched = False
        self._gone_at: float | None = None  # since when the group under the cursor is gone
        self._has_acted = False
        self._begun: str | None = None
        self._alike, self._alike_of = Alike(), ""
        self._aligned: Columns = ()

    def body(self) -> Sequence[Widget]:
        """Limits and groups in full width, below them the entries of a group with one of them beside."""
        main = Vertical(Lines(id="head"), LineList(id="list"), Lines(id="total"), id="main")
        lower = Horizontal(main, Lines(id="side"), id="lower")
        return (Vertical(Lines(id="room"), Lines(id="ghead"), LineList(id="groups"), lower, id="triage"),)

    @property
    def group_view(self) -> LineList:
        """The groups."""
        return self.query_one("#groups", LineList)

    @property
    def main_list(self) -> LineList:
        """The list that has the keys when nothing else has them."""
        return self.group_view

    @property
    def in_groups(self) -> bool:
        """Whether the groups have the keys."""
        return self.group_view.has_focus

    @property
    def group(self) -> Group | None:
        """The group whose entries are listed."""
        row = self.group_view.row
        return row if isinstance(row, Group) else None

    @property
    def where(self) -> str:
        """The filter for the entries that are listed."""
        return narrowed(self.group, self.filter_text) if self.group is not None else self.filter_text

    @property
    def query_key(self) -> str:
        """The groups that match, and the entries of the one under the cursor."""
        return f"dead/{self.filter_text}/{self.group_view.cursor}" if self.is_mounted else "dead"

    @property
    def whole(self) -> DeadInSight:
        """What was read last; the groups stay while another one is chosen."""
        result = self.picture.result
        if isinstance(result, DeadInSight):
            self._last = result
        return self._last

    @property
    def seen(self) -> JobsInSight:
        """What was read of the entries."""
        if self.picture.result_of != self.query_key:
            return JobsInSight()
        return JobsInSight(part=self.whole.part, detail=self.whole.detail)

    @property
    def unfinished(self) -> bool:
        """Whether groups or entries have not all been seen yet."""
        return (self.picture.snapshot is not None and not self.whole.triaged.exact) or self.search is not None

    async def work_on(self) -> None:
        """Goes on with the groups first."""
        snapshot = self.picture.snapshot
        if snapshot is not None and not self.whole.triaged.exact:
            await self.triage().go_on(snapshot)
        elif self.search is not None:
            await self.search.go_on()

    def merged(self, listed: JobsInSight) -> DeadInSight:
        """What was read of the entries, with the groups as they were."""
        return replace(self.whole, part=listed.part, detail=listed.detail)

    def source(self) -> JobSource | None:
        """The entries of the group under the cursor."""
        group = self.group
        if group is None:
            return None
        asked = (self.console.reader, self.query_key)
        if self._source is None or self._source[0] != asked:
            self._source = (asked, source(asked[0], group.ref, "dead", self.where))
        return self._source[1]

    def triage(self) -> Triage:
        """The groups that match, as this reader finds them."""
        asked = (self.console.reader, self.filter_text)
        if self._triage is None or self._triage[0] != asked:
            self._triage = (asked, Triage(*asked))
        return self._triage[1]

    def _adapter(self) -> str:
        """The adapter of the group's queue."""
        return NATIVE if self.group is None else self.group.adapter

    async def read(self, reader: AsyncReader, snapshot: Snapshot) -> DeadInSight:
        """Read on in the groups, and read the limits and the entries that are in sight."""
        visible = self.group_view.visible_keys() if self.is_mounted else ()
        triaged = await self.triage().look(snapshot, last_key_at=self.console.last_key_at, visible=visible)
        rows = [row for row in snapshot.queues if row.dead and row.has(Feature.DETAILS)]
        rows.sort(key=lambda row: -(row.dead or 0))
        names = [row.name for row in rows[: present.MOST_ROOMS]]
        rooms: list[Headroom] = await reader.dead_limits(names) if names else []
        listed = await self.read_list()
        return DeadInSight(triaged=triaged, rooms=tuple(rooms), part=listed.part, detail=listed.detail)

    def draw(self, *, fresh: bool) -> None:
        """Draws limits, groups and entries."""
        triaged, groups = self.whole.triaged, self.whole.triaged.groups
        if groups is not self._listed[0]:
            self._listed = (groups, [Item(key_of(group), 1, group) for group in groups])
        rows = self._listed[1]
        chosen = self.group_view.cursor
        self._draw_room()
        view = self.group_view
        known = self.picture.result_of.startswith(f"dead/{self.filter_text}/")
        if not self._touched and rows and rows[0].key != view.cursor:
            view.cursor = ""  # nobody has chosen yet: the largest group is it, as they come in
        told = () if rows else (UNREAD,) if self.is_unread else self.empty_lines() if known else ()
        if told:
            view.show(lines_without_cursor(told), self.painter)
        else:
            view.show(Listing(rows, self._group_lines), self.painter)
            self._leave_gone(view)
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
        self.draw_list(fresh=fresh)
        self._draw_head()

    def _leave_gone(self, view: LineList) -> None:
        """Goes on to the next group when the one under the cursor is gone: at once after an act from here, else when it
        was seen for long enough; never while keys are pressed, because one of them must not act on a neighbour.
        """
        now = time.monotonic()
        if view.place is not None:
            self._gone_at = None
            return
        self._gone_at = now if self._gone_at is None else self._gone_at
        calm = now - self.console.last_key_at >= _CALM_S
        if calm and (self._has_acted or now - self._gone_at >= SHOWN_S):
            self._gone_at, self._has_acted = None, False
            view.focus()
            view.settle_beside()

    def _compare(self) -> None:
        """What the entries have in common; what one did not share comes back only with another list."""
        rows = self.seen.part.rows
        if not rows:
            return
        alike = Alike.of(rows)
        same = self._alike_of == self.query_key
        self._alike = self._alike.and_(alike) if same and len(rows) > 1 else alike
        self._alike_of = self.query_key
        self._aligned = shared_columns(row for row in rows if isinstance(row, JobRecord))

    def _draw_room(self) -> None:
        now_ms, panel = self.now_ms, self.query_one("#room", Lines)
        entries = {room.queue: self.picture.judged.of(QueueRef(NATIVE, room.queue)) for room in self.whole.rooms}
        dead_per_min = {queue: entry.row.dead_per_min for queue, entry in entries.items() if entry is not None}
        rooms = present.urgent_first(self.whole.rooms, dead_per_min)[: 2 if self.is_tall else 1]
        blank = int(self.is_tall)
        panel.styles.height = len(rooms) + (2 if rooms else 1) * blank

        def make(cells: int, _height: int) -> Sequence[Line]:
            name = 22 if cells >= 100 else 18
            told = [
                present.room_line(room, dead_per_min.get(room.queue), now_ms, cells, hide=self.hide, name=name)
                for room in rooms
            ]
            return [()] * blank + told

        panel.show(make, self.painter)

    def _group_lines(self, item: Item, cells: int, at_cursor: bool) -> Sequence[Line]:
        triaged = self.whole.triaged
        if not isinstance(item.row, Group):
            return ()
        view = present.GroupView(triaged.total, triaged.exact, self.now_ms, self.hide)
        return (present.GROUPS.line(item.row, cells, view, at_cursor=at_cursor),)

    def _draw_head(self) -> None:
        part, of = self.seen.part, self.group.count if self.group is not None else None

        def make(cells: int, _height: int) -> Sequence[Line]:
            first, shown = self.visible_rows()
            words = range_words(part, first, shown, of) if part.reach else "…"
            alike = self._alike
            title = present.entries_title(self.group, words, self.marks_words(), self.filter_text, cells, alike)
            return (title, present.entries(alike).head(cells))

        self.query_one("#head", Lines).show(make, self.painter)

    def head(self, cells: int) -> Line:
        """The heads of the columns."""
        return present.entries().head(cells)

    def total_words(self) -> str:
        """Nothing: the head of the entries tells how many there are."""
        return ""

    def lines_of(self, item: Item, cells: int, at_cursor: bool) -> Sequence[Line]:
        """The line of an entry."""
        if isinstance(item.row, JobRecord):
            return (present.entries(self._alike).line(item.row, cells, self._aligned, at_cursor=at_cursor),)
        return (present.left_line(item.row, cells, self.now_ms),) if isinstance(item.row, Left) else ()

    def empty_lines(self) -> Sequence[Line]:
        """What is said when nothing is dead."""
        triaged: Triaged = self.whole.triaged
        if not triaged.exact:
            return ((("    …", "ghost"), (f"  {triaged.scanned:,} of ~{triaged.of:,} read", "muted")),)
        if self.filter_text:
            told: tuple[Line, ...] = ((("    no dead letter matches; esc clears the filter", "muted"),),)
            told += (((f"    {unread_words(triaged.unread)}", "warn"),),) if triaged.unread else ()
            if ":" in self.filter_text and "*" not in self.filter_text:
                told += ((("    a value is compared whole: * stands for anything, as in error:Time*", "muted"),),)
            return told
        if triaged.groups:
            return ((("    its entries are gone meanwhile", "muted"),),)
        asked = "every queue was asked"
        if triaged.unread:
            asked = f"{unread_words(triaged.unread)}; every other queue was asked"
        return (
            (("    no dead letters", "strong bold"),),
            ((f"    {asked}; a job comes here when its last try has failed", "muted"),),
        )

    def side(self, cells: int, height: int) -> Sequence[Line]:
        """The entry under the cursor."""
        gone, detail = self.gone(), self.detail()
        if gone is not None:
            return gone_lines(gone, cells, self.now_ms)
        if detail is None:
            return ((("…", "ghost"),),) if self.view.row is not None else ()
        return present.side(detail, cells, now_ms=self.now_ms, hide=self.hide)

    def everything(self) -> tuple[OperationRequest, int | None] | None:
        """All of the group, or all of all groups, when that was asked for or the groups have the keys."""
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
        """How many entries are marked; that the groups have the keys is no mark."""
        marked = self.group_view.all_marked or self.view.all_marked or self.view.marks
        return self.marked_words() if marked else []

    def acted(self) -> None:
        """Marks were for what was done."""
        self._has_acted = True
        if self.is_mounted:
            self.group_view.clear_marks()
            self.view.clear_marks()

    def why_no_targets(self) -> str:
        """Return why nothing can be done to the targets."""
        return self.why_range_lacks() if self.group is not None else _NONE

    def _why_not_group(self) -> str:
        return "" if self.group is not None else _NONE

    def _why_not_redrive(self) -> str:
        if self.group is None:
            return why_not_act("retry", self)
        blind = "" if self.group_view.all_marked else self.console.reader.why_not_watch(self._adapter())
        return blind or why_not_act("retry", self)

    def why_not_mark(self) -> str:
        """Return why the entry under the cursor cannot be marked."""
        return "enter goes to its entries" if self.in_groups else self.why_no_row()

    def why_not_write(self) -> str:
        """Return why nothing can be written to a file."""
        return "" if self.group is not None else "nothing to write"

    def _all_label(self) -> str:
        if self.group is None:
            return ""
        return f"all {self.whole.triaged.total if self.in_groups else self.group.count:,}"

    def mark_all(self) -> None:
        """Mark all groups, or all entries of one."""
        (self.group_view if self.in_groups else self.view).toggle_all()
        self.draw(fresh=False)

    def clear_group_marks(self) -> None:
        """Take the marks of all groups away."""
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
        request = everything[0] if everything is not None else OperationRequest(verb=Verb.RETRY, jobs=self.targets())
        start_redrive(self.console, request, after=self.acted)

    def to_write(self) -> tuple[Sequence[JobRecord], OperationRequest | None]:
        """The entries that are marked, that match, or that the group has."""
        everything = self.everything()
        return ((), everything[0]) if everything is not None else (self.targets(), None)

    def copied(self) -> tuple[str, str]:
        """What `y` takes: the filter of the group, or the id of the entry."""
        if self.in_groups:
            return ("filter", self.where) if self.group is not None else ("", "")
        row = self.view.row
        return ("id", row.id) if isinstance(row, JobRecord | Left) else ("", "")

    def _begin(self) -> None:
        self._begun = self.group_view.cursor
        self.view.forget()
        if self.is_current and self.picture.snapshot is not None and self.group is not None:
            self.console.feed.want(self.to_read(), at_once=False)
            self.show(self.console.shown, fresh=False)
            self.fetch()  # the entries only: the queues and groups need not be read for that
        else:
            self.console.now_on_screen(self)

    def filter_changed(self) -> None:
        """Show what matches the filter."""
        self.group_view.forget()
        self._last, self._touched = DeadInSight(), False
        self._begin()

    def on_key(self) -> None:
        """From the first key on the cursor is where someone put it."""
        self._touched = True

    def on_click(self) -> None:
        """The same with the mouse."""
        self._touched = True

    def moved(self, event: LineList.Moved) -> None:
        """Another group has other entries; another entry another detail."""
        if event.view is self.group_view:
            self._has_acted = False  # whoever moves on looks at another group now
            if event.key != self._begun:
                self._begin()
            return
        self.entry_moved()
        self.query_one("#head", Lines).refresh_lines()

    def open(self) -> None:
        """From a group to its entries, from an entry to its page."""
        if not self.in_groups:
            self.open_job()
        elif self.group is not None:
            self.to_other_pane()

    def _pane_label(self) -> str:
        return "entries" if self.in_groups else "groups"

    HANDLERS: ClassVar = {
        **JobListScreen.HANDLERS,
        "open": ActionHandler(run=open, label=lambda screen: "entries" if screen.in_groups else ""),
        "next": ActionHandler(run=to_other_pane, reason=_why_not_group, label=_pane_label),
        "previous": ActionHandler(run=to_other_pane, reason=_why_not_group),
        "redrive": ActionHandler(run=redrive, reason=_why_not_redrive),
        "mark": ActionHandler(run=JobListScreen.mark, reason=why_not_mark),
        "range": ActionHandler(run=JobListScreen.mark_range, reason=why_not_mark),
        "all": ActionHandler(run=mark_all, reason=_why_not_group, label=_all_label),
        "write": replace(JobListScreen.HANDLERS["write"], reason=why_not_write),
        "back": back(CANCEL, CLEAR_GROUP_MARKS, CLEAR_MARKS, TO_GROUPS, CLEAR_FILTER),
    }
