"""The application that is measured: jobs that do nothing, and one that tells when it started."""

from __future__ import annotations

import os
import time
from functools import cache
from typing import Final

from bench.machine import QUEUE
from qdeck import App

STAMPS: Final = "BENCH_STAMPS"


async def noop_async(text: str = "") -> None:
    """Does nothing, on the loop."""


def noop_sync(text: str = "") -> None:
    """Does nothing, in a thread."""


async def stamp(sent_ns: int) -> None:
    """Notes how long after it was sent it started."""
    waited = time.monotonic_ns() - sent_ns
    os.write(_stamps(), b"%d\n" % waited)


@cache
def _stamps() -> int:
    return os.open(os.environ[STAMPS], os.O_WRONLY | os.O_APPEND | os.O_CREAT)


def make_app(url: str) -> App:
    """The application on a server."""
    made = App(url, queue=QUEUE)
    for function in (noop_async, noop_sync, stamp):
        made.task()(function)
    return made


# For the worker's process, which is told where the server is by QDECK_URL; nothing connects before it is used.
app = make_app(os.environ.get("QDECK_URL", "redis://127.0.0.1:6379"))
