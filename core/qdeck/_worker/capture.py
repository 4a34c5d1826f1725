"""Captures what handlers print and log, each job's apart, without a cost for those that are silent."""

from __future__ import annotations

import logging
import sys
import threading
from typing import Any, Final, Protocol, Self, TextIO

from qdeck._context import running

MAX_LOG: Final = 131_072


class Output:
    """The last 128 KiB that a run wrote."""

    __slots__ = ("_parts", "_size", "dropped")

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._size = 0
        self.dropped = 0

    def write(self, text: str) -> None:
        """Adds text; the oldest goes when there is too much."""
        if not text:
            return
        self._parts.append(text[-MAX_LOG:])
        self._size += len(self._parts[-1])
        self.dropped += len(text) - len(self._parts[-1])
        if self._size > 2 * MAX_LOG:
            self._cut()

    def _cut(self) -> None:
        whole = "".join(self._parts)
        self.dropped += max(0, len(whole) - MAX_LOG)
        self._parts = [whole[-MAX_LOG:]]
        self._size = len(self._parts[0])

    def bytes(self) -> bytes:
        """All that is kept."""
        self._cut()
        raw = self._parts[0].encode("utf-8", "backslashreplace")
        kept = raw[-MAX_LOG:].decode("utf-8", "ignore").encode()
        if self.dropped or len(kept) < len(raw):
            kept = b"[what was written before this was dropped]\n" + kept
        return kept


class Captured(Protocol):
    """What is needed of a run to keep its output."""

    abandoned: bool
    output: Output | None


def write_to_current(text: str) -> bool:
    """Adds text to the output of the run that this code belongs to; false when it belongs to none."""
    run: Captured | None = running.get()
    if run is None or run.abandoned:
        return False
    if run.output is None:
        run.output = Output()
    run.output.write(text)
    return True


class _Tee:
    """Stands for stdout or stderr: what a handler writes goes to its job's record and on to the stream."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        count = self._stream.write(text)  # first, because it refuses what is not text
        write_to_current(text)
        return count

    def pass_on(self, text: str) -> None:
        """Writes to the stream only."""
        self._stream.write(text)

    def writelines(self, lines: list[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class _LogHandler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        others = [handler for handler in logging.getLogger().handlers if handler is not self]
        try:
            # A handler of the application's own may print through the captured stream: then it is there already.
            own = record.name.startswith("qdeck.")  # the worker's lines about a job are not the job's output
            if not own and not any(isinstance(getattr(handler, "stream", None), _Tee) for handler in others):
                write_to_current(self.format(record) + "\n")
            if not others and record.levelno >= logging.WARNING and isinstance(sys.stderr, _Tee):
                # With no handler at all Python would print warnings; with this one in place it does not.
                sys.stderr.pass_on(self.format(record) + "\n")
        except Exception:  # noqa: BLE001 - a record that cannot be formatted must not end the job
            self.handleError(record)


class _Installed:
    """What is in place now, for all workers of this process: twice would record everything twice."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.users = 0
        self.streams: tuple[TextIO, TextIO] | None = None
        self.level: int | None = None
        self.handler = _LogHandler(logging.INFO)
        self.handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))

    def put(self) -> None:
        self.streams = sys.stdout, sys.stderr
        sys.stdout, sys.stderr = _Tee(sys.stdout), _Tee(sys.stderr)
        root = logging.getLogger()
        if not root.handlers and root.level == logging.WARNING:
            # An application that set up no logging gets its jobs' INFO recorded.
            self.level = root.level
            root.setLevel(logging.INFO)
        root.addHandler(self.handler)

    def take_away(self) -> None:
        root = logging.getLogger()
        root.removeHandler(self.handler)
        if self.level is not None:
            root.setLevel(self.level)
            self.level = None
        if self.streams is not None:
            sys.stdout, sys.stderr = self.streams
            self.streams = None


_installed = _Installed()


class Capture:
    """Puts the capture in place, and takes it away again with the last worker of the process."""

    def __enter__(self) -> Self:
        with _installed.lock:
            _installed.users += 1
            if _installed.users == 1:
                _installed.put()
        return self

    def __exit__(self, *_: object) -> None:
        with _installed.lock:
            _installed.users -= 1
            if _installed.users == 0:
                _installed.take_away()
