"""Runs operations in blocking code and in asyncio: generators of steps, which are programs to run and pauses."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

from qdeck._errors import QdeckError

if TYPE_CHECKING:
    from qdeck._deck.deck import Deck
    from qdeck._engine.ops import Program

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Step:
    """A program to run; one that `writes` is refused by a deck that is open read-only."""

    program: Program[Any]
    writes: bool = True


@dataclass(frozen=True, slots=True)
class Pause:
    """Seconds to wait."""

    seconds: float


Steps = Generator[Step | Pause, Any, T]
_GLANCE_S: Final = 0.2


def waiting(seconds: float, cancelled: Callable[[], bool] | None) -> Steps[None]:
    """Waits, in pieces where it can be cancelled: at a slow rate whoever stops it would else wait for long."""
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0 and not (cancelled is not None and cancelled()):
        yield Pause(left if cancelled is None else min(left, _GLANCE_S))


def drive(deck: Deck, steps: Steps[T]) -> T:
    """Runs an operation to its end in blocking code. An error of a step is raised where it was asked for."""
    try:
        item = next(steps)
        while True:
            value, error = None, None
            if isinstance(item, Pause):
                time.sleep(item.seconds)
            else:
                try:
                    value = deck.write(item.program) if item.writes else deck.look(item.program)
                except QdeckError as caught:
                    error = caught
            item = steps.send(value) if error is None else steps.throw(error)
    except StopIteration as stop:
        result: T = stop.value
        return result


async def adrive(deck: Deck, steps: Steps[T]) -> T:
    """Runs an operation to its end in asyncio."""
    try:
        item = next(steps)
        while True:
            value, error = None, None
            if isinstance(item, Pause):
                await asyncio.sleep(item.seconds)
            else:
                try:
                    value = await (deck.awrite(item.program) if item.writes else deck.alook(item.program))
                except QdeckError as caught:
                    error = caught
            item = steps.send(value) if error is None else steps.throw(error)
    except StopIteration as stop:
        result: T = stop.value
        return result
