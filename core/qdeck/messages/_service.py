"""A service: handlers bound to action types, to callbacks and to notifications, and the worker that runs them."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from qdeck._errors import InvalidName, JobCancelled, LeaseLost, PayloadNotSerializable, Reject, UsageError
from qdeck._job_context import current_job
from qdeck._queue_names import QueueType
from qdeck._worker.attempt import is_final
from qdeck._worker.worker import Worker
from qdeck.messages import _cleaning as cleaning
from qdeck.messages import _message_checks as checks
from qdeck.messages import _transport as transport
from qdeck.messages._envelopes import DomainAction, DomainActionResponse, ErrorDetail, callback_to, response_to
from qdeck.messages._incoming_messages import REFUSED_ACTION, REFUSED_TASK, Follower, Incoming, Subscription
from qdeck.messages._message_checks import read_allowed
from qdeck.messages._messenger import RETRIES, Messenger
from qdeck.messages._names import segment

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Mapping

    from qdeck._job_context import JobContext
    from qdeck._redis.commands import Program
    from qdeck.messages._removal import Removal

Handler = Any
_SILENT: Final = (LeaseLost, JobCancelled)


@dataclass(frozen=True, slots=True)
class _Attempt:
    """One run of a handler: the action, its job, and where the answer goes."""

    service: Service
    action: DomainAction
    job: JobContext
    answers_to: tuple[str, QueueType] | None
    ends_task: bool

    def after(self, value: Any) -> Program[None]:
        """Answer, and end the task, after a handler returned."""
        if self.answers_to is not None:
            yield from self._answer(value, None)
        if self.ends_task:
            yield from self._end_task()

    def after_failure(self, error: Exception) -> Program[None]:
        """Answer with the error, and end the task, when no other attempt follows."""
        if isinstance(error, _SILENT) or not (is_final(error) or self.job.attempt > self.job.retries):
            return
        if self.answers_to is not None:
            yield from self._answer(None, ErrorDetail.of(error))
        if self.ends_task:
            yield from self._end_task()

    def _answer(self, value: Any, error: ErrorDetail | None) -> Program[None]:
        if self.answers_to is None:
            return
        name, kind = self.answers_to
        data = None if error is not None else _data(value)
        if kind is QueueType.CALLBACKS:
            callback = callback_to(self.action, self.service.names.service, data=data, error=error)
            yield from transport.call_back(
                name, self.action, callback, retries=RETRIES, target=self.service.names.parse(name)
            )
            return
        response = (
            value if isinstance(value, DomainActionResponse) else response_to(self.action, data=data, error=error)
        )
        deadline = transport.deadline_of(self.action, self.job.enqueued_ms)
        yield from transport.reply(name, self.action, response, deadline)

    def _end_task(self) -> Program[None]:
        if self.action.task is not None:
            yield from cleaning.end_task(self.action.task, self.service.names.holds)


def _data(value: Any) -> dict[str, Any] | None:
    if value is None or isinstance(value, dict):
        return value
    if isinstance(value, DomainActionResponse):
        return value.data
    return {"result": value}


class Service(Messenger):
    """A service that takes messages as well: declare handlers, then `run()`.

    A handler is an async or a plain function of one `DomainAction`. What it returns (a dict, or a value that becomes
    `{"result": value}`) is the answer, when one was asked for. When it raises, the action is tried again as its sender
    said; after the last try the sender gets the error as the answer, and the action is a dead letter.

    Answers go to queues of the prefix and the environment of the queue that the action came on. `replies_to` allows
    more: beginnings of names, whole segments each, such as `partner:prod`. An action that wants its answer elsewhere
    is a dead letter at once, and no handler runs.
    """

    def __init__(self, *args: Any, replies_to: Iterable[str] = (), **more: Any) -> None:
        super().__init__(*args, **more)
        self._replies_to = read_allowed(replies_to)
        self._followers: list[Follower] = []
        self._subscriptions: list[Subscription] = []
        self._lists: dict[str, Follower] = {}
        self._open: list[Incoming] = []
        self.app.beside.append(self._incoming)

    def on_action(self, action_type: str, *, context: str = "", **options: Any) -> Callable[[Handler], Handler]:
        """Take actions of this type from the service's own queue, or from that of a context.

        What other programs push to the list of that name is moved to the queue, from its left end.
        """
        queue = str(self.names.own if not context else self.names.actions(self.names.service, context))
        if REFUSED_ACTION not in self.app.tasks:
            self.app.task(name=REFUSED_ACTION, queue=queue, retries=0)(self._refuse)
        self._lists[queue] = Follower(queue, RETRIES, REFUSED_ACTION)
        return self._bind(action_type, queue, ends_task=False, **options)

    def on_callback(
        self, sender: str, action_type: str, *, event: str = "", ends_task: bool = False, **options: Any
    ) -> Callable[[Handler], Handler]:
        """Take callbacks of this type from another service.

        With an `event`, from the queue of that event, which stays, and from a list of that name; the handler that was
        declared first also takes callbacks of other types there. Without, from all temporary queues of tasks: they
        are followed, and what comes waits in one queue with retries and dead letters. `ends_task`: it is the task's
        last message, and the task's queues go when it was handled; what was not read is copied for undo. The task
        is the one that was registered when this service asked: a callback that claims another is a dead letter.
        """
        queue = str(self.names.callbacks(sender, event))
        if REFUSED_TASK not in self.app.tasks:
            self.app.task(name=REFUSED_TASK, queue=queue, retries=0)(self._refuse)
        self.app.inboxes.setdefault(queue, set()).add(REFUSED_TASK)
        retries = options.get("retries", RETRIES)
        bind = self._bind(action_type, queue, ends_task=ends_task, **options)
        if not event:
            self._followers.append(Follower(queue, retries))
            return bind
        of_event = transport.event_task(self.names.callbacks(sender, event))
        known = self._lists.setdefault(queue, Follower(queue, retries, REFUSED_TASK, of_event)).tasks
        known.add(action_type)
        if of_event in self.app.tasks or of_event == action_type:
            return bind
        bind_event = self._bind(of_event, queue, ends_task=ends_task, **options)
        return lambda handler: bind_event(bind(handler))

    def on_notification(
        self, emitter: str, topic: str, *, group: str | None = None, start: str = "$", **options: Any
    ) -> Callable[[Handler], Handler]:
        """Subscribe to a topic of another service: every event from now on (`start="0"`: from the oldest kept)."""
        inbox = str(self.names.inbox(emitter, topic))
        task = f"notifications:{inbox.partition(':notifications:')[2]}"
        stream = str(self.names.notifications(topic, emitter))
        own = group or str(self.names.service)
        self._subscriptions.append(Subscription(stream, own, inbox, task, options.get("retries", RETRIES), start))
        self.app.inboxes.setdefault(inbox, set())
        return self._bind(task, inbox, ends_task=False, **options)

    def run(self, **options: Any) -> str:
        """Run handlers until SIGTERM; options are those of the worker (`concurrency`, `lease`, `grace`, …)."""
        return asyncio.run(self._main(options))

    async def _main(self, options: Mapping[str, Any]) -> str:
        try:
            return await self.serve(signals=True, **options)
        finally:
            await self.aclose()

    async def serve(self, *, signals: bool = False, **options: Any) -> str:
        """Run handlers on the calling loop."""
        self.worker = Worker(self.app, **options)
        return await self.worker.serve(signals=signals)

    @contextlib.asynccontextmanager
    async def _incoming(self) -> AsyncIterator[None]:
        """Hand over callbacks and events while a worker of the app runs, be it `run()` or `qdeck worker`."""
        incoming = Incoming(self, self._followers, self._subscriptions, list(self._lists.values()))
        await incoming.open()
        self._open.append(incoming)
        try:
            yield
        finally:
            self._open.remove(incoming)
            await incoming.close()

    def stop(self) -> None:
        """Stop a running worker, from any thread."""
        self.worker.stop()

    async def aunsubscribe(self) -> None:
        """Remove all subscriptions: events that were not handed over yet are not kept for this service.

        Stop the service's other processes first: one that still listens subscribes again.
        """
        for incoming in self._open:
            await incoming.unsubscribe()
        for subscription in self._subscriptions:
            await self.app.aclient().run(subscription.destroy())

    def end_task(self, task_id: str) -> list[Removal]:
        """Remove the temporary queues of a task that is over; unread messages are copied for undo, or stay."""
        return self.app.client.run(cleaning.end_task(task_id, self.names.holds)).samples

    async def aend_task(self, task_id: str) -> list[Removal]:
        """Do the same in asyncio."""
        return (await self.app.aclient().run(cleaning.end_task(task_id, self.names.holds))).samples

    def _bind(self, task: str, queue: str, *, ends_task: bool, **options: Any) -> Callable[[Handler], Handler]:
        def declare(handler: Handler) -> Handler:
            run = self._async_run if inspect.iscoroutinefunction(handler) else self._thread_run
            self.app.task(name=task, queue=queue, **options)(run(handler, ends_task))
            return handler

        return declare

    def _async_run(self, handler: Handler, ends_task: bool) -> Handler:
        @functools.wraps(handler)
        async def run(envelope: Any) -> None:
            client = self.app.aclient()
            attempt = await client.run(self._attempt(envelope, ends_task))
            try:
                await client.run(_checked(attempt, await handler(attempt.action)))
            except Exception as error:
                await client.run(attempt.after_failure(error))
                raise

        return run

    def _thread_run(self, handler: Handler, ends_task: bool) -> Handler:
        @functools.wraps(handler)
        def run(envelope: Any) -> None:
            client = self.app.client
            attempt = client.run(self._attempt(envelope, ends_task))
            try:
                client.run(_checked(attempt, handler(attempt.action)))
            except Exception as error:
                client.run(attempt.after_failure(error))
                raise

        return run

    def _refuse(self, found: Any) -> None:
        """End a message that was refused before a handler could get it."""
        self.app.client.run(checks.count(self.names, self.names.shape(current_job().queue).type))
        raise Reject(str(found.get("refused") if isinstance(found, dict) else found))

    def _attempt(self, envelope: Any, ends_task: bool) -> Program[_Attempt]:
        job = current_job()
        kind = self.names.shape(job.queue).type
        try:
            if isinstance(envelope, dict) and "undeliverable" in envelope:
                raise UsageError(f"taken {envelope['undeliverable']} times and never delivered")
            action = DomainAction.from_dict(envelope)
            # Callbacks and events have names of their own exchange: only an action requests an answer.
            asks = kind is QueueType.ACTIONS
            name = checks.read_reply_name(action, self.names, job.queue, self._replies_to) if asks else None
            if ends_task:
                proof = checks.proof_of(self.names.parse(job.queue), segment(action.correlation or action.action_id))
                ends_task = yield from checks.prove_task(action, self.names, proof)
        except UsageError as error:
            yield from checks.count(self.names, kind)
            # Another attempt would read the same.
            raise Reject(f"{error}{'; ' if error.hint else ''}{error.hint}") from error
        return _Attempt(self, action, job, name, ends_task)


def _checked(attempt: _Attempt, value: Any) -> Program[None]:
    try:
        yield from attempt.after(value)
    except (InvalidName, PayloadNotSerializable) as error:
        raise Reject(f"the answer cannot be sent: {error}") from error
