"""Fixtures that every test can ask for; CONTRIBUTING.md has the list."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import Phase, settings

from support.processes import python_processes
from support.proxy import fault_proxies
from support.servers import Server, private_servers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import redis

    from support.processes import PythonProcess
    from support.proxy import FaultProxy

# The same examples in every run, so that what a change breaks is its own doing.
# `--hypothesis-profile=search` looks for new ones.
# How long an example takes says more of the machine than of the code.
settings.register_profile("same", derandomize=True, database=None, deadline=None)
settings.register_profile("search", database=None, deadline=None)
# For code that is broken on purpose: the first failure is enough, and making it smaller takes minutes.
settings.register_profile(
    "first-failure", phases=[Phase.explicit, Phase.generate], derandomize=True, database=None, deadline=None
)
settings.load_profile("same")


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Plans and the log of operations of this test alone, not those of whoever runs the tests."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


@pytest.fixture(scope="session")
def shared_server() -> Iterator[Server]:
    """The server of this process. Leave its settings as they are: to change or to hurt one, `make_server`."""
    with Server(args=("--enable-debug-command", "local")) as server:
        yield server


@pytest.fixture(scope="session")
def _flushing_client(shared_server: Server) -> Iterator[redis.Redis]:
    with shared_server.client(timeout_s=30) as client:
        yield client


@pytest.fixture
def url(shared_server: Server, _flushing_client: redis.Redis) -> str:
    """The url of the shared server, emptied (data and scripts) before this test."""
    _flushing_client.flushall()
    _flushing_client.script_flush()
    return shared_server.url


@pytest.fixture
def raw(url: str, shared_server: Server) -> Iterator[redis.Redis]:
    """A plain client on the shared server, to look at what was really written."""
    with shared_server.client() as client:
        yield client


@pytest.fixture
def make_server() -> Iterator[Callable[..., Server]]:
    """Start private servers: `make_server("--maxmemory", "5mb", appendonly=True)`."""
    yield from private_servers()


@pytest.fixture
def make_proxy() -> Iterator[Callable[[str], FaultProxy]]:
    """Put a fault proxy in front of a server: `make_proxy(url).drop_next_reply(containing=b"EVALSHA")`."""
    yield from fault_proxies()


@pytest.fixture
def make_process() -> Iterator[Callable[..., PythonProcess]]:
    """Start Python subprocesses: `make_process("-m", "support.some_worker", env={"QDECK_URL": url})`."""
    yield from python_processes()
