"""A private cluster of embedded servers, for the demo and the tests: all 16,384 slots spread over a few of them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final, Generic, Self, TypeVar

from redis.connection import ConnectionPool

from qdeck import QdeckError
from qdeck_console.embedded_server import HOST, EmbeddedServer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Made = TypeVar("Made", bound=EmbeddedServer)
SLOTS: Final = 16_384
_PAUSE_S: Final = 0.02
_START_S: Final = 20.0


class EmbeddedCluster(Generic[Made]):
    """Several servers that are one cluster. `make` starts a server with the given arguments."""

    def __init__(self, make: Callable[[Sequence[str]], Made], *, nodes: int = 3) -> None:
        self._make = make
        self._count = nodes
        self.nodes: list[Made] = []

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def url(self) -> str:
        """The URL for a client, with all servers."""
        return "redis+cluster://" + ",".join(f"{HOST}:{node.port}" for node in self.nodes)

    def start(self) -> None:
        """Start the servers, assign each its slots, and wait until they know each other."""
        try:
            for at in range(self._count):
                node = self.join()
                first, last = SLOTS * at // self._count, SLOTS * (at + 1) // self._count - 1
                ask(node, "CLUSTER", "ADDSLOTSRANGE", first, last)
                ask(node, "CLUSTER", "SET-CONFIG-EPOCH", at + 1)
            for node in self.nodes[1:]:
                ask(node, "CLUSTER", "MEET", HOST, self.nodes[0].port)
            self.wait()
        except BaseException:
            self.stop()
            raise

    def join(self) -> Made:
        """Start one more server in cluster mode, without peers and slots."""
        node = self._make(
            (
                *("--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf", "--cluster-node-timeout", "2000"),
                # A server without slots is one that joins or leaves, not to be made a replica of another.
                *("--cluster-allow-replica-migration", "no"),
            )
        )
        node.start()
        self.nodes.append(node)
        return node

    def wait(self) -> None:
        """Wait until every server knows all others, and all slots are served."""
        last_moment = time.monotonic() + _START_S
        while not all(self._knows_all(node) for node in self.nodes):
            if time.monotonic() > last_moment:
                raise QdeckError(f"The embedded cluster was not complete in {_START_S:g}s")
            time.sleep(_PAUSE_S)

    def stop(self) -> None:
        """End all servers."""
        for node in self.nodes:
            node.stop()
        self.nodes.clear()

    def _knows_all(self, node: Made) -> bool:
        said = ask(node, "CLUSTER", "INFO")
        return b"cluster_state:ok" in said and b"cluster_known_nodes:%d\r" % len(self.nodes) in said


def ask(server: EmbeddedServer, *words: str | int) -> Any:
    """Send one command to one server, whichever slot it is for."""
    connection = ConnectionPool.from_url(server.url, protocol=2).make_connection()
    try:
        connection.send_command(*words)
        return connection.read_response(disable_decoding=True)
    finally:
        connection.disconnect()
