"""Methods written once, as generators: blocking clients return their results, asyncio clients return coroutines."""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar, overload

from qdeck._redis.steps import Offload, Pause

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Generator

    from qdeck._redis.steps import Step, Steps

T = TypeVar("T")
P = ParamSpec("P")


class BlockingRunner(ABC):
    """A class whose generators run in blocking code."""

    @abstractmethod
    def _run_step(self, step: Step) -> Any: ...

    def _run_steps(self, steps: Steps[T]) -> T:
        """Run an operation to its end. An error of a step is raised where the operation asked for the step."""
        try:
            item = next(steps)
            while True:
                try:
                    value: Any = None
                    if isinstance(item, Pause):
                        time.sleep(item.seconds)
                    elif isinstance(item, Offload):
                        value = item.work()
                    else:
                        value = self._run_step(item)
                except BaseException as error:  # noqa: BLE001 - one that is cancelled has steps that end it
                    item = steps.throw(error)
                else:
                    item = steps.send(value)
        except StopIteration as stop:
            result: T = stop.value
            return result


class AsyncRunner(ABC):
    """A class whose generators run in asyncio."""

    @abstractmethod
    async def _run_step(self, step: Step) -> Any: ...

    async def _run_steps(self, steps: Steps[T]) -> T:
        """Run an operation to its end. An error of a step is raised where the operation asked for the step."""
        try:
            item = next(steps)
            while True:
                try:
                    value: Any = None
                    if isinstance(item, Pause):
                        await asyncio.sleep(item.seconds)
                    elif isinstance(item, Offload):
                        value = await asyncio.to_thread(item.work)
                    else:
                        value = await self._run_step(item)
                except BaseException as error:  # noqa: BLE001 - one that is cancelled has steps that end it
                    item = steps.throw(error)
                else:
                    item = steps.send(value)
        except StopIteration as stop:
            result: T = stop.value
            return result


class Both(Generic[P, T]):
    """A method written once as a generator. Subclasses name the method of the runner that runs it."""

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
