"""The table of all actions of the console: bindings, footer, help and the page of keys are made from it.

An action that is disabled is not hidden: its key shows the reason.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from textual.binding import Binding, BindingType

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

ScreenT = TypeVar("ScreenT")
READ_ONLY: Final = "read-only: type :live to allow changes for 30 minutes"
"""Why every action that changes something is disabled; the footer shows it once, at the right."""
LOCKED: Final = "read-only: its context has read_only = true"
"""The same where :live does not open it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """An action: its screens, its keys, its label in the footer and its line in the help.

    A widget runs `call` itself. All other actions go through the handler of the screen, which may disable them.
    """

    id: str
    scopes: tuple[str, ...]
    keys: tuple[str, ...]
    verb: str
    help: str
    group: str = "view"
    call: str = ""
    footer: bool = True

    @property
    def key_name(self) -> str:
        """Return the name of its first key."""
        return _NAMES.get(self.keys[0], self.keys[0])

    @property
    def key_names(self) -> str:
        """Return the names of all its keys."""
        return " ".join(_NAMES.get(key, key) for key in self.keys)


def _no_reason(_screen: object) -> str:
    return ""


def _offered(_screen: object) -> bool:
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionHandler(Generic[ScreenT]):
    """What an action does on one screen, as functions of the screen.

    `reason` returns why the action is disabled, or an empty text. `label` replaces the verb of the table.
    An action that is not `offered` is not in the footer.
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
    "exclamation_mark": "!",
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
    "move", "view", "select", "act on jobs", "act on queues", "act on schedules", "act on workers", "purge",
    "everywhere",
)  # fmt: skip
_LIST: Final = ("list",)
_MARKED: Final = (JOBS, STUCK, DEAD)  # lists whose rows can be marked
_PAGES: Final = (*TABS, DETAIL, JOB, REDRIVE, ENTRIES, TEMPORARY)

ACTIONS: Final[tuple[Action, ...]] = (
    Action(
        id="down", scopes=_LIST, keys=("j", "down"), verb="down", help="move down",
        group="move", call="move(1)", footer=False,
    ),
    Action(
        id="up", scopes=_LIST, keys=("k", "up"), verb="up", help="move up",
        group="move", call="move(-1)", footer=False,
    ),
    Action(
        id="pagedown", scopes=_LIST, keys=("pagedown",), verb="page down", help="move down a page",
        group="move", call="page(1)", footer=False,
    ),
    Action(
        id="pageup", scopes=_LIST, keys=("pageup",), verb="page up", help="move up a page",
        group="move", call="page(-1)", footer=False,
    ),
    Action(
        id="first", scopes=_LIST, keys=("g", "home"), verb="first", help="go to the first row",
        group="move", call="end(True)", footer=False,
    ),
    Action(
        id="last", scopes=_LIST, keys=("G", "end"), verb="last", help="go to the last row",
        group="move", call="end(False)", footer=False,
    ),
    Action(
        id="open", scopes=_LIST, keys=("enter",), verb="open", help="open the selected row",
        group="move", call="open",
    ),
    Action(
        id="next", scopes=(JOBS, DEAD, PURGE, JOB), keys=("tab", "right"), verb="next",
        help="show the next state or pane", group="move",
    ),
    Action(
        id="previous", scopes=(JOBS, DEAD, PURGE), keys=("shift+tab", "left"), verb="previous",
        help="show the previous state or pane",
        group="move", footer=False,
    ),
    Action(id="mark", scopes=_MARKED, keys=("space",), verb="mark", help="mark the row", group="select"),
    Action(
        id="range", scopes=_MARKED, keys=("v",), verb="range", help="mark a range of rows",
        group="select", footer=False,
    ),
    Action(
        id="all", scopes=_MARKED, keys=("asterisk",), verb="all",
        help="mark all matching jobs, not only the visible ones",
        group="select",
    ),
    Action(
        id="retry", scopes=(QUEUES, JOBS, DEAD, JOB, DETAIL), keys=("r",), verb="retry",
        help="retry dead letters; requeue running jobs", group="act on jobs",
    ),
    Action(
        id="redrive", scopes=(QUEUES, DEAD, DETAIL), keys=("R",), verb="redrive",
        help="redrive: retry at a rate, a sample first; stop if jobs die again", group="act on jobs",
    ),
    Action(
        id="last_redrive", scopes=(DEAD, ACTIVITY), keys=("D",), verb="open redrive",
        help="open the last redrive of this console", group="act on jobs",
    ),
    Action(
        id="requeue", scopes=(STUCK,), keys=("r",), verb="requeue",
        help="requeue the job; refuse the result of its worker",
        group="act on jobs",
    ),
    Action(
        id="bury", scopes=(QUEUES, JOBS, STUCK, JOB, DETAIL), keys=("b",), verb="bury",
        help="bury the job: make it a dead letter", group="act on jobs",
    ),
    Action(
        id="cancel", scopes=(JOBS, STUCK, JOB), keys=("c",), verb="cancel",
        help="cancel the job; ask a running one to stop", group="act on jobs",
    ),
    Action(
        id="run", scopes=(JOBS, STUCK, JOB), keys=("n",), verb="run now", help="run a delayed job now",
        group="act on jobs",
    ),
    Action(
        id="sooner", scopes=(JOBS, JOB), keys=("plus",), verb="sooner", help="raise the priority",
        group="act on jobs", footer=False,
    ),
    Action(
        id="later", scopes=(JOBS, JOB), keys=("minus",), verb="later", help="lower the priority",
        group="act on jobs", footer=False,
    ),
    Action(
        id="move", scopes=(QUEUES, JOBS, DETAIL), keys=("m",), verb="move", help="move jobs to another queue",
        group="act on jobs",
    ),
    Action(
        id="edit", scopes=(JOBS, DEAD, JOB), keys=("e",), verb="edit", help="edit the payload and retry",
        group="act on jobs",
    ),
    Action(
        id="discard", scopes=(JOBS, DEAD, JOB), keys=("x",), verb="discard",
        help="discard the job with its record", group="act on jobs",
    ),
    Action(
        id="clean", scopes=(TEMPORARY,), keys=("x",), verb="remove",
        help="remove the idle queues of the task, or the orphaned queue", group="act on queues",
    ),
    Action(
        id="tasks", scopes=(QUEUES, HEALTH), keys=("t",), verb="tasks",
        help="show temporary queues by task", footer=False,
    ),
    Action(
        id="earlier", scopes=(JOB,), keys=("left_square_bracket",), verb="attempt",
        help="show the error of the previous attempt",
    ),
    Action(
        id="later_try", scopes=(JOB,), keys=("right_square_bracket",), verb="next attempt",
        help="show the error of the next attempt", footer=False,
    ),
    Action(id="filter", scopes=(*TABS, TEMPORARY), keys=("slash",), verb="filter", help="filter the list"),
    Action(
        id="sort", scopes=(QUEUES,), keys=("s",), verb="sort", help="sort by the next column"
    ),
    Action(id="order", scopes=(JOBS,), keys=("s",), verb="newest", help="sort newest or oldest first"),
    Action(
        id="pause", scopes=(QUEUES, JOBS, DETAIL), keys=("p",), verb="pause",
        help="pause or resume the queue", group="act on queues",
    ),
    Action(
        id="fire", scopes=(SCHEDULES,), keys=("n",), verb="run now", help="run the schedule now",
        group="act on schedules",
    ),
    Action(
        id="hold", scopes=(SCHEDULES,), keys=("p",), verb="pause", help="pause or resume the schedule",
        group="act on schedules",
    ),
    Action(
        id="rule", scopes=(SCHEDULES,), keys=("e",), verb="edit", help="edit the cron rule, time zone and missed runs",
        group="act on schedules",
    ),
    Action(
        id="quiet", scopes=(WORKERS,), keys=("p",), verb="quiet", help="quiet the worker: take no new jobs",
        group="act on workers",
    ),
    Action(
        id="stop", scopes=(WORKERS,), keys=("x",), verb="stop", help="stop the worker when its jobs are done",
        group="act on workers",
    ),
    Action(
        id="toggle", scopes=(PURGE,), keys=("space",), verb="on, off", help="turn the rule on or off", group="purge",
    ),
    Action(
        id="threshold", scopes=(PURGE,), keys=("e",), verb="threshold", help="change the threshold for this run",
        group="purge",
    ),
    Action(
        id="dryrun", scopes=(PURGE,), keys=("d",), verb="dry run", help="list what the rules would remove",
        group="purge",
    ),
    Action(
        id="apply", scopes=(PURGE,), keys=("a",), verb="apply", help="apply exactly the dry run", group="purge",
    ),
    Action(
        id="save", scopes=(PURGE,), keys=("S",), verb="save rules",
        help="save rules and thresholds to qdeck.toml", group="purge",
    ),
    Action(
        id="undo", scopes=(*TABS, JOB, REDRIVE, DETAIL, TEMPORARY), keys=("u",), verb="undo",
        help="undo the last batch", group="act on jobs",
    ),
    Action(id="copy", scopes=_PAGES, keys=("y",), verb="copy", help="copy the id or name"),
    Action(
        id="write", scopes=_PAGES, keys=("w",), verb="write", help="write the list to a JSON file", footer=False
    ),
    Action(id="freeze", scopes=_PAGES, keys=("f",), verb="freeze", help="freeze or resume the display"),
    Action(
        id="back", scopes=_PAGES, keys=("escape",), verb="back", help="go back: operation, marks, filter, screen",
        group="move",
    ),
    Action(
        id="commands", scopes=("app",), keys=("colon", "ctrl+p"), verb="command",
        help="run a command by name", group="everywhere",
    ),
    Action(
        id="problem", scopes=("app",), keys=("exclamation_mark",), verb="next problem",
        help="show the next problem, worst first", group="everywhere", footer=False,
    ),
    Action(
        id="context", scopes=("app",), keys=("o",), verb="context", help="switch to another server of qdeck.toml",
        group="everywhere", footer=False,
    ),
    Action(
        id="help", scopes=("app",), keys=("question_mark",), verb="help", help="show all keys", group="everywhere",
        footer=False,
    ),
    Action(
        id="quit", scopes=("app",), keys=("q",), verb="quit", help="quit, or close the page",
        group="everywhere",
    ),
)  # fmt: skip


_VERBS: Final = {action.id: action.verb for action in ACTIONS}
_TYPED: Final = "filter"  # keys that follow it in one read of the terminal belong to its text field


def of_scope(scope: str) -> list[Action]:
    """Return the actions of a scope, in the order of the table."""
    return [action for action in ACTIONS if scope in action.scopes]


def verb_of(id: str) -> str:
    """Return the verb of an action."""
    return _VERBS[id]


def bindings(scope: str) -> list[BindingType]:
    """Return Textual's bindings for a scope. An action without a `call` goes through `do`, which checks its reason."""
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
    """Return the actions that the footer of these scopes offers."""
    return [action for scope in scopes for action in of_scope(scope) if action.footer]


def places(action: Action) -> str:
    """Return the names of the screens on which an action works."""
    if "app" in action.scopes or set(action.scopes) >= set(TABS):
        return "everywhere"
    words = {
        "list": "lists", DETAIL: "a queue", JOB: "a job", REDRIVE: "a redrive", ENTRIES: "a plan",
        TEMPORARY: "temporary queues",
    }  # fmt: skip
    return ", ".join(words.get(scope, scope) for scope in action.scopes)
