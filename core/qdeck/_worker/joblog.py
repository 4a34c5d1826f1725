"""The log of a worker's jobs, for `logging`: their starts, ends, and failures with the traceback."""

from __future__ import annotations

import contextlib
import logging
import time
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from qdeck._worker.run import Run

LOGGER: Final = logging.getLogger("qdeck.worker")


class JobLog:
    """Writes to `qdeck.worker`. Whether INFO is wanted is asked once: jobs pass here very often."""

    def __init__(self) -> None:
        self.is_verbose = LOGGER.isEnabledFor(logging.INFO)

    def started(self, run: Run) -> None:
        """A job was handed to its executor."""
        self._write(logging.INFO, run, "started", "%s %s started, attempt %d", run.attempts.failed + 1)

    def ended(self, run: Run, outcome: str) -> None:
        """A job ended without a failure."""
        self._write(logging.INFO, run, outcome, "%s %s %s in %d ms", outcome, _ran_ms(run))

    def failed(self, run: Run, outcome: str, what: dict[str, Any]) -> None:
        """A run failed; `what` is its event."""
        attempts = run.attempts.failed + 1, run.plan.head.retries + 1
        values = (outcome, *attempts, what.get("class"), what.get("message"))
        # The event's traceback is fit for any stream, bounded, and the only one when a child process raised.
        trace = str(what.get("traceback", "")).rstrip()
        self._write(logging.ERROR, run, outcome, "%s %s %s, attempt %d of %d: %s: %s", *values, trace=trace)

    def _write(self, level: int, run: Run, outcome: str, text: str, *values: object, trace: str = "") -> None:
        facts = {
            "job": run.claimed.id,
            "queue": run.lane.queue,
            "task": run.plan.head.task,
            "job_name": run.plan.head.name,
            "attempt": run.attempts.failed + 1,
            "worker": run.lane.worker,
            "outcome": outcome,
            "ran_ms": _ran_ms(run),
        }
        error = run.error if trace else None
        raised = None if error is None else (type(error), error, error.__traceback__)
        args = (run.plan.head.task, run.claimed.id, *values)
        # Filters and handlers are the application's: one that raises must not stop the worker.
        with contextlib.suppress(Exception):
            if LOGGER.isEnabledFor(level):
                record = LOGGER.makeRecord(LOGGER.name, level, "", 0, text, args, raised, extra=facts)
                record.exc_text = trace or None  # formatters use it instead of formatting the error again
                LOGGER.handle(record)


def _ran_ms(run: Run) -> int:
    return round(1000 * (time.monotonic() - run.started)) if run.started else 0
