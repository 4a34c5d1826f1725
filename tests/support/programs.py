"""Programs run step by step: each command that one yields can be inspected, delayed or changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from qdeck import QdeckError

if TYPE_CHECKING:
    from qdeck._redis import SyncClient
    from qdeck._redis.commands import Item, Program

T = TypeVar("T")


def once(item: Item) -> Program[Any]:
    """Return a program that yields one thing and returns what it gets for it."""
    return (yield item)


def answer(client: SyncClient, item: Item) -> Any:
    """Return what a program gets for a thing that it yielded, which may be an error."""
    try:
        return client.run(once(item))
    except QdeckError as error:
        return error


def feed(program: Program[Any], value: Any) -> Item:
    """Give a program what `answer` returned; return what it yields next."""
    return program.throw(value) if isinstance(value, QdeckError) else program.send(value)


def go_on(client: SyncClient, program: Program[T], item: Item) -> T:
    """Run a program to its end, from a thing that it yielded and that was held back."""
    try:
        while True:
            item = feed(program, answer(client, item))
    except StopIteration as stop:
        value: T = stop.value
        return value


def words_of(item: Item) -> set[Any]:
    """Return the names and arguments of all commands of what a program yielded."""
    commands = getattr(item, "commands", item if isinstance(item, list) else [item])
    return {word for command in commands for word in command}
