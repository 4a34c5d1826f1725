"""The deck: one connection to a server, and what can be seen and done through it, in blocking code and in asyncio."""

from __future__ import annotations

import asyncio
import contextlib
import weakref
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from redis.exceptions import ResponseError

from qdeck._connection import AsyncClient, Endpoint, SyncClient
from qdeck._deck import native, produce, workers
from qdeck._engine import programs
from qdeck._errors import NotAllowed
from qdeck._names import QueueName

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime, timedelta
    from types import TracebackType

    from qdeck._deck.model import Snapshot, WorkerRow
    from qdeck._engine.ops import Made, Program

T = TypeVar("T")
# Looking is repeated by whoever looks, so that a lost server shows at once; a write is seen through.
LOOKING_PATIENCE: Final = 1.0
WRITING_PATIENCE: Final = 15.0
CONNECT_S: Final = 1.5


class Deck:
    """One connection to a server plus the queues found on it. Making one does not connect.

    Every method has an asyncio twin with an `a` before its name. With `read_only`, whatever would write raises
    `NotAllowed` before anything is sent.
    """

    def __init__(self, url: str, read_only: bool = False) -> None:
        self.endpoint = Endpoint(_with_connect_timeout(url))
        self.read_only = read_only
        self._memory = native.Memory()
        self._looking = SyncClient(self.endpoint, patience=LOOKING_PATIENCE)
        self._writing = SyncClient(self.endpoint, patience=WRITING_PATIENCE)
        self._aclients: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, tuple[AsyncClient, AsyncClient]]
        self._aclients = weakref.WeakKeyDictionary()

    def __repr__(self) -> str:
        return f"<Deck {self.endpoint}{' read-only' if self.read_only else ''}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.aclose()

    @property
    def address(self) -> str:
        """Where the server is, without the password."""
        return str(self.endpoint)

    def close(self) -> None:
        """Closes this thread's connections."""
        self._looking.close()
        self._writing.close()

    async def aclose(self) -> None:
        """Closes the connections of the running event loop."""
        for client in self._aclients.pop(asyncio.get_running_loop(), ()):
            await client.close()

    def status(self, visible: Collection[str] | None = None) -> Snapshot:
        """One picture of all queues. `visible` names the queues whose expensive numbers are wanted now; else all."""
        return self._look(native.look(self._memory, self.address, visible))

    async def astatus(self, visible: Collection[str] | None = None) -> Snapshot:
        """One picture of all queues, in asyncio."""
        return await self._alook(native.look(self._memory, self.address, visible))

    def workers(self) -> list[WorkerRow]:
        """All workers, the living ones first."""
        return self._look(workers.list_workers())

    async def aworkers(self) -> list[WorkerRow]:
        """All workers, in asyncio."""
        return await self._alook(workers.list_workers())

    def order_worker(self, worker: str, what: str) -> None:
        """Asks a worker to be `quiet` (finish what it has, take nothing new) or to `stop`."""
        self._write(workers.order(worker, what))

    async def aorder_worker(self, worker: str, what: str) -> None:
        """Asks a worker to be `quiet` or to `stop`, in asyncio."""
        await self._awrite(workers.order(worker, what))

    def enqueue(
        self,
        queue: str | QueueName,
        task: str,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        id: str | None = None,
        name: str | None = None,
        unique: bool = False,
        priority: int | str = 100,
        retries: int | None = None,
        delay: float | timedelta | None = None,
        at: datetime | float | None = None,
        after: Iterable[str] = (),
        tags: Iterable[str] = (),
    ) -> Made:
        """Makes a job of a task given by name; the options that an app declares for it are not known here."""
        where = _queue_name(queue)
        job = produce.new_job(
            where, task, args, kwargs, id=id, name=name, unique=unique, priority=priority, retries=retries, delay=delay,
            at=at, after=after, tags=tags,
        )  # fmt: skip
        return self._write(produce.enqueue(where, job))

    async def aenqueue(
        self,
        queue: str | QueueName,
        task: str,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> Made:
        """Makes a job of a task given by name, in asyncio; the options are those of `enqueue`."""
        where = _queue_name(queue)
        return await self._awrite(produce.enqueue(where, produce.new_job(where, task, args, kwargs, **options)))

    def _look(self, program: Program[T]) -> T:
        with _explained():
            return self._looking.run(_guarded(program, writes=False))

    def _write(self, program: Program[T]) -> T:
        self._check_writable()
        with _explained():
            return self._writing.run(_guarded(program, writes=True))

    async def _alook(self, program: Program[T]) -> T:
        with _explained():
            return await self._loop_clients()[0].run(_guarded(program, writes=False))

    async def _awrite(self, program: Program[T]) -> T:
        self._check_writable()
        with _explained():
            return await self._loop_clients()[1].run(_guarded(program, writes=True))

    def _check_writable(self) -> None:
        if self.read_only:
            raise NotAllowed(f"{self.address} is open read-only", hint="open it for writing to change anything")

    def _loop_clients(self) -> tuple[AsyncClient, AsyncClient]:
        loop = asyncio.get_running_loop()
        clients = self._aclients.get(loop)
        if clients is None:
            clients = (
                AsyncClient(self.endpoint, patience=LOOKING_PATIENCE),
                AsyncClient(self.endpoint, patience=WRITING_PATIENCE),
            )
            self._aclients[loop] = clients
        return clients


@contextlib.contextmanager
def _explained() -> Iterator[None]:
    """What the server refuses while a connection is made (SELECT) is no reply, but raised by the driver."""
    try:
        yield
    except ResponseError as error:
        raise programs.explain(error) from error


def _guarded(program: Program[T], *, writes: bool) -> Program[T]:
    """The program, with every command that is no plain read held back unless it may write."""
    try:
        send = next(program)
        while True:
            if not (send.reads or writes):
                raise NotAllowed("looking tried to write", hint="this is a fault of qdeck: please report it")
            send = program.send((yield send))
    except StopIteration as stop:
        value: T = stop.value
        return value


def _queue_name(queue: str | QueueName) -> str:
    return str(queue if isinstance(queue, QueueName) else QueueName.parse(queue))


def _with_connect_timeout(url: str) -> str:
    """The URL with a short time to connect, unless it names one: an operator should not wait for an absent server."""
    if "socket_connect_timeout=" in url:
        return url
    return f"{url}{'&' if '?' in url else '?'}socket_connect_timeout={CONNECT_S}"
