"""What screens need of the app: the session, what acts on it, and the way to other screens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

from qdeck_console.session import Session

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from textual.screen import Screen
    from textual.theme import Theme

    from qdeck.admin import QueueRef, State, Thresholds
    from qdeck_console.feed import FeedState, Query
    from qdeck_console.format import Piece
    from qdeck_console.operator import Operator
    from qdeck_console.screens.dialog import Dialog
    from qdeck_console.writing import Writing

Answer = TypeVar("Answer")


class Watching(Protocol):
    """A screen for the feed: its query, and where the result goes."""

    def to_read(self) -> Query[Any] | None:
        """Return what the feed shall read for it, besides the queues."""

    def show(self, feed_state: FeedState, *, fresh: bool = True) -> None:
        """Show a picture."""


class Console(Session, Protocol):
    """The app as screens see it: they never import it, nor the screens that it opens for them."""

    MODES: ClassVar[dict[str, str | Callable[[], Screen[Any]]]]
    operator: Operator
    writing: Writing
    frozen_ms: int | None
    last_key_at: float
    served: deque[float | None]
    theme: str

    @property
    def current_mode(self) -> str:
        """The name of the visible tab."""

    @property
    def screen_stack(self) -> list[Screen[Any]]:
        """The screens of this tab, the visible one last."""

    @property
    def available_themes(self) -> dict[str, Theme]:
        """The themes by name."""

    @property
    def thresholds(self) -> Thresholds:
        """Those of the context."""

    def ask(self, dialog: Dialog[Answer], answered: Callable[[Answer | None], None]) -> None:
        """Open a dialog; its answer is dealt with when the screen below is there again."""

    def open(self, screen: Screen[None]) -> None:
        """Open a screen over this one."""

    def open_job(self, queue: QueueRef, job_id: str) -> None:
        """Open all about one job."""

    def open_queue(self, queue: QueueRef) -> None:
        """Open all about one queue."""

    def open_temporary_queues(self) -> None:
        """Open the temporary queues."""

    def show_jobs(self, queue: QueueRef, state: State | None = None) -> None:
        """Switch to the jobs of a queue."""

    def back(self) -> None:
        """Close the screen on top."""

    def action_tab(self, name: str) -> None:
        """Switch to another tab."""

    def action_do(self, action: str) -> None:
        """Do an action that works on every screen."""

    def now_on_screen(self, screen: Watching) -> None:
        """Read for a screen that came into sight, and show it what there is."""

    def note(self) -> list[Piece]:
        """Return the message for the footer."""

    def toggle_freeze(self) -> None:
        """Freeze what is shown, or let it go on."""

    def switch_context(self, name: str) -> None:
        """Look at another server."""

    def copy_to_clipboard(self, text: str) -> None:
        """Send text to the terminal's clipboard."""

    def suspend(self) -> AbstractContextManager[None]:
        """Give the terminal to another program for a while."""
