"""The names of IFDB's task queue, on qdeck: callers stay unchanged.

`Enqueue`, `EnqueueOrGet`, `Worker`, and `task_queue` with `enqueue`, `enqueue_or_get`, `worker`. A worker runs
functions of the modules that it was given, never of a module that only a payload names.
"""

from __future__ import annotations

import hashlib
import importlib
import logging
import os
import re
import sys
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from qdeck._app import App
from qdeck._engine import codec, keys, programs, scripts, transitions
from qdeck._engine.job_ids import new_id
from qdeck._errors import InvalidOption, UsageError
from qdeck._schedules import store
from qdeck._schedules.model import Definition
from qdeck._task_options import Options, read_due, read_job_name, read_options, read_priority, read_task_name
from qdeck.compat._ifdb_functions import Functions, check_function
from qdeck.compat._ifdb_records import Enqueued, TaskRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import datetime
    from types import ModuleType

    from qdeck._engine.transitions import EnqueueResult, NewJob
    from qdeck._redis.commands import Program
    from qdeck.compat._ifdb_document import DocumentKeys

__all__ = ["Enqueue", "EnqueueOrGet", "Enqueued", "TaskQueue", "TaskRecord", "Worker", "task_queue"]

_log = logging.getLogger(__name__)
QUEUE: Final = "ifdb:actions"
URL: Final = "redis://localhost:6379/0"
PRIORITY: Final = 100
RETRIES: Final = 3
RETRY_MINUTES: Final = 2000
MOST_NAME: Final = 200  # characters
KEEP_DONE: Final = timedelta(days=14)  # as long as TaskQueueCleanup kept successful tasks
KEEP_DONE_MOST: Final = 10_000
_NO_ARGUMENTS: Final = b"[[],{}]"
KEEP_FAILED: Final = timedelta(days=3650)  # failed tasks were never removed automatically


class TaskQueue:
    """One queue of tasks. Making one does not connect; the URL is read at first use."""

    task_queue_key: Final = "ifdb:task_queue"
    task_data_key: Final = "ifdb:task_data"

    def __init__(
        self, url: str | None = None, *, queue: str = QUEUE, modules: Iterable[str | ModuleType] | None = None
    ) -> None:
        """`modules` are those whose functions a worker may run; `url` is by default that of Django or REDIS_URL."""
        self._url = url
        self._queue = queue
        self._modules = None if modules is None else tuple(modules)
        self._app: App | None = None

    @property
    def app(self) -> App:
        """The app underneath, for what this facade does not offer."""
        if self._app is None:
            self._app = App(self._url or _server_url(), queue=self._queue)
        return self._app

    @property
    def redis_client(self) -> DocumentKeys:
        """The keys of IFDB's migration plan, for the commands of that plan, as if the tasks were under them."""
        from qdeck.compat._ifdb_document import DocumentKeys

        return DocumentKeys(self.app)

    def enqueue(
        self,
        func: Callable[..., Any],
        *args: Any,
        name: str | None = None,
        onfail: Callable[..., Any] | None = None,
        priority: int = PRIORITY,
        retries: int = RETRIES,
        retry_minutes: float = RETRY_MINUTES,
        dependency: object = None,
        scheduled_time: datetime | None = None,
        cron: str | None = None,
        **kwargs: Any,
    ) -> Enqueued:
        """Enqueue a call `func(*args, **kwargs)`; if it fails, retry it `retries` times, `retry_minutes` apart."""
        name = name or None  # an empty one counted as none
        job = self._job(func, args, kwargs, name, onfail, priority, retries, retry_minutes)
        job = job._replace(due_ms=_due(scheduled_time), after=_refs(dependency))
        if cron:
            return self._repeat(job, name, cron)
        made = self.app.client.run(_enqueue(self.app.queue, job, name and _shortened(name)))
        return Enqueued(self.app, made.id, name or _task_of(job), made.created)

    def enqueue_or_get(self, func: Callable[..., Any], *args: Any, name: str | None = None, **options: Any) -> Enqueued:
        """Return the unfinished task of that name, or a new one. A task that is found gets the priority of this
        call.
        """
        if not name or options.get("cron"):
            return self.enqueue(func, *args, name=name, **options)
        given = {key: options.pop(key) for key in ("onfail", "priority", "retries", "retry_minutes") if key in options}
        when = {key: options.pop(key, None) for key in ("dependency", "scheduled_time")}
        options.pop("cron", None)
        job = self._job(func, args, options, name, **given)
        job = job._replace(due_ms=_due(when["scheduled_time"]), after=_refs(when["dependency"]))
        made = self.app.client.run(_enqueue_or_get(self.app.queue, job._replace(unique=_shortened(name))))
        return Enqueued(self.app, made.id, name, made.created)

    def worker(
        self,
        modules: Iterable[str | ModuleType] | None = None,
        *,
        concurrency: int = 1,
        on_event: Callable[[dict[str, Any]], None] | None = None,
    ) -> None:
        """Run tasks until SIGTERM, by default one at a time. SIGUSR1 makes it poll at once, SIGHUP restarts it.

        `modules` are those that tasks and failure handlers may come from; without it those of the queue, of the setting
        or of the environment's QDECK_TASK_MODULES.
        """
        from qdeck.compat._ifdb_worker import run_worker

        app = self.worker_app(modules)
        app.client.run(_keep_long(app.queue))
        run_worker(app, concurrency=concurrency, on_event=on_event or _log_event)

    def worker_app(self, modules: Iterable[str | ModuleType] | None = None) -> App:
        """Return an app whose tasks are the functions of these modules, for `qdeck worker site.jobs:app -c 1`."""
        app = App(str(self.app.endpoint.url), queue=self._queue)
        app.tasks = Functions(app, _modules(modules if modules is not None else self._modules))
        return app

    def _job(
        self,
        func: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        name: str | None,
        onfail: Callable[..., Any] | None = None,
        priority: int = PRIORITY,
        retries: int = RETRIES,
        retry_minutes: float = RETRY_MINUTES,
    ) -> NewJob:
        task = read_task_name(check_function(func))
        fixed = {"backoff": "fixed", "retry_delay": _minutes(retry_minutes), "max_delay": _minutes(retry_minutes)}
        options = read_options(fixed | {"retries": retries}, Options(queue=self.app.queue))
        handler = None if onfail is None else read_task_name(check_function(onfail))
        place = read_priority("priority", priority)
        head = codec.JobHead(
            enqueued_ms=0,
            priority=place,
            retries=options.retries,
            task=task,
            name=None if name is None else read_job_name(_shortened(name)),
            unique=name is not None,
            backoff=options.backoff_text(),
            on_failure=handler,
            handler_template=None
            if handler is None
            else f"{place} 0 {handler}",  # errors of a handler were only logged
        )
        body = codec.encode_call(task, args, kwargs, self.app.max_payload)
        return transitions.NewJob(new_id(), head.priority, head.template(), body)

    def _repeat(self, job: NewJob, name: str | None, cron: str) -> Enqueued:
        """Register a recurring task, and run it for the first time when it is new."""
        if job.after:
            raise InvalidOption(
                "both cron and dependency are given",
                hint="A recurring task cannot wait for another task; let that task enqueue it when it is done.",
            )
        plain = job._replace(template=_without_name_held(job.template))
        label = name or _task_of(job)
        schedule = _schedule_name(label) if name or job.body == _NO_ARGUMENTS else _schedule_of_call(label, job.body)
        definition = Definition.of(schedule, self.app.queue, plain._replace(due_ms=None), cron=cron)
        run = self.app.client.run
        if run(store.register(definition)) != "made":
            turn = definition.rule().next(run(store.clock()) // 1000) or 0
            return Enqueued(self.app, definition.run_id(turn), label, created=False)
        if job.due_ms is not None:
            run(store.start_at(schedule, job.due_ms))
        [made] = run(programs.enqueue(self.app.queue, [plain._replace(id=f"cron:{schedule}:{job.id}")]))
        run(store.record_job(schedule, made.id))
        return Enqueued(self.app, made.id, label, made.created)


def _shortened(name: str) -> str:
    """Return a name that a job can have: IFDB's had up to 255 characters."""
    if not isinstance(name, str) or len(name) <= MOST_NAME:
        return name
    return f"{name[: MOST_NAME - 13]}-{hashlib.sha256(name.encode()).hexdigest()[:12]}"


def _enqueue(queue: str, job: NewJob, name: str | None) -> Program[EnqueueResult]:
    """Enqueue the job; `EnqueueOrGet` finds it by its name, unless there is an earlier one."""
    if name is not None:
        [made] = yield from programs.enqueue(queue, [job._replace(unique=name)])
        if made.id == job.id:
            return made
    [made] = yield from programs.enqueue(queue, [job._replace(template=_without_name_held(job.template), unique="")])
    if name is not None:
        yield from _pass_name(queue, name, job.id)
    return made


def _pass_name(queue: str, name: str, job_id: str = "") -> Program[None]:
    """Give a name whose holder has ended to the next job that has it; with an id, add this one to those that wait."""
    names = keys.key(queue, "unique").removesuffix(b"unique") + b"names"
    yield from programs.run_on_queue(scripts.load("compat/names"), queue, [0, name, job_id], [names])


def _enqueue_or_get(queue: str, job: NewJob) -> Program[EnqueueResult]:
    yield from _pass_name(queue, job.unique)
    [made] = yield from programs.enqueue(queue, [job])
    if made.id != job.id:
        script = scripts.load("compat/urge")
        yield from programs.run_on_queue(script, queue, [0, made.id, job.priority])
    return made


def _without_name_held(template: str) -> str:
    return "\n".join(line for line in template.split("\n") if line != "u")


def _task_of(job: NewJob) -> str:
    return job.template.split("\n", 1)[0].split(" ", 2)[2]


def _keep_long(queue: str) -> Program[None]:
    """Keep ended tasks as long as IFDB kept them, unless the queue has settings of its own."""
    wanted = {
        "done_ttl": str(round(KEEP_DONE.total_seconds() * 1000)),
        "done_max": str(KEEP_DONE_MOST),
        "dead_ttl": str(round(KEEP_FAILED.total_seconds() * 1000)),
    }
    yield from programs.make_queue(queue)
    key = keys.key(queue, "meta")
    there = yield (b"HMGET", key, *wanted)
    missing = {name: value for (name, value), old in zip(wanted.items(), there, strict=True) if old is None}
    if missing:
        yield from programs.call(transitions.configure(queue, missing))


def _due(when: datetime | None) -> int | None:
    if when is None:
        return None
    # A time without a zone is in the zone of this machine, which Django sets.
    return read_due(when.astimezone() if getattr(when, "tzinfo", 0) is None else when)


def _refs(dependency: object) -> tuple[str, ...]:
    if dependency is None or dependency == "":
        return ()
    return (str(getattr(dependency, "id", dependency)),)


def _minutes(value: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 5_000_000:
        raise InvalidOption(f"retry_minutes is {value!r}", hint="Give how many minutes lie between two runs.")
    return value * 60


def _schedule_name(name: str) -> str:
    """Return a schedule's name for the name of a task, which may be any text."""
    plain = re.sub(r"[^A-Za-z0-9._:-]", "-", name).lstrip("._:-")
    if plain == name and len(name) <= 96:
        return name
    return f"{plain[:80]}-{hashlib.sha256(name.encode()).hexdigest()[:12]}".lstrip("-")


def _schedule_of_call(task: str, body: bytes) -> str:
    """Return a schedule's name for a call without one: the same function with other arguments has a schedule of its
    own.
    """
    return f"{_schedule_name(task)[:80]}-{hashlib.sha256(body).hexdigest()[:12]}"


def _setting(name: str) -> Any:
    """Return a setting of Django's, where Django is in use."""
    if "django" not in sys.modules and not os.environ.get("DJANGO_SETTINGS_MODULE"):
        return None
    try:
        settings = importlib.import_module("django.conf").settings
    except ImportError:
        return None
    if not settings.configured and not os.environ.get("DJANGO_SETTINGS_MODULE"):
        return None
    return getattr(settings, name, None)


def _server_url() -> str:
    return str(_setting("REDIS_URL") or os.environ.get("REDIS_URL") or URL)


def _modules(given: Iterable[str | ModuleType] | None) -> list[ModuleType]:
    if given is None:
        given = _setting("QDECK_TASK_MODULES") or os.environ.get("QDECK_TASK_MODULES", "")
    if isinstance(given, str):
        given = [word.strip() for word in given.split(",") if word.strip()]
    found = []
    for module in given or ():
        try:
            found.append(importlib.import_module(module) if isinstance(module, str) else module)
        except ModuleNotFoundError as error:
            raise UsageError(f"there is no module {module!r}", hint=f"{error}; check sys.path.") from error
    if not found:
        raise UsageError(
            "QDECK_TASK_MODULES is not set: the worker was given no modules to run tasks from",
            hint='Set it in Django\'s settings or in the environment, or call Worker(modules=["games.tasks.uploads"]).',
        )
    return found


def _log_event(event: dict[str, Any]) -> None:
    word = event.get("event")
    level = logging.WARNING if word in ("failed", "timeout", "lease_lost", "waiting", "unreadable") else logging.INFO
    _log.log(level, "%s", " ".join(f"{key}={value}" for key, value in event.items() if key != "worker"))


task_queue: Final = TaskQueue()


def Enqueue(func: Callable[..., Any], *args: Any, **options: Any) -> Enqueued:  # noqa: N802 - the name that callers have
    """Enqueue a call `func(*args)`; options and arguments are those of `TaskQueue.enqueue`."""
    return task_queue.enqueue(func, *args, **options)


def EnqueueOrGet(func: Callable[..., Any], *args: Any, **options: Any) -> Enqueued:  # noqa: N802 - the same
    """Return the unfinished task of that name, or a new one."""
    return task_queue.enqueue_or_get(func, *args, **options)


def Worker(*args: Any, **options: Any) -> None:  # noqa: N802 - the same
    """Run tasks until SIGTERM; the options are those of `TaskQueue.worker`."""
    task_queue.worker(*args, **options)
