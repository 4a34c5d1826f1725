"""Listens for the API beside the chores, on the agent's own loop."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import TYPE_CHECKING, Any, Final

from qdeck._errors import InvalidOption, UsageError

try:
    import uvicorn
    from uvicorn.protocols.http.h11_impl import H11Protocol

    from qdeck._agent.http import make_app
except ImportError as error:
    raise UsageError(
        f"the agent's API needs {error.name or 'more packages'}", hint="pip install 'qdeck[agent]'"
    ) from error

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from qdeck._agent.chores import Chores
    from qdeck._agent.options import Address, AgentOptions

MOST_REQUESTS: Final = 64  # at once; more get 503
CLOSE_S: Final = 3
HEAD_S: Final = 10  # for a caller to say what it wants: some that never do would else take all the room there is


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leaves signals to the agent."""
        yield


class _Impatient(H11Protocol):
    """Hangs up on who does not finish the head of a request in time."""

    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as its base has it
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        self._wait()
        super().data_received(data)
        # The attribute is there from the start, and None until the first request.
        if self.cycle is not None and not self.cycle.response_complete:
            self._wait_no_more()

    def connection_lost(self, exc: Exception | None) -> None:
        self._wait_no_more()
        super().connection_lost(exc)

    def _wait(self) -> None:
        if self._timer is None:
            self._timer = self.loop.call_later(HEAD_S, self._hang_up)

    def _wait_no_more(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _hang_up(self) -> None:
        if not self.transport.is_closing():
            self.transport.close()


@contextlib.asynccontextmanager
async def listening(
    options: AgentOptions, chores: Chores, event: Callable[[dict[str, Any]], None]
) -> AsyncIterator[str]:
    """Listens while the context is open; gives the address, with the port that was taken where 0 was asked for."""
    assert options.http is not None  # noqa: S101 - the caller asked for it
    listener = _bind(options.http)
    host, port = listener.getsockname()[:2]
    if options.token is None:
        why = "no token is set: of the API, only /metrics and /healthz answer"
        event({"event": "degraded", "why": why, "hint": "set QDECK_HTTP_TOKEN"})
    if not options.http.is_loopback:
        why = f"the API listens on {host}, in plain HTTP: put a proxy with TLS before it"
        event({"event": "warning", "why": why})
    config = uvicorn.Config(
        make_app(options, chores, event),
        loop="none",
        http=_Impatient,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=MOST_REQUESTS,
        timeout_keep_alive=5,
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


def _bind(address: Address) -> socket.socket:
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address.host, address.port))
    except OSError as error:
        listener.close()
        hint = "choose another port, or end what listens there"
        raise InvalidOption(f"cannot listen on {address.host}:{address.port}: {error.strerror}", hint=hint) from error
    listener.setblocking(False)
    return listener
