"""The three questions of an operator: does work start in time, does it succeed, are workers and data fresh?"""

from __future__ import annotations

import shlex
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from qdeck._model.words import Code, Status

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from qdeck._model.words import Check, Finding


class Question(StrEnum):
    """What an operator asks first."""

    FLOW = "flow"
    EXECUTION = "execution"
    LIVENESS = "liveness"


_FLOW: Final = (
    Code.LATE, Code.PAUSED, Code.BACKLOG, Code.OVERDUE, Code.FILLING, Code.UNDELIVERED, Code.SCHEDULE_LATE,
    Code.UNKNOWN_TASK, Code.NO_WORKER,
)  # fmt: skip
_EXECUTION: Final = (Code.FAILING, Code.DEAD, Code.DEAD_GROWING, Code.STUCK, Code.SET_ASIDE, Code.HANDLER_STUCK)
_OF_BOTH: Final = (Code.NO_WORKER, Code.HANDLER_STUCK)  # of liveness, too
_WELL: Final[Mapping[Question, str]] = {
    Question.FLOW: "work starts in time",
    Question.EXECUTION: "no stuck jobs, few dead letters",
    Question.LIVENESS: "workers and server are healthy",
}
_OF_QUEUE: Final[Mapping[Code, Callable[[str], str]]] = {
    Code.STUCK: lambda queue: f"qdeck stuck {queue}",
    Code.DEAD: lambda queue: f"qdeck dead {queue} --group",
    Code.DEAD_GROWING: lambda queue: f"qdeck dead {queue} --group",
    Code.PAUSED: lambda queue: f"qdeck queues resume {queue}",
    Code.LATE: lambda queue: f"qdeck jobs {queue}",
    Code.BACKLOG: lambda queue: f"qdeck jobs {queue}",
    Code.OVERDUE: lambda queue: f"qdeck jobs {queue}",
    Code.FAILING: lambda queue: f"qdeck dead {queue} --group",
    Code.FILLING: lambda queue: f"qdeck jobs {queue}",
}


class Answer(NamedTuple):
    """The answer to one question: how bad it is, None where that is unknown, and the worst finding about it."""

    question: Question
    status: Status | None
    finding: Finding | None = None

    @property
    def text(self) -> str:
        """The answer in words."""
        if self.status is None:
            return "the workers cannot be read"
        return _WELL[self.question] if self.finding is None else self.finding.text

    @property
    def command(self) -> str:
        """The next thing to do, as a command; empty where nothing is to do."""
        finding = self.finding
        if finding is None or finding.command:
            return "" if finding is None else finding.command
        look = _OF_QUEUE.get(finding.code)
        if look is None:
            return "qdeck doctor"
        if finding.queue is None:
            return look("").replace("  ", " ").rstrip() if finding.code in _EXECUTION else "qdeck queues"
        return look(shlex.quote(str(finding.queue)))

    def as_json(self) -> dict[str, Any]:
        """Return the form of `--json`."""
        return {
            "question": self.question.value, "status": "unknown" if self.status is None else self.status.value,
            "message": self.text, "command": self.command or None,
        }  # fmt: skip


def questions_of(code: Code) -> tuple[Question, ...]:
    """Return the questions that a finding answers."""
    found = [one for one, codes in ((Question.FLOW, _FLOW), (Question.EXECUTION, _EXECUTION)) if code in codes]
    return (*found, Question.LIVENESS) if not found or code in _OF_BOTH else tuple(found)


def answers(findings: Iterable[Finding], checks: Iterable[Check] = ()) -> tuple[Answer, ...]:
    """Return the answers to the three questions; `findings` have the worst first."""
    worst: dict[Question, Finding] = {}
    seen: set[Code] = set()
    for one in findings:
        # Thousands of queues may have one problem, and this is asked for at each key.
        if one.code not in seen and one.severity is not Status.HEALTHY:
            seen.add(one.code)
            for question in questions_of(one.code):
                worst.setdefault(question, one)
    is_unknown = any(check.name == "workers" and check.status is None for check in checks)
    fine = {Question.LIVENESS: None if is_unknown else Status.HEALTHY}
    return tuple(
        Answer(one, worst[one].severity, worst[one]) if one in worst else Answer(one, fine.get(one, Status.HEALTHY))
        for one in Question
    )
