"""The text in place of the queues of a server that has none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from qdeck.admin import Code
from qdeck_console.pace import Pace
from qdeck_console.presenters.no_queues import no_queues_lines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qdeck.admin import AsyncReader, Snapshot
    from qdeck_console.console import Console
    from qdeck_console.format import Line
    from qdeck_console.widgets.lines import LineList

AGAIN_S: Final = 5.0


class NoQueues:
    """The text in place of the queues: the adapters that were tried, and what can be done."""

    def __init__(self) -> None:
        self._keys: int | None = None
        self._pace = Pace(AGAIN_S)

    async def read(self, reader: AsyncReader) -> None:
        """Count the keys of the server, now and then. On a cluster one server would tell its own only."""
        if self._pace.is_due and not reader.is_cluster:
            with self._pace.reading():
                self._keys = await reader.count_keys()

    def lines(self, console: Console, view: LineList, snapshot: Snapshot | None) -> Sequence[Line]:
        """Return its lines."""
        findings = () if snapshot is None else snapshot.findings
        looked_for = [(adapter.name, adapter.about) for adapter in console.reader.adapters.shown]
        return no_queues_lines(
            view.size.width or console.size.width, view.size.height or console.size.height,
            server=console.context.server, keys=self._keys, looked_for=looked_for,
            contexts=len(console.contexts.configured),
            unread=[one.text for one in findings if one.code is Code.UNKNOWN_SYSTEM],
        )  # fmt: skip
