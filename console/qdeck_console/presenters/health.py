"""The health of a server as rows: checks that need action, checks to watch, and checks that are fine."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from qdeck.admin import Status, finding_rank
from qdeck_console import format as fmt
from qdeck_console.check_labels import check_label
from qdeck_console.presenters.line_parts import LEAD, MARGIN, Naming, columns, name_parts
from qdeck_console.queue_findings import Severity
from qdeck_console.text import cut_end, safe_text, width

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from qdeck.admin import AgentTask, Check, Code, Finding, QueueRef, QueueRow, ServerStats, Snapshot
    from qdeck_console.format import Line, Piece
    from qdeck_console.presenters.server import Fact

_WIDE, _BESIDE, _MIDDLE = 116, 90, 70
_LIMIT, _SINCE = 15, 12
_EARLIER = 17  # cells of "18 Nov or earlier"
_MINUTE_MS: Final = 60_000
_MOST_TOLD: Final = 3  # findings in the summary
_SHORT: Final[Mapping[tuple[str, int | str | None], str]] = {
    ("persistence", "aof"): "survives a restart",
    ("persistence", "no aof"): "snapshots: unknown",
    ("persistence", "snapshots"): "snapshots only",
}
_LOOKS: Final = {
    Status.UNHEALTHY: ("✗", "bad"),
    Status.DEGRADED: ("▲", "warn"),
    Status.HEALTHY: ("•", "muted"),
    None: ("∅", "muted"),
}
_VERDICTS: Final = {**_LOOKS, Status.HEALTHY: ("●", "ok")}
MOST_OF_CHECK: Final = 100  # rows of one check: those beyond are counted
_HEADS: Final = (
    (Status.UNHEALTHY, Severity.ACT.label, "bad"),
    (Status.DEGRADED, Severity.WATCH.label, "warn"),
    (None, "unknown", "muted"),
    (Status.HEALTHY, Severity.FINE.label, "muted"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerHealth:
    """What was read: the server's own words, and since when what is wrong is so."""

    vitals: ServerStats | None = None
    dated: Mapping[str, Finding] = field(default_factory=lambda: MappingProxyType({}))  # by their places
    tasks: Sequence[AgentTask] | None = None  # what agents did last; None: it may not be read


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckRow:
    """One line of the list: a check, or what it says of one queue."""

    check: str
    status: Status | None
    detail: str
    value: int | str | None = None
    threshold: int | str | None = None
    queue: QueueRef | None = None
    label: str = ""  # how the queue is shown
    short: str = ""  # what it says of a queue whose name stands in its row
    since_ms: int | None = None
    before: bool = False  # it was so already at that moment
    number: int = 0  # of several that say something of the same place
    of: str = ""  # the place of its finding
    rank: tuple[int, int] = (0, 0)  # its place among the findings
    code: Code | None = None  # of its finding
    hint: str = ""  # what to do
    command: str = ""  # that does it

    @property
    def place(self) -> str:
        """What is judged."""
        return self.of or self.check

    @property
    def key(self) -> str:
        """Its identity."""
        return f"{self.place}/{self.status.value if self.status else ''}/{self.number}"

    @property
    def is_trouble(self) -> bool:
        """Whether it is wrong."""
        return self.status not in (Status.HEALTHY, None)


def listed(checks: Sequence[Check]) -> list[Finding]:
    """The findings that are listed one by one."""
    return [finding for check in checks for finding in check.findings[:MOST_OF_CHECK]]


def rows(snapshot: Snapshot, facts: Sequence[Fact] = ()) -> list[CheckRow]:
    """Every check, worst first, and what no rule judges; one that several queues fail is a row for each."""
    by_ref = {row.ref: row for row in snapshot.queues}
    found: list[CheckRow] = []
    for check in snapshot.checks:
        if not check.findings:
            found.append(
                CheckRow(check=check.name, status=check.status, detail=check.detail, value=check.value,
                    threshold=check.threshold, hint=_rights(check)[0], command=_rights(check)[1])
            )  # fmt: skip
            continue
        for finding in check.findings[:MOST_OF_CHECK]:
            row = None if finding.queue is None else by_ref.get(finding.queue)
            found.append(
                CheckRow(
                    check=check.name, status=finding.severity, detail=finding.text, queue=finding.queue,
                    label=finding.label, value=_value(check, row), threshold=check.threshold,
                    short=_short(finding, snapshot),
                    of=finding.place, code=finding.code, hint=finding.hint, command=finding.command,
                    rank=finding_rank(finding, row, snapshot.totals),
                )
            )  # fmt: skip
        if left := check.findings[MOST_OF_CHECK:]:
            status = max((finding.severity for finding in left), key=lambda status: status is Status.UNHEALTHY)
            found.append(
                CheckRow(check=check.name, status=status, detail=f"and {len(left):,} more like it; 1 lists all queues")
            )
    found += [
        CheckRow(check=fact.name, status=Status.HEALTHY if fact.known else None, detail=fact.detail, value=fact.value,
            threshold=fact.limit or None, hint=fact.hint, command=fact.command)
        for fact in facts
    ]  # fmt: skip
    seen: Counter[str] = Counter()
    for at, one in enumerate(found):
        found[at] = replace(one, number=seen[one.place])
        seen[one.place] += 1
    order = [status for status, _, _ in _HEADS]
    return sorted(found, key=lambda row: (order.index(row.status), row.rank))


def _short(finding: Finding, snapshot: Snapshot) -> str:
    """Return what a row says of its queue: the finding, and its cause where that was read."""
    cause = None if finding.queue is None else snapshot.causes.get(finding.queue, {}).get(finding.code)
    return finding.row_text if cause is None else f"{finding.row_text}: {cause.text}"


def _rights(check: Check) -> tuple[str, str]:
    """Return the advice, and the command, where a check is unknown because this user may not read what it needs."""
    if check.status is not None or "not allowed" not in check.detail:
        return "", ""
    right = "+config|get" if check.name == "persistence" else "+info"
    return f"Give this user {right}.", f"ACL SETUSER USER {right}"


def _value(check: Check, row: QueueRow | None) -> int | str | None:
    if row is None:
        return check.value
    measured = {
        "dead_letters": row.dead, "stuck": row.stuck, "late": row.late, "ready_queue": row.ready,
        "pending_queue": row.overdue, "workers": (row.ready or 0) + (row.overdue or 0), "paused": row.ready,
        "trends": None,
    }  # fmt: skip
    return measured.get(check.name, check.value)


class Since:
    """Since when each row is as it is: as this console saw it, else as an agent noted it, else since before."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Status | None, int, bool]] = {}
        self._began = False

    def note(self, found: Sequence[CheckRow], now_ms: int) -> Mapping[str, tuple[int, bool]]:
        """Record a snapshot: since when each row is as it is, and whether it was so before the first snapshot."""
        fresh: dict[str, tuple[Status | None, int, bool]] = {}
        for row in found:
            known = self._known.get(row.place)
            kept = known is not None and known[0] == row.status
            fresh[row.place] = known if known is not None and kept else (row.status, now_ms, not self._began)
        self._known, self._began = fresh, True
        return {name: (at, before) for name, (_, at, before) in fresh.items()}

    def dated(self, found: Sequence[CheckRow], now_ms: int, noted: Mapping[str, Finding]) -> list[CheckRow]:
        """The rows with their moments. Our own observations are the most exact; what came before the first
        picture is what an agent noted.
        """
        seen = self.note(found, now_ms)
        out = []
        for row in found:
            at, before = seen[row.place]
            said = noted.get(row.place) if row.is_trouble and before else None
            if said is not None and said.since_ms is not None and said.since_ms <= at:
                at, before = said.since_ms, not said.since_exact
            out.append(replace(row, since_ms=at, before=before))
        return out


def heads(found: Sequence[CheckRow]) -> list[tuple[str, str, int, list[CheckRow]]]:
    """The groups: label, role, count, rows."""
    out = []
    for status, label, role in _HEADS:
        group = [row for row in found if row.status == status]
        if group:
            out.append((label, role, len(group), group))
    return out


def summary(snapshot: Snapshot, found: Sequence[CheckRow], cells: int, *, naming: Naming) -> list[Line]:
    """The verdict with since when, and the worst of what is behind it."""
    glyph, role = _VERDICTS[snapshot.status]
    head: list[Piece] = [(f"  {glyph} {snapshot.status.value}", f"{role} bold")]
    worst = [row for row in found if row.status is snapshot.status and row.is_trouble]
    first = min(worst, key=lambda row: row.since_ms or snapshot.at_ms, default=None)
    if first is not None and first.since_ms is not None:
        age_ms = snapshot.at_ms - first.since_ms
        words = f"since {_moment(first.since_ms)}{' or earlier' * first.before}"
        if age_ms >= _MINUTE_MS or not first.before:
            words += f", {'over ' * first.before}{fmt.span(max(0, age_ms))}"
        head.append((f"  {words}", "muted"))
    lines: list[Line] = [tuple(head), ()]
    told = [row for row in found if row.is_trouble][:_MOST_TOLD]
    for row in told:
        sign, colour = _LOOKS[row.status]
        words = cut_end(_with_name(row, naming), cells - LEAD - MARGIN)
        lines.append((("  ", "text"), (sign, f"{colour} bold"), (f" {words}", "strong")))
    more = sum(row.is_trouble for row in found) - len(told)
    if more:
        words = f" {more} more check{'s are' if more != 1 else ' is'} not fine"
        lines.append((("  ", "text"), ("▲", "warn bold"), (words, "strong")))
    if not told:
        fine = sum(row.status is Status.HEALTHY for row in found)
        lines.append((("    ", "text"), (f"no check fails; {fine} are fine", "muted")))
    return [*lines, ()]


def _with_name(row: CheckRow, naming: Naming) -> str:
    detail = safe_text(row.detail, limit=300)
    return detail.replace(row.label, " ▸ ".join(name_parts(row.queue, naming=naming))) if row.queue else detail


@dataclass(frozen=True, slots=True)
class _HealthGrid:
    """Cells of the columns; 0 is not shown."""

    name: int
    value: int
    limit: int
    since: int
    detail: int
    fine: int  # for the words of what is fine, in the place of since when where there is little room

    @classmethod
    def of(cls, cells: int) -> _HealthGrid:
        wide = cells >= _WIDE
        value, limit = 17, _LIMIT if cells >= _MIDDLE else 0
        since = _EARLIER if cells >= _WIDE + _EARLIER - _SINCE else _SINCE if cells >= _MIDDLE else 0
        left = cells - LEAD - MARGIN - sum(part + 1 for part in (value, limit, since) if part)
        if not since or cells < _BESIDE:
            return cls(max(12, left), value, limit, since, 0, 0)
        name = min(36, max(24, left // 2)) if wide else 34
        detail = max(0, left - name - 2)
        return cls(name, value, limit, since, *((detail, detail) if wide else (0, detail + since + 1)))


def head(cells: int) -> Line:
    """The heads of the columns."""
    grid = _HealthGrid.of(cells)
    shown = [("value", grid.value), ("threshold", grid.limit), ("since", grid.since)]
    return (
        (" " * LEAD, "text"),
        *fmt.fit([("check", "faint")], grid.name),
        *columns([([(label, "faint")], cells, True) for label, cells in shown if cells]),
        *([("  detail", "faint")] if grid.detail else []),
    )


def height(row: CheckRow, cells: int) -> int:
    """Return how many lines it takes: where there is no room for words beside it, what is wrong has them below."""
    return 2 if row.is_trouble and cells < _WIDE else 1


def row_lines(row: CheckRow, cells: int, at_cursor: bool, *, naming: Naming) -> list[Line]:
    """One check."""
    glyph, role = _LOOKS[row.status]
    grid = _HealthGrid.of(cells)
    name = check_label(row.check)
    strong = "strong bold" if at_cursor or row.status is Status.UNHEALTHY else "text"
    label: list[Piece] = [(safe_text(name, limit=80), strong)]
    if row.queue:
        label.append((", ", strong))
        room = max(8, grid.name - width(name) - 2)
        label += fmt.path(name_parts(row.queue, naming=naming), room, strong)
    shown: list[tuple[Sequence[Piece], int, bool]] = [
        (_told(row, f"{role} bold" if row.is_trouble else "text", grid.value), grid.value, True)
    ]
    if grid.limit:
        shown.append((_limit(row), grid.limit, True))
    room = grid.detail if row.is_trouble else grid.fine
    if grid.since and (row.is_trouble or room == grid.detail):
        shown.append((_since(row, grid.since), grid.since, True))
    detail = _words(row, room)
    line: list[Piece] = [
        ("  ", "text"), (glyph, f"{role} bold" if row.is_trouble else role), (" ", "text"),
        *fmt.fit(label, grid.name), *columns(shown),
    ]  # fmt: skip
    if room > 8:
        line += [("  ", "text"), (cut_end(detail, room), "muted")]
    if height(row, cells) == 1:
        return [tuple(line)]
    return [tuple(line), ((" " * LEAD, "text"), (cut_end(detail, cells - LEAD - MARGIN), role))]


def _words(row: CheckRow, cells: int) -> str:
    """Return what it found; of what is fine in few words where there is no room for all."""
    words = safe_text(row.short if row.queue else row.detail, limit=300)
    if width(words) > cells:
        words = _SHORT.get((row.check, row.value), words.removeprefix("the server ").removeprefix("there is "))
    return words


def _told(row: CheckRow, role: str, cells: int) -> list[Piece]:
    if isinstance(row.value, int):
        return (
            fmt.size(row.value) if row.check == "memory" else fmt.cell(fmt.count(row.value) if row.value else "0", role)
        )
    return [(cut_end(safe_text(row.value or "", limit=80), cells), role)]


def _limit(row: CheckRow) -> list[Piece]:
    if row.threshold is None or row.value is None:
        return []
    text = f"at most {row.threshold:,}" if isinstance(row.threshold, int) else safe_text(row.threshold, limit=40)
    if row.check == "memory":
        text = f"at most {text}"
    return [(cut_end(text, _LIMIT), "muted")]


def _moment(at_ms: int) -> str:
    """The minute; of another day its date."""
    same_day = time.strftime("%Y%j", time.localtime(at_ms / 1000)) == time.strftime("%Y%j")
    return fmt.minute(at_ms) if same_day else fmt.clock(at_ms)[:6]


def _since(row: CheckRow, cells: int) -> list[Piece]:
    if row.since_ms is None or not row.is_trouble:
        return []
    at = _moment(row.since_ms)
    if not row.before:
        return [(at, "text")]
    return [(f"{at} or earlier", "muted")] if cells >= _EARLIER else [("≤ ", "faint"), (at, "muted")]
