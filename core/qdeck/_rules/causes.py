"""Reads why queues have problems: of the worst few, and of each again only after a while."""

from __future__ import annotations

import time
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from qdeck._errors import QdeckError
from qdeck._model import causes as words
from qdeck._model.queue_ref import Feature
from qdeck._model.values import NATIVE, State
from qdeck._model.words import Cause, Code, Verb
from qdeck._redis.parallel_programs import apart

if TYPE_CHECKING:
    from collections.abc import Mapping

    from qdeck._model.values import Finding, QueueRef, QueueRow, Snapshot, WorkerRow
    from qdeck._redis.commands import Program
    from qdeck.adapters.all import Adapters

_MOST_QUEUES: Final = 20  # whose causes are shown
_MOST_READ: Final = 4  # of them in a refresh after the first
_REST_S: Final = 5.0  # between two reads of one cause
_MOST_DEAD: Final = 200  # dead letters of a queue that does not count its groups
_MOST_WAITING: Final = 20
_MOST_TASKS: Final = 3
_READ: Final = (Code.STUCK, Code.DEAD, Code.DEAD_GROWING, Code.NO_WORKER)


class Causes:
    """What a reader knows of the causes of problems, by queue and code."""

    def __init__(self, adapters: Adapters) -> None:
        self._adapters = adapters
        self._known: dict[tuple[QueueRef, Code], tuple[float, Cause | None]] = {}
        self._workers: list[WorkerRow] = []
        self._last: tuple[tuple[Finding, ...], Mapping[QueueRef, Mapping[Code, Cause]], tuple[Finding, ...]] = (
            (),
            {},
            (),
        )

    def explained(self, seen: Snapshot) -> Program[Snapshot]:
        """Return a snapshot with the causes of its worst problems, as far as they were read."""
        wanted = _wanted(seen)
        known = {key: self._known[key] for key in wanted if key in self._known}
        most = _MOST_READ if known else len(wanted)
        now = time.monotonic()
        due = [key for key in wanted if key not in known or now - known[key][0] >= _REST_S]
        due.sort(key=lambda key: known[key][0] if key in known else 0.0)
        due = due[:most]
        if any(code is Code.NO_WORKER for _, code in due):
            [workers] = yield from apart([self._adapters.workers()])
            self._workers = [] if isinstance(workers, QdeckError) else workers
        read = yield from apart([self._read(wanted[key], key[1]) for key in due])
        for key, found in zip(due, read, strict=True):
            # Without it the finding says what is known; what may not be read is in the notices.
            cause = None if isinstance(found, QdeckError) else found
            before = known.get(key, (now, cause))[1]
            known[key] = (now, before if before == cause else cause)
        self._known = known
        by_queue: dict[QueueRef, dict[Code, Cause]] = {}
        for (queue, code), (_, cause) in known.items():
            if cause is not None:
                by_queue.setdefault(queue, {})[code] = cause
        if self._last[0] is not seen.findings or self._last[1] != by_queue:  # else the same tuple: lists compare it
            findings = tuple([_explained(one, by_queue) for one in seen.findings]) if by_queue else seen.findings
            self._last = (seen.findings, by_queue, findings)
        return replace(seen, causes=MappingProxyType(by_queue), findings=self._last[2])

    def _read(self, row: QueueRow, code: Code) -> Program[Cause | None]:
        return {Code.STUCK: self._stuck, Code.NO_WORKER: self._unserved}.get(code, self._dead)(row)

    def _stuck(self, row: QueueRow) -> Program[Cause | None]:
        from qdeck._filter import parse
        from qdeck._operations import stuck

        found = yield from stuck.all_stuck(self._adapters, [row.ref], parse(""), 1, unread=[])
        adapter = self._adapters.named(row.adapter)
        if not found or adapter is None:
            return None
        first = found[0]
        job = yield from adapter.job(row.name, first.id)
        verbs = [verb for verb in (Verb.REQUEUE, Verb.BURY) if not adapter.why_not_job(verb, job)]
        text = words.stuck_words(job.task or job.name or first.id, first.why, (row.stuck or 0) - 1)
        return Cause(text=text, verb=verbs[0] if verbs else None)

    def _dead(self, row: QueueRow) -> Program[Cause | None]:
        if row.adapter == NATIVE:
            from qdeck.adapters.native import groups as native_groups

            found = (yield from native_groups.read_counted(NATIVE, [row.name])).get(row.name)
        else:
            from qdeck._operations import groups

            adapter = self._adapters.named(row.adapter)
            pairs = [] if adapter is None else [(adapter, row.name)]
            found = yield from groups.read_groups(pairs, most_read=_MOST_DEAD)
        if found is None or not found.groups:
            return None
        first = found.groups[0]
        of = None if found.total >= (row.dead or 0) else found.total
        text = words.dead_words(first.count, first.error_class, first.message_shape, of=of)
        can = not self._adapters.why_not(row.adapter, Verb.RETRY, State.DEAD)
        return Cause(text=text, verb=Verb.RETRY if can else None)

    def _unserved(self, row: QueueRow) -> Program[Cause | None]:
        served = [
            one for one in self._workers if not one.alive and one.adapter == row.adapter and row.name in one.queues
        ]
        last = min(served, key=lambda one: one.heartbeat_s or 0.0, default=None)
        adapter, tasks = self._adapters.named(row.adapter), list[str]()
        if adapter is not None and Feature.DETAILS in adapter.features:
            from qdeck._filter import parse

            page = yield from adapter.page(row.name, [State.READY, State.DELAYED], wanted=parse(""), most=_MOST_WAITING)
            tasks = list(dict.fromkeys(job.task for job in page.jobs if job.task))[:_MOST_TASKS]
        text = words.worker_words(last, tasks)
        return Cause(text=text) if text else None


def _wanted(seen: Snapshot) -> dict[tuple[QueueRef, Code], QueueRow]:
    """Return the problems whose cause is to be read, the worst first."""
    rows = {row.ref: row for row in seen.queues}
    found = [(one.queue, one.code) for one in seen.findings if one.queue is not None and one.code in _READ]
    if any(one.code is Code.STUCK for one in seen.findings):
        held = sorted((row for row in seen.queues if row.stuck), key=lambda row: -(row.stuck or 0))
        found += [(row.ref, Code.STUCK) for row in held[:_MOST_QUEUES]]
    keys = list(dict.fromkeys(found))[:_MOST_QUEUES]
    return {(queue, code): rows[queue] for queue, code in keys if queue in rows}


def _explained(finding: Finding, found: Mapping[QueueRef, Mapping[Code, Cause]]) -> Finding:
    cause = None if finding.queue is None else found.get(finding.queue, {}).get(finding.code)
    return finding if cause is None or finding.cause == cause.text else replace(finding, cause=cause.text)
