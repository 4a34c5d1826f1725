"""Endpoints: make connections to the one server of a URL, or to one of several."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final
from urllib.parse import urlsplit

import redis
import redis.asyncio.connection as aio
import redis.connection as blocking
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.exceptions import ResponseError
from redis.retry import Retry

from qdeck._redis.address import Address, Node, Topology, mask_url, read_url
from qdeck._version import __version__

TIMEOUT: Final = 5.0
_NO_TOUCH: Final = ("CLIENT", "NO-TOUCH", "ON")


def _library() -> dict[str, Any]:
    """Return the options that name this library in CLIENT LIST.

    With the version given, redis-py need not look it up among the installed packages for each connection, which takes
    longer than connecting.
    """
    try:
        from redis.driver_info import DriverInfo
    except ImportError:  # redis-py before 7.2
        return {"lib_name": f"redis-py(qdeck_v{__version__})", "lib_version": redis.__version__}
    return {"driver_info": DriverInfo(lib_version=redis.__version__).add_upstream_driver("qdeck", __version__)}


_LIBRARY: Final = _library()


@dataclass(frozen=True)
class Endpoint:
    """The server or servers of a URL. Makes connections; never shows the password.

    `untouched`: reads do not count as use of a key, so that a reader does not keep idle keys alive.
    """

    url: str = field(repr=False)
    timeout: float = TIMEOUT
    untouched: bool = False

    def __post_init__(self) -> None:
        # A time-out in the URL applies to both clients: asyncio's connections have none of their own.
        object.__setattr__(self, "timeout", self.address.options.get("socket_timeout", self.timeout))

    def __str__(self) -> str:
        return mask_url(self.url)

    @cached_property
    def address(self) -> Address:
        """Return the URL as it was read."""
        return read_url(self.url)

    @property
    def hosts(self) -> str:
        """Return the hosts and ports as the URL has them, without user and password; empty for a socket file."""
        return urlsplit(str(self)).netloc.rpartition("@")[2]

    @property
    def is_cluster(self) -> bool:
        """Return whether keys live on several servers."""
        return self.address.kind is Topology.CLUSTER

    @property
    def db(self) -> int:
        """Return the number of the database; a cluster has only 0."""
        return int(self.address.options.get("db") or 0)

    def blocking_connection(self, node: Node | None = None, *, blocks_s: float = 0.0) -> blocking.AbstractConnection:
        """Return a new connection for blocking code, not connected yet. With several servers, `node` is one of them.

        Commands sent on it may block on the server for `blocks_s`: the time-out of its reads is so much longer.
        """
        options = self._options(node)
        kind = options.pop("connection_class", blocking.Connection)
        options["socket_timeout"] = self.timeout + blocks_s
        options.setdefault("socket_connect_timeout", self.timeout)
        if self.untouched:
            options["redis_connect_func"] = _leave_untouched
        connection: blocking.AbstractConnection = kind(retry=Retry(NoBackoff(), 0), **_LIBRARY, **options)
        return connection

    def async_connection(self, node: Node | None = None) -> aio.AbstractConnection:
        """Return a new connection for asyncio, not connected yet. Timeouts are the client's, not the connection's."""
        options = self._options(node)
        kind = options.pop("connection_class", None)
        options.update(socket_timeout=None)
        options.setdefault("socket_connect_timeout", self.timeout)
        if kind is blocking.SSLConnection:
            made: type[aio.AbstractConnection] = aio.SSLConnection
        elif kind is blocking.UnixDomainSocketConnection:
            made = aio.UnixDomainSocketConnection
        else:
            made = aio.Connection
        if self.untouched:
            options["redis_connect_func"] = _aleave_untouched
        return made(retry=AsyncRetry(NoBackoff(), 0), **_LIBRARY, **options)

    def _options(self, node: Node | None) -> dict[str, Any]:
        address = self.address
        if node is None:
            if address.kind is not Topology.SERVER:
                raise ValueError(f"{self} stands for several servers: name one of them")
            return dict(address.options)
        options = address.sentinel_options if node.sentinel else address.options
        return {**options, "host": node.host, "port": node.port}


def is_connected(connection: blocking.AbstractConnection) -> bool:
    """Return whether a blocking connection is open. redis-py has a public property for it only since version 8."""
    return getattr(connection, "_sock", None) is not None


def _leave_untouched(connection: Any) -> None:
    connection.on_connect()
    connection.send_command(*_NO_TOUCH, check_health=False)
    with contextlib.suppress(ResponseError):  # a server before 7.2, or no right to it
        connection.read_response()


async def _aleave_untouched(connection: Any) -> None:
    await connection.on_connect()
    await connection.send_command(*_NO_TOUCH, check_health=False)
    with contextlib.suppress(ResponseError):
        await connection.read_response()
