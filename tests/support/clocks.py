"""Servers whose clock a test can set, with Debian's `faketime`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from qdeck_console.embedded_server import server_binary

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.servers import Server

_LIBRARY: Final = next(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"), None)
NEEDS_FAKETIME: Final = pytest.mark.skipif(_LIBRARY is None, reason="needs libfaketime (Debian: faketime)")


class Clock:
    """The clock of one server, some seconds ahead of the machine's."""

    def __init__(self, folder: Path, ahead_s: int = 0) -> None:
        self._file = folder / "clock"
        self.binary = folder / "server"
        self.set(ahead_s)
        self.binary.write_text(
            "#!/bin/sh\n"
            f"export LD_PRELOAD={_LIBRARY} FAKETIME_TIMESTAMP_FILE={self._file}\n"
            "export FAKETIME_NO_CACHE=1 FAKETIME_DONT_FAKE_MONOTONIC=1\n"
            f'exec {server_binary()} "$@"\n'
        )
        self.binary.chmod(0o755)

    def set(self, ahead_s: int) -> None:
        """Let the clock jump."""
        self._file.write_text(f"{ahead_s:+d}\n")


def server_with_clock(
    make_server: Callable[..., Server], folder: Path, *args: str, ahead_s: int = 0
) -> tuple[Server, Clock]:
    """Start a server with a clock of its own."""
    folder.mkdir()
    clock = Clock(folder, ahead_s)
    return make_server(*args, binary=clock.binary), clock
