"""Fixtures: agents in this process, a plain client, and a user who may only look."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from qdeck._redis import Endpoint, SyncClient
from support.agents import Running, running

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractAsyncContextManager

    from support.servers import Server


@pytest.fixture
def run_agent(url: str) -> Callable[..., AbstractAsyncContextManager[Running]]:
    """Start agents on the shared server: `async with run_agent(health_every=1) as agent:`."""
    return lambda **options: running(options.pop("url", url), **options)


@pytest.fixture
def client(url: str) -> Iterator[SyncClient]:
    made = SyncClient(Endpoint(url))
    yield made
    made.close()


@pytest.fixture
def reader_url(make_server: Callable[..., Server]) -> tuple[str, Server]:
    """A server of its own, and a user on it who may only read."""
    server = make_server()
    with server.client() as raw:
        raw.execute_command("ACL", "SETUSER", "looker", "on", ">secret", "~*", "+@read", "+@connection")
    return server.url.replace("redis://", "redis://looker:secret@"), server
