"""The dialog before anything that is many or cannot be undone: the safe answer has the focus."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical

from qdeck_console.format import fit, length
from qdeck_console.presenters.confirm import buttons, safe_answer, to_go
from qdeck_console.presenters.frame import seen_environment
from qdeck_console.screens.dialog import Dialog, inside
from qdeck_console.text import cut_end, safe_text
from qdeck_console.widgets.entry import Entry
from qdeck_console.widgets.lines import Lines

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from textual import events
    from textual.widget import Widget
    from textual.widgets import Input

    from qdeck_console.format import Line, Piece
    from qdeck_console.session import Session

_ROOMY = 30  # lines from which on there is room for blank ones


class ConfirmScreen(Dialog[bool]):
    """Asks. Enter alone never does it; with a `name`, that has to be typed first."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "answer(False)", "cancel"),
        Binding("tab,shift+tab,left,right,h,l", "turn", "other answer"),
        Binding("enter", "choose", "choose"),
    ]

    def __init__(
        self, console: Session, title: str, lines: Sequence[Line], button: str, *, name: str = "", note: str = ""
    ) -> None:
        super().__init__(console)
        self._asked, self._numbers, self._answer, self._typing, self._last = title, list(lines), button, name, note
        self.on_apply = False
        self.typed = ""
        self._roomy = True

    def panel(self) -> Iterable[Widget]:
        """The plan, a name to type in production, and the answers."""
        with Vertical(id="dialog"):
            yield Lines(id="asked", ground="panel")
            if self._typing:
                with Horizontal(id="field"):
                    yield Entry(id="name")
                    yield Lines(id="togo", ground="panel")
            yield Lines(id="answers", ground="panel")

    def on_mount(self) -> None:
        """Shows the plan."""
        console = self.console_app
        context = console.context
        environment = seen_environment(console.shown.snapshot, context.environment)
        badge: list[Piece] = []
        if environment:
            word = "PRODUCTION" if environment in {"prod", "production"} else environment.upper()
            kind = "prod_badge" if word == "PRODUCTION" else "badge"
            badge = [("  in  ", "muted"), (f" {safe_text(word, limit=24)} ", f"{kind}_text bold on-{kind}")]
        head: Line = ((self._asked, "strong bold"), *badge, ("  ", "text"), (safe_text(context.title), "strong bold"))
        asked: list[Line] = [head, (), *self._numbers, ()]
        if self._typing:
            word = self._answer.split(" ")[0]
            types: Line = (
                ("Type ", "text"), (safe_text(self._typing), "strong bold"), (f" to open {word}", "text")
            )  # fmt: skip
            asked.append(types)
        self._roomy = len(asked) + 3 * bool(self._typing) + 4 + 2 * self.is_flat < self.app.size.height
        if not self._roomy:
            asked = self._squeezed(asked)
        panel = self.query_one("#asked", Lines)
        panel.styles.height = len(asked)
        panel.show(lambda w, _h: [tuple(fit(line, w)) if length(line) > w else line for line in asked], console.painter)
        self.query_one("#dialog").set_class(word_is_production(environment), "-prod")
        self._draw()
        if self._typing:
            self.query_one("#name", Entry).focus()

    def _squeezed(self, asked: list[Line]) -> list[Line]:
        """Without blank lines, and with no more numbers than let the answers be seen."""
        self.query_one("#dialog").styles.padding = (0, 3)
        for field in self.query("#field"):
            field.styles.margin = 0
        kept = [line for line in asked if line]
        room = self.app.size.height - 3 - bool(self._typing) - 2 * self.is_flat
        lost = len(kept) - room
        if lost > 0:
            tail = 1 + bool(self._typing)  # what undo can do, and what to type
            told: Line = ((f"{lost + 1} more lines in a higher window", "warn"),)
            kept = [*kept[: room - tail - 1], told, *kept[-tail:]]
        return kept

    @property
    def is_open(self) -> bool:
        """Whether the answer that acts may be chosen."""
        return not self._typing or self.typed == self._typing

    def _pieces(self) -> list[Piece]:
        why = "" if self.is_open else "needs the name"
        return buttons(self._answer, on_act=self.on_apply, why_not=why, flat=self.is_flat)

    def _draw(self) -> None:
        painter = self.console_app.painter
        keys = ("enter", "tab", "esc") if self.is_open else ("esc",)
        words = {"enter": "give this answer", "tab": "other answer", "esc": safe_answer(self._answer).lower()}
        hint = tuple(piece for key in keys for piece in ((f"{key} ", "accent bold"), (f"{words[key]}  ", "muted")))
        lines: list[Line] = [tuple(self._pieces()), hint]
        if self.app.size.height >= _ROOMY:
            lines.insert(1, ())
            if self._last:
                cells = inside(self.app.size.width)
                lines += [(("─" * cells, "line"),), ((cut_end(safe_text(self._last, limit=300), cells), "muted"),)]
        panel = self.query_one("#answers", Lines)
        panel.styles.height = len(lines)
        panel.show(lambda _w, _h: lines, painter)
        if self._typing:
            told = to_go(self.typed, self._typing) if not self.on_apply else ("", "muted")
            self.query_one("#togo", Lines).show(lambda _w, _h: ((("   ", "text"), told),), painter)

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
