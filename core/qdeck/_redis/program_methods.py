"""Methods written once, as programs: blocking clients return their results, asyncio clients return coroutines."""

from __future__ import annotations

from collections.abc import Coroutine
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar, overload

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

T = TypeVar("T")
S = TypeVar("S")
A = TypeVar("A")
P = ParamSpec("P")


class BlockingRunner:
    """A class whose programs run in blocking code."""


class AsyncRunner:
    """A class whose programs run in asyncio."""


class TwoFoldMethod(Generic[P, S, A]):
    """A method of blocking and of asyncio clients, with the same parameters."""

    def __init__(self, made: Callable[..., Any], call: Callable[..., Any], acall: Callable[..., Any]) -> None:
        self.__doc__ = made.__doc__
        self._call, self._acall = wraps(made)(call), wraps(made)(acall)

    @overload
    def __get__(self, client: BlockingRunner, kind: type[Any]) -> Callable[P, S]: ...
    @overload
    def __get__(self, client: AsyncRunner, kind: type[Any]) -> Callable[P, A]: ...
    @overload
    def __get__(self, client: None, kind: type[BlockingRunner]) -> Callable[Concatenate[Any, P], S]: ...
    @overload
    def __get__(self, client: None, kind: type[AsyncRunner]) -> Callable[Concatenate[Any, P], A]: ...
    def __get__(self, client: Any, kind: type[Any]) -> Any:
        chosen: Any = self._acall if issubclass(kind, AsyncRunner) else self._call
        return chosen.__get__(client, kind)


class ProgramMethod(TwoFoldMethod[P, T, Coroutine[Any, Any, T]]):
    """A method written once as a program. Subclasses name the method of the class that runs it."""

    runner = ""

    def __init__(self, made: Callable[Concatenate[Any, P], Generator[Any, Any, T]]) -> None:
        runner = self.runner

        def call(client: Any, /, *args: P.args, **kwargs: P.kwargs) -> Any:
            return getattr(client, runner)(made(client, *args, **kwargs))

        async def acall(client: Any, /, *args: P.args, **kwargs: P.kwargs) -> Any:
            return await getattr(client, runner)(made(client, *args, **kwargs))

        super().__init__(made, call, acall)
