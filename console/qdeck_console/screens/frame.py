"""What every screen has: bar, verdict, tabs, body, filter and footer, and how pictures and actions reach them."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, cast

from textual.containers import Horizontal
from textual.screen import Screen
from textual.widgets import Input

from qdeck_console.actions import DEAD, QUEUES, STUCK, Action, footer_actions
from qdeck_console.feed import Picture, Reader
from qdeck_console.presenters import frame
from qdeck_console.presenters.frame import Offer, Tab
from qdeck_console.widgets.lines import LineList, Lines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.app import ComposeResult
    from textual.binding import BindingType
    from textual.widget import Widget

    from qdeck_console.app import ConsoleApp
    from qdeck_console.format import Line
    from qdeck_console.theme import Painter

TALL: int = 30
WIDE: int = 140
LEAST: tuple[int, int] = (60, 16)


class FrameScreen(Screen[None]):
    """A screen with the frame around its body. Subclasses say what is in the body and draw it."""

    TAB: ClassVar[str] = QUEUES
    SCOPE: ClassVar[str] = QUEUES
    BINDINGS: ClassVar[list[BindingType]] = []
    AUTO_FOCUS = "LineList"
    ESCAPE_TO_MINIMIZE = False

    def __init__(self) -> None:
        super().__init__()
        self.picture = Picture()
        self.filter_text = ""

    @property
    def console(self) -> ConsoleApp:
        """The app, as what it is."""
        return cast("ConsoleApp", self.app)

    @property
    def painter(self) -> Painter:
        """The painter for the body: it steps back when the server is lost."""
        return replace(self.console.painter, stale=self.picture.is_lost)

    @property
    def is_tall(self) -> bool:
        """Whether there is room for blank lines."""
        return self.size.height >= TALL

    def compose(self) -> ComposeResult:
        """The frame, with the body of the subclass in it."""
        yield Lines(id="bar", ground="bar")
        yield Lines(id="verdict", ground="panel")
        yield Lines(id="tabs")
        with Horizontal(id="body"):
            yield from self.body()
        yield Input(id="filter", placeholder="text in the name; esc clears, enter keeps", compact=True)
        yield Lines(id="footer", ground="panel")
        yield Lines(id="tiny")

    def body(self) -> Sequence[Widget]:
        """The widgets of the body."""
        return ()

    @property
    def tab(self) -> str:
        """The tab that is active while this screen is seen."""
        return self.TAB

    @property
    def reads(self) -> str:
        """The name of what the feed reads for this screen."""
        return self.TAB

    def wants(self) -> Reader | None:
        """What the feed shall read for this screen, besides the queues."""
        return None

    def draw(self, *, fresh: bool) -> None:
        """Draws the body. `fresh`: a new picture came, not only a new size or sort."""

    def why_not(self, action: str) -> str:
        """Why an action cannot act now; empty when it can."""
        if action == "back" and not self.filter_text:
            return "nothing to go back from"
        return ""

    def verb(self, action: Action) -> str:
        """The verb of an action, as it would act now."""
        if action.id == "freeze":
            return "go on" if self.console.frozen_ms else "freeze"
        return action.verb

    def show(self, picture: Picture, *, fresh: bool = True) -> None:
        """Shows a picture."""
        self.picture = picture
        if not self.is_mounted:
            return
        self.draw_frame()
        self.draw(fresh=fresh)

    def redraw(self) -> None:
        """Draws everything again from the same picture."""
        self.show(self.picture, fresh=False)

    def draw_frame(self) -> None:
        """Draws what ages by itself: bar, verdict, tabs and footer."""
        app, picture = self.console, self.picture
        painter = app.painter
        bar = self.query_one("#bar", Lines)
        line, ground = frame.bar(app.context, picture, app.frozen_ms, self.size.width)
        bar.show(lambda _w, _h: (line,), painter, ground)
        self.query_one("#verdict", Lines).show(lambda w, _h: (frame.verdict(picture, w),), painter)
        self.query_one("#tabs", Lines).show(lambda w, _h: (frame.tabs(self.all_tabs(), self.tab, w),), self.painter)
        self.query_one("#footer", Lines).show(lambda w, _h: (self._footer(w),), painter)
        words = f"needs {LEAST[0]}×{LEAST[1]}, has {self.size.width}×{self.size.height}"
        self.query_one("#tiny", Lines).show(lambda _w, _h: (((words, "text"),),), painter)

    def all_tabs(self) -> list[Tab]:
        """The screens, with counts where they are news."""
        totals = self.picture.snapshot.totals if self.picture.snapshot else None
        return [
            Tab(QUEUES, "Queues"),
            Tab(STUCK, "Stuck", totals.stuck if totals else 0, "warn"),
            Tab(DEAD, "Dead", totals.dead if totals else 0, "bad"),
        ]

    def is_offered(self, action: Action) -> bool:
        """Whether the footer has this action at all: going back only where there is something to go back from."""
        return action.id != "back" or not self.why_not("back")

    def _footer(self, cells: int) -> Line:
        offers = [
            Offer(action, self.verb(action), self.why_not(action.id))
            for action in footer_actions(("list", self.SCOPE, "app"))
            if self.is_offered(action)
        ]
        return frame.footer(offers, self.console.note(), cells)

    def on_resize(self) -> None:
        """Chooses what fits."""
        width, height = self.size
        self.set_class(width >= WIDE, "-wide")
        self.set_class(height >= TALL, "-tall")
        self.set_class(width < LEAST[0] or height < LEAST[1], "-tiny")
        self.call_after_refresh(self.redraw)

    def on_screen_resume(self) -> None:
        """Tells the feed what is on screen now, and shows what there is."""
        self.console.now_on_screen(self)

    def action_do(self, action: str) -> None:
        """Does an action, or says why not."""
        why = self.why_not(action)
        if why:
            self.console.say(why, "muted", "∅")
            return
        getattr(self, f"do_{action}")()
        self.draw_frame()

    def do_freeze(self) -> None:
        """Freezes the picture, or lets it go on."""
        self.console.toggle_freeze()

    def do_filter(self) -> None:
        """Opens the filter."""
        box = self.query_one("#filter", Input)
        box.add_class("-open")
        box.focus()

    def do_back(self) -> None:
        """Clears the filter."""
        self.set_filter("")

    def set_filter(self, text: str) -> None:
        """Shows only entries that have the text."""
        self.filter_text = text
        box = self.query_one("#filter", Input)
        if box.value != text:
            box.value = text
        if not text:
            box.remove_class("-open")
            self.query_one(LineList).focus()
        self._refilter()

    def _refilter(self) -> None:
        self.redraw()
        self.query_one(LineList).settle()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filters while it is typed."""
        self.filter_text = event.value
        self._refilter()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Keeps the filter and gives the keys back to the list."""
        self.filter_text = event.value
        event.input.set_class(bool(event.value), "-open")
        self.query_one(LineList).focus()
        self._refilter()

    def on_key(self) -> None:
        """Rows do not move under someone who presses keys."""
        self.console.last_key_at = time.monotonic()
