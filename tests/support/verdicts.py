"""Verdicts on values, without a server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qdeck._model.verdict import LatestVerdict
from qdeck.admin import QueueRow, ServerInfo, Snapshot

if TYPE_CHECKING:
    from qdeck.admin import Thresholds

NOTHING_KNOWN = ServerInfo()


def judge(
    *rows: QueueRow,
    server: ServerInfo = NOTHING_KNOWN,
    limits: Thresholds | None = None,
    standing: LatestVerdict | None = None,
) -> Snapshot:
    """A snapshot of these queues with its verdict; of few, as here, it is made at once."""
    program = (standing or LatestVerdict()).judge(Snapshot(at_ms=1, server=server, queues=rows), limits)
    try:
        next(program)
    except StopIteration as done:
        found: Snapshot = done.value
        return found
    raise AssertionError("few queues are judged at once")
