"""What is wrong with the target of a move: it is new or paused, no worker serves it, or none has the tasks."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from qdeck._engine import keys
from qdeck._model.reasons import Caution, CautionCode
from qdeck._redis import reads
from qdeck._server import native_queues, queue_details, workers

if TYPE_CHECKING:
    from collections.abc import Iterable

    from qdeck._redis.commands import Program

_NAMED: Final = 3  # tasks


class MoveTarget:
    """The target queue of a plan, read once, and the tasks of the jobs that none of its workers has."""

    def __init__(self) -> None:
        self._tasks: frozenset[str] | None = None  # of its live workers; None where that is unknown
        self._missing: dict[str, Caution] = {}
        self._found: list[Caution] | None = None
        self._sources: set[str] = set()

    def cautions(self, name: str, source: str, heads: Iterable[bytes | None]) -> Program[list[Caution]]:
        """Return what to know before jobs with these heads, and those before, are moved from a queue to another."""
        if self._found is None:
            self._found = yield from self._read(name)
        if source not in self._sources:
            self._sources.add(source)
            self._found += [one for one in (yield from _read_pause(name, source)) if one not in self._found]
        known = self._tasks
        tasks = {_task_of(head) for head in heads if head} - known if known is not None else ()
        for task in sorted(tasks):
            if task not in self._missing and len(self._missing) <= _NAMED:
                words = f"the task {task}" if len(self._missing) < _NAMED else "other tasks of these jobs"
                self._missing[task] = Caution(code=CautionCode.TARGET_WITHOUT_TASK, name=words)
        return [*self._found, *self._missing.values()]

    def _read(self, name: str) -> Program[list[Caution]]:
        found = []
        if not (yield from native_queues.exists(name)):
            found.append(Caution(code=CautionCode.NEW_QUEUE, name=name))
        serving = [row.id for row in (yield from workers.list_workers()) if row.is_claiming and name in row.queues]
        if not serving:
            return [*found, Caution(code=CautionCode.TARGET_UNSERVED, name=name)]
        known = yield from workers.read_tasks(serving)
        if len(known) == len(serving):
            self._tasks = frozenset().union(*known.values())
        return found


def _read_pause(name: str, source: str) -> Program[list[Caution]]:
    pauses = yield from reads.fetch_all([(b"HGET", keys.key(queue, "meta"), b"paused") for queue in (source, name)])
    stands, there = map(queue_details.pause_of, pauses)
    paused, code = (there, CautionCode.TARGET_PAUSED) if there is not None else (stands, CautionCode.SOURCE_PAUSED)
    if paused is None:
        return []
    queue = source if there is None else name
    return [Caution(code=code, name=f"{queue} is paused {replace(paused, at_ms=None).words('')}".rstrip())]


def _task_of(head: bytes) -> str:
    return head.split(b"\n", 1)[0].split(b" ", 3)[-1].decode("utf-8", "replace")
