"""Python subprocesses for the tests, which can be killed or frozen at any time and never outlive their test."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING

from qdeck_console.embedded_server import dying_with_parent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

ROOT = Path(__file__).resolve().parents[2]
_TESTS = ROOT / "tests"


class PythonProcess:
    """`python <arguments>` in its own process group, with what it writes collected line by line.

    `tests/` is on its path (so `-m support.x` works) and it sees the environment of the tests plus `env`.
    stdout and stderr are kept apart; both are text in UTF-8.
    """

    def __init__(self, *arguments: str | Path, env: Mapping[str, str] | None = None, cwd: Path = ROOT) -> None:
        path = os.pathsep.join(filter(None, [str(_TESTS), os.environ.get("PYTHONPATH", "")]))
        self.stdout: list[str] = []
        self.stderr: list[str] = []
        self._changed = threading.Condition()
        self._popen = subprocess.Popen(
            dying_with_parent([sys.executable, "-u", *map(str, arguments)]),
            cwd=cwd,
            env={**os.environ, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1", **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,
        )
        self._readers = [
            threading.Thread(target=self._read, args=args, daemon=True)
            for args in ((self._popen.stdout, self.stdout), (self._popen.stderr, self.stderr))
        ]
        for reader in self._readers:
            reader.start()

    def __repr__(self) -> str:
        return f"<PythonProcess pid={self.pid} code={self.code}>"

    @property
    def pid(self) -> int:
        """The process id, and the id of the process group."""
        return self._popen.pid

    @property
    def code(self) -> int | None:
        """The exit code, or minus the signal that ended it; None while it runs."""
        return self._popen.poll()

    @property
    def output(self) -> str:
        """The output so far, for the message of a failed test."""
        return "\n".join([*self.stdout, "--- stderr", *self.stderr])

    def signal(self, number: int) -> None:
        """Send a signal to the process, but not to its children."""
        self._popen.send_signal(number)

    def kill9(self) -> None:
        """Crash it: SIGKILL to it alone, and wait until it is gone."""
        self._popen.kill()
        self._popen.wait()

    def freeze(self) -> None:
        """SIGSTOP: it holds its connections and leases, and does nothing."""
        self._popen.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """SIGCONT."""
        self._popen.send_signal(signal.SIGCONT)

    def terminate(self) -> None:
        """SIGTERM: ask it to stop in an orderly way."""
        self._popen.terminate()

    def wait(self, timeout_s: float = 20.0) -> int:
        """Wait for its end and for all its output; return the exit code."""
        code = self._popen.wait(timeout_s)
        for reader in self._readers:
            reader.join(timeout_s)
        return code

    def wait_for(self, text: str, timeout_s: float = 40.0) -> str:
        """Wait for a line of either stream with the text, and return it; fail if the process ends before."""
        last_moment = time.monotonic() + timeout_s
        with self._changed:
            while True:
                for line in (*self.stdout, *self.stderr):
                    if text in line:
                        return line
                if not any(reader.is_alive() for reader in self._readers):
                    raise AssertionError(f"{self!r} ended without writing {text!r}:\n{self.output}")
                left_s = last_moment - time.monotonic()
                if left_s <= 0:
                    raise AssertionError(f"{self!r} did not write {text!r} in {timeout_s} s:\n{self.output}")
                self._changed.wait(min(left_s, 0.1))

    def reap(self) -> None:
        """End it and every process that it started."""
        with contextlib.suppress(ProcessLookupError, PermissionError):  # nobody is left; macOS says so with EPERM
            os.killpg(self.pid, signal.SIGKILL)
        self._popen.wait()
        for reader, stream in zip(self._readers, (self._popen.stdout, self._popen.stderr), strict=True):
            reader.join(5)
            if stream is not None and not reader.is_alive():
                stream.close()

    def _read(self, stream: IO[str], lines: list[str]) -> None:
        for line in stream:
            with self._changed:
                lines.append(line.rstrip("\n"))
                self._changed.notify_all()
        with self._changed:
            self._changed.notify_all()


def python_processes() -> Iterator[Callable[..., PythonProcess]]:
    """Yield a function that starts processes as `PythonProcess` does; all are reaped with the generator."""
    processes: list[PythonProcess] = []

    def make(*arguments: str | Path, env: Mapping[str, str] | None = None, cwd: Path = ROOT) -> PythonProcess:
        process = PythonProcess(*arguments, env=env, cwd=cwd)
        processes.append(process)
        return process

    try:
        yield make
    finally:
        for process in processes:
            process.reap()
