"""The list of queues: who is in trouble and why, and how a row is drawn in a width."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from qdeck.admin import Code, State
from qdeck_console import format as fmt
from qdeck_console.arranging import QueueGroup, Sort
from qdeck_console.judging import JudgedQueue, Severity
from qdeck_console.presenters.charts import sparkline
from qdeck_console.presenters.parts import LEAD, MARGIN, Naming, columns, queue_path, section
from qdeck_console.text import safe_text, width

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from qdeck.admin import QueueRef, QueueRow, Totals
    from qdeck_console.feed import Picture
    from qdeck_console.format import Line, Piece
    from qdeck_console.history import Flow
    from qdeck_console.insight import Insight


@dataclass(frozen=True, slots=True)
class QueueColumn:
    """A column: its head, its width, whether it is a number."""

    head: str
    width: int
    right: bool = True


NO_MATCH: Final[Line] = (("    ", "text"), ("no queue has that in its name; ", "muted"), ("esc", "accent bold"),
                         (" clears the filter", "muted"))  # fmt: skip
_SPARK: Final = "history"
_ALL: Final[Mapping[str, QueueColumn]] = {
    "adapter": QueueColumn("adapter", 9, right=False),
    "ready": QueueColumn("ready", 7),
    "delayed": QueueColumn("delayed", 8),
    "run": QueueColumn("run", 4),
    "stuck": QueueColumn("stuck", 6),
    "dead": QueueColumn("dead", 6),
    "in": QueueColumn("in/s", 6),
    "out": QueueColumn("out/s", 6),
    "oldest": QueueColumn("oldest", 8),
    "drains": QueueColumn("drains", 7),
    _SPARK: QueueColumn("", 10),
}
_DROPPED: Final = (_SPARK, "adapter", "delayed", "run", "drains", "in", "out", "stuck")


@dataclass(frozen=True, slots=True)
class Grid:
    """The columns that fit a width, and what is left for the name."""

    columns: Mapping[str, QueueColumn]
    name: int
    cells: int
    names_adapter: bool = False  # without a column for it, the name carries its adapter while it fits

    @classmethod
    def of(cls, cells: int, *, adapters: int, span_s: float) -> Grid:
        """Drops columns until the name has room. One adapter only: the total line names it."""
        keep = dict(_ALL)
        keep[_SPARK] = QueueColumn(_span_label(span_s), 10, right=False)
        if adapters < 2:
            del keep["adapter"]
        wanted = 30 if cells < 100 else 20
        for drop in (None, *_DROPPED):
            keep.pop(drop or "", None)
            name = cells - LEAD - MARGIN - sum(column.width + 1 for column in keep.values())
            if name >= wanted:
                break
        if cells < 100 and "stuck" in keep:
            keep["stuck"] = QueueColumn("stuck", 5)
            name += 1
        return cls(keep, name, cells, adapters > 1 and "adapter" not in keep)

    def width_of(self, key: str) -> int:
        """Cells of a column; none of one that is not shown."""
        column = self.columns.get(key)
        return column.width if column is not None else 0


def _span_label(span_s: float) -> str:
    return f"{span_s / 60:.0f} min" if span_s >= 55 else f"{span_s:.0f} s"


def head_line(grid: Grid, sort: Sort) -> Line:
    """The heads of the columns; the one that the list is sorted by stands out."""
    by = {Sort.NAME: "queue", Sort.READY: "ready", Sort.DEAD: "dead", Sort.OLDEST: "oldest", Sort.RATE: "in"}.get(sort)
    line: list[Piece] = [(" " * LEAD, "text"), *fmt.fit([("queue", _head_role(by == "queue"))], grid.name)]
    line += columns(
        [
            ([(" " if key == _SPARK else "", "text"), (column.head, _head_role(key == by))], column.width, column.right)
            for key, column in grid.columns.items()
        ]
    )
    return tuple(line)


def _head_role(sorted_by: bool) -> str:
    return "strong under" if sorted_by else "faint"


@dataclass(frozen=True, slots=True)
class Drawer:
    """Draws rows for one picture: what they have in common, looked up once."""

    picture: Picture
    hide: Naming
    reasons_shown: bool
    before: Mapping[QueueRef, QueueRow] = field(default_factory=lambda: MappingProxyType({}))
    insight: Insight | None = None  # of the queue whose detail is drawn
    limit: int | None = None  # ready jobs from which a queue is worth a look

    def lines(self, entry: JudgedQueue, grid: Grid, *, at_cursor: bool) -> list[Line]:
        """The one or two lines of a queue."""
        first = self._numbers(entry, grid, at_cursor=at_cursor)
        if not (self.reasons_shown and entry.reasons):
            return [first]
        room = grid.cells - LEAD - MARGIN
        return [first, ((" " * LEAD, "text"), *fmt.fit(reason_pieces(entry, room), room))]

    def _numbers(self, entry: JudgedQueue, grid: Grid, *, at_cursor: bool) -> Line:
        troubled = entry.severity is not Severity.FINE
        role = "strong bold" if at_cursor or troubled else "text"
        name = queue_path(entry.row.ref, grid.name, role, hide=self.hide)
        adapter = safe_text(entry.row.adapter, limit=40)
        left = grid.name - fmt.length(name) - width(adapter)
        if grid.names_adapter and left > 1:
            name += [(" " * left, "text"), (adapter, "faint")]
        line: list[Piece] = [("  ", "text"), (entry.glyph, entry.severity.role if troubled else "muted"), (" ", "text")]
        line += fmt.fit(name, grid.name)
        values = self._values(entry, grid)
        line += columns([(values[key], column.width, column.right) for key, column in grid.columns.items()])
        return tuple(line)

    def _values(self, entry: JudgedQueue, grid: Grid) -> dict[str, list[Piece]]:
        row, severity, wide = entry.row, entry.severity, grid.width_of
        calm = severity is Severity.FINE
        before = self.before.get(row.ref, row)  # what changed since the last picture stands out until the next one
        dead_role = entry.role(Code.DEAD, _news(row.dead, before.dead))
        ready_role = _news(row.ready, before.ready) if calm else "strong bold"
        stuck_role = f"{entry.worst(Code.STUCK).role} bold"
        values = {
            "adapter": [(safe_text(row.adapter, limit=40), "faint")],
            "ready": fmt.cell(fmt.count(row.ready, wide("ready")), ready_role),
            "delayed": fmt.cell(fmt.count(row.delayed, wide("delayed")), _news(row.delayed, before.delayed, "muted")),
            "run": fmt.cell(fmt.count(row.running, wide("run")), _news(row.running, before.running)),
            "stuck": fmt.cell(fmt.count(row.stuck, wide("stuck")), stuck_role),
            "dead": fmt.cell(fmt.count(row.dead, wide("dead")), dead_role),
            "in": fmt.cell(fmt.rate(row.in_per_s, wide("in"))),
            "out": fmt.cell(fmt.rate(row.out_per_s, wide("out"))),
            "oldest": _oldest(entry),
            "drains": drains(entry),
        }
        if _SPARK in grid.columns:
            series = self.picture.history.ready(row.ref, 9)
            known = [value for value in series if value is not None]
            if sum(known) < len(known):  # hardly anything waits there: what flows through tells more than a flat line
                flow = self.picture.history.drained(row.ref, 9)
                series = flow if any(value is not None for value in flow) else series
            role, last = ("ghost", "muted") if calm else (severity.role, None)
            values[_SPARK] = [(" ", "text"), *sparkline(series, role, last_role=last)]
        return values


def _news(value: int | None, before: int | None, role: str = "text") -> str:
    """The role of a number that may have changed."""
    return role if value == before else "strong"


def reason_pieces(entry: JudgedQueue, cells: int) -> list[Piece]:
    """The reasons of a queue, worst first, as many as fit; how many more there are is told."""
    out: list[Piece] = []
    for at, (severity, text, _) in enumerate(entry.reasons):
        piece = (safe_text(text, limit=300), severity.role)
        gap = "  ·  " if out else ""
        more = len(entry.reasons) - at
        room = cells - fmt.length(out) - (6 if more > 1 else 0)
        if out and width(piece[0]) + width(gap) > room:
            out.append((f"  +{more}", "muted"))
            break
        if gap:
            out.append((gap, "ghost"))
        out.append(piece)
    return out


def list_in_question(entry: JudgedQueue | None) -> State | None:
    """Which of its lists of jobs the worst reason of a queue is about; none when it is about no one of them."""
    if entry is None or not entry.reasons:
        return None
    worst = entry.reasons[0].code
    if worst is Code.STUCK and entry.row.running:
        return State.RUNNING
    return State.DEAD if worst in (Code.DEAD, Code.DEAD_GROWING) and entry.row.dead else None


def _oldest(entry: JudgedQueue) -> list[Piece]:
    oldest = entry.row.oldest_s
    if entry.row.ready and oldest is None:
        return [(fmt.NONE, "ghost")]  # some wait, and since when is not known
    if not oldest or not entry.row.ready:
        return [(fmt.ZERO, "ghost")]
    late = entry.worst(Code.LATE)
    since = fmt.span_pieces(oldest * 1000, "text" if late is Severity.FINE else late.role)
    return since if entry.row.oldest_exact else [("≥", "muted"), *since]


def drains(entry: JudgedQueue) -> list[Piece]:
    """How long until the queue is empty at the present rates."""
    row = entry.row
    if row.paused:
        return [("paused", "muted")]
    if not row.ready:
        return [(fmt.ZERO, "ghost")]
    if row.in_per_s is None or row.out_per_s is None or (row.in_per_s < 0.05 and row.out_per_s < 0.05):
        return [(fmt.NONE, "ghost")]
    net = row.out_per_s - row.in_per_s
    if net <= 0.02:
        return [("never", "text" if entry.severity is Severity.FINE else entry.severity.role)]
    seconds = row.ready / net
    if seconds > 9 * 86400:
        return [("never", "text")]
    if seconds >= 600:
        text = fmt.span(seconds * 1000).split(" ")[0]
        return [(text[:-1], "text"), (text[-1], "muted")]
    return fmt.span_pieces(seconds * 1000)


def section_line(group: QueueGroup, grid: Grid) -> Line:
    """The head of a group."""
    return section(group.severity.label, "", group.severity.role, grid.cells, count=group.count)


def total_line(grid: Grid, totals: Totals, flow: Flow, words: str) -> Line:
    """The sums, under their columns."""
    wide = grid.width_of
    sums = {
        "ready": fmt.count(totals.ready, wide("ready")),
        "delayed": fmt.count(totals.delayed, wide("delayed")),
        "run": fmt.count(totals.running, wide("run")),
        "stuck": fmt.count(totals.stuck, wide("stuck")),
        "dead": fmt.count(totals.dead, wide("dead")),
        "in": fmt.rate(flow[0], wide("in")),
        "out": fmt.rate(flow[1], wide("out")),
    }
    line: list[Piece] = [(" " * LEAD, "text"), *fmt.fit([(words, "muted")], grid.name)]
    line += columns(
        [
            (
                fmt.cell(sums[key], "text" if key in {"in", "out"} else "strong bold") if key in sums else (),
                c.width,
                c.right,
            )
            for key, c in grid.columns.items()
        ]
    )
    return tuple(line)


def totals_of(entries: Sequence[JudgedQueue]) -> Totals:
    """Sums over the entries that are shown."""
    from qdeck.admin import Totals

    def total(name: str) -> int:
        return sum(getattr(entry.row, name) or 0 for entry in entries)

    return Totals(**{name: total(name) for name in ("ready", "delayed", "blocked", "running", "stuck", "dead")})
