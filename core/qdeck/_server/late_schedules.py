"""The schedules whose runs are late, for every refresh."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from qdeck._engine import keys
from qdeck._errors import QdeckError
from qdeck._model.values import NATIVE, QueueRef
from qdeck._redis import reads
from qdeck._redis.commands import Offload
from qdeck._redis.errors import LOST, is_error

if TYPE_CHECKING:
    from qdeck._redis.commands import Program

READ: tuple[bytes, str] = (b"HGETALL", keys.SCHEDULE_STATES)
LateSchedules: TypeAlias = tuple[tuple[QueueRef, str], ...] | None
"""Queue and name of each; None where schedules may not be read."""


@dataclass(slots=True)
class DueRuns:
    """When the runs of schedules are due, kept between refreshes: a calendar is expensive, and few runs change."""

    revision: bytes | None = None
    definitions: dict[bytes, bytes] = field(default_factory=dict)
    due: dict[bytes, tuple[int, str, int | None]] = field(default_factory=dict)
    """By schedule: until when its runs were handled, its queue, and when its next run is due."""

    def late(self, reply: Any, now_ms: int) -> Program[LateSchedules]:
        """Return the schedules that are late, from the reply to `READ`."""
        if is_error(reply):
            return None
        try:
            return (yield from self._late(dict(reads.pairs(reply)), now_ms // 1000)) if reply else ()
        except LOST:
            raise
        except QdeckError:
            return None

    def _late(self, lines: dict[bytes, bytes], now: int) -> Program[LateSchedules]:
        from qdeck._schedules.model import read_state
        from qdeck._schedules.store import is_late

        revision = lines.pop(b"", None)
        states = {name: read_state(line) for name, line in lines.items()}
        handled = {name: state.handled_until(now) for name, state in states.items() if state.enabled}
        handled = {name: until for name, until in handled.items() if is_late(until, now)}
        if handled and revision != self.revision:
            self.definitions = dict(reads.pairs((yield (b"HGETALL", keys.SCHEDULES))))
            self.revision, self.due = revision, {}
        handled = {name: until for name, until in handled.items() if name in self.definitions}
        new = [name for name, until in handled.items() if name not in self.due or self.due[name][0] != until]
        if new:
            yield Offload(lambda: self.due.update({name: self._next(name, handled[name]) for name in new}))
        found = [(name, *self.due[name]) for name in sorted(handled)]
        return tuple(
            (QueueRef(NATIVE, queue), name.decode("utf-8", "replace"))
            for name, _, queue, due in found
            if due is not None and is_late(due, now)
        )

    def _next(self, name: bytes, handled_until: int) -> tuple[int, str, int | None]:
        from qdeck._schedules.model import read_definition

        try:
            definition = read_definition("", self.definitions[name])
            return handled_until, definition.queue, definition.rule().next(handled_until)
        except ValueError:  # the list of schedules reports it
            return handled_until, "", None
