"""Methods written once, as programs: blocking clients return their results, asyncio clients return coroutines."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar, overload

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Generator

T = TypeVar("T")
P = ParamSpec("P")


class BlockingRunner:
    """A class whose programs run in blocking code."""


class AsyncRunner:
    """A class whose programs run in asyncio."""


class ProgramMethod(Generic[P, T]):
    """A method written once as a program. Subclasses name the method of the class that runs it."""

    runner = ""

    def __init__(self, made: Callable[Concatenate[Any, P], Generator[Any, Any, T]]) -> None:
        runner = self.runner

        @wraps(made)
        def call(client: Any, /, *args: P.args, **kwargs: P.kwargs) -> Any:
            return getattr(client, runner)(made(client, *args, **kwargs))

        @wraps(made)
        async def acall(client: Any, /, *args: P.args, **kwargs: P.kwargs) -> Any:
            return await getattr(client, runner)(made(client, *args, **kwargs))

        self.__doc__ = made.__doc__
        self._call, self._acall = call, acall

    @overload
    def __get__(self, client: BlockingRunner, kind: type[Any]) -> Callable[P, T]: ...
    @overload
    def __get__(self, client: AsyncRunner, kind: type[Any]) -> Callable[P, Coroutine[Any, Any, T]]: ...
    @overload
    def __get__(self, client: None, kind: type[BlockingRunner]) -> Callable[Concatenate[Any, P], T]: ...
    @overload
    def __get__(
        self, client: None, kind: type[AsyncRunner]
    ) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]: ...
    def __get__(self, client: Any, kind: type[Any]) -> Any:
        chosen: Any = self._acall if issubclass(kind, AsyncRunner) else self._call
        return chosen.__get__(client, kind)
