"""A TCP proxy between client and server that does what networks do, on demand and exactly once.

It lives in a thread with a loop of its own, so that synchronous and asyncio tests use it alike: every method
returns when the change is in force, and none of them waits for traffic (`wait_hit` does).
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

HOST = "127.0.0.1"


class Side(StrEnum):
    """The direction in which bytes go."""

    TO_SERVER = "to_server"
    TO_CLIENT = "to_client"


class Then(StrEnum):
    """What happens to the connection after a request or reply was dropped."""

    RESET = "reset"  # the connection breaks: an error at once
    SILENCE = "silence"  # nothing comes any more: the client's time-out decides


class _Fault(StrEnum):
    DROP_REPLY = "drop_reply"
    DROP_REQUEST = "drop_request"


@dataclass(slots=True)
class _Rule:
    """A fault that waits for matching bytes on any connection, `left` more times."""

    fault: _Fault
    containing: bytes
    then: Then
    left: int


@dataclass(slots=True, eq=False)
class _Link:
    """One client's connection through the proxy."""

    to_client: asyncio.StreamWriter
    to_server: asyncio.StreamWriter
    last_request_bytes: bytes = b""  # the end of the previous chunk, for a match across two of them
    lost: bool = False  # bytes are missing in one direction: the stream cannot go on after a heal
    dropping: _Rule | None = None  # replies are swallowed from here on
    silent: bool = False


@dataclass(slots=True)
class _State:
    """The faults in force; only the proxy's thread changes them."""

    latency_s: dict[Side, float] = field(default_factory=lambda: dict.fromkeys(Side, 0.0))
    held: set[Side] = field(default_factory=set)
    losing: set[Side] = field(default_factory=set)
    reset_after: dict[Side, int] = field(default_factory=dict)
    rules: list[_Rule] = field(default_factory=list)
    refusing: bool = False


class FaultProxy:
    """Stands in front of `host:port`; clients connect to `.port`, or to `.url`, which is `target_url` with that port.

    After `heal()` it passes everything on again.
    """

    def __init__(self, port: int, *, host: str = HOST, target_url: str = "") -> None:
        self._target = self._named = (host, port)
        self._target_url = target_url or f"redis://{host}:{port}/0"
        self._state = _State()
        self._links: set[_Link] = set()
        self._ends: set[asyncio.StreamWriter] = set()  # of all connections, those that have no link yet too
        self._serving: set[asyncio.Task[None]] = set()
        self._hits = 0
        self._hit = threading.Condition()
        self._accepted = 0
        self._port = 0
        self._loop = asyncio.new_event_loop()
        self._open_gate = asyncio.Event()
        self._thread = threading.Thread(target=self._loop.run_forever, name="fault-proxy", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._server = asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(5)
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._shut(), self._loop).result(5)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)
        self._loop.close()

    @property
    def port(self) -> int:
        """Where clients connect."""
        return self._port

    @property
    def url(self) -> str:
        """The server's URL with the proxy's port."""
        host, port = self._named
        return self._target_url.replace(f"{host}:{port}", f"{HOST}:{self._port}")

    @property
    def accepted(self) -> int:
        """How many connections were accepted so far."""
        return self._accepted

    @property
    def hits(self) -> int:
        """How many of the one-shot faults have happened so far."""
        return self._hits

    def wait_hit(self, count: int = 1, timeout_s: float = 10.0) -> None:
        """Wait until `count` one-shot faults have struck in all (a dropped reply: the server has done its work)."""
        with self._hit:
            if not self._hit.wait_for(lambda: self._hits >= count, timeout_s):
                raise AssertionError(f"{self._hits} of {count} faults struck in {timeout_s} s")

    # What to do wrong

    def latency(self, seconds: float, side: Side | None = None) -> None:
        """Delay every chunk, in both directions or in one."""
        self._do(lambda: self._state.latency_s.update(dict.fromkeys(_sides(side), seconds)))

    def blackhole(self, side: Side | None = None, *, lose: bool = False) -> None:
        """Let nothing through, in both directions or in one; connections stay open and new ones are accepted.

        What is sent meanwhile arrives after `heal()`, as TCP would send it again; with `lose` it never does, and
        `heal()` resets the connections that lost something.
        """

        def change() -> None:
            (self._state.losing if lose else self._state.held).update(_sides(side))
            self._open_gate.clear()

        self._do(change)

    def drop_next_reply(self, containing: bytes = b"", *, times: int = 1, then: Then = Then.RESET) -> None:
        """Pass the next request that holds these bytes, and swallow its reply: done, and the client cannot know.

        With `RESET` the connection breaks when the reply has come, hence after the server did the work.
        """
        self._add(_Fault.DROP_REPLY, containing, times, then)

    def drop_next_request(self, containing: bytes = b"", *, times: int = 1, then: Then = Then.RESET) -> None:
        """Swallow the next request that holds these bytes: not done, and the client cannot know."""
        self._add(_Fault.DROP_REQUEST, containing, times, then)

    def reset_after(self, count: int, side: Side = Side.TO_CLIENT) -> None:
        """Pass `count` more bytes in this direction (over all connections), then reset the one that brings the next."""
        self._do(lambda: self._state.reset_after.update({side: count}))

    def reset_all(self) -> None:
        """Break every connection with a reset; new ones work."""
        self._do(lambda: self._for_all(self._break))

    def close_all(self) -> None:
        """Close every connection in an orderly way; new ones work."""
        self._do(lambda: self._for_all(self._part))

    def retarget(self, port: int) -> None:
        """Connect to another server from now on, as a name does after a failover; old connections break."""

        def change() -> None:
            self._target = (self._target[0], port)

        self._do(change)
        self.reset_all()

    def refuse(self) -> None:
        """Reset every connection and every new one, as if no server were there."""

        def change() -> None:
            self._state.refusing = True
            self._for_all(self._break)

        self._do(change)

    def heal(self) -> None:
        """Pass everything on again; connections that lost bytes are reset, one-shot faults that wait are forgotten."""

        def change() -> None:
            self._state = _State()
            for link in [link for link in self._links if link.lost or link.silent]:
                self._break(link)
            self._open_gate.set()

        self._do(change)

    # In the proxy's thread

    def _do(self, change: Callable[[], object]) -> None:
        async def run() -> None:
            change()

        asyncio.run_coroutine_threadsafe(run(), self._loop).result(5)

    def _add(self, fault: _Fault, containing: bytes, times: int, then: Then) -> None:
        self._do(lambda: self._state.rules.append(_Rule(fault, containing, then, times)))

    async def _listen(self) -> asyncio.Server:
        self._open_gate.set()
        server = await asyncio.start_server(self._accept, HOST, 0)
        self._port = server.sockets[0].getsockname()[1]
        return server

    async def _shut(self) -> None:
        self._state.refusing = True
        for listener in self._server.sockets:
            self._loop.remove_reader(listener.fileno())
        # Who was let in a moment ago gets its transport first: a server that is closed leaves such sockets open, and so
        # does a task that is cancelled before its first step.
        await asyncio.sleep(0)
        while letting_in := [*filter(_is_accepting, asyncio.all_tasks())]:
            await asyncio.gather(*letting_in, return_exceptions=True)
        self._server.close()
        everyone = set(self._ends)  # those too that are served no more before they are closed
        self._for_all(self._break)
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        for end in everyone:
            end.transport.abort()  # what is not sent yet would keep it open
        for _ in range(5):
            await asyncio.sleep(0.002)  # the transports close their sockets in the next turns of the loop

    def _accept(self, reader: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        self._accepted += 1
        self._ends.add(client)
        task = asyncio.create_task(self._serve(reader, client))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def _serve(self, client_reader: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        if self._state.refusing:
            self._end(client)
            return
        try:
            server_reader, server = await asyncio.open_connection(*self._target)
        except OSError:
            self._end(client)
            return
        self._ends.add(server)
        link = _Link(client, server)
        self._links.add(link)
        pumps = [
            asyncio.create_task(self._pump(link, Side.TO_SERVER, client_reader, server)),
            asyncio.create_task(self._pump(link, Side.TO_CLIENT, server_reader, client)),
        ]
        try:
            await asyncio.gather(*pumps)
        finally:
            self._links.discard(link)
            client.close()
            server.close()
            # One that has still something to send stays open until then, maybe for ever: it is ended with the proxy.
            self._ends = {end for end in self._ends if end not in (client, server) or _is_sending(end)}

    def _end(self, client: asyncio.StreamWriter) -> None:
        _reset(client)
        self._ends.discard(client)

    async def _pump(self, link: _Link, side: Side, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while chunk := await reader.read(65536):
                if self._state.latency_s[side]:
                    await asyncio.sleep(self._state.latency_s[side])
                while side in self._state.held:
                    await self._open_gate.wait()
                passed = self._filter(link, side, chunk)
                if passed:
                    writer.write(passed)
                    await writer.drain()
                self._count(link, side, len(chunk))
            if not link.silent and side not in self._state.losing:
                while side in self._state.held:
                    await self._open_gate.wait()
                writer.write_eof()
        except OSError:
            self._break(link)  # one end broke: the other learns of it

    def _filter(self, link: _Link, side: Side, chunk: bytes) -> bytes:
        """Return the part of the chunk that is passed on."""
        if side in self._state.losing or link.silent:
            link.lost = True
            return b""
        if side is Side.TO_SERVER:
            return self._filter_request(link, chunk)
        if link.dropping is not None:
            rule, link.dropping = link.dropping, None
            self._strike(link, rule.then)
            return b""
        return chunk[: self._state.reset_after[side]] if side in self._state.reset_after else chunk

    def _filter_request(self, link: _Link, chunk: bytes) -> bytes:
        seen = link.last_request_bytes + chunk
        rule = next((rule for rule in self._state.rules if rule.left and rule.containing in seen), None)
        if rule is not None:
            rule.left -= 1
            link.last_request_bytes = b""
            if rule.fault is _Fault.DROP_REQUEST:
                self._strike(link, rule.then)
                return b""
            link.dropping = rule
            return chunk
        longest = max((len(rule.containing) for rule in self._state.rules), default=1)
        link.last_request_bytes = seen[-(longest - 1) :] if longest > 1 else b""
        limit = self._state.reset_after.get(Side.TO_SERVER)
        return chunk if limit is None else chunk[:limit]

    def _count(self, link: _Link, side: Side, length: int) -> None:
        if side not in self._state.reset_after:
            return
        self._state.reset_after[side] -= length
        if self._state.reset_after[side] < 0:
            del self._state.reset_after[side]
            self._strike(link, Then.RESET)

    def _strike(self, link: _Link, then: Then) -> None:
        if then is Then.RESET:
            self._break(link)
        else:
            link.silent = True
        with self._hit:
            self._hits += 1
            self._hit.notify_all()

    def _for_all(self, act: Callable[[_Link], None]) -> None:
        for link in list(self._links):
            act(link)

    def _break(self, link: _Link) -> None:
        _reset(link.to_client)
        link.to_server.close()

    def _part(self, link: _Link) -> None:
        link.to_client.close()
        link.to_server.close()


def _sides(side: Side | None) -> tuple[Side, ...]:
    return tuple(Side) if side is None else (side,)


def _is_sending(writer: asyncio.StreamWriter) -> bool:
    return writer.transport.get_write_buffer_size() > 0


def _is_accepting(task: asyncio.Task[Any]) -> bool:
    return "_accept_connection" in repr(task.get_coro())


def _reset(writer: asyncio.StreamWriter) -> None:
    """Close with RST instead of FIN."""
    connection: socket.socket | None = writer.get_extra_info("socket")
    if connection is not None and not writer.transport.is_closing():
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


def fault_proxies() -> Iterator[Callable[[str], FaultProxy]]:
    """Yield a function that starts a proxy in front of the server of a URL; all end with the generator."""
    with contextlib.ExitStack() as stack:

        def make(url: str) -> FaultProxy:
            target = urlsplit(url)
            return stack.enter_context(FaultProxy(target.port or 6379, host=target.hostname or HOST, target_url=url))

        yield make
