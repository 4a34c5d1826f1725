"""Contexts: each in its colours, production read-only until its name and a reason were typed, and not for long."""

from __future__ import annotations

import asyncio
import contextlib
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from qdeck import NotAllowed
from qdeck.admin import AsyncWriter, QueueRef
from qdeck_console.contexts import Contexts, opens_read_only
from qdeck_console.presenters.frame import ShownContext, hue
from qdeck_console.queue_findings import Severity
from qdeck_console.screens.queues import QueuesScreen
from support.screens import SEARCH, app_in, app_of, command, contexts_of, fill, lines, shown, text, until
from support.servers import raw_client

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from textual.pilot import Pilot

    from qdeck.admin import Activity
    from qdeck_console.app import ConsoleApp
    from support.servers import Server


def beside(url: str) -> str:
    """Another database of the same server."""
    return f"{url.removesuffix('/0')}/1"


def fill_both(url: str) -> None:
    """The same jobs in both databases."""
    fill(url)
    fill(beside(url))


def contexts(url: str, folder: Path, name: str) -> Contexts:
    """A configuration with four contexts on one server; what is at production's database is production."""
    said = f"""
        [contexts.here]
        url = "{beside(url)}"
        environment = "dev"
        colour = "blue"
        [contexts.prod-eu]
        url = "{url}"
        environment = "production"
        thresholds = {{ dlq_max_warning = 5 }}
        [contexts.kept]
        url = "{url}"
        read_only = true
        [contexts.broken]
        url = "${{QDECK_TEST_NO_SUCH_VARIABLE}}"
        """
    return contexts_of(folder / "qdeck.toml", said, name)


@contextlib.asynccontextmanager
async def console(url: str, folder: Path, name: str, size: tuple[int, int] = (160, 48)) -> AsyncIterator[Pilot[int]]:
    servers = contexts(url, folder, name)
    app = app_in(servers, read_only=opens_read_only(servers.target))
    async with shown(app, size) as pilot:
        yield pilot


def reads_only(app: ConsoleApp) -> bool:
    """Whether the console cannot write now."""
    return not isinstance(app.reader, AsyncWriter)


def test_the_bar_has_the_colour_of_its_context_but_production_its_own() -> None:
    blue = hue(ShownContext(title="x", server="", colour="blue"), production=False)
    assert (blue.ground, blue.text) == ("#1F4E8C", "#FFFFFF")
    assert hue(ShownContext(title="x", server="", colour="#FFEE00"), production=False).text == "#101315"
    assert hue(ShownContext(title="x", server="", colour="blue", read_only=True), production=True).ground == "prod"
    assert hue(ShownContext(title="x", server="", colour="blue"), production=True).ground == "live"
    assert hue(ShownContext(title="x", server="", colour="nonsense"), production=False).ground == "bar"


@pytest.mark.parametrize("size", [(160, 48), (80, 24)])
async def test_another_context_is_another_console(url: str, tmp_path: Path, size: tuple[int, int]) -> None:
    fill_both(url)
    async with console(url, tmp_path, "here", size) as pilot:
        app = app_of(pilot)
        await until(pilot, "3 queues")
        assert not reads_only(app)
        await pilot.press("4", "space", "o")
        assert "PRODUCTION" in await until(pilot, "opens read-only")
        await pilot.press("j", "enter")
        await until(pilot, "connected to prod-eu")
        await until(pilot, lambda: app.shown.snapshot is not None)
        assert "PRODUCTION" in lines(app)[0]
        assert "READ-ONLY" in lines(app)[0]
        assert app.current_mode == "queues"
        assert reads_only(app)
        assert app.reader.thresholds.dlq_max_warning == 5
        await pilot.press("p")
        await until(pilot, "read-only")
        await command(pilot, "context broken")
        await until(pilot, "contexts.broken.url")
        await command(pilot, "context kept")
        await until(pilot, lambda: app.context.title == "kept")
        await command(pilot, "live")
        await until(pilot, "read_only = true")
        assert reads_only(app)


async def test_live_asks_for_the_name_and_a_reason_and_ends_by_itself(url: str, tmp_path: Path) -> None:
    fill(url)
    async with console(url, tmp_path, "prod-eu") as pilot:
        app = app_of(pilot)
        with pytest.raises(NotAllowed):
            _ = app.writer
        await command(pilot, "live")
        await until(pilot, "type the name")
        await pilot.press("enter", *"prod-e", "enter")
        assert "type the name" in text(app)
        await pilot.press("u", "enter")
        await until(pilot, "a reason is required")
        await pilot.press("enter", *"INC-7", "enter")
        await pilot.press("enter")
        await until(pilot, "m left")
        await until(pilot, lambda: not reads_only(app))
        said = await until_told(app, "live")
        assert (said.detail, said.reason) == ("prod-eu", "INC-7")
        await pilot.press("o")
        await until(pilot, "switch")
        await pilot.press("enter")
        await until(pilot, "connected to prod-eu")
        assert not reads_only(app), "the same context stays as it is"
        await pilot.press("4", "j", "asterisk", "r")
        shown = await until(pilot, "Type prod-eu to enable Retry")
        assert f"by {said.who}: INC-7" in shown, "who is live, and why"
        await pilot.press("p")
        await until(pilot, "6 characters left")
        await pilot.press("x")
        await until(pilot, "not the name")
        await pilot.press("escape")
        await until(pilot, "nothing was changed")
        app.context = replace(app.context, live_until=time.monotonic() - 1)
        await until(pilot, "READ-ONLY")
        assert reads_only(app)
        await until_told(app, "read-only")
        await command(pilot, "live")
        await until(pilot, "type the name")
        await pilot.press("escape")
        await until(pilot, "nothing was changed")
        assert reads_only(app)


async def test_elsewhere_live_is_a_word_and_read_only_another(url: str, tmp_path: Path) -> None:
    fill_both(url)
    async with console(url, tmp_path, "here", (80, 24)) as pilot:
        app = app_of(pilot)
        await command(pilot, "read-only")
        await until(pilot, lambda: reads_only(app))
        await command(pilot, "live")
        await until(pilot, lambda: not reads_only(app))
        await app.writer.resume(SEARCH)
        await command(pilot, "live")
        await until(pilot, "already live")


async def until_told(app: ConsoleApp, verb: str) -> Activity:
    """Waits until the log of operations has such an entry."""
    last_moment = time.monotonic() + 8
    while True:
        found = [row for row in await app.reader.activity() if row.verb == verb]
        if found:
            return found[-1]
        assert time.monotonic() < last_moment
        await asyncio.sleep(0.05)


async def test_lists_that_were_open_go_on_when_writing_is_opened(url: str, tmp_path: Path) -> None:
    fill_both(url)
    async with console(url, tmp_path, "here") as pilot:
        app = app_of(pilot)
        await pilot.press("4")
        await until(pilot, "1–12 of 12")
        await command(pilot, "read-only")
        await until(pilot, lambda: reads_only(app))
        await pilot.press("2")
        await until(pilot, "40")
        await command(pilot, "live")
        await until(pilot, lambda: not reads_only(app))
        await until(pilot, lambda: not app.latest.is_lost)
        await pilot.press("4")
        await until(pilot, "1–12 of 12")
        await pilot.press("o", "down", "up")
        await until(pilot, "opens read-only")
        await pilot.click("#choices", offset=(5, 1))
        await until(pilot, "connected to prod-eu")


async def test_a_queue_of_another_server_is_another_queue(
    url: str, tmp_path: Path, make_server: Callable[..., Server]
) -> None:
    other = make_server()
    for server, dead in ((url, 500), (other.url, 0)):
        with raw_client(server) as raw:
            raw.hset("qdeck:queues", "mail", 1)
            raw.hset("{mail}:meta", mapping={"v": 2, "dead_letter": dead})
    said = f'[contexts.one]\nurl = "{url}"\n[contexts.two]\nurl = "{other.url}"\n'
    servers = contexts_of(tmp_path / "qdeck.toml", said, "one")
    app = app_in(servers)
    async with shown(app, (160, 48)) as pilot:
        screen = app.screen
        assert isinstance(screen, QueuesScreen)
        await until(pilot, lambda: screen._insights.known(QueueRef("native", "mail")) is not None)
        [before] = screen._arranger.arranged.entries
        assert before.severity is Severity.WATCH
        await command(pilot, "context two")
        await until(pilot, lambda: app.context.title == "two" and app.screen is not screen)
        fresh = app.screen
        assert isinstance(fresh, QueuesScreen)
        await until(pilot, lambda: bool(fresh._arranger.arranged.entries))
        [after] = fresh._arranger.arranged.entries
        assert after.severity is Severity.FINE, "nothing is held of a queue that only has the same name"


async def test_one_feed_goes_on_however_fast_decks_take_the_place_of_each_other(url: str, tmp_path: Path) -> None:
    async with console(url, tmp_path, "here") as pilot:
        app = app_of(pilot)
        await until(pilot, "no queue yet")
        for name in ("prod-eu", "kept"):
            app.switch_context(name)
        app.run_worker(app.become(read_only=True, until=None))
        await until(
            pilot, lambda: app.context.title == "kept" and not [one for one in app.workers if one.group == "live"]
        )
        await until(pilot, lambda: app.shown.snapshot is not None)
        await until(pilot, lambda: sum(one.group == "feed" and one.is_running for one in app.workers) == 1)
