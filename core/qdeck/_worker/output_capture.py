"""Captures what handlers print and log, separately for each job, at no cost for silent ones."""

from __future__ import annotations

import logging
import sys
import threading
from typing import Any, Final, Protocol, Self, TextIO

from qdeck._job_context import running

MAX_LOG: Final = 131_072


class Output:
    """The last 128 KiB that an attempt wrote."""

    __slots__ = ("_parts", "_size", "dropped")

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._size = 0
        self.dropped = 0

    def write(self, text: str) -> None:
        """Add text; drop the oldest beyond the limit."""
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
        """Return all kept output."""
        self._cut()
        raw = self._parts[0].encode("utf-8", "backslashreplace")
        kept = raw[-MAX_LOG:].decode("utf-8", "ignore").encode()
        if self.dropped or len(kept) < len(raw):
            kept = b"[what was written before this was dropped]\n" + kept
        return kept


class Captured(Protocol):
    """The part of an attempt that keeps its output."""

    abandoned: bool
    output: Output | None


def write_to_current(text: str) -> bool:
    """Add text to the output of the current attempt; return False outside of one."""
    attempt: Captured | None = running.get()
    if attempt is None or attempt.abandoned:
        return False
    if attempt.output is None:
        attempt.output = Output()
    attempt.output.write(text)
    return True


class _Tee:
    """A stand-in for stdout or stderr that writes to the job's output and to the stream."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        count = self._stream.write(text)  # first, because it refuses what is not text
        write_to_current(text)
        return count

    def pass_on(self, text: str) -> None:
        """Write to the stream only."""
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
            # A handler of the application may print through the captured stream: then the text is there already.
            own = record.name.startswith("qdeck.")  # the worker's lines about a job are not the job's output
            if not own and not any(isinstance(getattr(handler, "stream", None), _Tee) for handler in others):
                write_to_current(self.format(record) + "\n")
            if not others and record.levelno >= logging.WARNING and isinstance(sys.stderr, _Tee):
                # With no handler at all Python would print warnings; with this one in place it does not.
                sys.stderr.pass_on(self.format(record) + "\n")
        except Exception:  # noqa: BLE001 - a record that cannot be formatted must not end the job
            self.handleError(record)


class _Installed:
    """What is installed for all workers of this process: twice would record everything twice."""

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


class OutputCapture:
    """A context that installs the capture and removes it with the last worker of the process."""

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
