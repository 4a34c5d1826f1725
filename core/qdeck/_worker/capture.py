"""Captures what handlers print and log, each job's apart, without a cost for those that are silent."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, Any, Final, Self, TextIO

from qdeck._context import running

if TYPE_CHECKING:
    from qdeck._worker.run import Run

MAX_LOG: Final = 131_072


class Output:
    """The last 128 KiB characters that a run wrote."""

    __slots__ = ("_parts", "_size", "dropped")

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._size = 0
        self.dropped = 0

    def write(self, text: str) -> None:
        """Adds text; the oldest goes when there is too much."""
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
        text = self._parts[0]
        note = f"[{self.dropped:,} characters before this were dropped]\n" if self.dropped else ""
        return (note + text).encode("utf-8", "backslashreplace")


def write_to_current(text: str) -> bool:
    """Adds text to the output of the run that this code belongs to; false when it belongs to none."""
    run: Run | None = running.get()
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
        write_to_current(text)
        return self._stream.write(text)

    def writelines(self, lines: list[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class _LogHandler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        # A handler of the application's own may print the record through the captured stream: then it is there already.
        if running.get() is not None:
            try:
                write_to_current(self.format(record) + "\n")
            except Exception:  # noqa: BLE001 - a record that cannot be formatted must not end the job
                self.handleError(record)


class Capture:
    """Puts the capture in place, and takes it away again."""

    def __init__(self) -> None:
        self._streams: tuple[TextIO, TextIO] | None = None
        self._handler = _LogHandler(logging.INFO)
        self._handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
        self._level: int | None = None

    def __enter__(self) -> Self:
        self._streams = sys.stdout, sys.stderr
        sys.stdout, sys.stderr = _Tee(sys.stdout), _Tee(sys.stderr)
        root = logging.getLogger()
        if not root.handlers and root.level == logging.WARNING:
            # An application that set up no logging gets its jobs' INFO recorded.
            self._level = root.level
            root.setLevel(logging.INFO)
        root.addHandler(self._handler)
        return self

    def __exit__(self, *_: object) -> None:
        root = logging.getLogger()
        root.removeHandler(self._handler)
        if self._level is not None:
            root.setLevel(self._level)
        if self._streams is not None:
            sys.stdout, sys.stderr = self._streams
