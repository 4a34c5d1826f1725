"""The two clients, blocking and asyncio, that run the same programs."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import time
from typing import TYPE_CHECKING, Any, Final, TypeVar

from redis.exceptions import BusyLoadingError, ResponseError

from qdeck._errors import NotAllowed, QdeckError, ServerUnreachable, UnreachableCause
from qdeck._redis import rights
from qdeck._redis.address import Node, Topology
from qdeck._redis.commands import Offload, Request, Sleep, pack, request_of
from qdeck._redis.endpoint import is_connected
from qdeck._redis.errors import classify, explain
from qdeck._redis.retries import ASK_LOADING, BROKEN, FAILURES, RetryTimer, loading_error, need_same_server
from qdeck._redis.routes import Exchange, LostExchange, Routes, SentinelRoutes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import redis.asyncio.connection as aio
    import redis.connection as blocking

    from qdeck._redis.commands import Item, Program
    from qdeck._redis.endpoint import Endpoint
    from qdeck._redis.routes import ExchangeReply, Steps

T = TypeVar("T")
PATIENCE: Final = 30.0
LONGEST_WAIT_S: Final = 5.0  # how long a command may block in blocking code: a silent connection is noticed after it
_MOST_WAITS: Final = 512  # commands that block at the same time, of one event loop


def _routes(endpoint: Endpoint) -> Routes | None:
    kind = endpoint.address.kind
    if kind is Topology.SENTINEL:
        return SentinelRoutes(endpoint)
    if kind is not Topology.CLUSTER:
        return None
    from qdeck._redis.cluster import ClusterRoutes

    return ClusterRoutes(endpoint)


class _Client:
    """The parts that both clients share.

    `guard` is called before each request, and its errors are raised in the program; `on_request` is called with the
    number of commands and bytes of each request.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        patience: float = PATIENCE,
        guard: Callable[[Request], None] | None = None,
        on_request: Callable[[int, int], None] | None = None,
    ) -> None:
        self.endpoint = endpoint
        self.patience = patience
        self.guard = guard
        self.on_request = on_request
        self.clock_denied = False
        """Whether the server's clock may not be read."""
        self._routes = _routes(endpoint)
        self._was_connected = False

    def _retry_timer(self, request: Request) -> RetryTimer:
        if request.patience_s is not None:
            return RetryTimer(self.endpoint, request.patience_s, was_connected=True)
        return RetryTimer(self.endpoint, self.patience, was_connected=self._was_connected)

    def _pack(self, request: Request) -> bytes:
        data = pack(request.commands)
        if self.on_request is not None:
            self.on_request(len(request.commands), len(data))
        return data

    def _taken(self, item: Item, request: Request, replies: list[Any]) -> Any:
        """Return what a program receives for what it yielded; raise the first error reply, unless it requested
        errors."""
        for at, reply in enumerate(replies):
            if isinstance(reply, ResponseError):
                command = request.commands[at]
                error = explain(reply, command)
                if command[0] == b"TIME" and isinstance(error, NotAllowed):
                    self.clock_denied = True
                if not request.returns_errors:
                    raise error
                replies[at] = error
        return replies[0] if type(item) is tuple else replies


class SyncClient(_Client):
    """A client for blocking code. Threads may share it; each has connections of its own."""

    def __init__(self, endpoint: Endpoint, **options: Any) -> None:
        super().__init__(endpoint, **options)
        self._local = threading.local()

    def run(self, program: Program[T]) -> T:
        """Run a program to its end and return its value. Errors are raised where the program yielded."""
        try:
            item = next(program)
            while True:
                try:
                    value = self._step(item)
                except BaseException as error:  # noqa: BLE001 - one that is cancelled has steps that end it
                    item = program.throw(error)
                else:
                    item = program.send(value)
        except StopIteration as stop:
            result: T = stop.value
            return result

    def _step(self, item: Item) -> Any:
        if isinstance(item, Sleep):
            return time.sleep(item.seconds)
        if isinstance(item, Offload):
            return item.work()
        request = request_of(item)
        if self.guard is not None:
            self.guard(request)
        try:
            return self._taken(item, request, self._exchange(request))
        except rights.MissingRight as refused:
            raise refused.error from None
        except ServerUnreachable as error:
            is_loading = error.cause is UnreachableCause.LOADING
            raise (self._explain_loading() if is_loading else None) or error from error.__cause__

    def _explain_loading(self) -> ServerUnreachable | None:
        """Return an error with the progress of a server that loads its data."""
        with contextlib.suppress(QdeckError):
            return loading_error(self.endpoint, self._exchange(ASK_LOADING))
        return None

    def close(self) -> None:
        """Close this thread's connections; those of other threads close with their threads."""
        for connection in self._local.__dict__.pop("connections", {}).values():
            connection.disconnect()

    def _connection(self, node: Node | None, request: Request) -> blocking.AbstractConnection:
        held = self._local.__dict__
        if "connections" not in held or held["pid"] != os.getpid():
            held["connections"], held["pid"] = {}, os.getpid()
        found: dict[tuple[Node | None, bool], blocking.AbstractConnection] = held["connections"]
        # A request that blocks has a connection of its own, with a longer timeout.
        place = node, request.patience_s is not None
        if place not in found:
            found[place] = self.endpoint.blocking_connection(node, blocks_s=LONGEST_WAIT_S if place[1] else 0.0)
        return found[place]

    def _exchange(self, request: Request) -> list[Any]:
        if self._routes is not None:
            return self._drive(self._routes.exchange(request, self._retry_timer(request)))
        waits = request.patience_s is not None
        retries = self._retry_timer(request) if waits else None
        data, count = self._pack(request), len(request.commands)
        while True:
            connection = self._connection(None, request)
            sent = False
            # As `_exchange_all` does for several, without a list of one: most calls take this path.
            try:
                self._open(connection, request)
                self._was_connected = sent = True
                connection.send_packed_command([data], check_health=False)
                return _read_wait(connection, count) if waits else [_read(connection) for _ in range(count)]
            except FAILURES as error:
                connection.disconnect()
                reply = LostExchange(error, sent)
            except BaseException:
                # Interrupted (Ctrl-C): a reply that is still under way must not be read as the next one's.
                connection.disconnect()
                raise
            retries = retries or self._retry_timer(request)
            retries.sent = retries.sent or reply.sent
            time.sleep(retries.next_pause(reply.error, reads=request.reads))

    def _drive(self, steps: Steps) -> list[Any]:
        """Run the exchanges that a route yields."""
        result: list[ExchangeReply] | None = None
        try:
            while True:
                step = steps.send(result)
                if isinstance(step, float):
                    time.sleep(step)
                    result = None
                else:
                    result = self._exchange_all(step)
        except StopIteration as stop:
            replies: list[Any] = stop.value
            return replies

    def _open(self, connection: blocking.AbstractConnection, request: Request) -> None:
        """Connect if needed, and check the rights for a script that is new to the connection."""
        if not is_connected(connection):
            connection.connect()
            rights.forget(connection)
        if asked := rights.rights_command(connection, request):
            connection.send_packed_command([asked], check_health=False)
            rights.check(connection, request, _read(connection))

    def _exchange_all(self, exchanges: Sequence[Exchange]) -> list[ExchangeReply]:
        """Send to all servers, then read from all, so that they work at the same time."""
        lines = [self._connection(exchange.node, exchange.request) for exchange in exchanges]
        try:
            lost = [self._send(connection, exchange) for connection, exchange in zip(lines, exchanges, strict=True)]
            return [
                self._receive(connection, exchange) if gone is None else gone
                for connection, gone, exchange in zip(lines, lost, exchanges, strict=True)
            ]
        except BaseException:
            for connection in lines:
                connection.disconnect()
            raise

    def _send(self, connection: blocking.AbstractConnection, exchange: Exchange) -> LostExchange | None:
        sent = False
        try:
            self._open(connection, exchange.request)
            self._was_connected = sent = True
            connection.send_packed_command([self._pack(exchange.request)], check_health=False)
        except FAILURES as error:
            connection.disconnect()
            return LostExchange(error, sent)
        return None

    def _receive(self, connection: blocking.AbstractConnection, exchange: Exchange) -> ExchangeReply:
        try:
            count = len(exchange.request.commands)
            if exchange.request.patience_s is not None:
                return _read_wait(connection, count)
            return [_read(connection) for _ in range(count)]
        except FAILURES as error:
            connection.disconnect()
            return LostExchange(error, sent=True)


def _read(connection: blocking.AbstractConnection) -> Any:
    try:
        return connection.read_response(disable_decoding=True)
    except BusyLoadingError:
        raise
    except ResponseError as error:
        return classify(error)


def _read_wait(connection: blocking.AbstractConnection, count: int) -> list[Any]:
    """Read the replies to a request that blocks. After an error all replies are that error."""
    replies = [_read(connection)]
    while len(replies) < count and not isinstance(replies[-1], ResponseError):
        replies.append(_read(connection))
    if len(replies) < count:
        connection.disconnect()
    need_same_server(replies)
    return replies + replies[-1:] * (count - len(replies))


class AsyncClient(_Client):
    """A client for asyncio. It keeps a few connections, which belong to the loop that made them."""

    def __init__(self, endpoint: Endpoint, *, connections: int = 32, **options: Any) -> None:
        super().__init__(endpoint, **options)
        self._free: dict[Node | None, list[aio.AbstractConnection]] = {}
        self._room = asyncio.Semaphore(connections)
        self._waits = asyncio.Semaphore(_MOST_WAITS)
        self._closed = False

    async def run(self, program: Program[T]) -> T:
        """Run a program to its end and return its value. Errors are raised where the program yielded."""
        try:
            item = next(program)
            while True:
                try:
                    value = await self._step(item)
                except BaseException as error:  # noqa: BLE001 - one that is cancelled has steps that end it
                    item = program.throw(error)
                else:
                    item = program.send(value)
        except StopIteration as stop:
            result: T = stop.value
            return result

    async def _step(self, item: Item) -> Any:
        if isinstance(item, Sleep):
            return await asyncio.sleep(item.seconds)
        if isinstance(item, Offload):
            return await asyncio.to_thread(item.work)
        request = request_of(item)
        if self.guard is not None:
            self.guard(request)
        try:
            return self._taken(item, request, await self._exchange(request))
        except rights.MissingRight as refused:
            raise refused.error from None
        except ServerUnreachable as error:
            is_loading = error.cause is UnreachableCause.LOADING
            raise (await self._explain_loading() if is_loading else None) or error from error.__cause__

    async def _explain_loading(self) -> ServerUnreachable | None:
        """Return an error with the progress of a server that loads its data."""
        with contextlib.suppress(QdeckError):
            return loading_error(self.endpoint, await self._exchange(ASK_LOADING))
        return None

    async def close(self) -> None:
        """Close the connections that are not in use."""
        self._closed = True
        for free in self._free.values():
            while free:
                await free.pop().disconnect(nowait=True)

    async def _exchange(self, request: Request) -> list[Any]:
        waits = request.patience_s is not None
        async with self._waits if waits else self._room:
            if self._routes is not None:
                return await self._drive(self._routes.exchange(request, self._retry_timer(request)))
            retries = self._retry_timer(request) if waits else None
            while True:
                reply = await self._send_to(None, request)
                if not isinstance(reply, LostExchange):
                    return reply
                retries = retries or self._retry_timer(request)
                retries.sent = retries.sent or reply.sent
                await asyncio.sleep(retries.next_pause(reply.error, reads=request.reads))

    async def _drive(self, steps: Steps) -> list[Any]:
        """Run the exchanges that a route yields, those of one round at the same time."""
        result: list[ExchangeReply] | None = None
        try:
            while True:
                step = steps.send(result)
                if isinstance(step, float):
                    await asyncio.sleep(step)
                    result = None
                elif len(step) == 1:
                    result = [await self._run_exchange(step[0])]
                else:
                    result = await asyncio.gather(*map(self._run_exchange, step))
        except StopIteration as stop:
            replies: list[Any] = stop.value
            return replies

    async def _run_exchange(self, exchange: Exchange) -> ExchangeReply:
        return await self._send_to(exchange.node, exchange.request)

    async def _open(self, connection: aio.AbstractConnection, request: Request) -> None:
        """Connect if needed, and check the rights for a script that is new to the connection."""
        if not connection.is_connected:
            await connection.connect()
            rights.forget(connection)
        if asked := rights.rights_command(connection, request):
            await connection.send_packed_command(asked, check_health=False)
            rights.check(connection, request, await _aread(connection))

    async def _send_to(self, node: Node | None, request: Request) -> ExchangeReply:
        """Run one exchange on a free connection."""
        free = self._free.setdefault(node, [])
        connection = free.pop() if free else self.endpoint.async_connection(node)
        data, count, sent = self._pack(request), len(request.commands), False
        try:
            async with asyncio.timeout(self.endpoint.timeout) as limit:
                await self._open(connection, request)
                self._was_connected = sent = True
                await connection.send_packed_command(data, check_health=False)
                if request.patience_s is not None:
                    # Only from here: a handshake without an answer must not take as long as the wait.
                    limit.reschedule(asyncio.get_running_loop().time() + request.blocks_s + self.endpoint.timeout)
                    replies = await _aread_wait(connection, count)
                else:
                    replies = [await _aread(connection) for _ in range(count)]
        except FAILURES as error:
            await _drop(connection)
            return LostExchange(error, sent)
        except BaseException:
            await _drop(connection)
            raise
        if self._closed:
            await _drop(connection)
        else:
            free.append(connection)
        return replies


async def _aread(connection: aio.AbstractConnection) -> Any:
    try:
        return await connection.read_response(disable_decoding=True)
    except BusyLoadingError:
        raise
    except ResponseError as error:
        return classify(error)


async def _aread_wait(connection: aio.AbstractConnection, count: int) -> list[Any]:
    """Read the replies to a request that blocks. After an error all replies are that error."""
    replies = [await _aread(connection)]
    while len(replies) < count and not isinstance(replies[-1], ResponseError):
        replies.append(await _aread(connection))
    if len(replies) < count:
        await _drop(connection)
    need_same_server(replies)
    return replies + replies[-1:] * (count - len(replies))


async def _drop(connection: aio.AbstractConnection) -> None:
    with contextlib.suppress(*BROKEN, QdeckError):
        await connection.disconnect(nowait=True)
