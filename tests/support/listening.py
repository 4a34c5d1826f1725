"""Listening to the commands that a server runs, those of its scripts included."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import redis

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def listening(url: str) -> Iterator[list[tuple[bool, str]]]:
    """Collect commands while the block runs: whether a script ran it, and its words."""
    seen: list[tuple[bool, str]] = []
    with redis.Redis.from_url(url) as raw, raw.monitor() as monitor:

        def listen() -> None:
            for command in monitor.listen():
                if command["command"] == "PING end":
                    return
                seen.append((command["client_type"] == "lua", command["command"]))

        thread = threading.Thread(target=listen)
        thread.start()
        try:
            yield seen
        finally:
            raw.execute_command("PING", "end")
            thread.join(60)
    assert not thread.is_alive()
