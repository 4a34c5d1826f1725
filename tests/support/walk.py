"""A walk through a screen: keys are pressed and noted, and what each shall bring about is waited for."""

from __future__ import annotations

import contextlib
from functools import partial
from typing import TYPE_CHECKING, Any

from textual.widgets import Input

from qdeck.admin import Writer
from qdeck_console.actions import QUEUES, of_scope
from qdeck_console.screens.contexts import ContextScreen
from qdeck_console.screens.frame import FrameScreen
from qdeck_console.screens.help import HelpScreen
from qdeck_console.screens.jobs import JobsScreen
from qdeck_console.screens.palette import PaletteScreen
from qdeck_console.screens.prompt import Prompt
from qdeck_console.widgets.lines import LineList
from support.scene import QUEUE, Scene, make_scene
from support.screens import app_in, app_of, contexts_of, lines, shown, text, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    import redis
    from textual.pilot import Pilot
    from textual.screen import Screen

    Reach = Callable[["Walk"], Awaitable[None]]
    """The way to a screen."""
    Own = Reach
    """What is pressed on it besides what every screen has."""


class Walk:
    """A console on the scene, and the keys that were pressed on the screen that is walked."""

    def __init__(self, pilot: Pilot[int], scene: Scene, folder: Path, url: str) -> None:
        self.pilot = pilot
        self.app = app_of(pilot)
        self.scene = scene
        self.folder = folder
        self.pressed: set[str] = set()
        self.screen: FrameScreen
        self.url = url

    def begin(self) -> None:
        """The screen in sight is the one whose keys are counted."""
        assert isinstance(self.app.screen, FrameScreen)
        self.screen = self.app.screen

    @property
    def view(self) -> LineList:
        """The list that has the keys."""
        focused = self.app.focused
        return focused if isinstance(focused, LineList) else self.screen.main_list

    async def key(self, key: str, wanted: str | Callable[[], bool] | None = None) -> None:
        """Press a key and wait for its effect, which must not be there before: the last key's would prove nothing."""
        if self.app.screen is self.screen:
            self.pressed.add(key)
        if wanted is not None:
            self.app.say("", "muted", "")  # removes the message of the last key
            await self.sees(f"nothing, before {key}", lambda: not self._is_there(wanted))
        await self.pilot.press(key)
        if wanted is not None:
            await self.sees(key, wanted)

    def _is_there(self, wanted: str | Callable[[], bool]) -> bool:
        return wanted in text(self.app) if isinstance(wanted, str) else wanted()

    async def sees(self, after: str, wanted: str | Callable[[], bool]) -> None:
        """Wait until the screen shows a text, or a condition holds."""
        try:
            await until(self.pilot, wanted)
        except AssertionError as error:
            raise AssertionError(f"after {after} on {self.screen}: {error}") from None

    async def keys(self, *keys: str) -> None:
        """Presses keys one after the other."""
        for key in keys:
            await self.key(key)

    def shows(self, kind: type[Screen[Any]]) -> bool:
        """Return whether such a screen is in front."""
        return isinstance(self.app.screen, kind)

    async def answer(self, key: str, *answer: str, wanted: str | Callable[[], bool]) -> None:
        """Press a key that asks, and answer; then wait for its effect."""
        await self.key(key, partial(self.shows, Prompt))
        await self.pilot.press(*answer)
        await self.sees(f"{key} and {' '.join(answer)}", wanted)

    async def back_here(self) -> None:
        """Close what lies over the screen."""
        while self.app.screen is not self.screen:
            await self.pilot.press("escape")
            await self.pilot.pause(0.05)

    def state_of(self, job: str, queue: str = QUEUE) -> str:
        """Return where a job is on the server."""
        with Writer(self.url) as writer:
            return writer.job(queue, job).state

    def priority_of(self, job: str, queue: str = QUEUE) -> int:
        """Return how urgent a job is on the server: the lower the number, the sooner."""
        with Writer(self.url) as writer:
            found = writer.job(queue, job).priority
        assert found is not None
        return found

    def entries(self) -> int:
        """Return how many entries the list has, without its heads."""
        return sum(1 for item in self.view.listing.items if item.key)

    def left(self, view: LineList) -> bool:
        """Return whether another pane has the keys now."""
        return self.view is not view

    def chosen_state(self) -> str:
        """The list that the jobs' screen shows."""
        assert isinstance(self.screen, JobsScreen)
        return self.screen.state.value

    def lacks(self) -> set[str]:
        """The keys of the screen that were not pressed."""
        scopes = ("list", self.screen.SCOPE, "app")
        return {key for scope in scopes for action in of_scope(scope) for key in action.keys} - self.pressed


@contextlib.asynccontextmanager
async def walking(
    url: str, raw: redis.Redis, folder: Path, *, user: str = "", read_only: bool = False
) -> AsyncIterator[Walk]:
    """A console on a fresh scene, with a configuration that knows two contexts.

    With `user`, the url of a user of the same server, the console has the rights of that user only.
    """
    scene = make_scene(url, raw)
    user = user or url
    said = f'[contexts.here]\nurl = "{user}"\nenvironment = "dev"\n[contexts.there]\nurl = "{user}"\n'
    servers = contexts_of(folder / "qdeck.toml", said, "here")
    async with shown(app_in(servers, read_only=read_only)) as pilot:
        yield Walk(pilot, scene, folder, url)


async def moves(walk: Walk) -> None:
    """The keys of a list: by one, by a page, to an end. A page without entries is scrolled instead."""
    view = walk.view

    def place() -> tuple[str, float]:
        return view.cursor, view.scroll_y

    await walk.key("g")
    first = place()
    await walk.key("end")
    last = place()
    await walk.key("home")
    assert place() == first
    await walk.key("G")
    assert place() == last
    long = first != last
    for down, up in (("j", "k"), ("down", "up"), ("pagedown", "pageup")):
        await walk.key("g")
        await walk.key(down)
        assert (place() != first) == long, down
        await walk.key(up)
        assert place() == first, up
    assert not walk.view.marks


async def looks(walk: Walk) -> None:
    """The keys that every screen has: help, commands, contexts, freezing, copying, writing, the filter."""
    app, screen = walk.app, walk.screen
    dialogs: dict[str, type[Screen[Any]]] = {
        "question_mark": HelpScreen,
        "colon": PaletteScreen,
        "ctrl+p": PaletteScreen,
        "o": ContextScreen,
    }
    for key, dialog in dialogs.items():
        await walk.key(key, partial(walk.shows, dialog))
        await walk.back_here()
    has = {action.id for action in of_scope(screen.SCOPE)}
    if "freeze" in has:
        await walk.key("f", "FROZEN")
        await walk.key("f", lambda: "FROZEN" not in text(app))
    if "copy" in has:
        await walk.key("y", screen.why_not("copy") or "sent to the clipboard")
    if "write" in has and screen.why_not("write"):
        await walk.key("w", lambda: screen.why_not("write") in lines(app)[-1])
    elif "write" in has:
        await walk.key("w", lambda: app.screen is not screen)
        await walk.back_here()
    if "filter" in has and screen.why_not("filter"):
        await walk.key("slash", screen.why_not("filter"))
    elif "filter" in has:
        box = screen.query_one("#filter", Input)
        await walk.key("slash", lambda: box.has_focus)
        await walk.pilot.press(*"zzz")
        await walk.sees("typed", lambda: screen.filter_text == "zzz" or screen.wrong is not None)
        await walk.pilot.press("escape")
        await walk.sees("cleared", lambda: not screen.filter_text and screen.wrong is None and not box.has_focus)


async def next_problem(walk: Walk, reach: Reach) -> None:
    """The key that goes to the worst problem, on whichever screen shows it; then the way back to this one."""
    app, screen = walk.app, walk.screen
    await walk.key("exclamation_mark", "problem 1 of ")
    await walk.sees("exclamation_mark", lambda: app.screen is not screen or bool(screen.filter_text))
    await walk.pilot.pause(0.2)  # a tab is narrowed after it was opened
    while len(app.screen_stack) > 1:
        await walk.pilot.press("escape")
        await walk.pilot.pause(0.05)
    await reach(walk)
    walk.begin()


async def ends(walk: Walk, reach: Reach) -> None:
    """The next problem, back and quit: a page goes back first; on a list of the tabs `q` ends the console."""
    if "exclamation_mark" not in walk.pressed:
        await next_problem(walk, reach)
    app, screen = walk.app, walk.screen
    if len(app.screen_stack) == 1:
        await walk.key("escape")
        if isinstance(screen, JobsScreen):  # they are a queue's: back leads to the queues
            await until(walk.pilot, lambda: app.current_mode == QUEUES)
            await reach(walk)
        assert app.screen is screen
        await walk.key("q", lambda: app.return_code == 0)
        return
    await walk.key("escape", lambda: app.screen is not walk.screen)
    await reach(walk)
    walk.begin()
    await walk.key("q", lambda: app.screen is not walk.screen)
