"""One connection to a server and the queues found on it; what readers and writers, blocking and asyncio, share."""

from __future__ import annotations

import asyncio
import weakref
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, Self, TypedDict, TypeVar, Unpack

from qdeck._adapter_names import ADAPTERS
from qdeck._errors import NotAllowed
from qdeck._redis import AsyncClient, Endpoint, SyncClient
from qdeck._redis.program_methods import AsyncRunner, BlockingRunner, ProgramMethod, TwoFoldMethod
from qdeck._server import native_queues
from qdeck._settings.thresholds import Thresholds
from qdeck.adapters.all import Adapters

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
    from types import TracebackType

    from qdeck._model.values import JobRecord, QueueRef
    from qdeck._redis.commands import Program, Request
    from qdeck._rules.causes import Causes
    from qdeck._settings import AdapterSettings, Target
    from qdeck.admin._listing import JobListing

T = TypeVar("T")
P = ParamSpec("P")
# A reader reports a lost server at once, and its caller repeats the read; a write is repeated here.
READ_PATIENCE_S: Final = 1.0
WRITE_PATIENCE_S: Final = 15.0
CONNECT_S: Final = 1.5


class ClientOptions(TypedDict, total=False):
    """Options of every client besides the URL."""

    thresholds: Thresholds | None
    adapters: Sequence[str]
    """The queue systems that are looked for: all unless some are named."""
    adapter_settings: Mapping[str, AdapterSettings | Mapping[str, Any]]
    """The settings of adapters by their names, as `[adapters.NAME]` of a configuration has them."""
    on_request: Callable[[int, int], None] | None
    """Called before each request, with its commands and its bytes."""


class Client:
    """The state of a reader or writer. Making one does not connect."""

    def __init__(self, url: str, **options: Unpack[ClientOptions]) -> None:
        self.endpoint = Endpoint(_with_connect_timeout(url))
        # The server must not count a read by qdeck as use of a queue.
        self._untouched = replace(self.endpoint, untouched=True)
        self.thresholds = options.get("thresholds") or Thresholds()
        self.cache = native_queues.RefreshCache(thresholds=self.thresholds)
        self._causes: Causes | None = None
        self.adapters = Adapters(
            options.get("adapters") or ADAPTERS,
            self.address,
            self.cache,
            settings=options.get("adapter_settings", {}),
            on_cluster=self.endpoint.is_cluster,
        )
        self._on_request = options.get("on_request")

    @classmethod
    def at(cls, target: Target, *, on_request: Callable[[int, int], None] | None = None) -> Self:
        """Return a client of the server that a configuration names, by the settings of its context."""
        client = cls(
            target.url,
            thresholds=target.thresholds,
            adapters=target.adapters,
            adapter_settings=target.adapter_settings,
            on_request=on_request,
        )
        client._production = target.production
        return client

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.address}>"

    @property
    def address(self) -> str:
        """Where the server is, without the password."""
        return str(self.endpoint)

    @property
    def is_cluster(self) -> bool:
        """Whether the server is a Redis Cluster."""
        return self.endpoint.is_cluster

    @property
    def unread(self) -> list[str]:
        """The queues that the last snapshot left out, with the reason."""
        return self.adapters.unread

    @property
    def shared(self) -> frozenset[str]:
        """The names that queues of several adapters have, as far as they were read."""
        return self.adapters.shared

    def label(self, queue: QueueRef) -> str:
        """Return how a queue is shown: its name, with the adapter where queues of several adapters have that name."""
        return queue.label(self.shared)

    def why_not(self, adapter: str, verb: str, state: str) -> str:
        """Return why an adapter cannot apply a verb to a job in a state; empty when it can."""
        return self.adapters.why_not(adapter, verb, state)

    def why_not_job(self, verb: str, job: JobRecord) -> str:
        """Return why a verb cannot be applied to a job, as far as what was read of it says; empty when it can."""
        return self.adapters.why_not_job(verb, job)

    def why_not_pause(self, adapter: str) -> str:
        """Return why queues of an adapter cannot be paused; empty when they can."""
        return self.adapters.why_not_pause(adapter)

    def why_not_watch(self, adapter: str) -> str:
        """Return why an adapter cannot report the outcomes of retried jobs; empty when it can."""
        return self.adapters.why_not_watch(adapter)

    _production: tuple[Target, ...] = ()  # servers that this one must not be; a writer compares them before it writes

    def _before_write(self) -> None:
        """Raise unless this client may write."""
        raise NotAllowed("a reader sent a request that writes", hint="This is a bug in qdeck: please report it.")

    def _need_read(self, request: Request) -> None:
        if not request.reads:
            raise NotAllowed(
                "a reading method sent a request that writes", hint="This is a bug in qdeck: please report it."
            )


class Blocking(Client, BlockingRunner):
    """A client for blocking code."""

    def __init__(self, url: str, **options: Unpack[ClientOptions]) -> None:
        super().__init__(url, **options)
        self._reading = SyncClient(
            self._untouched, patience=READ_PATIENCE_S, guard=self._need_read, on_request=self._on_request
        )
        self._writing = SyncClient(self.endpoint, patience=WRITE_PATIENCE_S, on_request=self._on_request)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close this thread's connections."""
        self._reading.close()
        self._writing.close()

    @property
    def local_clock(self) -> bool:
        """Whether the server's clock cannot be read: then ages use this machine's clock."""
        return self._reading.clock_denied or self._writing.clock_denied

    def run(self, program: Program[T]) -> T:
        """Run a program that only reads; a request that writes is refused before it is sent."""
        return self._reading.run(program)

    def _run_write(self, program: Program[T]) -> T:
        self._before_write()
        return self._writing.run(program)


class Asynchronous(Client, AsyncRunner):
    """A client for asyncio, with connections of each event loop's own."""

    def __init__(self, url: str, **options: Unpack[ClientOptions]) -> None:
        super().__init__(url, **options)
        self._clients: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, tuple[AsyncClient, AsyncClient]]
        self._clients = weakref.WeakKeyDictionary()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections of the running event loop."""
        for client in self._clients.pop(asyncio.get_running_loop(), ()):
            await client.close()

    @property
    def local_clock(self) -> bool:
        """Whether the server's clock cannot be read: then ages use this machine's clock."""
        return any(client.clock_denied for client in self._loop_clients())

    async def run(self, program: Program[T]) -> T:
        """Run a program that only reads; a request that writes is refused before it is sent."""
        return await self._loop_clients()[0].run(program)

    async def _run_write(self, program: Program[T]) -> T:
        if self._production:
            await asyncio.to_thread(self._before_write)
        else:
            self._before_write()
        return await self._loop_clients()[1].run(program)

    def _loop_clients(self) -> tuple[AsyncClient, AsyncClient]:
        loop = asyncio.get_running_loop()
        clients = self._clients.get(loop)
        if clients is None:
            clients = (
                AsyncClient(
                    self._untouched, patience=READ_PATIENCE_S, guard=self._need_read, on_request=self._on_request
                ),
                AsyncClient(self.endpoint, patience=WRITE_PATIENCE_S, on_request=self._on_request),
            )
            self._clients[loop] = clients
        return clients


class reads(ProgramMethod[P, T]):  # noqa: N801 - a decorator
    """A method that only reads."""

    runner = "run"


class writes(ProgramMethod[P, T]):  # noqa: N801 - a decorator
    """A method that writes."""

    runner = "_run_write"


class lists(TwoFoldMethod[P, "Iterator[JobRecord]", "AsyncIterator[JobRecord]"]):  # noqa: N801 - a decorator
    """A method that returns a listing, whose jobs are returned as they are read."""

    def __init__(self, made: Callable[Concatenate[Any, P], Program[JobListing]]) -> None:
        def call(client: Blocking, /, *args: P.args, **kwargs: P.kwargs) -> Iterator[JobRecord]:
            return each(client, client.run(made(client, *args, **kwargs)))  # an error is raised at the call

        def each(client: Blocking, listing: JobListing) -> Iterator[JobRecord]:
            while (found := client.run(listing.page())) is not None:
                yield from listing.new(found)

        async def acall(client: Asynchronous, /, *args: P.args, **kwargs: P.kwargs) -> AsyncIterator[JobRecord]:
            listing = await client.run(made(client, *args, **kwargs))
            while (found := await client.run(listing.page())) is not None:
                for record in listing.new(found):
                    yield record

        super().__init__(made, call, acall)


def _with_connect_timeout(url: str) -> str:
    """Return the URL with a short time to connect, unless it names one, so that an operator does not wait for a server
    that is down.
    """
    if "socket_connect_timeout=" in url:
        return url
    return f"{url}{'&' if '?' in url else '?'}socket_connect_timeout={CONNECT_S}"
