"""`qdeck serve` in a real browser: open, switch screens, answer a dialog, resize, log in, and lose the server."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from qdeck.admin import Writer
from support.browser import CHROMIUM, browsing
from support.screens import HOOKS, bury
from support.serving import TOKEN, serving

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from support.processes import PythonProcess
    from support.servers import Server

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(240),
    pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium: apt-get install chromium"),
]


async def test_a_console_in_chromium(
    make_process: Callable[..., PythonProcess], make_server: Callable[..., Server], tmp_path: Path
) -> None:
    server = make_server()
    bury(server.url, HOOKS, [{"class": "Refused", "message": "502"}] * 3)
    async with serving(make_process, server.url) as served, browsing(tmp_path) as page:
        await page.call("Page.navigate", url=served.url)
        await page.until_drawn("Queues")
        await page.until_js("document.body.classList.contains('-first-byte')")
        assert await page.js("document.title") == "qdeck · 127.0.0.1"
        assert await page.js("document.fonts.check('16px \"Roboto Mono\"')")

        await page.until_drawn("retry 3 dead")
        before = await page.feed_state()
        at = len(page.drawn)
        await page.press("4")
        await page.until_drawn("502", at)  # the message of the dead letters
        at = len(page.drawn)
        await page.press("1")
        await page.until_drawn("since creation", at)
        await page.press("r")
        await page.until_drawn("Retry 3 jobs", at)
        assert await page.feed_state() != before
        await page.press("tab", "enter")
        await page.until_drawn("3 retried", at)
        with Writer(server.url) as writer:
            assert [(row.dead, row.ready) for row in writer.snapshot().queues] == [(0, 3)]

        at = len(page.drawn)
        await page.call("Emulation.setDeviceMetricsOverride", width=700, height=400, deviceScaleFactor=1, mobile=False)
        await page.until(lambda: len(page.drawn) > at + 500)

        at = len(page.drawn)
        server.kill9()
        await page.until_drawn("lost", at)
        server.relaunch()

        served.process.signal(signal.SIGTERM)
        await page.until_js("document.body.classList.contains('-closed')")
        assert await page.js("document.getElementById('reason').textContent") == "qdeck serve was stopped."
        ours = (served.url, served.url.replace("http", "ws"), "about:", "data:", "blob:")
        assert not [url for url in page.requests if not url.startswith(ours)]
        assert not page.complaints


async def test_a_login_in_chromium(make_process: Callable[..., PythonProcess], url: str, tmp_path: Path) -> None:
    async with (
        serving(make_process, url, env={"QDECK_SERVE_TOKEN": TOKEN}) as served,
        browsing(tmp_path) as page,
    ):
        await page.call("Page.navigate", url=f"http://localhost:{served.port}")
        await page.until_js("document.querySelector('input[name=secret]') !== null")
        for text, found in (("wrong", "Wrong token, name or password."), (TOKEN, None)):
            await page.js("document.querySelector('input[name=secret]').focus()")
            await page.call("Input.insertText", text=text)
            await page.press("enter")
            if found:
                await page.until_js(f"document.getElementById('problem')?.textContent === {found!r}")
        await page.until_drawn("Queues")
        await page.js("document.querySelector('form[action=logout]').submit()")
        await page.until_js("document.querySelector('input[name=secret]') !== null")
        await served.until(lambda: not served.consoles())
        assert not [text for text in page.complaints if "Content Security Policy" in text]
