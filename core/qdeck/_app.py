"""Apps and tasks: declare tasks and enqueue their jobs, in blocking code and in asyncio, from one definition."""

from __future__ import annotations

import asyncio
import difflib
import inspect
import os
import sys
import warnings
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, ParamSpec, TypeVar, overload

from qdeck._calls import Call, read_after
from qdeck._calls import enqueue as enqueue_calls
from qdeck._calls import secure as secure_calls
from qdeck._durability import Durable, read_durable
from qdeck._engine import codec
from qdeck._engine.job_ids import check_id, new_id
from qdeck._engine.transitions import EnqueueResult, NewJob
from qdeck._errors import (
    InvalidOption,
    UnknownTask,
)
from qdeck._job import Job
from qdeck._queue_names import QueueName
from qdeck._redis import AsyncClient, Endpoint, SyncClient
from qdeck._task_options import (
    Options,
    option_names,
    read_bool,
    read_due,
    read_duration,
    read_job_name,
    read_options,
    read_tags,
    read_task_name,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from contextlib import AbstractAsyncContextManager

    from qdeck._schedules.model import Definition

P = ParamSpec("P")
R = TypeVar("R")
_OPTIONS: Final = {f"_{name}": name for name in option_names() if name != "process"}


class Task(Generic[P, R]):
    """A declared function whose jobs can be enqueued. Calling it runs the function itself."""

    def __init__(self, app: App, function: Callable[P, R], name: str, options: Options) -> None:
        self.app = app
        self.name = name
        self.options = options
        self.function = function
        self.__doc__ = function.__doc__
        self.__name__ = getattr(function, "__name__", name)
        self.__wrapped__ = function
        self._template: str | None = None
        self._shapes: set[tuple[object, ...]] = set()  # of calls that were checked

    def __repr__(self) -> str:
        return f"<Task {self.name} on {self.options.queue}>"

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.function(*args, **kwargs)

    def call(self, *args: Any, **kwargs: Any) -> Call:
        """Return a job to enqueue later, by `app.enqueue_many`. Options have an underscore, as in `_delay=30`."""
        if kwargs and any(key.startswith("_") for key in kwargs):
            return self._call_with(args, kwargs)
        self._check(args, kwargs)
        template = self._template or self._make_template()
        body = codec.encode_call(self.name, args, kwargs, self.app.max_payload)
        return Call(self.options.queue, NewJob(new_id(), self.options.priority, template, body), self.app.durable)

    def enqueue(self, *args: Any, **kwargs: Any) -> Job:
        """Enqueue a job, in blocking code; return once the server has stored it."""
        return self.app.enqueue_many([self.call(*args, **kwargs)])[0]

    async def aenqueue(self, *args: Any, **kwargs: Any) -> Job:
        """Enqueue a job, in asyncio; return once the server has stored it."""
        return (await self.app.aenqueue_many([self.call(*args, **kwargs)]))[0]

    def _make_template(self) -> str:
        self._template = _head(self.options, self.name, self.app.handler_of(self.options)).template()
        return self._template

    def _check(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Refuse a call that does not fit the handler. Calls of one shape are checked once."""
        shape = (len(args), *kwargs)
        if shape in self._shapes:
            return
        try:
            # The signature of the decorator's own function, which is what is called,
            # and not of the function that it wraps.
            signature = inspect.signature(self.function, follow_wrapped=False)
        except (TypeError, ValueError):
            return  # a function of C that says nothing about its arguments
        try:
            signature.bind(*args, **kwargs)
        except TypeError as error:
            options = [key for key in kwargs if key not in signature.parameters and f"_{key}" in _ALL_OPTIONS]
            if options:
                key = options[0]
                raise InvalidOption(
                    f"task {self.name!r} has no argument {key!r}",
                    hint=f"Write an option of the call with an underscore: _{key}={kwargs[key]!r:.40}",
                ) from None
            raise InvalidOption(
                f"task {self.name!r} cannot be called with these arguments: {error}",
                hint=f"Call it as {self.__name__}{signature}",
            ) from None
        if len(self._shapes) < _MOST_SHAPES:
            self._shapes.add(shape)

    def _call_with(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
        own = {key: kwargs.pop(key) for key in list(kwargs) if key in _OPTIONS or key in _CALL_ONLY}
        strange = [key for key in kwargs if key.startswith("_")]
        if strange:
            raise _no_such_option(strange[0])
        self._check(args, kwargs)
        changed = {_OPTIONS[key]: value for key, value in own.items() if key in _OPTIONS}
        options = read_options(changed, self.options)
        queue = self.app.queue_name(options.queue)
        delay, at, name = own.get("_delay"), own.get("_at"), own.get("_name")
        if delay is not None and at is not None:
            raise InvalidOption("both _delay and _at are given", hint="Give one of them.")
        unique = read_bool("_unique", own.get("_unique", False))
        if unique and name is None:
            raise InvalidOption("_unique is given without _name", hint='Name the job: _name="CloneUrl(42)"')
        head = _head(
            options,
            self.name,
            self.app.handler_of(options),
            name=None if name is None else read_job_name(name),
            unique=unique,
            tags=read_tags(own.get("_tags", ())),
            run_anyway=read_bool("_run_anyway", own.get("_run_anyway", False)),
        )
        job = NewJob(
            check_id(own["_id"]) if "_id" in own else new_id(),
            options.priority,
            head.template(),
            codec.encode_call(self.name, args, kwargs, self.app.max_payload),
            None if delay is None else read_duration("_delay", delay),
            None if at is None else read_due(at),
            head.name or "" if unique else "",
            read_after(own.get("_after", ()), queue),
        )
        return Call(queue, job, read_durable(own["_durable"]) if "_durable" in own else self.app.durable)


_CALL_ONLY: Final = frozenset(
    {"_name", "_delay", "_at", "_after", "_unique", "_id", "_tags", "_run_anyway", "_durable"}
)
_ALL_OPTIONS: Final = _CALL_ONLY.union(_OPTIONS)
_MOST_SHAPES: Final = 1_000


def _no_such_option(key: str) -> InvalidOption:
    known = sorted([*_OPTIONS, *_CALL_ONLY])
    near = difflib.get_close_matches(key, known, 1)
    return InvalidOption(
        f"unknown call option {key!r}",
        hint=f"Did you mean {near[0]!r}?" if near else f"Use one of: {', '.join(known)}",
    )


class Handler(NamedTuple):
    """A failure handler as a head has it: its name, with its queue when that is another one, and its options."""

    place: str
    template: str | None


def _head(options: Options, task: str, handler: Handler | None, **more: Any) -> codec.JobHead:
    return codec.JobHead(
        enqueued_ms=0,
        priority=options.priority,
        retries=options.retries,
        task=task,
        expires_after_ms=options.expires_ms,
        lease_ms=options.lease_ms,
        limit_ms=options.time_limit_ms,
        backoff=options.backoff_text(),
        on_failure=None if handler is None else handler.place,
        handler_template=None if handler is None else handler.template,
        keep_ms=options.keep_result_ms,
        **more,
    )


class App:
    """The server, the tasks and their defaults. Making one does not connect."""

    def __init__(
        self,
        url: str | None = None,
        *,
        queue: str | QueueName,
        max_payload: int = codec.MAX_PAYLOAD,
        environments: Sequence[str] = (),
        patience: float = 30.0,
        durable: Durable | int | None = None,
    ) -> None:
        """`queue` is the queue of tasks that name none; `patience` is for how many seconds a lost connection is
        retried.

        With `durable` every enqueue waits until that many replicas have the job (see `Durable`), and raises
        `NotDurable` when they do not in time.
        """
        found = url or os.environ.get("QDECK_URL") or os.environ.get("REDIS_URL")
        if not found:
            raise InvalidOption(
                "no server URL is given", hint="Pass a URL such as redis://localhost:6379, or set QDECK_URL."
            )
        self.endpoint = Endpoint(found)
        self.environments = tuple(environments)
        self.max_payload = max_payload
        self.patience = patience
        self.durable = read_durable(durable)
        self.queue = self.queue_name(queue)
        self.tasks: dict[str, Task[Any, Any]] = {}
        self.schedules: dict[str, Definition] = {}
        self.task_modules: list[str] = []  # child processes import them too
        # Queues that other services write to, with the tasks that run there besides those declared for them.
        self.inboxes: dict[str, set[str]] = {}
        # What every worker of this app keeps open beside its work: other sources of jobs.
        self.beside: list[Callable[[], AbstractAsyncContextManager[Any]]] = []
        self.client = SyncClient(self.endpoint, patience=patience)
        self._warned = False
        self._aclients: dict[asyncio.AbstractEventLoop, AsyncClient] = {}

    def __repr__(self) -> str:
        return f"<App {self.endpoint} {self.queue}, {len(self.tasks)} tasks>"

    @overload
    def task(self, function: Callable[P, R], /) -> Task[P, R]: ...
    @overload
    def task(self, *, name: str | None = None, **options: Any) -> Callable[[Callable[P, R]], Task[P, R]]: ...
    def task(self, *function: Callable[..., Any], name: str | None = None, **options: Any) -> object:
        """Declare a function as a task: `@app.task` or `@app.task(retries=3, priority="HIGH", …)`."""

        def declare(target: Callable[..., Any]) -> Task[Any, Any]:
            if not callable(target):
                raise InvalidOption(
                    f"{target!r} cannot be a task", hint="Decorate a function: put @app.task before its def."
                )
            own = read_task_name(getattr(target, "__name__", None) if name is None else name)
            if own in self.tasks:
                raise InvalidOption(f"task {own!r} is declared twice", hint="Give one of them another name=")
            read = read_options(options, Options(queue=self.queue))
            read = read_options({"queue": self.queue_name(read.queue)}, read)
            task = self.tasks[own] = Task(self, target, own, read)
            return task

        return declare(function[0]) if function else declare

    def autodiscover(self, *patterns: str) -> list[str]:
        """Import the modules that declare tasks, such as `shop.tasks` or `shop.*.tasks`; return their names."""
        from qdeck._module_discovery import find_modules, import_module

        found = [name for pattern in patterns for name in find_modules(pattern)]
        for name in found:
            import_module(name)
        self.task_modules += [name for name in found if name not in self.task_modules]
        return found

    def accepts(self, queue: str, task: Task[Any, Any]) -> bool:
        """Return whether jobs of a queue may name this task."""
        if not self.inboxes or task.options.queue == queue:
            return True
        named = self.inboxes.get(queue)
        return task.options.queue not in self.inboxes if named is None else task.name in named

    def find_task(self, name: str) -> Task[Any, Any]:
        """Return the task of that name."""
        task = self.tasks.get(name)
        if task is None:
            near = difflib.get_close_matches(str(name), self.tasks, 1)
            hint = (
                f"Did you mean {near[0]!r}?" if near else f"Declared tasks: {', '.join(sorted(self.tasks)) or 'none'}"
            )
            raise UnknownTask(f"there is no task {name!r}", hint=hint)
        return task

    def queue_name(self, name: str | QueueName) -> str:
        """Return the text of a queue's name, checked."""
        return str(name if isinstance(name, QueueName) else QueueName.parse(name, environments=self.environments))

    def handler_of(self, options: Options) -> Handler | None:
        """Return the failure handler of a job with these options."""
        if options.on_failure is None:
            return None
        task = self.find_task(options.on_failure)
        place = task.name if task.options.queue == options.queue else f"{task.name} {task.options.queue}"
        if task.options == Options(queue=task.options.queue, on_failure=task.options.on_failure):
            return Handler(place, None)
        # Its job is made by a script, which has no tasks. A handler that fails calls no other.
        return Handler(place, _head(task.options, task.name, None).template().replace("\n", "\x1f"))

    def enqueue(self, task: str, *args: Any, **kwargs: Any) -> Job:
        """Enqueue a job of a task given by name."""
        return self.find_task(task).enqueue(*args, **kwargs)

    def schedule(
        self,
        name: str,
        task: Task[Any, Any] | str,
        /,
        *args: Any,
        cron: str,
        tz: str = "UTC",
        missed: str = "once",
        **kwargs: Any,
    ) -> str:
        """Run a task by a cron rule; return `declared`. It sends nothing: workers of the app register it.

        So does `qdeck schedule sync MODULE:APP`. A name keeps one schedule, however often it is registered. Options of
        the jobs go with an underscore, as in a call. `missed` says what to do with missed runs:
        `skip`, `once` or `all` (the last 100).
        """
        self._declare(name, task, args, kwargs, cron=cron, tz=tz, missed=missed)
        return "declared"

    def sync_schedules(self) -> dict[str, str]:
        """Register the declared schedules; return for each `made`, `changed` or `same`."""
        from qdeck._schedules import store

        return {name: self.client.run(store.register(one)) for name, one in self.schedules.items()}

    async def aschedule(self, name: str, task: Task[Any, Any] | str, /, *args: Any, **options: Any) -> str:
        """Run a task by a cron rule, in asyncio; the options are those of `schedule`."""
        from qdeck._schedules import store

        rule = {key: options.pop(key) for key in ("cron", "tz", "missed") if key in options}
        return await self.aclient().run(store.register(self._declare(name, task, args, options, **rule)))

    def _declare(
        self,
        name: str,
        task: Task[Any, Any] | str,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        *,
        cron: str,
        tz: str = "UTC",
        missed: str = "once",
    ) -> Definition:
        from qdeck._schedules.model import Definition

        found = task if isinstance(task, Task) else self.find_task(task)
        if "_id" in kwargs:
            raise InvalidOption(
                "a schedule takes no _id", hint="Leave _id out: each of its jobs gets an id of its own."
            )
        call = found.call(*args, **kwargs)
        made = Definition.of(name, call.queue, call.job, cron=cron, tz=tz, missed=missed)
        self.schedules[name] = made
        return made

    def enqueue_many(self, calls: Iterable[Call]) -> list[Job]:
        """Enqueue jobs in blocking code, one round trip per slice. Jobs may wait for others of the same list."""
        if not self._warned and asyncio._get_running_loop() is not None:
            self._warn_of_loop()
        given = list(calls)
        jobs = self._jobs(given, self.client.run(enqueue_calls(given)))
        if any(call.durable for call in given):
            self.client.run(secure_calls(given, jobs))
        return jobs

    def _warn_of_loop(self) -> None:
        self._warned = True
        level, frame = 1, sys._getframe()
        while frame.f_globals.get("__name__") == __name__ and frame.f_back is not None:
            level, frame = level + 1, frame.f_back
        warnings.warn(
            "a blocking enqueue blocks the running event loop: use `await task.aenqueue(…)`",
            RuntimeWarning,
            stacklevel=level,
        )

    async def aenqueue_many(self, calls: Iterable[Call]) -> list[Job]:
        """Enqueue jobs in asyncio, one round trip per slice."""
        given = list(calls)
        jobs = self._jobs(given, await self.aclient().run(enqueue_calls(given)))
        if any(call.durable for call in given):
            await self.aclient().run(secure_calls(given, jobs))
        return jobs

    def aclient(self) -> AsyncClient:
        """Return the client of the running event loop."""
        loop = asyncio.get_running_loop()
        client = self._aclients.get(loop)
        if client is None:
            # Connections hold their loop, so nothing else would ever let go of those of an `asyncio.run` that is over.
            for other in [known for known in list(self._aclients) if known.is_closed()]:
                self._aclients.pop(other, None)
            client = self._aclients[loop] = AsyncClient(self.endpoint, patience=self.patience)
        return client

    def close(self) -> None:
        """Close this thread's connection."""
        self.client.close()

    async def aclose(self) -> None:
        """Close the connections of the running event loop."""
        client = self._aclients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.close()

    def _jobs(self, calls: list[Call], made: list[EnqueueResult]) -> list[Job]:
        return [Job(self, call.queue, m.id, m.created) for call, m in zip(calls, made, strict=True)]
