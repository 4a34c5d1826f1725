"""The console application: it owns the deck and its feed, and passes pictures to the screen that is seen."""

from __future__ import annotations

import asyncio
import signal
import time
from typing import TYPE_CHECKING, Any, ClassVar

from textual.app import App
from textual.binding import Binding, BindingType
from textual.message import Message

from qdeck._deck.deck import Deck
from qdeck_console.actions import ACTIVITY, DEAD, QUEUES, STUCK, TABS, WORKERS, bindings
from qdeck_console.feed import Feed, Picture
from qdeck_console.format import Line, Piece, clock
from qdeck_console.presenters import frame
from qdeck_console.screens.acting import Operator
from qdeck_console.screens.dead import DeadScreen
from qdeck_console.screens.frame import FrameScreen
from qdeck_console.screens.help import HelpScreen
from qdeck_console.screens.queues import QueuesScreen
from qdeck_console.screens.stuck import StuckScreen
from qdeck_console.screens.tables import ActivityScreen, WorkersScreen
from qdeck_console.terminal import check_terminal, context_of, fitting_theme, wants_no_colour
from qdeck_console.text import safe_text
from qdeck_console.theme import INK, Painter, palette_of, plain_variables, themes, variables

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.screen import Screen

    from qdeck._deck.model import Snapshot
    from qdeck_console.presenters.frame import Context

NOTE_S = 6.0


class ConsoleApp(App[int], inherit_bindings=False):
    """The console on one deck."""

    CSS_PATH = "console.tcss"
    ENABLE_COMMAND_PALETTE = False
    ALLOW_SELECT = False
    MODES: ClassVar[dict[str, str | Callable[[], Screen[Any]]]] = {
        QUEUES: QueuesScreen,
        STUCK: StuckScreen,
        DEAD: DeadScreen,
        WORKERS: WorkersScreen,
        ACTIVITY: ActivityScreen,
    }
    DEFAULT_MODE = QUEUES
    BINDINGS: ClassVar[list[BindingType]] = [
        *bindings("app"),
        *(Binding(str(number), f"tab('{name}')", name, show=False) for name, number in TABS.items()),
        Binding("ctrl+c,ctrl+q", "leave", "quit", show=False, priority=True),
    ]

    class Pictured(Message):
        """The feed has a new picture."""

    def __init__(self, deck: Deck, context: Context, *, theme: str = "", seconds: float | None = None) -> None:
        super().__init__()
        self._seconds = seconds
        for own in themes():
            self.register_theme(own)
        self.deck = deck
        self.context = context
        self.feed = Feed(self._look, self._publish)
        self.shown = Picture()
        self.frozen_ms: int | None = None
        self.last_key_at = float("-inf")
        self.painter = Painter(INK)
        self.operator = Operator(self)
        self._note: tuple[float, list[Piece]] = (0.0, [])
        self.animation_level = "none"
        self.theme = theme or fitting_theme(self.console.color_system)

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Our own colours for themes that are not ours."""
        return plain_variables() if wants_no_colour() else variables(INK)

    @property
    def latest(self) -> Picture:
        """The newest picture, frozen or not."""
        return self.feed.picture

    def _publish(self, _picture: Picture) -> None:
        self.post_message(self.Pictured())

    async def _look(self) -> Snapshot:
        screen = self.screen_stack[0] if self.screen_stack else None
        return await self.deck.astatus(screen.visible_queues() if isinstance(screen, QueuesScreen) else ())

    def on_mount(self) -> None:
        """Starts the feed, the clock of the bar, and the handlers that leave the terminal as it was."""
        loop = asyncio.get_running_loop()
        if self._driver is not None and not self.is_headless:
            for number, code in ((signal.SIGTERM, 143), (signal.SIGHUP, 129)):
                loop.add_signal_handler(number, self.exit, code)
        self.run_worker(self.feed.run(), group="feed")
        self.set_interval(0.5, self._age)
        if self._seconds is not None:
            self.set_timer(self._seconds, lambda: self.exit(0))

    async def on_unmount(self) -> None:
        """Closes the connections."""
        await self.deck.aclose()

    def _watch_theme(self, theme: str) -> None:
        super()._watch_theme(theme)
        self.painter = Painter(palette_of(self.available_themes[theme]), plain=wants_no_colour())
        for screen in self.screen_stack if self._running else ():
            if isinstance(screen, FrameScreen):
                screen.redraw()

    def on_console_app_pictured(self) -> None:
        """Shows the new picture, unless it is frozen."""
        if self.frozen_ms is None:
            self.shown = self.latest
        self._each_frame(fresh=True)

    def now_on_screen(self, screen: FrameScreen) -> None:
        """A screen came into sight: the feed reads for it, and it shows what there is."""
        self.feed.want(screen.reads, screen.wants())
        screen.show(self.shown, fresh=False)

    def _each_frame(self, *, fresh: bool) -> None:
        for screen in self.screen_stack[-2:]:
            if isinstance(screen, FrameScreen):
                screen.show(self.shown, fresh=fresh)

    def refresh_frame(self) -> None:
        """Draws what ages by itself again."""
        self._age()

    def bar_line(self) -> tuple[Line, str]:
        """The first line as it is now, and its ground: a dialog shows it again at full strength."""
        return frame.bar(self.context, self.shown, self.frozen_ms, self.size.width)

    def _age(self) -> None:
        # A tick may come while the last screen is being taken down.
        if self.screen_stack and isinstance(self.screen, FrameScreen):
            self.screen.draw_frame()

    def toggle_freeze(self) -> None:
        """Freezes what is shown, or lets it go on."""
        if self.frozen_ms is None:
            self.frozen_ms = time.time_ns() // 1_000_000
        else:
            self.frozen_ms = None
            self.shown = self.latest
            self._each_frame(fresh=True)

    def say(self, text: str, role: str, glyph: str) -> None:
        """A short message in the footer: the last outcome."""
        text = safe_text(text, limit=max(30, self.size.width * 2 // 3))
        when = f", {clock(time.time_ns() // 1_000_000)}" if glyph == "✓" else ""
        self._note = (time.monotonic(), [(f"{glyph} {text}".strip(), role), (when, "muted")])
        self._age()

    def note(self) -> list[Piece]:
        """The message for the footer while it is news, else what holds all the time."""
        said_at, pieces = self._note
        if self.operator.work is not None and time.monotonic() - self.operator.work.started > 0.3:
            return [(self.operator.work.words(), "accent")]
        if time.monotonic() - said_at < NOTE_S:
            return pieces
        return [("∅ read-only", "muted")] if self.context.read_only else []

    def action_tab(self, name: str) -> None:
        """Switches to another screen."""
        if name not in self.MODES:
            self.say(f"there is no screen for {name} yet", "muted", "∅")
            return
        while len(self.screen_stack) > 1:
            self.back()
        _ = self.switch_mode(name)

    def action_do(self, action: str) -> None:
        """Actions that work on every screen."""
        if action == "help" and isinstance(self.screen, FrameScreen):
            self.open(HelpScreen(self.screen))
        elif action == "quit":
            self.action_quit_or_back()

    def action_quit_or_back(self) -> None:
        """Quits from a list; from elsewhere goes back first."""
        if len(self.screen_stack) > 1:
            self.back()
        else:
            self.exit(0)

    def open(self, screen: Screen[None]) -> None:
        """Opens a screen over this one."""
        _ = self.push_screen(screen)  # not awaited: whoever opens it is a handler of the screen below

    def back(self) -> None:
        """Closes the screen on top."""
        _ = self.pop_screen()  # not awaited: it may be the screen itself that asks

    def action_leave(self) -> None:
        """Quits from anywhere."""
        self.exit(0)


def run_console(url: str, *, read_only: bool = False, title: str | None = None, seconds: float | None = None) -> int:
    """Runs the console until it is left, or for so many seconds, and returns the exit code."""
    check_terminal()
    deck = Deck(url, read_only=read_only)
    app = ConsoleApp(deck, context_of(deck, title), seconds=seconds)
    code = app.run()
    return app.return_code or code or 0
