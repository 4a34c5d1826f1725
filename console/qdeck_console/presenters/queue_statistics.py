"""Sections about one queue close up: how long its jobs take, what they died of, their size, who did what to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from qdeck_console import format as fmt
from qdeck_console.presenters.charts import thin_bar
from qdeck_console.presenters.line_parts import pair, section
from qdeck_console.text import cut_end, safe_text, wrap

if TYPE_CHECKING:
    from qdeck.admin import Activity, BatchOutcomes, CloseUp, Spread
    from qdeck_console.format import Line, Piece
    from qdeck_console.selected_queue import Insight

_ERRORS: Final = 4
_OPERATIONS: Final = 3
_BAR: Final = 8
_NUMBER: Final = 9


def times(seen: CloseUp, cells: int) -> list[Line]:
    """Return how long jobs wait and run now, and how long those took that ended last, with how many that are."""
    rows = [
        ("waiting", seen.waiting, "{of} waiting"), ("running", seen.running, "{of} running"),
        ("done after", seen.done, "the last {n} done"),
    ]  # fmt: skip
    known = [(label, spread, words) for label, spread, words in rows if spread is not None]
    if not known:
        return []
    label = cells - 3 * _NUMBER
    heads: list[Piece] = [(" " * label, "text")]
    for head in ("p50", "p95", "max"):
        heads += fmt.fit([(head, "faint")], _NUMBER, right=True)
    lines: list[Line] = [section("times", "", "muted", cells, indent=0), tuple(heads)]
    for name, spread, _ in known:
        line = fmt.fit([(name, "muted")], label)
        for ms in (spread.p50_ms, spread.p95_ms, spread.max_ms):
            line += fmt.fit(fmt.span_pieces(ms, fine=True), _NUMBER, right=True)
        lines.append(tuple(line))
    told = ", ".join(_counted(spread, words) for _, spread, words in known)
    return [*lines, *(((part, "faint"),) for part in wrap(told, cells, most=2))]


def _counted(spread: Spread, words: str) -> str:
    if spread.sampled < spread.of and "{of}" in words:
        return f"{spread.sampled:,} of the " + words.format(of=f"{spread.of:,}") + " sampled"
    return words.format(of=f"{spread.of:,}", n=f"{spread.sampled:,}")


def deaths(seen: CloseUp, dead: int, cells: int, *, role: str = "text") -> list[Line]:
    """The dead letters by error class, the most frequent first."""
    if not dead or seen.died == ():
        return []
    count = fmt.count(dead)
    head = section("dead letters by error", "", "muted", cells - len(count) - 1, indent=0)
    lines: list[Line] = [(*head, (" ", "text"), (count, role))]
    if seen.died is None:
        return [*lines, (("not grouped here (press 4)", "faint"),)]
    shown = list(seen.died[: _ERRORS if len(seen.died) <= _ERRORS else _ERRORS - 1])
    rest = seen.died[len(shown) :]
    rows = [(died.count, died.error_class, "text") for died in shown]
    if rest:
        rows.append((sum(died.count for died in rest), f"{len(rest):,} others", "muted"))
    whole = max(1, sum(died.count for died in seen.died))
    for number, name, looks in rows:
        room = cells - 6 - 2 - _BAR - 2
        text = cut_end(safe_text(name, limit=120), room)
        lines.append(
            (
                *fmt.fit([(fmt.count(number), "text")], 6, right=True), ("  ", "text"), *fmt.fit([(text, looks)], room),
                ("  ", "text"), *thin_bar(number / whole, _BAR, looks),
            )
        )  # fmt: skip
    return lines


def payloads(seen: CloseUp, cells: int) -> list[Line]:
    """Return how large a payload is, and all of them: about, because a few were looked at."""
    if not seen.payloads or seen.payload_bytes is None:
        return []
    one, every = fmt.size(round(seen.payload_bytes)), fmt.size(round(seen.payload_bytes * seen.payloads))
    value: list[Piece] = [("~", "muted"), *one, (" each", "muted"), ("  ~", "muted"), *every, (" total", "muted")]
    return [pair("payload", value, cells)]


def operations(insight: Insight, cells: int, now_ms: int) -> list[Line]:
    """The last things that were done to the queue, by whom and when; of a retry what became of it."""
    if not insight.operations:
        return []
    lines: list[Line] = [section("last operations", "", "muted", cells, indent=0)]
    for row in insight.operations[:_OPERATIONS]:
        lines += _operation(row, insight.outcomes, cells, now_ms)
    return lines


def _operation(row: Activity, outcomes: BatchOutcomes | None, cells: int, now_ms: int) -> list[Line]:
    count = row.counts.get("applied", row.counts.get("restored"))
    what = safe_text(row.verb, limit=40) + (f" {count:,}" if count and (count > 1 or row.batch) else "")
    if row.outcome not in {"done", "running"}:
        what += f", {safe_text(row.outcome, limit=20)}"
    ago = f"{fmt.span(max(0, now_ms - row.at_ms))} ago"
    who = cut_end(safe_text(row.who, limit=40), max(4, cells - len(what) - len(ago) - 3))
    role = "bad" if row.outcome == "failed" else "text"
    room = cells - fmt.length([(f" {who}, {ago}", "")])
    lines: list[Line] = [(*fmt.fit([(cut_end(what, room), role)], room), (f" {who}, {ago}", "muted"))]
    if outcomes is not None and outcomes.batch == row.batch and row.verb != "undo":
        lines.append((("  ", "text"), *_outcomes(outcomes)))
    elif row.reason:
        lines.append((("  ", "text"), (cut_end(safe_text(row.reason, limit=200), cells - 2), "muted")))
    return lines


def _outcomes(outcomes: BatchOutcomes) -> list[Piece]:
    if outcomes.undone:
        return [("undone", "faint")]
    waiting = outcomes.pending + outcomes.running
    parts = [
        (outcomes.done + outcomes.gone, "done", "muted"), (outcomes.dead_again, "dead again", "bad"),
        (waiting, "waiting", "muted"),
    ]  # fmt: skip
    pieces: list[Piece] = []
    for count, word, role in parts:
        if count:
            pieces += [("  ·  ", "ghost")] * bool(pieces) + [(f"{count:,} {word}", role)]
    return pieces or [("their outcomes are not stored", "muted")]
