"""The application of the soak: two queues, all kinds of handlers, a schedule, and workers that serve all of it."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any, Final

from chaos import jobs
from qdeck import App, Failure
from qdeck.runtime import Worker

if TYPE_CHECKING:
    from collections.abc import Callable

FIRST: Final = jobs.QUEUE
SECOND: Final = "chaos:other:actions"
QUEUES: Final = (FIRST, SECOND)
SCHEDULE: Final = "every-2-seconds"
LEASE_S: Final = 2.0
# Sets on the notebook's server, which is never hurt.
ATTEMPTED: Final = "soak:attempted"
CONFIRMED: Final = "soak:confirmed"


def on_failure(failure: Failure) -> None:
    """A failure handler: notes which job died."""
    jobs.note("handled", failure.id)


def scheduled() -> None:
    """The job of the schedule."""


def make_app(url: str, patience: float = 50.0) -> App:
    """The application on a server: each handler on the first queue, and again as `other.<name>` on the second."""
    app = App(url, queue=FIRST, patience=patience)
    for queue, prefix in ((FIRST, ""), (SECOND, "other.")):
        for task in (jobs.aquick,):
            app.task(name=prefix + task.__name__, queue=queue, retries=1, **jobs.FIXED)(jobs.noted_async(task))
        app.task(name=f"{prefix}quick", queue=queue, retries=1, **jobs.FIXED)(jobs.noted(jobs.quick))
        app.task(name=f"{prefix}flaky", queue=queue, retries=3, **jobs.FIXED)(jobs.noted(jobs.flaky))
        app.task(name=f"{prefix}doomed", queue=queue, retries=1, on_failure="on_failure", **jobs.FIXED)(
            jobs.noted_async(jobs.doomed)
        )
        app.task(name=f"{prefix}poison", queue=queue, retries=0)(jobs.noted(jobs.poison))
    app.task(name="whoami", process=True, retries=1, **jobs.FIXED)(jobs.noted(jobs.whoami))
    app.task(retries=3, **jobs.FIXED)(jobs.noted(on_failure))
    app.task(name="scheduled", retries=0)(jobs.noted(scheduled))
    return app


def _write(event: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(event) + "\n")
    sys.stdout.flush()


def main(write: Callable[[dict[str, Any]], None] = _write) -> None:
    """Runs a worker of both queues until it is told to stop."""
    app = make_app(os.environ["SOAK_URL"])
    app.schedule(SCHEDULE, "scheduled", cron="* * * * * */2", missed="all")
    worker = Worker(
        app, {FIRST: 2, SECOND: 1}, concurrency=10, lease=LEASE_S, grace=5, processes=1, app_ref="chaos.soak.app:app",
        on_event=write,
    )  # fmt: skip
    write({"event": "ended", "why": worker.run()})


# For the processes of `process=True` tasks, which import the application by name.
app = make_app(os.environ.get("SOAK_URL", "redis://127.0.0.1:1"))

if __name__ == "__main__":
    main()
