"""One worker process of the benchmarks: `python -m bench.serve [PROFILE]`, the same worker as `qdeck worker` runs.

With the name of a file it runs under the profiler, and writes what that found there when it is stopped.
"""

from __future__ import annotations

import cProfile
import sys

from bench.jobs import app
from bench.machine import QUEUE
from qdeck.runtime import Worker


def main(output: str | None) -> None:
    """Runs until SIGTERM."""
    worker = Worker(app, {QUEUE: 1}, concurrency=50, app_ref="bench.jobs:app")
    if output is None:
        worker.run()
        return
    profiler = cProfile.Profile()
    profiler.enable()
    try:
        worker.run()
    finally:
        profiler.disable()
        profiler.dump_stats(output)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else None)
