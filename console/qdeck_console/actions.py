"""Every action of the console, once: bindings, footer and help are made from this table.

An action that cannot act now is not hidden: its key says why.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from textual.binding import Binding, BindingType

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """A thing to do: where it works, its keys, the verb for the footer and a sentence for the help."""

    id: str
    scopes: tuple[str, ...]
    keys: tuple[str, ...]
    verb: str
    help: str
    call: str = ""
    footer: bool = True

    @property
    def key_name(self) -> str:
        """Its first key as people say it."""
        return _NAMES.get(self.keys[0], self.keys[0])

    @property
    def key_names(self) -> str:
        """All of its keys as people say them."""
        return " ".join(_NAMES.get(key, key) for key in self.keys)


_NAMES: Final = {
    "escape": "esc",
    "slash": "/",
    "question_mark": "?",
    "up": "↑",
    "down": "↓",
    "pageup": "page up",
    "pagedown": "page down",
    "upper_g": "G",
}

QUEUES: Final = "queues"
STUCK: Final = "stuck"
DEAD: Final = "dead"
DETAIL: Final = "detail"
JOB: Final = "job"
TABS: Final = (QUEUES, STUCK, DEAD)
_LIST: Final = ("list",)

ACTIONS: Final[tuple[Action, ...]] = (
    Action(
        id="down", scopes=_LIST, keys=("j", "down"), verb="down", help="one entry down", call="move(1)", footer=False
    ),
    Action(id="up", scopes=_LIST, keys=("k", "up"), verb="up", help="one entry up", call="move(-1)", footer=False),
    Action(
        id="pagedown", scopes=_LIST, keys=("pagedown",), verb="page", help="a page down", call="page(1)", footer=False
    ),
    Action(id="pageup", scopes=_LIST, keys=("pageup",), verb="page", help="a page up", call="page(-1)", footer=False),
    Action(
        id="first",
        scopes=_LIST,
        keys=("g", "home"),
        verb="first",
        help="the first entry",
        call="end(True)",
        footer=False,
    ),
    Action(
        id="last", scopes=_LIST, keys=("G", "end"), verb="last", help="the last entry", call="end(False)", footer=False
    ),
    Action(id="open", scopes=_LIST, keys=("enter",), verb="open", help="open what is under the cursor", call="open"),
    Action(id="filter", scopes=TABS, keys=("slash",), verb="filter", help="show only entries whose name has this text"),
    Action(
        id="sort", scopes=(QUEUES,), keys=("s",), verb="sort", help="sort by another column; worst first by default"
    ),
    Action(
        id="pause",
        scopes=(QUEUES, DETAIL),
        keys=("p",),
        verb="pause",
        help="pause the queue, or resume it: no job is claimed",
    ),
    Action(
        id="freeze", scopes=(*TABS, DETAIL, JOB), keys=("f",), verb="freeze", help="freeze the picture, or let it go on"
    ),
    Action(
        id="back", scopes=(*TABS, DETAIL, JOB), keys=("escape",), verb="back", help="one step back: filter, then screen"
    ),
    Action(id="help", scopes=("app",), keys=("question_mark",), verb="help", help="all keys", footer=False),
    Action(id="quit", scopes=("app",), keys=("q",), verb="quit", help="quit from a list; from elsewhere go back first"),
)


def of_scope(scope: str) -> list[Action]:
    """The actions of a scope, in the order of the table."""
    return [action for action in ACTIONS if scope in action.scopes]


def bindings(scope: str) -> list[BindingType]:
    """Textual's bindings for a scope. An action without a call of its own goes through `do`, which asks if it may."""
    return [
        Binding(
            ",".join(action.keys),
            action.call or f"do('{action.id}')",
            action.verb,
            id=f"{scope}.{action.id}",
            show=False,
        )
        for action in of_scope(scope)
    ]


def footer_actions(scopes: Iterable[str]) -> list[Action]:
    """What the footer offers in these scopes."""
    return [action for scope in scopes for action in of_scope(scope) if action.footer]
