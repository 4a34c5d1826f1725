"""Pause queues and schedules with a reason, and the question before something that was paused is resumed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qdeck.admin import MOST_REASON, Feature, actor
from qdeck_console.presenters.queue_questions import pause_lines, ready_term
from qdeck_console.screens.dialog import inside
from qdeck_console.screens.prompt import Prompt, PromptField

if TYPE_CHECKING:
    from qdeck.admin import Pause, QueueRow
    from qdeck_console.console import Console
    from qdeck_console.format import Line
    from qdeck_console.presenters.confirm import PlanTerm


async def ask_reason(console: Console, name: str, about: str) -> str | None:
    """Ask for the reason of a pause; return None where it was cancelled."""
    lines: Line = ((about, "muted"),)
    reason = PromptField(label="reason", hint="optional; shown when it is resumed", check=_check_reason)
    given = await console.operator.answer_to(Prompt(console, f"Pause {name}", (lines,), (reason,), go="pause"))
    return given[0] if given is not None else None


def _check_reason(value: str) -> str:
    return "" if len(value) <= MOST_REASON else f"{MOST_REASON} characters at most"


async def may_lift(
    console: Console, title: str, stands: Pause, *more: PlanTerm, label: str = "paused", act: str = "Resume"
) -> bool:
    """Return whether a pause may be lifted or replaced, after the question where it concerns others."""
    if not stands.concerns_others(actor()):
        return True
    snapshot = console.latest.snapshot
    now_ms = snapshot.at_ms if snapshot is not None else 0
    lines = pause_lines(stands, inside(console.size.width), more, label=label, now_ms=now_ms)
    return await console.operator.confirm(title, act, lines)


async def pause(console: Console, row: QueueRow, path: str) -> None:
    """Pause a queue for a reason, which is asked for."""
    about = "No jobs are claimed until it is resumed. Running jobs finish."
    if not row.has(Feature.OWN_PAUSE):
        about = f"This pauses all queues of {row.adapter}. Running jobs finish."
    reason = await ask_reason(console, path, about)
    if reason is None:
        return
    stands = await console.reader.pause_of(row.ref)  # of another operator, since the dialog opened
    if stands is None or await may_lift(console, f"Replace the pause of {path}", stands, act="Replace"):
        await console.writer.pause(row.ref, reason=reason, replaces=stands)
        console.say(f"{path} paused", "ok", "✓")


async def resume(console: Console, row: QueueRow, path: str) -> None:
    """Resume a queue, after the question where a reason stands or another operator paused it."""
    stands = await console.reader.pause_of(row.ref)
    if stands is None:
        console.say(f"{path} was resumed already", "muted", "")
    elif await may_lift(console, f"Resume {path}", stands, ready_term(row)):
        await console.writer.resume(row.ref, shown=stands)
        console.say(f"{path} resumed", "ok", "✓")
