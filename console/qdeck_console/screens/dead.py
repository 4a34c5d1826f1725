"""The dead letters: newest first, grouped by error."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from qdeck import UnknownJob
from qdeck._deck.model import JobDetail, JobRecord, Snapshot
from qdeck._filter import parse
from qdeck._operations.model import Verb
from qdeck_console.actions import DEAD, bindings
from qdeck_console.operating import Wish
from qdeck_console.presenters import dead as present
from qdeck_console.presenters.dead import DeadGroup, DeadSeen
from qdeck_console.presenters.job_detail import job_lines
from qdeck_console.screens.joblist import JobListScreen
from qdeck_console.widgets.lines import Item

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.binding import BindingType

    from qdeck_console.feed import Reader
    from qdeck_console.format import Line


class DeadScreen(JobListScreen):
    """What will not run again by itself, and why."""

    TAB = DEAD
    SCOPE = DEAD
    BINDINGS: ClassVar[list[BindingType]] = bindings(DEAD)

    def everything(self) -> tuple[Wish, int | None] | None:
        """All dead letters that match, of every queue."""
        if not self.view.all_marked:
            return None
        wish = Wish(verb=Verb.RETRY, where=self.filter_text, states=("dead",))
        return wish, None if self.filter_text else self.seen.total

    def wants(self) -> Reader | None:
        """The newest entries of the queues with most dead letters, and all about the one under the cursor."""

        async def read(snapshot: Snapshot) -> DeadSeen:
            deck, cursor = self.console.deck, self.view.cursor
            rows = sorted((row for row in snapshot.queues if row.dead), key=lambda row: -(row.dead or 0))
            rows = rows[: present.MOST_QUEUES]
            share = max(10, present.PAGE // max(1, len(rows)))
            jobs: list[JobRecord] = []
            for row in rows:
                page = await deck.apage(row.name, state="dead", most=share, bodies=False)
                jobs += page.jobs
            detail: JobDetail | None = None
            job = next((job for job in jobs if job.key == cursor), jobs[0] if jobs and not cursor else None)
            if job is not None:
                try:
                    detail = await deck.ajob(job.queue, job.id)
                except UnknownJob:
                    detail = None  # it went away between the two reads
            return DeadSeen(jobs=tuple(jobs), total=snapshot.totals.dead, detail=detail)

        return read

    @property
    def seen(self) -> DeadSeen:
        """What was read for this screen."""
        extra = self.picture.extra
        return extra if isinstance(extra, DeadSeen) else DeadSeen()

    def head(self, cells: int) -> Line:
        """The heads of the columns."""
        return present.head_line(cells)

    def items(self) -> list[Item]:
        """The entries under the heads of their groups."""
        items: list[Item] = []
        test = parse(self.filter_text).compile()
        jobs = [job for job in self.seen.jobs if test(job)]
        for group, members in present.groups(jobs):
            items.append(Item("", 1 + int(self.is_tall and bool(items)), group))
            items += [Item(job.key, 1, job) for job in members]
        return items

    def lines_of(self, item: Item, cells: int, at_cursor: bool) -> Sequence[Line]:
        """The lines of an entry or a head."""
        if isinstance(item.row, JobRecord):
            return (present.entry_line(item.row, cells, hide=self.hide, at_cursor=at_cursor),)
        if isinstance(item.row, DeadGroup):
            return [()] * (item.height - 1) + [present.group_line(item.row, cells, hide=self.hide)]
        return ()

    def total_words(self) -> str:
        """How much is shown."""
        return present.total_words(self.seen)

    def empty_lines(self) -> Sequence[Line]:
        """What is said when nothing is dead."""
        if self.filter_text:
            return ((("    no dead letter matches; esc clears the filter", "muted"),),)
        return (
            (("    no dead letters", "strong bold"),),
            (("    every queue was asked; a job comes here when its last try has failed", "muted"),),
        )

    def detail(self) -> JobDetail | None:
        """All about the job under the cursor, once it is read."""
        detail = self.seen.detail
        return detail if detail is not None and detail.key == self.view.cursor else None

    def side(self, cells: int, height: int) -> Sequence[Line]:
        """The job under the cursor."""
        detail = self.detail()
        if detail is None:
            return ((("…", "ghost"),),) if self.view.row is not None else ()
        return job_lines(detail, cells, hide=self.hide)
