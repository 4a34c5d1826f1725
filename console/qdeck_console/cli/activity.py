"""`qdeck activity`: show the log of operations."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime
from datetime import time as time_of_day
from typing import TYPE_CHECKING

import click

from qdeck_console import documents
from qdeck_console.cli.base import command, settings
from qdeck_console.cli.columns import TextCell, TextColumn
from qdeck_console.cli.output import age, dumps, moment, note, table, write_text

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from qdeck.admin import Activity

_AGE = re.compile(r"([0-9]+(?:\.[0-9]+)?)(s|m|h|d)")
_UNIT_MS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


@command("activity", examples=("qdeck activity --since 1h", "qdeck activity --since 2026-11-18T12:00 --json"))
@click.option(
    "--since",
    metavar="WHEN",
    help=(
        "Only since an age (90s 15m 2h 7d) or a time (16:00 for today, 2026-11-18T12:00; UTC unless it has an offset). "
        "Default: all."
    ),
)
def activity(since: str | None) -> None:
    """Show the log of operations.

    The oldest come first. With --json each is one line.
    """
    since_ms = None if since is None else _read_since(since)
    given = settings()
    with given.reader() as reader:
        entries = reader.activity(since_ms)
    if given.as_json:
        for entry in entries:
            write_text(dumps(documents.operation(entry)) + "\n")
        return
    undone = _undone(entries)
    if not table(_COLUMNS, (_cells(entry, undone) for entry in entries)):
        note("qdeck: no operations")


def _read_since(text: str) -> int:
    found = _AGE.fullmatch(text.strip())
    if found is not None:
        return max(0, time.time_ns() // 1_000_000 - int(float(found[1]) * _UNIT_MS[found[2]]))
    try:
        if re.match(r"\d\d:\d\d", text.strip()):
            clock = time_of_day.fromisoformat(text.strip())
            moment = datetime.combine(datetime.now(clock.tzinfo or UTC), clock)
        else:
            moment = datetime.fromisoformat(text.strip())
    except ValueError as error:
        message = (
            f"--since {text!r} is neither an age (90s 15m 2h 7d) nor a time (16:00 for today, 2026-11-18T12:00; "
            "UTC unless it has an offset)"
        )
        raise click.UsageError(message, click.get_current_context()) from error
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


_COLUMNS = (
    TextColumn("time"),
    TextColumn("who", most=80),
    TextColumn("operation"),
    TextColumn("counts", most=60, drop=3),
    TextColumn("result", drop=1),
    TextColumn("where", most=60, wraps=True),
    TextColumn("undo", right=True, drop=2),
    TextColumn("batch", most=None),
)


def _undone(entries: Sequence[Activity]) -> set[str | None]:
    """Return the batches that an undo restored to its end."""
    return {entry.batch for entry in entries if entry.verb == "undo" and entry.outcome == "done"}


def _undo(entry: Activity, undone: Collection[str | None]) -> str:
    """Return how long an operation can be undone; `no` where it cannot, and never could."""
    if entry.verb == "undo":
        return "-"
    if entry.batch in undone and entry.batch is not None:
        return "undone"
    if entry.undo_until_ms is None:
        return "no"
    left_s = entry.undo_until_ms / 1000 - time.time()
    return age(left_s) if left_s > 0 else "over"


def _cells(entry: Activity, undone: Collection[str | None]) -> list[TextCell | str]:
    counts = " ".join(f"{name}={count:,}" for name, count in entry.counts.items())
    rules = ", ".join(used.rule for used in entry.rules)
    where = entry.filter or entry.detail or rules or " ".join(entry.queues)
    who = f"{entry.who}@{entry.host}" + (f", continued by {entry.continued_by}" if entry.continued_by else "")
    return [moment(entry.at_ms), who, entry.verb, counts, entry.outcome, where, _undo(entry, undone), entry.batch or ""]
