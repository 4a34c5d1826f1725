"""The page of a redrive: how many jobs were retried, the outcomes of the last of them, and why it stopped."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from qdeck.admin import ENOUGH, TOO_MANY, Outcomes, StopCode
from qdeck_console import format as fmt
from qdeck_console.presenters.charts import thin_bar
from qdeck_console.presenters.line_parts import Naming, queue_path, section
from qdeck_console.text import cut_end, cut_id, safe_text, width, wrap

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qdeck.admin import BatchResult, JobOutcome, Plan
    from qdeck_console.format import Line, Piece

_OUTCOMES: Final = (
    ("done", "✓", "done", "ok"),
    ("dead_again", "✗", "dead again", "bad"),
    ("failed_again", "✗", "failed, will retry", "bad"),
    ("running", "▸", "running", "accent"),
    ("waiting", "◦", "waiting", "muted"),
    ("cancelled", "∅", "cancelled", "muted"),
    ("gone", "–", "no longer stored", "muted"),
    ("unknown", "?", "unknown", "muted"),
)
WATCHING: Final = "watching the sample"
_MOST_EVENTS: Final = 12
MOST_SAMPLED: Final = 12  # jobs of the sample that are shown one by one


@dataclass(slots=True)
class Drive:
    """A redrive: what was asked for, how far it is, and how it ended."""

    plan: Plan
    rate: float
    sample: int
    started: float = field(default_factory=time.monotonic)
    back: int = 0
    done: int = 0
    skipped: int = 0
    outcomes: Outcomes = field(default_factory=Outcomes)
    watched: int = 0
    told: str = ""  # which outcomes other systems report
    result: BatchResult | None = None
    sampled: Sequence[JobOutcome] = ()
    error: str = ""
    over_at: float | None = None
    events: list[tuple[int, str, str, str]] = field(default_factory=list)  # when, sign, role, words

    @property
    def is_over(self) -> bool:
        """Whether no more jobs are retried."""
        return self.over_at is not None

    @property
    def phase(self) -> str:
        """The phase: sample, rest or over."""
        if self.is_over:
            return "over"
        return "sample" if self.done <= self.sample else "rest"

    def tell(self, sign: str, role: str, words: str) -> None:
        """Note an event."""
        self.events.append((time.time_ns() // 1_000_000, sign, role, words))


def state(drive: Drive) -> Piece:
    """Return the state in a word."""
    if not drive.is_over:
        return (f"▸ {WATCHING}" if drive.phase == "sample" else "▸ retrying", "accent")
    if drive.error:
        return ("✗ failed", "bad")
    result = drive.result
    if result is not None and result.stopped is not None:
        return ("▲ cancelled" if result.stopped.code is StopCode.CANCELLED else "✗ stopped by itself", "warn")
    return ("✓ all retried", "ok")


def redrive_lines(drive: Drive, cells: int, *, naming: Naming, beside: bool = False) -> list[Line]:
    """Return the page; with `beside`, the sample and the events are in a pane of their own."""
    plan, word = drive.plan, state(drive)
    queues = [plan.label(queue) for queue in plan.by_queue]
    place = (
        queue_path(queues[0], max(8, cells - width(word[0]) - 22), "strong bold", naming=naming)
        if len(queues) == 1
        else [(f"{len(queues):,} queues", "strong bold")]
    )
    head: list[Piece] = [(f"redrive {plan.count:,} of ", "strong bold"), *place]
    gap = cells - fmt.length(head) - len(word[0])
    lines: list[Line] = [
        (*head, (" " * max(2, gap), "text"), (word[0], f"{word[1]} bold")),
        ((f"a sample of {drive.sample:,}, then {drive.rate:g} jobs/s", "muted"),),
        (),
        *_progress(drive, cells),
        (),
        *_outcomes(drive, cells),
        (),
        *_why(drive, cells),
    ]
    return lines if beside else [*lines, (), *around(drive, cells)]


def around(drive: Drive, cells: int) -> list[Line]:
    """Return the sample job by job, and the events: beside the sums where there is room, else below them."""
    lines = sample_lines(drive, cells)
    lines += [()] if lines else []
    lines.append(section("events", "", "muted", cells, indent=0))
    for at_ms, sign, role, words in drive.events[-_MOST_EVENTS:]:
        when = fmt.clock(at_ms)
        parts = wrap(safe_text(words, limit=200), max(10, cells - len(when) - 4), most=3)
        for number, part in enumerate(parts):
            head: list[Piece] = [(when, "muted"), ("  ", "text"), (sign, role)] if not number else [
                (" " * (len(when) + 3), "text")
            ]  # fmt: skip
            lines.append((*head, (f" {part}", "text")))
    return lines


def sample_lines(drive: Drive, cells: int) -> list[Line]:
    """Return the outcome of each job of the sample, and its error."""
    if not drive.sampled:
        return []
    shown = drive.sampled[:MOST_SAMPLED]
    words = f"{len(shown)} of {min(drive.sample, drive.plan.count):,}" if len(shown) < drive.sample else f"{len(shown)}"
    lines = [section("sample", words, "muted", cells, indent=0)]
    looks = {name: (sign, text, role) for name, sign, text, role in _OUTCOMES}
    wide = min(20, max(12, cells // 2 - 2))
    for one in shown:
        sign, word, role = looks.get(one.outcome or "", ("·", "not retried yet", "faint"))
        told = f"{one.error}: {one.message}" if one.message else one.error
        name = cut_id(one.id, wide)
        line: list[Piece] = [(f"{sign} ", role), *fmt.fit([(name, "text")], wide), ("  ", "text"), (word, role)]
        room = cells - fmt.length(line) - 2
        if told and room > 8:
            line += [("  ", "text"), (cut_end(safe_text(told, limit=200), room), "muted")]
        lines.append(tuple(fmt.fit(line, cells)))
    return lines


def _progress(drive: Drive, cells: int) -> list[Line]:
    total, seconds = drive.plan.count, max(0.001, (drive.over_at or time.monotonic()) - drive.started)
    tail: list[Piece] = [
        ("  ", "text"),
        (f"{drive.back:,}", "strong bold"),
        (f" of {total:,} retried", "muted"),
    ]
    if not drive.is_over and drive.phase == "rest":
        tail.append((f"  ~{fmt.span_s(max(0, total - drive.done) / drive.rate)} left", "muted"))
    elif drive.is_over:
        tail.append((f"  in {fmt.span(seconds * 1000, fine=True)}", "muted"))
    if drive.skipped:
        tail.append((f"  {drive.skipped:,} skipped", "warn"))
    bar = max(10, min(60, cells - fmt.length(tail)))
    return [(*thin_bar(drive.done / max(1, total), bar, "accent"), *tail)]


def _outcomes(drive: Drive, cells: int) -> list[Line]:
    outcomes = drive.outcomes
    of = outcomes.total or drive.watched
    note = f"of the last {of:,} retried" if not drive.is_over else f"of {of:,} retried"
    lines: list[Line] = [section("outcomes", note if of else "nothing retried yet", "muted", cells, indent=0)]
    if of:
        wide = min(60, cells)
        halves = wide * 2
        good, bad = outcomes.done + outcomes.gone, outcomes.dead_again + outcomes.failed_again
        first = round(good / of * halves) // 2
        second = min(wide - first, -(-round(bad / of * halves) // 2))
        lines.append((("━" * first, "ok"), ("━" * second, "bad"), ("━" * (wide - first - second), "line")))
    for name, sign, words, role in _OUTCOMES:
        number = getattr(outcomes, name)
        if number or name in {"done", "dead_again", "running", "waiting"}:
            share = f"{100 * number // of:>4} %" if of else ""
            value = fmt.fit(fmt.cell(fmt.count(number), f"{role} bold" if number else "text"), 9, right=True)
            lines.append(((f"{sign} ", role), *fmt.fit([(words, "text")], 18), *value, (share, "muted")))
    if drive.told:
        lines += [((part, "muted"),) for part in wrap(safe_text(drive.told, limit=300), cells, most=2)]
    return lines


def _why(drive: Drive, cells: int) -> list[Line]:
    result = drive.result
    if drive.error:
        return [(("✗ ", "bad"), (safe_text(drive.error, limit=300), "bad"))]
    if result is not None and result.error is not None:
        return [(("✗ ", "bad"), (safe_text(result.error, limit=300), "bad"))]
    if result is not None and result.stopped is not None:
        left = drive.plan.count - drive.done
        lines: list[Line] = [
            (("▲ " if at == 0 else "  ", "warn"), (part, "text"))
            for at, part in enumerate(wrap(safe_text(result.stopped.text, limit=300), cells - 2, most=3))
        ]
        told = f"{left:,} remain dead letters" if left else "no other jobs were planned"
        words = f"  {told}" + ("; u undoes waiting jobs" if result.undoable and drive.outcomes.waiting else "")
        return [*lines, ((words, "muted"),)]
    if drive.is_over:
        return [(("u", "accent bold"), (" undoes jobs that have not run, for 24h", "muted"))]
    percent = round(TOO_MANY * 100)
    words = f"Stops when {percent} % of the ended jobs, at least {ENOUGH}, are dead again. esc stops it now."
    return [((part, "muted"),) for part in wrap(words, cells, most=2)]
