"""Acting on a queue as a whole from any screen that has one under its hands: its dead letters, and what waits in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from qdeck.admin import State
from qdeck_console.presenters.parts import name_parts
from qdeck_console.screens import pause
from qdeck_console.screens.frame import FrameScreen
from qdeck_console.screens.target import ask_target

if TYPE_CHECKING:
    from qdeck.admin import QueueRef, QueueRow
    from qdeck_console.actions import Action
    from qdeck_console.judging import Entry

_STATES: Final = {"retry": (State.DEAD,), "move": (State.READY, State.DELAYED)}


class QueueActs(FrameScreen):
    """A screen with a queue that can be acted on."""

    def selected(self) -> Entry | None:
        """The queue that is pointed at, if it is still there."""
        raise NotImplementedError

    def verb(self, action: Action) -> str:
        """The verb of an action, as it would act now."""
        if action.id == "pause":
            return pause.verb(self.selected())
        if action.id in _STATES and not self.why_not(action.id):
            entry = self.selected()
            count = _count(entry.row, action.id) if entry is not None else 0
            return f"retry {count:,} dead" if action.id == "retry" else f"move {count:,}"
        return super().verb(action)

    def why_not(self, action: str) -> str:
        """Why an action cannot act now."""
        if action == "pause":
            return pause.why_not(self.console, self.selected())
        return self._why_not_act(action) if action in _STATES else super().why_not(action)

    def _why_not_act(self, action: str) -> str:
        why, entry = self.console.operator.why_not_write(), self.selected()
        if why or entry is None:
            return why or "no queue under the cursor"
        if entry.row.problem is not None:
            return "the queue cannot be read"
        if not _count(entry.row, action):
            return "it has no dead letters" if action == "retry" else "nothing waits in it"
        reader = self.console.reader
        reasons = [reader.why_not(entry.row.adapter, action, state) for state in _STATES[action]]
        return "" if "" in reasons else reasons[0]

    def copied(self) -> tuple[str, str]:
        """What `y` takes: the name of the queue."""
        entry = self.selected()
        return ("name", entry.row.ref.label(self.hide.shared)) if entry is not None else ("", "")

    def do_pause(self) -> None:
        """Pauses or resumes the queue."""
        pause.toggle(self.console, self.selected())

    def do_retry(self) -> None:
        """Lets all its dead letters run again, after the plan was shown."""
        from qdeck.admin import Verb
        from qdeck_console.operating import Wish

        entry = self.selected()
        if entry is not None:
            wish = Wish(verb=Verb.RETRY, queues=(entry.row.ref,), states=(State.DEAD.value,))
            self.console.operator.start(wish)

    def do_move(self) -> None:
        """Moves all that waits there to another queue, which is asked for."""
        entry = self.selected()
        if entry is not None:
            self.console.operator.run(self._move(entry.row.ref), "move")

    async def _move(self, queue: QueueRef) -> None:
        from qdeck.admin import Verb
        from qdeck_console.operating import Wish

        where = " ▸ ".join(name_parts(queue, hide=self.hide))
        target = await ask_target(self.console, f"Move all that waits in {where}", queue)
        if target is None:
            return
        states = tuple(state.value for state in _STATES["move"])
        await self.console.operator.act(Wish(verb=Verb.MOVE, queues=(queue,), states=states, target=target))


def _count(row: QueueRow, action: str) -> int:
    """How many jobs of the queue an action would be about."""
    return sum(getattr(row, state.value) or 0 for state in _STATES[action])
