"""Debian's Chromium without a window, driven over its DevTools protocol."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
import re
import shutil
from typing import TYPE_CHECKING, Any

import aiohttp

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

CHROMIUM = shutil.which("chromium")
_OPTIONS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--remote-debugging-port=0",
)  # fmt: skip
_KEYS = {"enter": ("Enter", 13, "\r"), "tab": ("Tab", 9, ""), "escape": ("Escape", 27, "")}


class Page:
    """A page of the browser: its requests, the frames of its WebSockets, and its errors."""

    def __init__(self, websocket: aiohttp.ClientWebSocketResponse) -> None:
        self._websocket = websocket
        self._numbers = itertools.count(1)
        self._replies: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self.drawn = b""

    async def listen(self) -> None:
        """Receive the events of the browser."""
        async for message in self._websocket:
            told = message.json()
            if "id" in told:
                self._replies.pop(told["id"]).set_result(told)
                continue
            match told["method"], told["params"]:
                case "Network.requestWillBeSent", {"request": {"url": url}}:
                    self.requests.append(url)
                case "Network.webSocketCreated", {"url": url}:
                    self.requests.append(url)
                case "Network.webSocketFrameReceived", {"response": {"opcode": 2, "payloadData": data}}:
                    self.drawn += base64.b64decode(data)
                case "Log.entryAdded", {"entry": {"level": "error", "text": text}}:
                    self.complaints.append(text)
                case "Runtime.exceptionThrown", {"exceptionDetails": details}:
                    self.complaints.append(str(details))

    async def call(self, method: str, **params: Any) -> dict[str, Any]:
        number = next(self._numbers)
        self._replies[number] = asyncio.get_running_loop().create_future()
        await self._websocket.send_json({"id": number, "method": method, "params": params})
        reply = await asyncio.wait_for(self._replies[number], 30)
        assert "error" not in reply, reply
        result: dict[str, Any] = reply["result"]
        return result

    async def js(self, expression: str) -> Any:
        result = await self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    async def press(self, *keys: str) -> None:
        for key in keys:
            name, code, text = _KEYS.get(key, (key, ord(key.upper()[0]), key))
            known = {"key": name, "windowsVirtualKeyCode": code, **({"text": text} if text else {})}
            await self.call("Input.dispatchKeyEvent", type="keyDown", **known)
            await self.call("Input.dispatchKeyEvent", type="keyUp", key=name, windowsVirtualKeyCode=code)

    async def feed_state(self) -> bytes:
        return base64.b64decode((await self.call("Page.captureScreenshot", format="png"))["data"])

    async def until(self, condition: Callable[[], object], seconds: float = 30.0) -> None:
        try:
            async with asyncio.timeout(seconds):
                while not condition():  # noqa: ASYNC110 - any condition
                    await asyncio.sleep(0.05)
        except TimeoutError as error:
            told = " ".join(self.text().split())
            raise AssertionError(f"{self.complaints} {told[-4500:]}") from error

    async def until_js(self, expression: str, seconds: float = 30.0) -> None:
        async with asyncio.timeout(seconds):
            while True:
                try:
                    if await self.js(expression):
                        return
                except AssertionError as error:  # asked while the next page was loaded
                    if "navigated" not in str(error):
                        raise
                await asyncio.sleep(0.05)

    def text(self, since: int = 0) -> str:
        """Return the drawn text without colours; cursor moves are blanks."""
        told = re.sub(rb"\x1b\[[\d;]*m", b"", self.drawn[since:])
        return re.sub(rb"\x1b\[[?\d;]*[A-Za-z]", b" ", told).decode("utf-8", "replace")

    async def until_drawn(self, word: str, since: int = 0) -> None:
        await self.until(lambda: word in self.text(since))


@contextlib.asynccontextmanager
async def browsing(folder: Path, size: tuple[int, int] = (1280, 800)) -> AsyncIterator[Page]:
    """Start a browser with one empty page of this size in pixels."""
    assert CHROMIUM is not None
    with contextlib.ExitStack() as stack:
        errors = stack.enter_context((folder / "stderr").open("wb"))
        words = [*_OPTIONS, f"--user-data-dir={folder / 'profile'}", f"--window-size={size[0]},{size[1]}"]
        process = await asyncio.create_subprocess_exec(CHROMIUM, *words, "about:blank", stderr=errors)
    try:
        places = folder / "profile" / "DevToolsActivePort"
        async with asyncio.timeout(60):
            while not (places.exists() and places.read_text().count("\n")):
                assert process.returncode is None, (folder / "stderr").read_text()
                await asyncio.sleep(0.05)
        port = places.read_text().splitlines()[0]
        async with aiohttp.ClientSession() as session:
            async with session.get(f"http://127.0.0.1:{port}/json/list") as reply:
                [target] = [each for each in await reply.json() if each["type"] == "page"]
            async with session.ws_connect(target["webSocketDebuggerUrl"], max_msg_size=0) as websocket:
                page = Page(websocket)
                listening = asyncio.create_task(page.listen())
                for domain in ("Network", "Page", "Log", "Runtime"):
                    await page.call(f"{domain}.enable")
                yield page
                listening.cancel()
    finally:
        if process.returncode is None:
            process.terminate()
        try:
            await asyncio.wait_for(process.wait(), 10)
        except TimeoutError:
            process.kill()
            await process.wait()
