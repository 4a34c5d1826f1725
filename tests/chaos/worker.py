"""A worker to be hurt: `python -m chaos.worker` with its options as JSON in CHAOS_WORKER, events as lines of JSON."""

from __future__ import annotations

import json
import os
import random
import sys
import time
from typing import TYPE_CHECKING, Any

from chaos.jobs import make_app
from chaos.twice import send_twice
from qdeck._worker import executor, worker
from qdeck.runtime import Worker

if TYPE_CHECKING:
    from collections.abc import Callable


def _wrong_clock(seconds: float) -> None:
    """Lets this process believe that it is another time."""
    right, right_ns = time.time, time.time_ns

    def wrong() -> float:
        return right() + seconds

    def wrong_ns() -> int:
        return right_ns() + int(seconds * 1e9)

    clock: Any = time
    clock.time, clock.time_ns = wrong, wrong_ns


def _tune(*, stuck_after: float = executor.STOP_TIMEOUT_S, farewell: float = worker.GIVE_BACK_TIMEOUT_S) -> None:
    """Lets this process wait for less long than others where nothing but time would pass."""
    modules: tuple[Any, Any] = (executor, worker)
    modules[0].STOP_TIMEOUT_S, modules[1].GIVE_BACK_TIMEOUT_S = stuck_after, farewell


def _write(event: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(event) + "\n")
    sys.stdout.flush()


def main(write: Callable[[dict[str, Any]], None] = _write) -> None:
    """Runs a worker until it is told to stop."""
    options = json.loads(os.environ["CHAOS_WORKER"])
    if options.pop("twice", False):
        send_twice(random.Random(os.getpid()))
    if skew := options.pop("skew", 0.0):
        _wrong_clock(skew)
    _tune(**options.pop("tuned", {}))
    url = options.pop("url")
    app = make_app(url, patience=options.pop("patience", 60.0))
    why = Worker(app, on_event=write, **options).run()
    write({"event": "ended", "why": why})


if __name__ == "__main__":
    main()
