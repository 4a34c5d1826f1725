"""What the operator, the dialogs and whatever opens the server for writing need of the app: one server and its data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from textual.geometry import Size
    from textual.screen import Screen
    from textual.worker import Worker

    from qdeck.admin import AsyncReader, AsyncWriter
    from qdeck_console.contexts import Contexts
    from qdeck_console.feed import Feed, FeedState
    from qdeck_console.format import Line
    from qdeck_console.presenters.frame import ShownContext
    from qdeck_console.server_cost import RequestCost
    from qdeck_console.theme import Painter

Answer = TypeVar("Answer")


class Session(Protocol):
    """One context: its reader, its writer while live, its feed, and its messages and questions to the operator."""

    context: ShownContext
    contexts: Contexts
    cost: RequestCost
    feed: Feed
    shown: FeedState
    painter: Painter
    keys_from: float
    """Since when keys count: those typed before a question was drawn do not answer it."""

    @property
    def reader(self) -> AsyncReader:
        """What reads the server."""

    @property
    def writer(self) -> AsyncWriter:
        """What writes to the server; raises where the console is read-only."""

    @property
    def screen(self) -> Screen[Any]:
        """The screen or dialog that has the keys."""

    @property
    def latest(self) -> FeedState:
        """The newest snapshot, frozen or not."""

    @property
    def busy(self) -> str:
        """The verb of the operation in progress; empty without one."""

    @property
    def is_over(self) -> bool:
        """Whether the time for writing has passed."""

    @property
    def size(self) -> Size:
        """The size of the terminal."""

    async def become(self, *, read_only: bool, until: float | None) -> None:
        """Open the same server again, so that it can be written to or cannot."""

    def bar_line(self, feed_state: FeedState | None = None) -> tuple[Line, str]:
        """Return the first line as it is now, and its ground."""

    def say(self, text: str, role: str, glyph: str, *, whole: bool = False) -> None:
        """Show a short message in the footer; a `whole` one may take all of it."""

    def age(self) -> None:
        """Draw again what ages by itself."""

    def run_worker(
        self, work: Coroutine[Any, Any, None], *, group: str = "default", exit_on_error: bool = True
    ) -> Worker[None]:
        """Run something beside the keys."""

    async def push_screen_wait(self, screen: Screen[Answer]) -> Answer:
        """Show a dialog and wait for its answer."""
