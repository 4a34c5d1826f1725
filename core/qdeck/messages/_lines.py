"""Waiting for an answer: lists are looked at without taking from them, so that a broken connection loses nothing.

`BLMOVE name name LEFT LEFT` turns a list of one entry around to itself: it blocks until there is one, returns it, and
leaves it there. So a reader whose connection broke in the middle asks again.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import threading
import time
from typing import TYPE_CHECKING, Any, Final

import redis
from redis.exceptions import (
    AskError,
    ClusterDownError,
    MasterDownError,
    MovedError,
    ReadOnlyError,
    ResponseError,
    TryAgainError,
)

from qdeck._connection.address import Kind
from qdeck._connection.endpoint import is_connected
from qdeck._engine import programs
from qdeck._engine.ops import pack

if TYPE_CHECKING:
    import redis.asyncio.connection as aio
    import redis.connection as blocking

    from qdeck._connection import AsyncClient, SyncClient
    from qdeck._engine.ops import Arg

PIECE_S: Final = 5.0  # a connection that went silent is noticed after so long
MOST: Final = 512  # answers that one loop waits for at the same time
_BROKEN: Final = (redis.ConnectionError, redis.TimeoutError, OSError, TimeoutError, asyncio.IncompleteReadError)
# What a server says that does not have the key any more, or not yet: another one has it.
_MOVES: Final = (MovedError, AskError, ReadOnlyError, ClusterDownError, TryAgainError, MasterDownError)
_ELSEWHERE: Final = ("MOVED", "ASK", "READONLY", "CLUSTERDOWN", "TRYAGAIN", "MASTERDOWN", "UNBLOCKED", "LOADING")


def _peek(name: str, seconds: float) -> tuple[Arg, ...]:
    return (b"BLMOVE", name, name, b"LEFT", b"LEFT", b"%.3f" % max(seconds, 0.001))


def _pop(name: str, seconds: float) -> tuple[Arg, ...]:
    return (b"BLPOP", name, b"%.3f" % max(seconds, 0.001))


_Place = tuple[str, int]
_ONE: Final[_Place] = ("", 0)  # where there is one server only


def _is_elsewhere(error: ResponseError) -> bool:
    # The classes of some of these errors lose the word that the server said first.
    return isinstance(error, _MOVES) or str(error).startswith(_ELSEWHERE)


def _pause() -> float:
    return random.uniform(0.02, 0.2)  # noqa: S311 - spreads reconnects, guards nothing


class AsyncLines:
    """Connections of one loop that block on lists."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client
        self._endpoint = client.endpoint
        self._is_one = client.endpoint.address.kind is Kind.SERVER
        self._free: dict[_Place, list[aio.AbstractConnection]] = {}
        self._room = asyncio.Semaphore(MOST)
        self._closed = False

    async def peek(self, name: str, until: float) -> bytes | None:
        """The first entry of a list as soon as there is one, which stays there; None when the time is over."""
        found: bytes | None = await self.ask(_peek, name, until)
        return found

    async def send_and_peek(self, steps: bytes, name: str, until: float) -> tuple[Any, bytes | None] | None:
        """Two steps and the first look, in one round trip: the first answer and what was seen.

        None when anything was wrong: then the steps may have happened or not, and are to be sent again. On a cluster,
        where their keys are on several servers, nothing is sent; and nothing on a new connection, since the client
        checks the rights for the steps first.
        """
        if self._endpoint.is_cluster:
            return None
        async with self._room:
            line = await self._line(name)
            if not line.is_connected:
                await self._keep(line)
                return None
            piece = min(max(0.0, until - time.monotonic()), PIECE_S)
            try:
                async with asyncio.timeout(piece + self._endpoint.timeout):
                    await line.send_packed_command([steps, pack(*_peek(name, piece))], check_health=False)
                    first = await line.read_response(disable_decoding=True)
                    await line.read_response(disable_decoding=True)
                    found = await line.read_response(disable_decoding=True)
            except (ResponseError, *_BROKEN):
                self._client.doubt()
                await self._drop(line)
                return None
            except BaseException:
                await self._drop(line)
                raise
            await self._keep(line)
            return first, found

    async def pop(self, name: str, until: float) -> bytes | None:
        """Takes the first entry of a list: for bells only, what is taken may get lost on the way."""
        found = await self.ask(_pop, name, until)
        return found[1] if found else None

    async def ask(self, command: Any, name: str, until: float) -> Any:
        """Sends a blocking command until it has an answer or the time is over."""
        async with self._room:
            while (left := until - time.monotonic()) > 0:
                line = await self._line(name)
                piece = min(left, PIECE_S)
                try:
                    async with asyncio.timeout(piece + self._endpoint.timeout):
                        await line.connect()
                        await line.send_command(*command(name, piece), check_health=False)
                        reply = await line.read_response(disable_decoding=True)
                except (ResponseError, *_BROKEN) as error:
                    await self._drop(line)
                    if isinstance(error, ResponseError) and not _is_elsewhere(error):
                        raise programs.explain(error) from error
                    self._client.doubt()
                    await asyncio.sleep(min(_pause(), max(0.0, until - time.monotonic())))
                    continue
                except BaseException:
                    await self._drop(line)
                    raise
                await self._keep(line)
                if reply is not None:
                    return reply
        return None

    async def close(self) -> None:
        """Closes the connections that are not in use."""
        self._closed = True
        for free in self._free.values():
            while free:
                await self._drop(free.pop())

    async def _line(self, name: str) -> aio.AbstractConnection:
        """A connection to the server that has the list: one that is free, or a new one."""
        if self._is_one and (free := self._free.get(_ONE)):
            return free.pop()
        line = await self._client.line(name.encode())
        free = self._free.get(self._place(line))
        return free.pop() if free else line

    async def _keep(self, line: aio.AbstractConnection) -> None:
        if self._closed:
            await self._drop(line)
        else:
            self._free.setdefault(self._place(line), []).append(line)

    def _place(self, line: aio.AbstractConnection) -> _Place:
        return _ONE if self._is_one else _place(line)

    async def _drop(self, line: aio.AbstractConnection) -> None:
        with contextlib.suppress(*_BROKEN):
            await line.disconnect(nowait=True)


class Lines:
    """The same for blocking code: each thread has one connection to each server that it needs."""

    def __init__(self, client: SyncClient) -> None:
        self._client = client
        self._endpoint = client.endpoint
        self._is_one = client.endpoint.address.kind is Kind.SERVER
        self._local = threading.local()

    def peek(self, name: str, until: float) -> bytes | None:
        """The first entry of a list as soon as there is one, which stays there; None when the time is over."""
        while (left := until - time.monotonic()) > 0:
            line = self._line(name)
            piece = min(left, PIECE_S)
            try:
                line.connect()
                line.send_command(*_peek(name, piece), check_health=False)
                reply: Any = line.read_response(disable_decoding=True)
            except (ResponseError, *_BROKEN) as error:
                self.close()
                if isinstance(error, ResponseError) and not _is_elsewhere(error):
                    raise programs.explain(error) from error
                self._client.doubt()
                time.sleep(min(_pause(), max(0.0, until - time.monotonic())))
                continue
            except BaseException:
                self.close()
                raise
            if reply is not None:
                found: bytes = reply
                return found
        return None

    def send_and_peek(self, steps: bytes, name: str, until: float) -> tuple[Any, bytes | None] | None:
        """Two steps and the first look, in one round trip: the first answer and what was seen."""
        if self._endpoint.is_cluster:
            return None
        line = self._line(name)
        if not is_connected(line):
            return None
        piece = min(max(0.0, until - time.monotonic()), PIECE_S)
        try:
            line.send_packed_command([steps, pack(*_peek(name, piece))], check_health=False)
            first = line.read_response(disable_decoding=True)
            line.read_response(disable_decoding=True)
            found: Any = line.read_response(disable_decoding=True)
        except (ResponseError, *_BROKEN):
            self._client.doubt()
            self.close()
            return None
        except BaseException:
            self.close()
            raise
        return first, found

    def close(self) -> None:
        """Closes this thread's connections."""
        for line in self._local.__dict__.pop("lines", {}).values():
            line.disconnect()

    def _line(self, name: str) -> blocking.AbstractConnection:
        held = self._local.__dict__
        if "lines" not in held or held["pid"] != os.getpid():
            held["lines"], held["pid"] = {}, os.getpid()
        lines: dict[_Place, blocking.AbstractConnection] = held["lines"]
        if self._is_one and _ONE in lines:
            return lines[_ONE]
        line = self._client.line(name.encode(), blocks_s=PIECE_S)
        return lines.setdefault(_ONE if self._is_one else _place(line), line)


def _place(line: Any) -> _Place:
    """Which server of several a connection is to."""
    return line.host, line.port
