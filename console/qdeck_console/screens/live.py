"""Opening production for writing: its name has to be typed, and a reason, and both go into the log of operations."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical

from qdeck_console.format import Line, Piece, clock, fit, length
from qdeck_console.presenters.confirm import buttons, to_go
from qdeck_console.screens.dialog import Dialog
from qdeck_console.text import cut_end, safe_text
from qdeck_console.widgets.entry import Entry
from qdeck_console.widgets.lines import Lines

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from textual import events
    from textual.widget import Widget
    from textual.widgets import Input

    from qdeck.admin import Activity
    from qdeck_console.session import Session

_INSIDE = 69
_BUTTON = "Write for 30 minutes"


class LiveScreen(Dialog[str | None]):
    """Gives the reason that was typed; None when it was thought better of."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "cancel"),
        Binding("enter", "choose", "choose"),
        Binding("left,right", "turn", "other answer"),
        # Before the field gets the keys: what is typed right after it is meant for the next one.
        Binding("tab", "app.focus_next", "next", priority=True),
        Binding("shift+tab", "app.focus_previous", "previous", priority=True),
    ]

    def __init__(self, console: Session, others: Sequence[Activity] = ()) -> None:
        super().__init__(console)
        self._wanted, self._others = console.context.title, others
        self.on_apply = False

    def panel(self) -> Iterable[Widget]:
        """What it means, two fields, and the answers."""
        with Vertical(id="dialog", classes="-prod"):
            yield Lines(id="asked", ground="panel")
            with Horizontal(id="field"):
                yield Entry(id="name", placeholder="its name")
                yield Lines(id="togo", ground="panel")
            yield Entry(id="reason", placeholder="why: a ticket, or a few words", classes="wide")
            yield Lines(id="answers", ground="panel")

    def on_mount(self) -> None:
        """Shows what it means."""
        rows = [
            ("for", "30 min", "then it is read-only again, by itself"),
            ("asks", "", "many, and what has no undo, want the name"),
            ("told", "", "name and reason go into the log (9 Activity)"),
        ]
        if self._others:
            last = self._others[-1]
            words = f"{last.who}@{last.host} since {clock(last.at_ms)}: {last.reason}"
            rows.append(("also", f"{len(self._others):,} live", words))
        lines: list[Line] = [
            (("Write in ", "strong bold"), (" PRODUCTION ", "prod_badge_text bold on-prod_badge"), ("  ", "text"),
             (safe_text(self._wanted), "strong bold")),
            (),
            *(_row(*row) for row in rows),
            (),
            (("Type ", "text"), (safe_text(self._wanted), "strong bold"), (" and why", "text")),
        ]  # fmt: skip
        asked = self.query_one("#asked", Lines)
        asked.styles.height = len(lines)
        asked.show(lambda _w, _h: lines, self.console_app.painter)
        self.query_one("#answers", Lines).styles.height = 4
        self.query_one("#name", Entry).focus()
        self._draw()

    def _value(self, which: str) -> str:
        return self.query_one(which, Entry).value.strip()

    @property
    def why_not(self) -> str:
        """Why it cannot be opened yet."""
        if self._value("#name") != self._wanted:
            return "needs the name"
        return "" if self._value("#reason") else "needs a reason"

    def _pieces(self) -> list[Piece]:
        why = self.why_not
        return buttons(_BUTTON, on_act=self.on_apply, why_not=why, flat=self.is_flat)

    def _draw(self) -> None:
        pieces, painter = tuple(self._pieces()), self.console_app.painter
        keys = ("tab", "next  ") if self.why_not else ("enter", "give this answer  ")
        hint: Line = ((f"{keys[0]} ", "accent bold"), (keys[1], "muted"), ("esc ", "accent bold"), ("cancel", "muted"))
        self.query_one("#answers", Lines).show(lambda _w, _h: ((), pieces, (), hint), painter)
        told = to_go(self._value("#name"), self._wanted)
        self.query_one("#togo", Lines).show(lambda _w, _h: ((("   ", "text"), told),), painter)

    def on_input_changed(self) -> None:
        """The answer opens when both are there."""
        self.on_apply = False
        self._draw()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """The right name leads to the reason, the reason to the answer; a second enter gives it."""
        if event.input.id == "name" and self._value("#name") == self._wanted:
            self.query_one("#reason", Entry).focus()
        elif event.input.id == "reason" and not self.why_not:
            self._to_answers(apply=True)

    def _to_answers(self, *, apply: bool) -> None:
        self.set_focus(None)
        self.on_apply = apply
        self._draw()

    def action_turn(self) -> None:
        """Chooses the other answer."""
        if not self.why_not:
            self._to_answers(apply=not self.on_apply)

    def action_choose(self) -> None:
        """Gives the answer that has the focus."""
        _ = self.dismiss(self._value("#reason") if self.on_apply and not self.why_not else None)

    def action_leave(self) -> None:
        """Leaves it read-only."""
        _ = self.dismiss(None)

    def on_click(self, event: events.Click) -> None:
        """A click on an answer gives it."""
        if event.widget is not self.query_one("#answers", Lines) or event.y != 1:
            return
        pieces = self._pieces()
        if event.x < length(pieces[:1]):
            _ = self.dismiss(None)
        elif length(pieces[:2]) <= event.x < length(pieces[:3]) and not self.why_not:
            _ = self.dismiss(self._value("#reason"))


def _row(label: str, number: str, words: str) -> Line:
    head = [*fit([(label, "muted")], 12), *fit([(number, "strong bold")], 8)]
    return (*head, ("   ", "text"), (cut_end(safe_text(words, limit=300), _INSIDE - 23), "text"))
