"""The dialog before anything that is many or cannot be undone: the safe answer has the focus."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import Input

from qdeck_console.format import fit, length
from qdeck_console.presenters.frame import seen_environment
from qdeck_console.screens.dialog import Dialog
from qdeck_console.text import safe_text
from qdeck_console.widgets.lines import Lines

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from textual import events
    from textual.widget import Widget

    from qdeck_console.app import ConsoleApp
    from qdeck_console.format import Line, Piece

WIDTH = 76
_INSIDE = WIDTH - 7


class ConfirmScreen(Dialog[bool]):
    """Asks. Enter alone never does it; with a `name`, that has to be typed first."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "answer(False)", "cancel"),
        Binding("tab,shift+tab,left,right,h,l", "turn", "other answer"),
        Binding("enter", "choose", "choose"),
    ]

    def __init__(
        self, console: ConsoleApp, title: str, lines: Sequence[Line], button: str, *, name: str = "", note: str = ""
    ) -> None:
        super().__init__(console)
        self._asked, self._numbers, self._answer, self._typing, self._last = title, list(lines), button, name, note
        self.on_apply = False
        self.typed = ""

    def panel(self) -> Iterable[Widget]:
        """The plan, a name to type in production, and the answers."""
        with Vertical(id="dialog"):
            yield Lines(id="asked", ground="panel")
            if self._typing:
                yield Input(id="name", compact=True)
            yield Lines(id="answers", ground="panel")

    def on_mount(self) -> None:
        """Shows the plan."""
        console = self.console_app
        context = console.context
        environment = seen_environment(console.shown.snapshot, context.environment)
        badge: list[Piece] = []
        if environment:
            word = "PRODUCTION" if environment in {"prod", "production"} else environment.upper()
            kind = "live_badge" if word == "PRODUCTION" else "badge"
            badge = [("  in  ", "muted"), (f" {safe_text(word, limit=24)} ", f"{kind}_text bold on-{kind}")]
        head: Line = ((self._asked, "strong bold"), *badge, ("  ", "text"), (safe_text(context.title), "strong bold"))
        asked: list[Line] = [head, (), *self._numbers, ()]
        if self._typing:
            asked.append(
                (("Type ", "muted"), (safe_text(self._typing), "strong bold"), (" to open the answer", "muted"))
            )
        panel = self.query_one("#asked", Lines)
        panel.styles.height = len(asked)
        panel.show(lambda w, _h: [tuple(fit(line, w)) if length(line) > w else line for line in asked], console.painter)
        self.query_one("#dialog").set_class(word_is_production(environment), "-prod")
        self.query_one("#answers", Lines).styles.height = 3 if self._last else 2
        self._draw()
        if self._typing:
            self.query_one("#name", Input).focus()

    @property
    def is_open(self) -> bool:
        """Whether the answer that acts may be chosen."""
        return not self._typing or self.typed == self._typing

    def _pieces(self) -> list[Piece]:
        cancel = "strong bold on-cursor" if not self.on_apply else "text on-raised"
        apply = ("strong bold on-bad_dim" if self.on_apply else "text on-raised") if self.is_open else "faint on-raised"
        pieces: list[Piece] = [("  Cancel  ", cancel), ("   ", "text"), (f"  {self._answer}  ", apply)]
        if not self.is_open:
            pieces.append(("   needs the name", "muted"))
        return pieces

    def _draw(self) -> None:
        pieces = self._pieces()
        hint: Line = (
            ("tab ", "accent bold"),
            ("other answer  ", "muted"),
            ("esc ", "accent bold"),
            ("cancel", "muted"),
        )
        last: Line = ((safe_text(self._last, limit=_INSIDE), "muted"),) if self._last else hint
        self.query_one("#answers", Lines).show(
            lambda _w, h: (tuple(pieces), *([()] * (h - 2)), last), self.console_app.painter
        )

    def on_input_changed(self, event: Input.Changed) -> None:
        """Opens the answer when the name is right."""
        self.typed = event.value
        self.on_apply = False
        self._draw()

    def on_input_submitted(self) -> None:
        """The right name moves the focus to the answer; a second enter gives it."""
        if self.is_open:
            self.set_focus(None)
            self.on_apply = True
            self._draw()

    def action_turn(self) -> None:
        """Chooses the other answer."""
        if self.is_open:
            self.set_focus(None)
            self.on_apply = not self.on_apply
            self._draw()

    def action_choose(self) -> None:
        """Gives the answer that has the focus."""
        _ = self.dismiss(self.on_apply and self.is_open)

    def action_answer(self, yes: bool) -> None:
        """Gives an answer."""
        _ = self.dismiss(yes)

    def on_click(self, event: events.Click) -> None:
        """A click on an answer gives it."""
        panel = self.query_one("#answers", Lines)
        if event.widget is not panel or event.y != 0:
            return
        pieces = self._pieces()
        first, gap = length(pieces[:1]), length(pieces[:2])
        if event.x < first:
            _ = self.dismiss(False)  # the screen goes by itself; a handler of its own must not wait for it
        elif gap <= event.x < length(pieces[:3]) and self.is_open:
            _ = self.dismiss(True)


def word_is_production(environment: str) -> bool:
    """Whether a mistake there is a real one."""
    return environment in {"prod", "production"}
