"""How a worker waits for what other programs write: tokens that wake it for work, and requests to stop jobs."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, Final

from qdeck._redis import AsyncClient
from qdeck._redis.address import Kind
from qdeck._redis.commands import wait

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qdeck._redis import Endpoint
    from qdeck._redis.commands import Program

LONGEST_S: Final = 30.0
# Where a master may change: a server that went silent must not be listened to for long.
LONGEST_OF_MANY_S: Final = 5.0
CHECK_S: Final = 0.25  # between two checks of a cluster


class Tokens:
    """Lists of which each holds a token when there may be work; a worker that is woken takes the token."""

    def wait(self, names: Sequence[bytes], seconds: float) -> Program[list[bytes]]:
        """Block on keys of one server; returns those with news for this worker, perhaps none."""
        [reply] = yield wait((b"BLPOP", *names, b"%.3f" % seconds), names[0], seconds)
        return [] if reply is None else [reply[0]]

    def take(self, names: Sequence[bytes]) -> Program[list[bytes]]:
        """Return those with news without waiting."""
        replies = yield [(b"LPOP", name) for name in names]
        return [name for name, reply in zip(names, replies, strict=True) if reply is not None]


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

    def wait(self, names: Sequence[bytes], seconds: float) -> Program[list[bytes]]:
        """Block on keys of one server; returns those with news for this worker, perhaps none."""
        after = (self._read.get(name, self._first) for name in names)
        command = (b"XREAD", b"BLOCK", b"%d" % round(seconds * 1000), b"STREAMS", *names, *after)
        [reply] = yield wait(command, names[0], seconds)
        return [name for name, entries in reply or () if self._is_asked(name, entries)]

    def take(self, names: Sequence[bytes]) -> Program[list[bytes]]:
        """Return those with news without waiting."""
        replies = yield [(b"XRANGE", name, b"(" + self._read.get(name, self._first), b"+") for name in names]
        return [
            name
            for name, entries in zip(names, replies, strict=True)
            if isinstance(entries, list) and self._is_asked(name, entries)
        ]

    def _is_asked(self, name: bytes, entries: list[Any]) -> bool:
        asked = False
        for entry_id, fields in entries:
            self._read[name] = entry_id
            asked = asked or any(self._worker in field.split() for field in fields or ())
        return asked


class Ear:
    """Waits on the bells of a worker, on a connection of its own; on a cluster it checks them a few times a second.

    A server of a cluster refuses to block on keys of two slots.
    """

    def __init__(self, endpoint: Endpoint, news: Tokens | Requests) -> None:
        self._endpoint = endpoint
        self._news = news
        self._longest = LONGEST_S if endpoint.address.kind is Kind.SERVER else LONGEST_OF_MANY_S
        self._client = self._make_client()

    def _make_client(self) -> AsyncClient:
        # A token whose answer was lost is lost: without patience that is an error, and the worker looks by itself.
        return AsyncClient(self._endpoint, patience=0.0)

    async def hear(self, bells: Sequence[bytes]) -> list[bytes]:
        """The bell that rang, of several the first one named; none after a while."""
        if not self._endpoint.is_cluster:
            return await self._client.run(self._news.wait(bells, self._longest))
        until = time.monotonic() + self._longest
        while True:
            rung = await self._client.run(self._news.take(bells))
            if rung or time.monotonic() >= until:
                return rung
            await asyncio.sleep(CHECK_S)

    async def close(self) -> None:
        """Closes the connections; the next `hear` connects again, to whoever has the bells then."""
        client, self._client = self._client, self._make_client()
        await client.close()
