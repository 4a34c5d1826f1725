"""The deck: one connection to a server, and what can be seen and done through it, in blocking code and in asyncio.

What only some methods need is imported in them: most commands look once, and are over before the rest were loaded.
"""

from __future__ import annotations

import asyncio
import weakref
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from redis.exceptions import ResponseError

from qdeck._connection import AsyncClient, Endpoint, SyncClient
from qdeck._deck import changes, history, jobs, journal, native, workers
from qdeck._deck.model import NATIVE, State
from qdeck._deck.progress import Walk
from qdeck._errors import InvalidOption, NotAllowed
from qdeck._layouts.others import Others
from qdeck._settings.thresholds import Thresholds

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime, timedelta
    from types import TracebackType

    from qdeck._deck.history import Sample
    from qdeck._deck.model import Found, JobDetail, JobRecord, Page, Settings, Snapshot, WorkerRow
    from qdeck._engine.ops import Made, Program
    from qdeck._filter import Filter
    from qdeck._names import QueueName
    from qdeck._settings import Target

T = TypeVar("T")
# Looking is repeated by whoever looks, so that a lost server shows at once; a write is seen through.
LOOKING_PATIENCE: Final = 1.0
WRITING_PATIENCE: Final = 15.0
CONNECT_S: Final = 1.5
_CLOCK: Final = b"\r\nTIME\r\n"  # as it stands in what is sent


class Deck:
    """One connection to a server plus the queues found on it. Making one does not connect.

    Every method has an asyncio twin with an `a` before its name. With `read_only`, whatever would write raises
    `NotAllowed` before anything is sent.
    """

    def __init__(
        self,
        url: str,
        read_only: bool = False,
        *,
        thresholds: Thresholds | None = None,
        read_only_hint: str = "open it for writing to change anything",
        layouts: Sequence[str] = (NATIVE,),
        patterns: Sequence[str] = (),
        production: Sequence[Target] = (),
    ) -> None:
        self.endpoint = Endpoint(_with_connect_timeout(url))
        self.read_only = read_only
        self._unlike = tuple(production)  # servers that this one must not be; they are compared before the first write
        self.thresholds = thresholds or Thresholds()
        self._read_only_hint = read_only_hint
        self._memory = native.Memory(thresholds=self.thresholds)
        self._others = Others(
            layouts, str(self.endpoint), self.thresholds, patterns, on_cluster=self.endpoint.is_cluster
        )
        # Whether a queue is used is told by when it was last read: looking must not count as that.
        self._untouched = replace(self.endpoint, untouched=True)
        self._looking = SyncClient(self._untouched, patience=LOOKING_PATIENCE)
        self._writing = SyncClient(self.endpoint, patience=WRITING_PATIENCE)
        self._aclients: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, tuple[AsyncClient, AsyncClient]]
        self._aclients = weakref.WeakKeyDictionary()
        self.local_clock = False
        """Whether the server's clock was asked for and may not be read: then ages are by this machine's."""

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
        return self.look(self._status(visible))

    async def astatus(self, visible: Collection[str] | None = None) -> Snapshot:
        """One picture of all queues, in asyncio."""
        return await self.alook(self._status(visible))

    def _status(self, visible: Collection[str] | None) -> Program[Snapshot]:
        return (yield from self._others.look(self._memory, self.address, visible))

    def page(
        self,
        queue: str,
        *,
        state: str | Sequence[str] | None = None,
        where: str = "",
        cursor: str | None = None,
        newest: bool | None = None,
        bodies: bool = True,
        most: int = jobs.SLICE,
    ) -> Page:
        """The next slice of a list of jobs, by default of every state; `cursor` is that of the page before.

        At most `most` entries (500) are looked at, and those that match `where` come back: an empty page is not the
        end, a cursor of None is. Without `bodies` the payloads are not read.
        """
        program = self._page(
            queue, need_states(state), wanted=_filter(where), cursor=cursor, newest=newest, bodies=bodies, most=most
        )
        return self.look(program)

    async def apage(
        self, queue: str, *, state: str | Sequence[str] | None = None, where: str = "", **options: Any
    ) -> Page:
        """The next slice of a list of jobs, in asyncio; the options are those of `page`."""
        return await self.alook(self._page(queue, need_states(state), wanted=_filter(where), **options))

    def _page(
        self,
        queue: str,
        states: Sequence[State],
        *,
        wanted: Filter,
        cursor: str | None = None,
        most: int = jobs.SLICE,
        **options: Any,
    ) -> Program[Page]:
        home = yield from self._others.home(queue)
        if home is None:
            return (yield from jobs.page(queue, states, wanted=wanted, cursor=cursor, most=most, **options))
        return (yield from home.page(queue, states, wanted=wanted, cursor=cursor, most=most))

    def _need(self, queue: str) -> Program[None]:
        if (yield from self._others.home(queue)) is None:
            yield from changes.need_queue(self._memory, queue)

    def jobs(
        self,
        queue: str,
        *,
        state: str | Sequence[str] | None = None,
        where: str = "",
        limit: int | None = None,
        newest: bool | None = None,
    ) -> Iterator[JobRecord]:
        """The jobs of a queue as they are read, all of them or the first `limit`.

        `ready` is in the order in which it will run, jobs that ended start with the newest.
        """
        states, wanted = need_states(state), _filter(where)  # what is wrong is told before the first is asked for
        self.look(self._need(queue))
        return self._walk(queue, states, wanted, limit, newest)

    def _walk(
        self, queue: str, states: Sequence[State], wanted: Filter, limit: int | None, newest: bool | None
    ) -> Iterator[JobRecord]:
        walk = Walk(limit)
        while walk.goes_on:
            program = self._page(queue, states, wanted=wanted, cursor=walk.cursor, newest=newest)
            yield from walk.take(self.look(program))

    async def ajobs(
        self,
        queue: str,
        *,
        state: str | Sequence[str] | None = None,
        where: str = "",
        limit: int | None = None,
        newest: bool | None = None,
    ) -> AsyncIterator[JobRecord]:
        """The jobs of a queue as they are read, in asyncio."""
        states, wanted = need_states(state), _filter(where)
        await self.alook(self._need(queue))
        walk = Walk(limit)
        while walk.goes_on:
            program = self._page(queue, states, wanted=wanted, cursor=walk.cursor, newest=newest)
            for record in walk.take(await self.alook(program)):
                yield record

    def job(self, queue: str, job_id: str) -> JobDetail:
        """All about one job."""
        return self.look(self._job(queue, job_id))

    async def ajob(self, queue: str, job_id: str) -> JobDetail:
        """All about one job, in asyncio."""
        return await self.alook(self._job(queue, job_id))

    def _job(self, queue: str, job_id: str) -> Program[JobDetail]:
        from qdeck._deck import job

        if (home := (yield from self._others.home(queue))) is not None:
            return (yield from home.job(queue, job_id))
        yield from changes.need_queue(self._memory, queue)
        return (yield from job.read_job(queue, job_id))

    def find(self, job_id: str, unread: list[str] | None = None) -> list[Found]:
        """Where a job is, in every queue. Queues that cannot be read are noted in `unread`."""
        return self.look(self._find(job_id, unread))

    async def afind(self, job_id: str, unread: list[str] | None = None) -> list[Found]:
        """Where a job is, in every queue, in asyncio."""
        return await self.alook(self._find(job_id, unread))

    def _find(self, job_id: str, unread: list[str] | None) -> Program[list[Found]]:
        from qdeck._deck import job

        left_out: list[tuple[str, str]] = []
        names = yield from native.readable((yield from native.names(self._memory)), left_out)
        unread = [] if unread is None else unread
        unread += [why for _, why in left_out]
        found = yield from job.find(names, job_id, unread)
        found += yield from self._others.find(job_id)
        unread += self._others.unread if self._others.layouts else ()
        return found

    def history(self, queue: str, *, seconds: float = 86_400) -> list[Sample]:
        """What an agent saw of a queue, oldest first: every 10 s of the last hour, every minute of the time before."""
        return self.look(self._history(queue, seconds))

    async def ahistory(self, queue: str, *, seconds: float = 86_400) -> list[Sample]:
        """What an agent saw of a queue, in asyncio."""
        return await self.alook(self._history(queue, seconds))

    def _history(self, queue: str, seconds: float) -> Program[list[Sample]]:
        yield from changes.need_queue(self._memory, queue)
        return (yield from history.read_history([queue], seconds=seconds))[queue]

    def histories(self, queues: Sequence[str], *, seconds: float = 3600) -> dict[str, list[Sample]]:
        """What an agent saw of several queues, in a few round trips: for a screen of charts that was just opened."""
        return self.look(history.read_history(queues, seconds=seconds))

    async def ahistories(self, queues: Sequence[str], *, seconds: float = 3600) -> dict[str, list[Sample]]:
        """What an agent saw of several queues, in asyncio."""
        return await self.alook(history.read_history(queues, seconds=seconds))

    def pause(self, queue: str) -> Settings:
        """Pauses a queue: its workers start nothing more from it until it is resumed."""
        return self.write(self._paused(queue, paused=True))

    async def apause(self, queue: str) -> Settings:
        """Pauses a queue, in asyncio."""
        return await self.awrite(self._paused(queue, paused=True))

    def resume(self, queue: str) -> Settings:
        """Lets a paused queue go on."""
        return self.write(self._paused(queue, paused=False))

    async def aresume(self, queue: str) -> Settings:
        """Lets a paused queue go on, in asyncio."""
        return await self.awrite(self._paused(queue, paused=False))

    def limit(self, queue: str, *, running: int | None = None, rate: tuple[int, float] | None = None) -> None:
        """Sets how many jobs of a queue run at once, and how many start in so many seconds; None is no limit."""
        self.write(self._limited(queue, running, rate))

    async def alimit(self, queue: str, *, running: int | None = None, rate: tuple[int, float] | None = None) -> None:
        """Sets the limits of a queue, in asyncio."""
        await self.awrite(self._limited(queue, running, rate))

    def _paused(self, queue: str, *, paused: bool) -> Program[Settings]:
        program = changes.set_paused(self._memory, queue, paused=paused)
        return journal.noted(
            program, "pause" if paused else "resume", queues=[queue], unless=lambda left: not left.changed
        )

    def _limited(self, queue: str, running: int | None, rate: tuple[int, float] | None) -> Program[None]:
        program = changes.set_limits(self._memory, queue, running=running, rate=rate)
        told = [] if running is None else [f"{running} at once"]
        told += [] if rate is None else [f"{rate[0]} in {rate[1]:g} s"]
        return journal.noted(program, "limit", queues=[queue], where=", ".join(told) or "none")

    def workers(self) -> list[WorkerRow]:
        """All workers, the living ones first."""
        return self.look(workers.list_workers())

    async def aworkers(self) -> list[WorkerRow]:
        """All workers, in asyncio."""
        return await self.alook(workers.list_workers())

    def order_worker(self, worker: str, what: str) -> None:
        """Asks a worker to be `quiet` (finish what it has, take nothing new) or to `stop`."""
        self.write(journal.noted(workers.order(worker, what), what, where=f"worker {worker}"))

    async def aorder_worker(self, worker: str, what: str) -> None:
        """Asks a worker to be `quiet` or to `stop`, in asyncio."""
        await self.awrite(journal.noted(workers.order(worker, what), what, where=f"worker {worker}"))

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
        from qdeck._deck import produce

        where = _queue_name(queue)
        job = produce.new_job(
            where, task, args, kwargs, id=id, name=name, unique=unique, priority=priority, retries=retries, delay=delay,
            at=at, after=after, tags=tags,
        )  # fmt: skip
        return self.write(produce.enqueue(where, job))

    async def aenqueue(
        self,
        queue: str | QueueName,
        task: str,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> Made:
        """Makes a job of a task given by name, in asyncio; the options are those of `enqueue`."""
        from qdeck._deck import produce

        where = _queue_name(queue)
        return await self.awrite(produce.enqueue(where, produce.new_job(where, task, args, kwargs, **options)))

    @property
    def memory(self) -> native.Memory:
        """What is remembered from look to look, for programs that need the list of queues."""
        return self._memory

    @property
    def others(self) -> Others:
        """The layouts of other systems that this deck shows."""
        return self._others

    def look(self, program: Program[T]) -> T:
        """Runs a program that only reads; one that would write is stopped before anything is sent."""
        return self._looking.run(self._guarded(program, writes=False))

    def write(self, program: Program[T]) -> T:
        """Runs a program that writes, unless the deck is open read-only."""
        self._check_writable()
        self._check_identity()
        return self._writing.run(self._guarded(program, writes=True))

    async def alook(self, program: Program[T]) -> T:
        """Runs a program that only reads, in asyncio."""
        return await self._loop_clients()[0].run(self._guarded(program, writes=False))

    async def awrite(self, program: Program[T]) -> T:
        """Runs a program that writes, in asyncio."""
        self._check_writable()
        if self._unlike:
            await asyncio.to_thread(self._check_identity)
        return await self._loop_clients()[1].run(self._guarded(program, writes=True))

    def _check_writable(self) -> None:
        if self.read_only:
            raise NotAllowed(f"{self.address} is open read-only", hint=self._read_only_hint)

    def _check_identity(self) -> None:
        """Before the first write: raises, also from then on, when this is a server of production."""
        if not self._unlike:
            return
        from qdeck._deck import identity

        try:
            identity.check(self.endpoint, self._unlike)
        except NotAllowed as error:
            self.read_only, self._read_only_hint = True, error.hint
            raise
        self._unlike = ()

    def _guarded(self, program: Program[T], *, writes: bool) -> Program[T]:
        """The program, with every command that is no plain read held back unless it may write."""
        try:
            send = next(program)
            while True:
                if not (send.reads or writes):
                    raise NotAllowed("looking tried to write", hint="this is a fault of qdeck: please report it")
                replies = yield send
                if _CLOCK in send.data and any(map(_is_denied_clock, replies)):
                    self.local_clock = True
                send = program.send(replies)
        except StopIteration as stop:
            value: T = stop.value
            return value

    def _loop_clients(self) -> tuple[AsyncClient, AsyncClient]:
        loop = asyncio.get_running_loop()
        clients = self._aclients.get(loop)
        if clients is None:
            clients = (
                AsyncClient(self._untouched, patience=LOOKING_PATIENCE),
                AsyncClient(self.endpoint, patience=WRITING_PATIENCE),
            )
            self._aclients[loop] = clients
        return clients


def need_states(given: str | Sequence[str] | None) -> tuple[State, ...]:
    """The states that are named, all when none is."""
    if given is None:
        return jobs.ALL_STATES
    words = [given] if isinstance(given, str) else given
    try:
        return tuple(State(word) for word in words)
    except ValueError as error:
        raise InvalidOption(f"{error}", hint=f"states are: {', '.join(State)}") from error


def _is_denied_clock(reply: object) -> bool:
    return isinstance(reply, ResponseError) and "'time'" in str(reply)


def _filter(where: str) -> Filter:
    from qdeck._filter import parse

    return parse(where)


def _queue_name(queue: str | QueueName) -> str:
    from qdeck._names import QueueName

    return str(queue if isinstance(queue, QueueName) else QueueName.parse(queue))


def _with_connect_timeout(url: str) -> str:
    """The URL with a short time to connect, unless it names one: an operator should not wait for an absent server."""
    if "socket_connect_timeout=" in url:
        return url
    return f"{url}{'&' if '?' in url else '?'}socket_connect_timeout={CONNECT_S}"
