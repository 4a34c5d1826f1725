"""The patterns, for blocking code and for asyncio: request and response, fire and forget, callback, notification."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from qdeck._engine import transitions
from qdeck._errors import InvalidOption, OutcomeUnknown, QdeckError, ResultTimeout, ServerUnreachable, UsageError
from qdeck._job import Job
from qdeck._queue_names import QueueName, QueueType
from qdeck._redis import scripts
from qdeck._redis.commands import Request
from qdeck._redis.errors import is_error
from qdeck._task_options import read_duration
from qdeck.messages import _registry as registry
from qdeck.messages import _transport as transport
from qdeck.messages._envelopes import DomainAction, DomainActionResponse, new_message_id
from qdeck.messages._message_checks import proof_of
from qdeck.messages._names import Names, own_name, segment

if TYPE_CHECKING:
    from collections.abc import Mapping

    from qdeck._app import App
    from qdeck._engine.transitions import NewJob
    from qdeck._redis.commands import Program

TIMEOUT_S: Final = 30.0
RETRIES: Final = 3


@dataclass(frozen=True, slots=True)
class _OutgoingRequest:
    """A request that was built and not sent yet."""

    action: DomainAction
    queue: str
    job: NewJob
    name: str
    kind: QueueType
    service: str
    ttl_ms: int
    wait_ms: int | None

    def begin(self) -> Program[None]:
        """Register the queue for the answer and its reader, then send the action."""
        made = yield from registry.register(self.name, self.kind.value, self.service, **self._life())
        self.check(made)
        yield from transport.send(self.queue, self.job)

    def begin_and_peek(self, until: float) -> Program[bytes | None]:
        """Do the same and read the answer for the first time, in one round trip to one server.

        If anything fails, the steps may have happened or not, and are repeated, each with the effect of once.
        """
        op = transitions.enqueue(self.queue, [self.job])
        seconds = min(max(0.0, until - time.monotonic()), transport.PIECE_S)
        steps = (
            registry.script("registry").call(
                registry.KEYS, registry.registration(self.name, self.kind.value, self.service, **self._life())
            ),
            op.command(),
            transport.peek_command(self.name, seconds),
        )
        script = scripts.together(registry.script("registry"), op.script)
        try:
            replies = yield Request(
                steps, self.name.encode(), returns_errors=True, script=script, blocks_s=seconds, patience_s=0.0
            )
        except (ServerUnreachable, OutcomeUnknown):
            replies = []
        if replies and not any(is_error(reply) for reply in replies):
            self.check(replies[0])
            found: bytes | None = replies[2]
            return found
        yield from self.begin()
        return None

    def check(self, made: Any) -> None:
        """Refuse to wait on a queue that is being removed."""
        if isinstance(made, int) and made < 0:
            raise _is_removed(self.name)

    def _life(self) -> dict[str, Any]:
        tier = self.action.tier or ""
        return {"task": self.action.task or "", "tier": tier, "ttl_ms": self.ttl_ms, "wait_ms": self.wait_ms}


def _is_removed(name: str) -> QdeckError:
    return QdeckError(f"queue {name!r} is being removed", hint="Its task has ended; use another correlation id.")


class Messenger:
    """Send a service's messages. Names without `a` are for blocking code, those with it for asyncio.

    `app.queue` is the service's own actions queue; all other names follow from it. `services` maps the first part of
    action types to services that listen under another name, as in `{"query": "query_service"}`. `service` says which
    segment of `app.queue` is the service, where its prefix or its environment stands alone or is not a known word: all
    names keep what stands before it.
    """

    def __init__(
        self,
        app: App,
        *,
        services: Mapping[str, str] | None = None,
        ttl: float = registry.TTL_S,
        service: str | None = None,
    ) -> None:
        own = own_name(app.queue, service, app.environments)
        if own.type is not QueueType.ACTIONS:
            raise InvalidOption(
                f"{app.queue!r} is not an actions queue", hint="Give the App queue='prefix:env:service:actions'"
            )
        self.app = app
        self.names = Names(own, dict(services or {}), app.environments)
        self.ttl_ms = read_duration("ttl", ttl)

    def new_action(self, action_type: str, data: dict[str, Any] | None = None, **fields: Any) -> DomainAction:
        """Return a new action from this service."""
        return DomainAction(action_type=action_type, data=data or {}, origin_service=self.names.service, **fields)

    # --- fire and forget

    def send(self, action: DomainAction, **options: Any) -> Job:
        """Send an action that has no answer. It is retried when its handler fails, then a dead letter."""
        return self.app.client.run(self._send(action, **options))

    async def asend(self, action: DomainAction, **options: Any) -> Job:
        """Do the same in asyncio."""
        return await self.app.aclient().run(self._send(action, **options))

    def _send(self, action: DomainAction, **options: Any) -> Program[Job]:
        queue, job = self._outgoing(action, **options)
        made = yield from transport.send(queue, job)
        return Job(self.app, queue, made.id, made.created)

    # --- request and response

    def request(self, action: DomainAction, *, timeout: float = TIMEOUT_S, **options: Any) -> DomainActionResponse:
        """Send an action and return its answer; raise `ResultTimeout` when there is none in time."""
        return self.app.client.run(self._request(action, timeout, **options))

    async def arequest(
        self, action: DomainAction, *, timeout: float = TIMEOUT_S, **options: Any
    ) -> DomainActionResponse:
        """Do the same in asyncio."""
        return await self.app.aclient().run(self._request(action, timeout, **options))

    def _request(self, action: DomainAction, timeout: float, **options: Any) -> Program[DomainActionResponse]:
        until = time.monotonic() + timeout
        request = self._ask(action, timeout, **options)
        raw = None
        if self.app.client.endpoint.is_cluster:
            yield from request.begin()  # the keys of its steps are on several servers
        else:
            raw = yield from request.begin_and_peek(until)
        while raw is not None or (raw := (yield from transport.peek(request.name, until))) is not None:
            try:
                found = _read_response(raw, request)
            except UsageError:
                yield from registry.unlink_and_finish("unanswered", request.name)
                raise
            if found is not None:
                yield from registry.unlink_and_finish("cleaned", request.name)
                return found
            yield from transport.skip(request.name, raw)
            raw = None
        yield from registry.unlink_and_finish("unanswered", request.name)
        raise _unanswered(request, timeout)

    # --- callback

    def request_callback(self, action: DomainAction, callback: QueueName | None = None, **options: Any) -> QueueName:
        """Send an action that is answered by a callback, and return the queue where that arrives.

        By default a temporary one of the action's task, which `Service.callback` handlers of this service follow and
        `wait_callback` can wait on. Give `callback` for a queue that stays.
        """
        return self.app.client.run(self._call(action, callback, **options))

    async def arequest_callback(
        self, action: DomainAction, callback: QueueName | None = None, **options: Any
    ) -> QueueName:
        """Do the same in asyncio."""
        return await self.app.aclient().run(self._call(action, callback, **options))

    def wait_callback(self, name: QueueName, timeout: float = TIMEOUT_S) -> DomainAction:
        """Return the next callback on a temporary queue; for programs without a worker."""
        return self.app.client.run(self._wait(name, timeout))

    async def await_callback(self, name: QueueName, timeout: float = TIMEOUT_S) -> DomainAction:
        """Do the same in asyncio."""
        return await self.app.aclient().run(self._wait(name, timeout))

    # --- notification

    def notify(self, topic: str, event: DomainAction) -> str:
        """Announce an event to all services that subscribed to the topic, and return its place in the stream."""
        return self.app.client.run(transport.announce(str(self.names.notifications(topic)), event))

    async def anotify(self, topic: str, event: DomainAction) -> str:
        """Do the same in asyncio."""
        return await self.app.aclient().run(transport.announce(str(self.names.notifications(topic)), event))

    # --- the rest

    def close(self) -> None:
        """Close this thread's connections."""
        self.app.close()

    async def aclose(self) -> None:
        """Close the connections of the running loop."""
        await self.app.aclose()

    def _outgoing(
        self,
        action: DomainAction,
        *,
        service: str | None = None,
        context: str = "",
        retries: int = RETRIES,
        retry_delay: float | None = None,
        priority: int | None = None,
        expires: float | None = None,
    ) -> tuple[str, NewJob]:
        queue = str(self.names.actions(service or action.service, context))
        job = transport.job_of(
            action,
            retries=retries,
            priority=priority,
            expires_ms=None if expires is None else read_duration("expires", expires),
            backoff=None if retry_delay is None else f"E {read_duration('retry_delay', retry_delay)} 3600000",
        )
        return queue, job

    def _ask(self, action: DomainAction, timeout: float, *, retries: int = 0, **options: Any) -> _OutgoingRequest:
        within = read_duration("timeout", timeout)
        correlation = action.correlation_id or new_message_id()
        name = self.names.response_queue(action.action_type, correlation)
        sent = action.replace(
            correlation_id=correlation,
            callback_queue_name=name,
            callback_action_type=None,
            metadata={**action.metadata, transport.WITHIN: within},
        )
        queue, job = self._outgoing(sent, retries=retries, expires=timeout, **options)
        # It lives a little longer than the sender waits, for a late cleaner.
        ttl_ms = min(self.ttl_ms, within + 10_000)
        return _OutgoingRequest(sent, queue, job, name, QueueType.RESPONSES, self.names.service, ttl_ms, within)

    def _call(
        self,
        action: DomainAction,
        callback: QueueName | None,
        *,
        callback_action_type: str | None = None,
        **options: Any,
    ) -> Program[QueueName]:
        correlation = action.correlation or new_message_id()
        kind = callback_action_type or action.callback_action_type or f"{action.action_type}.completed"
        name = callback or self.names.callbacks(options.get("service") or action.service, correlation)
        sent = action.replace(
            correlation_id=correlation,
            callback_queue_name=str(name),
            callback_action_type=kind,
            # The document puts both into `data`, the services that were built into the envelope.
            data={**action.data, "callback_queue_name": str(name), "correlation_id": correlation},
        )
        queue, job = self._outgoing(sent, **options)
        # A permanent queue is not registered, but the requesting task is: its last callback ends only that task.
        waits = str(proof_of(name, segment(correlation))) if callback is None or sent.task else ""
        if waits:
            yield from _OutgoingRequest(
                sent, queue, job, waits, QueueType.CALLBACKS, name.service, self.ttl_ms, None
            ).begin()
        else:
            yield from transport.send(queue, job)
        return name

    def _wait(self, name: QueueName, timeout: float) -> Program[DomainAction]:
        until = time.monotonic() + timeout
        [known] = yield from registry.describe([str(name)])
        task, tier = (known.task, known.tier) if known else ("", "")
        made = yield from registry.register(
            str(name),
            name.type.value,
            name.service,
            task=task,
            tier=tier,
            ttl_ms=self.ttl_ms,
            wait_ms=read_duration("timeout", timeout),
        )
        if made < 0:
            raise _is_removed(str(name))
        raw = yield from transport.peek(str(name), until)
        if raw is not None:
            yield from transport.skip(str(name), raw)
        yield from registry.leave([str(name)])
        if raw is None:
            raise ResultTimeout(
                f"no callback came to {str(name)!r} within {timeout:g}s",
                hint="Wait again with the same id: it may still come.",
            )
        return DomainAction.parse(raw)


def _read_response(raw: bytes, request: _OutgoingRequest) -> DomainActionResponse | None:
    """Return the answer; None when it answers something else."""
    found = DomainActionResponse.parse(raw)
    return found if found.correlation_id == request.action.correlation_id else None


def _unanswered(request: _OutgoingRequest, timeout: float) -> ResultTimeout:
    return ResultTimeout(
        f"action {request.action.action_type!r} was not answered within {timeout:g}s",
        hint=f"Check that a worker serves {request.queue}; an answer that arrives now is dropped.",
    )
