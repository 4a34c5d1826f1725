"""`qdeck snapshot` and `qdeck serve`: the console without a terminal."""

from __future__ import annotations

import asyncio
import importlib.util
import socket
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest

from qdeck._deck.deck import Deck
from qdeck_console.__main__ import main
from qdeck_console.embedded import dying_with_parent

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def filled(url: str) -> str:
    with Deck(url) as deck:
        for _ in range(7):
            deck.enqueue("demo:dev:mail:actions", "send")
        deck.pause("demo:dev:mail:actions")
    return url


@pytest.mark.parametrize(("size", "more"), [("160x48", "since it was made"), ("80x24", "? help"), ("60x16", "mail")])
def test_a_frame_as_text(filled: str, capsys: pytest.CaptureFixture[str], size: str, more: str) -> None:
    assert main(["snapshot", "--url", filled, "--size", size]) == 0
    lines = capsys.readouterr().out.splitlines()
    columns, rows = (int(number) for number in size.split("x"))
    assert len(lines) == rows
    assert max(map(len, lines)) <= columns
    assert "paused" in "\n".join(lines)
    assert more in "\n".join(lines)


def test_a_frame_of_some_layouts(filled: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["snapshot", "--url", filled, "--layout", "lists", "--size", "80x24"]) == 0
    assert "mail" not in capsys.readouterr().out


def test_a_frame_as_a_picture(filled: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["snapshot", "--url", filled, "--size", "80x24", "--svg", "--theme", "paper", "--screen", "dead"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("<svg")
    assert "#fbfaf7" in out.lower()


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (["--screen", "nowhere"], 64, "there is queues"),
        (["--size", "wide"], 64, "160x48"),
        (["--url", "redis://127.0.0.1:1"], 69, "cannot be reached"),
    ],
)
def test_what_cannot_be_framed(
    url: str, capsys: pytest.CaptureFixture[str], options: list[str], code: int, words: str
) -> None:
    assert main(["snapshot", "--url", url, *options]) == code
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(("command", "module"), [("serve", "textual_serve"), ("snapshot", "textual")])
def test_a_missing_extra_is_named(
    url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, command: str, module: str
) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *more: None if name == module else find(name, *more))
    assert main([command, "--url", url]) == 64
    assert "pip install 'qdeck[" in capsys.readouterr().err


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.fixture
def served(filled: str) -> Iterator[str]:
    port = _free_port()
    command = [sys.executable, "-m", "qdeck_console", "--url", filled, "serve", "--port", str(port)]
    process = subprocess.Popen(dying_with_parent(command), stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        assert "until Ctrl+C" in process.stdout.readline()
        yield f"127.0.0.1:{port}"
    finally:
        process.terminate()
        assert process.wait(15) == 0
        process.stdout.close()


async def _get(session: aiohttp.ClientSession, address: str, **headers: str) -> tuple[int, str]:
    async with session.get(f"http://{address}/", headers=headers) as answer:
        return answer.status, await answer.text()


async def test_the_console_in_a_browser_and_only_for_its_own_page(served: str) -> None:
    async with aiohttp.ClientSession() as session:
        for _ in range(100):
            try:
                status, page = await _get(session, served)
                break
            except aiohttp.ClientConnectionError:  # it says where it is just before it listens
                await asyncio.sleep(0.1)
        assert status == 200
        assert f"ws://{served}/ws" in page
        assert (await _get(session, served, Origin="http://evil.example"))[0] == 403
        assert (await _get(session, served, Host="evil.example"))[0] == 403
        with pytest.raises(aiohttp.WSServerHandshakeError):
            await session.ws_connect(f"ws://{served}/ws", headers={"Origin": "http://evil.example"})
        async with session.ws_connect(f"ws://{served}/ws?width=120&height=40", origin=f"http://{served}") as socket_:
            seen, until = "", time.monotonic() + 20
            while "paused" not in seen and time.monotonic() < until:
                message: Any = await socket_.receive(timeout=20)
                seen += message.data.decode("utf-8", "replace") if isinstance(message.data, bytes) else ""
            assert "paused" in seen
