"""Connections: where the server is, and two clients, blocking and asyncio, that run the same programs.

A write is never left to a library's silent retries. Each step is idempotent, so these clients send it again themselves
after a lost answer, for `patience` seconds; what is still unanswered then is told as `OutcomeUnknown`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import urlsplit, urlunsplit

import redis
import redis.asyncio.connection as aio
import redis.connection as blocking
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.exceptions import (
    AuthenticationError,
    AuthenticationWrongNumberOfArgsError,
    AuthorizationError,
    BusyLoadingError,
    InvalidResponse,
    ResponseError,
)
from redis.retry import Retry

from qdeck._engine import programs
from qdeck._errors import InvalidOption, NotAllowed, OutcomeUnknown, QdeckError, ServerUnreachable

if TYPE_CHECKING:
    from qdeck._engine.ops import Program, Send

T = TypeVar("T")
PATIENCE: Final = 30.0
TIMEOUT: Final = 5.0
_DENIED: Final = (AuthenticationError, AuthenticationWrongNumberOfArgsError, AuthorizationError)
# Answers to the handshake that no second try changes: no such database, no Redis server, no possible host name.
_WRONG_PLACE: Final = (ResponseError, InvalidResponse, UnicodeError)
# The classes of redis-py and those of the system underneath: a connection that is no use any more.
_BROKEN: Final = (redis.ConnectionError, redis.TimeoutError, OSError, asyncio.IncompleteReadError)


def mask_url(url: str) -> str:
    """The URL without its password, for screens, logs and errors."""
    try:
        parts = urlsplit(url)
        if parts.password is None and "@" not in parts.netloc:
            return urlunsplit(parts._replace(query=""))
        host = parts.netloc.rpartition("@")[2]
        user = parts.username or ""
        return urlunsplit(parts._replace(netloc=f"{user}:***@{host}", query=""))
    except ValueError:
        return "(unreadable URL)"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where the server is. Makes connections; never shows the password."""

    url: str = field(repr=False)
    timeout: float = TIMEOUT

    def __post_init__(self) -> None:
        self._options()

    def __str__(self) -> str:
        return mask_url(self.url)

    def _options(self) -> dict[str, Any]:
        hint = "write redis://[user:password@]host:port[/db], rediss://… for TLS, or unix:///path"
        try:
            options: dict[str, Any] = dict(blocking.parse_url(self.url))
            parts = urlsplit(self.url)
            port = parts.port if parts.port is not None else 6379
            if parts.scheme != "unix" and parts.path.strip("/") and not parts.path.strip("/").isdigit():
                raise ValueError("the database is not a number")
        except ValueError as error:
            raise InvalidOption(f"{mask_url(self.url)!r} is not a server URL", hint=hint) from error
        if not 0 < port < 65536:
            raise InvalidOption(f"{mask_url(self.url)!r} is not a server URL: port {port}", hint=hint)
        options.update(protocol=2, decode_responses=False)
        return options

    def blocking_connection(self) -> blocking.AbstractConnection:
        """A new connection for blocking code, not connected yet."""
        options = self._options()
        kind = options.pop("connection_class", blocking.Connection)
        options.setdefault("socket_timeout", self.timeout)
        options.setdefault("socket_connect_timeout", self.timeout)
        connection: blocking.AbstractConnection = kind(retry=Retry(NoBackoff(), 0), **options)
        return connection

    def async_connection(self) -> aio.AbstractConnection:
        """A new connection for asyncio, not connected yet. Time-outs are the client's, not the connection's."""
        options = self._options()
        kind = options.pop("connection_class", None)
        options.update(socket_timeout=None)
        options.setdefault("socket_connect_timeout", self.timeout)
        if kind is blocking.SSLConnection:
            made: type[aio.AbstractConnection] = aio.SSLConnection
        elif kind is blocking.UnixDomainSocketConnection:
            made = aio.UnixDomainSocketConnection
        else:
            made = aio.Connection
        return made(retry=AsyncRetry(NoBackoff(), 0), **options)


class _Effort:
    """How long one exchange has been tried, and what to say when patience is over."""

    def __init__(self, endpoint: Endpoint, patience: float, *, met: bool) -> None:
        self._endpoint = endpoint
        # A client that never reached the server has a wrong address more often than a server that is coming back.
        self._until = time.monotonic() + (patience if met else 0.0)
        self._pause = 0.01
        self.sent = False

    def next_pause(self, error: BaseException, *, reads: bool) -> float:
        """Seconds to wait before the next try; raises when there is none."""
        if isinstance(error, _DENIED):
            raise NotAllowed(
                f"{self._endpoint} refuses the user or password: {error}",
                hint="check user and password in the URL (QDECK_URL), or the server's ACL",
            ) from error
        if isinstance(error, _WRONG_PLACE):
            raise _explain(self._endpoint, error) from error
        if time.monotonic() >= self._until:
            if self.sent and not reads:
                raise OutcomeUnknown(
                    f"{self._endpoint} did not answer: what was sent may or may not have happened",
                    hint="it is safe to repeat with the same id",
                ) from error
            raise ServerUnreachable(
                f"{self._endpoint} cannot be reached: {_reason(error)}",
                hint="is the server running, and is the address right?",
            ) from error
        pause, self._pause = self._pause, min(self._pause * 2, 0.5)
        return pause


def _explain(endpoint: Endpoint, error: BaseException) -> QdeckError:
    """What goes wrong with a handshake is no reply for a program to read, but raised by the driver."""
    if isinstance(error, ResponseError):
        if "DB index" in str(error):
            hint = "the number at the end of the URL is too large: see `databases` in the server's configuration"
            return InvalidOption(f"{endpoint} names a database that the server does not have", hint=hint)
        return programs.explain(error)
    if isinstance(error, InvalidResponse):
        hint = "is this the address of a Redis or Valkey server, and does it want rediss:// (TLS)?"
        return ServerUnreachable(f"{endpoint} does not answer as a Redis server does: {_reason(error)}", hint=hint)
    return InvalidOption(
        f"{endpoint} has a host name that cannot be looked up: {_reason(error)}", hint="check the URL for typing errors"
    )


def _reason(error: BaseException) -> str:
    return str(error).rstrip(".") or type(error).__name__


class SyncClient:
    """Runs programs in blocking code. Threads may share it; each has a connection of its own."""

    def __init__(self, endpoint: Endpoint, *, patience: float = PATIENCE) -> None:
        self.endpoint = endpoint
        self.patience = patience
        self._local = threading.local()
        self._met = False

    def run(self, program: Program[T]) -> T:
        """Runs a program to its end and returns its value."""
        try:
            send = next(program)
            while True:
                send = program.send(self._exchange(send))
        except StopIteration as stop:
            value: T = stop.value
            return value

    def close(self) -> None:
        """Closes this thread's connection; those of other threads close with their threads."""
        connection = self._local.__dict__.pop("connection", None)
        if connection is not None:
            connection.disconnect()

    def _connection(self) -> blocking.AbstractConnection:
        held = self._local.__dict__
        if "connection" not in held or held["pid"] != os.getpid():
            held["connection"], held["pid"] = self.endpoint.blocking_connection(), os.getpid()
        connection: blocking.AbstractConnection = held["connection"]
        return connection

    def _exchange(self, send: Send) -> list[Any]:
        effort: _Effort | None = None
        while True:
            connection = self._connection()
            sent = False
            try:
                if not connection.is_connected:
                    connection.connect()
                self._met = sent = True
                connection.send_packed_command([send.data], check_health=False)
                return [_read(connection) for _ in range(send.count)]
            except (*_BROKEN, *_WRONG_PLACE, BusyLoadingError) as error:
                connection.disconnect()
                effort = effort or _Effort(self.endpoint, self.patience, met=self._met)
                effort.sent = effort.sent or sent
                time.sleep(effort.next_pause(error, reads=send.reads))
            except BaseException:
                # Cut off in the middle (Ctrl-C): a reply still on its way must not be taken for the next one's.
                connection.disconnect()
                raise


def _read(connection: blocking.AbstractConnection) -> Any:
    try:
        return connection.read_response(disable_decoding=True)
    except BusyLoadingError:
        raise
    except ResponseError as error:
        return error


class AsyncClient:
    """Runs programs in asyncio. Keeps a few connections, which belong to the loop that made them."""

    def __init__(self, endpoint: Endpoint, *, patience: float = PATIENCE, connections: int = 32) -> None:
        self.endpoint = endpoint
        self.patience = patience
        self._free: list[aio.AbstractConnection] = []
        self._room = asyncio.Semaphore(connections)
        self._met = False
        self._closed = False

    async def run(self, program: Program[T]) -> T:
        """Runs a program to its end and returns its value."""
        try:
            send = next(program)
            while True:
                send = program.send(await self._exchange(send))
        except StopIteration as stop:
            value: T = stop.value
            return value

    async def close(self) -> None:
        """Closes the connections that are not in use."""
        self._closed = True
        while self._free:
            await self._free.pop().disconnect(nowait=True)

    async def pop(self, connection: aio.AbstractConnection, names: list[bytes], seconds: float) -> bytes | None:
        """Blocks on lists until one has an element, at most `seconds`; returns the list's name."""
        timeout = b"%.3f" % max(seconds, 0.001)
        # A server that takes connections and does not answer the handshake must not make the listener deaf for ever.
        async with asyncio.timeout(self.endpoint.timeout):
            await connection.connect()
            self._met = True
            await connection.send_command(b"BLPOP", *names, timeout, check_health=False)
        async with asyncio.timeout(seconds + self.endpoint.timeout):
            reply = await connection.read_response(disable_decoding=True)
        return reply[0] if reply else None

    async def _exchange(self, send: Send) -> list[Any]:
        effort: _Effort | None = None
        async with self._room:
            while True:
                connection = self._free.pop() if self._free else self.endpoint.async_connection()
                sent = False
                try:
                    async with asyncio.timeout(self.endpoint.timeout):
                        if not connection.is_connected:
                            await connection.connect()
                        self._met = sent = True
                        await connection.send_packed_command(send.data, check_health=False)
                        replies = [await _aread(connection) for _ in range(send.count)]
                except (*_BROKEN, *_WRONG_PLACE, TimeoutError, BusyLoadingError) as error:
                    await _drop(connection)
                    effort = effort or _Effort(self.endpoint, self.patience, met=self._met)
                    effort.sent = effort.sent or sent
                    await asyncio.sleep(effort.next_pause(error, reads=send.reads))
                    continue
                except BaseException:
                    await _drop(connection)
                    raise
                if self._closed:
                    await _drop(connection)
                else:
                    self._free.append(connection)
                return replies


async def _aread(connection: aio.AbstractConnection) -> Any:
    try:
        return await connection.read_response(disable_decoding=True)
    except BusyLoadingError:
        raise
    except ResponseError as error:
        return error


async def _drop(connection: aio.AbstractConnection) -> None:
    with contextlib.suppress(*_BROKEN, QdeckError):
        await connection.disconnect(nowait=True)
