"""Pause a queue with a reason, and resume one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qdeck.admin import MOST_REASON, actor
from qdeck_console.presenters.queue_questions import resume_lines
from qdeck_console.screens.dialog import inside
from qdeck_console.screens.prompt import Prompt, PromptField

if TYPE_CHECKING:
    from qdeck.admin import QueueRow
    from qdeck_console.console import Console
    from qdeck_console.format import Line


async def pause(console: Console, row: QueueRow, path: str) -> None:
    """Pause a queue for a reason, which is asked for."""
    about: Line = (("No jobs are claimed until it is resumed. Running jobs finish.", "muted"),)
    reason = PromptField(label="reason", hint="optional; shown when it is resumed", check=_check_reason)
    given = await console.operator.answer_to(Prompt(console, f"Pause {path}", (about,), (reason,), go="pause"))
    if given is not None:
        await console.writer.pause(row.ref, reason=given[0])
        console.say(f"{path} paused", "ok", "✓")


def _check_reason(value: str) -> str:
    return "" if len(value) <= MOST_REASON else f"{MOST_REASON} characters at most"


async def resume(console: Console, row: QueueRow, path: str) -> None:
    """Resume a queue, after the question where a reason stands or another operator paused it."""
    stands = await console.reader.pause_of(row.ref)
    if stands is not None and (stands.reason or stands.who != actor()):
        snapshot = console.latest.snapshot
        lines = resume_lines(row, stands, inside(console.size.width), now_ms=snapshot.at_ms if snapshot else 0)
        if not await console.operator.confirm(f"Resume {path}", "Resume", lines):
            return
    await console.writer.resume(row.ref)
    console.say(f"{path} resumed", "ok", "✓")
