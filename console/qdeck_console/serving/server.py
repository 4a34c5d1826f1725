"""The web server of `qdeck serve`: the page, the login, and the connections of visitors to their consoles."""

from __future__ import annotations

import asyncio
import contextlib
import html
import importlib.resources
import ipaddress
import logging
import signal
import socket
import string
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl, urlsplit

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from qdeck import InvalidOption
from qdeck.runtime import host_and_port, is_forwarded, is_loopback, module_command
from qdeck_console.serving.visit import END_S, MOST_MESSAGE, Visit

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from qdeck_console.serving.login import Login

    Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
    Origin = tuple[str, str, int]

VISITORS: Final = 8
MOST_PLAIN: Final = 256  # connections that are not a console's; then the oldest is closed
PLAIN_S: Final = 60.0  # for such a connection to send its request and to read the answer
SETTLE_S: Final = 0.5  # within which an accepted connection has its transport
_PORTS: Final = {"http": 80, "https": 443}
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
        self._public_origin = _origin(f"{self._public.scheme}://{self._public.netloc}") if self._public else None
        self._most_visitors = visitors
        self._title = title
        self._visits: dict[Visit, bytes | None] = {}
        self._plain: dict[asyncio.BaseProtocol, asyncio.TimerHandle] = {}  # connections, the oldest first
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
        logging.getLogger("aiohttp.server").addFilter(_is_own_fault)
        return app

    async def _listen(self, runner: web.AppRunner) -> asyncio.Server:
        loop = asyncio.get_running_loop()

        def connection() -> asyncio.BaseProtocol:
            assert runner.server is not None  # noqa: S101 - it is set up
            if len(self._plain) >= MOST_PLAIN:
                self._make_room(loop.time() + PLAIN_S - SETTLE_S)
            made = runner.server()
            self._plain[made] = loop.call_later(PLAIN_S, self._end_plain, made)
            return made

        try:
            return await loop.create_server(connection, self._host or None, self._port)
        except OSError as error:
            hint = "Choose another port, or stop the program that listens there."
            told = error.strerror or "unknown address"
            raise InvalidOption(f"cannot listen on {self._host}:{self._port}: {told}", hint=hint) from error

    def _make_room(self, until: float) -> None:
        """Forget connections that were closed, or close the oldest. `until` leaves those of now: they have no transport
        yet.
        """
        closed = [each for each, timer in self._plain.items() if timer.when() < until and _transport(each) is None]
        for each in closed or [next(iter(self._plain))]:
            self._end_plain(each)

    def _end_plain(self, connection: asyncio.BaseProtocol) -> None:
        if (transport := _transport(connection)) is not None:
            transport.abort()
        self._keep(connection)

    def _keep(self, connection: asyncio.BaseProtocol) -> None:
        """Let a connection stay open without a limit."""
        timer = self._plain.pop(connection, None)
        if timer is not None:
            timer.cancel()

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Refuse other names for this server (Host), pages of others (Origin), and without a login what a proxy passes
        on, which comes from anywhere.
        """
        host = request.headers.get("Host", "")
        if not self.is_own_name(host):
            hint = "Give the URL that browsers use as --public-url."
            raise web.HTTPMisdirectedRequest(text=f"this server does not answer under that name: {hint}\n")
        origin = request.headers.get("Origin")
        if origin is not None and _origin(origin) not in self._own_origins(host):
            raise web.HTTPForbidden(text="the request comes from another page\n")
        if not self._login.is_needed and is_forwarded(request.headers):
            raise web.HTTPForbidden(text="forwarded by a proxy: start qdeck serve with a login\n")
        return await handler(request)

    def is_own_name(self, host: str) -> bool:
        """Whether a Host header names this server. Other names can be made to lead here by anybody (DNS rebinding)."""
        found = host_and_port(host)
        if found is None:
            return False
        name = found[0]
        if self._public is not None and name == self._public.hostname:
            return True
        if self._host not in _ANY:
            return name == self._host.lower() or (is_loopback(self._host) and is_loopback(name))
        return name == socket.gethostname().lower() or is_loopback(name) or _is_address(name)

    def _own_origins(self, host: str) -> set[Origin | None]:
        """Where pages of this server come from. A page of the same name in plain HTTP is not of a server with TLS:
        anybody on the way to the browser could have made it.
        """
        here = _origin(f"http://{host}")
        public = self._public_origin
        is_plain_public = public is not None and public[0] == "https" and here is not None and here[1] == public[1]
        return ({public} if public is not None else set()) | ({here} if not is_plain_public else set())

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
        return self._page("index.html", self._title, font_size=font_size, logout=logout)

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

    def _page(self, name: str, title: str = "qdeck", **values: str) -> web.Response:
        text = _read("qdeck_console.serving", f"page/{name}").decode()
        shown = {key: html.escape(value) for key, value in values.items()}
        text = string.Template(text).substitute(shown, title=html.escape(title))
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
        form = await _form(request)
        user, secret = form.get("user", ""), form.get("secret", "")
        if not form or not self._login.is_needed:
            raise web.HTTPBadRequest(text="not a login\n")
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
        if len(self._visits) >= self._most_visitors:
            reason = f"All {self._most_visitors} consoles are in use. Try again later."
            await websocket.close(code=1013, message=reason.encode())
            return websocket
        self._keep(request.protocol)
        visit, session = Visit(self._command, websocket), self._session(request)
        self._visits[visit] = session
        ending = None
        if session is not None:
            ending = asyncio.create_task(self._close_after(visit, self._login.left_s(session)))
        try:
            await visit.run(request.query.get("width"), request.query.get("height"))
        finally:
            if request.transport is not None:
                request.transport.abort()  # what a browser did not read until now would be kept for it
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


async def _form(request: web.Request) -> dict[str, str]:
    """The fields of the login page; none when it is anything else. Other forms have parsers that fail in many ways."""
    if request.content_type != "application/x-www-form-urlencoded":
        return {}
    try:
        return dict(parse_qsl((await request.read()).decode(), keep_blank_values=True, max_num_fields=8))
    except (ValueError, web.RequestPayloadError):
        return {}


def _read(package: str, path: str) -> bytes:
    return importlib.resources.files(package).joinpath(path).read_bytes()


def _origin(text: str) -> Origin | None:
    """Scheme, name and port of an Origin header; None when it is none of a web page."""
    scheme, _, place = text.lower().partition("://")
    found = host_and_port(place)
    if found is None or scheme not in _PORTS:
        return None
    return scheme, found[0], _PORTS[scheme] if found[1] is None else found[1]


def _transport(connection: asyncio.BaseProtocol) -> asyncio.Transport | None:
    transport: asyncio.Transport | None = getattr(connection, "transport", None)
    return transport


def _is_own_fault(record: logging.LogRecord) -> bool:
    """Whether the log needs it: what is wrong with a request is nothing for the operator, and anybody can send any
    number of them.
    """
    error = record.exc_info[1] if record.exc_info else None
    return not isinstance(error, HttpProcessingError | web.RequestPayloadError)


def _is_address(name: str) -> bool:
    with contextlib.suppress(ValueError):
        ipaddress.ip_address(name)
        return True
    return False
