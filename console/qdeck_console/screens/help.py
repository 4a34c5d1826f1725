"""All keys of the screen that asked, from the table of actions, each with the reason when it cannot act."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.screen import ModalScreen

from qdeck_console.actions import Action, of_scope
from qdeck_console.format import Line, fit
from qdeck_console.text import cut_end
from qdeck_console.widgets.lines import Lines

if TYPE_CHECKING:
    from textual.app import ComposeResult

    from qdeck_console.screens.frame import FrameScreen


class HelpScreen(ModalScreen[None]):
    """The keys that work on the screen below."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,question_mark,enter", "dismiss", "close")]

    def __init__(self, below: FrameScreen) -> None:
        super().__init__()
        self._below = below

    def compose(self) -> ComposeResult:
        """The bar again at full strength, because dimming must not dim where we are, and the panel."""
        yield Lines(id="mbar", ground="bar")
        yield Lines(id="help", ground="panel")

    def on_mount(self) -> None:
        """Shows the keys."""
        painter = self._below.console.painter
        lines = self._lines(blanks=self._below.is_tall)
        panel = self.query_one("#help", Lines)
        panel.styles.height = len(lines) + 2
        panel.show(lambda _w, _h: lines, painter)
        under = self._below.query_one("#bar", Lines)
        self.query_one("#mbar", Lines).show(under.make, painter, under.ground)

    def _lines(self, *, blanks: bool) -> list[Line]:
        below = self._below
        lines: list[Line] = [
            (("keys", "strong bold"), ("  esc closes", "muted")),
            *([()] * blanks),
        ]
        groups: list[tuple[str, list[Action]]] = [
            ("move", of_scope("list")),
            ("here", of_scope(below.SCOPE)),
            ("everywhere", of_scope("app")),
        ]
        for head, actions in groups:
            lines.append(((head, "muted bold"),))
            for action in actions:
                why = below.why_not(action.id)
                keys = fit([(action.key_names, "faint" if why else "accent bold")], 16)
                words = f"{action.help}  ∅ {why}" if why else action.help
                lines.append((*keys, (cut_end(words, 52), "faint" if why else "text")))
            lines += [()] * blanks
        tabs = "  ".join(f"{tab.number} {tab.name}" for tab in below.all_tabs())
        lines.append((("screens         ", "muted"), (tabs, "text")))
        return lines
