"""How a worker waits for what other programs write: tokens that wake it for work, and requests to stop jobs."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, Final

import redis
from redis.exceptions import NoPermissionError, ResponseError

from qdeck._connection import AsyncClient
from qdeck._engine import ops, programs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from redis.asyncio.connection import AbstractConnection

    from qdeck._connection.address import Node
    from qdeck._engine.ops import Program

LONGEST_S: Final = 30.0
# Where a master may change: a server that went silent must not be listened to for long.
LONGEST_OF_MANY_S: Final = 5.0
_LOOK_S: Final = 1.0
_CHANNEL: Final = b"__redis__:invalidate"
_BROKEN: Final = (redis.RedisError, OSError, TimeoutError, asyncio.IncompleteReadError)


class Tokens:
    """Lists of which each holds a token when there may be work; a worker that is woken takes the token."""

    async def wait(
        self, client: AsyncClient, line: AbstractConnection, names: Sequence[bytes], seconds: float
    ) -> list[bytes]:
        """Block on keys of one server; returns those with news for this worker, perhaps none."""
        rung = await client.pop(line, list(names), seconds)
        return [] if rung is None else [rung]

    def take(self, names: Sequence[bytes]) -> Program[list[bytes]]:
        """Return those with news without waiting."""
        replies = yield ops.commands(*((b"LPOP", name) for name in names))
        return [name for name, reply in zip(names, _checked(replies), strict=True) if reply is not None]


class Requests:
    """Streams of requests to stop jobs, each entry with the workers that hold some. All workers read all entries."""

    def __init__(self, worker: str) -> None:
        self._worker = worker.encode()
        self._first = b"0"
        self._read: dict[bytes, bytes] = {}  # stream → the last entry that was read

    def start_at(self, now_ms: int) -> None:
        """Read what comes after a moment of the server's clock."""
        self._first = b"%d" % max(0, now_ms)
        self._read.clear()

    async def wait(
        self, client: AsyncClient, line: AbstractConnection, names: Sequence[bytes], seconds: float
    ) -> list[bytes]:
        """Block on keys of one server; returns those with news for this worker, perhaps none."""
        after = (self._read.get(name, self._first) for name in names)
        command = (b"XREAD", b"BLOCK", b"%d" % max(1, round(seconds * 1000)), b"STREAMS", *names, *after)
        reply = await client.block(line, command, seconds)
        return [name for name, entries in reply or () if self._is_asked(name, entries)]

    def take(self, names: Sequence[bytes]) -> Program[list[bytes]]:
        """Return those with news without waiting."""
        replies = yield ops.commands(
            *((b"XRANGE", name, b"(" + self._read.get(name, self._first), b"+") for name in names), reads=True
        )
        return [
            name
            for name, entries in zip(names, _checked(replies), strict=True)
            if isinstance(entries, list) and self._is_asked(name, entries)
        ]

    def _is_asked(self, name: bytes, entries: list[Any]) -> bool:
        asked = False
        for entry_id, fields in entries:
            self._read[name] = entry_id
            asked = asked or any(self._worker in field.split() for field in fields or ())
        return asked


def make_ear(client: AsyncClient, news: Tokens | Requests) -> Ear | ClusterEar:
    """The ear for what a client is connected to."""
    return ClusterEar(client, news) if client.endpoint.is_cluster else Ear(client, news)


class Ear:
    """Blocks on the bells of one server, on a connection of its own."""

    def __init__(self, client: AsyncClient, news: Tokens | Requests) -> None:
        self._client = client
        self._news = news
        self._line: AbstractConnection | None = None
        self._longest = LONGEST_OF_MANY_S if client.has_several else LONGEST_S

    async def hear(self, bells: Sequence[bytes]) -> list[bytes]:
        """The bell that rang, of several the first one named; none after a while."""
        if self._line is None:
            self._line = await self._client.line(bells[0])
        return await self._news.wait(self._client, self._line, bells, self._longest)

    async def close(self) -> None:
        """Hangs up; the next `hear` connects again, to whoever has the bells then."""
        self._client.doubt()
        line, self._line = self._line, None
        if line is not None:
            await _hang_up(line)


class _Line:
    """A connection that one server of a cluster tells of changes to some of its keys."""

    def __init__(self, connection: AbstractConnection, bells: set[bytes]) -> None:
        self.connection = connection
        self.bells = bells
        self.reading: asyncio.Task[Any] | None = None

    def read(self) -> asyncio.Task[Any]:
        """The next message; a wait that was over meanwhile goes on."""
        if self.reading is None:
            self.reading = asyncio.create_task(self._next())
            self.reading.add_done_callback(_note)
        return self.reading

    async def _next(self) -> Any:
        return await self.connection.read_response(disable_decoding=True)

    async def close(self) -> None:
        """Hangs up without waiting for anything, so that whoever is cancelled meanwhile leaves nothing open."""
        if self.reading is not None:
            self.reading.cancel()
        await _hang_up(self.connection)


class ClusterEar:
    """Hears the bells of a cluster, on one connection to each server that has some.

    A server refuses to block on keys of two slots. But it tells a client that follows keys (`CLIENT TRACKING`, sent to
    a subscription on the same connection) when one of them changes, whatever their slots. All idle workers hear it,
    and one of them gets the token.
    """

    def __init__(self, client: AsyncClient, news: Tokens | Requests) -> None:
        self._news = news
        # A token whose answer was lost is lost: without patience that is an error, and the worker looks by itself.
        self._client = AsyncClient(client.endpoint, patience=0.0)
        self._lines: dict[Node, _Line] = {}
        self._deaf = False

    async def hear(self, bells: Sequence[bytes]) -> list[bytes]:
        """The bells that rang; none after a while."""
        if not self._deaf:
            await self._tune(await self._client.places(bells))
        loop = asyncio.get_running_loop()
        until = loop.time() + LONGEST_OF_MANY_S
        changed: Sequence[bytes] = bells
        while True:
            if changed and (rung := await self._client.run(self._news.take(changed))):
                return rung
            left = until - loop.time()
            if left <= 0:
                return []
            if self._deaf:
                await asyncio.sleep(min(left, _LOOK_S))
                changed = bells
            else:
                changed = await self._changes(left)

    async def close(self) -> None:
        """Hangs up; the next `hear` connects again, to whoever has the bells then."""
        lines, self._lines = self._lines, {}
        for line in lines.values():
            await line.close()
        client, self._client = self._client, AsyncClient(self._client.endpoint, patience=0.0)
        await client.close()

    async def _tune(self, places: dict[Node, list[bytes]]) -> None:
        """Follows the bells where they are now."""
        for node, line in list(self._lines.items()):
            if set(places.get(node, ())) != line.bells:
                del self._lines[node]
                await line.close()
        for node, bells in places.items():
            if node not in self._lines:
                connection = self._client.endpoint.async_connection(node)
                try:
                    async with asyncio.timeout(self._client.endpoint.timeout):
                        await _follow(connection, bells)
                except NoPermissionError:
                    # The user may not: then the bells are looked at every second.
                    self._deaf = True
                    await _hang_up(connection)
                    return
                except BaseException:
                    await _hang_up(connection)
                    raise
                self._lines[node] = _Line(connection, set(bells))

    async def _changes(self, seconds: float) -> list[bytes]:
        """Bells that changed, because one rang or because somebody took its token; raises when a line broke."""
        lines = list(self._lines.values())
        done, _ = await asyncio.wait(
            [line.read() for line in lines], timeout=seconds, return_when=asyncio.FIRST_COMPLETED
        )
        changed: list[bytes] = []
        for line in lines:
            if line.reading in done:
                message, line.reading = line.reading.result(), None
                names = message[2] if message[0] == b"message" else ()
                # Without names, all keys changed: the server was emptied.
                changed += line.bells if names is None else [name for name in names if name in line.bells]
        return changed


def _checked(replies: list[Any]) -> list[Any]:
    for reply in replies:
        if isinstance(reply, ResponseError):
            raise programs.explain(reply)
    return replies


async def _follow(connection: AbstractConnection, bells: Sequence[bytes]) -> None:
    await connection.connect()
    await connection.send_command(b"CLIENT", b"ID", check_health=False)
    own = await connection.read_response(disable_decoding=True)
    words = [word for bell in bells for word in (b"PREFIX", bell)]
    await connection.send_command(b"CLIENT", b"TRACKING", b"ON", b"REDIRECT", own, b"BCAST", *words, check_health=False)
    await connection.read_response(disable_decoding=True)
    await connection.send_command(b"SUBSCRIBE", _CHANNEL, check_health=False)
    await connection.read_response(disable_decoding=True)


def _note(task: asyncio.Task[Any]) -> None:
    """Takes note of how a reading ended that nobody waits for any more."""
    if not task.cancelled():
        task.exception()


async def _hang_up(line: AbstractConnection) -> None:
    with contextlib.suppress(*_BROKEN):
        await line.disconnect(nowait=True)
