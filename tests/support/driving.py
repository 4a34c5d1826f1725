"""Driving the console in tests: the app on a real server, waiting for what it shows, and jobs in every state."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Any

from qdeck._engine import codec, programs, transitions
from qdeck._redis import SyncClient
from qdeck.admin import NATIVE, Target, Writer
from qdeck_console.app import ConsoleApp
from qdeck_console.contexts import Contexts
from qdeck_console.textual_compat import strips_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from textual.pilot import Pilot

    from qdeck.admin import QueueRow


def app_of(pilot: Pilot[int]) -> ConsoleApp:
    """The app, as what it is."""
    assert isinstance(pilot.app, ConsoleApp)
    return pilot.app


def lines(app: ConsoleApp) -> list[str]:
    """The screen as an operator reads it."""
    return ["".join(part.text for part in strip) for strip in strips_of(app.screen)]


def text(app: ConsoleApp) -> str:
    """The screen as one text."""
    return "\n".join(line.rstrip() for line in lines(app))


async def until(pilot: Pilot[int], wanted: str | Callable[[], bool], seconds: float = 30.0) -> str:
    """Waits until the screen shows a text, or something is so; returns the screen."""
    last_moment = time.monotonic() + seconds
    while True:
        await pilot.pause(0.03)
        shown = text(app_of(pilot))
        if (wanted in shown) if isinstance(wanted, str) else wanted():
            return shown
        assert time.monotonic() < last_moment, f"never saw {wanted!r}:\n{shown}"


def app_on(url: str, *, title: str = "demo", read_only: bool = False, **target: Any) -> ConsoleApp:
    """A console on a server, not yet run; `target` is what a context may say of it."""
    contexts = Contexts(Target(url=url, **{"adapters": (NATIVE,), **target}))
    return app_in(contexts, title=title, read_only=read_only)


def app_in(contexts: Contexts, *, title: str | None = None, read_only: bool = False) -> ConsoleApp:
    """A console on the context that is chosen, not yet run."""
    return ConsoleApp(contexts, contexts.describe(contexts.target, read_only=read_only, title=title))


@contextlib.asynccontextmanager
async def console(url: str, *keys: str, size: tuple[int, int] = (160, 48), **options: Any) -> AsyncIterator[Pilot[int]]:
    """The console on a server, after some keys."""
    app = app_on(url, **options)
    async with app.run_test(size=size, notifications=True) as pilot:
        await until(pilot, lambda: app.shown.snapshot is not None)
        await pilot.press(*keys)
        yield pilot


def run(url: str, op: transitions.Transition[transitions.T]) -> transitions.T:
    """Runs a step of the engine."""
    client = SyncClient(Writer(url).endpoint)
    try:
        return client.run(programs.call(op))
    finally:
        client.close()


def claim(
    url: str, queue: str, free_slots: int = 1, worker: str = "wrk-1", lease_ms: int = 60_000
) -> list[transitions.ClaimedJob]:
    """A worker takes jobs."""
    return run(
        url, transitions.poll(queue, worker, time.time_ns() // 1000, free_slots=free_slots, lease_ms=lease_ms)
    ).jobs


def bury(url: str, queue: str, events: list[dict[str, str]]) -> None:
    """Makes dead letters that died by themselves, one for each event; nothing else may be ready there."""
    with Writer(url) as deck:
        for number in range(len(events)):
            deck.enqueue(queue, "deliver", [number], {"tenant": "acme"}, retries=0)
    endings = [
        transitions.Ending(kind="failed", id=job.id, token=job.token, delay_ms=-1, event=codec.encode_json(event))
        for job, event in zip(claim(url, queue, len(events)), events, strict=True)
    ]
    run(
        url,
        transitions.poll(queue, "wrk-1", time.time_ns() // 1000 + 1, free_slots=0, lease_ms=60_000, endings=endings),
    )


def row(url: str, queue: str) -> QueueRow:
    """A queue in numbers."""
    with Writer(url) as deck:
        return next(row for row in deck.snapshot().queues if queue in (row.name, str(row.ref)))
