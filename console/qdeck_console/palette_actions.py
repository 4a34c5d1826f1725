"""The commands of the palette on a screen, and how each is run."""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from qdeck import QdeckError
from qdeck_console import theme_choice
from qdeck_console.actions import ACTIONS, TABS, Action, places
from qdeck_console.palette_commands import WORDS, Word, score, split
from qdeck_console.text import safe_text
from qdeck_console.widgets.lines import LineList

if TYPE_CHECKING:
    from collections.abc import Callable

    from qdeck.admin import IdSearch
    from qdeck_console.console import Console
    from qdeck_console.screens.frame import FrameScreen

_MOST_NAMES: Final = 200
_FIND_STEP: Final = 20_000  # jobs read between two reports of a search
_WORD: Final = 600  # the score of letters that begin a word
_LEAST_OF_QUEUE: Final = 2  # letters that find a queue by its name
_MOST_QUEUES: Final = 20
_LAST_RANK: Final = 4
_QUEUE: Final = next(word for word in WORDS if word.name == "queue")


@dataclass(frozen=True, slots=True, kw_only=True)
class PaletteCommand:
    """One line of the palette. A command with an `argument` runs once that is typed."""

    title: str
    help: str
    do: Callable[[], None]
    keys: str = ""
    argument: str = ""
    why_not: str = ""
    rank: int = 0
    typed: str = ""
    """What is typed to get this line alone, where that is not the title."""

    @property
    def completed(self) -> str:
        """What `tab` writes: the command, ready for its argument."""
        return self.typed or self.title + (" " if self.argument else "")


def found(console: Console, below: FrameScreen, text: str) -> list[PaletteCommand]:
    """Return the commands that match the text, the best first and disabled ones last."""
    word, rest = split(text)
    if word is not None:
        return _with_argument(console, below, word, rest)
    query = text.lstrip(": ")
    scored = []
    for at, command in enumerate(every(console, below)):
        by_name, by_help = score(query, command.title), score(query, command.help)
        # Match whole words of the help only: scattered letters are in nearly every sentence.
        from_help = by_help // 2 if by_help is not None and (by_help >= _WORD or not query.strip()) else -1
        best = max(-1 if by_name is None else by_name, from_help)
        if best >= 0:
            named = command.title.startswith(query.strip()) and query.strip() != ""
            # A named command comes first even when it is disabled: enter must not run another one.
            scored.append((not named, command.why_not != "" and not named, -best, command.rank, at, command))
    if len(query.strip()) >= _LEAST_OF_QUEUE:
        scored += [(True, False, -value, _LAST_RANK, at, command) for value, at, command in _queues(console, query)]
    return [row[-1] for row in sorted(scored, key=lambda row: row[:-1])]


def _queues(console: Console, query: str) -> list[tuple[int, int, PaletteCommand]]:
    """Return the queues whose names match best, with their scores: a name opens its queue."""
    names = _names(console, _QUEUE) or []
    scored = [
        (value, at) for at, name in enumerate(names) if (value := score(query, name)) is not None and value > _WORD
    ]
    return [
        (value, at, PaletteCommand(title=names[at], help="open the queue", do=partial(_open_queue, console, names[at])))
        for value, at in heapq.nlargest(_MOST_QUEUES, scored)
    ]


def every(console: Console, below: FrameScreen) -> list[PaletteCommand]:
    """Return all commands: the actions of this screen, the words, the screens, and the actions of other screens."""
    here = {"list", below.SCOPE, "app"}
    mine = [_action(below, action) for action in ACTIONS if here & set(action.scopes)]
    seen = {command.title for command in mine}
    others = []
    for action in ACTIONS:
        if not here & set(action.scopes) and action.verb not in seen:
            seen.add(action.verb)
            others.append(
                PaletteCommand(title=action.verb, help=action.help, keys=action.key_name, do=_nothing, rank=3,
                    why_not=f"only on {_all_places(action.verb)}")
            )  # fmt: skip
    words = [
        PaletteCommand(
            title=word.name, argument=word.argument, help=word.help, rank=1, do=_bound(console, below, word, ""),
            why_not=why_not(console, word),
        )
        for word in WORDS
    ]  # fmt: skip
    screens = [
        PaletteCommand(title=name, help=f"open the screen {name}", keys=str(number), rank=2, do=_going(console, name))
        for name, number in TABS.items()
        if name in console.MODES
    ]
    return [*mine, *words, *screens, *others]


def _all_places(verb: str) -> str:
    """Return the names of the screens that have an action of this name."""
    return ", ".join(dict.fromkeys(places(action) for action in ACTIONS if action.verb == verb))


def _action(below: FrameScreen, action: Action) -> PaletteCommand:
    def do() -> None:
        if action.call:
            below.run_worker(_on_list(below, action.call), exit_on_error=False)
        elif "app" in action.scopes:
            below.console.action_do(action.id)
        else:
            below.action_do(action.id)

    return PaletteCommand(
        title=below.verb(action),
        help=action.help,
        keys=action.key_name,
        do=do,
        why_not=below.why_not(action.id),
        rank=2 if action.group == "move" else 0,
    )


async def _on_list(below: FrameScreen, call: str) -> None:
    for view in below.query(LineList):
        view.focus()
        await view.run_action(call)
        return


def _nothing() -> None:
    """Do nothing: the reason is shown instead."""


def _going(console: Console, name: str) -> Callable[[], None]:
    return lambda: console.action_tab(name)


def _bound(console: Console, below: FrameScreen, word: Word, rest: str) -> Callable[[], None]:
    return lambda: do_word(console, below, word.name, rest)


def why_not(console: Console, word: Word) -> str:
    """Return why a word is disabled now."""
    if word.name == "live":
        return console.writing.why_not()
    if word.name == "read-only":
        return "already read-only" if console.context.read_only else ""
    if word.name == "reconnect" and not console.latest.is_lost:
        return "the server is connected"
    if word.name == "context" and not console.contexts.configured:
        return console.contexts.where if not console.contexts.configured else ""
    return ""


def _with_argument(console: Console, below: FrameScreen, word: Word, rest: str) -> list[PaletteCommand]:
    names = _names(console, word)
    if word.name == "filter" and (saved := _saved_filters(console, below, word, rest)):
        return saved
    if names is None:
        if not rest:
            return [PaletteCommand(title=word.name, argument=word.argument, help=word.help, do=_nothing)]
        return [
            PaletteCommand(
                title=f"{word.name} {safe_text(rest, limit=200)}", help="", do=_bound(console, below, word, rest)
            )
        ]
    scored = [(-value, at, name) for at, name in enumerate(names) if (value := score(rest, name)) is not None]
    return [
        PaletteCommand(
            title=name,
            help=word.help,
            do=_bound(console, below, word, name),
            why_not=why_not(console, word),
            typed=f"{word.name} {name}",
        )
        for _, _, name in sorted(scored)[:_MOST_NAMES]
    ]


def _saved_filters(console: Console, below: FrameScreen, word: Word, rest: str) -> list[PaletteCommand]:
    """Return the filters of the configuration whose names begin like this."""
    return [
        PaletteCommand(title=name, help=text, do=_bound(console, below, word, text), typed=f"{word.name} {name}")
        for name, text in console.contexts.filters.items()
        if name.startswith(rest)
    ]


def _names(console: Console, word: Word) -> list[str] | None:
    """Return the possible arguments of a word, where they are known."""
    if word.name == "context":
        return list(console.contexts.configured)
    if word.name == "theme":
        return sorted(console.available_themes, key=lambda name: (not name.startswith("qdeck-"), name))
    if word.name == "queue":
        snapshot = console.shown.snapshot
        return [row.ref.label(snapshot.shared) for row in snapshot.queues] if snapshot else []
    return None


def do_word(console: Console, below: FrameScreen, name: str, rest: str) -> None:
    """Run a word with its argument."""
    if name == "find":
        console.run_worker(find(console, rest), group="find", exit_on_error=False)
    elif name == "queue":
        _open_queue(console, rest)
    elif name == "filter":
        below.set_filter(rest)
    elif name == "context":
        console.switch_context(rest)
    elif name == "live":
        console.writing.ask()
    elif name == "read-only":
        console.writing.end("")
    elif name == "write":
        below.write_to(rest)
    elif name == "theme":
        console.theme = rest
        theme_choice.save(rest)
    elif name == "reconnect":
        console.feed.poke()


def _open_queue(console: Console, label: str) -> None:
    """Open the queue with this label."""
    snapshot = console.shown.snapshot
    refs = [row.ref for row in snapshot.queues if row.ref.label(snapshot.shared) == label] if snapshot else []
    if refs:
        console.open_queue(refs[0])
    else:
        console.say(f"unknown queue {label}", "warn", "▲")


async def find(console: Console, job_id: str) -> None:
    """Find jobs in every queue by an id or a name and open the first; report how far a long search is."""
    from qdeck.admin import IdSearch

    wanted, reported = job_id.strip(), 0

    def report(scanned: int, _found: int) -> None:
        nonlocal reported
        if scanned >= reported + _FIND_STEP:
            reported = scanned
            console.say(f"finding {wanted}: {scanned:,} jobs read", "muted", "▸")

    search = IdSearch(wanted=wanted, progress=report)
    try:
        places_of = await console.reader.find(search)
    except (QdeckError, OSError) as error:
        console.say(str(error), "bad", "✗")
        return
    if not places_of:
        console.say(f"{wanted} was not found {_searched(search)}", "warn", "▲")
        return
    first = places_of[0]
    if len(places_of) > 1:
        console.say(f"{len(places_of):,} found; this one is in {console.reader.label(first.ref)}", "muted", "▲")
    while len(console.screen_stack) > 1:
        console.back()
    console.open_job(first.ref, first.id)


def _searched(search: IdSearch) -> str:
    if not search.cut and not search.unread:
        return "in any queue"
    return f"among the {search.scanned:,} jobs read; not all of {', '.join([*search.cut]) or 'the queues'} was read"
