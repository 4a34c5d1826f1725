"""Blocks on a list and notes how long each element took to come: the least that any queue's latency could be."""

from __future__ import annotations

import os
import time
from typing import Any

import redis

from bench.jobs import STAMPS


def main() -> None:
    """Listens until it is ended."""
    client = redis.Redis.from_url(os.environ["QDECK_URL"], socket_timeout=None)
    notes = os.open(os.environ[STAMPS], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    while True:
        found: Any = client.blpop(["bare"], timeout=10)
        if found:
            os.write(notes, b"%d\n" % (time.monotonic_ns() - int(found[1])))


if __name__ == "__main__":
    main()
