"""The web server of `qdeck serve`: the page, the login, and the connections of visitors to their consoles."""

from __future__ import annotations

import asyncio
import contextlib
import html
import importlib.resources
import ipaddress
import signal
import socket
import string
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from aiohttp import web

from qdeck import InvalidOption
from qdeck._agent.options import is_loopback
from qdeck._python import module_command
from qdeck_console.serving.visit import END_S, MOST_MESSAGE, Visit

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from qdeck_console.serving.login import Login

    Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

VISITORS: Final = 8
MOST_PLAIN: Final = 256  # connections that are not a console's; then the oldest is closed
PLAIN_S: Final = 60.0  # for such a connection to send its request and to read the answer
_ANY: Final = {"0.0.0.0", "::", ""}  # noqa: S104 - names for what is recognised, not bound to
# Styles: the terminal measures and colours its cells with some of its own.
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; font-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
_HEADERS: Final = {
    "Content-Security-Policy": _POLICY,
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
# Every file that is served, with its type: the terminal and its font are those of textual-serve.
_FILES: Final = {
    "page.css": ("qdeck_console.serving", "page/page.css", "text/css"),
    "page.js": ("qdeck_console.serving", "page/page.js", "text/javascript"),
    "icon.svg": ("qdeck_console.serving", "page/icon.svg", "image/svg+xml"),
    "textual.js": ("textual_serve", "static/js/textual.js", "text/javascript"),
    "xterm.css": ("textual_serve", "static/css/xterm.css", "text/css"),
    "mono.ttf": ("textual_serve", "static/fonts/RobotoMono-VariableFont_wght.ttf", "font/ttf"),
}


def console_command(options: Sequence[str]) -> list[str]:
    """What runs for a visitor. The server's URL is in its environment: a command line can be read by everybody."""
    return module_command("qdeck_console", *options, "console")


class ConsoleServer:
    """Serves consoles to browsers, and only to pages that it made itself: any other page could type here."""

    def __init__(
        self,
        command: Sequence[str],
        login: Login,
        *,
        host: str = "127.0.0.1",
        port: int = 8000,
        public_url: str | None = None,
        visitors: int = VISITORS,
        title: str = "qdeck",
    ) -> None:
        self._command = command
        self._login = login
        self._host, self._port = host, port
        self._public = urlsplit(public_url) if public_url else None
        self._most_visitors = visitors
        self._title = title
        self._visits: dict[Visit, bytes | None] = {}
        self._plain: dict[asyncio.BaseProtocol, None] = {}  # connections, the oldest first
        self._cookie = "__Host-qdeck" if self._is_secure and self._public_path == "/" else f"qdeck-{port}"

    @property
    def _is_secure(self) -> bool:
        return self._public is not None and self._public.scheme == "https"

    @property
    def _public_path(self) -> str:
        return (self._public.path if self._public is not None else "").rstrip("/") + "/"

    @property
    def url(self) -> str:
        """Where browsers find it."""
        if self._public is not None:
            return self._public.geturl()
        name = socket.gethostname() if self._host in _ANY else f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{name}:{self._port}"

    async def serve(self) -> None:
        """Serve until SIGTERM or Ctrl+C, then end all consoles."""
        loop, stop = asyncio.get_running_loop(), asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop.set)
        runner = web.AppRunner(self.make_app(), access_log=None, shutdown_timeout=1.0)
        await runner.setup()
        try:
            listener = await self._listen(runner)
            print(f"the console is at {self.url} until Ctrl+C", flush=True)  # noqa: T201 - a command's output
            await stop.wait()
            listener.close()
            await self._close_visits("qdeck serve was stopped.")
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._are_gone(), END_S + 1)
        finally:
            await runner.cleanup()

    async def _are_gone(self) -> None:
        while self._visits:  # noqa: ASYNC110 - their handlers take them off, each when its process has ended
            await asyncio.sleep(0.02)

    def make_app(self) -> web.Application:
        """The application, without a listener."""
        app = web.Application(middlewares=[self._guard], client_max_size=8192)
        app.add_routes(
            [
                web.get("/", self._index),
                web.get("/ws", self._connect),
                web.post("/login", self._log_in),
                web.post("/logout", self._log_out),
                web.get("/static/{name}", self._file),
            ]
        )
        app.on_response_prepare.append(_add_headers)
        return app

    async def _listen(self, runner: web.AppRunner) -> asyncio.Server:
        loop = asyncio.get_running_loop()

        def connection() -> asyncio.BaseProtocol:
            assert runner.server is not None  # noqa: S101 - it is set up
            made = runner.server()
            self._plain[made] = None
            loop.call_later(PLAIN_S, self._end_plain, made)
            if len(self._plain) > MOST_PLAIN:
                self._end_plain(next(iter(self._plain)))
            return made

        try:
            return await loop.create_server(connection, self._host or None, self._port)
        except OSError as error:
            hint = "choose another port, or end what listens there"
            told = error.strerror or "the address is not known"
            raise InvalidOption(f"cannot listen on {self._host}:{self._port}: {told}", hint=hint) from error

    def _end_plain(self, connection: asyncio.BaseProtocol) -> None:
        transport: asyncio.Transport | None = getattr(connection, "transport", None)
        if connection in self._plain and transport is not None:
            transport.abort()
        self._plain.pop(connection, None)

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Refuse other names for this server (Host) and pages of others (Origin)."""
        host = request.headers.get("Host", "")
        if not self.is_own_name(host):
            hint = "name the URL that browsers use with --public-url"
            raise web.HTTPMisdirectedRequest(text=f"this server does not answer under that name: {hint}\n")
        origin = request.headers.get("Origin")
        if origin is not None and _netloc(origin) not in self._own_places(host):
            raise web.HTTPForbidden(text="this page is not of this server\n")
        return await handler(request)

    def is_own_name(self, host: str) -> bool:
        """Whether a Host header names this server. Other names can be made to lead here by anybody (DNS rebinding)."""
        name = _hostname(f"//{host}")
        if name is None:
            return False
        if self._public is not None and name == self._public.hostname:
            return True
        if self._host not in _ANY:
            return name == self._host.lower() or (is_loopback(self._host) and is_loopback(name))
        return name == socket.gethostname().lower() or is_loopback(name) or _is_address(name)

    def _own_places(self, host: str) -> set[str]:
        return {host.lower()} | ({self._public.netloc.lower()} if self._public is not None else set())

    def _session(self, request: web.Request) -> bytes | None:
        return self._login.session(request.cookies.get(self._cookie, ""))

    def _may_enter(self, request: web.Request) -> bool:
        if not self._login.is_needed or self._session(request) is not None:
            return True
        scheme, _, word = request.headers.get("Authorization", "").partition(" ")
        return scheme.lower() == "bearer" and self._login.fits_token(word.strip())

    async def _index(self, request: web.Request) -> web.Response:
        if not self._may_enter(request):
            return self._login_page()
        size = request.query.get("fontsize", "16")
        font_size = size if size.isascii() and size.isdecimal() and 6 <= int(size[:4]) <= 72 else "16"
        logout = "" if self._session(request) is not None else "hidden"
        return self._page("index.html", font_size=font_size, logout=logout)

    def _login_page(self, problem: str = "") -> web.Response:
        has_users = self._login.has_users
        page = self._page(
            "login.html",
            problem=problem,
            user="" if has_users else "hidden",
            secret="Password" if has_users else "Token",
        )
        page.set_status(401)
        return page

    def _page(self, name: str, **values: str) -> web.Response:
        text = _read("qdeck_console.serving", f"page/{name}").decode()
        shown = {key: html.escape(value) for key, value in values.items()}
        text = string.Template(text).substitute(shown, title=html.escape(self._title))
        return web.Response(text=text, content_type="text/html")

    async def _file(self, request: web.Request) -> web.Response:
        found = _FILES.get(request.match_info["name"])
        if found is None:
            raise web.HTTPNotFound
        package, path, content_type = found
        response = web.Response(body=_read(package, path), content_type=content_type)
        response.headers["Cache-Control"] = "no-cache"
        return response

    async def _log_in(self, request: web.Request) -> web.StreamResponse:
        form = await request.post()
        user, secret = form.get("user", ""), form.get("secret", "")
        if not isinstance(user, str) or not isinstance(secret, str) or not self._login.is_needed:
            raise web.HTTPBadRequest(text="this is not a login\n")
        problem = await self._login.check(request.remote or "", user.strip(), secret)
        if problem is not None:
            return self._login_page(problem)
        response = web.Response(status=303, headers={"Location": "./"})
        response.set_cookie(
            self._cookie,
            self._login.open_session(),
            httponly=True,
            samesite="Strict",
            secure=self._is_secure,
            path=self._public_path,
        )
        return response

    async def _log_out(self, request: web.Request) -> web.StreamResponse:
        session = self._session(request)
        if session is not None:
            self._login.close_session(session)
            await self._close_visits("Logged out.", session)
        response = web.Response(status=303, headers={"Location": "./"})
        response.del_cookie(self._cookie, path=self._public_path, secure=self._is_secure, httponly=True)
        return response

    async def _connect(self, request: web.Request) -> web.StreamResponse:
        if not self._may_enter(request):
            raise web.HTTPUnauthorized(text="log in first\n")
        websocket = web.WebSocketResponse(heartbeat=15, max_msg_size=MOST_MESSAGE)
        await websocket.prepare(request)
        self._plain.pop(request.protocol, None)
        if len(self._visits) >= self._most_visitors:
            reason = f"All {self._most_visitors} consoles are in use. Try again later."
            await websocket.close(code=1013, message=reason.encode())
            return websocket
        visit, session = Visit(self._command, websocket), self._session(request)
        self._visits[visit] = session
        ending = None
        if session is not None:
            ending = asyncio.create_task(self._close_after(visit, self._login.left_s(session)))
        try:
            await visit.run(request.query.get("width"), request.query.get("height"))
        finally:
            del self._visits[visit]
            if ending is not None:
                ending.cancel()
        return websocket

    async def _close_after(self, visit: Visit, seconds: float) -> None:
        await asyncio.sleep(seconds)
        await visit.close("The login has expired.")

    async def _close_visits(self, reason: str, session: bytes | None = None) -> None:
        """End all consoles, or those of a session."""
        ended = [visit for visit, of in self._visits.items() if session is None or of == session]
        await asyncio.gather(*(visit.close(reason) for visit in ended))


async def _add_headers(_: web.Request, response: web.StreamResponse) -> None:
    for name, value in _HEADERS.items():
        response.headers.setdefault(name, value)
    response.headers.pop("Server", None)
    if not isinstance(response, web.WebSocketResponse):
        response.headers["Connection"] = "close"
        response.force_close()  # a request each: a connection that has its answer would be idle


def _read(package: str, path: str) -> bytes:
    return importlib.resources.files(package).joinpath(path).read_bytes()


def _hostname(text: str) -> str | None:
    try:
        return urlsplit(text).hostname
    except ValueError:
        return None


def _netloc(text: str) -> str | None:
    try:
        return urlsplit(text).netloc.lower()
    except ValueError:
        return None


def _is_address(name: str) -> bool:
    with contextlib.suppress(ValueError):
        ipaddress.ip_address(name)
        return True
    return False
