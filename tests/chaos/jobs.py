"""The application under chaos: every run notes its start and its end on a server that nobody hurts."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import time
from typing import TYPE_CHECKING, Any, Final

from qdeck import App, LeaseLost, current_job
from support.servers import raw_client

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    import redis

QUEUE: Final = "chaos:work:actions"
NOTES: Final = "chaos:notes"
RELEASED: Final = "chaos:released"
NOTES_URL: Final = "CHAOS_NOTES"
RETRY_S: Final = 0.05


@functools.cache
def _notebook() -> redis.Redis:
    return raw_client(os.environ[NOTES_URL], timeout_s=30)


def note(kind: str, word: str = "") -> None:
    """Writes down that something happened to the job that runs here."""
    job = current_job()
    _notebook().xadd(
        NOTES,
        {"kind": kind, "id": job.id, "worker": job.worker, "pid": os.getpid(), "attempt": job.attempt, "word": word},
    )


@contextlib.contextmanager
def _noted() -> Any:
    note("start")
    try:
        yield
    except BaseException as error:
        note("failed", type(error).__name__)
        raise
    note("end")


def noted(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a handler that notes how each of its attempts starts and ends."""

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        with _noted():
            return function(*args, **kwargs)

    return run


def noted_async(function: Callable[..., Awaitable[Any]]) -> Callable[..., Any]:
    """Return the same for a coroutine function."""

    @functools.wraps(function)
    async def run(*args: Any, **kwargs: Any) -> Any:
        with _noted():
            return await function(*args, **kwargs)

    return run


async def aquick(seconds: float = 0.0) -> None:
    """Ends well after a while, on the loop."""
    await asyncio.sleep(seconds)


def quick(seconds: float = 0.0) -> int:
    """Ends well after a while, in a thread, with a result."""
    time.sleep(seconds)
    return 7


def whoami(seconds: float = 0.0) -> int:
    """Returns its process."""
    time.sleep(seconds)
    return os.getpid()


async def held() -> None:
    """Ends well when the test lets it, on the loop."""
    while not _notebook().exists(RELEASED):  # noqa: ASYNC110 - the test is another process
        await asyncio.sleep(0.05)


def held_in_thread() -> None:
    """Ends well when the test lets it, in a thread."""
    while not _notebook().exists(RELEASED):
        time.sleep(0.05)


def flaky(failures: int = 1) -> None:
    """Fails so often, then ends well."""
    if current_job().attempt <= failures:
        raise RuntimeError("not yet")


async def doomed() -> None:
    """Never ends well."""
    raise RuntimeError("never")


def poison() -> None:
    """Takes its worker along."""
    os._exit(9)


def deaf(seconds: float) -> str:
    """Sleeps where no exception of Python reaches it."""
    time.sleep(seconds)  # one call in C
    return "deaf"


async def stubborn(seconds: float) -> None:
    """Goes on whatever it is told."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(0.05)


async def await_loss(seconds: float) -> None:
    """Waits to be told that its lease is lost."""
    try:
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        note("told", "lost 0" if current_job().lease_lost.is_set() else "cancelled 0")
        raise


def watch_loss(seconds: float) -> None:
    """Waits in a thread until its lease is lost."""
    job = current_job()
    told = 0.0
    with contextlib.suppress(LeaseLost):
        lost = job.lease_lost.wait(seconds)
        told = time.monotonic()
        if lost:
            time.sleep(0.5)  # the error comes a moment after the event, and not while the note is written
    late_ms = round((time.monotonic() - told) * 1000) if told else 0
    note("told", f"lost {late_ms}" if job.lease_lost.is_set() else "in vain 0")


FIXED: Final[dict[str, Any]] = {"backoff": "fixed", "retry_delay": RETRY_S}


def make_app(url: str, patience: float = 60.0) -> App:
    """The application on a server."""
    app = App(url, queue=QUEUE, patience=patience)
    for task in (aquick, held, stubborn, await_loss):
        app.task(retries=0)(noted_async(task))
    for plain in (quick, held_in_thread, whoami, deaf, watch_loss, poison):
        app.task(retries=0)(noted(plain))
    app.task(retries=3, **FIXED)(noted(flaky))
    app.task(retries=1, **FIXED)(noted_async(doomed))
    return app
