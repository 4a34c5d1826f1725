"""The driver of a console in a browser: Textual's own, which accepts no more than the console can handle.

Textual puts every key at once into queues without a limit, and its parser keeps what was pasted until the paste ends: a
visitor who sends keys faster than the console acts on them could fill the memory. Here keys wait in the pipe, then in
the connection, and at last in the browser.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from textual import events
from textual.app import ScreenStackError
from textual.drivers import web_driver

from qdeck_console.textual_compat import before_meta, read_through

if TYPE_CHECKING:
    from collections.abc import Iterator

    from textual.app import App
    from textual.geometry import Size
    from textual.message import Message

    from qdeck_console.textual_compat import InputReader

MOST_WAITING: Final = 100  # events that the console has not handled yet
MOST_UNFINISHED: Final = 1 << 20  # bytes that make no event: a paste without an end, longer than any message


class WebDriver(web_driver.WebDriver):
    """Reads keys and sizes from `qdeck serve`, at the pace of the console."""

    def __init__(
        self, app: App[object], *, debug: bool = False, mouse: bool = True, size: Size | tuple[int, int] | None = None
    ) -> None:
        super().__init__(app, debug=debug, mouse=mouse, size=size)
        self._console, self._running_in = app, asyncio.get_running_loop()
        self._unfinished = 0
        read_through(self, lambda reader: _Reader(self, reader))
        before_meta(self, self._take_off)

    def process_message(self, message: Message) -> None:
        """Send an event that was parsed."""
        self._unfinished = 0
        # A terminal may report its size among the keys. That of a browser comes from the server, which limits it.
        if not isinstance(message, events.Resize):
            super().process_message(message)

    def send_message(self, message: Message) -> None:
        """Send an event when the console has handled most of those before it."""
        self._wait_for_room()
        super().send_message(message)

    def on_meta(self, packet_type: str, payload: dict[str, object]) -> None:
        """Handle what the server sent apart from keys."""
        if packet_type != "quit":
            self._wait_for_room()
        super().on_meta(packet_type, payload)

    def _take_off(self, count: int) -> None:
        self._unfinished -= count

    def accepts(self, data: bytes) -> bool:
        """Return whether to go on reading; the console ends otherwise."""
        self._unfinished += len(data)
        if self._unfinished <= MOST_UNFINISHED:
            return True
        self.on_meta("quit", {})
        return False

    def _wait_for_room(self) -> None:
        waiting = asyncio.run_coroutine_threadsafe(self._room(), self._running_in)
        while not self.exit_event.is_set():
            with suppress(TimeoutError):  # the loop is busy, or has ended
                waiting.result(0.2)
                return

    async def _room(self) -> None:
        while self._waiting() >= MOST_WAITING:  # noqa: ASYNC110 - queues have no event for it
            await asyncio.sleep(0.01)

    def _waiting(self) -> int:
        """Events in the queues that a key passes through."""
        try:
            nodes = (self._console.focused or self._console.screen).ancestors_with_self
        except ScreenStackError:
            nodes = [self._console]
        return sum(node.message_queue_size for node in nodes)


class _Reader:
    """Textual's reader of the pipe, up to where the driver accepts no more."""

    def __init__(self, driver: WebDriver, reader: InputReader) -> None:
        self._driver, self._reader = driver, reader

    def __iter__(self) -> Iterator[bytes]:
        for data in self._reader:
            if not self._driver.accepts(data):
                return
            yield data

    def close(self) -> None:
        """End the iteration."""
        self._reader.close()
