"""A server that is busy for seconds: keys are answered meanwhile, requests do not pile up, and it goes on by itself."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from typing import TYPE_CHECKING

import pytest
import redis

from support.screens import app_of, console, fill, text, until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from textual.pilot import Pilot

    from support.servers import Server

BUSY_S = 4.0
SCREENS = "123456789"


@contextlib.contextmanager
def busy(server: Server, *command: str | float) -> Iterator[threading.Thread]:
    """A thread that keeps the server busy with one command."""

    def run() -> None:
        with server.client(timeout_s=60) as client, contextlib.suppress(redis.RedisError):
            client.execute_command(*command)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield thread
    finally:
        thread.join()


async def answers(pilot: Pilot[int], is_busy: Callable[[], bool]) -> int:
    """Press keys for as long as the server is busy; return how many were answered meanwhile.

    A key that waits for the server is answered when it is not busy any more, and does not count.
    """
    app, count = app_of(pilot), 0
    while is_busy():
        before = app.screen.__class__.__name__
        app.simulate_key("question_mark" if count % 2 == 0 else "escape")
        while app.screen.__class__.__name__ == before and is_busy():  # noqa: ASYNC110 - the pilot waits for more
            await asyncio.sleep(0.005)
        count += is_busy()
        await asyncio.sleep(0.05)
    return count


@pytest.mark.slow
@pytest.mark.timeout(180)
async def test_every_screen_answers_while_a_command_holds_the_server(make_server: Callable[..., Server]) -> None:
    server = make_server("--enable-debug-command", "local")
    fill(server.url)
    async with console(server.url) as pilot:
        await until(pilot, "watch")
        for screen in SCREENS:
            await pilot.press(screen)
            await until(pilot, lambda: app_of(pilot).shown.age_s() < 2 and not app_of(pilot).shown.is_lost)
            with server.client() as client:
                before = int(client.info("stats")["total_commands_processed"])
                await asyncio.sleep(2.5)
                quiet = int(client.info("stats")["total_commands_processed"]) - before
            with busy(server, "DEBUG", "SLEEP", BUSY_S) as thread:
                await until(pilot, lambda: app_of(pilot).shown.age_s() > 1.2)
                count = await answers(pilot, thread.is_alive)
            assert count > 3, f"screen {screen}: {count} keys were answered"
            with server.client() as client:
                after = int(client.info("stats")["total_commands_processed"])
            assert after - before - quiet <= quiet + 200, f"screen {screen}: requests piled up"
            await until(pilot, lambda: not app_of(pilot).shown.is_lost and app_of(pilot).shown.age_s() < 2)
            while app_of(pilot).screen.__class__.__name__.startswith("Help"):
                await pilot.press("escape")


@pytest.mark.slow
@pytest.mark.timeout(120)
async def test_a_script_that_does_not_end_is_named_and_what_ends_it(make_server: Callable[..., Server]) -> None:
    server = make_server("--busy-reply-threshold", "100")
    fill(server.url)
    async with console(server.url) as pilot:
        await until(pilot, "watch")
        with busy(server, "EVAL", "while true do end", "0") as thread:
            await until(pilot, lambda: app_of(pilot).shown.is_lost)
            shown = await until(pilot, "BUSY")
            assert "not allowed" not in shown, "the rights are not what is wrong"
            assert "watch" in shown, "what was seen stays"
            until_s = time.monotonic() + 2
            assert await answers(pilot, lambda: time.monotonic() < until_s) > 3
            with server.client() as client:
                client.script_kill()
            thread.join()
        await until(pilot, lambda: not app_of(pilot).shown.is_lost)
        assert "watch" in text(app_of(pilot))
