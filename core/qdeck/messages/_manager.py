"""The queue manager of the source document: every queue's name, actions in and out, and the end of a task's queues."""

from __future__ import annotations

import asyncio
import os
import re
import secrets
import socket
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from qdeck._engine import codec, ops, programs
from qdeck._errors import Reject, UsageError
from qdeck._options import read_duration
from qdeck._worker.run import error_event
from qdeck.messages import _cleaning as cleaning
from qdeck.messages import _exchange as exchange
from qdeck.messages import _registry as registry
from qdeck.messages._cleaning import CleanReport
from qdeck.messages._envelopes import DomainAction
from qdeck.messages._messenger import RETRIES, Messenger
from qdeck.messages._naming import TIERS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from qdeck._app import App
    from qdeck._engine.ops import Claimed, Ending, NewJob, Program, Turn
    from qdeck.messages._cleaning import Removal, Slice
    from qdeck.messages._registry import Temporary

LEASE_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Delivery:
    """An action that was taken off its queue and is not done yet: end it with `done`, `fail` or `give_back`.

    When none comes within the lease, the action goes back to its queue: what is taken is never lost.
    """

    action: DomainAction
    id: str
    queue: str
    attempt: int
    token: str
    retries: int
    backoff: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LifeCycleCount:
    """How often something happened to temporary queues: made, cleaned, expired, orphaned, …; `freed` is bytes."""

    event: str
    service: str
    type: str
    tier: str
    count: int


class _Manager:
    """What both managers share: names, arguments, and the steps as programs."""

    def __init__(self, source: App | Messenger, *, lease: float = LEASE_S, **more: Any) -> None:
        self.messenger = source if isinstance(source, Messenger) else Messenger(source, **more)
        self.names = self.messenger.names
        self.app = self.messenger.app
        self._lease_ms = read_duration("lease", lease)
        host = re.sub(r"[^A-Za-z0-9.-]", "-", socket.gethostname())[:60] or "host"
        self._worker = f"{host}.{os.getpid()}.m{secrets.token_hex(3)}"
        self._number = 0

    def queue_name(self, domain: str, context: str = "") -> str:
        """The name of the queue where a service takes its actions."""
        return str(self.names.actions(domain, context))

    def _outgoing(
        self, domain: str, action: DomainAction, tier: str | None, context: str, retries: int
    ) -> tuple[str, NewJob]:
        if tier is not None and tier not in TIERS:
            raise UsageError(f"there is no tier {tier!r}", hint=f"tiers are {', '.join(TIERS)}")
        sent = action if tier is None or tier == action.tier else action.replace(tenant_tier=tier)
        return self.queue_name(domain, context), exchange.job_of(sent, retries=retries)

    def _claim(self, queue: str) -> Program[Turn]:
        self._number += 1
        op = ops.turn(queue, self._worker, self._number, room=1, lease_ms=self._lease_ms)
        return (yield from programs.call(op))

    def _end(self, delivery: Delivery, ending: Ending | None) -> Program[bool]:
        self._number += 1
        acks = [(delivery.id, delivery.token)] if ending is None else []
        endings = [] if ending is None else [ending]
        op = ops.turn(
            delivery.queue, self._worker, self._number, room=0, lease_ms=self._lease_ms, acks=acks, endings=endings
        )
        turn = yield from programs.call(op)
        return delivery.id not in turn.stale

    def _read(self, queue: str, claimed: Claimed) -> Delivery | Ending:
        """The delivery; what is no action is buried, because nobody could take it."""
        head, tries = codec.read_head(claimed.head), codec.read_tries(claimed.tries)
        try:
            args, _ = codec.decode_call(claimed.body)
            action = DomainAction.from_dict(args[0] if args else None)
        except ValueError as error:
            event = error_event(error, self._worker, tries.attempts + 1)
            return ops.Ending(kind="failed", id=claimed.id, token=claimed.token, delay_ms=-1, event=event)
        return Delivery(action, claimed.id, queue, tries.attempts + 1, claimed.token, head.retries, head.backoff)

    def _failure(self, delivery: Delivery, error: BaseException) -> Ending:
        from qdeck._options import retry_delay_ms

        delay = -1 if isinstance(error, Reject) else retry_delay_ms(delivery.backoff, delivery.attempt, 0.5)
        event = error_event(error, self._worker, delivery.attempt)
        return ops.Ending(kind="failed", id=delivery.id, token=delivery.token, delay_ms=delay, event=event)

    def _dequeue(self, queue: str) -> Program[Delivery | None]:
        turn = yield from self._claim(queue)
        for claimed in turn.jobs:
            found = self._read(queue, claimed)
            if isinstance(found, Delivery):
                return found
            broken = Delivery(DomainAction(action_type="unreadable"), claimed.id, queue, 1, claimed.token, 0, None)
            yield from self._end(broken, found)
        return None

    @staticmethod
    def _give_back(delivery: Delivery) -> Ending:
        return ops.Ending(kind="give", id=delivery.id, token=delivery.token)


def _no_task_queue(task_id: str | None) -> None:
    if task_id is not None:
        raise UsageError(
            f"there is no action queue of task {task_id!r} alone",
            hint="a task's actions wait in the queue of their service, by tier: leave task_id out",
        )


def _take(report: CleanReport, seen: Slice, progress: Callable[[CleanReport], None] | None) -> Any:
    report.scanned += seen.scanned
    for one in seen.found:
        report.add(one)
    if progress is not None:
        progress(report)
    return seen.cursor


def _counts(rows: Sequence[tuple[str, str, str, str, int]]) -> list[LifeCycleCount]:
    return [LifeCycleCount(event=e, service=s, type=k, tier=t, count=n) for e, s, k, t, n in rows]


class DomainQueueManager(_Manager):
    """The manager for asyncio, with the methods of the document. `DomainQueueManager(app)` or from a `Messenger`.

    All actions of a service share one queue, whatever their task: a worker can wait on it, and the tier decides the
    order there (enterprise first). Temporary are only the queues for answers and callbacks.
    """

    def __init__(self, source: App | Messenger, **more: Any) -> None:
        super().__init__(source, **more)
        # Turns are numbered, and must arrive in that order.
        self._turns = asyncio.Lock()

    async def enqueue_action(
        self, domain: str, action: DomainAction, tier: str | None = None, *, context: str = "", retries: int = RETRIES
    ) -> str:
        """Puts an action on the queue of a service and returns that queue's name."""
        queue, job = self._outgoing(domain, action, tier, context, retries)
        await self.app.aclient().run(exchange.send(queue, job))
        return queue

    async def dequeue_action(
        self, domain: str, tier: str | None = None, task_id: str | None = None, *, context: str = ""
    ) -> Delivery | None:
        """Takes the next action, None when there is none now. The tier is no filter: it decided the order already."""
        _no_task_queue(task_id)
        async with self._turns:
            return await self.app.aclient().run(self._dequeue(self.queue_name(domain, context)))

    async def done(self, delivery: Delivery) -> bool:
        """The action was done; False when the lease was over and another may have taken it."""
        async with self._turns:
            return await self.app.aclient().run(self._end(delivery, None))

    async def fail(self, delivery: Delivery, error: BaseException) -> bool:
        """The action failed: it is tried again after a while, or is a dead letter after its last try."""
        async with self._turns:
            return await self.app.aclient().run(self._end(delivery, self._failure(delivery, error)))

    async def give_back(self, delivery: Delivery) -> bool:
        """Puts the action back where it was, as if it had not been taken."""
        async with self._turns:
            return await self.app.aclient().run(self._end(delivery, self._give_back(delivery)))

    async def clean_task_queues(self, task_id: str, *, idle: float = 0) -> int:
        """Removes the temporary queues of a task where nobody waits, and returns how many.

        Those within this service's prefix and environment; unread messages are copied for undo, or stay.
        """
        ended = await self.app.aclient().run(cleaning.end_task(task_id, self.names.holds, idle_s=round(idle)))
        return cleaning.report_of(ended, dry_run=False).removed

    async def report_task_queues(
        self,
        task_id: str,
        *,
        idle: float = 0,
        dry_run: bool = True,
        undo: bool = False,
        everywhere: bool = False,
    ) -> CleanReport:
        """The same, with what became (or would become) of each queue. With `undo` copies are kept for a day.

        `everywhere`: in every prefix and environment, for an operator.
        """
        within = cleaning.everywhere if everywhere else self.names.holds
        return await self.app.aclient().run(
            cleaning.report_task(task_id, idle_s=round(idle), dry_run=dry_run, undo=undo, within=within)
        )

    async def task_queues(self, task_id: str) -> list[Temporary]:
        """The temporary queues of a task, as registered."""
        return await self.app.aclient().run(_of_task(task_id))

    async def clean_orphaned_queues(
        self,
        *,
        idle: float = cleaning.IDLE_S,
        dry_run: bool = False,
        undo: bool = False,
        progress: Callable[[CleanReport], None] | None = None,
    ) -> CleanReport:
        """Removes temporary queues that nobody registered or waits on and that were idle for so many seconds.

        It goes through the keys in slices; `progress` is called after each, and cancelling it leaves nothing half done.
        """
        report, cursor = CleanReport(dry_run=dry_run), 0
        run = self.app.aclient().run
        keeper = await run(cleaning.keep("orphans")) if undo and not dry_run else None
        try:
            while True:
                seen = await run(cleaning.orphans(cursor, idle_s=_idle(idle), dry_run=dry_run, keeper=keeper))
                cursor = _take(report, seen, progress)
                if cursor == 0:
                    return report
        finally:
            if keeper is not None:
                await run(cleaning.end(keeper, report))

    async def clean_expired_queues(self) -> CleanReport:
        """Removes registered queues whose time to live is over."""
        found: list[Removal] = []
        while True:
            some = await self.app.aclient().run(cleaning.sweep_expired())
            found += some
            if not cleaning.goes_on(some):
                return cleaning.report_of(found, dry_run=False)

    async def metrics(self) -> list[LifeCycleCount]:
        """What happened to temporary queues, per service, type and tier."""
        return _counts(await self.app.aclient().run(registry.metrics()))


class SyncDomainQueueManager(_Manager):
    """The manager for blocking code: the same methods."""

    def __init__(self, source: App | Messenger, **more: Any) -> None:
        super().__init__(source, **more)
        self._turns = threading.Lock()

    def enqueue_action(
        self, domain: str, action: DomainAction, tier: str | None = None, *, context: str = "", retries: int = RETRIES
    ) -> str:
        """Puts an action on the queue of a service and returns that queue's name."""
        queue, job = self._outgoing(domain, action, tier, context, retries)
        self.app.client.run(exchange.send(queue, job))
        return queue

    def dequeue_action(
        self, domain: str, tier: str | None = None, task_id: str | None = None, *, context: str = ""
    ) -> Delivery | None:
        """Takes the next action, None when there is none now."""
        _no_task_queue(task_id)
        with self._turns:
            return self.app.client.run(self._dequeue(self.queue_name(domain, context)))

    def done(self, delivery: Delivery) -> bool:
        """The action was done; False when the lease was over and another may have taken it."""
        with self._turns:
            return self.app.client.run(self._end(delivery, None))

    def fail(self, delivery: Delivery, error: BaseException) -> bool:
        """The action failed: it is tried again after a while, or is a dead letter after its last try."""
        with self._turns:
            return self.app.client.run(self._end(delivery, self._failure(delivery, error)))

    def give_back(self, delivery: Delivery) -> bool:
        """Puts the action back where it was, as if it had not been taken."""
        with self._turns:
            return self.app.client.run(self._end(delivery, self._give_back(delivery)))

    def clean_task_queues(self, task_id: str, *, idle: float = 0) -> int:
        """Removes the temporary queues of a task where nobody waits, and returns how many.

        Those within this service's prefix and environment; unread messages are copied for undo, or stay.
        """
        ended = self.app.client.run(cleaning.end_task(task_id, self.names.holds, idle_s=round(idle)))
        return cleaning.report_of(ended, dry_run=False).removed

    def report_task_queues(
        self,
        task_id: str,
        *,
        idle: float = 0,
        dry_run: bool = True,
        undo: bool = False,
        everywhere: bool = False,
    ) -> CleanReport:
        """The same, with what became (or would become) of each queue. With `undo` copies are kept for a day.

        `everywhere`: in every prefix and environment, for an operator.
        """
        within = cleaning.everywhere if everywhere else self.names.holds
        return self.app.client.run(
            cleaning.report_task(task_id, idle_s=round(idle), dry_run=dry_run, undo=undo, within=within)
        )

    def task_queues(self, task_id: str) -> list[Temporary]:
        """The temporary queues of a task, as registered."""
        return self.app.client.run(_of_task(task_id))

    def clean_orphaned_queues(
        self,
        *,
        idle: float = cleaning.IDLE_S,
        dry_run: bool = False,
        undo: bool = False,
        progress: Callable[[CleanReport], None] | None = None,
    ) -> CleanReport:
        """Removes temporary queues that nobody registered or waits on and that were idle for so many seconds."""
        report, cursor = CleanReport(dry_run=dry_run), 0
        run = self.app.client.run
        keeper = run(cleaning.keep("orphans")) if undo and not dry_run else None
        try:
            while True:
                seen = run(cleaning.orphans(cursor, idle_s=_idle(idle), dry_run=dry_run, keeper=keeper))
                cursor = _take(report, seen, progress)
                if cursor == 0:
                    return report
        finally:
            if keeper is not None:
                run(cleaning.end(keeper, report))

    def clean_expired_queues(self) -> CleanReport:
        """Removes registered queues whose time to live is over."""
        found: list[Removal] = []
        while True:
            some = self.app.client.run(cleaning.sweep_expired())
            found += some
            if not cleaning.goes_on(some):
                return cleaning.report_of(found, dry_run=False)

    def metrics(self) -> list[LifeCycleCount]:
        """What happened to temporary queues, per service, type and tier."""
        return _counts(self.app.client.run(registry.metrics()))


def _of_task(task_id: str) -> Program[list[Temporary]]:
    names = yield from registry.of_task(task_id)
    return [found for found in (yield from registry.describe(names)) if found is not None]


def _idle(seconds: float) -> int:
    """At least a second: an orphan is told by being left alone, and the server counts in seconds."""
    return max(1, round(seconds))
