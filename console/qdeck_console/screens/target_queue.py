"""The dialog that asks for the target queue of a move."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qdeck.admin import NATIVE, Feature, QueueRef
from qdeck_console.presenters.line_parts import Naming, name_parts, naming_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from qdeck_console.console import Console


def callable_names(names: Iterable[str], *, naming: Naming) -> Mapping[str, str]:
    """Return the names by which a queue can be entered → its name: in full, or as the list shows it, with `:` between
    the parts, where only one queue is shown so.
    """
    found: dict[str, str] = {}
    twice: set[str] = set()
    for name in names:
        short = ":".join(name_parts(QueueRef(NATIVE, name), naming=naming))
        if found.setdefault(short, name) != name:
            twice.add(short)
    for short in twice:
        del found[short]
    return found | {name: name for name in names}


async def ask_target(console: Console, title: str, queue: QueueRef) -> str | None:
    """Ask for an existing queue other than `queue`; return None where the dialog was cancelled."""
    from qdeck_console.screens.prompt import Prompt, PromptField

    snapshot = console.latest.snapshot
    names = [row.name for row in snapshot.queues if row.has(Feature.MOVE)] if snapshot is not None else []
    known = callable_names(names, naming=naming_of(snapshot))

    def check(value: str) -> str:
        if not value:
            return "enter a queue name; → completes"
        found = known.get(value)
        return "no such queue" if found is None else "the jobs are in this queue" * (found == queue.name)

    others = [called for called, name in known.items() if name != queue.name]
    answer = await console.operator.answer_to(
        Prompt(
            console, title, fields=[PromptField(label="target queue", hint="→ completes", check=check, choices=others)]
        )
    )
    return known.get(answer[0]) if answer is not None else None
