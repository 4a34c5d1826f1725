"""The same no-op with dramatiq, for `--peers-venv`: run by the Python of that environment, which has no qdeck."""

from __future__ import annotations

import os
import sys

import dramatiq  # type: ignore[import-not-found]  # lives in the environment of --peers-venv only
from dramatiq.brokers.redis import RedisBroker  # type: ignore[import-not-found]  # the same

broker = RedisBroker(url=os.environ["QDECK_URL"])
dramatiq.set_broker(broker)


def _noop() -> None:
    pass


noop = dramatiq.actor(_noop, actor_name="noop")

if __name__ == "__main__":
    for _ in range(int(sys.argv[1])):
        noop.send()
