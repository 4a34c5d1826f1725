"""The same on Redis 7.0, where this machine has one, as on the embedded Valkey; and TLS."""

from __future__ import annotations

import asyncio
import shutil
import socket
import ssl
import threading
from typing import TYPE_CHECKING

import pytest

import qdeck
from qdeck.admin import Writer
from servers.load import Load
from support.beside import Beside
from support.brands import Certificate, make_certificate, redis_binary
from support.clusters import Cluster, Trio, queue_slot, wait_for
from support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from support.servers import Server

QUEUES = ["mill:east:actions", "mill:west:actions"]
needs_redis = pytest.mark.skipif(redis_binary() is None, reason="no Redis server here: apt-get install redis-tools")


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    if shutil.which("openssl") is None:
        pytest.skip("no openssl here, which makes the certificates")
    return make_certificate(tmp_path_factory.mktemp("certificates"))


def live(url: str, deck_url: str | None = None) -> None:
    """A day of a queue: work, delay, dependencies, failures, dead letters, an operation and its undo, a schedule."""
    app = qdeck.App(url, queue=QUEUES[0])

    @app.task
    def add(a: int, b: int) -> int:
        return a + b

    @app.task(retries=1, retry_delay=0.01)
    def breaks() -> None:
        raise ValueError("no")

    app.schedule("second", add, 0, 0, cron="* * * * * *", _priority=800)
    with Beside(app, dict.fromkeys(QUEUES, 1)), Writer(deck_url or url) as writer:
        first = add.enqueue(1, 2, _delay=0.05, _name="first", _unique=True)
        then = add.enqueue(3, 4, _after=[first], _queue=QUEUES[1])
        jobs = app.enqueue_many([add.call(n, n, _priority=n % 5) for n in range(700)])
        assert (first.result(20), then.result(20)) == (3, 7)
        assert [job.result(20) for job in jobs[-5:]] == [2 * n for n in range(695, 700)]
        dead = breaks.enqueue()
        with pytest.raises(qdeck.JobFailed, match="no"):
            dead.result(20)
        writer.pause(QUEUES[0])
        assert writer.apply(writer.plan("retry", where="error:ValueError")).applied == 1
        assert dead.state() == "ready"
        writer.undo()
        assert dead.state() == "dead"
        writer.resume(QUEUES[0])
        wait_until(
            lambda: any(row.totals["done"] > 703 for row in writer.snapshot().queues), why="a turn of the schedule"
        )
        assert writer.snapshot().totals.dead == 1
    app.close()


@needs_redis
@pytest.mark.slow
def test_a_day_on_redis(make_server: Callable[..., Server]) -> None:
    server = make_server(binary=redis_binary())
    live(server.url)
    with Writer(server.url) as writer:
        assert writer.snapshot().server.name == "redis"


@needs_redis
@pytest.mark.slow
@pytest.mark.timeout(120)
def test_slots_of_a_redis_cluster_move_under_load(make_cluster: Callable[..., Cluster]) -> None:
    cluster = make_cluster(binary=redis_binary())
    with Load(cluster.url, QUEUES) as load:
        for turn in range(12):
            for queue in QUEUES:
                cluster.move_slot(queue_slot(queue), cluster.nodes[turn % 3], pause_s=0.005, most=1)
        load.stop()
        counts = load.drain()
        assert (load.errors, load.unseen, load.events) == ([], [], [])
        assert counts == {"ready": 0, "running": 0, "done": load.made, "dead": 0}


@needs_redis
@pytest.mark.slow
@pytest.mark.timeout(120)
def test_sentinels_of_redis_change_the_master(make_trio: Callable[..., Trio]) -> None:
    trio = make_trio(binary=redis_binary())
    with Load(trio.url, QUEUES) as load:
        wait_for(lambda: load.made > 100, "jobs")
        old = trio.master()
        old.kill9()
        wait_for(lambda: trio.master() is not old, "new master")
        made = load.made
        wait_for(lambda: load.made > made + 100, "service with the new master")
        load.stop()
        load.drain()
        assert load.errors == []
        assert len(load.states().get("unknown", [])) < 50


class TlsDoor:
    """Speaks TLS for a server that cannot: one thread for each direction of each connection."""

    def __init__(self, port: int, certificate: Certificate) -> None:
        self._target = port
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(certificate.chain, certificate.key)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                plain, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(plain,), daemon=True).start()

    def _serve(self, plain: socket.socket) -> None:
        try:
            with self._context.wrap_socket(plain, server_side=True) as client:
                asyncio.run(self._pass(client))
        except OSError:
            plain.close()

    async def _pass(self, client: ssl.SSLSocket) -> None:
        """Both directions in turns, on one thread: an SSL socket must not be used by two at once."""
        import select

        with socket.create_connection(("127.0.0.1", self._target)) as server:
            while True:
                ready = [client] if client.pending() else select.select([client, server], [], [])[0]
                for one, other in ((client, server), (server, client)):
                    if one in ready:
                        data = one.recv(65536)
                        if not data:
                            return
                        other.sendall(data)


@pytest.fixture(params=[pytest.param("redis", marks=pytest.mark.slow), "door"])
def tls_url(
    request: pytest.FixtureRequest, certificate: Certificate, make_server: Callable[..., Server]
) -> Iterator[str]:
    """A URL over TLS, without the authority: of a Redis that speaks it, and of a door before the embedded server."""
    if request.param == "redis":
        if redis_binary() is None:
            pytest.skip("no Redis server here: apt-get install redis-tools")
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        files = ("--tls-cert-file", str(certificate.chain), "--tls-key-file", str(certificate.key))
        authority = ("--tls-ca-cert-file", str(certificate.authority), "--tls-auth-clients", "no")
        make_server("--tls-port", str(port), *files, *authority, binary=redis_binary())
        yield f"rediss://127.0.0.1:{port}"
    else:
        door = TlsDoor(make_server().port, certificate)
        yield f"rediss://127.0.0.1:{door.port}"
        door.close()


def test_a_day_over_tls(tls_url: str, certificate: Certificate) -> None:
    live(f"{tls_url}?ssl_ca_certs={certificate.authority}")


def test_whom_nobody_vouches_for_is_not_spoken_to(tls_url: str, tmp_path: Path) -> None:
    with pytest.raises(qdeck.ServerUnreachable, match="certificate") as caught:
        Writer(tls_url).snapshot()
    assert "ssl_ca_certs" in caught.value.hint
    with Writer(f"{tls_url}?ssl_cert_reqs=none&ssl_check_hostname=false") as writer:
        assert writer.snapshot().totals.ready == 0
    with pytest.raises(qdeck.ServerUnreachable):
        Writer(tls_url.replace("rediss://", "redis://")).snapshot()
