"""Every action of the console, once: bindings, footer, help and the README's table of keys come from here.

An action that cannot act now is not hidden: its key says why.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from textual.binding import Binding, BindingType

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

ScreenT = TypeVar("ScreenT")
READ_ONLY: Final = "read-only: nothing can be changed"
"""Why nothing can be done in a console that is read-only; its footer says so at the right."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """A thing to do: where it works, its keys, the verb for the footer and a sentence for the help.

    `call` is for widgets that do it themselves; the others go to the screen, which is asked first whether it may.
    """

    id: str
    scopes: tuple[str, ...]
    keys: tuple[str, ...]
    verb: str
    help: str
    group: str = "look"
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


def _no_reason(_screen: object) -> str:
    return ""


def _offered(_screen: object) -> bool:
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionHandler(Generic[ScreenT]):
    """What an action does on a screen: functions of the screen. `reason` says why it cannot act now, empty when it can;
    `label` is its verb where that is not the table's; what is not `offered` is not in the footer.
    """

    run: Callable[[ScreenT], Any]
    reason: Callable[[ScreenT], str] = _no_reason
    label: Callable[[ScreenT], str] = _no_reason
    offered: Callable[[ScreenT], bool] = _offered


_NAMES: Final = {
    "escape": "esc",
    "slash": "/",
    "left_square_bracket": "[",
    "right_square_bracket": "]",
    "question_mark": "?",
    "colon": ":",
    "asterisk": "*",
    "plus": "+",
    "minus": "-",
    "up": "↑",
    "down": "↓",
    "left": "←",
    "right": "→",
    "pageup": "page up",
    "pagedown": "page down",
    "shift+tab": "shift tab",
}

QUEUES: Final = "queues"
JOBS: Final = "jobs"
STUCK: Final = "stuck"
DEAD: Final = "dead"
PURGE: Final = "purge"
SCHEDULES: Final = "schedules"
WORKERS: Final = "workers"
HEALTH: Final = "health"
ACTIVITY: Final = "activity"
DETAIL: Final = "detail"
JOB: Final = "job"
TEMPORARY: Final = "temporary"
REDRIVE: Final = "redrive"
ENTRIES: Final = "entries"
# The number of each screen.
TABS: Final = {
    QUEUES: 1, JOBS: 2, STUCK: 3, DEAD: 4, PURGE: 5, SCHEDULES: 6, WORKERS: 7, HEALTH: 8, ACTIVITY: 9,
}  # fmt: skip
GROUPS: Final = (
    "move", "look", "choose", "act on jobs", "act on queues", "act on schedules", "act on workers", "purge",
    "everywhere",
)  # fmt: skip
_LIST: Final = ("list",)
_MARKED: Final = (JOBS, STUCK, DEAD)  # lists whose entries can be marked
_PAGES: Final = (*TABS, DETAIL, JOB, REDRIVE, ENTRIES, TEMPORARY)

ACTIONS: Final[tuple[Action, ...]] = (
    Action(
        id="down", scopes=_LIST, keys=("j", "down"), verb="down", help="one entry down",
        group="move", call="move(1)", footer=False,
    ),
    Action(
        id="up", scopes=_LIST, keys=("k", "up"), verb="up", help="one entry up",
        group="move", call="move(-1)", footer=False,
    ),
    Action(
        id="pagedown", scopes=_LIST, keys=("pagedown",), verb="page", help="a page down",
        group="move", call="page(1)", footer=False,
    ),
    Action(
        id="pageup", scopes=_LIST, keys=("pageup",), verb="page", help="a page up",
        group="move", call="page(-1)", footer=False,
    ),
    Action(
        id="first", scopes=_LIST, keys=("g", "home"), verb="first", help="the first entry",
        group="move", call="end(True)", footer=False,
    ),
    Action(
        id="last", scopes=_LIST, keys=("G", "end"), verb="last", help="the last entry",
        group="move", call="end(False)", footer=False,
    ),
    Action(
        id="open", scopes=_LIST, keys=("enter",), verb="open", help="open what is under the cursor",
        group="move", call="open",
    ),
    Action(
        id="next", scopes=(JOBS, DEAD, PURGE, JOB), keys=("tab", "right"), verb="next",
        help="the next state, or the other pane", group="move",
    ),
    Action(
        id="previous", scopes=(JOBS, DEAD, PURGE), keys=("shift+tab", "left"), verb="previous", help="the one before",
        group="move", footer=False,
    ),
    Action(id="mark", scopes=_MARKED, keys=("space",), verb="mark", help="mark the entry", group="choose"),
    Action(
        id="range", scopes=_MARKED, keys=("v",), verb="range", help="mark from here to where the cursor goes",
        group="choose", footer=False,
    ),
    Action(
        id="all", scopes=_MARKED, keys=("asterisk",), verb="all", help="mark all that match, not only what is shown",
        group="choose",
    ),
    Action(
        id="retry", scopes=(QUEUES, JOBS, DEAD, JOB, DETAIL), keys=("r",), verb="retry",
        help="let dead letters run again", group="act on jobs",
    ),
    Action(
        id="redrive", scopes=(DEAD,), keys=("R",), verb="redrive", help="retry at a rate, a few first, and watch them",
        group="act on jobs",
    ),
    Action(
        id="requeue", scopes=(STUCK,), keys=("r",), verb="requeue", help="back in line; its worker's result is refused",
        group="act on jobs",
    ),
    Action(
        id="bury", scopes=(STUCK, JOB), keys=("b",), verb="bury", help="to the dead letters", group="act on jobs",
    ),
    Action(
        id="cancel", scopes=(JOBS, STUCK, JOB), keys=("c",), verb="cancel",
        help="cancel; one that runs is asked to stop", group="act on jobs",
    ),
    Action(
        id="run", scopes=(JOBS, JOB), keys=("n",), verb="run now", help="start a delayed job now", group="act on jobs",
    ),
    Action(
        id="sooner", scopes=(JOBS, JOB), keys=("plus",), verb="sooner", help="a more urgent priority",
        group="act on jobs", footer=False,
    ),
    Action(
        id="later", scopes=(JOBS, JOB), keys=("minus",), verb="later", help="a less urgent priority",
        group="act on jobs", footer=False,
    ),
    Action(
        id="move", scopes=(QUEUES, JOBS, DETAIL), keys=("m",), verb="move", help="to another queue, which is asked for",
        group="act on jobs",
    ),
    Action(
        id="edit", scopes=(JOBS, DEAD, JOB), keys=("e",), verb="edit", help="edit the payload, and retry",
        group="act on jobs",
    ),
    Action(
        id="discard", scopes=(JOBS, DEAD, JOB), keys=("x",), verb="discard",
        help="remove with all that is kept about it", group="act on jobs",
    ),
    Action(
        id="tasks", scopes=(QUEUES, HEALTH), keys=("t",), verb="tasks",
        help="temporary queues, by task", footer=False,
    ),
    Action(
        id="earlier", scopes=(JOB,), keys=("left_square_bracket",), verb="try", help="the error of the try before",
    ),
    Action(
        id="later_try", scopes=(JOB,), keys=("right_square_bracket",), verb="next try",
        help="the error of the next try", footer=False,
    ),
    Action(id="filter", scopes=(*TABS, TEMPORARY), keys=("slash",), verb="filter", help="show only what matches"),
    Action(
        id="sort", scopes=(QUEUES,), keys=("s",), verb="sort", help="sort by another column; worst first by default"
    ),
    Action(id="order", scopes=(JOBS,), keys=("s",), verb="newest", help="the newest first, or the oldest"),
    Action(
        id="pause", scopes=(QUEUES, JOBS, DETAIL), keys=("p",), verb="pause",
        help="pause the queue, or resume it: no job is claimed", group="act on queues",
    ),
    Action(
        id="fire", scopes=(SCHEDULES,), keys=("n",), verb="run now", help="make its job now, out of turn",
        group="act on schedules",
    ),
    Action(
        id="hold", scopes=(SCHEDULES,), keys=("p",), verb="pause", help="pause the schedule, or resume it",
        group="act on schedules",
    ),
    Action(
        id="rule", scopes=(SCHEDULES,), keys=("e",), verb="edit", help="another rule: cron, time zone, missed turns",
        group="act on schedules",
    ),
    Action(
        id="quiet", scopes=(WORKERS,), keys=("p",), verb="quiet", help="finish what it has, take nothing new",
        group="act on workers",
    ),
    Action(
        id="stop", scopes=(WORKERS,), keys=("x",), verb="stop", help="finish what it has and end",
        group="act on workers",
    ),
    Action(id="toggle", scopes=(PURGE,), keys=("space",), verb="on, off", help="a rule on or off", group="purge"),
    Action(
        id="threshold", scopes=(PURGE,), keys=("e",), verb="threshold", help="another threshold for this run",
        group="purge",
    ),
    Action(
        id="dryrun", scopes=(PURGE,), keys=("d",), verb="dry run", help="what the rules would take; nothing is written",
        group="purge",
    ),
    Action(
        id="apply", scopes=(PURGE,), keys=("a",), verb="apply", help="do exactly what the dry run found", group="purge",
    ),
    Action(
        id="save", scopes=(PURGE,), keys=("S",), verb="save rules",
        help="this run's rules and thresholds to qdeck.toml", group="purge",
    ),
    Action(
        id="undo", scopes=(*TABS, JOB, REDRIVE, DETAIL), keys=("u",), verb="undo",
        help="undo the last batch, after naming it", group="act on jobs",
    ),
    Action(id="copy", scopes=_PAGES, keys=("y",), verb="copy", help="its id or name to the clipboard"),
    Action(
        id="write", scopes=_PAGES, keys=("w",), verb="write", help="what is listed as JSON to a file", footer=False
    ),
    Action(id="freeze", scopes=_PAGES, keys=("f",), verb="freeze", help="freeze the picture, or go on"),
    Action(
        id="back", scopes=_PAGES, keys=("escape",), verb="back", help="one step back: work, marks, filter, screen",
        group="move",
    ),
    Action(
        id="commands", scopes=("app",), keys=("colon", "ctrl+p"), verb="command",
        help="commands by name; :find, :live …", group="everywhere",
    ),
    Action(
        id="context", scopes=("app",), keys=("o",), verb="context", help="another server of qdeck.toml",
        group="everywhere", footer=False,
    ),
    Action(
        id="help", scopes=("app",), keys=("question_mark",), verb="help", help="all keys", group="everywhere",
        footer=False,
    ),
    Action(
        id="quit", scopes=("app",), keys=("q",), verb="quit", help="quit; from a page go back first",
        group="everywhere",
    ),
)  # fmt: skip


_VERBS: Final = {action.id: action.verb for action in ACTIONS}
_TYPED: Final = "filter"  # what is typed after its key belongs to it, even when all of it comes in one gulp


def of_scope(scope: str) -> list[Action]:
    """The actions of a scope, in the order of the table."""
    return [action for action in ACTIONS if scope in action.scopes]


def verb_of(id: str) -> str:
    """Return the verb of an action."""
    return _VERBS[id]


def bindings(scope: str) -> list[BindingType]:
    """Textual's bindings for a scope. An action without a call of its own goes through `do`, which asks if it may."""
    return [
        Binding(
            ",".join(action.keys),
            action.call or f"{'at_once' if action.id == _TYPED else 'do'}('{action.id}')",
            action.verb,
            id=f"{scope}.{action.id}",
            show=False,
            priority=action.id == _TYPED,
        )
        for action in of_scope(scope)
    ]


def footer_actions(scopes: Iterable[str]) -> list[Action]:
    """What the footer offers in these scopes."""
    return [action for scope in scopes for action in of_scope(scope) if action.footer]


def places(action: Action) -> str:
    """Where an action works, in words."""
    if "app" in action.scopes or set(action.scopes) >= set(TABS):
        return "everywhere"
    words = {
        "list": "lists", DETAIL: "a queue", JOB: "a job", REDRIVE: "a redrive", ENTRIES: "a plan",
        TEMPORARY: "temporary queues",
    }  # fmt: skip
    return ", ".join(words.get(scope, scope) for scope in action.scopes)
