"""Pausing and resuming a queue from any screen that has one under its hands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qdeck import QdeckError
from qdeck.admin import Feature
from qdeck_console.presenters.parts import name_parts, naming_of

if TYPE_CHECKING:
    from qdeck_console.console import Console
    from qdeck_console.judging import Entry


def why_not(console: Console, entry: Entry | None) -> str:
    """Why the queue cannot be paused or resumed now."""
    if console.context.read_only:
        return "read-only: nothing can be changed"
    if console.latest.is_lost:
        return "server lost"
    if entry is None:
        return "no queue under the cursor"
    if not entry.row.has(Feature.PAUSE):
        return f"{entry.row.adapter} cannot pause a queue"
    if entry.row.problem is not None:
        return "the queue cannot be read"
    return ""


def verb(entry: Entry | None) -> str:
    """What the key would do."""
    return "resume" if entry is not None and entry.row.paused else "pause"


def toggle(console: Console, entry: Entry | None) -> None:
    """Pauses the queue, or resumes it, and tells the outcome."""
    if entry is None:
        return
    ref, resume = entry.row.ref, entry.row.paused
    snapshot = console.latest.snapshot
    hide = naming_of(snapshot)
    short = " ▸ ".join(name_parts(ref, hide=hide))

    async def act() -> None:
        try:
            await (console.writer.resume(ref) if resume else console.writer.pause(ref))
        except (QdeckError, OSError) as error:
            console.say(str(error), "bad", "✗")
            return
        console.say(f"{short} {'resumed' if resume else 'paused'}", "ok", "✓")
        console.feed.poke()

    console.run_worker(act(), group="act", exit_on_error=False)
