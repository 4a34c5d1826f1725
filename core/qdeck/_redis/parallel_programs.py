"""Runs programs side by side: what each of them asks next goes in one round trip with what the others ask."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from qdeck._errors import QdeckError
from qdeck._redis.commands import Offload, Request, Sleep, request_of, with_errors
from qdeck._redis.errors import is_error

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qdeck._redis.commands import Item, Program

T = TypeVar("T")


E = TypeVar("E", bound=QdeckError)


def together(programs: Sequence[Program[T]], kept: type[E]) -> Program[list[T | E]]:
    """What programs of plain reads give, in their order; an error of a kind is the result of one and stops no other."""
    return (yield from _together(programs, kept))


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
    items: dict[int, Item] = {}
    for at, program in enumerate(programs):
        _go_on(program, None, at, items, found, kept)
    while items:
        asking, items = items, {}
        requests: dict[int, Request] = {}
        for at, item in asking.items():
            if isinstance(item, Sleep | Offload):
                _go_on(programs[at], (yield item), at, items, found, kept)
            else:
                requests[at] = request_of(item)
        replies = yield with_errors(*(command for request in requests.values() for command in request.commands))
        taken = 0
        for at, request in requests.items():
            own = replies[taken : taken + len(request.commands)]
            taken += len(request.commands)
            error = None if request.returns_errors else next(filter(is_error, own), None)
            value = own[0] if type(asking[at]) is tuple else own
            _go_on(programs[at], error or value, at, items, found, kept)
    return found


def _go_on(
    program: Program[Any], value: Any, at: int, items: dict[int, Item], found: list[Any], kept: type[QdeckError]
) -> None:
    try:
        items[at] = program.throw(value) if is_error(value) else program.send(value)
    except StopIteration as stop:
        found[at] = stop.value
    except kept as error:
        found[at] = error
