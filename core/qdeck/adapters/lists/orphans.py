"""Lists of tasks without an owner: the set `task_queues:<task>` of their names expired, or does not end in time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from qdeck._list_names import tags_of, why_orphaned
from qdeck._redis import reads
from qdeck._redis.commands import raw_of, text_of
from qdeck._settings.purge_rules import UNUSED_S

if TYPE_CHECKING:
    from collections.abc import Iterable

    from qdeck._redis.commands import Program

MOST: Final = 500
"""How many lists are looked at."""
_EVERY_MS: Final = 10_000
_COMMAND: Final = "qdeck clean --orphans --adapter lists --dry-run"


class OrphanCount:
    """The number of orphaned lists for each name in `found`, counted again from time to time."""

    def __init__(self) -> None:
        self.found: dict[str, int] = {}
        self._looked_at, self._is_cut = 0, False
        self._next_ms = 0

    def count(self, named: Iterable[tuple[str, bytes]], now: int) -> Program[None]:
        """Count them among lists, each with the name of its queue."""
        if now < self._next_ms:
            return
        self._next_ms = now + _EVERY_MS
        of_tasks = [(queue, name, task) for queue, name in named if (task := tags_of(text_of(name)).get("task_id"))]
        some, self._is_cut = of_tasks[:MOST], len(of_tasks) > MOST
        replies = yield from reads.try_each(
            [[(b"OBJECT", b"IDLETIME", name), (b"PTTL", raw_of(f"task_queues:{task}"))] for _, name, task in some]
        )
        self.found, self._looked_at = {}, len(some)
        for (queue, _, task), (seconds, ttl) in zip(some, replies, strict=True):
            if isinstance(seconds, int) and seconds >= UNUSED_S and isinstance(ttl, int) and why_orphaned(task, ttl):
                self.found[queue] = self.found.get(queue, 0) + 1

    @property
    def notice(self) -> str:
        """How many there are, and the command that shows them; empty if there are none."""
        if not self.found:
            return ""
        cut = f" of the first {self._looked_at:,} that were looked at" if self._is_cut else ""
        return f"lists of tasks without an owner: {sum(self.found.values()):,}{cut} ({_COMMAND} shows them)"
