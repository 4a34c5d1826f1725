"""Runs programs side by side: what each of them asks next goes in one round trip with what the others ask."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from qdeck._engine.ops import Program, Send
from qdeck._errors import QdeckError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

T = TypeVar("T")


E = TypeVar("E", bound=QdeckError)


def together(programs: Sequence[Program[T]]) -> Program[list[T | UsageError]]:
    """What programs of plain reads give, in their order; a usage error of one is its result and stops no other."""
    return (yield from _together(programs, UsageError))


def apart(programs: Sequence[Program[T]]) -> Program[list[T | QdeckError]]:
    """The same, where any error of one is its result: what the server refuses to one stops no other."""
    return (yield from _together(programs, QdeckError))


def all_of(programs: Sequence[Program[T]]) -> Program[list[T]]:
    """The same, where an error of one is an error of all."""
    found = yield from _together(programs, QdeckError)
    good: list[T] = []
    for one in found:
        if isinstance(one, QdeckError):
            raise one
        good.append(one)
    return good


def _together(programs: Sequence[Program[T]], kept: type[E]) -> Program[list[T | E]]:
    found: list[Any] = [None] * len(programs)
    asking: dict[int, Send] = {}
    for at, program in enumerate(programs):
        _go_on(program, None, at, asking, found, kept)
    while asking:
        sends = list(asking.items())
        asking = {}
        data = b"".join(send.data for _, send in sends)
        replies = yield Send(data, sum(send.count for _, send in sends), reads=all(send.reads for _, send in sends))
        taken = 0
        for at, send in sends:
            _go_on(programs[at], replies[taken : taken + send.count], at, asking, found, kept)
            taken += send.count
    return found


def _go_on(
    program: Program[Any],
    replies: list[Any] | None,
    at: int,
    asking: dict[int, Send],
    found: list[Any],
    kept: type[QdeckError],
) -> None:
    try:
        asking[at] = next(program) if replies is None else program.send(replies)
    except StopIteration as stop:
        found[at] = stop.value
    except kept as error:
        found[at] = error
