"""A context of its own (`contextvars`) for each job: what one sets, no other sees."""

from __future__ import annotations

import types
from contextvars import Context, copy_context
from typing import TYPE_CHECKING, Any

from qdeck._context import running

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator

    from qdeck._worker.run import Run


class Contexts:
    """Makes the contexts of jobs: copies of the one in which the application started the worker."""

    def __init__(self) -> None:
        self._base = copy_context()

    def capture(self) -> None:
        """Let jobs start with what the calling code has set."""
        self._base = copy_context()

    def make(self, run: Run) -> Context:
        """A fresh context in which `current_job` returns this run's job."""
        context = self._base.copy()
        context.run(running.set, run)
        return context


@types.coroutine
def run_in(context: Context, awaitable: Awaitable[Any]) -> Generator[Any, Any, Any]:
    """Await in a context, step by step: a task for each job would cost a fifth of the throughput."""
    coroutine = awaitable if type(awaitable) is types.CoroutineType else _as_coroutine(awaitable)
    enter = context.run
    step: Callable[[Any], Any] = coroutine.send
    sent: Any = None
    while True:
        try:
            waits_for = enter(step, sent)
        except StopIteration as end:
            return end.value
        try:
            step, sent = coroutine.send, (yield waits_for)
        except BaseException as error:  # noqa: BLE001 - it is the coroutine's, whatever it is
            step, sent = coroutine.throw, error


async def _as_coroutine(awaitable: Awaitable[Any]) -> Any:
    return await awaitable
