"""The log of `qdeck worker` on stderr, as text or as JSON."""

from __future__ import annotations

import logging
import sys
from datetime import UTC, datetime
from typing import Final

from qdeck_console.cli.output import dumps

_EXTRAS: Final = ("job", "job_name", "task", "queue", "attempt", "worker", "outcome", "ran_ms")


class _Json(logging.Formatter):
    """Format a record as one line of JSON, with the fields of the job."""

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        fields = {"at": at, "level": record.levelname.lower(), "logger": record.name, "message": record.getMessage()}
        fields |= {name: value for name in _EXTRAS if (value := getattr(record, name, None)) is not None}
        if record.exc_text or record.exc_info:
            fields["traceback"] = record.exc_text or self.formatException(record.exc_info)  # type: ignore[arg-type]  # one of them is there
        return dumps(fields)


def log_to_stderr(level: str, *, as_json: bool) -> None:
    """Send log lines of this level and above to stderr; what jobs log at INFO is kept with them in any case."""
    number = logging.getLevelNamesMapping()[level.upper()]
    handler = logging.StreamHandler(sys.stderr)
    handler.setLevel(number)
    text = logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s")
    handler.setFormatter(_Json() if as_json else text)
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(min(number, logging.INFO))
    logging.getLogger("qdeck.worker").setLevel(number)
