"""The question to which queue jobs shall be moved."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qdeck import QueueName
from qdeck._deck.words import NATIVE

if TYPE_CHECKING:
    from qdeck_console.app import ConsoleApp


async def ask_target(console: ConsoleApp, title: str, queue: str) -> str | None:
    """Asks for another queue than `queue`, one that there is; none when it was told that nothing is done."""
    from qdeck_console.screens.form import Field, FormScreen

    snapshot = console.latest.snapshot
    rows = snapshot.queues if snapshot is not None else ()

    def check(value: str) -> str:
        if not value or value == queue:
            return "they are there already" if value else "name the queue"
        try:
            QueueName.parse(value)
        except ValueError as error:
            return str(error)
        return ""

    names = [row.name for row in rows if row.name != queue and row.layout == NATIVE]
    field = Field(label="to the queue", hint="→ completes", check=check, choices=names)
    answer = await console.push_screen_wait(FormScreen(console, title, [field]))
    if answer is None:
        console.say("nothing was done", "muted", "")
        return None
    [target] = answer
    if target not in {row.name for row in rows}:
        console.say(f"there is no queue {target}", "warn", "▲")
        return None
    return target
