"""Why a server is out of reach is a value of the error, found where the connection failed; texts say it to people."""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
import threading
from typing import TYPE_CHECKING, Final

import pytest
import redis

from qdeck import ServerUnreachable, UnreachableCause
from qdeck._redis import AsyncClient, Endpoint, SyncClient, reads
from qdeck._redis.retries import cause_of
from support.proxy import FaultProxy
from support.serving import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

HOST: Final = "127.0.0.1"


def causes(url: str, timeout: float = 5.0) -> set[tuple[UnreachableCause, str]]:
    """Cause and server of the errors of both clients."""
    found = set()
    for run in (_ask, lambda endpoint: asyncio.run(_aask(endpoint))):
        with pytest.raises(ServerUnreachable) as caught:
            run(Endpoint(url, timeout=timeout))
        found.add((caught.value.cause, caught.value.server))
    return found


def _ask(endpoint: Endpoint) -> None:
    client = SyncClient(endpoint, patience=0.0)
    try:
        client.run(reads.clock())
    finally:
        client.close()


async def _aask(endpoint: Endpoint) -> None:
    client = AsyncClient(endpoint, patience=0.0)
    try:
        await client.run(reads.clock())
    finally:
        await client.close()


@pytest.fixture
def talker() -> Iterator[tuple[socket.socket, str]]:
    """A port that accepts connections and leaves the rest to the test."""
    with socket.create_server((HOST, 0)) as listening:
        yield listening, f"{HOST}:{listening.getsockname()[1]}"


@pytest.mark.parametrize("host", [HOST, "localhost"])
def test_a_port_where_nothing_listens(host: str) -> None:
    where = f"{host}:{free_port()}"
    assert causes(f"redis://user:secret@{where}/2") == {(UnreachableCause.REFUSED, where)}


def test_a_server_that_does_not_answer(talker: tuple[socket.socket, str]) -> None:
    where = talker[1]
    assert causes(f"redis://{where}", timeout=0.1) == {(UnreachableCause.TIMED_OUT, where)}


def test_a_server_that_resets_the_connection(url: str) -> None:
    port = int(url.split("/")[2].rpartition(":")[2])
    with FaultProxy(port, target_url=url) as proxy:
        proxy.refuse()
        assert {cause for cause, _ in causes(proxy.url)} == {UnreachableCause.CLOSED}


def test_a_server_that_closes_the_connection(talker: tuple[socket.socket, str]) -> None:
    listening, where = talker

    def close_two() -> None:
        for _ in range(2):
            connection, _ = listening.accept()
            connection.recv(1 << 16)
            connection.close()

    closing = threading.Thread(target=close_two, daemon=True)
    closing.start()
    assert causes(f"redis://{where}") == {(UnreachableCause.CLOSED, where)}
    closing.join(5.0)
    assert not closing.is_alive()


def test_the_words_of_a_host_are_no_cause() -> None:
    [(cause, where)] = causes("unix:///reset-timeout-refused.sock")
    assert (cause, where) == (UnreachableCause.UNKNOWN, "")


@pytest.mark.parametrize(
    ("under", "cause"),
    [
        (ConnectionRefusedError(errno.ECONNREFUSED, ""), UnreachableCause.REFUSED),
        (socket.gaierror(socket.EAI_NONAME, ""), UnreachableCause.NO_SUCH_HOST),
        (socket.gaierror(socket.EAI_AGAIN, ""), UnreachableCause.UNKNOWN),
        (ssl.SSLCertVerificationError(""), UnreachableCause.CERTIFICATE),
        (ConnectionResetError(errno.ECONNRESET, ""), UnreachableCause.CLOSED),
        (OSError(errno.EHOSTUNREACH, "timed out, refused, reset"), UnreachableCause.UNKNOWN),
        (redis.ResponseError("READONLY"), UnreachableCause.UNKNOWN),
        (ValueError("what the caller handles"), UnreachableCause.CLOSED),
    ],
)
def test_the_cause_is_that_of_the_system_under_the_driver(under: Exception, cause: UnreachableCause) -> None:
    error = redis.ConnectionError("as the driver says")
    error.__context__ = under
    assert cause_of(error) is cause
