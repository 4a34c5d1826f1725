"""What a worker's process and an agent's have in common: an id, and the signals that end them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import secrets
import signal
import socket
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_REASONS: Final = {signal.SIGTERM: "stop", signal.SIGINT: "stop", signal.SIGHUP: "reload"}


def process_id(separator: str) -> str:
    """Return an id with host and pid; scripts put it in JSON and in front of a colon."""
    host = re.sub(r"[^A-Za-z0-9.-]", "-", socket.gethostname())[:60] or "host"
    return separator.join((host, str(os.getpid()), secrets.token_hex(3)))


@contextlib.contextmanager
def stop_signals(stop: Callable[[str], None]) -> Iterator[None]:
    """Call `stop` with the reason when a signal comes."""
    loop = asyncio.get_running_loop()
    for number, reason in _REASONS.items():
        loop.add_signal_handler(number, stop, reason)
    try:
        yield
    finally:
        for number in _REASONS:
            loop.remove_signal_handler(number)
