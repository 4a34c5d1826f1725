"""A connection that breaks after the n-th command, between any client and a server.

Commands go to the server one by one, each with its reply, so that what was done before the break is exactly known: the
n-th was done, and nobody is told. Then either the next connection works, or its password is wrong: a client that hears
that does not try again, and ends at once with its work half done.
"""

from __future__ import annotations

import socket
import socketserver
import threading
from typing import TYPE_CHECKING, Any, Final, Self

import hiredis

if TYPE_CHECKING:
    from collections.abc import Iterator

HOST: Final = "127.0.0.1"
_WRONG_PASSWORD: Final = b"-WRONGPASS invalid username-password pair or user is disabled.\r\n"
_GREETINGS: Final = (b"CLIENT", b"HELLO")  # part of every new connection, and change nothing


class _Cut(Exception):
    """This connection is over."""


class Cutter(socketserver.ThreadingTCPServer):
    """Stands in front of the server at `port`; clients connect to `url`."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, port: int) -> None:
        super().__init__((HOST, 0), _Line)
        self.target = (HOST, port)
        self.lock = threading.Lock()
        self.passed = 0
        self.struck = False
        self._after: int | None = None
        self._for_good = False
        self._lines: set[socket.socket] = set()

    def __enter__(self) -> Self:
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()

    @property
    def url(self) -> str:
        """Where clients connect."""
        return f"redis://{HOST}:{self.server_address[1]}/0"

    def arm(self, after: int | None, *, for_good: bool = False) -> None:
        """Breaks every connection when `after` commands more were done; None: never."""
        with self.lock:
            self.passed, self.struck, self._after, self._for_good = 0, False, after, for_good

    @property
    def locks_out(self) -> bool:
        """Whether passwords are wrong by now."""
        return self.struck and self._for_good

    def carry(self, command: list[Any], server: socket.socket) -> bytes:
        """Has one command done and returns its reply; raises when the connection breaks there."""
        with self.lock:
            if self.locks_out:
                raise _Cut
            server.sendall(hiredis.pack_command(tuple(command)))
            reply = _reply(server)
            if command[0].upper() in _GREETINGS:
                return reply
            self.passed += 1
            if self.passed == self._after:
                self.struck = True
                for line in self._lines:
                    line.shutdown(socket.SHUT_RDWR)
                self._lines.clear()
                raise _Cut
            return reply

    def opened(self, line: socket.socket) -> None:
        """Has a connection of a client broken with the others."""
        with self.lock:
            self._lines.add(line)

    def closed(self, line: socket.socket) -> None:
        """Forgets a connection of a client."""
        with self.lock:
            self._lines.discard(line)


class _Line(socketserver.BaseRequestHandler):
    server: Cutter
    request: socket.socket

    def handle(self) -> None:
        if self.server.locks_out:
            for _ in _commands(self.request):
                self.request.sendall(_WRONG_PASSWORD)
            return
        self.server.opened(self.request)
        self.request.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with socket.create_connection(self.server.target) as server:
            server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            try:
                for command in _commands(self.request):
                    self.request.sendall(self.server.carry(command, server))
            except (_Cut, OSError):
                return
            finally:
                self.server.closed(self.request)


def _commands(client: socket.socket) -> Iterator[list[Any]]:
    """The commands of a client, one by one."""
    reader = hiredis.Reader()
    while data := _received(client):
        reader.feed(data)
        while (command := reader.gets()) is not False:
            yield command


def _reply(server: socket.socket) -> bytes:
    """One reply of the server, as it came: there is one at a time."""
    reader, whole = hiredis.Reader(), b""
    while True:
        data = server.recv(65536)
        whole += data
        reader.feed(data)
        if reader.gets() is not False:
            return whole


def _received(client: socket.socket) -> bytes:
    try:
        return client.recv(65536)
    except OSError:
        return b""
