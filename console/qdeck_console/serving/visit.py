"""A console process for one visitor: keys and sizes of the browser go in, what it draws comes out."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from typing import TYPE_CHECKING, Any, Final

from aiohttp import WSCloseCode, WSMsgType

from qdeck_console.embedded_server import dying_with_parent
from qdeck_console.serving.login import SECRETS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aiohttp import web

WIDTH: Final = (20, 600)  # cells, least and most: a console needs memory for each of them
HEIGHT: Final = (5, 250)
MOST_MESSAGE: Final = 65_536  # bytes of one message of a browser: a long paste fits
END_S: Final = 2.0  # for a console to end by itself
_READY: Final = b"__GANGLION__\n"  # what Textual's driver for browsers writes before it draws
_MOST_PACKET: Final = 64 << 20
_RESIZE_S: Final = 0.03  # between two new sizes: each draws the whole screen


def clamp(value: object, usual: int, limits: tuple[int, int]) -> int:
    """A number of cells within its limits, whatever a browser sent."""
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 9:
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        return usual
    return max(limits[0], min(limits[1], value))


class Visit:
    """A console for one visitor, and the connection to the browser that it is drawn in."""

    def __init__(self, command: Sequence[str], websocket: web.WebSocketResponse) -> None:
        self._command = command
        self._websocket = websocket
        self._process: asyncio.subprocess.Process | None = None

    async def run(self, width: object, height: object) -> None:
        """Run the console until it or the browser ends."""
        columns, rows = clamp(width, 80, WIDTH), clamp(height, 24, HEIGHT)
        self._process = process = await asyncio.create_subprocess_exec(
            *dying_with_parent(self._command),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env=_environment(columns, rows),
            start_new_session=True,  # Ctrl+C in the server's terminal is for the server, which ends its consoles
        )
        drawing = asyncio.create_task(self._draw(process))
        try:
            await self._listen(process)
        finally:
            await self._end(process, drawing)

    async def close(self, reason: str, code: int = WSCloseCode.GOING_AWAY) -> None:
        """End it from here: the browser shows the reason, if it still reads."""
        if not self._websocket.closed:
            with contextlib.suppress(ConnectionError, asyncio.TimeoutError):
                await asyncio.wait_for(self._websocket.close(code=code, message=reason.encode()), 1)

    async def _listen(self, process: asyncio.subprocess.Process) -> None:
        async for message in self._websocket:
            asked = None
            if message.type is WSMsgType.TEXT:
                asked = packet(message.data)
            if asked is None:
                reason = "The browser sent an unknown message."
                await self.close(reason, WSCloseCode.POLICY_VIOLATION)
                return
            kind, value = asked
            if kind == "ping":
                await self._websocket.send_json(["pong", value])
                continue
            assert process.stdin is not None  # noqa: S101 - a pipe was asked for
            data = value.encode("utf-8", "replace") if kind == "stdin" else json.dumps({"type": kind} | value).encode()
            process.stdin.write((b"D" if kind == "stdin" else b"M") + len(data).to_bytes(4, "big") + data)
            if not await self._is_drained(process.stdin):
                return
            if kind == "resize":
                await asyncio.sleep(_RESIZE_S)

    async def _is_drained(self, pipe: asyncio.StreamWriter) -> bool:
        """Return whether the console took what was written; False when it or the browser is gone before."""
        draining = asyncio.ensure_future(pipe.drain())
        try:
            while not (await asyncio.wait({draining}, timeout=1.0))[0]:
                if self._websocket.closed:
                    return False
            draining.result()
        except ConnectionError:
            return False
        finally:
            draining.cancel()
        return True

    async def _draw(self, process: asyncio.subprocess.Process) -> None:
        """Send what the console draws, and close the connection when it ends."""
        stream = process.stdout
        assert stream is not None  # noqa: S101 - a pipe was asked for
        reason = ""
        try:
            while (line := await stream.readline()) != _READY:
                if not line:
                    reason = "The console did not start: see the terminal of qdeck serve."
                    return
            while True:
                kind = await stream.readexactly(1)
                size = int.from_bytes(await stream.readexactly(4), "big")
                if size > _MOST_PACKET:
                    raise ValueError(size)
                data = await stream.readexactly(size)
                if kind == b"D":
                    await self._websocket.send_bytes(data)
                elif kind == b"M" and json.loads(data).get("type") == "exit":
                    return
        except (asyncio.IncompleteReadError, ConnectionError, ValueError):
            reason = "The console failed: see the terminal of qdeck serve."
        finally:
            await self.close(reason, WSCloseCode.OK)

    async def _end(self, process: asyncio.subprocess.Process, drawing: asyncio.Task[None]) -> None:
        quit_packet = json.dumps({"type": "quit"}).encode()
        try:
            with contextlib.suppress(ConnectionError, RuntimeError):
                assert process.stdin is not None  # noqa: S101 - a pipe was asked for
                process.stdin.write(b"M" + len(quit_packet).to_bytes(4, "big") + quit_packet)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), END_S)
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
            drawing.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await drawing
            assert process.stdout is not None  # noqa: S101 - a pipe was asked for
            while await process.stdout.read(1 << 16):  # what nobody will see: `wait` ends after the pipe
                pass
            await process.wait()


def _environment(width: int, height: int) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in SECRETS}
    return kept | {
        "TEXTUAL_DRIVER": "qdeck_console.serving.driver:WebDriver",
        "TEXTUAL_FPS": "60",
        "TEXTUAL_COLOR_SYSTEM": "truecolor",
        "COLUMNS": str(width),
        "ROWS": str(height),
    }


def packet(text: str) -> tuple[str, Any] | None:
    """Return the request in a message of a browser; None for an unknown one."""
    try:
        message = json.loads(text)
    except (ValueError, RecursionError):
        return None
    match message:
        case ["stdin", str(keys)]:
            return "stdin", keys
        case ["resize", {"width": int(width), "height": int(height)}]:
            return "resize", {"width": clamp(width, 80, WIDTH), "height": clamp(height, 24, HEIGHT)}
        case ["ping", str(word)] if len(word) <= 64:
            return "ping", word
        case ["focus" | "blur" as kind]:
            return kind, {}
    return None
