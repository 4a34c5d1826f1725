"""The question to which queue jobs shall be moved."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qdeck.admin import NATIVE, Feature, QueueRef
from qdeck_console.presenters.parts import Naming, name_parts, naming_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from qdeck_console.console import Console


def callable_names(names: Iterable[str], *, hide: Naming) -> Mapping[str, str]:
    """What a queue may be called → its name: as the list shows it, with `:` between the parts, where that is only one
    queue's, or in full.
    """
    found: dict[str, str] = {}
    twice: set[str] = set()
    for name in names:
        short = ":".join(name_parts(QueueRef(NATIVE, name), hide=hide))
        if found.setdefault(short, name) != name:
            twice.add(short)
    for short in twice:
        del found[short]
    return found | {name: name for name in names}


async def ask_target(console: Console, title: str, queue: QueueRef) -> str | None:
    """Asks for another queue than `queue`, one that there is; none when it was told that nothing is done."""
    from qdeck_console.screens.prompt import Prompt, PromptField

    snapshot = console.latest.snapshot
    names = [row.name for row in snapshot.queues if row.has(Feature.MOVE)] if snapshot is not None else []
    known = callable_names(names, hide=naming_of(snapshot))

    def check(value: str) -> str:
        if not value:
            return "name the queue; → completes"
        found = known.get(value)
        return "there is no queue of this name" if found is None else "they are there already" * (found == queue.name)

    others = [called for called, name in known.items() if name != queue.name]
    answer = await console.operator.answer_to(
        Prompt(
            console, title, fields=[PromptField(label="to the queue", hint="→ completes", check=check, choices=others)]
        )
    )
    if answer is None:
        console.say("nothing was done", "muted", "")
        return None
    return known.get(answer[0])
