"""The log of operations as rows, and one batch with what became of its jobs."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from qdeck._operations.model import Verb
from qdeck_console import format as fmt
from qdeck_console.operating import DONE
from qdeck_console.presenters.charts import thin_bar
from qdeck_console.presenters.parts import LEAD, MARGIN, columns, name_parts, pair, section
from qdeck_console.text import cut_end, cut_middle, safe_text, wrap

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qdeck._operations.became import Became
    from qdeck._operations.model import Activity
    from qdeck_console.format import Line, Piece

# When it is narrow, who goes first, then the time for undo.
_COLUMNS: Final = (
    ("when", 12, False), ("who", 17, False), ("what", 12, False), ("where", 21, False), ("count", 7, True),
    ("undo", 8, True),
)  # fmt: skip
_DROPS: Final = ("who", "undo", "where", "count")
_LEAST: Final = 12
_LOOKS: Final = {
    "done": ("✓", "ok"),
    "failed": ("✗", "bad"),
    "begun": ("▸", "accent"),
}
_REACHED: Final = ("retry", "requeue", "run", "edit", "reprioritise", "move", "bury", "cancel", "discard", "purge")


def _kept(cells: int) -> tuple[list[tuple[str, int, bool]], int]:
    kept = list(_COLUMNS)
    drops = list(_DROPS)
    while True:
        left = cells - LEAD - MARGIN - sum(width + 1 for _, width, _ in kept) - 1
        if left >= _LEAST or not drops:
            return kept, max(8, left)
        name = drops.pop(0)
        kept = [column for column in kept if column[0] != name]


def head(cells: int) -> Line:
    """The heads of the columns."""
    kept, room = _kept(cells)
    return ((" " * (LEAD - 1), "text"), *_arranged(
        {label: [(label, "faint")] for label, _, _ in kept}, [("became", "faint")], kept, room
    ))  # fmt: skip


def _arranged(
    values: dict[str, list[Piece]], became: list[Piece], kept: list[tuple[str, int, bool]], room: int
) -> list[Piece]:
    """What became of it stands before the last column."""
    shown: list[tuple[Sequence[Piece], int, bool]] = [(values[label], wide, right) for label, wide, right in kept]
    last = [at for at, column in enumerate(kept) if column[0] == "undo"]
    shown.insert(last[0] if last else len(shown), ([(" ", "text"), *became], room + 1, False))
    return columns(shown)


def lines(
    row: Activity,
    cells: int,
    at_cursor: bool,
    *,
    undone: Activity | None,
    now_ms: int,
    became: Became | None,
    hide: str,
) -> list[Line]:
    """One operation; what it was for and why, on a second line."""
    kept, room = _kept(cells)
    plain = "faint" if undone else "text"
    glyph, role = ("◁", "faint") if undone else _LOOKS.get(row.outcome, ("▲", "warn"))
    words, told = _became(row, undone, became)
    if told == "warn" and glyph == "✓":
        glyph, role = "▲", "warn"
    left = None if undone or row.undo_until_ms is None else row.undo_until_ms - now_ms
    over: list[Piece] = [(fmt.ZERO, "ghost")] if row.undo_until_ms is None or undone else [("over", "faint")]
    values: dict[str, list[Piece]] = {
        "when": [(fmt.clock(row.at_ms), plain)],
        "who": [(cut_end(safe_text(f"{row.who}@{row.host}", limit=80), 17), "muted")],
        "what": [(safe_text(row.verb, limit=40), f"{'faint' if undone else 'strong'} bold")],
        "where": [(cut_middle(_where(row, hide), 21), "strong" if at_cursor and not undone else plain)],
        "count": fmt.cell(fmt.count(_count(row)), plain),
        "undo": fmt.span_pieces(left) if left is not None and left > 0 else over,
    }
    first: Line = (
        ("  ", "text"), (glyph, role),
        *_arranged(values, [(cut_end(words, room), told if told != "text" else plain)], kept, room),
    )  # fmt: skip
    why = "  ·  ".join(part for part in (row.where if row.queues else "", row.reason) if part)
    if not why:
        return [first]
    indent = LEAD + (13 + 18 * any(column[0] == "who" for column in kept))
    second = cut_end(safe_text(why, limit=300), max(8, cells - indent - MARGIN))
    return [first, ((" " * indent, "text"), (second, "faint" if undone else "muted"))]


def height(row: Activity) -> int:
    """How many lines it takes."""
    return 2 if (row.where and row.queues) or row.reason else 1


def _where(row: Activity, hide: str) -> str:
    if len(row.queues) == 1:
        return safe_text(" ▸ ".join(name_parts(row.queues[0], hide=hide)), limit=200)
    if row.queues:
        return f"{len(row.queues):,} queues"
    return safe_text(row.where, limit=200) or "–"


def _count(row: Activity) -> int | None:
    return row.counts.get("applied", row.counts.get("restored"))


def _became(row: Activity, undone: Activity | None, became: Became | None) -> tuple[str, str]:
    if undone is not None:
        told = undone.counts.get("restored")
        return f"by {safe_text(undone.who, limit=20)} at {fmt.clock(undone.at_ms)}, {fmt.count(told)} back", "text"
    if became is not None and row.verb in ("retry", "requeue", "run", "edit"):
        return truth(became)
    if row.verb == "live":
        until = row.counts.get("until_ms")
        return (f"until {fmt.clock(until)}" if until else "", "text")
    applied, skipped = _count(row), row.counts.get("skipped", 0)
    if applied is None:
        return safe_text(row.outcome, limit=60), "bad" if row.outcome == "failed" else "text"
    done = DONE[Verb(row.verb)] if row.verb in list(Verb) else "back" if row.verb == "undo" else "done"
    words = f"{applied:,} {done}" + (f", {skipped:,} left alone" if skipped else "")
    if row.outcome not in ("done", "begun"):
        words = f"{safe_text(row.outcome, limit=30)}: {words}"
    return words, "bad" if row.outcome == "failed" else "text"


def truth(became: Became) -> tuple[str, str]:
    """Where the jobs of a batch are now, in words, with their role."""
    parts = [
        (became.count("done"), "done"), (became.count("dead"), "dead again"), (became.count("running"), "running"),
        (became.count("ready", "delayed", "blocked"), "waiting"), (became.count("cancelled"), "cancelled"),
        (became.count("gone"), "ended, not kept"),
    ]  # fmt: skip
    words = ", ".join(f"{count:,} {word}" for count, word in parts if count)
    return words or "nothing is kept", "warn" if became.count("dead") else "text"


def side(
    row: Activity, cells: int, *, undone: Activity | None, now_ms: int, became: Became | str | None, hide: str
) -> list[Line]:
    """All about one operation."""
    count = _count(row)
    title = safe_text(row.verb, limit=40) + (f" {count:,}" if count is not None else "")
    outcome = "undone" if undone else row.outcome
    role = "bad" if row.outcome == "failed" else "faint" if undone else "muted"
    known = became if became is not None and not isinstance(became, str) else None
    if known is not None and known.count("dead") and not undone and row.verb in ("retry", "requeue", "run", "edit"):
        outcome, role = "▲ mixed" if known.count("done") else "✗ dead again", "warn"
    found: list[Line] = [
        (*fmt.fit([(title, "strong bold")], cells - len(outcome)), (safe_text(outcome, limit=30), f"{role} bold")),
        ((cut_end(f"{safe_text(row.batch or 'no batch', limit=60)}, {fmt.clock(row.at_ms)}", cells), "muted"),),
    ]
    if row.batch is not None and not undone and row.verb != "undo":
        found += [(), *_states(known, became if isinstance(became, str) else "", cells)]
    found += [(), section("how", "", "muted", cells, indent=0)]
    facts = [
        ("who", f"{row.who}@{row.host}"), ("filter", row.where), ("reason", row.reason), ("plan", row.plan or ""),
        ("counts", ", ".join(f"{name} {value:,}" for name, value in row.counts.items() if name != "until_ms")),
    ]  # fmt: skip
    for label, text in facts:
        if text:
            parts = wrap(safe_text(text, limit=600), max(8, cells - 9), most=6)
            found += [
                (*fmt.fit([(label if not at else "", "muted")], 9), (part, "text")) for at, part in enumerate(parts)
            ]
    for queue in row.queues[:8]:
        found.append(((cut_middle(" ▸ ".join(name_parts(queue, hide=hide)), cells), "text"),))
    if len(row.queues) > 8:
        found.append(((f"{len(row.queues) - 8} more queues", "faint"),))
    return [*found, (), *_undo(row, cells, undone=undone, now_ms=now_ms, became=known)]


def _states(became: Became | None, problem: str, cells: int) -> list[Line]:
    head_line = section("what became of them", "", "muted", cells, indent=0, count=became.total if became else None)
    if became is None:
        return [head_line, ((cut_end(safe_text(problem, limit=200), cells) or "…", "muted"),)]
    total = max(1, became.looked)
    ok, bad = became.count("done"), became.count("dead")
    good = max(0, round(cells * ok / total))
    worse = max(1 if bad else 0, round(cells * bad / total))
    good = min(good, cells - worse)
    bar: Line = (("━" * good, "ok"), ("━" * worse, "bad"), ("━" * (cells - good - worse), "line"))
    rows: list[Line] = [head_line, bar]
    for glyph, role, word, count in (
        ("✓", "ok", "done", ok),
        ("✗", "bad", "dead", bad),
        ("▸", "accent", "running", became.count("running")),
        ("◦", "muted", "waiting", became.count("ready", "delayed", "blocked")),
        ("∅", "muted", "cancelled", became.count("cancelled")),
        ("–", "ghost", "ended, not kept", became.count("gone")),
    ):
        value = fmt.cell(fmt.count(count), "strong bold" if count else "text")
        rows.append(((glyph, role), *pair(f" {word}", value, cells - 1)))
    if not became.is_whole:
        rows.append(((f"of the first {became.looked:,}", "faint"),))
    return rows


def _undo(row: Activity, cells: int, *, undone: Activity | None, now_ms: int, became: Became | None) -> list[Line]:
    left = 0 if row.undo_until_ms is None else row.undo_until_ms - now_ms
    if undone is not None:
        words = f"{safe_text(undone.who, limit=40)} took it back at {fmt.clock(undone.at_ms)}."
        return [
            section("undo", "", "muted", cells, indent=0),
            *(((part, "muted"),) for part in wrap(words, cells, most=3)),
        ]
    if row.batch is None or left <= 0:
        return [section("undo", "", "muted", cells, indent=0), (("nothing is kept to undo it", "muted"),)]
    note = f"{fmt.span(left)} left"
    found = [section("undo", note, "muted", cells, indent=0)]
    if became is not None and row.verb in ("retry", "requeue", "run", "edit", "reprioritise"):
        back, ran = became.count("ready", "delayed", "blocked"), became.count("running", "done", "cancelled", "gone")
        words = f"would put {back:,} back" + (f"; {ran:,} have run since" if ran else "")
        found += [((part, "muted"),) for part in wrap(words, cells, most=3)]
    if became is not None:
        size = "".join(text for text, _ in fmt.size(became.all_kept_bytes))
        found += [(), pair("undo of all batches keeps", [(size, "text")], cells),
                  tuple(thin_bar(became.all_kept_bytes / (64 * 1024 * 1024), cells, "muted"))]  # fmt: skip
    return found


def day(at_ms: int) -> str:
    """The group of a moment."""
    then = time.localtime(at_ms / 1000)
    return "today" if time.strftime("%Y%j", then) == time.strftime("%Y%j") else "before"
