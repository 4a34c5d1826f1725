"""`qdeck serve`: who may open a console, what a browser may send, and how it ends."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import socket
from typing import TYPE_CHECKING, Any

import pytest

from qdeck_console.output_files import check_new_file, new_file
from qdeck_console.serving.login import Login
from qdeck_console.serving.server import ConsoleServer
from qdeck_console.serving.visit import HEIGHT, WIDTH, clamp, packet
from support.serving import TOKEN, Listening, Served, listening, serving, visiting

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    import aiohttp

    from support.processes import PythonProcess


@pytest.fixture
async def served(make_process: Callable[..., PythonProcess], url: str) -> AsyncIterator[Served]:
    async with serving(make_process, url, "--visitors", "30") as made:
        yield made


@pytest.fixture
async def pages() -> AsyncIterator[Listening]:
    async with listening(Login()) as made:
        yield made


async def test_the_page_is_whole_and_all_of_it_is_ours(pages: Listening, session: aiohttp.ClientSession) -> None:
    async with session.get(pages.url) as reply:
        page, headers = await reply.text(), reply.headers
    assert re.search(r"<title>qdeck · \S+</title>", page)
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "script-src 'self';" in policy  # neither inline scripts nor eval
    assert headers["X-Frame-Options"] == "DENY"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert "Server" not in headers
    files = re.findall(r'(?:src|href)="([^"]+)"', page)
    assert "static/icon.svg" in files
    for name in [*files, "static/mono.ttf"]:
        async with session.get(f"{pages.url}/{name}") as reply:
            assert reply.status == 200, name
            text = await reply.text(errors="replace")
            if name.endswith((".css", ".html")):
                assert not re.search(r"url\(['\"]?https?:|@import", text)
    assert not [name for name in files if ":" in name]


async def test_nothing_else_is_served(pages: Listening, session: aiohttp.ClientSession) -> None:
    for path in ("/static/", "/static", "/static/nothing", "/static/%2e%2e/server.py", "/download/1"):
        async with session.get(pages.url + path) as reply:
            assert reply.status == 404, path
            assert "Content-Security-Policy" in reply.headers


async def test_other_names_and_pages_of_others_are_refused(pages: Listening, session: aiohttp.ClientSession) -> None:
    refused = [
        ({"Host": "evil.example"}, 421),
        ({"Host": "127.0.0.1.evil.example"}, 421),
        ({"Host": "["}, 421),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://["}, 403),
    ]
    for headers, code in refused:
        for path in ("/", "/ws", "/static/page.css"):
            async with session.get(pages.url + path, headers=headers) as reply:
                assert reply.status == code, (headers, path)
    async with session.get(pages.url, headers={"Host": "localhost:1"}) as reply:
        assert reply.status == 200


MALFORMED = (
    "localhost.",
    "evil@localhost",
    "localhost/evil",
    "localhost#",
    "localhost:evil",
    "[localhost]",
    "[::1]evil",
)


def test_names_of_this_server() -> None:
    here = ConsoleServer([], Login(), host="127.0.0.1", public_url="https://deck.example/console")
    assert all(map(here.is_own_name, ("localhost:8000", "127.0.0.1", "[::1]:1", "deck.example")))
    assert not any(map(here.is_own_name, ("", "evil.example", "10.0.0.1", "deck.example.evil", "[", *MALFORMED)))
    every = ConsoleServer([], Login(), host="0.0.0.0")  # noqa: S104 - that is what is tested
    assert all(map(every.is_own_name, ("localhost", "192.0.2.1:8000", "[2001:db8::1]")))
    assert not any(map(every.is_own_name, ("", "evil.example", "192.0.2.1.evil.example")))
    one = ConsoleServer([], Login(), host="deck.example")
    assert one.is_own_name("DECK.example:8000")
    assert not one.is_own_name("localhost")


@pytest.mark.parametrize("value", [10**8, 10**400, "99999999", -5, 0, None, "x", True, 3.5, [], "1" * 50], ids=repr)
def test_sizes_are_clamped(value: Any) -> None:
    assert WIDTH[0] <= clamp(value, 80, WIDTH) <= WIDTH[1]
    assert HEIGHT[0] <= clamp(value, 24, HEIGHT) <= HEIGHT[1]


async def test_a_huge_size_takes_no_memory(served: Served, session: aiohttp.ClientSession) -> None:
    async with visiting(served, session, "width=100000000&height=100000000") as visitor:
        await visitor.until("Queues")
        drawn = len(visitor.drawn)
        await visitor.send("resize", {"width": 100_000_000, "height": 100_000_000})
        await visitor.send("stdin", "\x1b[48;3000;3000;0;0t")  # as a terminal reports its size among the keys
        await visitor.send("stdin", "?")
        await visitor.until("keys")
        [console] = served.consoles()
        assert console.memory_info().rss < 150 << 20
        assert len(visitor.drawn) - drawn < 2 << 20


@pytest.mark.slow
@pytest.mark.timeout(240)
async def test_keys_wait_for_the_console(served: Served, session: aiohttp.ClientSession) -> None:
    """A flood of keys fills no memory, and a visitor who left in the middle of it holds no console."""
    async with visiting(served, session) as visitor:
        await visitor.until("Queues")
        [console] = served.consoles()
        reading = asyncio.create_task(visitor.closed(240))
        with contextlib.suppress(TimeoutError, ConnectionError):
            async with asyncio.timeout(20):
                while True:
                    await visitor.send("stdin", "j" * 60_000)
        assert console.memory_info().rss < 200 << 20
        reading.cancel()
        visitor.websocket._response.connection.transport.abort()  # type: ignore[union-attr]
    await served.until(lambda: not served.consoles(), 60)


@pytest.mark.slow
@pytest.mark.timeout(120)
async def test_a_paste_without_an_end_ends_the_visit(served: Served, session: aiohttp.ClientSession) -> None:
    async with visiting(served, session) as visitor:
        await visitor.until("Queues")
        for text in ("\x1b[200~", *["x" * 60_000] * 18):
            await visitor.send("stdin", text)
        await visitor.closed(60)
    await served.until(lambda: not served.consoles())


NONSENSE = {
    "empty": "",
    "an object": "{}",
    "a part": "[",
    "too deep": "[" * 50_000,
    "no height": '["resize",{"width":1}]',
    "no size": '["resize",["x"]]',
    "keys that are a number": '["stdin",7]',
    "unknown": '["?"]',
    "null": "null",
    "an odd ping": '["ping",{}]',
    "an infinite size": '["resize",{"width":1e999,"height":2}]',
    "many digits": "9" * 5000,
}


@pytest.mark.parametrize("name", NONSENSE)
def test_a_message_of_nonsense_asks_for_nothing(name: str) -> None:
    assert packet(NONSENSE[name]) is None


@pytest.mark.slow
@pytest.mark.timeout(240)
async def test_a_message_of_nonsense_ends_that_visit_alone(served: Served, session: aiohttp.ClientSession) -> None:
    async with visiting(served, session) as other:
        await other.until("Queues")
        watching = asyncio.create_task(other.until("keys", 200))
        for name, text in NONSENSE.items():
            async with visiting(served, session) as visitor:
                await visitor.websocket.send_str(text)
                assert await visitor.closed() == 1008, name
            await served.until(lambda: len(served.consoles()) == 1)
        await other.send("stdin", "\ud800?")  # half a character is none, and stops nothing
        await watching
    assert "Traceback" not in served.process.output


@pytest.mark.slow
async def test_binary_and_oversized_messages_end_the_visit(served: Served, session: aiohttp.ClientSession) -> None:
    async with visiting(served, session) as visitor:
        await visitor.websocket.send_bytes(b"Dxxxx")
        assert await visitor.closed() == 1008
    async with visiting(served, session) as visitor:
        await visitor.send("stdin", "x" * 100_000)
        assert await visitor.closed() == 1009
    await served.until(lambda: not served.consoles())


@pytest.mark.slow
async def test_there_are_no_more_visitors_than_allowed(
    make_process: Callable[..., PythonProcess], url: str, session: aiohttp.ClientSession
) -> None:
    async with serving(make_process, url, "--visitors", "1") as served:
        async with visiting(served, session) as one:
            await one.until("Queues")
            async with visiting(served, session) as other:
                assert await other.closed() == 1013
            assert len(served.consoles()) == 1
        await _until_there_is_room(served, session)


async def _until_there_is_room(served: Served, session: aiohttp.ClientSession) -> None:
    async with asyncio.timeout(15):
        while True:  # until the one before has left
            async with visiting(served, session) as visitor:
                with contextlib.suppress(AssertionError):
                    await visitor.until("Queues")
                    break


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.parametrize("last", [b"", b"\x81\x81\0\0\0\0{"], ids=["lost", "nonsense"])
async def test_a_visitor_who_reads_nothing_leaves_no_trace(
    make_process: Callable[..., PythonProcess], url: str, session: aiohttp.ClientSession, last: bytes
) -> None:
    """What the console drew for it fills every buffer on the way: nothing may wait for them to be read."""
    head = b"GET /ws?width=600&height=250 HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    head += b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
    async with serving(make_process, url, "--visitors", "1") as served:
        with socket.socket() as deaf:
            deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            deaf.connect(("127.0.0.1", served.port))
            deaf.sendall(head)
            await served.until(served.consoles)
            keys = b'["stdin","?\\u001b12345"]'
            for _ in range(100):
                deaf.sendall(bytes((0x81, 0x80 | len(keys))) + b"\0\0\0\0" + keys)
                await asyncio.sleep(0.02)
            deaf.sendall(last)
            if last:
                await served.until(lambda: not served.consoles())
        await served.until(lambda: not served.consoles(), 40)
        await _until_there_is_room(served, session)


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)])
async def test_signals_end_it_soon_and_its_consoles_too(
    make_process: Callable[..., PythonProcess], url: str, session: aiohttp.ClientSession, number: signal.Signals
) -> None:
    async with serving(make_process, url) as served, visiting(served, session) as visitor:
        await visitor.until("Queues")
        [console] = served.consoles()
        console.suspend()  # even one that does not answer
        served.process.signal(number)
        await served.until(lambda: served.process.code is not None, 8)
        assert served.process.code == 0
        assert not console.is_running()


@pytest.mark.slow
async def test_a_crash_leaves_no_console(
    make_process: Callable[..., PythonProcess], url: str, session: aiohttp.ClientSession
) -> None:
    async with serving(make_process, url) as served, visiting(served, session) as visitor:
        await visitor.until("Queues")
        [console] = served.consoles()
        served.process.kill9()
        await served.until(lambda: not console.is_running() or console.status() == "zombie")


async def test_idle_connections_take_no_room_from_others(pages: Listening, session: aiohttp.ClientSession) -> None:
    held = [await asyncio.open_connection("127.0.0.1", pages.port) for _ in range(300)]
    async with session.get(pages.url) as reply:
        assert reply.status == 200
    assert await asyncio.wait_for(held[0][0].read(), 20) == b""  # the oldest made room
    for _, writer in held:
        writer.transport.abort()


async def test_connections_end_that_are_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qdeck_console.serving.server.PLAIN_S", 0.3)
    start = b"POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n"
    start += b"Content-Type: application/x-www-form-urlencoded\r\n\r\nsecret="
    async with listening(Login(TOKEN)) as pages:
        for sent in (b"", start[:30], start):
            reader, writer = await asyncio.open_connection("127.0.0.1", pages.port)
            writer.write(sent)
            assert await asyncio.wait_for(reader.read(), 20) == b""
            writer.close()


async def test_connections_that_ended_take_no_room(pages: Listening, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the room of one that is slow, nor memory."""
    monkeypatch.setattr("qdeck_console.serving.server.SETTLE_S", 0.01)
    reader, writer = await asyncio.open_connection("127.0.0.1", pages.port)
    request = b"GET /static/icon.svg HTTP/1.1\r\nHost: localhost\r\n\r\n"
    writer.write(request[:9])
    for _ in range(600):
        other, closing = await asyncio.open_connection("127.0.0.1", pages.port)
        closing.write(request)
        assert (await other.read()).startswith(b"HTTP/1.1 200")
        closing.close()
    writer.write(request[9:])
    assert (await reader.read()).startswith(b"HTTP/1.1 200")
    writer.close()
    timers = [each for each in asyncio.get_running_loop()._scheduled if not each.cancelled()]  # type: ignore[attr-defined]
    assert len(timers) < 300


async def test_requests_of_nonsense_are_not_logged(pages: Listening, caplog: pytest.LogCaptureFixture) -> None:
    """Anybody can send any number, and what they send may hold the secrets of others."""
    for request in (b"\xff\xff\r\n\r\n", b"GET / HTTP/1.1\r\nHost: localhost\r\nCookie: word\x00=1\r\n\r\n"):
        reader, writer = await asyncio.open_connection("127.0.0.1", pages.port)
        writer.write(request)
        assert b" 400 " in await reader.readline()
        writer.close()
    assert not caplog.records


async def test_without_a_login_nothing_that_a_proxy_passes_on(pages: Listening, session: aiohttp.ClientSession) -> None:
    for name in ("X-Forwarded-For", "Forwarded", "Via", "X-Real-IP", "X-Forwarded-Host"):
        for path in ("/", "/ws"):
            async with session.get(pages.url + path, headers={name: "192.0.2.7"}) as reply:
                assert reply.status == 403
                assert "with a login" in await reply.text()
    async with listening(Login(TOKEN)) as guarded, session.get(guarded.url, headers={"Via": "1.1 x"}) as reply:
        assert reply.status == 401
        assert "secret.example" not in await reply.text()  # which server it is, only who logged in learns


def test_visitors_write_files_of_rows_in_one_folder_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job's arguments in a file that a shell runs at the next login would be commands."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(os.environ, "TEXTUAL_DRIVER", "qdeck_console.serving.driver:WebDriver")
    for name in (
        "~/.bash_profile",
        ".bashrc",
        "../x.jsonl",
        "/x.jsonl",
        "x.sh",
        ".x.jsonl",
        "a/x.jsonl",
        "x\n.jsonl",
    ):
        assert "NAME.jsonl only" in check_new_file(name), name
        with pytest.raises(PermissionError), new_file(name):
            pass
    with new_file(" qdeck-dead.jsonl ") as (_, file):
        file.write(b"{}\n")
    assert [each.name for each in tmp_path.iterdir() if each.is_file()] == ["qdeck-dead.jsonl"]
