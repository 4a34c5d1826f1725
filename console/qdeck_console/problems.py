"""Where each problem is shown: for enter on a reason or a check, and for the key that goes to the next one."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from qdeck.admin import Code, State, Status
from qdeck_console.actions import DEAD, HEALTH, JOBS, QUEUES, SCHEDULES, STUCK, WORKERS
from qdeck_console.session import Session

if TYPE_CHECKING:
    from collections.abc import Mapping

    from qdeck.admin import QueueRef

_TABS: Final[Mapping[Code, str]] = {
    Code.STUCK: STUCK, Code.DEAD: DEAD, Code.DEAD_GROWING: DEAD, Code.HANDLER_STUCK: WORKERS,
    Code.SCHEDULE_LATE: SCHEDULES,
}  # fmt: skip
_STATES: Final[Mapping[Code, State]] = {
    Code.LATE: State.READY, Code.BACKLOG: State.READY, Code.FILLING: State.READY, Code.OVERDUE: State.DELAYED,
}  # fmt: skip
_PLAIN: Final = re.compile(r"[\w:./-]+")  # names that a filter takes as they are


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Where a problem is shown: a tab, narrowed to a queue if there is one; without a tab the page of the queue."""

    tab: str = ""
    queue: QueueRef | None = None
    state: State | None = None  # of the jobs of the queue

    @property
    def where(self) -> str:
        """The filter that narrows the tab to the queue."""
        name = "" if self.queue is None else self.queue.name
        return f"queue:{name}" if _PLAIN.fullmatch(name) else ""


def evidence_of(code: Code, queue: QueueRef | None) -> Evidence:
    """Return where a problem of this code is shown."""
    if code in _TABS:
        return Evidence(tab=_TABS[code], queue=queue)
    if code in _STATES:
        return Evidence(tab=QUEUES if queue is None else JOBS, queue=queue, state=_STATES[code])
    return Evidence(tab=HEALTH if queue is None else "", queue=queue)


class Shows(Session, Protocol):
    """The app, which opens tabs and what is on them."""

    @property
    def current_mode(self) -> str:
        """The name of the visible tab."""

    def action_tab(self, name: str) -> None:
        """Switch to a tab."""

    def show_jobs(self, queue: QueueRef, state: State | None = None) -> None:
        """Switch to the jobs of a queue."""

    def open_evidence(self, evidence: Evidence, place: str) -> None:
        """Show evidence on the tab that was opened for it."""


class Problems:
    """Goes from problem to problem: each time to the worst that was not shown yet."""

    def __init__(self, app: Shows) -> None:
        self._app = app
        self._seen: set[str] = set()  # the places of those that were shown

    def next(self) -> None:
        """Show the worst problem that was not shown yet; after the last of them the first again."""
        snapshot = self._app.shown.snapshot
        found = [one for one in snapshot.findings if one.severity is not Status.HEALTHY] if snapshot else []
        if not found:
            self._app.say("no problem" if snapshot else "not read yet", "muted", "∅")
            return
        self._seen &= {one.place for one in found}
        if len(self._seen) == len(found):
            self._seen.clear()
        finding = next(one for one in found if one.place not in self._seen)
        self._seen.add(finding.place)
        self.show(evidence_of(finding.code, finding.queue), of=finding.place)
        self._app.say(f"problem {len(self._seen)} of {len(found)}: {finding.row_text}", "text", "!")

    def show(self, evidence: Evidence, *, of: str = "") -> None:
        """Open the evidence; `of` is the place of the finding, for the cursor of Health."""
        app, queue = self._app, evidence.queue
        if evidence.tab == JOBS and queue is not None:
            app.show_jobs(queue, evidence.state)
            return
        app.action_tab(evidence.tab or app.current_mode)
        app.open_evidence(evidence, of)
