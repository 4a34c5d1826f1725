"""The list of servers of the configuration, each in its colour; enter looks at another one."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final
from urllib.parse import urlsplit

from textual.binding import Binding, BindingType
from textual.containers import Vertical

from qdeck_console.format import Line, Piece, fit
from qdeck_console.presenters import frame
from qdeck_console.screens.dialog import Dialog
from qdeck_console.text import cut_end, safe_text
from qdeck_console.widgets.choices import Choices
from qdeck_console.widgets.lines import Lines

if TYPE_CHECKING:
    from collections.abc import Iterable

    from textual.widget import Widget

    from qdeck_console.session import Session

_LEAST_ADDRESS: Final = 12


class ContextScreen(Dialog[str | None]):
    """Gives the name of the context that was chosen."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,o", "leave", "close"),
        Binding("up,k", "move(-1)", "up"),
        Binding("down,j", "move(1)", "down"),
        Binding("enter", "choose", "choose"),
    ]

    def __init__(self, console: Session) -> None:
        super().__init__(console)
        self._names = list(console.contexts.configured)

    def panel(self) -> Iterable[Widget]:
        """The list with its head."""
        with Vertical(id="palette"):
            yield Lines(id="title", ground="panel")
            yield Choices(id="choices")
            yield Lines(id="about", ground="panel")

    def on_mount(self) -> None:
        """Shows the contexts, with the one that is looked at chosen."""
        console = self.console_app
        where = cut_end(safe_text(console.contexts.where, limit=200), 56)
        head: Line = (("contexts", "strong bold"), ("  ", "text"), (where, "muted"))
        title = self.query_one("#title", Lines)
        title.styles.height = 2
        title.show(lambda _w, _h: (head,), console.painter)
        hint: Line = (
            ("enter", "accent bold"), (" look at it  ", "muted"), ("esc", "accent bold"), (" close", "muted")
        )  # fmt: skip
        self.query_one("#about", Lines).show(lambda _w, h: ((), hint) if h > 1 else (hint,), console.painter)
        choices = self.query_one("#choices", Choices)
        choices.styles.height = max(1, min(len(self._names), self.size.height - 8))
        now = console.contexts.target.name
        index = self._names.index(now) if now in self._names else 0
        choices.offer(len(self._names), self._line, console.painter, index=index)

    def _line(self, index: int, cells: int) -> Line:
        name = self._names[index]
        context = self.console_app.contexts.configured[name]
        environment = context.environment.lower()
        hue = frame.hue(
            frame.ShownContext(title=name, server="", read_only=True, colour=context.colour or ""),
            production=environment in {"prod", "production"},
        )
        word = "PRODUCTION" if hue.production else (environment.upper() or "–")
        badge: list[Piece] = [(f" {safe_text(word, limit=14)} ", f"{hue.badge_text} bold on-{hue.badge}")]
        if hue.ground.startswith("#"):
            badge = [(f" {safe_text(word, limit=14)} ", f"{hue.text} bold on-{hue.ground}")]
        here = self.console_app.contexts.target.name == name
        access = "read-only" if context.read_only else "opens read-only" if hue.production else ""
        room = cells - 47  # for the address: without any it goes, never what the context allows
        address = [*fit([(_address(context.url), "muted")], room), (" ", "text")] if room >= _LEAST_ADDRESS else []
        return (
            *fit([(safe_text(name, limit=60), "strong bold" if here else "text")], 16), (" ", "text"),
            *fit(badge, 13), (" ", "text"),
            *address,
            *fit([("here" if here else access, "accent" if here else "faint")], 15, right=True),
        )  # fmt: skip

    def action_move(self, by: int) -> None:
        """Chooses another one."""
        self.query_one("#choices", Choices).move(by)

    def action_choose(self) -> None:
        """Looks at the chosen one."""
        index = self.query_one("#choices", Choices).index
        _ = self.dismiss(self._names[index] if index < len(self._names) else None)

    def on_choices_chosen(self) -> None:
        """A click looks at it."""
        self.action_choose()

    def action_leave(self) -> None:
        """Stays where we are."""
        _ = self.dismiss(None)


def _address(url: str) -> str:
    """Where it is, without its password; what is still a variable is not filled in here."""
    parts = urlsplit(url)
    if not parts.netloc:
        return "from a variable" if "$" in url else ""
    return safe_text(parts.netloc.rpartition("@")[2] + parts.path, limit=80)
