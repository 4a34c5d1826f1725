"""A `contextvars` context for each job: no job sees what another has set."""

from __future__ import annotations

import types
from contextvars import Context, copy_context
from typing import TYPE_CHECKING, Any

from qdeck._job_context import running

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Generator

    from qdeck._worker.attempt import Attempt


class HandlerContexts:
    """Factory of job contexts: copies of the context in which the application started the worker."""

    def __init__(self) -> None:
        self._base = copy_context()

    def capture(self) -> None:
        """Start jobs with what the calling code has set."""
        self._base = copy_context()

    def make(self) -> Context:
        """Return a fresh context."""
        return self._base.copy()


def call(attempt: Attempt, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Call the handler of an attempt inside its context: `current_job` returns its job from now on."""
    running.set(attempt)
    return attempt.function()(*args, **kwargs)


def first_step(
    attempt: Attempt, args: list[Any], kwargs: dict[str, Any]
) -> tuple[Coroutine[Any, Any, Any] | None, Any]:
    """Run an async handler until it waits; return it and what it awaits, or None and its result.

    Many handlers never wait: for them this is all, and costs a third of what a generator around it does.
    """
    awaitable = call(attempt, args, kwargs)
    coroutine = awaitable if type(awaitable) is types.CoroutineType else _as_coroutine(awaitable)
    try:
        return coroutine, coroutine.send(None)
    except StopIteration as end:
        return None, end.value


@types.coroutine
def further_steps(context: Context, coroutine: Coroutine[Any, Any, Any], waits_for: Any) -> Generator[Any, Any, Any]:
    """Await the rest of a handler, each step in its context: a task per job would cost a fifth of the throughput."""
    enter = context.run
    while True:
        step: Callable[[Any], Any] = coroutine.send
        try:
            sent = yield waits_for
        except BaseException as error:  # noqa: BLE001 - it is the handler's, whatever it is
            step, sent = coroutine.throw, error
        try:
            waits_for = enter(step, sent)
        except StopIteration as end:
            return end.value


async def _as_coroutine(awaitable: Awaitable[Any]) -> Any:
    return await awaitable
