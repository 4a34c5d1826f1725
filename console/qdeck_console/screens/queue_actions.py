"""What is done to a queue as a whole, on any screen with one under its hands: pause and resume it, retry its dead
letters, and move what waits in it.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from qdeck.admin import Code, State
from qdeck_console.actions import ActionHandler
from qdeck_console.presenters.line_parts import name_parts
from qdeck_console.problems import evidence_of
from qdeck_console.screens.frame import FrameScreen
from qdeck_console.screens.target_queue import ask_target

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qdeck.admin import QueueRef, QueueRow
    from qdeck_console.queue_findings import RowReason

_STATES: Final = {"retry": (State.DEAD,), "move": (State.READY, State.DELAYED)}


class QueueActing(FrameScreen):
    """A screen with a queue that can be acted on."""

    @property
    def queue_row(self) -> QueueRow | None:
        """The queue that is pointed at, if it is still there."""
        raise NotImplementedError

    @property
    def queue_in_sight(self) -> QueueRef | None:
        """The same, for Jobs."""
        return self.queue_row.ref if self.queue_row is not None else None


def _why_not_pause(screen: QueueActing) -> str:
    why, row = screen.console.operator.why_not_write(), screen.queue_row
    if why or row is None:
        return why or "no queue under the cursor"
    if why := screen.console.reader.why_not_pause(row.adapter):
        return why
    return "the queue cannot be read" if row.problem is not None else ""


def _toggle(screen: QueueActing) -> None:
    """Pause the queue, with a reason, or resume it, after the question where another reason stands."""
    from qdeck_console.screens.pausing import pause, resume

    row = screen.queue_row
    if row is not None:
        change, verb = (resume, "resume") if row.paused else (pause, "pause")
        screen.console.operator.run(change(screen.console, row, _path(screen, row)), verb)


def _path(screen: QueueActing, row: QueueRow) -> str:
    return " ▸ ".join(name_parts(row.ref, naming=screen.naming))


def _pause_label(screen: QueueActing) -> str:
    return "resume" if screen.queue_row is not None and screen.queue_row.paused else ""


def _why_not(action: str, screen: QueueActing) -> str:
    why, row = screen.console.operator.why_not_write(), screen.queue_row
    if why or row is None:
        return why or "no queue under the cursor"
    if row.problem is not None:
        return "the queue cannot be read"
    if not _count(row, action):
        return "no dead letters" if action == "retry" else "no waiting jobs"
    reasons = [screen.console.reader.why_not(row.adapter, action, state) for state in _STATES[action]]
    return "" if "" in reasons else reasons[0]


def _label(action: str, screen: QueueActing) -> str:
    row = screen.queue_row
    if row is None or _why_not(action, screen):
        return ""
    return f"{action} {_count(row, action):,}{' dead' if action == 'retry' else ''}"


def _count(row: QueueRow, action: str) -> int:
    """Return how many jobs of the queue an action would be about."""
    return sum(getattr(row, state.value) or 0 for state in _STATES[action])


def _retry(screen: QueueActing) -> None:
    """Let all its dead letters run again, after the plan was shown."""
    from qdeck.admin import Verb
    from qdeck_console.operations import OperationRequest

    if screen.queue_row is not None:
        request = OperationRequest(verb=Verb.RETRY, queues=(screen.queue_row.ref,), states=(State.DEAD.value,))
        screen.console.operator.start(request)


def _move(screen: QueueActing) -> None:
    """Move all that waits in it to another queue, which is asked for."""
    row = screen.queue_row

    async def act() -> None:
        from qdeck.admin import Verb
        from qdeck_console.operations import OperationRequest

        if row is None:
            return
        target = await ask_target(screen.console, f"Move all waiting jobs of {_path(screen, row)}", row.ref)
        if target is not None:
            states = tuple(state.value for state in _STATES["move"])
            request = OperationRequest(verb=Verb.MOVE, queues=(row.ref,), states=states, target=target)
            await screen.console.operator.act(request)

    screen.console.operator.run(act(), "move")


def _evidence(screen: QueueActing, codes: Sequence[Code]) -> RowReason | None:
    """Return the reason of the queue that is about its dead letters, or its stuck jobs."""
    row = screen.queue_row
    entry = None if row is None else screen.feed_state.listed.of(row.ref)
    return next((one for one in entry.reasons if one.code in codes), None) if entry is not None else None


def _show(codes: Sequence[Code], screen: QueueActing) -> None:
    """Show the jobs of the queue on the screen where the same key acts on them."""
    row = screen.queue_row
    if row is not None:
        screen.console.problems.show(evidence_of(codes[0], row.ref))


def _toward(codes: Sequence[Code], missing: str) -> ActionHandler[Any]:
    return ActionHandler(
        run=partial(_show, codes),
        reason=lambda screen: "" if _evidence(screen, codes) is not None else missing,
        offered=lambda screen: _evidence(screen, codes) is not None,
    )


PAUSE: Final = ActionHandler(run=_toggle, reason=_why_not_pause, label=_pause_label)
QUEUE_HANDLERS: Final = {
    "pause": PAUSE,
    "retry": ActionHandler(run=_retry, reason=partial(_why_not, "retry"), label=partial(_label, "retry")),
    "redrive": _toward((Code.DEAD, Code.DEAD_GROWING), "no dead-letter finding"),
    "bury": _toward((Code.STUCK,), "no stuck jobs"),
    "move": ActionHandler(run=_move, reason=partial(_why_not, "move"), label=partial(_label, "move")),
}
