"""The server of the API, on the agent's own loop."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import TYPE_CHECKING, Any, Final

from qdeck._errors import InvalidOption, UsageError

try:
    import uvicorn
    from uvicorn.protocols.http.h11_impl import H11Protocol

    from qdeck._agent.api import error_response, make_app
except ImportError as error:
    raise UsageError(
        f"the agent's API needs {error.name or 'more packages'}", hint="Run pip install 'qdeck[agent]'."
    ) from error

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from starlette.applications import Starlette
    from starlette.types import Receive, Scope, Send

    from qdeck._agent.maintenance import Maintenance
    from qdeck._agent.options import AgentOptions, ListenAddress

MAX_REQUESTS: Final = 64  # at once; more get 503
MAX_CONNECTIONS: Final = 256  # then the oldest is closed
CLOSE_S: Final = 3
CONNECTION_S: Final = 300  # for a caller to send a request and read its reply: a purge may take a while


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leaves signals to the agent."""
        yield


def _bounded() -> type[H11Protocol]:
    """Return uvicorn's protocol with limits on connections and their duration. Without them callers without a token
    could take all file descriptors of the agent, and with them its connections to the server."""
    timers: dict[asyncio.Transport, asyncio.TimerHandle] = {}  # of open connections, the oldest first

    class Bounded(H11Protocol):
        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as its base has it
            super().connection_made(transport)
            self._limited = transport
            timers[transport] = asyncio.get_running_loop().call_later(CONNECTION_S, transport.abort)
            if len(timers) > MAX_CONNECTIONS:
                oldest = next(iter(timers))
                timers.pop(oldest).cancel()  # at once: many connections may be made before it is lost
                oldest.abort()

        def connection_lost(self, exc: Exception | None) -> None:
            if (timer := timers.pop(self._limited, None)) is not None:
                timer.cancel()
            super().connection_lost(exc)

    return Bounded


class _Limited:
    """The API with a limit of concurrent requests. Connections have a limit of their own: most may be idle."""

    def __init__(self, app: Starlette) -> None:
        self._app = app
        self._running = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._running >= MAX_REQUESTS:
            busy = error_response(503, f"{MAX_REQUESTS} requests are running already", "Try again later.")
            await busy(scope, receive, send)
            return
        self._running += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._running -= 1


@contextlib.asynccontextmanager
async def serve_api(
    options: AgentOptions, maintenance: Maintenance, event: Callable[[dict[str, Any]], None]
) -> AsyncIterator[str]:
    """Serve the API while the context is open; yield its address, with the actual port for port 0."""
    assert options.http is not None  # noqa: S101 - the caller asked for it
    listener = _bind(options.http)
    host, port = listener.getsockname()[:2]
    if options.token is None:
        error = "no HTTP token is set: only /metrics and /healthz are available"
        event({"event": "degraded", "error": error, "hint": "set QDECK_HTTP_TOKEN"})
    if not options.http.is_loopback:
        error = f"the API listens on {host} over plain HTTP: put a TLS proxy in front of it"
        event({"event": "warning", "error": error})
    config = uvicorn.Config(
        _Limited(make_app(options, maintenance, event)),
        loop="none",
        http=_bounded(),
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="error",  # invalid requests are not events of the agent
        access_log=False,
        server_header=False,
        proxy_headers=False,
        headers=[("Connection", "close")],  # one request each: a connection that has its reply would be idle
        timeout_graceful_shutdown=CLOSE_S,
    )
    server = _Server(config)
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        while not server.started and not serving.done():  # noqa: ASYNC110 - it has no event to wait for
            await asyncio.sleep(0.01)
        yield f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    finally:
        server.should_exit = True
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait_for(serving, CLOSE_S + 2)
        listener.close()


def _bind(address: ListenAddress) -> socket.socket:
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address.host, address.port))
    except OSError as error:
        listener.close()
        hint = "Choose another port, or stop the program that listens there."
        raise InvalidOption(f"cannot listen on {address.host}:{address.port}: {error.strerror}", hint=hint) from error
    listener.setblocking(False)
    return listener
