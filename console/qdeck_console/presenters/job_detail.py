"""One job in detail: the side pane beside lists of jobs, and parts of its page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from qdeck.admin import MOST_SHOWN, UNKNOWN_TASK, StuckCode
from qdeck_console import format as fmt
from qdeck_console.presenters.line_parts import Naming, pair, queue_path, section
from qdeck_console.presenters.payload import arguments
from qdeck_console.text import cut_end, cut_id, safe_text, wrap

if TYPE_CHECKING:
    from qdeck.admin import HistoryEvent, JobDetail, Stuck
    from qdeck_console.departed_jobs import GoneJob
    from qdeck_console.format import Line, Piece

_BLANK: Final[Line] = ()
_GLYPHS: Final = {
    "enqueued": ("◦", "muted"),
    "claimed": ("▸", "accent"),
    "failed": ("✗", "bad"),
    "timeout": ("✗", "bad"),
    "crashed": ("✗", "bad"),
    "outage": ("▲", "warn"),
    "unknown_task": ("▲", "warn"),
    "expired": ("▲", "warn"),
    "dependency": ("✗", "bad"),
    "dead": ("✗", "bad"),
    "buried": ("✗", "bad"),
    "done": ("✓", "ok"),
}
FAILED_ATTEMPTS: Final = "attempts"
_STATE: Final = {"dead": ("✗ dead", "bad"), "running": ("▸ running", "accent"), "done": ("✓ done", "ok")}


def job_lines(
    job: JobDetail,
    cells: int,
    *,
    now_ms: int,
    naming: Naming,
    full: bool = False,
) -> list[Line]:
    """Return the details of a job; `full` with the whole traceback and output."""
    lines = [*title_lines(job, cells, naming=naming), _BLANK]
    wrong = trouble(job)
    if wrong:
        why: list[Line] = [((part, "warn"),) for part in wrap(wrong, cells, most=4)]
        lines += [section("reason", "", "muted", cells, indent=0), *why, _BLANK]
    lines += failure_lines(job, cells, full=full)
    lines += payload_lines(job, cells, most=40 if full else 8)
    if job.history or job.has_all_facts:  # other systems keep none
        lines += [
            section("timeline", "", "muted", cells, indent=0),
            *timeline_lines(job, cells, most=60 if full else 10),
            _BLANK,
        ]
    facts = job_facts(job, cells)
    if facts:
        lines += [section("job", "", "muted", cells, indent=0), *facts]
    if full and job.log:
        lines += [_BLANK, section("output", "", "muted", cells, indent=0)]
        lines += [((part, "text"),) for part in wrap(safe_text(job.log, limit=20_000, one_line=False), cells, most=200)]
    return lines


def gone_lines(row: GoneJob, cells: int, now_ms: int) -> list[Line]:
    """Return how the job under the cursor left the list."""
    head: Line = (("–  ", "ghost"), (cut_id(row.id, cells - 3), "faint strike"))
    return [head, *(((part, "muted"),) for part in wrap(row.words(now_ms), cells, most=3))]


def left_line(row: GoneJob, width: int, now_ms: int) -> Line:
    """Return the line of a job that left the list; `width` is that of its id."""
    name = fmt.fit([(cut_id(row.id, width), "faint strike")], width)
    return (("  ", "text"), ("–", "ghost"), (" ", "text"), *name, (f"  {row.words(now_ms)}", "faint"))


def failed_attempts(job: JobDetail) -> str:
    """Return how many attempts failed, of how many."""
    return f"{job.attempts or 0:,}" + (f" of {job.retries + 1:,}" if job.retries is not None else "")


def task_words(job: JobDetail) -> str:
    """Return the name or task of a job; of another system that has neither, its state there."""
    return job.name or job.task or ("unknown task" if job.has_all_facts else job.native_state)


def trouble(job: JobDetail) -> str:
    """Return why a job is stuck, or what of it cannot be read; empty when nothing is known to be wrong."""
    stuck, told = job.stuck, job.problem or ""
    if job.failure is not None and told == job.failure.message:
        return ""
    if stuck is not None and told in ("", stuck.name):
        told = _stuck_words(job, stuck)
    return safe_text(told, limit=500)


def _stuck_words(job: JobDetail, stuck: Stuck) -> str:
    """Return why it is stuck, for jobs on the screen Stuck at more length than a row there."""
    passed = fmt.span_s(stuck.seconds)
    if stuck.code is StuckCode.OWNER_GONE:
        return f"stuck: its worker is lost, and its lease expired {passed} ago (press 3)"
    if stuck.code is StuckCode.LEASE_EXPIRED:
        return f"stuck: its lease expired {passed} ago and was not renewed (press 3)"
    if stuck.code is StuckCode.OVER_LIMIT:
        return f"stuck: {passed} over its time limit of {fmt.span_s(stuck.limit)} (press 3)"
    if stuck.code is StuckCode.UNKNOWN_TASK:
        return f"no worker that claimed it has task {job.task}; a worker that has it gets the job at once"
    return stuck.text


def title_lines(
    job: JobDetail, cells: int, *, naming: Naming, state: Piece | None = None, about: str = ""
) -> list[Line]:
    """Return its id and state, and below its task and its queue, or `about`."""
    word = state or _STATE.get(job.state, (job.state, "muted"))
    room = cells - len(word[0]) - 1
    task = safe_text(task_words(job), limit=120)
    tail = [(about, "muted")] if about else queue_path(job.ref, cells, "muted", naming=naming)
    return [
        (*fmt.fit([(cut_id(job.id, room), "strong bold")], room), (" ", "text"), (word[0], f"{word[1]} bold")),
        tuple(fmt.fit([(task, "muted"), (" · " if about else "  ·  ", "ghost"), *tail], cells)),
    ]


def failure_lines(job: JobDetail, cells: int, *, full: bool = False) -> list[Line]:
    """Return its error; `full` with the whole traceback."""
    failure = job.failure
    if failure is None:
        return []
    message = safe_text(failure.message, limit=2_000, one_line=False)
    lines: list[Line] = [((cut_end(safe_text(failure.class_name, limit=120), cells), "bad bold"),)]
    lines += [((part, "text"),) for part in wrap(message, cells, most=12 if full else 4)]
    lines.append(_BLANK)
    if failure.traceback and full:
        lines.append(section("traceback", "", "muted", cells, indent=0))
        text = safe_text(failure.traceback, limit=30_000, one_line=False).rstrip()
        parts = wrap(text, cells, most=400)
        last = max((at for at, part in enumerate(parts) if part.lstrip().startswith("File ")), default=-2)
        for at, part in enumerate(parts):
            lines.append(((part, "strong on-bad_dim" if last < at <= last + 1 else "muted" if at < last else "text"),))
        lines.append(_BLANK)
    return lines


def payload_lines(job: JobDetail, cells: int, *, most: int) -> list[Line]:
    """Return its payload."""
    size = fmt.size(job.body_bytes)
    head = section("payload", "", "muted", cells - fmt.length(size) - 1, indent=0)
    lines: list[Line] = [(*head, (" ", "text"), *size)]
    pairs = [(str(name), _value(value)) for name, value in arguments(job.payload())]
    label = min(18, max((len(name) for name, _ in pairs), default=0))
    for name, value in pairs[:most]:
        shown = cut_end(safe_text(name, limit=60), label)
        lines.append(
            (*fmt.fit([(shown, "muted")], label + 1), (" ", "text"), (cut_end(value, cells - label - 2), "text"))
        )
    if len(pairs) > most:
        lines.append(((f"{len(pairs) - most:,} more", "faint"),))
    if not pairs:
        lines.append(((no_payload(job), "faint"),))
    lines.append(_BLANK)
    return lines


def no_payload(job: JobDetail) -> str:
    """Return the words for a payload without arguments, or for one that was not read."""
    if job.body is None and job.body_bytes:
        return f"not read: over {fmt.counted(MOST_SHOWN // 1024 // 1024, 'MiB', 'MiB')}"
    return "no arguments"


def _value(value: Any) -> str:
    if isinstance(value, str):
        return safe_text(value, limit=400)
    if isinstance(value, Mapping):
        return f"{{ {len(value)} keys }}"
    if isinstance(value, list) and len(value) > 6:
        return f"[ {len(value)} items ]"
    return safe_text(str(value), limit=400)


def timeline_lines(job: JobDetail, cells: int, *, most: int) -> list[Line]:
    """Return its history."""
    events = list(job.history)
    lines: list[Line] = []
    if len(events) > most:
        lines.append(((f"{len(events) - most:,} earlier", "faint"),))
    for event in events[-most:]:
        glyph, role = event_glyph(event)
        at = fmt.clock(event.at_ms)
        words = cut_end(event_words(event), cells - len(at) - 4)
        lines.append(((at, "muted"), ("  ", "text"), (glyph, role), (" ", "text"), (words, "text")))
    return lines


def event_glyph(event: HistoryEvent) -> Piece:
    """Return the sign of an event with its role."""
    return _GLYPHS.get(event.kind, ("•", "muted"))


def event_words(event: HistoryEvent) -> str:
    """Return an event in words."""
    data = event.data
    worker = safe_text(str(data.get("worker", "")), limit=80)
    if event.kind == "claimed":
        return f"claimed by {worker}"
    if event.kind in {"failed", "timeout"}:
        return safe_text(f"{event.kind}: {data.get('class', '')} {data.get('message', '')}", limit=300)
    if event.kind == "crashed":
        return f"worker crashed (crash {data.get('crashes', '?')})"
    if event.kind == UNKNOWN_TASK:
        return f"returned: {worker} does not have its task"
    if event.kind == "dead":
        return "moved to dead letters"
    if event.kind == "dependency":
        return safe_text(f"waited for {data.get('on', '?')}, which is {data.get('outcome', '?')}", limit=200)
    return safe_text(event.kind, limit=40)


def job_facts(job: JobDetail, cells: int) -> list[Line]:
    """Return its settings and limits as pairs."""
    lines = [] if job.priority_text is None else [pair("priority", [(job.priority_text, "text")], cells)]
    if job.attempts is not None or job.has_all_facts:
        lines.append(pair(FAILED_ATTEMPTS, [(failed_attempts(job), "text")], cells))
    if job.crashes:
        lines.append(pair("crashes", [(str(job.crashes), "bad")], cells))
    for label, value in (("time limit", job.time_limit_ms), ("lease", job.lease_ms)):
        if value is not None:
            lines.append(pair(label, fmt.span_pieces(value), cells))
    for label, ids in (("depends on", job.depends_on), ("dependents", job.dependents)):
        if ids:
            lines.append(pair(label, [(f"{len(ids):,}{'+' * job.more_dependents}", "text")], cells))
    if job.tags:
        lines.append(pair("tags", [(cut_end(safe_text(", ".join(job.tags), limit=200), cells - 8), "text")], cells))
    return lines
