"""Two clients, blocking and asyncio, that run the same programs."""

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
from qdeck._redis.address import Kind, Node
from qdeck._redis.commands import Offload, Pause, Request, pack, request_of
from qdeck._redis.effort import ASK_LOADING, BROKEN, TROUBLE, Effort, loading_error, need_same_server
from qdeck._redis.endpoint import is_connected
from qdeck._redis.errors import classify, explain
from qdeck._redis.routes import Lost, Routes, SentinelRoutes, Talk

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import redis.asyncio.connection as aio
    import redis.connection as blocking

    from qdeck._redis.commands import Item, Program
    from qdeck._redis.endpoint import Endpoint
    from qdeck._redis.routes import Heard, Steps

T = TypeVar("T")
PATIENCE: Final = 30.0
LONGEST_WAIT_S: Final = 5.0  # how long a command may block in blocking code: a silent connection is noticed after it
_MOST_WAITS: Final = 512  # commands that block at the same time, of one event loop


def _routes(endpoint: Endpoint) -> Routes | None:
    kind = endpoint.address.kind
    if kind is Kind.SENTINEL:
        return SentinelRoutes(endpoint)
    if kind is not Kind.CLUSTER:
        return None
    from qdeck._redis.cluster import ClusterRoutes

    return ClusterRoutes(endpoint)


class _Client:
    """What both clients are made with.

    `guard` is called before each request, and what it raises is raised in the program; `on_request` with the number of
    commands and bytes of whatever is sent.
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
        self._met = False

    def _effort(self, request: Request) -> Effort:
        if request.patience_s is not None:
            return Effort(self.endpoint, request.patience_s, met=True)
        return Effort(self.endpoint, self.patience, met=self._met)

    def _pack(self, request: Request) -> bytes:
        data = pack(request.commands)
        if self.on_request is not None:
            self.on_request(len(request.commands), len(data))
        return data

    def _taken(self, item: Item, request: Request, replies: list[Any]) -> Any:
        """Return what a program gets for what it yielded; raises the first error reply, unless it asked for errors."""
        for at, reply in enumerate(replies):
            if isinstance(reply, ResponseError):
                command = request.commands[at]
                error = explain(reply, command)
                if command[0] == b"TIME" and isinstance(error, NotAllowed):
                    self.clock_denied = True
                if not request.ask:
                    raise error
                replies[at] = error
        return replies[0] if type(item) is tuple else replies


class SyncClient(_Client):
    """Runs programs in blocking code. Threads may share it; each has connections of its own."""

    def __init__(self, endpoint: Endpoint, **options: Any) -> None:
        super().__init__(endpoint, **options)
        self._local = threading.local()

    def run(self, program: Program[T]) -> T:
        """Run a program to its end and return its value. What goes wrong is raised where the program yielded."""
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
        if isinstance(item, Pause):
            return time.sleep(item.seconds)
        if isinstance(item, Offload):
            return item.work()
        request = request_of(item)
        if self.guard is not None:
            self.guard(request)
        try:
            return self._taken(item, request, self._exchange(request))
        except rights.Refused as refused:
            raise refused.error from None
        except ServerUnreachable as error:
            is_loading = error.cause is UnreachableCause.LOADING
            raise (self._explain_loading() if is_loading else None) or error from error.__cause__

    def _explain_loading(self) -> ServerUnreachable | None:
        """Return an error that says how far the server is with loading its data, if it can be asked."""
        with contextlib.suppress(QdeckError):
            return loading_error(self.endpoint, self._exchange(ASK_LOADING))
        return None

    def close(self) -> None:
        """Closes this thread's connections; those of other threads close with their threads."""
        for connection in self._local.__dict__.pop("connections", {}).values():
            connection.disconnect()

    def _connection(self, node: Node | None, request: Request) -> blocking.AbstractConnection:
        held = self._local.__dict__
        if "connections" not in held or held["pid"] != os.getpid():
            held["connections"], held["pid"] = {}, os.getpid()
        found: dict[tuple[Node | None, bool], blocking.AbstractConnection] = held["connections"]
        # One that waits has a connection of its own, whose reads have more time.
        place = node, request.patience_s is not None
        if place not in found:
            found[place] = self.endpoint.blocking_connection(node, blocks_s=LONGEST_WAIT_S if place[1] else 0.0)
        return found[place]

    def _exchange(self, request: Request) -> list[Any]:
        if self._routes is not None:
            return self._drive(self._routes.exchange(request, self._effort(request)))
        waits = request.patience_s is not None
        effort = self._effort(request) if waits else None
        data, count = self._pack(request), len(request.commands)
        while True:
            line = self._connection(None, request)
            sent = False
            # As `_hear` does for several, without a list of one: most calls of most programs go this way.
            try:
                self._open(line, request)
                self._met = sent = True
                line.send_packed_command([data], check_health=False)
                return _read_wait(line, count) if waits else [_read(line) for _ in range(count)]
            except TROUBLE as error:
                line.disconnect()
                heard = Lost(error, sent)
            except BaseException:
                # Cut off in the middle (Ctrl-C): a reply still on its way must not be taken for the next one's.
                line.disconnect()
                raise
            effort = effort or self._effort(request)
            effort.sent = effort.sent or heard.sent
            time.sleep(effort.next_pause(heard.error, reads=request.reads))

    def _drive(self, steps: Steps) -> list[Any]:
        """Has the talks that a route asks for."""
        came: list[Heard] | None = None
        try:
            while True:
                wish = steps.send(came)
                if isinstance(wish, float):
                    time.sleep(wish)
                    came = None
                else:
                    came = self._hear(wish)
        except StopIteration as stop:
            replies: list[Any] = stop.value
            return replies

    def _open(self, line: blocking.AbstractConnection, request: Request) -> None:
        """Connect if that is to be done, and check the rights for a script that is new to the connection."""
        if not is_connected(line):
            line.connect()
            rights.forget(line)
        if asked := rights.question(line, request):
            line.send_packed_command([asked], check_health=False)
            rights.check(line, request, _read(line))

    def _hear(self, talks: Sequence[Talk]) -> list[Heard]:
        """Sends to all, then reads from all, so that the servers work at the same time."""
        lines = [self._connection(talk.node, talk.request) for talk in talks]
        try:
            lost = [self._say(line, talk) for line, talk in zip(lines, talks, strict=True)]
            return [
                self._listen(line, talk) if gone is None else gone
                for line, gone, talk in zip(lines, lost, talks, strict=True)
            ]
        except BaseException:
            for line in lines:
                line.disconnect()
            raise

    def _say(self, line: blocking.AbstractConnection, talk: Talk) -> Lost | None:
        sent = False
        try:
            self._open(line, talk.request)
            self._met = sent = True
            line.send_packed_command([self._pack(talk.request)], check_health=False)
        except TROUBLE as error:
            line.disconnect()
            return Lost(error, sent)
        return None

    def _listen(self, line: blocking.AbstractConnection, talk: Talk) -> Heard:
        try:
            count = len(talk.request.commands)
            if talk.request.patience_s is not None:
                return _read_wait(line, count)
            return [_read(line) for _ in range(count)]
        except TROUBLE as error:
            line.disconnect()
            return Lost(error, sent=True)


def _read(connection: blocking.AbstractConnection) -> Any:
    try:
        return connection.read_response(disable_decoding=True)
    except BusyLoadingError:
        raise
    except ResponseError as error:
        return classify(error)


def _read_wait(line: blocking.AbstractConnection, count: int) -> list[Any]:
    """Read the replies to a request that blocks. After an error nothing is waited for: all replies are that error."""
    replies = [_read(line)]
    while len(replies) < count and not isinstance(replies[-1], ResponseError):
        replies.append(_read(line))
    if len(replies) < count:
        line.disconnect()
    need_same_server(replies)
    return replies + replies[-1:] * (count - len(replies))


class AsyncClient(_Client):
    """Runs programs in asyncio. Keeps a few connections, which belong to the loop that made them."""

    def __init__(self, endpoint: Endpoint, *, connections: int = 32, **options: Any) -> None:
        super().__init__(endpoint, **options)
        self._free: dict[Node | None, list[aio.AbstractConnection]] = {}
        self._room = asyncio.Semaphore(connections)
        self._waits = asyncio.Semaphore(_MOST_WAITS)
        self._closed = False

    async def run(self, program: Program[T]) -> T:
        """Run a program to its end and return its value. What goes wrong is raised where the program yielded."""
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
        if isinstance(item, Pause):
            return await asyncio.sleep(item.seconds)
        if isinstance(item, Offload):
            return await asyncio.to_thread(item.work)
        request = request_of(item)
        if self.guard is not None:
            self.guard(request)
        try:
            return self._taken(item, request, await self._exchange(request))
        except rights.Refused as refused:
            raise refused.error from None
        except ServerUnreachable as error:
            is_loading = error.cause is UnreachableCause.LOADING
            raise (await self._explain_loading() if is_loading else None) or error from error.__cause__

    async def _explain_loading(self) -> ServerUnreachable | None:
        """Return an error that says how far the server is with loading its data, if it can be asked."""
        with contextlib.suppress(QdeckError):
            return loading_error(self.endpoint, await self._exchange(ASK_LOADING))
        return None

    async def close(self) -> None:
        """Closes the connections that are not in use."""
        self._closed = True
        for free in self._free.values():
            while free:
                await free.pop().disconnect(nowait=True)

    async def _exchange(self, request: Request) -> list[Any]:
        waits = request.patience_s is not None
        async with self._waits if waits else self._room:
            if self._routes is not None:
                return await self._drive(self._routes.exchange(request, self._effort(request)))
            effort = self._effort(request) if waits else None
            while True:
                heard = await self._hear(None, request)
                if not isinstance(heard, Lost):
                    return heard
                effort = effort or self._effort(request)
                effort.sent = effort.sent or heard.sent
                await asyncio.sleep(effort.next_pause(heard.error, reads=request.reads))

    async def _drive(self, steps: Steps) -> list[Any]:
        """Has the talks that a route asks for, those of one round at the same time."""
        came: list[Heard] | None = None
        try:
            while True:
                wish = steps.send(came)
                if isinstance(wish, float):
                    await asyncio.sleep(wish)
                    came = None
                elif len(wish) == 1:
                    came = [await self._talk(wish[0])]
                else:
                    came = await asyncio.gather(*map(self._talk, wish))
        except StopIteration as stop:
            replies: list[Any] = stop.value
            return replies

    async def _talk(self, talk: Talk) -> Heard:
        return await self._hear(talk.node, talk.request)

    async def _open(self, line: aio.AbstractConnection, request: Request) -> None:
        """Connect if that is to be done, and check the rights for a script that is new to the connection."""
        if not line.is_connected:
            await line.connect()
            rights.forget(line)
        if asked := rights.question(line, request):
            await line.send_packed_command(asked, check_health=False)
            rights.check(line, request, await _aread(line))

    async def _hear(self, node: Node | None, request: Request) -> Heard:
        """One talk on a connection that nobody uses meanwhile."""
        free = self._free.setdefault(node, [])
        connection = free.pop() if free else self.endpoint.async_connection(node)
        data, count, sent = self._pack(request), len(request.commands), False
        try:
            async with asyncio.timeout(self.endpoint.timeout) as limit:
                await self._open(connection, request)
                self._met = sent = True
                await connection.send_packed_command(data, check_health=False)
                if request.patience_s is not None:
                    # Only from here: a handshake without an answer must not take as long as the wait.
                    limit.reschedule(asyncio.get_running_loop().time() + request.blocks_s + self.endpoint.timeout)
                    replies = await _aread_wait(connection, count)
                else:
                    replies = [await _aread(connection) for _ in range(count)]
        except TROUBLE as error:
            await _drop(connection)
            return Lost(error, sent)
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


async def _aread_wait(line: aio.AbstractConnection, count: int) -> list[Any]:
    """Read the replies to a request that blocks. After an error nothing is waited for: all replies are that error."""
    replies = [await _aread(line)]
    while len(replies) < count and not isinstance(replies[-1], ResponseError):
        replies.append(await _aread(line))
    if len(replies) < count:
        await _drop(line)
    need_same_server(replies)
    return replies + replies[-1:] * (count - len(replies))


async def _drop(connection: aio.AbstractConnection) -> None:
    with contextlib.suppress(*BROKEN, QdeckError):
        await connection.disconnect(nowait=True)
