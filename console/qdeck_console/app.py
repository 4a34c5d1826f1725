"""The console application: it owns the reader and its feed, and passes snapshots to the visible screen."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

from textual.binding import Binding, BindingType
from textual.events import Event, Key
from textual.message import Message
from textual.screen import Screen
from textual.worker import WorkerError

from qdeck import QdeckError
from qdeck_console import startup, theme_choice
from qdeck_console.actions import JOBS, QUEUES, TABS, bindings
from qdeck_console.contexts import Contexts, opens_read_only, read_only_refusal
from qdeck_console.feed import Feed, FeedState
from qdeck_console.format import Line, Piece, clock
from qdeck_console.operator import Operator
from qdeck_console.presenters import frame
from qdeck_console.problems import Problems
from qdeck_console.screens.frame import LOW, FrameScreen
from qdeck_console.server_cost import RequestCost
from qdeck_console.style_sheet import Sheet
from qdeck_console.terminal import fitting_theme, wants_ascii, wants_no_colour
from qdeck_console.text import safe_text
from qdeck_console.textual_compat import QuietApp, all_screens
from qdeck_console.theme import INK, Painter, palette_of, plain_variables, themes, variables
from qdeck_console.typed_history import TypedHistory
from qdeck_console.writing import Writing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from textual.driver import Driver
    from textual.worker import Worker

    from qdeck.admin import AsyncReader, AsyncWriter, QueueRef, Snapshot, State, Target, Thresholds
    from qdeck_console.console import Watching
    from qdeck_console.palette_actions import PaletteCommand
    from qdeck_console.presenters.frame import ShownContext
    from qdeck_console.problems import Evidence
    from qdeck_console.screens.dialog import Dialog

T = TypeVar("T")
ENDING: Final = {signal.SIGTERM: 143, signal.SIGHUP: 129}
"""Signals that end the console, with its exit code then."""
NOTE_S = 6.0
_BETWEEN: Final = "between"
ANSWER_S = 2.0


class ConsoleApp(QuietApp, inherit_bindings=False):
    """The console on one server."""

    CSS_PATH = "console.tcss"
    ENABLE_COMMAND_PALETTE = False
    ALLOW_SELECT = False
    MODES: ClassVar[dict[str, str | Callable[[], Screen[Any]]]] = {name: startup.screen(name) for name in TABS}
    DEFAULT_MODE = QUEUES
    BINDINGS: ClassVar[list[BindingType]] = [
        *bindings("app"),
        *(Binding(str(number), f"tab('{name}')", name, show=False) for name, number in TABS.items()),
        Binding("ctrl+c,ctrl+q", "leave", "quit", show=False, priority=True),
    ]

    class Refreshed(Message):
        """The feed has a new snapshot."""

    def __init__(
        self,
        contexts: Contexts,
        context: ShownContext,
        *,
        theme: str = "",
        seconds: float | None = None,
        in_terminal: bool = False,
    ) -> None:
        # Said at once: a filter that makes greys of colours would else be put in before the theme is known.
        super().__init__(ansi_color=True if wants_no_colour() else None)
        self._seconds = seconds
        self._in_terminal = in_terminal  # else it has no signals and no collector of garbage of its own
        self._reader: AsyncReader | None = None
        self._feeding: Worker[None] | None = None
        self.failure: Exception | None = None
        """Why the context could not be opened."""
        self.contexts = contexts
        self.cost = RequestCost()
        for own in themes():
            self.register_theme(own)
        self.stylesheet = Sheet(variables=self.get_css_variables())
        self.context = context
        self.feed = Feed(self._look, self._publish, self._prepare)
        self.shown = FeedState()
        self.frozen_ms: int | None = None
        self.served: deque[float | None] = deque(maxlen=600)  # commands a second, for the chart of the server
        self.last_commands, self.last_filters = TypedHistory(), TypedHistory()
        self.last_key_at = self.keys_from = float("-inf")
        self.painter = Painter(INK)
        self.operator = Operator(self)
        self.writing = Writing(self)
        self.problems = Problems(self)
        self._note: tuple[float, list[Piece]] = (0.0, [])
        self.animation_level = "none"
        fitting = fitting_theme(self.console.color_system)
        # One that was chosen before is of true colour: a terminal that has fewer gets its own.
        chosen = theme_choice.load() if in_terminal and fitting == "qdeck-ink" else ""
        self.theme = theme or (chosen if chosen in self.available_themes else fitting)

    def get_driver_class(self) -> type[Driver]:
        """Return Textual's driver; on a terminal our own, which survives the loss of the terminal."""
        chosen = super().get_driver_class()
        if chosen.__name__ != "LinuxDriver":
            return chosen
        from qdeck_console.driver import TerminalDriver

        return TerminalDriver

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Return the colours of our style sheet for a theme that is not ours."""
        return plain_variables() if wants_no_colour() else variables(palette_of(self.current_theme))

    @property
    def reader(self) -> AsyncReader:
        """What reads the server. It is made when it is first asked for: what it needs takes longer to load than the
        first frame.
        """
        if self._reader is None:
            try:
                self._reader = self._open()
            except Exception as error:
                self._fail(error)
                raise
        return self._reader

    def _open(self) -> AsyncReader:
        return self.contexts.open(self.contexts.target, self.cost, read_only=self.context.read_only)

    @property
    def writer(self) -> AsyncWriter:
        """The writer of the server. Raise where the console is read-only."""
        from qdeck.admin import AsyncWriter

        reader = self.reader
        if not isinstance(reader, AsyncWriter):
            raise read_only_refusal(self.contexts.target)
        return reader

    @property
    def busy(self) -> str:
        """The verb of the operation in progress; empty without one."""
        return self.operator.work.verb if self.operator.work is not None else ""

    @property
    def is_over(self) -> bool:
        """Whether the time for writing has passed."""
        return self.writing.is_over

    def _fail(self, error: Exception) -> None:
        """End the app; the error is reported when the terminal is restored."""
        self.failure = error
        if self.is_running:
            self.exit(1)

    @property
    def thresholds(self) -> Thresholds:
        """The thresholds of the context."""
        return self.contexts.target.thresholds

    @property
    def latest(self) -> FeedState:
        """The newest snapshot, frozen or not."""
        return self.feed.state

    def _prepare(self, feed_state: FeedState) -> Iterator[None]:
        if self.frozen_ms is None:
            for screen in self.screen_stack[-2:]:
                if isinstance(screen, FrameScreen):
                    yield from screen.prepare(feed_state)

    def _publish(self, _picture: FeedState) -> None:
        self.post_message(self.Refreshed())

    async def _look(self) -> Snapshot:
        in_sight = (one.visible_queues() for one in reversed(self.screen_stack) if isinstance(one, FrameScreen))
        seen = await self.reader.snapshot(next(filter(None, in_sight), ()))
        return await self.reader.explained(seen)

    async def on_event(self, event: Event) -> None:
        """Drop keys that were typed before the question on screen was drawn."""
        if not isinstance(event, Key) or event.time >= self.keys_from:
            await super().on_event(event)

    def on_load(self) -> None:
        """Take the signals before the terminal is taken over: from here on they leave it as it was."""
        if self._in_terminal:
            for number, code in ENDING.items():
                # After a frame: screens that are half made cannot be taken down.
                asyncio.get_running_loop().add_signal_handler(number, self.call_after_refresh, self.exit, code)

    def on_mount(self) -> None:
        """Start the feed and the clock of the bar."""
        if self._in_terminal:
            self.run_worker(startup.collect_when_idle(lambda: self.last_key_at), group="garbage")
        if self._reader is not None:
            self._begin()
        else:
            self.call_after_refresh(self._begin)  # the reader loads what the first frame does not need
        self.set_interval(0.5, self.age)
        if self._seconds is not None:
            self.set_timer(self._seconds, lambda: self.exit(0))

    def _begin(self) -> None:
        """Start what reads the server."""
        self.reader  # noqa: B018 - made here, so that a wrong URL ends the console before the feed starts
        if self._feeding is None:
            self._start_feed()
        if self.context.live_until is not None:
            self.writing.tell("--confirm")

    def _start_feed(self) -> None:
        if self._feeding is not None:  # over, unless two readers replaced another at once
            self._feeding.cancel()
        self._feeding = self.run_worker(self.feed.run, group="feed")

    async def on_unmount(self) -> None:
        """Close the connections."""
        if self._reader is not None:
            await self._reader.close()

    def watch_theme(self, theme: str) -> None:
        """Take the colours of a theme."""
        # Sixteen colours cannot dim what is behind a dialog: it would turn into grey slabs.
        self.set_class(theme == "qdeck-16" or wants_no_colour(), "-sixteen")
        self.set_class(wants_ascii(), "-ascii")
        self.painter = Painter(palette_of(self.available_themes[theme]), plain=wants_no_colour(), ascii=wants_ascii())
        for screen in self.screen_stack if self.is_running else ():
            if isinstance(screen, FrameScreen):
                screen.redraw()

    def on_console_app_refreshed(self) -> None:
        """Show the new snapshot, unless the display is frozen."""
        if self.frozen_ms is None:
            self.shown = self.latest
        if not self.latest.is_lost:
            self.writing.tell_owed()
            self.operator.watch_interrupted()
        server = self.latest.snapshot.server if self.latest.snapshot else None
        self.served.append(None if server is None or self.latest.is_lost else server.commands_per_s)
        self._each_frame(fresh=True)

    def now_on_screen(self, screen: Watching) -> None:
        """Read for a screen that became visible, and show it the newest snapshot."""
        self.feed.want(screen.to_read())
        screen.show(self.shown, fresh=False)

    def _each_frame(self, *, fresh: bool) -> None:
        """Show the data on the visible screen, which may be below dialogs; a page hides the screen below it."""
        screen = next((screen for screen in reversed(self.screen_stack) if isinstance(screen, FrameScreen)), None)
        if screen is not None:
            screen.show(self.shown, fresh=fresh)

    def bar_line(self, feed_state: FeedState | None = None) -> tuple[Line, str]:
        """The first line as it is now, and its ground: a dialog shows it again at full strength."""
        low = self.size.height < LOW
        return frame.bar(self.context, feed_state or self.shown, self.frozen_ms, self.size.width, low=low)

    def age(self) -> None:
        """Draw again what ages by itself: times, and what ends after a time."""
        if self.is_over and not self.busy:
            self.writing.end("the 30 minutes are over: ")
        # A tick may come while the last screen is being taken down.
        if self.screen_stack and isinstance(self.screen, FrameScreen):
            self.screen.draw_frame()

    def toggle_freeze(self) -> None:
        """Freeze the display, or resume it."""
        if self.frozen_ms is None:
            self.frozen_ms = time.time_ns() // 1_000_000
            self.shown = replace(self.shown, history=self.shown.history.still())
            self._each_frame(fresh=False)
        else:
            self.frozen_ms = None
            self.shown = self.latest
            self._each_frame(fresh=True)

    def say(self, text: str, role: str, glyph: str, *, whole: bool = False) -> None:
        """Show the last outcome as a short message in the footer; a `whole` one may take all of it."""
        text = safe_text(text, limit=max(30, self.size.width if whole else self.size.width * 2 // 3))
        when = f", {clock(time.time_ns() // 1_000_000)}" if glyph == "✓" else ""
        self._note = (time.monotonic(), [(f"{glyph} {text}".strip(), role), (when, "muted")])
        self.age()

    def note(self) -> list[Piece]:
        """Return the last message while it is recent, else the permanent one."""
        said_at, pieces = self._note
        now, work = time.monotonic(), self.operator.work
        # What goes on is told all the time, but an answer to a key that was pressed meanwhile comes first.
        news_s = NOTE_S if work is None else ANSWER_S
        if now - said_at < news_s and (work is None or said_at > work.started):
            return pieces
        if work is not None and now - work.started > 0.3:
            is_stopped_here = work.stops_on in (None, getattr(self.screen, "drive", None))
            return [(work.words() if is_stopped_here else work.words("D on Dead opens it"), "accent")]
        if now - said_at < NOTE_S:
            return pieces
        if self.shown.is_lost:
            return [(":reconnect", "accent bold"), (" reconnects now", "muted")]
        if not self.context.read_only:
            return []
        if self.context.locked:
            return [("∅ read-only", "muted")]
        return [("∅ read-only; type ", "muted"), (":live", "accent bold"), (" to allow changes", "muted")]

    def action_tab(self, name: str) -> None:
        """Switch to another screen. Jobs has those of the queue in sight; the list that was left, if it is of it."""
        if name not in self.MODES:
            self.say(f"there is no screen for {name} yet", "muted", "∅")
            return
        queue = self.screen.queue_in_sight if name == JOBS and isinstance(self.screen, FrameScreen) else None
        self._switch_to(name)
        if queue is not None and getattr(self.screen, "queue", None) != queue:
            self.show_jobs(queue)

    def _switch_to(self, name: str) -> None:
        while len(self.screen_stack) > 1:
            self.back()
        _ = self.switch_mode(name)

    def open_evidence(self, evidence: Evidence, place: str) -> None:
        """Show evidence on the tab that was opened for it."""

        def arrive() -> None:
            if not evidence.tab and evidence.queue is not None:
                self.open_queue(evidence.queue)
            elif isinstance(self.screen, FrameScreen):
                self.screen.narrow(evidence.where, place)

        self.call_after_refresh(arrive)

    def show_jobs(self, queue: QueueRef, state: State | None = None) -> None:
        """Switch to the jobs of a queue."""
        from qdeck_console.screens.jobs import JobsScreen

        self._switch_to(JOBS)
        if isinstance(self.screen, JobsScreen):
            self.screen.choose(queue, state)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return whether a key may act: while a filter is typed, only the keys that quit do."""
        screen = self.screen_stack[-1] if self.screen_stack else None
        return action == "leave" or not isinstance(screen, FrameScreen) or not screen.is_filter_typed

    def action_do(self, action: str) -> None:
        """Run an action that works on every screen."""
        screen = self.screen
        if action == "quit":
            self.action_quit_or_back()
        elif not isinstance(screen, FrameScreen):
            return
        elif action == "problem":
            self.problems.next()
        elif action == "help":
            from qdeck_console.screens.help import HelpScreen

            self.ask(HelpScreen(self, screen), self._do)
        elif action == "commands":
            from qdeck_console.screens.palette import PaletteScreen

            self.ask(PaletteScreen(self, screen), self._do)
        elif action == "context":
            if not self.contexts.configured:
                self.say(f"{self.contexts.where}: the file has other servers", "muted", "∅")
            else:
                from qdeck_console.screens.contexts import ContextScreen

                self.ask(ContextScreen(self), lambda name: self.switch_context(name) if name else None)

    def ask(self, dialog: Dialog[T], answered: Callable[[T | None], None]) -> None:
        """Open a dialog; its answer is handled when the screen below is visible again."""

        def later(answer: T | None) -> None:
            self.call_later(answered, answer)

        _ = self.push_screen(dialog, later)

    def _do(self, command: PaletteCommand | None) -> None:
        """Run the chosen action, or show why it is disabled."""
        if command is None:
            return
        if command.why_not:
            self.say(f"{command.title}: {command.why_not}", "muted", "∅")
        else:
            command.do()

    async def become(self, *, read_only: bool, until: float | None) -> None:
        """Open the same server again, live or read-only."""
        before, feeding = self.reader, self._feeding
        self.context = replace(self.context, read_only=read_only, live_until=until)
        self._reader = self._open()
        await self._leave(before, feeding)
        self._start_feed()
        self._each_frame(fresh=False)

    async def _leave(self, reader: AsyncReader | None, feeding: Worker[None] | None) -> None:
        """Close a reader when no read uses it any more."""
        if feeding is not None:
            feeding.cancel()
            with contextlib.suppress(WorkerError):
                await feeding.wait()
        if reader is not None:
            await reader.close()

    def switch_context(self, name: str) -> None:
        """Switch to another server; production opens read-only."""
        if self.busy:
            self.say(f"{self.busy} in progress: esc cancels it", "muted", "∅")
            return
        try:
            target = self.contexts.find(name)
        except (QdeckError, LookupError) as error:
            self.say(str(error).replace(self.contexts.where, "qdeck.toml"), "bad", "✗")
            return
        if target == self.contexts.target:
            # What was opened for writing stays open.
            self.say(f"already connected to {self.context.title}", "muted", "")
            return
        self.run_worker(self._switch(target), group="live", exit_on_error=False)

    async def _switch(self, target: Target) -> None:
        if self.context.live_until is not None:
            self.writing.tell("", ends=True)
        before, feeding = self._reader, self._feeding  # none was made yet when the first one cannot be
        self.contexts.target = target
        self.context, self.cost = self.contexts.describe(target, read_only=opens_read_only(target)), RequestCost()
        self._reader = self._open()
        self.frozen_ms, self.shown = None, FeedState()
        self.operator = Operator(self)
        self.feed = Feed(self._look, self._publish, self._prepare)
        await self._leave(before, feeding)
        await self._forget_screens()
        self._start_feed()
        self.say(f"connected to {self.context.title}", "muted", "")

    async def _forget_screens(self) -> None:
        """Start again on the first screen: marks, filters and open pages belong to the server that was left."""
        with self.batch_update():  # an empty screen takes the place of the last one, and is not drawn
            while len(self.screen_stack) > 1:
                await self.pop_screen()
            self.add_mode(_BETWEEN, Screen)
            await self.switch_mode(_BETWEEN)
            for mode in [mode for mode in all_screens(self) if mode in TABS]:
                await self.remove_mode(mode)
                self.add_mode(mode, self.MODES[mode])
            await self.switch_mode(QUEUES)
            await self.remove_mode(_BETWEEN)

    def action_quit_or_back(self) -> None:
        """Quit from a list; from a page go back."""
        if len(self.screen_stack) > 1:
            self.back()
        else:
            self.exit(0)

    def open(self, screen: Screen[None]) -> None:
        """Open a screen over this one."""
        _ = self.push_screen(screen)  # not awaited: whoever opens it is a handler of the screen below

    def open_job(self, queue: QueueRef, job_id: str) -> None:
        """Open the page of a job."""
        from qdeck_console.screens.job import JobScreen

        self.open(JobScreen(self.current_mode, queue, job_id))

    def open_queue(self, queue: QueueRef) -> None:
        """Open the page of a queue."""
        from qdeck_console.screens.queue import QueueScreen

        self.open(QueueScreen(queue))

    def open_temporary_queues(self) -> None:
        """Open the temporary queues."""
        from qdeck_console.screens.temporary import TemporaryQueuesScreen

        self.open(TemporaryQueuesScreen())

    def back(self) -> None:
        """Close the top screen."""
        _ = self.pop_screen()  # not awaited: it may be the screen itself that asks

    def action_leave(self) -> None:
        """Quit from any screen."""
        self.exit(0)
