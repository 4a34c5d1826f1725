"""The left of a job's page: its head, its payload as a tree, the jobs around it, and what a retry does."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from qdeck.admin import MASK, Feature, State, mask_payload
from qdeck_console import format as fmt
from qdeck_console.presenters.job_detail import FAILED_ATTEMPTS, failed_attempts, no_payload, task_words, trouble
from qdeck_console.presenters.job_past import noted
from qdeck_console.presenters.line_parts import Naming, name_parts, pair, queue_path, section
from qdeck_console.presenters.payload import arguments
from qdeck_console.presenters.retrying import retry_words
from qdeck_console.text import cut_end, cut_id, safe_text, width, wrap

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from qdeck.admin import CountedGroup, JobDetail, JobRecord
    from qdeck_console.format import Line, Piece
    from qdeck_console.presenters.trace import Keyed

_LONGEST: Final = 2_000
_UNFOLDED: Final = 8_000
_MOST_ROWS: Final = 80
_REFS: Final = 20
_MOST_NODES: Final = 2_000
_STATE: Final = {"dead": ("✗", "bad"), "running": ("▸", "accent"), "done": ("✓", "ok"), "blocked": ("◇", "muted")}


def header(job: JobDetail, cells: int, *, now_ms: int, naming: Naming) -> list[Line]:
    """Return its queue, id and state, since when, and its numbers in a line."""
    glyph, role = _STATE.get(job.state, ("◦", "muted"))
    state: list[Piece] = [
        (f" {glyph} {job.state}", f"{role} bold"),
        (f"  {_when(job, now_ms)}".rstrip() + " ", "muted"),
    ]
    room = cells - fmt.length(state)
    name = cut_end(safe_text(task_words(job), limit=120), 60)
    left: list[Piece] = [
        *queue_path(job.ref, max(12, room // 2), "muted", naming=naming), (" ▸ ", "ghost"),
        (cut_id(safe_text(job.id, limit=200), max(8, room // 2)), "strong bold"),
    ]  # fmt: skip
    beside = fmt.length(left) + 3 + width(name) <= room
    left += [(f"   {name}", "muted")] * beside
    lines: list[Line] = [(*fmt.fit(left, room), *state)]
    told = [] if beside else [("task", name)]
    told += [] if job.priority_text is None else [("priority", job.priority_text)]
    told += [(FAILED_ATTEMPTS, failed_attempts(job))] if job.attempts is not None or job.has_all_facts else []
    told.append(("payload", _size(job.body_bytes)))
    if job.unique:
        told.append(("unique", "yes"))
    if job.tags:
        told.append(("tags", " ".join(job.tags)))
    if job.crashes:
        told.append(("crashes", str(job.crashes)))
    retried = sum(event.kind == "retried" for event in job.history)
    if retried:
        told.append(("retried", "once" if retried == 1 else f"{retried:,} times"))
    if job.worker and job.state == State.RUNNING:
        told.append(("worker", job.worker))
    second: list[Piece] = []
    for label, text in told:
        part: list[Piece] = [(f"{label} ", "muted"), (safe_text(text, limit=120), "text")]
        gap: list[Piece] = [("    ", "text")] if second else []
        if fmt.length(second) + fmt.length(gap) + fmt.length(part) > cells - 2:
            second.append((" …", "muted"))  # whole ones only
            break
        second += gap + part
    wrong = [(("▲ ", "warn"), (part, "text")) for part in wrap(trouble(job), cells - 2, most=1) if part]
    return [*lines, tuple(fmt.fit(second, cells)), *wrong]


def _when(job: JobDetail, now_ms: int) -> str:
    """Return since when it is in its state; of a delayed job, when it is due."""
    if job.state == State.DELAYED and job.due_ms is not None:
        gap = fmt.span(abs(job.due_ms - now_ms))
        return f"due {fmt.clock(job.due_ms)}, " + (f"in {gap}" if job.due_ms >= now_ms else f"{gap} late")
    return "" if job.since_ms is None else f"since {fmt.clock(job.since_ms)}, {fmt.span(max(0, now_ms - job.since_ms))}"


def _size(count: int) -> str:
    return "".join(text for text, _ in fmt.size(count))


def tree(job: JobDetail, cells: int, folded: AbstractSet[str]) -> list[Keyed]:
    """Return the payload with a line for each value; objects and lists can be folded."""
    lines: list[Keyed] = [("", noted("payload", fmt.size(job.body_bytes), cells))]
    nodes = arguments(job.payload())
    for name, value in nodes:
        _node(lines, f"p/{name}", name, value, 0, cells, folded)
    if not nodes:
        lines.append(("p/", ((no_payload(job), "faint"),)))
    return [(key, tuple(fmt.fit(line, cells)) if fmt.length(line) > cells else line) for key, line in lines]


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
        if width(shown) > room:  # more than a line: it is unfolded like what has parts
            _long(lines, key, label, value, depth, cells, folded)
            return
        lines.append((key, (lead, ("  ", "text"), (label, "muted"), ("  ", "text"), (shown, role))))
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


def _long(
    lines: list[Keyed], key: str, label: str, value: Any, depth: int, cells: int, folded: AbstractSet[str]
) -> None:
    """Add a text of more than a line: cut; unfolded, as JSON with a line for each value, or in full."""
    lead: Piece = ("  " * depth, "text")
    is_open = key in folded
    head: list[Piece] = [lead, ("▾ " if is_open else "▸ ", "accent"), (label, "muted"), ("  ", "text")]
    room = max(8, cells - fmt.length(head))
    inside = _json_in(value) if is_open else None
    if not is_open:
        lines.append((key, (*head, (cut_end(_leaf(value)[0], room), "text"))))
    elif inside is not None:
        lines.append((key, (*head, (cut_end(f"text with JSON, {len(inside)}", room), "faint"))))
        for part, inner in inside:
            _node(lines, f"{key}/{part}", part, inner, depth + 1, cells, folded)
    else:
        text = safe_text(str(value), limit=_UNFOLDED, one_line=False)
        lines.append((key, (*head, (f"{len(str(value)):,} characters", "faint"))))
        indent = "  " * (depth + 1)
        rows = wrap(text, max(8, cells - len(indent)), most=_MOST_ROWS)
        lines += [(f"{key}#{at}", ((indent, "text"), (row, "text"))) for at, row in enumerate(rows)]


def _json_in(value: Any) -> list[tuple[object, Any]] | None:
    """Return the parts of the JSON object or list that a text holds, with secrets masked."""
    if not isinstance(value, str) or value[:1] not in {"{", "["} or len(value) > _UNFOLDED * 8:
        return None
    try:
        return _parts(mask_payload(json.loads(value)))
    except (ValueError, RecursionError):
        return None


def _parts(value: Any) -> list[tuple[object, Any]] | None:
    if isinstance(value, Mapping) and value:
        return list(value.items())
    return list(enumerate(value)) if isinstance(value, list) and value else None


def _leaf(value: Any) -> tuple[str, str]:
    if value == MASK:
        return "•••••• masked", "faint"
    if isinstance(value, str):
        return f'"{safe_text(value, limit=_LONGEST)}"', "text"
    if value is None:
        return "null", "faint"
    if isinstance(value, bool):
        return str(value).lower(), "text"
    return safe_text("{}" if value == {} else "[]" if value == [] else str(value), limit=_LONGEST), "text"


def value_at(job: JobDetail, key: str) -> object:
    """Return the value of a line of the tree."""
    found: Any = dict(arguments(job.payload()))
    for part in key.split("/")[1:]:
        if isinstance(found, Mapping):
            found = next((value for name, value in found.items() if str(name) == part), None)
        elif isinstance(found, list) and part.isdigit() and int(part) < len(found):
            found = found[int(part)]
        elif isinstance(found, str):
            inside = {str(name): value for name, value in _json_in(found) or ()}
            found = inside.get(part)
        else:
            return None
    return found


def relations(
    job: JobDetail,
    cells: int,
    *,
    naming: Naming,
    now_ms: int,
    related: Mapping[str, JobRecord],
    kin: CountedGroup | None,
) -> list[Keyed]:
    """Return the jobs that it depends on, its dependents, and what a retry does."""
    lines: list[Keyed] = []
    for label, refs, more in (
        ("depends on", job.depends_on, False),
        ("dependents", job.dependents, job.more_dependents),
    ):
        if not refs:
            continue
        told = [related[ref].state for ref in refs[:_REFS] if ref in related]
        lines += [("", ()), ("", noted(label, _summary(len(refs), more, told), cells))]
        for ref in refs[:_REFS]:
            lines.append((f"job/{ref.partition('@')[0]}", _reference(ref, related.get(ref), cells, now_ms)))
        if more or len(refs) > _REFS:
            lines.append(("", (("and more", "faint"),)))
    if job.state == State.DEAD:
        lines += [("", ()), ("", section("on retry", "", "muted", cells, indent=0))]
        words = _retry_words(job, naming, now_ms, kin)
        lines += [(f"would/{at}", ((part, "text"),)) for at, part in enumerate(wrap(words, cells, most=8))]
    return lines


def _summary(count: int, more: bool, states: list[str]) -> list[Piece]:
    """Return how many jobs there are, and in which states."""
    words: list[Piece] = [(f"{count:,}{'+' * more}", "muted")]
    if states and len(states) == count and len(set(states)) == 1:
        return [*words, (f" {states[0]}" if count == 1 else f", all {states[0]}", "muted")]
    blocked = states.count(State.BLOCKED)
    return [*words, (f", {blocked:,} blocked", "warn")] if blocked else words


def _reference(ref: str, job: JobRecord | None, cells: int, now_ms: int) -> Line:
    """Return a related job: its state, its id, its task, and since when."""
    job_id, _, queue = ref.partition("@")
    glyph, role = _STATE.get(job.state, ("◦", "muted")) if job is not None else ("◇", "muted")
    if job is None:
        told: list[Piece] = [("no longer stored" if not queue else f"in {safe_text(queue, limit=80)}", "faint")]
    else:
        since = "" if job.since_ms is None else f" {fmt.span(max(0, now_ms - job.since_ms))}"
        told = [(job.state + since, "warn" if job.state in {State.BLOCKED, State.DEAD} else "muted")]
    right = min(fmt.length(told), max(8, cells // 3))
    room = cells - 2 - right - 1
    name = "" if job is None else safe_text(job.name or job.task or "", limit=80)
    left: list[Piece] = [(cut_id(safe_text(job_id, limit=200), min(20, room)), "text"), (f"  {name}", "muted")]
    return ((glyph, role), (" ", "text"), *fmt.fit(left, room), (" ", "text"), *fmt.fit(told, right, right=True))


def _retry_words(job: JobDetail, naming: Naming, now_ms: int, kin: CountedGroup | None) -> str:
    if not job.has(Feature.ATTEMPTS):
        return retry_words(job.adapter)
    where = " ▸ ".join(name_parts(job.ref, naming=naming))
    words = f"Goes to the end of {where} with {fmt.counted((job.retries or 0) + 1, 'attempt')} left."
    if job.dependents:
        many = f"{len(job.dependents):,}{'+' * job.more_dependents}"
        words += f" Its dependents ({many}) continue when it is done."
    if kin is not None and kin.size > 1:
        others = kin.size - 1
        words += f" {fmt.counted(others, 'other')} in this queue failed the same way"
        is_last = job.since_ms is not None and kin.last <= job.since_ms
        words += ", earlier." if is_last else f", the last {fmt.span(max(0, now_ms - kin.last))} ago."
    return words


def facts(job: JobDetail, cells: int) -> list[Keyed]:
    """Return its limits and what depends on its end, without what the head of the page shows."""
    told: list[tuple[str, list[Piece]]] = [
        (label, fmt.span_pieces(value, fine=True))
        for label, value in (("time limit", job.time_limit_ms), ("lease", job.lease_ms))
        if value is not None
    ]
    if job.expires_ms is not None:
        told.append(("expires", [(fmt.clock(job.expires_ms), "text")]))
    for label, text in (("on failure", job.on_failure), ("handler of", job.handler_of)):
        if text:
            told.append((label, [(cut_end(safe_text(text, limit=200), cells - len(label) - 2), "text")]))
    if job.run_anyway:
        told.append(("run anyway", [("yes", "text")]))
    if not told:
        return []
    head: list[Keyed] = [("", ()), ("", section("limits", "", "muted", cells, indent=0))]
    return [*head, *((f"fact/{at}", pair(label, value, cells)) for at, (label, value) in enumerate(told))]
