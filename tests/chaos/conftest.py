"""A queue with books, and workers to be hurt."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from chaos.fleet import Fleet
from chaos.jobs import make_app

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import redis

    from support.processes import PythonProcess
    from support.servers import Server


@pytest.fixture
def fleet(url: str, raw: redis.Redis, make_process: Callable[..., PythonProcess]) -> Iterator[Fleet]:
    """Workers and books on the shared server."""
    app = make_app(url)
    yield Fleet(app, url, raw, raw, url, make_process)
    app.close()


@pytest.fixture
def server(make_server: Callable[..., Server]) -> Server:
    """A private server to be frozen, killed and refused."""
    return make_server("--enable-debug-command", "local")


@pytest.fixture
def hurt_fleet(
    server: Server, url: str, raw: redis.Redis, make_process: Callable[..., PythonProcess]
) -> Iterator[Fleet]:
    """Workers on the private server; the notes go to the shared one, which nobody hurts."""
    app = make_app(server.url)
    with server.client(timeout_s=60) as client:
        yield Fleet(app, server.url, client, raw, url, make_process)
    app.close()
