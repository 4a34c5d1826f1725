"""The frame of every screen: bar, verdict, tabs, body, filter and footer, and its snapshots and actions."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, cast

from textual.binding import Binding
from textual.containers import Horizontal, Vertical
from textual.screen import Screen

from qdeck import InvalidFilter
from qdeck.admin import Code
from qdeck_console.actions import (
    DEAD,
    QUEUES,
    SCHEDULES,
    STUCK,
    TABS,
    Action,
    ActionHandler,
    bindings,
    footer_actions,
    of_scope,
)
from qdeck_console.feed import FeedState, Query
from qdeck_console.presenters import frame
from qdeck_console.presenters.frame import Offer, Tab
from qdeck_console.presenters.line_parts import Naming, naming_of
from qdeck_console.screens.go_back import CANCEL, CLEAR_FILTER, back
from qdeck_console.textual_compat import is_ending
from qdeck_console.theme import SIXTEEN
from qdeck_console.widgets.filter_field import FilterField
from qdeck_console.widgets.lines import LineList, Lines
from qdeck_console.widgets.text_field import TextField

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from textual.app import ComposeResult
    from textual.binding import BindingType
    from textual.geometry import Size
    from textual.widget import Widget
    from textual.widgets import Input

    from qdeck.admin import JobRecord, QueueRef
    from qdeck_console.console import Console
    from qdeck_console.format import Line, Piece
    from qdeck_console.screens.export import Export
    from qdeck_console.theme import Painter

TALL: int = 30
LOW: int = 20  # the verdict is in the bar
WIDE: int = 140
LEAST: tuple[int, int] = (60, 16)


UNREAD: Line = (("    ", "text"), ("not read yet: the connection is lost", "muted"))


def _fitting(size: Size) -> dict[str, bool]:
    """The classes of a screen of a size."""
    return {
        "-wide": size.width >= WIDE,
        "-tall": size.height >= TALL,
        "-low": size.height < LOW,
        "-tiny": size.width < LEAST[0] or size.height < LEAST[1],
    }


class FrameScreen(Screen[None]):
    """A screen with the frame around its body. Subclasses say what is in the body and draw it."""

    TAB: ClassVar[str] = QUEUES
    SCOPE: ClassVar[str] = QUEUES
    LANGUAGE: ClassVar[bool] = False  # whether `/` takes the filter language rather than a part of a name
    # Keys that come in one gulp reach the list before it has dealt with the first of them: what is typed after these
    # must never be taken for keys of the list. So they are seen first, and what they open has the next key.
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("colon,ctrl+p", "at_once('commands')", show=False, priority=True),
        Binding("question_mark", "at_once('help')", show=False, priority=True),
    ]
    AUTO_FOCUS = "LineList"
    ESCAPE_TO_MINIMIZE = False

    def __init_subclass__(cls, **options: Any) -> None:
        if "SCOPE" in cls.__dict__ and "BINDINGS" not in cls.__dict__:
            cls.BINDINGS = bindings(cls.SCOPE)  # before Textual merges those of its classes
        super().__init_subclass__(**options)

    def __init__(self) -> None:
        super().__init__()
        self.feed_state = FeedState()
        self.filter_text = ""
        self.wrong: InvalidFilter | None = None
        self._kept: FeedState | None = None

    @property
    def console(self) -> Console:
        """The app, as what it is."""
        return cast("Console", self.app)

    @property
    def painter(self) -> Painter:
        """The painter for the body: it steps back when the server is lost."""
        return replace(self.console.painter, stale=self.feed_state.is_lost)

    @property
    def is_tall(self) -> bool:
        """Whether there is room for blank lines."""
        return self.size.height >= TALL

    def compose(self) -> ComposeResult:
        """The frame, with the body of the subclass in it."""
        self.update_classes(_fitting(self.app.size), update=False)  # now, so that styles are found once
        yield Lines(id="bar", ground="bar")
        yield Lines(id="verdict", ground="panel")
        yield Lines(id="tabs")
        with Horizontal(id="body"):
            yield from self.body()
        hint = "error:Timeout* age>2h attempts>=3" if self.LANGUAGE else "text in the name; esc clears, enter keeps"
        yield FilterField(placeholder=hint, completes=self.LANGUAGE, history=self.console.last_filters)
        yield Lines(id="wrong", ground="raised")
        yield Lines(id="footer", ground="panel")
        yield Lines(id="tiny")

    def body(self) -> Sequence[Widget]:
        """The widgets of the body: the list with its heads and total, and one of its rows beside it."""
        return (Vertical(Lines(id="head"), LineList(id="list"), Lines(id="total"), id="main"), Lines(id="side"))

    @property
    def tab(self) -> str:
        """The tab that is active while this screen is seen."""
        return self.TAB

    @property
    def query_key(self) -> str:
        """What tells the query of this screen from others."""
        return self.TAB

    @property
    def now_ms(self) -> int:
        """The server's clock."""
        return self.feed_state.snapshot.at_ms if self.feed_state.snapshot else 0

    @property
    def naming(self) -> Naming:
        """The start of names that every queue of qdeck has."""
        return naming_of(self.feed_state.snapshot)

    @property
    def is_built(self) -> bool:
        """Whether its widgets are there."""
        return self.query_one_optional("#footer") is not None

    @property
    def view(self) -> LineList:
        """The list."""
        return self.query_one("#list", LineList)

    @property
    def main_list(self) -> LineList:
        """The list that has the keys when nothing else has them."""
        return self.view

    @property
    def queue_in_sight(self) -> QueueRef | None:
        """The queue that the screen is about or that is under the cursor: Jobs opens with its jobs."""
        return None

    def visible_queues(self) -> Collection[QueueRef]:
        """Queues that are on screen, whose dear numbers are wanted now."""
        return ()

    def to_read(self) -> Query[Any] | None:
        """Return what the feed shall read for this screen, besides the queues."""
        return None

    def is_read_in(self, feed_state: FeedState) -> bool:
        """Return whether a snapshot has all that this screen reads."""
        query = self.to_read()
        return query is None or feed_state.result_of == query.key

    def prepare(self, _picture: FeedState) -> Iterator[None]:
        """Prepare in steps what takes long when a new snapshot is drawn."""
        return iter(())

    def draw(self, *, fresh: bool) -> None:
        """Draw the body. `fresh`: there is a new snapshot, not only a new size or sort."""

    def why_not(self, action: str) -> str:
        """Return why an action cannot act now; empty when it can."""
        handler = self.HANDLERS.get(action)
        return handler.reason(self) if handler is not None else ""

    def verb(self, action: Action) -> str:
        """Return the verb of an action, as it would act now."""
        handler = self.HANDLERS.get(action.id)
        return (handler.label(self) if handler is not None else "") or action.verb

    def show(self, feed_state: FeedState, *, fresh: bool = True) -> None:
        """Show a snapshot. The last one stays while the server is lost, with its age."""
        kept = self._kept
        if not feed_state.is_lost:
            if (
                feed_state.result_of == self.query_key
            ):  # without the queues: each screen would keep ten thousand of its own
                seen = (feed_state.result_of, feed_state.result, feed_state.read_at, feed_state.read_ms)
                self._kept = FeedState(result_of=seen[0], result=seen[1], read_at=seen[2], read_ms=seen[3])
        elif (
            feed_state.snapshot and feed_state.result_of != self.query_key and kept and kept.result_of == self.query_key
        ):
            feed_state = replace(
                feed_state, result=kept.result, result_of=kept.result_of, read_at=kept.read_at, read_ms=kept.read_ms
            )
        self.feed_state = feed_state
        if not self.is_mounted or not self.is_built or is_ending(self.app):  # left: the rest may never be built
            return
        self.draw_frame()
        self.draw(fresh=fresh)

    @property
    def is_unread(self) -> bool:
        """Whether the server was lost before anything was read for this screen."""
        return self.feed_state.is_lost and not self.is_read_in(self.feed_state)

    def redraw(self) -> None:
        """Draw everything again from the same snapshot."""
        self.show(self.feed_state, fresh=False)

    def draw_frame(self) -> None:
        """Draw what ages by itself: bar, verdict, tabs and footer."""
        app, feed_state = self.console, self.feed_state
        painter = app.painter
        if not self.is_built:
            return  # a tick between coming and being built, or between being taken down and gone
        bar = self.query_one("#bar", Lines)
        line, ground = app.bar_line(feed_state)
        bar.show(lambda _w, _h: (line,), painter, ground)
        self.query_one("#verdict", Lines).show(lambda w, _h: (frame.verdict(feed_state, w),), painter)
        self.query_one("#tabs", Lines).show(lambda w, _h: (frame.tabs(self.all_tabs(), self.tab, w),), self.painter)
        self.query_one("#footer", Lines).show(lambda w, _h: (self._footer(w),), painter)
        words = f"needs {LEAST[0]}×{LEAST[1]}, has {self.size.width}×{self.size.height}"
        self.query_one("#tiny", Lines).show(lambda _w, _h: (((words, "text"),),), painter)

    def all_tabs(self) -> list[Tab]:
        """The screens, with counts where they are news."""
        snapshot = self.feed_state.snapshot
        news = {}
        if snapshot is not None:
            news[STUCK] = (snapshot.totals.stuck, frame.role_of(snapshot, Code.STUCK))
            late = snapshot.late_schedules or ()
            news[SCHEDULES] = (len(late), frame.role_of(snapshot, Code.SCHEDULE_LATE))
            news[DEAD] = (snapshot.totals.dead, frame.role_of(snapshot, Code.DEAD))
        return [
            Tab(id, id.capitalize(), number, *news.get(id, (0, "warn")))
            for id, number in TABS.items()
            if id in self.console.MODES
        ]

    @property
    def first(self) -> tuple[str, ...]:
        """The actions that the footer begins with, where it is not the order of the table."""
        return ()

    @property
    def only(self) -> tuple[str, ...]:
        """The only actions that the footer has now; empty for all."""
        return ()

    def is_offered(self, action: Action) -> bool:
        """Whether the footer has this action at all: going back only where there is something to go back from."""
        handler = self.HANDLERS.get(action.id)
        return action.id in self.only if self.only else handler is None or handler.offered(self)

    def note(self) -> list[Piece]:
        """The message for the footer."""
        return self.console.note()

    def _footer(self, cells: int) -> Line:
        if self.is_filter_typed:
            return frame.filter_footer(self.note(), cells)
        actions = footer_actions(("list", self.SCOPE, "app"))
        first = self.first
        if first:
            actions.sort(key=lambda action: first.index(action.id) if action.id in first else len(first))
        offers = [
            Offer(action, self.verb(action), self.why_not(action.id)) for action in actions if self.is_offered(action)
        ]
        return frame.footer(offers, self.note(), cells, hides=self.console.painter.palette is SIXTEEN)

    def on_resize(self) -> None:
        """Chooses what fits."""
        self.update_classes(_fitting(self.size))
        self.call_after_refresh(self.redraw)

    def on_screen_resume(self) -> None:
        """Let the feed read for this screen, and show the newest snapshot."""
        self.console.now_on_screen(self)

    def on_screen_suspend(self) -> None:
        """Drop the queues when another screen is shown: the list is drawn again from the newest snapshot."""
        stack = self.console.screen_stack
        if self in stack and not any(isinstance(screen, FrameScreen) for screen in stack[stack.index(self) + 1 :]):
            return  # only a dialog is over it
        self.feed_state = FeedState()
        for view in self.query(LineList):
            view.rest()
        for panel in self.query(Lines):
            panel.rest()

    def action_do(self, action: str) -> None:
        """Run an action, or show why it is disabled; none where the window is too small to show what it acts on."""
        if self.has_class("-tiny"):
            return
        why = self.why_not(action)
        if why:
            self.console.say(why, "muted", "∅")
            return
        self.HANDLERS[action].run(self)
        self.draw_frame()

    def copied(self) -> tuple[str, str]:
        """Return what `y` copies: a word for it, and its text."""
        for view in self.query(LineList):
            if view.cursor and view.row is not None:
                return "name", view.cursor
        return "", ""

    def lists(self) -> bool:
        """Return whether there are rows to write. Each frame calls it, so it gathers nothing."""
        for view in self.query(LineList):
            return any(item.key and item.row is not None for item in view.listing.items)
        return False

    def exported(self) -> list[object]:
        """Return what `w` writes: the rows of the list."""
        for view in self.query(LineList):
            return [item.row for item in view.listing.items if item.key and item.row is not None]
        return []

    def copy(self) -> None:
        """Copies what is under the cursor."""
        from qdeck_console.screens import export

        export.copy(self.console, *self.copied())

    def write(self) -> None:
        """Ask for a file name, and write the list to it."""
        from qdeck_console.screens import export

        export.ask(self.console, self.tab, self.to_export())

    def write_to(self, path: str) -> None:
        """Write what is listed to a file."""
        from qdeck_console.screens import export

        export.write(self.console, path, self.to_export())

    def to_export(self) -> Export:
        """Return what `w` writes, with how many rows it is."""
        from qdeck_console.screens import export

        return export.in_memory(self.exported())

    @property
    def is_filter_typed(self) -> bool:
        """Whether the filter has the keys: then those of lists, screens and the app do nothing."""
        return isinstance(self.focused, TextField)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return whether a key may act: while the filter is typed, only esc does."""
        if self.is_filter_typed:
            return (action, *parameters) == ("do", "back")
        return action != "at_once" or parameters[0] != "filter" or any(
            known.id == "filter" for known in of_scope(self.SCOPE)
        )  # fmt: skip

    def action_at_once(self, action: str) -> None:
        """Run an action that takes the following keys."""
        self.on_key()
        if action == "filter":
            self.action_do(action)
        else:
            self.console.action_do(action)

    def open_filter(self) -> None:
        """Open the filter. It is completed to what is listed now: a half typed value would match nothing."""
        box = self.query_one("#filter", FilterField)
        box.complete_to((self.job_of(item.row) or item.row for item in self.main_list.listing.items), self.feed_state)
        self._show_filter(box, on=True)
        self.set_focus(box)  # at once: `focus()` waits for its turn

    def _show_filter(self, box: Input, *, on: bool) -> None:
        # By style, not by class alone: a class takes effect a moment later, and what is not shown has no focus.
        box.set_class(on, "-open")
        box.display = on

    def set_filter(self, text: str) -> None:
        """Show only entries that have the text."""
        self.filter_text = text
        box = self.query_one("#filter", TextField)
        if box.value != text:
            box.value = text
        if not text:
            self._show_filter(box, on=False)
            self.wrong = None
            self._draw_wrong("")
            self.set_focus(self.main_list)
        self.filter_changed()

    def narrow(self, where: str, _place: str) -> None:
        """Show the evidence of a problem: only the jobs of its queue, in a list that has the filter language."""
        if self.LANGUAGE and where != self.filter_text:
            self.set_filter(where)
            self._show_filter(self.query_one("#filter", TextField), on=bool(where))

    def job_of(self, row: object) -> JobRecord | None:
        """Return the job that a row shows."""
        return None

    def filter_changed(self) -> None:
        """Show what matches the filter."""
        self.redraw()
        self.query_one("#list", LineList).settle()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filters while it is typed."""
        if event.input.id == "filter":
            self._take_filter(event.value)

    def _take_filter(self, text: str) -> None:
        """Set a filter. One that does not parse is marked and changes nothing: it must not match everything."""
        self.wrong = None
        if self.LANGUAGE:
            from qdeck.admin import parse

            try:
                parse(text)
            except InvalidFilter as error:
                self.wrong = error
        self._draw_wrong(text)
        if self.wrong is None:
            self.filter_text = text
            self.filter_changed()

    def _draw_wrong(self, text: str) -> None:
        wrong, panel = self.wrong, self.query_one("#wrong", Lines)
        panel.set_class(wrong is not None, "-open")
        if wrong is not None:
            panel.show(lambda w, _h: (frame.filter_error(wrong, text, w),), self.console.painter)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Keep the filter and return the focus to the list."""
        if not isinstance(event.input, FilterField):
            return
        self._take_filter(event.value)
        if self.wrong is None:
            event.input.keep()
            self._show_filter(event.input, on=bool(event.value))
            self.set_focus(self.main_list)
            self.draw_frame()

    def on_key(self) -> None:
        """Rows do not move under someone who presses keys."""
        self.console.last_key_at = time.monotonic()

    def _why_not_filter(self) -> str:
        return "" if self.query_one_optional("#list") is not None else "there is no list"

    def _why_not_copy(self) -> str:
        return "" if self.copied()[1] else "nothing under the cursor"

    def why_not_write(self) -> str:
        """Return why nothing can be exported."""
        if not self.lists():
            return "nothing to export"
        return f"{self.console.busy} in progress" if self.console.busy else ""

    def _why_not_context(self) -> str:
        return "" if self.console.contexts.configured else "no other context in qdeck.toml"

    HANDLERS: ClassVar[Mapping[str, ActionHandler[Any]]] = {
        "back": back(CANCEL, CLEAR_FILTER),
        "undo": ActionHandler(
            run=lambda screen: screen.console.operator.undo_last(),
            reason=lambda screen: screen.console.operator.why_not_undo(),
        ),
        "filter": ActionHandler(run=lambda screen: screen.open_filter(), reason=_why_not_filter),
        "copy": ActionHandler(run=copy, reason=_why_not_copy),
        "write": ActionHandler(run=write, reason=why_not_write),
        "freeze": ActionHandler(
            run=lambda screen: screen.console.toggle_freeze(),
            label=lambda screen: "resume" if screen.console.frozen_ms else "",
        ),
        "context": ActionHandler(run=lambda screen: screen.console.action_do("context"), reason=_why_not_context),
    }
    """What the actions do, by their id. A screen adds its own."""
