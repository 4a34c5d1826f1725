"""Blocking waits of a worker on keys that other programs write: wake-up tokens and stop requests."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, Final

from qdeck._redis import AsyncClient
from qdeck._redis.address import Topology
from qdeck._redis.commands import wait

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qdeck._redis import Endpoint
    from qdeck._redis.commands import Program

LONGEST_S: Final = 30.0
# Where a master may change: do not wait long for a server that does not answer.
LONGEST_OF_MANY_S: Final = 5.0
CHECK_S: Final = 0.25  # between two checks of a cluster


class WakeUps:
    """Lists that hold a token while there may be jobs; the worker that wakes takes the token."""

    def wait(self, names: Sequence[bytes], seconds: float) -> Program[list[bytes]]:
        """Block on keys of one server; return those with a token, perhaps none."""
        [reply] = yield wait((b"BLPOP", *names, b"%.3f" % seconds), names[0], seconds)
        return [] if reply is None else [reply[0]]

    def take(self, names: Sequence[bytes]) -> Program[list[bytes]]:
        """Return the keys with a token without waiting."""
        replies = yield [(b"LPOP", name) for name in names]
        return [name for name, reply in zip(names, replies, strict=True) if reply is not None]


class StopStreams:
    """Streams of requests to stop jobs. Each entry names the workers that hold them; every worker reads all entries."""

    def __init__(self, worker: str) -> None:
        self._worker = worker.encode()
        self._first = b"0"
        self._read: dict[bytes, bytes] = {}  # stream → the last entry that was read

    def start_at(self, now_ms: int) -> None:
        """Read entries after a moment of the server's clock."""
        self._first = b"%d" % max(0, now_ms)
        self._read.clear()

    def wait(self, names: Sequence[bytes], seconds: float) -> Program[list[bytes]]:
        """Block on keys of one server; return those with a request for this worker, perhaps none."""
        after = (self._read.get(name, self._first) for name in names)
        command = (b"XREAD", b"BLOCK", b"%d" % round(seconds * 1000), b"STREAMS", *names, *after)
        [reply] = yield wait(command, names[0], seconds)
        return [name for name, entries in reply or () if self._is_asked(name, entries)]

    def take(self, names: Sequence[bytes]) -> Program[list[bytes]]:
        """Return the keys with a request for this worker without waiting."""
        replies = yield [(b"XRANGE", name, b"(" + self._read.get(name, self._first), b"+") for name in names]
        return [
            name
            for name, entries in zip(names, replies, strict=True)
            if isinstance(entries, list) and self._is_asked(name, entries)
        ]

    def _is_asked(self, name: bytes, entries: list[Any]) -> bool:
        is_requested = False
        for entry_id, fields in entries:
            self._read[name] = entry_id
            is_requested = is_requested or any(self._worker in field.split() for field in fields or ())
        return is_requested


class BlockingWait:
    """A wait on several keys, on a connection of its own; on a cluster it checks them a few times a second.

    A server of a cluster refuses to block on keys of two slots.
    """

    def __init__(self, endpoint: Endpoint, source: WakeUps | StopStreams) -> None:
        self._endpoint = endpoint
        self._source = source
        self._longest = LONGEST_S if endpoint.address.kind is Topology.SERVER else LONGEST_OF_MANY_S
        self._client = self._make_client()

    def _make_client(self) -> AsyncClient:
        # A token whose reply was lost is lost: without patience that is an error, and the worker polls.
        return AsyncClient(self._endpoint, patience=0.0)

    async def wait(self, keys_of_queues: Sequence[bytes]) -> list[bytes]:
        """Return the first key with news, in the order given; none after a while."""
        if not self._endpoint.is_cluster:
            return await self._client.run(self._source.wait(keys_of_queues, self._longest))
        until = time.monotonic() + self._longest
        while True:
            woken = await self._client.run(self._source.take(keys_of_queues))
            if woken or time.monotonic() >= until:
                return woken
            await asyncio.sleep(CHECK_S)

    async def close(self) -> None:
        """Close the connections; the next `wait` connects to the master of that time."""
        client, self._client = self._client, self._make_client()
        await client.close()
