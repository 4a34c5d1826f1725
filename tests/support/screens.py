"""A console without a terminal for tests of its screens, and a server with some trouble to show there."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Any

from textual.widgets import Input

from qdeck._engine import codec, programs, transitions
from qdeck._redis import SyncClient
from qdeck.admin import NATIVE, Target, Writer, load_configuration
from qdeck_console.app import ConsoleApp
from qdeck_console.contexts import Contexts
from qdeck_console.screens.purge import PurgeScreen
from qdeck_console.textual_compat import strips_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping
    from pathlib import Path

    from textual.pilot import Pilot

    from qdeck.admin import QueueRow

MAIL, SEARCH, HOOKS = "demo:dev:mail:actions", "demo:dev:search:actions", "demo:dev:hooks:actions"


def lines(app: ConsoleApp) -> list[str]:
    """Return the lines of the screen."""
    return ["".join(part.text for part in strip) for strip in strips_of(app.screen)]


def text(app: ConsoleApp) -> str:
    """Return the screen as one text."""
    return "\n".join(line.rstrip() for line in lines(app))


def app_of(pilot: Pilot[int]) -> ConsoleApp:
    """Return the app that a pilot drives."""
    assert isinstance(pilot.app, ConsoleApp)
    return pilot.app


async def until(pilot: Pilot[int], wanted: str | Callable[[], bool], seconds: float = 40.0) -> str:
    """Wait until the screen shows a text, or a condition holds; return the screen."""
    app = app_of(pilot)
    last_moment = time.monotonic() + seconds
    while True:
        await pilot.pause(0.03)
        shown = text(app)
        if (wanted in shown) if isinstance(wanted, str) else wanted():
            return shown
        assert time.monotonic() < last_moment, f"never saw {wanted!r}:\n{shown}"


def app_on(url: str, *, title: str = "demo", read_only: bool = False, **target: Any) -> ConsoleApp:
    """Return a console on a server, not started; `target` has the settings of a context."""
    contexts = Contexts(Target(url=url, **{"adapters": (NATIVE,), **target}))
    return app_in(contexts, title=title, read_only=read_only)


def app_in(contexts: Contexts, *, title: str | None = None, read_only: bool = False) -> ConsoleApp:
    """Return a console on the chosen context, not started."""
    return ConsoleApp(contexts, contexts.describe(contexts.target, read_only=read_only, title=title))


@contextlib.asynccontextmanager
async def shown(app: ConsoleApp, size: tuple[int, int] = (160, 48)) -> AsyncIterator[Pilot[int]]:
    """Run an app and wait for its first frame."""
    async with app.run_test(size=size, notifications=True) as pilot:
        await until(pilot, lambda: app.shown.snapshot is not None)
        await pilot.pause(0.05)
        yield pilot


@contextlib.asynccontextmanager
async def console(url: str, *keys: str, size: tuple[int, int] = (160, 48), **options: Any) -> AsyncIterator[Pilot[int]]:
    """Run a console on a server and press some keys; `options` are those of `app_on`."""
    async with shown(app_on(url, **options), size) as pilot:
        await pilot.press(*keys)
        yield pilot


def contexts_of(file: Path, text: str, name: str) -> Contexts:
    """Return the contexts of a configuration, which is written to a file; one of them is chosen."""
    file.write_text(text)
    file.chmod(0o600)
    found = load_configuration(file)
    target = found.target(name)
    assert target is not None
    return Contexts(target, found)


async def undo(pilot: Pilot[int]) -> None:
    """Let `u` name the batch, and press it again."""
    await pilot.press("u")
    await until(
        pilot, lambda: any(words in text(app_of(pilot)) for words in ("press u again to undo: ", "u again undoes "))
    )
    await pilot.press("u")


async def dry_run(pilot: Pilot[int], wanted: str) -> PurgeScreen:
    """Run a dry run on Purge that selects all ready jobs, and wait for its result."""
    await until(pilot, "no plan yet")
    screen = app_of(pilot).screen
    assert isinstance(screen, PurgeScreen)
    screen.work.limits = screen.work.limits.changed("max_ready_age=0s")
    await pilot.press("d")
    await until(pilot, wanted)
    return screen


async def command(pilot: Pilot[int], words: str) -> None:
    """Run a command by its name, as if it had been typed after `:`."""
    app = app_of(pilot)
    await pilot.press("colon")
    await until(pilot, lambda: bool(app.screen.query("#words")) and app.focused is not None)
    app.screen.query_one("#words", Input).value = words
    await pilot.pause()
    await pilot.press("enter")


def run(url: str, op: transitions.Transition[transitions.T]) -> transitions.T:
    """Run one transition on a queue."""
    client = SyncClient(Writer(url).endpoint)
    try:
        return client.run(programs.call(op))
    finally:
        client.close()


def claim(
    url: str, queue: str, free_slots: int = 1, worker: str = "wrk-1", lease_ms: int = 60_000
) -> list[transitions.ClaimedJob]:
    """Claim jobs as a worker."""
    return run(
        url, transitions.poll(queue, worker, time.time_ns() // 1000, free_slots=free_slots, lease_ms=lease_ms)
    ).jobs


def bury(url: str, queue: str, events: list[dict[str, str]]) -> None:
    """Make dead letters, one for each event; the queue must have no other ready jobs."""
    with Writer(url) as writer:
        for number in range(len(events)):
            writer.enqueue(queue, "deliver", [number], {"tenant": "acme"}, retries=0)
    endings = [
        transitions.Ending(kind="failed", id=job.id, token=job.token, delay_ms=-1, event=codec.encode_json(event))
        for job, event in zip(claim(url, queue, len(events)), events, strict=True)
    ]
    run(
        url,
        transitions.poll(queue, "wrk-1", time.time_ns() // 1000 + 1, free_slots=0, lease_ms=60_000, endings=endings),
    )


def row(url: str, queue: str) -> QueueRow:
    """Return the row of a queue."""
    with Writer(url) as writer:
        return next(row for row in writer.snapshot().queues if queue in (row.name, str(row.ref)))


def fill(url: str) -> None:
    """Write a paused queue with a backlog, one with dead letters and one with a stuck job."""
    with Writer(url) as writer:
        for _ in range(40):
            writer.enqueue(SEARCH, "reindex", [1])
        for number in range(12):
            writer.enqueue(HOOKS, "deliver", [number], retries=0)
        for number in range(12):
            error = {"class": "ConnectionError", "message": f"refused {number}", "traceback": "Traceback\n  boom"}
            fail_next(url, HOOKS, error)
        writer.enqueue(MAIL, "send", ["someone"])
        run(url, transitions.poll(MAIL, "wrk-gone", 1, free_slots=1, lease_ms=1))
        writer.enqueue(MAIL, "send", ["other"])
        run(url, transitions.configure(SEARCH, {"paused": "1"}))  # by nobody: the log of operations is empty


def fail_next(url: str, queue: str, event: Mapping[str, object], *, retry_ms: int = -1) -> str:
    """Run the next job of a queue and let it fail; by default it dies."""
    at = time.time_ns() // 1000
    [job] = run(url, transitions.poll(queue, "wrk-1", at, free_slots=1, lease_ms=60_000)).jobs
    ending = transitions.Ending(
        kind="failed", id=job.id, token=job.token, delay_ms=retry_ms, event=codec.encode_json(event)
    )
    run(url, transitions.poll(queue, "wrk-1", at + 1, free_slots=0, lease_ms=60_000, endings=[ending]))
    return job.id
