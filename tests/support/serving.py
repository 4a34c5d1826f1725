"""`qdeck serve` in a process of its own, and visitors that speak to it without a browser."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import aiohttp
import psutil
from aiohttp import web

from qdeck_console.serving.server import ConsoleServer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from qdeck_console.serving.login import Login
    from support.processes import PythonProcess


TOKEN = "a-token-of-tests-1234567890"


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


@dataclass(frozen=True)
class Served:
    """A running `qdeck serve`."""

    process: PythonProcess
    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def consoles(self) -> list[psutil.Process]:
        """The consoles of its visitors."""
        found = []
        with contextlib.suppress(psutil.NoSuchProcess):
            for child in psutil.Process(self.process.pid).children(recursive=True):
                with contextlib.suppress(psutil.Error):
                    if child.cmdline()[-1:] == ["console"]:
                        found.append(child)
        return found

    async def until(self, condition: Callable[[], object], seconds: float = 30.0) -> None:
        try:
            async with asyncio.timeout(seconds):
                while not condition():  # noqa: ASYNC110 - any condition
                    await asyncio.sleep(0.02)
        except TimeoutError as error:
            raise AssertionError(self.process.output) from error


@contextlib.asynccontextmanager
async def serving(
    make_process: Callable[..., PythonProcess], url: str, *options: str, env: Mapping[str, str] | None = None
) -> AsyncIterator[Served]:
    """`qdeck serve` with these options, until the block ends."""
    port = free_port()
    words = ["--url", url, "serve", "--port", str(port), *options]
    made = Served(make_process("-m", "qdeck_console", *words, env=env), port)
    await made.until(lambda: made.process.stdout or made.process.code is not None)
    assert made.process.code is None, made.process.output
    try:
        yield made
    finally:
        if made.process.code is None:
            made.process.signal(signal.SIGTERM)
            await made.until(lambda: made.process.code is not None)


@dataclass(frozen=True)
class Listening:
    """A server in this process: for its pages no console has to start."""

    made: ConsoleServer
    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@contextlib.asynccontextmanager
async def listening(login: Login) -> AsyncIterator[Listening]:
    port = free_port()
    made = ConsoleServer([], login, port=port, title="qdeck · secret.example")
    runner = web.AppRunner(made.make_app(), access_log=None)
    await runner.setup()
    listener = await made._listen(runner)
    try:
        yield Listening(made, port)
    finally:
        listener.close()
        await runner.cleanup()


class Visitor:
    """What a browser sends and gets."""

    def __init__(self, websocket: aiohttp.ClientWebSocketResponse) -> None:
        self.websocket = websocket
        self.drawn = b""

    async def send(self, *message: Any) -> None:
        await self.websocket.send_str(json.dumps(message))

    async def until(self, word: str, seconds: float = 30.0) -> None:
        """Read until something was drawn."""
        async with asyncio.timeout(seconds):
            while word.encode() not in self.drawn:
                message = await self.websocket.receive()
                assert message.type in {aiohttp.WSMsgType.BINARY, aiohttp.WSMsgType.TEXT}, (message, self.drawn[-500:])
                if message.type is aiohttp.WSMsgType.BINARY:
                    self.drawn += message.data

    async def closed(self, seconds: float = 30.0) -> int | None:
        """Read until the other side closes it, and return the code."""
        async with asyncio.timeout(seconds):
            while (await self.websocket.receive()).type not in {aiohttp.WSMsgType.CLOSE, aiohttp.WSMsgType.CLOSED}:
                pass
        return self.websocket.close_code


@contextlib.asynccontextmanager
async def visiting(
    served: Served, session: aiohttp.ClientSession, query: str = "width=100&height=30", **more: Any
) -> AsyncIterator[Visitor]:
    """A visitor whose console has drawn its first frame."""
    async with session.ws_connect(f"{served.url}/ws?{query}", max_msg_size=0, **more) as websocket:
        yield Visitor(websocket)
