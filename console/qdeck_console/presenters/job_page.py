"""The page of one job: its payload as a tree, every try on a time axis, the error of one, what a retry would do."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from qdeck._deck.model import State
from qdeck_console import format as fmt
from qdeck_console.presenters.job_detail import event_glyph, event_words, job_facts
from qdeck_console.presenters.parts import name_parts, queue_path, section
from qdeck_console.text import cut_end, cut_id, safe_text, wrap

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from qdeck._deck.model import HistoryEvent, JobDetail
    from qdeck_console.format import Line, Piece

Keyed = tuple[str, "Line"]  # a line and its identity: the cursor moves over those that have one
FAILING: Final = ("failed", "timeout", "crashed", "outage", "expired", "dependency")
_LONGEST: Final = 2_000
_MOST_NODES: Final = 2_000
_FRAME: Final = re.compile(r'^\s*File "(.+)", line (\d+), in (.+)$')
_LIBRARY: Final = ("site-packages/", "dist-packages/", "/lib/python3", "qdeck/_worker/", "<frozen ")
_STATE: Final = {"dead": ("✗", "bad"), "running": ("▸", "accent"), "done": ("✓", "ok"), "blocked": ("◇", "muted")}


def header(job: JobDetail, cells: int, *, now_ms: int, hide: str) -> list[Line]:
    """Where it is, who it is, its state since when, and its numbers in a line."""
    glyph, role = _STATE.get(job.state, ("◦", "muted"))
    since = (
        "" if job.since_ms is None else f"since {fmt.clock(job.since_ms)}, {fmt.span(max(0, now_ms - job.since_ms))}"
    )
    state: list[Piece] = [(f"{glyph} {job.state}", f"{role} bold"), (f"  {since} ", "muted")]
    room = cells - fmt.length(state)
    left: list[Piece] = [
        *queue_path(job.queue, max(12, room // 2), "muted", hide=hide), (" ▸ ", "ghost"),
        (cut_id(safe_text(job.id, limit=200), max(8, room // 2)), "strong bold"),
        (f"   {safe_text(job.name or job.task or 'unknown task', limit=120)}", "muted"),
    ]  # fmt: skip
    lines: list[Line] = [(*fmt.fit(left, room), *state)]
    tries = f"{job.attempts or 0}" + (f" of {job.retries + 1}" if job.retries is not None else "")
    told = [("priority", str(job.priority)), ("tries", tries), ("payload", _size(job.body_bytes))]
    if job.unique:
        told.append(("unique", "yes"))
    if job.tags:
        told.append(("tags", " ".join(job.tags)))
    if job.crashes:
        told.append(("crashes", str(job.crashes)))
    if job.worker and job.state == State.RUNNING:
        told.append(("runs on", job.worker))
    second: list[Piece] = []
    for label, text in told:
        second += [(label + " ", "muted"), (safe_text(text, limit=120), "text"), ("    ", "text")]
    return [*lines, tuple(fmt.fit(second, cells))]


def _size(count: int) -> str:
    return "".join(text for text, _ in fmt.size(count))


def tree(job: JobDetail, cells: int, folded: AbstractSet[str]) -> list[Keyed]:
    """The payload with a line a value; what has parts is folded and unfolded."""
    size = fmt.size(job.body_bytes)
    head = section("payload", "", "muted", cells - fmt.length(size) - 1, indent=0)
    lines: list[Keyed] = [("", (*head, (" ", "text"), *size))]
    payload = job.payload()
    nodes = _call(payload)
    for name, value in nodes:
        _node(lines, f"p/{name}", name, value, 0, cells, folded)
    if not nodes:
        lines.append(("p/", (("no arguments", "faint"),)))
    return lines


def _call(payload: Any) -> list[tuple[str, Any]]:
    if (
        isinstance(payload, list)
        and len(payload) == 2
        and isinstance(payload[0], list)
        and isinstance(payload[1], dict)
    ):
        return [*((str(at), value) for at, value in enumerate(payload[0], 1)), *payload[1].items()]
    if isinstance(payload, Mapping):
        return list(payload.items())
    return [] if payload is None else [("", payload)]


def _node(
    lines: list[Keyed], key: str, name: object, value: Any, depth: int, cells: int, folded: AbstractSet[str]
) -> None:
    if len(lines) > _MOST_NODES:
        return
    lead: Piece = ("  " * depth, "text")
    label = safe_text(str(name), limit=120)
    parts = _parts(value)
    if parts is None:
        shown, role = _leaf(value)
        room = max(8, cells - 2 * depth - 2 - len(label) - 2)
        lines.append((key, (lead, ("  ", "text"), (label, "muted"), ("  ", "text"), (cut_end(shown, room), role))))
        return
    is_open = (key not in folded) if depth < 2 else (key in folded)  # deeper ones begin folded
    brackets = "{{ {} }}" if isinstance(value, Mapping) else "[ {} ]"
    inside = str(len(parts))
    if not is_open and isinstance(value, Mapping):
        inside = ", ".join(safe_text(str(part), limit=40) for part, _ in parts[:8]) or "0"
    sign = "▾ " if is_open else "▸ "
    summary = cut_end(brackets.format(inside), max(8, cells - 2 * depth - len(label) - 4))
    lines.append((key, (lead, (sign, "accent"), (label, "muted"), ("  ", "text"), (summary, "faint"))))
    if is_open:
        for part, inner in parts:
            _node(lines, f"{key}/{part}", part, inner, depth + 1, cells, folded)


def _parts(value: Any) -> list[tuple[object, Any]] | None:
    if isinstance(value, Mapping) and value:
        return list(value.items())
    return list(enumerate(value)) if isinstance(value, list) and value else None


def _leaf(value: Any) -> tuple[str, str]:
    if isinstance(value, str):
        return f'"{safe_text(value, limit=_LONGEST)}"', "text"
    if value is None:
        return "null", "faint"
    if isinstance(value, bool):
        return str(value).lower(), "text"
    return safe_text("{}" if value == {} else "[]" if value == [] else str(value), limit=_LONGEST), "text"


def value_at(job: JobDetail, key: str) -> object:
    """The value of a line of the tree."""
    found: Any = dict(_call(job.payload()))
    for part in key.split("/")[1:]:
        if isinstance(found, Mapping):
            found = next((value for name, value in found.items() if str(name) == part), None)
        elif isinstance(found, list) and part.isdigit() and int(part) < len(found):
            found = found[int(part)]
        else:
            return None
    return found


def relations(job: JobDetail, cells: int, *, hide: str) -> list[Keyed]:
    """What it waits for, what waits for it, and what a retry would do."""
    lines: list[Keyed] = []
    for label, ids, more in (
        ("waits for", job.depends_on, False),
        ("waited for by", job.dependents, job.more_dependents),
    ):
        if not ids:
            continue
        head = section(label, "", "muted", cells, indent=0, count=len(ids))
        lines += [("", ()), ("", head)]
        for job_id in ids[:20]:
            lines.append(
                (f"job/{job_id}", (("◇ ", "muted"), (cut_id(safe_text(job_id, limit=200), cells - 2), "text")))
            )
        if more or len(ids) > 20:
            lines.append(("", (("and more", "faint"),)))
    if job.state == State.DEAD:
        where = " ▸ ".join(name_parts(job.queue, hide=hide))
        words = f"put it at the end of {where} with 0 of {(job.retries or 0) + 1} tries used"
        lines += [("", ()), ("", section("a retry would", "", "muted", cells, indent=0))]
        lines += [(f"would/{at}", ((part, "text"),)) for at, part in enumerate(wrap(words + ".", cells, most=6))]
    return lines


def facts(job: JobDetail, cells: int) -> list[Keyed]:
    """Its settings and limits."""
    head: list[Keyed] = [("", ()), ("", section("job", "", "muted", cells, indent=0))]
    return [*head, *((f"fact/{at}", line) for at, line in enumerate(job_facts(job, cells)))]


def tries(job: JobDetail) -> list[HistoryEvent]:
    """Every end of a try that was not a good one, oldest first."""
    return [event for event in job.history if event.kind in FAILING]


def timeline(job: JobDetail, cells: int, *, chosen: int | None, now_ms: int) -> list[Keyed]:
    """What happened to it, each with its place on one time axis."""
    events = list(job.history)[-60:]
    begin = events[0].at_ms if events else 0
    ends = job.state in (State.DONE, State.DEAD, State.CANCELLED)
    last = events[-1].at_ms if events and ends else now_ms
    spent = fmt.span(max(0, last - begin), fine=True) if events else ""
    lines: list[Keyed] = [("", section("timeline", spent, "muted", cells, indent=0))]
    axis = 24 if cells >= 88 else 0
    before, at_try = begin, 0
    for at, event in enumerate(events):
        glyph, role = event_glyph(event)
        number = ""
        is_chosen = False
        if event.kind in FAILING:
            is_chosen, at_try = at_try == chosen, at_try + 1
            number = f"try {at_try}  "
        clock = fmt.clock(event.at_ms)
        room = cells - len(clock) - 4 - (axis + 2 if axis else 0)
        words = cut_end(number + event_words(event), room)
        line: list[Piece] = [
            (clock, "muted"), ("  ", "text"), (glyph, role), (" ", "text"),
            *fmt.fit([(words, "strong bold" if is_chosen else "text")], room),
        ]  # fmt: skip
        if axis:
            line += [("  ", "text"), *_mark(before - begin, event.at_ms - begin, max(1, last - begin), axis, role)]
        before = event.at_ms
        lines.append((f"event/{at}", tuple(line)))
    return lines


def _mark(start: int, end: int, whole: int, cells: int, role: str) -> list[Piece]:
    first = min(cells - 1, start * (cells - 1) // whole)
    last = min(cells - 1, end * (cells - 1) // whole)
    return [(" " * first, "text"), ("─" * (last - first), "ghost"), ("━", role), (" " * (cells - last - 1), "text")]


def error(job: JobDetail, chosen: int, cells: int, *, unfolded: bool) -> list[Keyed]:
    """One try's error with its traceback, frames of libraries folded."""
    found = tries(job)
    if not found:
        return []
    event = found[chosen]
    many = len(found) > 1
    keys: list[Piece] = [("[", "accent bold"), (f" {chosen + 1} of {len(found)} ", "muted"), ("]", "accent bold")]
    head = section("error", f"try {chosen + 1}", "muted", cells - (fmt.length(keys) + 1) * many, indent=0)
    lines: list[Keyed] = [("", ()), ("", (*head, (" ", "text"), *keys) if many else head)]
    data = event.data
    name = safe_text(str(data.get("class") or event.kind), limit=200)
    message = safe_text(str(data.get("message") or ""), limit=_LONGEST, one_line=False)
    lines.append(("error/class", ((cut_end(name, cells), "bad bold"),)))
    lines += [(f"error/{at}", ((part, "text"),)) for at, part in enumerate(wrap(message, cells, most=20))]
    text = data.get("traceback")
    if text is None and chosen == len(found) - 1 and job.failure is not None:
        text = job.failure.traceback
    if text:
        lines += _traceback(safe_text(str(text), limit=30_000, one_line=False).rstrip(), cells, unfolded=unfolded)
    return lines


def _traceback(text: str, cells: int, *, unfolded: bool) -> list[Keyed]:
    rows = text.splitlines()
    frames = [(at, found) for at, row in enumerate(rows) if (found := _FRAME.match(row))]
    libraries = {at for at, found in frames if any(mark in found[1] for mark in _LIBRARY)}
    last = max((at for at, _ in frames), default=-2)
    folds = bool(libraries) and len(libraries) < len(frames)
    words = f"Traceback, {len(frames)} frame{'s' * (len(frames) != 1)}"
    if folds and not unfolded:
        words += f", {len(libraries)} of libraries folded"
    hint: list[Piece] = [("  enter", "accent bold"), (" folds" if unfolded else " unfolds", "muted")] if folds else []
    lines: list[Keyed] = [("", ()), ("traceback", ((words, "muted"), *hint))]
    hidden, skipping = 0, False
    for at, row in enumerate(rows):
        if folds and not unfolded:
            if _FRAME.match(row):
                skipping = at in libraries and at != last
                hidden += skipping
            elif not row.startswith("    "):
                skipping = False
            if skipping:
                continue
            if hidden:
                lines.append((f"tb/fold{at}", ((f"  … {hidden} frame{'s' * (hidden != 1)} of libraries", "faint"),)))
                hidden = 0
        role = "strong on-bad_dim" if last < at <= last + 1 else "strong" if at == last else "text"
        for number, part in enumerate(wrap(row, cells, most=12) or [""]):
            lines.append((f"tb/{at}.{number}", ((part, role),)))
    return lines


def output(job: JobDetail, cells: int) -> list[Keyed]:
    """Its result, and what it wrote while it ran."""
    lines: list[Keyed] = []
    if job.has_result:
        lines += [("", ()), ("", section("result", "", "muted", cells, indent=0))]
        shown = safe_text(str(job.result), limit=_LONGEST, one_line=False)
        lines += [(f"result/{at}", ((part, "text"),)) for at, part in enumerate(wrap(shown, cells, most=40))]
    if job.log:
        lines += [("", ()), ("", section("output", "of its last try", "muted", cells, indent=0))]
        shown = safe_text(job.log, limit=20_000, one_line=False)
        lines += [(f"log/{at}", ((part, "text"),)) for at, part in enumerate(wrap(shown, cells, most=200))]
    return lines
