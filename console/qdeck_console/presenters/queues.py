"""The list of queues: who is in trouble and why, and how a row is drawn in a width."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeAlias

from qdeck.admin import Code, State
from qdeck_console import format as fmt
from qdeck_console.presenters.charts import sparkline
from qdeck_console.presenters.line_parts import LEAD, MARGIN, Naming, more_words, queue_path
from qdeck_console.presenters.table import REST, Column, Table, TableCell
from qdeck_console.queue_findings import ListedQueue, Severity
from qdeck_console.queue_order import Sort
from qdeck_console.text import cut_end, safe_text, width

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from qdeck.admin import QueueRef, QueueRow, Totals
    from qdeck_console.feed import FeedState
    from qdeck_console.format import Line, Piece
    from qdeck_console.history import Flow
    from qdeck_console.selected_queue import Insight


QueueColumn: TypeAlias = "Column[ListedQueue, QueueView]"
NO_MATCH: Final[Line] = (
    ("    ", "text"), ("no queue matches; queues are filtered by name only; ", "muted"), ("esc", "accent bold"),
    (" clears the filter", "muted"),
)  # fmt: skip
_LONGEST_S: Final = 9 * 86400  # until it is empty; a rate says no more than that
_DROPS: Final = ("adapter", "delayed", "running", "empty in", "in/s", "out/s", "stuck")
_SORTED_BY: Final = {
    Sort.NAME: "queue", Sort.READY: "ready", Sort.DEAD: "dead", Sort.OLDEST: "oldest", Sort.RATE: "in/s",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class QueueView:
    """What the rows and the detail of queues are drawn with."""

    feed_state: FeedState
    naming: Naming
    reasons_shown: bool
    before: Mapping[QueueRef, QueueRow] = field(default_factory=lambda: MappingProxyType({}))
    adapters: int = 1  # systems that the queues of the list are of
    insight: Insight | None = None  # of the queue whose detail is drawn
    limit: int | None = None  # ready jobs from which a queue is worth a look

    @property
    def table(self) -> Table[ListedQueue, QueueView]:
        """The columns."""
        return _table(self.adapters > 1, _span_label(self.feed_state.history.span_s))

    def lines(self, entry: ListedQueue, cells: int, *, at_cursor: bool) -> list[Line]:
        """Return the one or two lines of a queue."""
        first = self.table.line(entry, cells, self, at_cursor=at_cursor)
        if not (self.reasons_shown and entry.reasons):
            return [first]
        room = cells - LEAD - MARGIN
        return [first, ((" " * LEAD, "text"), *fmt.fit(reason_pieces(entry, room), room))]


def _span_label(span_s: float) -> str:
    return f"last {span_s / 60:.0f}m" if span_s >= 55 else f"last {span_s:.0f}s"


def _count(head: str, cells: int, name: str, looks: Callable[[ListedQueue, QueueView], str]) -> QueueColumn:
    """Return a column with one of the counts of a queue."""

    def value(entry: ListedQueue, cell: TableCell[QueueView]) -> list[Piece]:
        return fmt.cell(fmt.count(getattr(entry.row, name), cell.width), looks(entry, cell.view))

    return Column(head, cells, value, right=True)


def _news(name: str, role: str = "text") -> Callable[[ListedQueue, QueueView], str]:
    """Return the role of a count: a change stands out until the next refresh."""

    def looks(entry: ListedQueue, view: QueueView) -> str:
        before = view.before.get(entry.row.ref, entry.row)
        return role if getattr(entry.row, name) == getattr(before, name) else "strong"

    return looks


def _ready_role(entry: ListedQueue, view: QueueView) -> str:
    return _news("ready")(entry, view) if entry.severity is Severity.FINE else "strong bold"


def _name(entry: ListedQueue, cell: TableCell[QueueView]) -> list[Piece]:
    """Return the name; where there is no column for it, it carries its adapter while it fits."""
    view = cell.view
    role = "strong bold" if cell.at_cursor or entry.severity is not Severity.FINE else "text"
    name = queue_path(entry.row.ref, cell.width, role, naming=view.naming)
    adapter = safe_text(entry.row.adapter, limit=40)
    left = cell.width - fmt.length(name) - width(adapter)
    if view.adapters > 1 and left > 1 and not view.table.has("adapter", cell.room):
        name += [(" " * left, "text"), (adapter, "faint")]
    return name


def _past(entry: ListedQueue, cell: TableCell[QueueView]) -> list[Piece]:
    history, row = cell.view.feed_state.history, entry.row
    series = history.ready(row.ref, cell.width)
    known = [value for value in series if value is not None]
    if sum(known) < len(known):  # hardly any job waits there: the rates are more useful than a flat line
        flow = history.drained(row.ref, cell.width)
        series = flow if any(value is not None for value in flow) else series
    role, last = ("ghost", "muted") if entry.severity is Severity.FINE else (entry.severity.role, None)
    return sparkline(series, role, last_role=last)


@lru_cache(maxsize=8)
def _table(has_adapters: bool, span: str) -> Table[ListedQueue, QueueView]:
    """Return the columns; with one adapter only, the total names it."""
    return Table(
        Column("queue", REST, _name),
        Column("adapter", 9 * has_adapters, lambda e, _: [(safe_text(e.row.adapter, limit=40), "faint")]),
        _count("ready", 7, "ready", _ready_role),
        _count("delayed", 8, "delayed", _news("delayed", "muted")),
        _count("running", 7, "running", _news("running")),
        Column(
            "stuck", lambda room: 5 if room < 100 else 6,
            lambda e, c: fmt.cell(fmt.count(e.row.stuck, c.width), f"{e.worst(Code.STUCK).role} bold"), right=True,
        ),
        _count("dead", 6, "dead", lambda e, view: e.role(Code.DEAD, _news("dead")(e, view))),
        Column("in/s", 6, lambda e, c: fmt.cell(fmt.rate(e.row.in_per_s, c.width)), right=True),
        Column("out/s", 6, lambda e, c: fmt.cell(fmt.rate(e.row.out_per_s, c.width)), right=True),
        Column("oldest", 8, lambda e, _: _oldest(e), right=True),
        Column("empty in", 8, lambda e, _: empty_in(e), right=True),
        Column(span, 10, _past, lead=1),
        sign=_sign,
        least=lambda room: 30 if room < 100 else 20,
        drops=(span, *_DROPS),
    )  # fmt: skip


def _sign(entry: ListedQueue, _: QueueView) -> Piece:
    return entry.glyph, "muted" if entry.severity is Severity.FINE else entry.severity.role


def head_line(view: QueueView, cells: int, sort: Sort) -> Line:
    """Return the heads of the columns."""
    return view.table.head(cells, _SORTED_BY.get(sort, ""))


def reason_pieces(entry: ListedQueue, cells: int) -> list[Piece]:
    """Return the reasons of a queue with the key that acts on each, worst first, and how many have no room."""
    out: list[Piece] = []
    for at, reason in enumerate(entry.reasons):
        key, label = reason.next
        tail: list[Piece] = [(" · ", "ghost"), (key, "accent bold"), (f" {label}", "muted")] if key else []
        gap: list[Piece] = [("  ·  ", "ghost")] if out else []
        more = len(entry.reasons) - at
        rest = more_words(more, cells)
        room = cells - fmt.length(out) - fmt.length(gap) - (len(rest) if more > 1 else 0)
        words = safe_text(reason.text, limit=300)
        if out and width(words) + fmt.length(tail) > room:
            out.append((rest, "muted"))
            break
        out += [*gap, (cut_end(words, max(12, room - fmt.length(tail))), reason.severity.role), *tail]
    return out


def list_in_question(entry: ListedQueue | None) -> State | None:
    """Return which of its lists of jobs the worst reason of a queue is about; none when it is about no one of them."""
    if entry is None or not entry.reasons:
        return None
    worst = entry.reasons[0].code
    if worst is Code.STUCK and entry.row.running:
        return State.RUNNING
    return State.DEAD if worst in (Code.DEAD, Code.DEAD_GROWING) and entry.row.dead else None


def _oldest(entry: ListedQueue) -> list[Piece]:
    oldest = entry.row.oldest_s
    if entry.row.ready and oldest is None:
        return [(fmt.NONE, "ghost")]  # some wait, and since when is not known
    if not oldest:
        return [(fmt.ZERO, "ghost")]
    late = entry.worst(Code.LATE)
    since = fmt.span_pieces(oldest * 1000, "text" if late is Severity.FINE else late.role)
    return since if entry.row.oldest_exact else [("≥", "muted"), *since]


def empty_in(entry: ListedQueue) -> list[Piece]:
    """Return how long until the queue is empty at the present rates."""
    row = entry.row
    if row.paused:
        return [("paused", "muted")]
    if not row.ready:
        return [(fmt.ZERO, "ghost")]
    if row.workers == 0:
        return [(fmt.NONE, "ghost")]  # its rates are of workers that have ended since
    if row.in_per_s is None or row.out_per_s is None or (row.in_per_s < 0.05 and row.out_per_s < 0.05):
        return [(fmt.NONE, "ghost")]
    net = row.out_per_s - row.in_per_s
    if net <= 0.02:
        return [("growing" if net < -0.02 else "steady", entry.role(Code.FILLING))]
    seconds = row.ready / net
    if seconds > _LONGEST_S:
        return [("> 9d", "text")]
    if seconds >= 600:
        text = fmt.span(seconds * 1000).split(" ")[0]
        return [(text[:-1], "text"), (text[-1], "muted")]
    return fmt.span_pieces(seconds * 1000)


def total_line(view: QueueView, cells: int, totals: Totals, flow: Flow, words: str) -> Line:
    """Return the sums, under their columns."""
    sums = {
        "ready": totals.ready, "delayed": totals.delayed, "running": totals.running, "stuck": totals.stuck,
        "dead": totals.dead,
    }  # fmt: skip

    def value(head: str, room: int) -> Sequence[Piece]:
        if head == "queue":
            return [(words, "muted")]
        if head in sums:
            return fmt.cell(fmt.count(sums[head], room), "strong bold")
        return fmt.cell(fmt.rate(flow[head == "out/s"], room)) if head in ("in/s", "out/s") else ()

    return view.table.totals(cells, value)


def totals_of(rows: Sequence[QueueRow]) -> Totals:
    """Return sums over queues."""
    from qdeck.admin import Totals

    def total(name: str) -> int:
        return sum(getattr(row, name) or 0 for row in rows)

    return Totals(**{name: total(name) for name in ("ready", "delayed", "blocked", "running", "stuck", "dead")})
