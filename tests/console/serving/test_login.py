"""Who may log in to `qdeck serve`, and what a login page is sent."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import aiohttp
import pytest
from aiohttp.test_utils import TestServer

from qdeck import InvalidOption
from qdeck_console.serving import login as logins
from qdeck_console.serving.login import Login
from qdeck_console.serving.server import ConsoleServer
from support.serving import TOKEN, listening, serving, visiting

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from support.processes import PythonProcess


async def test_beyond_this_machine_it_needs_a_login(
    make_process: Callable[..., PythonProcess], url: str, session: aiohttp.ClientSession
) -> None:
    for options in (("--host", "0.0.0.0"), ("--public-url", "https://deck.example")):  # noqa: S104 - refused
        process = make_process("-m", "qdeck_console", "--url", url, "serve", *options)
        assert await asyncio.to_thread(process.wait, 30) == 64
        assert "requires a login" in process.output
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


@pytest.mark.slow
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


async def test_guessing_is_slowed_down(monkeypatch: pytest.MonkeyPatch) -> None:
    """For a whole network of IPv6, of which a machine has all addresses; but a token is too long to guess."""
    monkeypatch.setattr(logins, "FAILURES", 2)
    users = logins.read_users(logins.hash_password("ada", "correct horse"), "users")
    login = Login(TOKEN, users)
    for at in range(logins.FAILURES):
        assert await login.check("192.0.2.1", "", "guess") == "Wrong token, name or password."
        assert await login.check(f"2001:db8::{at}", "", "guess") == "Wrong token, name or password."
    for address in ("192.0.2.1", "2001:db8::ffff"):
        assert "Wait" in (await login.check(address, "ada", "correct horse") or "")
        assert await login.check(address, "", TOKEN) is None
    for address in ("192.0.2.2", "2001:db8:0:1::1", "::ffff:192.0.2.2"):
        assert await login.check(address, "ada", "correct horse") is None
    login = Login(TOKEN)
    for at in range(3000):
        await login.check(f"2001:db8:{at:x}::1", "", "guess")
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


@pytest.mark.parametrize(
    ("type_", "body"),
    [
        ("application/x-www-form-urlencoded", b"secret=\xff"),
        ("application/x-www-form-urlencoded; charset=x", b"secret=x"),
        ("application/x-www-form-urlencoded", b"&".join([b"a=b"] * 1000)),
        ("multipart/form-data", b"secret=x"),
        ("multipart/form-data; boundary=a", b"--a\r\nx"),
        ("multipart/form-data; boundary=a", b"--a\r\nContent-Disposition: form-data\r\n\r\nx\r\n--a--\r\n"),
        ("application/json", b'{"secret": 1}'),
    ],
)
@pytest.mark.parametrize("encoding", ["identity", "gzip"])
async def test_any_login_form_has_an_answer(
    session: aiohttp.ClientSession, caplog: pytest.LogCaptureFixture, type_: str, body: bytes, encoding: str
) -> None:
    async with listening(Login(TOKEN)) as pages:
        sent = {"Content-Type": type_, "Content-Encoding": encoding}
        request = session.post(f"{pages.url}/login", data=body, headers=sent, skip_auto_headers=["Accept-Encoding"])
        async with request as reply:
            assert reply.status in {400, 401}
    assert not caplog.records


@pytest.mark.parametrize(
    ("origin", "code"),
    [
        ("https://deck.example", 401),
        ("HTTPS://DECK.EXAMPLE:443", 401),
        ("http://deck.example", 403),  # made by anybody on the way to the browser
        ("https://deck.example:444", 403),
        ("https://deck.example@evil.example", 403),
        ("https://evil.example@deck.example", 403),
        ("http://127.0.0.1:{port}", 403),
    ],
)
async def test_pages_of_the_public_url_are_its_own(session: aiohttp.ClientSession, origin: str, code: int) -> None:
    made = ConsoleServer([], Login(TOKEN), public_url="https://deck.example/console")
    async with TestServer(made.make_app()) as server:
        for host in ("deck.example", "deck.example:443"):
            headers = {"Host": host, "Origin": origin.format(port=server.port)}
            async with session.get(server.make_url("/ws"), headers=headers) as reply:
                assert reply.status == code
