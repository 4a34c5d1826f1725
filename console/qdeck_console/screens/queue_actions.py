"""What is done to a queue as a whole, on any screen with one under its hands: pause and resume it, retry its dead
letters, and move what waits in it.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from qdeck.admin import Feature, State
from qdeck_console.actions import ActionHandler
from qdeck_console.presenters.parts import name_parts
from qdeck_console.screens.frame import FrameScreen
from qdeck_console.screens.target import ask_target

if TYPE_CHECKING:
    from qdeck.admin import QueueRow

_STATES: Final = {"retry": (State.DEAD,), "move": (State.READY, State.DELAYED)}


class QueueActing(FrameScreen):
    """A screen with a queue that can be acted on."""

    @property
    def queue_row(self) -> QueueRow | None:
        """The queue that is pointed at, if it is still there."""
        raise NotImplementedError


def _why_not_pause(screen: QueueActing) -> str:
    why, row = screen.console.operator.why_not_write(), screen.queue_row
    if why or row is None:
        return why or "no queue under the cursor"
    if not row.has(Feature.PAUSE):
        return f"{row.adapter} cannot pause a queue"
    return "the queue cannot be read" if row.problem is not None else ""


def _toggle(screen: QueueActing) -> None:
    """Pause the queue, or resume it, and tell the outcome."""
    console, row = screen.console, screen.queue_row
    if row is None:
        return
    ref, resume = row.ref, row.paused
    short = " ▸ ".join(name_parts(ref, hide=screen.hide))

    async def act() -> None:
        await (console.writer.resume(ref) if resume else console.writer.pause(ref))
        console.say(f"{short} {'resumed' if resume else 'paused'}", "ok", "✓")

    console.operator.run(act(), "resume" if resume else "pause")


def _pause_label(screen: QueueActing) -> str:
    return "resume" if screen.queue_row is not None and screen.queue_row.paused else ""


def _why_not(action: str, screen: QueueActing) -> str:
    why, row = screen.console.operator.why_not_write(), screen.queue_row
    if why or row is None:
        return why or "no queue under the cursor"
    if row.problem is not None:
        return "the queue cannot be read"
    if not _count(row, action):
        return "it has no dead letters" if action == "retry" else "nothing waits in it"
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
        where = " ▸ ".join(name_parts(row.ref, hide=screen.hide))
        target = await ask_target(screen.console, f"Move all that waits in {where}", row.ref)
        if target is not None:
            states = tuple(state.value for state in _STATES["move"])
            request = OperationRequest(verb=Verb.MOVE, queues=(row.ref,), states=states, target=target)
            await screen.console.operator.act(request)

    screen.console.operator.run(act(), "move")


PAUSE: Final = ActionHandler(run=_toggle, reason=_why_not_pause, label=_pause_label)
QUEUE_HANDLERS: Final = {
    "pause": PAUSE,
    "retry": ActionHandler(run=_retry, reason=partial(_why_not, "retry"), label=partial(_label, "retry")),
    "move": ActionHandler(run=_move, reason=partial(_why_not, "move"), label=partial(_label, "move")),
}
