"""The dialog that asks: for values, for a name that has to be typed, or only whether to go on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.suggester import SuggestFromList

from qdeck_console.format import fit, length
from qdeck_console.presenters.confirm import buttons, live_lines, safe_answer, to_go
from qdeck_console.presenters.frame import is_production, seen_environment
from qdeck_console.screens.dialog import Dialog, always, inside, key_hints
from qdeck_console.text import cut_end, safe_text, wrap
from qdeck_console.widgets.lines import Lines
from qdeck_console.widgets.text_field import TextField

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from textual import events
    from textual.widget import Widget
    from textual.widgets import Input

    from qdeck.admin import Activity
    from qdeck_console.format import Line, Piece
    from qdeck_console.session import Session

_INSIDE: Final = 69
_ROOMY: Final = 30  # lines of a screen from which on there is room for blank ones


def _right(_value: str) -> str:
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptField:
    """One thing to fill in. `check` says what is wrong with a value; empty when nothing is. With `exact`, that text has
    to be typed.
    """

    label: str = ""
    value: str = ""
    hint: str = ""
    check: Callable[[str], str] = _right
    choices: Sequence[str] = ()
    exact: str = ""

    def wrong(self, value: str) -> str:
        """Return what is wrong with a value."""
        return self.check(value) if not self.exact else "" if value == self.exact else "type the name"

    @property
    def rows(self) -> int:
        """How many lines it takes in the dialog."""
        return 3 if self.label or self.exact else 1


class Prompt(Dialog[tuple[str, ...] | None]):
    """Give the values of the fields, none where it was cancelled.

    With `act`, the button that goes on, two buttons have the last word: the safe one is chosen first, and enter alone
    never acts; `takes_y`: y does. Without, enter in a field goes on when all are right.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        # Before a field gets the keys: what is typed right after it is meant for the next one.
        Binding("escape", "cancel", "cancel", priority=True),
        Binding("tab", "tab(1)", "next", priority=True),
        Binding("shift+tab", "tab(-1)", "previous", priority=True),
        Binding("down", "step(1)", "next", priority=True),
        Binding("up", "step(-1)", "previous", priority=True),
        Binding("left,right,h,l", "turn", "switch button"),
        Binding("enter", "choose", "choose"),
        Binding("q", "cancel", "cancel"),
        Binding("y", "yes", "yes"),
    ]

    def __init__(
        self,
        console: Session,
        title: str | Line,
        about: Sequence[Line] = (),
        fields: Sequence[PromptField] = (),
        *,
        ask: Line = (),
        act: str = "",
        go: str = "continue",
        note: str = "",
        takes_y: bool = False,
    ) -> None:
        super().__init__(console)
        head: Line = ((title, "strong bold"),) if isinstance(title, str) else title
        self._asked: list[Line] = [head, *([(), *about] if about else [])]
        if act or any(not field.label for field in fields):
            self._asked.append(())
        self._asked += [ask] if ask else []
        self._fields, self._act, self._go, self._note = list(fields), act, go, note
        self._takes_y = takes_y and not self._fields
        self.on_act = False
        """Whether the button that acts is chosen."""

    def panel(self) -> Iterable[Widget]:
        """Return what it is about, the fields, and the answers."""
        with Vertical(id="dialog"):
            yield Lines(id="asked", ground="panel")
            for number, field in enumerate(self._fields):
                suggester = SuggestFromList(field.choices, case_sensitive=True) if field.choices else None
                placeholder = "" if field.label else field.hint
                entry = TextField(field.value, id=f"field{number}", placeholder=placeholder, suggester=suggester)
                if field.exact:
                    with Horizontal(classes="exact"):
                        yield entry
                        yield Lines(id="togo", ground="panel")
                    continue
                if field.label:
                    yield Lines(id=f"label{number}", ground="panel")
                entry.add_class("wide")
                yield entry
            yield Lines(id="answers", ground="panel")

    def on_mount(self) -> None:
        """Show it, with the first field to be filled in."""
        console, height = self.console_app, self.app.size.height
        edges = 1 + 2 * self.is_flat  # the bar, and the frame where there is one
        asked = self._asked
        if len(asked) + sum(field.rows for field in self._fields) + edges + 4 > height:
            asked = self._squeezed(height - edges - 2)
        panel = self.query_one("#asked", Lines)
        panel.styles.height = len(asked)
        panel.show(lambda w, _h: [tuple(fit(line, w)) if length(line) > w else line for line in asked], console.painter)
        environment = seen_environment(console.shown.snapshot, console.context.environment)
        self.query_one("#dialog").set_class(is_production(environment), "-prod")
        for number, field in enumerate(self._fields):
            if field.label:
                self.query_one(f"#label{number}", Lines).styles.margin = (1, 0, 0, 0)
        self._draw()
        if self._fields:
            first = self._entry(0)
            first.focus()
            if self._fields[0].label:  # what is offered for a name alone is replaced by what is typed
                first.cursor_position = len(first.value)

    def _squeezed(self, room: int) -> list[Line]:
        """Return what is asked without blank lines, and with no more numbers than let the answers be seen."""
        self.query_one("#dialog").styles.padding = (0, 3)
        for exact in self.query(".exact"):
            exact.styles.margin = 0
        room -= sum(field.rows if field.label else 1 for field in self._fields)
        kept = [line for line in self._asked if line]
        lost = len(kept) - room
        if lost > 0:
            tail = 1 + bool(self._fields)  # what undo can do, and what to type
            told: Line = ((f"{lost + 1} more lines: enlarge the window", "warn"),)
            kept = [*kept[: room - tail - 1], told, *kept[-tail:]]
        return kept

    def _entry(self, number: int) -> TextField:
        return self.query_one(f"#field{number}", TextField)

    @property
    def values(self) -> tuple[str, ...]:
        """What is filled in."""
        return tuple(self._entry(number).value.strip() for number in range(len(self._fields)))

    @property
    def wrong(self) -> str:
        """What is wrong with the first field that is; empty when it can go on."""
        told = (field.wrong(value) for field, value in zip(self._fields, self.values, strict=True))
        return next(filter(None, told), "")

    def _draw(self) -> None:
        painter = self.console_app.painter
        for number, (field, value) in enumerate(zip(self._fields, self.values, strict=True)):
            if field.exact:
                told = to_go(value, field.exact) if not self.on_act else ("", "muted")
                self.query_one("#togo", Lines).show(always((("   ", "text"), told)), painter)
            elif field.label:
                why = field.wrong(value)
                words: Piece = (safe_text(self._beside(field, why), limit=_INSIDE), "warn" if why else "muted")
                self.query_one(f"#label{number}", Lines).show(always(((f"{field.label}  ", "text"), words)), painter)
        lines = self._answers() if self._act else [(), *self._keys()]
        panel = self.query_one("#answers", Lines)
        panel.styles.height = len(lines)
        panel.show(always(*lines), painter)

    def _beside(self, field: PromptField, why: str) -> str:
        """Return what stands beside the label of a field: what is wrong if it fits, else the hint."""
        return why if why and len(field.label) + 2 + len(why) <= inside(self.app.size.width) else field.hint

    def _keys(self) -> list[Line]:
        """Return what the keys do where there are no buttons, below what is wrong and stands nowhere else."""
        wrongs = ((field, field.wrong(value)) for field, value in zip(self._fields, self.values, strict=True))
        found = next(((field, why) for field, why in wrongs if why), None)
        if found is None:
            return [key_hints(("enter", self._go), ("esc", "cancel"))]
        field, why = found
        told = [] if field.label and self._beside(field, why) == why else wrap(why, inside(self.app.size.width), most=2)
        return [*(((safe_text(part, limit=_INSIDE), "warn"),) for part in told), key_hints(("esc", "cancel"))]

    def _answers(self) -> list[Line]:
        """Return the buttons, and the keys that choose and give them."""
        is_ready, has_next = not self.wrong, len(self._fields) > 1
        keys = [("enter", self._act if self.on_act else safe_answer(self._act))] if is_ready else []
        if has_next != is_ready:
            keys.append(("tab", "next" if has_next else "switch button"))
        if self._takes_y:
            keys.append(("y", self._act))
        hint = key_hints(*keys, ("esc", safe_answer(self._act).lower()))
        is_tall = self.app.size.height >= _ROOMY
        lines = [*[()] * self._buttons_at, tuple(self._buttons()), *[()] * is_tall, hint]
        if is_tall and self._note:
            cells = inside(self.app.size.width)
            lines += [(("─" * cells, "line"),), ((cut_end(safe_text(self._note, limit=300), cells), "muted"),)]
        return lines

    @property
    def _buttons_at(self) -> int:
        return int(bool(self._fields) and not self._fields[-1].exact)  # below a blank line, unless there is one

    def _buttons(self) -> list[Piece]:
        return buttons(self._act, on_act=self.on_act, why_not=self.wrong, flat=self.is_flat)

    def on_input_changed(self) -> None:
        """Show what is wrong while the operator types."""
        self.on_act = False
        self._draw()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Go on: from a field that is right to the next, from the last to the buttons, where there are some."""
        number = int((event.input.id or "").removeprefix("field"))
        if not self._act:
            if not self.wrong:
                _ = self.dismiss(self.values)
        elif number + 1 < len(self._fields):
            if not self._fields[number].wrong(self.values[number]):
                self._entry(number + 1).focus()
        elif not self.wrong:
            self._choose(act=True)

    def _choose(self, *, act: bool) -> None:
        self.set_focus(None)
        self.on_act = act
        self._draw()

    def action_tab(self, by: int) -> None:
        """Go to the next field; where there is one at most, to the other button."""
        if not self._act or len(self._fields) > 1:
            self.action_step(by)
        else:
            self.action_turn()

    def action_step(self, by: int) -> None:
        """Go to another field."""
        if self._fields:
            _ = self.focus_next(TextField) if by > 0 else self.focus_previous(TextField)

    def action_turn(self) -> None:
        """Choose the other button."""
        if self._act and not self.wrong:
            self._choose(act=not self.on_act)

    def action_choose(self) -> None:
        """Give the button that is chosen."""
        if self._act:
            _ = self.dismiss(self.values if self.on_act and not self.wrong else None)

    def action_yes(self) -> None:
        """Give the button that acts, where undo restores all."""
        if self._takes_y:
            _ = self.dismiss(())

    def action_cancel(self) -> None:
        """Leave it."""
        _ = self.dismiss(None)

    def on_click(self, event: events.Click) -> None:
        """Give the button that was clicked."""
        if not self._act or event.widget is not self.query_one("#answers", Lines) or event.y != self._buttons_at:
            return
        pieces = self._buttons()
        if event.x < length(pieces[:1]):
            _ = self.dismiss(None)  # the screen goes by itself; a handler of its own must not wait for it
        elif length(pieces[:2]) <= event.x < length(pieces[:3]) and not self.wrong:
            _ = self.dismiss(self.values)


def confirmation(
    console: Session,
    title: str,
    about: Sequence[Line],
    act: str,
    *,
    name: str = "",
    note: str = "",
    takes_y: bool = False,
) -> Prompt:
    """Return the question before anything that is many or cannot be undone; with a `name`, that has to be typed. `y`
    confirms one with `takes_y`, if no name is asked for.
    """
    context = console.context
    environment = seen_environment(console.shown.snapshot, context.environment)
    where: list[Piece] = []
    if environment:
        is_prod = is_production(environment)
        word, role = ("PRODUCTION", "prod_badge") if is_prod else (environment.upper(), "badge")
        where = [("  in  ", "muted"), (f" {safe_text(word, limit=24)} ", f"{role}_text bold on-{role}")]
    head: Line = ((title, "strong bold"), *where, ("  ", "text"), (safe_text(context.title), "strong bold"))
    if not name:
        return Prompt(console, head, about, act=act, note=note, takes_y=takes_y)
    ask: Line = (
        ("Type ", "text"),
        (safe_text(name), "strong bold"),
        (f" to enable {act.split(' ', maxsplit=1)[0]}", "text"),
    )
    return Prompt(console, head, about, [PromptField(exact=name)], ask=ask, act=act, note=note)


def live_question(console: Session, others: Sequence[Activity] = ()) -> Prompt:
    """Return the question before production is opened for writing: its name and a reason have to be typed."""
    name = console.context.title
    head: Line = (
        ("Write in ", "strong bold"), (" PRODUCTION ", "prod_badge_text bold on-prod_badge"), ("  ", "text"),
        (safe_text(name), "strong bold"),
    )  # fmt: skip
    fields = [
        PromptField(exact=name, hint="context name"),
        PromptField(
            hint="reason: a ticket, or a few words", check=lambda value: "" if value else "a reason is required"
        ),
    ]
    ask: Line = (("Type the context name ", "text"), (safe_text(name), "strong bold"), (" and a reason", "text"))
    return Prompt(console, head, live_lines(others), fields, ask=ask, act="Write for 30 minutes")
