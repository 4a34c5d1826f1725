"""The console in a browser: a small web server that runs a console of its own for every visitor."""

from __future__ import annotations

import shlex
import socket
import sys
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from aiohttp import web
from textual_serve.server import Server

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

LOOPBACK: Final = {"localhost", "127.0.0.1", "::1"}
_ANY: Final = {"0.0.0.0", "::", ""}  # noqa: S104 - names for what is refused and warned of, not bound to


class ConsoleServer(Server):
    """Serves consoles, and only to pages that it made itself: any other page in the same browser could type here."""

    def __init__(self, command: Sequence[str], host: str, port: int, public_url: str | None) -> None:
        name = socket.gethostname() if host in _ANY else f"[{host}]" if ":" in host else host
        super().__init__(
            shlex.join(command), host, port, title="qdeck", public_url=public_url or f"http://{name}:{port}"
        )

    def initialize_logging(self) -> None:
        """Nothing is logged: the output is for who started it."""

    async def _make_app(self) -> web.Application:
        app = await super()._make_app()
        app.middlewares.append(self._own_pages_only)
        return app

    async def on_startup(self, app: web.Application) -> None:
        """Says where it is."""
        print(f"the console is at {self.public_url} until Ctrl+C", flush=True)  # noqa: T201 - a command's output

    @web.middleware
    async def _own_pages_only(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        """Refuses pages of others (Origin), and names of others that lead here (Host)."""
        public = urlsplit(self.public_url).netloc
        origin = request.headers.get("Origin")
        if origin is not None and urlsplit(origin).netloc not in {request.host, public}:
            raise web.HTTPForbidden(text="this page is not of this server\n")
        name = urlsplit(f"//{request.host}").hostname
        if self.host in LOOPBACK and name not in LOOPBACK and request.host != public:
            raise web.HTTPForbidden(text="this server is asked for by its own name only\n")
        return await handler(request)


def console_command(options: Sequence[str]) -> list[str]:
    """What runs for a visitor. The server's URL is in its environment: a command line can be read by everybody."""
    return [sys.executable, "-m", "qdeck_console", *options, "console"]
