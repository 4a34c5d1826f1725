"""What stands in the place of the queues where a server has none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from qdeck_console.pace import Pace
from qdeck_console.presenters.empty import empty_lines
from qdeck_console.widgets.lines import Item, Listing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qdeck.admin import AsyncReader
    from qdeck_console.console import Console
    from qdeck_console.format import Line
    from qdeck_console.widgets.lines import LineList

AGAIN_S: Final = 5.0


class EmptyDeck:
    """Tells that there is no queue, what was looked for and what can be done."""

    def __init__(self) -> None:
        self._keys: int | None = None
        self._pace = Pace(AGAIN_S)

    async def read(self, reader: AsyncReader) -> None:
        """Counts the keys that are none of a queue, now and then. On a cluster one server would tell its own only."""

        if self._pace.is_due and not reader.is_cluster:
            with self._pace.reading():
                self._keys = await reader.count_keys()

    def listing(self, console: Console, view: LineList) -> Listing:
        """The block as lines without a cursor: nothing in it can be chosen."""

        looked_for = [(adapter.name, adapter.about) for adapter in console.reader.adapters.shown]
        lines = empty_lines(
            view.size.width or console.size.width, view.size.height or console.size.height,
            server=console.context.server, keys=self._keys, looked_for=looked_for,
            contexts=len(console.contexts.configured),
        )  # fmt: skip
        return Listing([Item("", 1, line) for line in lines], _draw)


def _draw(item: Item, _cells: int, _at_cursor: bool) -> Sequence[Line]:
    return (item.row,) if isinstance(item.row, tuple) else ()
