"""A dialog with fields: what an action has to be told before it can be planned."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.suggester import SuggestFromList

from qdeck_console.presenters.frame import seen_environment
from qdeck_console.screens.confirm import word_is_production
from qdeck_console.screens.dialog import Dialog
from qdeck_console.text import safe_text
from qdeck_console.widgets.entry import Entry
from qdeck_console.widgets.lines import Lines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from textual.widget import Widget
    from textual.widgets import Input

    from qdeck_console.format import Line
    from qdeck_console.session import Session

_INSIDE = 69


def always(*lines: Line) -> Callable[[int, int], Sequence[Line]]:
    """Lines that are the same in every size."""
    return lambda _w, _h: lines


def _right(_value: str) -> str:
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One thing to fill in. `check` says what is wrong with a value; empty when nothing is."""

    label: str
    value: str = ""
    hint: str = ""
    check: Callable[[str], str] = _right
    choices: Sequence[str] = ()


class FormScreen(Dialog[tuple[str, ...] | None]):
    """Asks for some values. It only asks: what is done with them is planned and asked for afterwards."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "cancel", "cancel", priority=True),
        # Before the field gets the keys: what is typed right after it is meant for the next one.
        Binding("tab,down", "app.focus_next", "next", priority=True),
        Binding("shift+tab,up", "app.focus_previous", "previous", priority=True),
    ]

    def __init__(self, console: Session, title: str, fields: Sequence[Field], *, about: Sequence[Line] = ()) -> None:
        super().__init__(console)
        self._title, self._fields, self._about = title, list(fields), list(about)

    def panel(self) -> Iterable[Widget]:
        """The fields with what each is."""
        with Vertical(id="dialog"):
            yield Lines(id="asked", ground="panel")
            for number, field in enumerate(self._fields):
                yield Lines(id=f"label{number}", ground="panel")
                suggester = SuggestFromList(field.choices, case_sensitive=True) if field.choices else None
                yield Entry(field.value, id=f"field{number}", suggester=suggester, classes="wide")
            yield Lines(id="answers", ground="panel")

    def on_mount(self) -> None:
        """Shows what is asked."""
        console = self.console_app
        asked: list[Line] = [((self._title, "strong bold"),), *([()] if self._about else []), *self._about]
        panel = self.query_one("#asked", Lines)
        panel.styles.height = len(asked)
        panel.show(lambda _w, _h: asked, console.painter)
        environment = seen_environment(console.shown.snapshot, console.context.environment)
        self.query_one("#dialog").set_class(word_is_production(environment), "-prod")
        for number in range(len(self._fields)):
            self.query_one(f"#label{number}", Lines).styles.margin = (1, 0, 0, 0)
        self.query_one("#answers", Lines).styles.height = 2
        self._draw()
        first = self.query_one("#field0", Entry)
        first.focus()
        first.cursor_position = len(first.value)

    @property
    def values(self) -> tuple[str, ...]:
        """What is filled in."""
        return tuple(self.query_one(f"#field{number}", Entry).value.strip() for number in range(len(self._fields)))

    def _wrong(self) -> str:
        told = (field.check(value) for field, value in zip(self._fields, self.values, strict=True))
        return next((why for why in told if why), "")

    def _draw(self) -> None:
        painter = self.console_app.painter
        for number, (field, value) in enumerate(zip(self._fields, self.values, strict=True)):
            why = field.check(value)
            words, role = (why, "warn") if why else (field.hint, "muted")
            line: Line = ((f"{field.label}  ", "text"), (safe_text(words, limit=_INSIDE), role))
            self.query_one(f"#label{number}", Lines).show(always(line), painter)
        ready = not self._wrong()
        hint: Line = (
            ("enter ", "accent bold" if ready else "faint"),
            ("goes on   " if ready else "needs what is asked for   ", "muted" if ready else "faint"),
            ("esc ", "accent bold"),
            ("cancel", "muted"),
        )
        self.query_one("#answers", Lines).show(lambda _w, _h: ((), hint), painter)

    def on_input_changed(self, _event: Input.Changed) -> None:
        """Tells what is wrong while it is typed."""
        self._draw()

    def on_input_submitted(self, _event: Input.Submitted) -> None:
        """Goes on with what is filled in, when all of it is right."""
        if not self._wrong():
            _ = self.dismiss(self.values)

    def action_cancel(self) -> None:
        """Leaves it."""
        _ = self.dismiss(None)
