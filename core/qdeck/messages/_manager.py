"""The queue manager of the source document: names of queues, sending and taking actions, and the removal of a task's
queues.
"""

from __future__ import annotations

import asyncio
import os
import re
import secrets
import socket
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar

from qdeck._engine import codec, programs, transitions
from qdeck._errors import Reject, UsageError
from qdeck._queue_names import QueueType
from qdeck._redis.program_methods import AsyncRunner, BlockingRunner, ProgramMethod
from qdeck._task_options import read_duration, retry_delay_ms
from qdeck._worker.attempt import error_event
from qdeck.messages import _cleaning as cleaning
from qdeck.messages import _registry as registry
from qdeck.messages import _transport as transport
from qdeck.messages._cleaning import ExpiredCleaning, OrphanCleaning, TaskCleaning
from qdeck.messages._envelopes import DomainAction
from qdeck.messages._messenger import RETRIES, Messenger
from qdeck.messages._names import TIERS

if TYPE_CHECKING:
    from collections.abc import Callable

    from qdeck._app import App
    from qdeck._engine.transitions import ClaimedJob, Ending, PollReply
    from qdeck._redis.commands import Program
    from qdeck.messages._registry import LifeCycleCount, TemporaryQueue
    from qdeck.messages._removal import CleanReport

T = TypeVar("T")
P = ParamSpec("P")
LEASE_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Delivery:
    """An action that was taken off its queue and is not done yet: end it with `done`, `fail` or `requeue`.

    Without one of them within the lease, the action returns to its queue: a taken action is never lost.
    """

    action: DomainAction
    id: str
    queue: str
    attempt: int
    token: str
    retries: int
    backoff: str | None


class run(ProgramMethod[P, T]):  # noqa: N801 - a decorator
    """A method of one program."""

    runner = "_run"


class poll(ProgramMethod[P, T]):  # noqa: N801 - a decorator
    """A method that sends polls. They are numbered, and must arrive in that order: one such method at a time."""

    runner = "_run_poll"


class _Manager:
    """The methods of both managers, and the steps they are made of."""

    def __init__(self, source: App | Messenger, *, lease: float = LEASE_S, **more: Any) -> None:
        self.messenger = source if isinstance(source, Messenger) else Messenger(source, **more)
        self.names = self.messenger.names
        self.app = self.messenger.app
        self._lease_ms = read_duration("lease", lease)
        host = re.sub(r"[^A-Za-z0-9.-]", "-", socket.gethostname())[:60] or "host"
        self._worker = f"{host}.{os.getpid()}.m{secrets.token_hex(3)}"
        self._number = 0

    def queue_name(self, domain: str, context: str = "") -> str:
        """Return the name of the queue where a service takes its actions."""
        return str(self.names.actions(domain, context))

    @run
    def enqueue_action(
        self, domain: str, action: DomainAction, tier: str | None = None, *, context: str = "", retries: int = RETRIES
    ) -> Program[str]:
        """Put an action on the queue of a service, and return that queue's name."""
        if tier is not None and tier not in TIERS:
            raise UsageError(f"there is no tier {tier!r}", hint=f"Use one of: {', '.join(TIERS)}")
        sent = action if tier is None or tier == action.tier else action.replace(tenant_tier=tier)
        queue = self.queue_name(domain, context)
        made = yield from transport.send(queue, transport.job_of(sent, retries=retries))
        if made.created:
            yield from registry.count("enqueued", self.names.parse(queue).service, QueueType.ACTIONS, sent.tier or "-")
        return queue

    @poll
    def dequeue_action(
        self, domain: str, tier: str | None = None, task_id: str | None = None, *, context: str = ""
    ) -> Program[Delivery | None]:
        """Return the next action, None when there is none now. The tier does not filter: it decided the order
        already.
        """
        if task_id is not None:
            raise UsageError(
                f"task {task_id!r} has no action queue of its own",
                hint="A task's actions wait in the queue of their service, by tier: leave task_id out.",
            )
        queue = self.queue_name(domain, context)
        for claimed in (yield from self._claim(queue)).jobs:
            found = self._read(queue, claimed)
            if isinstance(found, Delivery):
                return found
            broken = Delivery(DomainAction(action_type="unreadable"), claimed.id, queue, 1, claimed.token, 0, None)
            yield from self._end(broken, found)
        return None

    @poll
    def done(self, delivery: Delivery) -> Program[bool]:
        """Complete an action; return False when the lease had expired and another worker may have it."""
        return self._end(delivery, None)

    @poll
    def fail(self, delivery: Delivery, error: BaseException) -> Program[bool]:
        """Fail an action: it is retried after a delay, or becomes a dead letter after its last attempt."""
        delay = -1 if isinstance(error, Reject) else retry_delay_ms(delivery.backoff, delivery.attempt, 0.5)
        event = error_event(error, self._worker, delivery.attempt)
        ending = transitions.Ending(kind="failed", id=delivery.id, token=delivery.token, delay_ms=delay, event=event)
        return self._end(delivery, ending)

    @poll
    def requeue(self, delivery: Delivery) -> Program[bool]:
        """Return the action to its place in the queue, as if it had not been taken."""
        return self._end(delivery, transitions.Ending(kind="give", id=delivery.id, token=delivery.token))

    @run
    def clean_task_queues(self, task_id: str, *, idle: float = 0) -> Program[int]:
        """Remove the temporary queues of a task that no reader waits on, and return how many.

        Those within this service's prefix and environment; unread messages are copied for undo, or stay.
        """
        return (yield from cleaning.end_task(task_id, self.names.holds, idle_s=round(idle))).removed

    @run
    def report_task_queues(
        self, task_id: str, *, idle: float = 0, dry_run: bool = True, undo: bool = False
    ) -> Program[CleanReport]:
        """Do the same, or a dry run, and return the outcome of each queue. With `undo` copies are kept for a day."""
        return TaskCleaning(
            task_id, within=self.names.holds, idle_s=round(idle), dry_run=dry_run, undo=undo
        ).run()  # fmt: skip

    @run
    def task_queues(self, task_id: str) -> Program[list[TemporaryQueue]]:
        """Return the temporary queues of a task, as registered."""
        names = yield from registry.of_task(task_id)
        return [found for found in (yield from registry.describe(names)) if found is not None]

    @run
    def clean_orphaned_queues(
        self,
        *,
        idle: float = cleaning.IDLE_S,
        dry_run: bool = False,
        undo: bool = True,
        progress: Callable[[CleanReport], None] | None = None,
    ) -> Program[CleanReport]:
        """Remove temporary queues that no task registered and that were idle for some seconds.

        It reads the keys in slices; `progress` is called after each, and cancelling it leaves nothing half done.
        """
        return OrphanCleaning(idle_s=round(idle), dry_run=dry_run, undo=undo, automatic=True).run(progress)

    @run
    def clean_expired_queues(self) -> Program[CleanReport]:
        """Remove registered queues whose time to live is over; unread messages are copied for undo, or stay."""
        return ExpiredCleaning().run()

    @run
    def metrics(self) -> Program[list[LifeCycleCount]]:
        """Return what happened to temporary queues, and how many actions were enqueued, per service, type and tier."""
        return registry.metrics()

    def _claim(self, queue: str) -> Program[PollReply]:
        self._number += 1
        op = transitions.poll(queue, self._worker, self._number, free_slots=1, lease_ms=self._lease_ms)
        return (yield from programs.call(op))

    def _end(self, delivery: Delivery, ending: Ending | None) -> Program[bool]:
        self._number += 1
        acks = [(delivery.id, delivery.token)] if ending is None else []
        endings = [] if ending is None else [ending]
        op = transitions.poll(
            delivery.queue,
            self._worker,
            self._number,
            free_slots=0,
            lease_ms=self._lease_ms,
            acks=acks,
            endings=endings,
        )
        poll = yield from programs.call(op)
        return delivery.id not in poll.refused

    def _read(self, queue: str, claimed: ClaimedJob) -> Delivery | Ending:
        """Return the delivery; for a job that is not an action, the ending that makes it a dead letter."""
        head, attempts = codec.read_head(claimed.head), codec.read_attempts(claimed.attempts)
        try:
            args, _ = codec.decode_call(claimed.body)
            action = DomainAction.from_dict(args[0] if args else None)
        except ValueError as error:
            event = error_event(error, self._worker, attempts.failed + 1)
            return transitions.Ending(kind="failed", id=claimed.id, token=claimed.token, delay_ms=-1, event=event)
        return Delivery(action, claimed.id, queue, attempts.failed + 1, claimed.token, head.retries, head.backoff)


class DomainQueueManager(_Manager, AsyncRunner):
    """The manager for asyncio, with the methods of the document. `DomainQueueManager(app)` or from a `Messenger`.

    All actions of a service share one queue, whatever their task: a worker can wait on it, and the tier decides the
    order there (enterprise first). Temporary are only the queues for answers and callbacks.
    """

    def __init__(self, source: App | Messenger, **more: Any) -> None:
        super().__init__(source, **more)
        self._polls = asyncio.Lock()

    async def _run(self, program: Program[T]) -> T:
        return await self.app.aclient().run(program)

    async def _run_poll(self, program: Program[T]) -> T:
        async with self._polls:
            return await self._run(program)


class SyncDomainQueueManager(_Manager, BlockingRunner):
    """The manager for blocking code: the same methods."""

    def __init__(self, source: App | Messenger, **more: Any) -> None:
        super().__init__(source, **more)
        self._polls = threading.Lock()

    def _run(self, program: Program[T]) -> T:
        return self.app.client.run(program)

    def _run_poll(self, program: Program[T]) -> T:
        with self._polls:
            return self._run(program)
