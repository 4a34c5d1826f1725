"""The choice of another server of the configuration, each in its colour."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final
from urllib.parse import urlsplit

from textual.binding import Binding, BindingType

from qdeck_console.format import Line, Piece, fit
from qdeck_console.presenters import frame
from qdeck_console.screens.chooser import Chooser
from qdeck_console.screens.dialog import always
from qdeck_console.text import cut_end, safe_text
from qdeck_console.widgets.lines import Lines

if TYPE_CHECKING:
    from textual.widget import Widget


_LEAST_ADDRESS: Final = 12


class ContextScreen(Chooser[str]):
    """Give the name of the context that was chosen."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q,o", "leave", "close"),
        Binding("k", "move(-1)", "up"),
        Binding("j", "move(1)", "down"),
    ]
    HINTS = (("enter", "switch"), ("esc", "close"))

    def head(self) -> Widget:
        """Return a line with the file of the contexts."""
        return Lines(id="title", ground="panel")

    def on_mount(self) -> None:
        """Show the contexts, with the one that is looked at chosen."""
        console = self.console_app
        where = cut_end(safe_text(console.contexts.where, limit=200), 56)
        title = self.query_one("#title", Lines)
        title.styles.height = 2
        title.show(always((("contexts", "strong bold"), ("  ", "text"), (where, "muted"))), console.painter)
        names, now = list(console.contexts.configured), console.contexts.target.name
        self.offer(names, index=names.index(now) if now in names else 0)

    def option_line(self, name: str, cells: int) -> Line:
        """Return the line of a context: its name, environment, address and access."""
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


def _address(url: str) -> str:
    """Return its address without its password; variables are not replaced here."""
    parts = urlsplit(url)
    if not parts.netloc:
        return "from the environment" if "$" in url else ""
    return safe_text(parts.netloc.rpartition("@")[2] + parts.path, limit=80)
