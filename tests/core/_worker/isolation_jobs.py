"""Jobs of each kind that set a context variable, a locale and a logging context, and fail when they see another's."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from contextvars import ContextVar

import qdeck

app = qdeck.App(queue="test:actions")
tenant: ContextVar[str] = ContextVar("tenant", default="none")
language: ContextVar[str] = ContextVar("language", default="none")  # as web frameworks keep the active translation
request: ContextVar[str] = ContextVar("request", default="none")  # as libraries for structured logs keep theirs
_all = (tenant, language, request)
_log = logging.getLogger("isolation")


def check_request(record: logging.LogRecord) -> bool:
    """A filter that reads the logging context, as those do that add it to each record."""
    if record.args != (request.get(),):
        raise AssertionError(f"logs {record.args} with the context {request.get()}")
    return True


_log.addFilter(check_request)


def _enter(number: int) -> None:
    found = [variable.get() for variable in _all]
    if found != ["none"] * 3:
        raise AssertionError(f"job {number} found {found} when it started")
    for variable in _all:
        variable.set(f"{variable.name} {number}")


def _leave(number: int) -> None:
    found = [variable.get() for variable in _all]
    if found != [f"{variable.name} {number}" for variable in _all]:
        raise AssertionError(f"job {number} found {found} when it ended")
    _log.info("%s", f"request {number}")


def _pause() -> float:
    return random.choice((0.0, 0.0, 0.001, 0.002))


@app.task(retries=0)
async def on_loop(number: int) -> None:
    _enter(number)
    await asyncio.sleep(_pause())
    _leave(number)


@app.task(retries=0)
def in_thread(number: int) -> None:
    _enter(number)
    time.sleep(_pause())
    _leave(number)


@app.task(process=True, retries=0)
def in_process(number: int) -> None:
    _enter(number)
    _leave(number)
