"""Every stuck job with why, its owner and whether that owner is alive."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, ClassVar

from qdeck import NotAllowed, UnknownJob
from qdeck._deck.model import NATIVE
from qdeck._filter import parse
from qdeck._layouts.base import Entry
from qdeck._operations.closeup import read_close_up
from qdeck._operations.model import Verb
from qdeck_console.actions import STUCK, bindings
from qdeck_console.operating import Wish
from qdeck_console.presenters import stuck as present
from qdeck_console.presenters.stuck import Stuck, StuckSeen, Why
from qdeck_console.screens.joblist import JobListScreen
from qdeck_console.widgets.lines import Item

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.binding import BindingType

    from qdeck._deck.deck import Deck
    from qdeck._deck.model import JobDetail, JobRecord, Snapshot
    from qdeck._operations.closeup import Spread
    from qdeck_console.actions import Action
    from qdeck_console.feed import Reader
    from qdeck_console.format import Line

MOST_QUEUES = 20
USUAL_S = 30.0
MOST_PAGES = 12  # of a queue of another layout: each kind of entry takes one at least
WAITING = ("running", "ready", "delayed", "blocked")


async def _theirs(deck: Deck, queue: str) -> list[Stuck]:
    found: dict[str, Stuck] = {}
    cursor: str | None = None
    for _ in range(MOST_PAGES):
        page = await deck.apage(queue, state=WAITING, cursor=cursor)
        entries = [entry for entry in page.jobs if isinstance(entry, Entry) and entry.stuck is not None]
        found |= {entry.key: present.theirs(entry) for entry in entries}
        cursor = page.cursor
        if cursor is None or len(found) >= present.MOST:
            break
    return list(found.values())


class StuckScreen(JobListScreen):
    """What runs longer than it should."""

    TAB = STUCK
    SCOPE = STUCK
    BINDINGS: ClassVar[list[BindingType]] = bindings(STUCK)

    def __init__(self) -> None:
        super().__init__()
        self._usual: dict[str, tuple[float, Spread | None]] = {}

    async def _read_usual(self, found: Sequence[Stuck]) -> None:
        """How long jobs took that are done, of the queue under the cursor and not often."""
        row = self.view.row if self.is_mounted else None
        stuck = row if isinstance(row, Stuck) else found[0] if found else None
        if stuck is None or stuck.why is Why.THEIRS:
            return
        queue, now = stuck.job.queue, time.monotonic()
        if queue in self._usual and now < self._usual[queue][0]:
            return
        try:
            spread = (await self.console.deck.alook(read_close_up(queue))).done
        except NotAllowed:
            spread = None
        self._usual[queue] = (time.monotonic() + max(USUAL_S, 20 * (time.monotonic() - now)), spread)

    def job_of(self, row: object) -> JobRecord | None:
        """The job that a row shows."""
        return row.job if isinstance(row, Stuck) else None

    def everything(self) -> tuple[Wish, int | None] | None:
        """All stuck jobs that match, of every queue."""
        if not self.view.all_marked:
            return None
        wish = Wish(verb=Verb.REQUEUE, where=self.filter_text, states=("running",), stuck=True)
        return wish, None if self.filter_text else self.seen.total

    def wants(self) -> Reader | None:
        """The running jobs whose lease is over or nearest to its end, of queues with stuck ones, and their owners."""

        async def read(snapshot: Snapshot) -> StuckSeen:
            deck = self.console.deck
            workers = {worker.id: worker for worker in await deck.aworkers()}
            found: list[Stuck] = []
            rows = sorted((row for row in snapshot.queues if row.stuck), key=lambda row: -(row.stuck or 0))
            for row in rows[:MOST_QUEUES]:
                if row.layout != NATIVE:
                    found += await _theirs(deck, row.name)
                    continue
                page = await deck.apage(row.name, state="running", most=present.MOST, bodies=False)
                for job in page.jobs:
                    try:
                        detail = await deck.ajob(job.queue, job.id)
                    except UnknownJob:
                        continue  # it ended between the two reads
                    stuck = present.judge(detail, workers, snapshot.at_ms)
                    if stuck is not None:
                        found.append(stuck)
            found.sort(key=lambda stuck: (stuck.why, stuck.job.queue, stuck.job.id))
            served = {row.name: row.workers for row in snapshot.queues}
            await self._read_usual(found)
            usual = {queue: spread for queue, (_, spread) in self._usual.items()}
            return StuckSeen(jobs=tuple(found), total=snapshot.totals.stuck, usual=usual, served=served)

        return read

    @property
    def seen(self) -> StuckSeen:
        """What was read for this screen."""
        extra = self.picture.extra
        return extra if isinstance(extra, StuckSeen) else StuckSeen()

    def verb(self, action: Action) -> str:
        """The verb of an action, with how many it would mark."""
        total = self.seen.total
        return f"all {total:,}" if action.id == "all" and total and not self.filter_text else super().verb(action)

    def head(self, cells: int) -> Line:
        """The heads of the columns."""
        return present.head_line(cells)

    def items(self) -> list[Item]:
        """The entries under the heads of their groups."""
        items: list[Item] = []
        test = parse(self.filter_text).compile()
        shown = [stuck for stuck in self.seen.jobs if test(stuck.job)]
        for why in Why:
            members = [stuck for stuck in shown if stuck.why is why]
            if members:
                items.append(Item("", 1 + int(self.is_tall and bool(items)), (why, len(members))))
                items += [Item(stuck.key, 1, stuck) for stuck in members]
                if self.is_tall:
                    items.append(Item("", 1, (why, members)))
        return items

    def lines_of(self, item: Item, cells: int, at_cursor: bool) -> Sequence[Line]:
        """The lines of an entry or a head."""
        if isinstance(item.row, Stuck):
            return (present.entry_line(item.row, cells, hide=self.hide, at_cursor=at_cursor),)
        if isinstance(item.row, tuple):
            why, count = item.row
            if not isinstance(count, int):
                return (present.note_line(why, count, cells),)
            return [()] * (item.height - 1) + [present.group_line(why, count, cells)]
        return ()

    def total_words(self) -> str:
        """How much is shown."""
        shown, total = len(self.seen.jobs), self.seen.total
        words = f"{shown:,} stuck job{'s' * (shown != 1)}"
        return words if shown >= total else f"{words} of {total:,}"

    def empty_lines(self) -> Sequence[Line]:
        """What is said when nothing is stuck."""
        if self.filter_text:
            return ((("    no stuck job matches; esc clears the filter", "muted"),),)
        return (
            (("    nothing is stuck", "strong bold"),),
            (("    no running job is past its lease or its time limit", "muted"),),
        )

    def detail(self) -> JobDetail | None:
        """All about the job under the cursor."""
        row = self.view.row
        return row.job if isinstance(row, Stuck) else None

    def side(self, cells: int, height: int) -> Sequence[Line]:
        """The job under the cursor, with why it is stuck."""
        row = self.view.row
        if not isinstance(row, Stuck):
            return ()
        return present.side(row, self.seen, cells, now_ms=self.now_ms, hide=self.hide)
