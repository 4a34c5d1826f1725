"""Servers that belong to the tests: one shared by all tests of a process, and private ones to be hurt."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from qdeck_console.embedded_server import EmbeddedServer

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator
    from pathlib import Path


def raw_client(url: str, *, timeout_s: float = 5.0) -> redis.Redis:
    """A plain client: bytes in, bytes out, never a command sent twice. Close it."""
    return redis.Redis.from_url(
        url, retry=Retry(NoBackoff(), 0), socket_timeout=timeout_s, socket_connect_timeout=timeout_s
    )


class Server(EmbeddedServer):
    """An embedded server that can be frozen, killed and started again on the same port with the same directory."""

    def freeze(self) -> None:
        """Stop its clock: commands wait in its socket and run after `thaw`, which is how an ambiguous write is made."""
        os.kill(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on; harmless when it is not frozen."""
        os.kill(self.pid, signal.SIGCONT)

    def kill9(self) -> None:
        """End it as a crash does. Its directory stays for `relaunch`."""
        process = self._running()
        process.kill()
        process.wait()

    def relaunch(self) -> None:
        """Start it again on the same port and directory; one that still runs is first ended in an orderly way."""
        process = self._running()
        if process.poll() is None:
            self.thaw()
            process.terminate()
            process.wait(10)
        if self._end is not None:
            self._end.detach()
        if not self._launch():
            raise RuntimeError(f"port {self.port} was taken while the server was down")

    def stop(self) -> None:
        """End it, frozen or not, at once: its directory goes too, and one that cannot save would not end when asked."""
        if self._process is not None and self._process.poll() is None:
            self.kill9()
        super().stop()

    def client(self, *, timeout_s: float = 5.0) -> redis.Redis:
        """A plain client on it (see `raw_client`)."""
        return raw_client(self.url, timeout_s=timeout_s)

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise RuntimeError("the server was never started")
        return self._process


def private_servers() -> Iterator[Callable[..., Server]]:
    """Yield a function that starts servers with the options of `EmbeddedServer`; all end with the generator."""
    servers: list[Server] = []

    def make(
        *args: str,
        password: str | None = None,
        appendonly: bool = False,
        unix: bool = False,
        binary: str | Path | None = None,
    ) -> Server:
        server = Server(args=args, password=password, appendonly=appendonly, unix=unix, binary=binary)
        server.start()
        servers.append(server)
        return server

    try:
        yield make
    finally:
        for server in servers:
            server.stop()
