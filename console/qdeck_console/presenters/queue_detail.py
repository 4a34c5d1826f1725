"""One queue in detail: the side pane of wide terminals, and the page that enter opens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from qdeck.admin import Code
from qdeck_console import format as fmt
from qdeck_console.presenters.answers import pieces
from qdeck_console.presenters.charts import area, sparkline
from qdeck_console.presenters.line_parts import name_parts, pair, queue_path, section
from qdeck_console.presenters.queue_statistics import deaths, operations, payloads, times
from qdeck_console.presenters.queues import QueueView, empty_in
from qdeck_console.presenters.what_now import block
from qdeck_console.queue_findings import ListedQueue, Severity
from qdeck_console.text import cut_end, safe_text, wrap

if TYPE_CHECKING:
    from qdeck.admin import QueueRow
    from qdeck_console.format import Line, Piece

_BLANK: Line = ()
_CHART: Final = 7


def detail(
    entry: ListedQueue, view: QueueView, cells: int, room: int | None = None, *, chart: int = _CHART
) -> list[Line]:
    """Return everything known about a queue. In a pane of `room` lines the chart shrinks, then the least important
    sections are left out, and the last line names them.
    """
    row, seen, insight = entry.row, view.insight and view.insight.close_up, view.insight
    head: list[Line] = [_title(entry, view, cells), _serving(entry)]
    if room is None or entry.severity is not Severity.FINE:
        head.append(tuple(pieces(entry.answers)))
    hidden = bool(view.naming.owner) and ":".join(name_parts(row.ref, naming=view.naming)) != row.name
    if hidden or fmt.length(queue_path(row.ref, 400, "text", naming=view.naming)) > cells - 12:
        head += [((part, "faint"),) for part in wrap(safe_text(row.name, limit=300), cells, most=2)]
    now_ms = view.feed_state.snapshot.at_ms if view.feed_state.snapshot else 0
    settings = _settings(entry, cells, now_ms)
    why = (
        [
            section("problems", "", "muted", cells, indent=0),
            *_why(entry, cells),
            *_what_now(entry, cells, is_page=room is None),
        ]
        if entry.severity is not Severity.FINE
        else []
    )
    states = _states(entry, cells) if room is None else _others(row, cells)
    size = payloads(seen, cells) if seen else []
    jobs = [section("jobs", "", "muted", cells, indent=0), *states, *size] if states or size else []
    parts = [
        # those with the highest number are left out first, its name, its lines
        (0, "", head),
        (0, "", why),
        (4, "jobs", jobs if room is None else []),
        (2, "settings", [section("settings", "", "muted", cells, indent=0), *settings] if settings else []),
        (3, "times", times(seen, cells) if seen else []),
        (1, "deaths", deaths(seen, row.dead or 0, cells, role=_looks(entry)) if seen else []),
        (4, "jobs", jobs if room is not None else []),
        (5, "operations", operations(insight, cells, now_ms) if insight else []),
        (6, "totals", _totals(row, cells)),
    ]
    parts = [part for part in parts if part[2]]
    if room is None:
        drawn, rest = _chart(entry, view, cells, chart), [lines for _, _, lines in parts[1:]]
        # Where only a part of it is seen at once, what is wrong comes before what it looks like.
        above = [why] if why and chart < _CHART else []
        return _joined([head, *above, drawn, *(lines for lines in rest if lines is not why or not above)])
    return _fitting(parts, entry, view, cells, room)


def _joined(parts: list[list[Line]]) -> list[Line]:
    lines: list[Line] = []
    for part in parts:
        lines += [_BLANK] * bool(lines) + part
    return lines


def _fitting(
    parts: list[tuple[int, str, list[Line]]], entry: ListedQueue, view: QueueView, cells: int, room: int
) -> list[Line]:
    """As much as fits: first the chart gives way down to three lines, then the least of the parts."""
    left: list[str] = []
    while True:
        others = sum(len(lines) + 1 for _, _, lines in parts) + bool(left)
        height = min(_CHART, room - others - _AROUND)
        last = max(parts)
        if height >= _LEAST or last[0] == 0:
            break
        parts = [part for part in parts if part is not last]
        left.insert(0, last[1])
    middle = [_chart(entry, view, cells, height)] if height >= 2 else []
    lines = _joined([parts[0][2], *middle, *(lines for _, _, lines in parts[1:])])
    words = f"not shown: {', '.join(left)}"
    return [*lines[: room - 1], ((cut_end(words, cells), "faint"),)] if left else lines


def _title(entry: ListedQueue, view: QueueView, cells: int) -> Line:
    word = "paused" if entry.row.paused else entry.severity.label
    glyph = "║" if entry.row.paused else entry.glyph
    role = entry.severity.role if entry.severity is not Severity.FINE else "muted"
    state = f"{glyph} {word}"
    room = cells - len(state) - 1
    name = queue_path(entry.row.ref, room, "strong bold", naming=view.naming)
    return (*fmt.fit(name, room), (" ", "text"), (state, f"{role} bold"))


def _looks(entry: ListedQueue) -> str:
    return "text" if entry.severity is Severity.FINE else f"{entry.severity.role} bold"


def _serving(entry: ListedQueue) -> Line:
    row = entry.row
    pieces: list[Piece] = [(safe_text(row.adapter, limit=20), "muted")]
    if row.workers is not None:
        words = "no worker" if row.workers == 0 else fmt.counted(row.workers, "worker")
        pieces += [("  ·  ", "ghost"), (words, entry.worst(Code.NO_WORKER).role)]
    if row.running:
        pieces += [("  ·  ", "ghost"), (f"{row.running:,} running", "muted")]
    return tuple(pieces)


_LEAST: Final = 3
_LEAST_SCALE: Final = 5.0
_AROUND: Final = 5  # lines of the chart besides the area


def _chart(entry: ListedQueue, view: QueueView, cells: int, height: int) -> list[Line]:
    row, history = entry.row, view.feed_state.history
    span = fmt.span(history.span_s * 1000)
    net = None if row.in_per_s is None or row.out_per_s is None else row.in_per_s - row.out_per_s
    change: list[Piece] = []
    if net is not None and abs(net) >= 0.05 and row.ready:
        change = [(f"  {net:+.1f}/s", entry.worst(Code.FILLING).role)]
    head = pair("", [(fmt.count(row.ready), "strong bold"), *change], cells - 22)
    lines: list[Line] = [(("ready", "muted"), (f"  last {span}".ljust(17), "faint"), *head)]
    lines += area(history.ready(row.ref, cells - 6), height, limit=view.limit, least=_LEAST_SCALE)
    lines.append(_times(view, history.span_s, cells))
    lines.append(_BLANK)
    for label, series, rate in (
        ("in", history.filled(row.ref, 20), row.in_per_s),
        ("out", history.drained(row.ref, 20), row.out_per_s),
    ):
        looks, last = ("accent_dim", "accent") if label == "in" else ("ghost", "muted")
        drawn = sparkline(series, looks, last_role=last)
        value: list[Piece] = [(fmt.rate(rate), "text"), ("/s", "muted")]
        lines.append((*fmt.fit([(label, "muted")], 5), *drawn, *fmt.fit(value, cells - 25, right=True)))
    return lines


def _times(view: QueueView, span_s: float, cells: int) -> Line:
    """Return the axis of a chart: its begin, its middle and now; of some minutes only how long ago it begins."""
    snapshot, room = view.feed_state.snapshot, cells - 6
    if snapshot is None or span_s < 600 or room < 24:
        start = f"-{fmt.span(span_s * 1000)}"
        return ((" " * 5 + start, "faint"), *fmt.fit([("now", "faint")], room - len(start), right=True))
    begin, middle, now = (fmt.minute(snapshot.at_ms - span_s * 1000 * part) for part in (1.0, 0.5, 0.0))
    gap = room - len(begin) - len(middle) - len(now)
    return ((f"     {begin}{' ' * (gap // 2)}{middle}{' ' * (gap - gap // 2)}{now} ", "faint"),)


def _why(entry: ListedQueue, cells: int) -> list[Line]:
    lines: list[Line] = []
    for reason in entry.reasons[:5]:
        if reason.severity is Severity.FINE:
            continue  # the settings say who paused it
        glyph = "✗" if reason.severity is Severity.ACT else "▲"
        for at, part in enumerate(wrap(safe_text(reason.text, limit=300), cells - 2, most=3)):
            lines.append((((glyph if at == 0 else " ") + " ", reason.severity.role), (part, "text")))
    return lines


def _what_now(entry: ListedQueue, cells: int, *, is_page: bool) -> list[Line]:
    told = [] if entry.remedy is None else block(entry.remedy.hint, entry.remedy.command, cells, copies=is_page)
    return [_BLANK, *told] if told else []


def _states(entry: ListedQueue, cells: int) -> list[Line]:
    row = entry.row
    oldest = fmt.span_pieces(row.oldest_s * 1000, "text") if row.oldest_s and row.ready else [(fmt.ZERO, "ghost")]
    if row.ready and row.oldest_s is None:
        oldest = [(fmt.NONE, "ghost")]
    elif row.oldest_s and not row.oldest_exact:
        oldest = [("≥ ", "muted"), *oldest]
    lines = [
        pair("ready", fmt.cell(fmt.count(row.ready)), cells),
        pair("  oldest waiting", oldest, cells),
        pair("  empty in", empty_in(entry), cells),
        pair("delayed", fmt.cell(fmt.count(row.delayed)), cells),
        pair("blocked", fmt.cell(fmt.count(row.blocked)), cells),
        pair("running", fmt.cell(fmt.count(row.running)), cells),
        pair("  stuck", fmt.cell(fmt.count(row.stuck), entry.role(Code.STUCK)), cells),
        pair("dead letters", fmt.cell(fmt.count(row.dead), entry.role(Code.DEAD)), cells),
        pair("done", fmt.cell(fmt.count(row.done)), cells),
    ]
    if row.cancelled:
        lines.append(pair("cancelled", fmt.cell(fmt.count(row.cancelled)), cells))
    return lines


def _others(row: QueueRow, cells: int) -> list[Line]:
    """Return the facts that are not in its row of the list."""
    told = [
        ("blocked", row.blocked), ("done", row.done), ("cancelled", row.cancelled),
    ]  # fmt: skip
    return [pair(label, fmt.cell(fmt.count(count)), cells) for label, count in told if count]


_TOTAL_WORDS: Final = {
    "enqueued": "enqueued",
    "done": "done",
    "failed": "failed attempts",
    "retried": "retries",
    "crashed": "crashed attempts",
    "dead": "died",
    "expired": "expired",
    "dropped_dead": "dead letters dropped",
    "quarantined": "outbox entries set aside",
}


def _totals(row: QueueRow, cells: int) -> list[Line]:
    lines = [
        pair(words, fmt.cell(fmt.count(row.totals.get(name, 0))), cells)
        for name, words in _TOTAL_WORDS.items()
        if row.totals.get(name) or (name in {"enqueued", "done"} and row.totals)
    ]
    return [section("since creation", "", "muted", cells, indent=0), *lines] if lines else []


def _settings(entry: ListedQueue, cells: int, now_ms: int) -> list[Line]:
    row, lines = entry.row, []
    if row.paused:
        lines.append(pair("paused", [("no job is claimed", entry.worst(Code.PAUSED).role)], cells))
    if row.pause is not None and (row.pause.who or row.pause.reason):
        ago = "" if row.pause.at_ms is None else fmt.span(max(0, now_ms - row.pause.at_ms))
        lines += [((f"  {part}", "text"),) for part in wrap(safe_text(row.pause.words(ago)), cells - 2, most=4)]
    if row.limit is not None:
        lines.append(pair("running limit", fmt.cell(fmt.count(row.limit)), cells))
    if row.rate is not None:
        lines.append(pair("rate limit", [(f"{row.rate[0]:,} per {fmt.span(row.rate[1])}", "text")], cells))
    return lines
