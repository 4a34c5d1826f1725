"""The history of a job: every attempt on one time axis, the error of one with its traceback, result and output."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from qdeck.admin import State
from qdeck_console import format as fmt
from qdeck_console.presenters import trace
from qdeck_console.presenters.job_detail import event_glyph, event_words, failed_attempts
from qdeck_console.presenters.line_parts import section
from qdeck_console.text import cut_end, safe_text, width, wrap

if TYPE_CHECKING:
    from collections.abc import Mapping

    from qdeck.admin import HistoryEvent, JobDetail
    from qdeck_console.format import Line, Piece
    from qdeck_console.presenters.trace import Keyed

FAILING: Final = ("failed", "timeout", "crashed", "outage", "expired", "dependency")
_ENDS: Final = (State.DONE, State.DEAD, State.CANCELLED)
_LONGEST: Final = 2_000
_MOST: Final = 60
_WORKER: Final = 20
_TOOK: Final = 8
_LOG: Final = re.compile(r"^(\d{4}-\d\d-\d\d )?(\d\d:\d\d:\d\d(?:[.,]\d+)?) +([A-Z]{4,8}) +(.*)$")
_LEVELS: Final = {"WARNING": "warn", "WARN": "warn", "ERROR": "bad", "CRITICAL": "bad", "FATAL": "bad"}


def failed(job: JobDetail) -> list[HistoryEvent]:
    """Return the ends of the attempts that failed, oldest first."""
    return [event for event in job.history if event.kind in FAILING]


def noted(label: str, note: list[Piece], cells: int, *, after: str = "") -> Line:
    """Return a section title with a note at the right edge."""
    if not note:
        return section(label, after, "muted", cells, indent=0)
    title = section(label, after, "muted", cells - fmt.length(note) - 1, indent=0)
    return tuple(fmt.fit([*title, (" ", "text"), *note], cells))


def ran_ms(event: HistoryEvent) -> int | None:
    """Return how long the attempt ran that an event ended, where its worker reported it."""
    told = event.data.get("ran_ms")
    return int(told) if isinstance(told, int | float) and not isinstance(told, bool) and 0 <= told < 10**12 else None


@dataclass(frozen=True, slots=True)
class _Axis:
    """One time axis for all rows of a timeline."""

    begin: int
    end: int
    cells: int

    def place(self, at_ms: int) -> int:
        """Return the cell of a moment."""
        whole = max(1, self.end - self.begin)
        return max(0, min(self.cells - 1, (at_ms - self.begin) * (self.cells - 1) // whole))

    def bar(self, waited: int, started: int, ended: int, role: str) -> list[Piece]:
        """Return the bar of an attempt: since when it waited, since when it ran, until when."""
        first, start, last = self.place(waited), self.place(started), self.place(ended)
        return [
            (" " * first, "text"), ("─" * (start - first), "ghost"), ("━" * (last - start + 1), role),
            (" " * (self.cells - last - 1), "text"),
        ]  # fmt: skip

    def labels(self) -> list[Piece]:
        """Return when the axis begins and ends."""
        clock = fmt.minute if self.end - self.begin >= 600_000 else fmt.clock
        begin, end = clock(self.begin), clock(self.end)
        return [(begin, "faint"), *fmt.fit([(end, "faint")], self.cells - len(begin), right=True)]


def timeline(job: JobDetail, cells: int, *, chosen: int | None, now_ms: int) -> list[Keyed]:
    """Return the events, the attempts with their workers and how long they ran, on one time axis."""
    events = list(job.history)[-_MOST:]
    if not events:
        return [("", section("timeline", "no history", "muted", cells, indent=0))]
    end = events[-1].at_ms if job.state in _ENDS else max(now_ms, events[-1].at_ms)
    axis = _Axis(events[0].at_ms, end, 28 if cells >= 88 else 18 if cells >= 70 else 0)
    lines: list[Keyed] = [("", noted("timeline", _spent(job, axis), cells))]
    if len(job.history) > _MOST:
        lines.append(("", ((f"{len(job.history) - _MOST:,} earlier", "faint"),)))
    before = axis.begin
    earlier = sum(event.kind in FAILING for event in job.history) - sum(event.kind in FAILING for event in events)
    last_failed = len(failed(job)) - 1
    at_failed = earlier
    drawn = False
    workers = [width(safe_text(str(event.data.get("worker") or ""), limit=80)) for event in events]
    of_worker = min(_WORKER, max(workers)) if cells >= 88 else 0
    for at, event in enumerate(events):
        is_failed, number = event.kind in FAILING, at_failed
        at_failed += is_failed
        bar, took = _bar_of(event, axis, before, job, is_last=number == last_failed)
        drawn = drawn or bool(bar)
        label, words, worker = _words(job, event, number if is_failed else None)
        is_chosen = is_failed and number == chosen
        columns = _Columns(axis.cells, of_worker, cells)
        lines.append((f"event/{at}", columns.row(event, (label, words, worker), took, bar, strong=is_chosen)))
        before = event.at_ms
    if axis.cells and drawn:
        lines.append(("", ((" " * (cells - axis.cells), "text"), *axis.labels())))
    return lines


def _spent(job: JobDetail, axis: _Axis) -> list[Piece]:
    """Return how long it took in total, and how much of that it ran."""
    ran = [ms for event in failed(job) if (ms := ran_ms(event)) is not None]
    words = fmt.span(axis.end - axis.begin, fine=True)
    if ran:
        words += f" in total, {fmt.span(sum(ran), fine=True)} running, {fmt.counted(len(ran), 'attempt')}"
    return [(words, "muted")]


def _bar_of(
    event: HistoryEvent, axis: _Axis, before: int, job: JobDetail, *, is_last: bool
) -> tuple[list[Piece], list[Piece]]:
    """Return the bar of an event, and how long the attempt ran that it ended or began."""
    if event.kind in FAILING:
        ran = ran_ms(event)
        role = "bad" if is_last and job.state == State.DEAD else "accent"
        started = event.at_ms if ran is None else max(before, event.at_ms - ran)
        took = [] if ran is None else fmt.span_pieces(ran, fine=True)
        return axis.bar(before, started, event.at_ms, role), took
    if event.kind == "claimed" and job.state == State.RUNNING:
        ran = max(0, axis.end - event.at_ms)
        return axis.bar(before, event.at_ms, axis.end, "accent"), fmt.span_pieces(ran, fine=True)
    return [], []


def _words(job: JobDetail, event: HistoryEvent, number: int | None) -> tuple[str, str, str]:
    """Return the name of an event, its details, and its worker or operator."""
    data = event.data
    worker = safe_text(str(data.get("worker") or data.get("by") or ""), limit=80)
    if number is not None:
        named = safe_text(str(data.get("class") or ""), limit=120)
        return f"attempt {number + 1}", named or event_words(event), worker
    if event.kind == "claimed":
        return "running", "", worker
    if event.kind == State.DEAD and job.retries is not None and job.attempts:
        return "dead", f"{failed_attempts(job)} attempts failed", ""
    words = event_words(event)
    name, _, rest = words.partition(" ") if words.startswith(event.kind) else (words, "", "")
    return name, rest, worker


@dataclass(frozen=True, slots=True)
class _Columns:
    """The columns of a timeline: when, what, who, for how long, and where on the axis."""

    axis: int
    worker: int
    cells: int

    def row(
        self, event: HistoryEvent, told: tuple[str, str, str], took: list[Piece], bar: list[Piece], *, strong: bool
    ) -> Line:
        """Return the line of an event."""
        glyph, role = event_glyph(event)
        clock, (label, words, worker) = fmt.clock(event.at_ms), told
        room = self.cells - len(clock) - 4 - (self.axis + 2 if self.axis else 0) - _TOOK
        of_worker = self.worker + 1 if self.worker and worker else 0
        looks = "strong bold" if strong or event.kind == State.DEAD else "text"
        name = f"{label:<9} " if words else label
        pieces: list[Piece] = [(name, looks), (words, "strong bold" if strong else "text")]
        if worker and not self.worker and fmt.length(pieces) + 2 + width(worker) <= room:
            pieces.append((f"  {worker}", "muted"))
        line: list[Piece] = [(clock, "muted"), ("  ", "text"), (glyph, role), (" ", "text")]
        line += fmt.fit(pieces, room - of_worker)
        if of_worker:
            line += [(" ", "text"), *fmt.fit([(cut_end(worker, self.worker), "muted")], self.worker)]
        line += fmt.fit(took, _TOOK, right=True)
        return (*line, ("  ", "text"), *bar) if self.axis else tuple(line)


def error(job: JobDetail, chosen: int | None, cells: int, *, unfolded: bool) -> list[Keyed]:
    """Return the error of an attempt, else the last one, with its traceback, frames of libraries folded."""
    found, last = failed(job), job.failure
    keys: list[Piece] = []
    data: Mapping[str, Any]
    if chosen is not None and found:
        kind, after, data = found[chosen].kind, f"attempt {chosen + 1}", found[chosen].data
        if len(found) > 1:
            keys = [("[", "accent bold"), (f" {chosen + 1} of {len(found)} ", "muted"), ("]", "accent bold")]
    elif last is not None:  # other systems keep no history of attempts
        kind, after = last.kind, ""
        data = {"class": last.class_name, "message": last.message, "traceback": last.traceback}
    else:
        return []
    lines: list[Keyed] = [("", ()), ("", noted("error", keys, cells, after=after))]
    name = cut_end(safe_text(str(data.get("class") or kind), limit=200), cells)
    message = safe_text(str(data.get("message") or ""), limit=_LONGEST, one_line=False)
    rows = wrap(f"{name}  {message}".rstrip(), cells, most=20)
    beside = rows[0].startswith(name)
    lines.append(("error/class", ((name, "bad bold"), (rows[0].removeprefix(name) if beside else "", "text"))))
    lines += [(f"error/{at}", ((part, "text"),)) for at, part in enumerate(rows[beside:])]
    text = data.get("traceback")
    if text is None and chosen == len(found) - 1 and last is not None:
        text = last.traceback
    if text:
        shown = safe_text(str(text), limit=30_000, one_line=False).rstrip()
        told = f"{data.get('class') or ''}: {data.get('message') or ''}"
        lines += [("", ()), *trace.lines(shown, cells, unfolded=unfolded, told=told)]
    return lines


def output(job: JobDetail, cells: int) -> list[Keyed]:
    """Return its result, and what it wrote while it ran."""
    lines: list[Keyed] = []
    if job.has_result:
        lines += [("", ()), ("", section("result", "", "muted", cells, indent=0))]
        shown = safe_text(str(job.result), limit=_LONGEST, one_line=False)
        lines += [(f"result/{at}", ((part, "text"),)) for at, part in enumerate(wrap(shown, cells, most=40))]
    if job.log:
        rows = safe_text(job.log, limit=20_000, one_line=False).splitlines()
        count = fmt.counted(len(rows), "line")
        lines += [("", ()), ("", noted("log", [(f"last attempt, {count}", "muted")], cells))]
        for at, row in enumerate(rows[-_LOG_LINES:]):
            lines += [(f"log/{at}.{part}", line) for part, line in enumerate(_log_lines(row, cells))]
        if len(rows) > _LOG_LINES:
            lines.insert(2, ("", ((f"{len(rows) - _LOG_LINES:,} earlier lines", "faint"),)))
    return lines


_LOG_LINES: Final = 200


def _log_lines(row: str, cells: int) -> list[Line]:
    """Return a line of a log: its time, its level in colour, and its message; any other line as it is."""
    found = _LOG.match(row)
    if not found:
        return [((part, "text"),) for part in wrap(row, cells, most=12)] or [()]
    at, level, words = found[2].replace(",", "."), found[3], found[4]
    shown = (f"{level.lower()[:7]:<7}", _LEVELS.get(level, "faint"))
    lead: list[Piece] = [(at, "muted"), ("  ", "text"), shown, ("  ", "text")]
    wide = fmt.length(lead)
    parts = wrap(words, max(20, cells - wide), most=12) or [""]
    return [(*lead, (parts[0], "text")), *(((" " * wide, "text"), (part, "text")) for part in parts[1:])]
