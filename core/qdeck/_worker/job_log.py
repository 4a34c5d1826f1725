"""Log records of a worker's jobs: their starts, ends, and failures with the traceback."""

from __future__ import annotations

import contextlib
import logging
import time
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from qdeck._worker.attempt import Attempt

LOGGER: Final = logging.getLogger("qdeck.worker")


class JobLog:
    """Writer to the logger `qdeck.worker`. Its level is read once: every job passes here."""

    def __init__(self) -> None:
        self.is_verbose = LOGGER.isEnabledFor(logging.INFO)

    def started(self, attempt: Attempt) -> None:
        """Log the start of an attempt."""
        self._write(logging.INFO, attempt, "started", "%s %s started, attempt %d", attempt.number)

    def ended(self, attempt: Attempt, outcome: str) -> None:
        """Log an attempt that did not fail."""
        self._write(logging.INFO, attempt, outcome, "%s %s %s in %d ms", outcome, _ran_ms(attempt))

    def failed(self, attempt: Attempt, outcome: str, what: dict[str, Any]) -> None:
        """Log a failed attempt; `what` is its event."""
        attempts = attempt.number, attempt.spec.head.retries + 1
        values = (outcome, *attempts, what.get("class"), what.get("message"))
        # The event's traceback is fit for any stream, bounded, and the only one when a child process raised.
        trace = str(what.get("traceback", "")).rstrip()
        self._write(logging.ERROR, attempt, outcome, "%s %s %s, attempt %d of %d: %s: %s", *values, trace=trace)

    def _write(self, level: int, attempt: Attempt, outcome: str, text: str, *values: object, trace: str = "") -> None:
        facts = {
            "job": attempt.claimed.id,
            "queue": attempt.queue.name,
            "task": attempt.spec.head.task,
            "job_name": attempt.spec.head.name,
            "attempt": attempt.number,
            "worker": attempt.queue.worker,
            "outcome": outcome,
            "ran_ms": _ran_ms(attempt),
        }
        error = attempt.error if trace else None
        raised = None if error is None else (type(error), error, error.__traceback__)
        args = (attempt.spec.head.task, attempt.claimed.id, *values)
        # Filters and handlers are the application's: one that raises must not stop the worker.
        with contextlib.suppress(Exception):
            if LOGGER.isEnabledFor(level):
                record = LOGGER.makeRecord(LOGGER.name, level, "", 0, text, args, raised, extra=facts)
                record.exc_text = trace or None  # formatters use it instead of formatting the error again
                LOGGER.handle(record)


def _ran_ms(attempt: Attempt) -> int:
    return round(1000 * (time.monotonic() - attempt.started)) if attempt.started else 0
