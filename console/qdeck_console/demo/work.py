"""A worker of the demo: a process of its own, `python -m qdeck_console.demo.work CONCURRENCY QUEUE=WEIGHT…`."""

from __future__ import annotations

import sys

from qdeck.runtime import Worker
from qdeck_console.demo.tasks import app


def main() -> int:
    """Run jobs until SIGTERM."""
    concurrency, *words = sys.argv[1:]
    queues = {name: int(weight) for name, _, weight in (word.rpartition("=") for word in words)}
    Worker(app, queues=queues, concurrency=int(concurrency), grace=1).run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
