"""The interface of the app for screens: the session, its operator, and opening other screens."""

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
    from qdeck_console.problems import Problems
    from qdeck_console.screens.dialog import Dialog
    from qdeck_console.typed_history import TypedHistory
    from qdeck_console.writing import Writing

Answer = TypeVar("Answer")


class Watching(Protocol):
    """A screen for the feed: its query, and where the result goes."""

    def to_read(self) -> Query[Any] | None:
        """Return the query that the feed reads for it besides the queues."""

    def show(self, feed_state: FeedState, *, fresh: bool = True) -> None:
        """Show a snapshot."""


class Console(Session, Protocol):
    """The interface of the app for its screens, which import neither the app nor other screens."""

    MODES: ClassVar[dict[str, str | Callable[[], Screen[Any]]]]
    operator: Operator
    writing: Writing
    problems: Problems
    frozen_ms: int | None
    last_key_at: float
    served: deque[float | None]
    last_commands: TypedHistory
    last_filters: TypedHistory
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
        """The thresholds of the context."""

    def ask(self, dialog: Dialog[Answer], answered: Callable[[Answer | None], None]) -> None:
        """Open a dialog; its answer is handled when the screen below is visible again."""

    def open(self, screen: Screen[None]) -> None:
        """Open a screen over this one."""

    def open_job(self, queue: QueueRef, job_id: str) -> None:
        """Open the page of a job."""

    def open_queue(self, queue: QueueRef) -> None:
        """Open the page of a queue."""

    def open_temporary_queues(self) -> None:
        """Open the temporary queues."""

    def show_jobs(self, queue: QueueRef, state: State | None = None) -> None:
        """Switch to the jobs of a queue."""

    def back(self) -> None:
        """Close the screen on top."""

    def action_tab(self, name: str) -> None:
        """Switch to another tab."""

    def action_do(self, action: str) -> None:
        """Run an action that works on every screen."""

    def now_on_screen(self, screen: Watching) -> None:
        """Read for a screen that became visible, and show it the newest snapshot."""

    def note(self) -> list[Piece]:
        """Return the message for the footer."""

    def toggle_freeze(self) -> None:
        """Freeze the display, or resume it."""

    def switch_context(self, name: str) -> None:
        """Switch to another server."""

    def copy_to_clipboard(self, text: str) -> None:
        """Send text to the terminal's clipboard."""

    def suspend(self) -> AbstractContextManager[None]:
        """Give the terminal to another program for a while."""
