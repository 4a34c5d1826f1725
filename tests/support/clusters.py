"""Several servers for the tests: a cluster whose slots can be moved, and a master with replicas under Sentinels."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Any, Self

import redis
from redis.crc import key_slot

from qdeck_console.embedded_cluster import EmbeddedCluster, ask
from qdeck_console.embedded_server import HOST, EmbeddedServer
from support.servers import Server
from support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

MASTER = "mymaster"


class Cluster(EmbeddedCluster[Server]):
    """An embedded cluster with servers that a test can stop."""

    def __init__(
        self, *, nodes: int = 3, args: Sequence[str] = (), binary: Path | None = None, password: str | None = None
    ) -> None:
        def make(own: Sequence[str]) -> Server:
            return Server(args=(*args, *own, *_masterauth(password)), binary=binary, password=password)

        super().__init__(make, nodes=nodes)

    def follow(self, master: Server) -> Server:
        """Start a replica of one of the servers."""
        name = ask(master, "CLUSTER", "MYID")
        node = self.join()
        ask(node, "CLUSTER", "MEET", HOST, master.port)
        self.wait()
        ask(node, "CLUSTER", "REPLICATE", name)
        return node

    def owner(self, slot: int) -> Server:
        """Return the node that has a slot."""
        for first, last, master, *_ in ask(self.nodes[0], "CLUSTER", "SLOTS"):
            if first <= slot <= last:
                return next(node for node in self.nodes if node.port == master[1])
        raise AssertionError(f"nobody has slot {slot}")

    def move_slot(self, slot: int, to: Server, *, pause_s: float = 0.0, most: int = 10) -> int:
        """Move a slot as the servers' own tool does, key by key while clients work; return how many keys."""
        source = self.owner(slot)
        if source is to:
            return 0
        source_id, to_id = (ask(node, "CLUSTER", "MYID").decode() for node in (source, to))
        ask(to, "CLUSTER", "SETSLOT", slot, "IMPORTING", source_id)
        ask(source, "CLUSTER", "SETSLOT", slot, "MIGRATING", to_id)
        moved = 0
        while keys := ask(source, "CLUSTER", "GETKEYSINSLOT", slot, most):
            ask(source, "MIGRATE", HOST, to.port, "", 0, 5000, "KEYS", *(key.decode() for key in keys))
            moved += len(keys)
            time.sleep(pause_s)
        for node in (to, source, *(other for other in self.nodes if other not in (to, source))):
            ask(node, "CLUSTER", "SETSLOT", slot, "NODE", to_id)
        return moved

    def flush(self) -> None:
        """Empty all nodes, data and scripts."""
        for node in self.nodes:
            ask(node, "FLUSHALL")
            ask(node, "SCRIPT", "FLUSH")


def queue_slot(queue: str) -> int:
    """Return the slot of a queue."""
    return int(key_slot(b"{%b}" % queue.encode()))


# The servers' password, and that of the Sentinels among themselves and for clients.
_SECRETS = "sentinel auth-pass {0} {1}\nrequirepass {2}\nsentinel sentinel-pass {2}\n"


def _masterauth(password: str | None) -> tuple[str, ...]:
    return ("--masterauth", password) if password else ()


class Sentinel(Server):
    """A Sentinel in a directory of its own."""

    def __init__(
        self,
        master: Server,
        *,
        down_after_ms: int,
        binary: Path | None = None,
        passwords: tuple[str, str] | None = None,
    ) -> None:
        super().__init__(binary=binary, args=("--sentinel",), password=passwords and passwords[1])
        self._watched = (
            f"sentinel monitor {MASTER} {HOST} {master.port} 2\n"
            f"sentinel down-after-milliseconds {MASTER} {down_after_ms}\n"
            # An election that nobody won is repeated after twice this.
            f"sentinel failover-timeout {MASTER} 2000\n"
        )
        if passwords is not None:
            self._watched += _SECRETS.format(MASTER, *passwords)

    def _write_config(self) -> Path:
        path = self.directory / "sentinel.conf"
        if not path.exists():  # it keeps its own state there
            path.write_text(f"port {self.port}\nbind {HOST}\ndir {self.directory}\n{self._watched}", "utf-8")
        return path


class Trio:
    """A master, replicas, and three Sentinels that watch them."""

    def __init__(
        self,
        *,
        replicas: int = 1,
        down_after_ms: int = 1000,
        args: Sequence[str] = (),
        binary: Path | None = None,
        passwords: tuple[str, str] | None = None,
    ) -> None:
        self._binary = binary
        self._passwords = passwords
        self._down_after_ms = down_after_ms
        self._count = replicas
        self._args = tuple(args)
        self.servers: list[Server] = []
        self.sentinels: list[Sentinel] = []

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def url(self) -> str:
        """The URL for a client, with all Sentinels."""
        return "redis+sentinel://" + ",".join(f"{HOST}:{one.port}" for one in self.sentinels) + f"/{MASTER}/0"

    def stop(self) -> None:
        """End all servers."""
        for one in (*self.sentinels, *self.servers):
            one.stop()

    def master(self) -> Server:
        """The server that the first Sentinel calls the master."""
        port = int(ask(self.sentinels[0], "SENTINEL", "GET-MASTER-ADDR-BY-NAME", MASTER)[1])
        return next(one for one in self.servers if one.port == port)

    def replicas(self) -> list[Server]:
        """The replicas."""
        master = self.master()
        return [one for one in self.servers if one is not master]

    def _start(self) -> None:
        first = self._serve(())
        for _ in range(self._count):
            self._serve(("--replicaof", f"{HOST} {first.port}", "--repl-diskless-sync-delay", "0"))
        wait_for(lambda: replicas_of(first) == self._count, "replicas")
        options: dict[str, Any] = {"binary": self._binary, "passwords": self._passwords}
        options["down_after_ms"] = self._down_after_ms
        for _ in range(3):
            self.sentinels.append(Sentinel(first, **options))
            self.sentinels[-1].start()
        wait_for(lambda: all(map(self._is_ready, self.sentinels)), "Sentinels")

    def _serve(self, args: Sequence[str]) -> Server:
        password = self._passwords and self._passwords[0]
        given = (*self._args, "--repl-diskless-sync-delay", "0", *args, *_masterauth(password))
        server = Server(args=given, binary=self._binary, password=password)
        self.servers.append(server)
        server.start()
        return server

    def _is_ready(self, sentinel: Sentinel) -> bool:
        flat = ask(sentinel, "SENTINEL", "MASTER", MASTER)
        said = dict(zip(flat[::2], flat[1::2], strict=True))
        return bool(said[b"num-slaves"] == b"%d" % self._count and said[b"num-other-sentinels"] == b"2")


def replicas_of(server: EmbeddedServer) -> int:
    """Return how many replicas are connected to a server and up to date."""
    return str(ask(server, "INFO", "replication")).count("state=online")


def wait_for(test: Callable[[], object], what: str, timeout_s: float = 60.0) -> None:
    """Wait until a test holds; a server that does not answer yet does not count."""

    def holds() -> object:
        with contextlib.suppress(redis.RedisError, OSError):
            return test()
        return False

    wait_until(holds, timeout_s, f"no {what}")
