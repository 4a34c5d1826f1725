"""The question before an edited payload is stored: what changed in it, and what happens then."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Final

from qdeck.admin import State
from qdeck_console.presenters.confirm import PlanTerm, question_lines
from qdeck_console.presenters.line_parts import name_parts
from qdeck_console.text import cut_end, safe_text

if TYPE_CHECKING:
    from qdeck.admin import JobRecord
    from qdeck_console.format import Line
    from qdeck_console.presenters.line_parts import Naming

_MOST: Final = 12  # lines of the difference
_ROLES: Final = {"-": "bad", "+": "ok"}


def notes(job: JobRecord) -> tuple[str, str]:
    """Return what saving does, for the top of the file."""
    then = "retried" if job.state == State.DEAD else "changed"
    return (
        f"Save and quit: the console shows what changed, and asks before the job is {then}.",
        "Quit without saving: nothing is changed. Secrets are masked as ***; a mask that stays keeps its secret.",
    )


def question(job: JobRecord) -> tuple[str, str]:
    """Return the question, and the label of the button that acts."""
    if job.state == State.DEAD:
        return f"Retry {safe_text(job.id, limit=40)} with this payload", "Save and retry"
    return f"Edit the payload of {safe_text(job.id, limit=40)}", "Save"


def lines(job: JobRecord, before: str, after: str, cells: int, *, naming: Naming) -> list[Line]:
    """Return the lines that differ, and what storing the payload does."""
    changed = difference(before, after)
    shown: list[Line] = [((cut_end(safe_text(line, limit=400), cells), _ROLES.get(line[:1], "muted")),)
                         for line in changed[:_MOST]]  # fmt: skip
    if len(changed) > _MOST:
        shown.append(((f"{len(changed) - _MOST:,} more lines", "faint"),))
    is_dead = job.state == State.DEAD
    then = "it runs again with this payload" if is_dead else f"it stays {job.state}"
    undo = "the payload, for 24h" + ("; not what the job does when it runs" if is_dead else "")
    rows = [
        PlanTerm("queue", "", " ▸ ".join(name_parts(job.ref, naming=naming))),
        PlanTerm("then", "", then), PlanTerm("undo", "", undo),
    ]  # fmt: skip
    return [*shown, (), *question_lines(rows, cells)]


def difference(before: str, after: str) -> list[str]:
    """Return the lines that differ, with a line of context around them."""
    found = list(difflib.unified_diff(before.splitlines(), after.splitlines(), n=1, lineterm=""))[2:]
    return [f"{line[0]} {line[1:]}" if not line.startswith("@@") else "  …" for line in found][1:]
