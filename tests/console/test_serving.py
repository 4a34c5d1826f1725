"""`qdeck serve`: who may open a console, what a browser may send, and how it ends."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest
from aiohttp import web

from qdeck import InvalidOption
from qdeck_console.newfile import check_new_file, new_file
from qdeck_console.serving import login as logins
from qdeck_console.serving.login import Login
from qdeck_console.serving.server import ConsoleServer
from qdeck_console.serving.visit import HEIGHT, WIDTH, clamp
from support.serving import Served, free_port, serving, visiting

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from support.processes import PythonProcess

TOKEN = "a-token-of-tests-1234567890"


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as made:
        yield made


@pytest.fixture
async def served(make_process: Callable[..., PythonProcess], url: str) -> AsyncIterator[Served]:
    async with serving(make_process, url, "--visitors", "30") as made:
        yield made


async def test_the_page_is_whole_and_all_of_it_is_ours(served: Served, session: aiohttp.ClientSession) -> None:
    async with session.get(served.url) as reply:
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
        async with session.get(f"{served.url}/{name}") as reply:
            assert reply.status == 200, name
            text = await reply.text(errors="replace")
            if name.endswith((".css", ".html")):
                assert not re.search(r"url\(['\"]?https?:|@import", text)
    assert not [name for name in files if ":" in name]


async def test_nothing_else_is_served(served: Served, session: aiohttp.ClientSession) -> None:
    for path in ("/static/", "/static", "/static/nothing", "/static/%2e%2e/server.py", "/download/1"):
        async with session.get(served.url + path) as reply:
            assert reply.status == 404, path
            assert "Content-Security-Policy" in reply.headers


async def test_other_names_and_pages_of_others_are_refused(served: Served, session: aiohttp.ClientSession) -> None:
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
            async with session.get(served.url + path, headers=headers) as reply:
                assert reply.status == code, (headers, path)
    async with session.get(served.url, headers={"Host": "localhost:1"}) as reply:
        assert reply.status == 200


def test_names_of_this_server() -> None:
    here = ConsoleServer([], Login(), host="127.0.0.1", public_url="https://deck.example/console")
    assert all(map(here.is_own_name, ("localhost:8000", "127.0.0.1", "[::1]:1", "deck.example")))
    assert not any(map(here.is_own_name, ("", "evil.example", "10.0.0.1", "deck.example.evil", "[", "localhost.")))
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
        await visitor.send("resize", {"width": 100_000_000, "height": 100_000_000})
        await visitor.send("stdin", "?")
        await visitor.until("keys")
        [console] = served.consoles()
        assert console.memory_info().rss < 600 << 20


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


async def test_a_message_of_nonsense_ends_that_visit_alone(served: Served, session: aiohttp.ClientSession) -> None:
    async with visiting(served, session) as other:
        await other.until("Queues")
        for name, text in NONSENSE.items():
            async with visiting(served, session) as visitor:
                await visitor.websocket.send_str(text)
                assert await visitor.closed() == 1008, name
            await served.until(lambda: len(served.consoles()) == 1)
        await other.send("stdin", "\ud800?")  # half a character is none, and stops nothing
        await other.until("keys")
    assert "Traceback" not in served.process.output


async def test_binary_and_oversized_messages_end_the_visit(served: Served, session: aiohttp.ClientSession) -> None:
    async with visiting(served, session) as visitor:
        await visitor.websocket.send_bytes(b"Dxxxx")
        assert await visitor.closed() == 1008
    async with visiting(served, session) as visitor:
        await visitor.send("stdin", "x" * 100_000)
        assert await visitor.closed() == 1009
    await served.until(lambda: not served.consoles())


async def test_there_are_no_more_visitors_than_allowed(
    make_process: Callable[..., PythonProcess], url: str, session: aiohttp.ClientSession
) -> None:
    async with serving(make_process, url, "--visitors", "1") as served:
        async with visiting(served, session) as one:
            await one.until("Queues")
            async with visiting(served, session) as other:
                assert await other.closed() == 1013
            assert len(served.consoles()) == 1
        async with asyncio.timeout(30):
            while True:  # until the first has left
                async with visiting(served, session) as again:
                    with contextlib.suppress(AssertionError):
                        await again.until("Queues")
                        break


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
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


async def test_a_crash_leaves_no_console(
    make_process: Callable[..., PythonProcess], url: str, session: aiohttp.ClientSession
) -> None:
    async with serving(make_process, url) as served, visiting(served, session) as visitor:
        await visitor.until("Queues")
        [console] = served.consoles()
        served.process.kill9()
        await served.until(lambda: not console.is_running() or console.status() == "zombie")


async def test_beyond_this_machine_it_needs_a_login(
    make_process: Callable[..., PythonProcess], url: str, session: aiohttp.ClientSession
) -> None:
    for options in (("--host", "0.0.0.0"), ("--public-url", "https://deck.example")):  # noqa: S104 - refused
        process = make_process("-m", "qdeck_console", "--url", url, "serve", *options)
        assert await asyncio.to_thread(process.wait, 30) == 64
        assert "needs a login" in process.output
    async with serving(make_process, url, "--host", "0.0.0.0", env={"QDECK_SERVE_TOKEN": TOKEN}) as served:  # noqa: S104
        async with session.get(served.url) as reply:
            assert reply.status == 401
            assert "terminal" not in await reply.text()
        for headers in ({}, {"Authorization": "Bearer x"}, {"Cookie": f"qdeck-{served.port}=x"}):
            with pytest.raises(aiohttp.WSServerHandshakeError, match="401"):
                async with visiting(served, session, headers=headers):
                    pass
        async with session.post(f"{served.url}/login", data={"secret": "wrong"}) as reply:
            assert (reply.status, TOKEN in await reply.text()) == (401, False)
        async with session.post(f"{served.url}/login", data={"secret": TOKEN}, allow_redirects=False) as reply:
            cookie = reply.headers["Set-Cookie"]
            assert reply.status == 303
            assert "HttpOnly" in cookie
            assert "SameSite=Strict" in cookie
        async with visiting(served, session) as visitor:
            await visitor.until("Queues")
            [console] = served.consoles()
            assert "QDECK_SERVE_TOKEN" not in console.environ()
            closed = asyncio.create_task(visitor.closed())
            async with session.post(f"{served.url}/logout") as reply:
                assert reply.status == 401
            assert await closed == 1001
        bearer = aiohttp.ClientSession(headers={"Authorization": f"Bearer {TOKEN}"})
        async with bearer as proxy, visiting(served, proxy) as visitor:
            await visitor.until("Queues")


async def test_users_log_in_with_their_passwords(
    make_process: Callable[..., PythonProcess], url: str, session: aiohttp.ClientSession, tmp_path: Path
) -> None:
    users = tmp_path / "users"
    users.write_text("# who may look\n" + logins.hash_password("ada", "correct horse") + "\n")
    users.chmod(0o600)
    async with serving(make_process, url, "--users-file", str(users)) as served:
        assert "horse" not in " ".join(map(str, [*served.process.output]))
        for given in (
            {"user": "ada", "secret": "wrong"},
            {"user": "eve", "secret": "correct horse"},
            {"secret": "correct horse"},
            {"user": "ada"},
        ):
            async with session.post(f"{served.url}/login", data=given) as reply:
                assert reply.status == 401, given
        async with session.post(f"{served.url}/login", data={"user": "ada", "secret": "correct horse"}) as reply:
            assert reply.status == 200
            assert "terminal" in await reply.text()
        async with visiting(served, session) as visitor:
            await visitor.until("Queues")


async def test_guessing_is_slowed_down() -> None:
    login = Login(TOKEN)
    for _ in range(logins.FAILURES):
        assert await login.check("192.0.2.1", "", "guess") == "That is not right."
    assert "Wait" in (await login.check("192.0.2.1", "", TOKEN) or "")
    assert await login.check("192.0.2.2", "", TOKEN) is None
    for at in range(3000):
        await login.check(f"2001:db8::{at:x}", "", "guess")
    assert len(login._failures) <= 1000


def test_sessions_end() -> None:
    login = Login(TOKEN)
    word = login.open_session()
    session = login.session(word)
    assert session is not None
    assert 0 < login.left_s(session) <= logins.SESSION_S
    login.close_session(session)
    assert login.session(word) is None
    words = [login.open_session() for _ in range(500)]
    assert login.session(words[0]) is None
    assert login.session(words[-1]) is not None


def test_secrets_of_files_and_the_environment(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(TOKEN + "\n")
    file.chmod(0o604)
    with pytest.raises(InvalidOption, match="other users"):
        Login.read(str(file), None, {})
    file.chmod(0o600)
    assert Login.read(str(file), None, {}).fits_token(TOKEN)
    assert not Login.read(None, None, {"QDECK_SERVE_TOKEN": "", "QDECK_SERVE_USERS": ""}).is_needed
    line = logins.hash_password("ada", "correct horse")
    assert Login.read(None, None, {"QDECK_SERVE_USERS": line}).has_users
    for wrong in (("short",), ("x" * 2000,)):
        with pytest.raises(InvalidOption):
            Login(*wrong)
    with pytest.raises(InvalidOption, match="cannot read"):
        Login.read(str(tmp_path / "none"), None, {})


@pytest.mark.parametrize(
    "line",
    [
        "ada:secret",
        "ada:scrypt$16$8$1$AAAAAAAAAAAAAAAAAAAAAA==$" + "A" * 44,
        "ada:scrypt$99999999$8$1$AAAAAAAAAAAAAAAAAAAAAA==$" + "A" * 44,
        "ada:scrypt$1048576$32$16$AAAAAAAAAAAAAAAAAAAAAA==$" + "A" * 44,
        "ada:scrypt$32768$8$1$AAAAAAAAAAAAAAAAAAAAA$" + "A" * 43,
        "a b:scrypt$32768$8$1$AAAAAAAAAAAAAAAAAAAAAA==$" + "A" * 44,
        "\x00",
    ],
)
def test_a_wrong_line_is_told_without_what_it_holds(line: str) -> None:
    with pytest.raises(InvalidOption, match="line 2") as caught:
        logins.read_users(f"# users\n{line}", "users")
    assert "secret" not in str(caught.value)
    assert "AAAA" not in str(caught.value)


async def test_idle_connections_take_no_room_from_others(served: Served, session: aiohttp.ClientSession) -> None:
    held = [await asyncio.open_connection("127.0.0.1", served.port) for _ in range(300)]
    async with session.get(served.url) as reply:
        assert reply.status == 200
    assert await asyncio.wait_for(held[0][0].read(), 20) == b""  # the oldest made room
    for _, writer in held:
        writer.transport.abort()


async def test_connections_end_that_are_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qdeck_console.serving.server.PLAIN_S", 0.3)
    port = free_port()
    made = ConsoleServer([], Login(TOKEN), port=port)
    runner = web.AppRunner(made.make_app())
    await runner.setup()
    listener = await made._listen(runner)
    start = b"POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n"
    start += b"Content-Type: application/x-www-form-urlencoded\r\n\r\nsecret="
    for sent in (b"", start[:30], start):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(sent)
        assert await asyncio.wait_for(reader.read(), 20) == b""
        writer.close()
    listener.close()
    await runner.cleanup()


def test_visitors_write_files_of_rows_in_one_folder_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job's arguments in a file that a shell runs at the next login would be commands."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(os.environ, "TEXTUAL_DRIVER", "textual.drivers.web_driver:WebDriver")
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
        assert "only NAME.jsonl" in check_new_file(name), name
        with pytest.raises(PermissionError), new_file(name):
            pass
    with new_file(" qdeck-dead.jsonl ") as (_, file):
        file.write(b"{}\n")
    assert [each.name for each in tmp_path.iterdir() if each.is_file()] == ["qdeck-dead.jsonl"]
