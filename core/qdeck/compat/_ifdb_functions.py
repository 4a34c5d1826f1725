"""The functions that a worker of the IFDB facade may call, and their arguments."""

from __future__ import annotations

import contextlib
import functools
import inspect
import logging
import sys
import traceback
from datetime import datetime
from typing import TYPE_CHECKING, Any

from qdeck._app import App, Task
from qdeck._errors import InvalidOption
from qdeck._job_context import Failure, current_job
from qdeck._task_options import Options
from qdeck._worker.output_capture import write_to_current
from qdeck.compat._ifdb_records import TaskRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from types import ModuleType

_log = logging.getLogger("qdeck.compat.ifdb")


def check_function(func: Callable[..., Any]) -> str:
    """Return the name of a function with its module, by which a worker finds it."""
    module, name = getattr(func, "__module__", None), getattr(func, "__name__", None)
    if not callable(func) or not module or not name or getattr(func, "__qualname__", name) != name:
        raise InvalidOption(
            f"{func!r} cannot be a task", hint="Give a function that stands in a module, not a method or a lambda."
        )
    return f"{module}.{name}"


class Functions(dict[str, Task[Any, Any]]):
    """The functions of some modules, by `module.name`. No name leads anywhere else."""

    def __init__(self, app: App, modules: Iterable[ModuleType]) -> None:
        super().__init__()
        self._app = app
        self._modules = {module.__name__: module for module in modules}

    def get(self, name: str, default: Any = None) -> Any:
        """Return the task of a function, when it stands in one of the modules."""
        if name not in self:
            found = self._find(name)
            if found is None:
                return default
            self[name] = Task(self._app, _adapted(found), name, Options(queue=self._app.queue))
        return self[name]

    def __iter__(self) -> Iterator[str]:
        """Yield everything that a worker may run, found already or not."""
        for where, module in self._modules.items():
            yield from (f"{where}.{own}" for own in list(vars(module)) if self._find(f"{where}.{own}") is not None)

    def _find(self, name: str) -> Callable[..., Any] | None:
        where, _, own = name.rpartition(".")
        module = self._modules.get(where)
        found = None if module is None else vars(module).get(own)
        # Names that the module only imported are not its own: `from os import system` must not offer a shell.
        if callable(found) and not isinstance(found, type) and getattr(found, "__module__", None) == where:
            return found  # type: ignore[no-any-return]  # a module holds anything
        return None


def _adapted(func: Callable[..., Any]) -> Callable[..., Any]:
    """Call a failure handler as IFDB did, with the task and its call; log as its worker did."""
    if inspect.iscoroutinefunction(func):

        @functools.wraps(func)
        async def acall(*args: Any, **kwargs: Any) -> Any:
            with _logged(func):
                return await func(*_arguments(args), **kwargs)

        return acall

    @functools.wraps(func)
    def call(*args: Any, **kwargs: Any) -> Any:
        _tidy_connections()
        try:
            with _logged(func):
                return func(*_arguments(args), **kwargs)
        finally:
            _tidy_connections()

    return call


@contextlib.contextmanager
def _logged(func: Callable[..., Any]) -> Iterator[None]:
    """Log the name of the task, and its failure with the traceback, also into the task's own log."""
    job = current_job()
    name = (job.name or job.task) if job is not None else f"{func.__module__}.{func.__name__}"
    _log.info("Executing task: %s", name)
    write_to_current(f"Started at {_now()}\n")
    try:
        yield
    except Exception as error:
        _log.exception("Task %s failed: %s", name, type(error).__name__)
        write_to_current(f"Failed: {''.join(traceback.format_exception(error))}")
        raise
    write_to_current(f"Completed successfully at {_now()}\n")


def _now() -> str:
    return datetime.now().astimezone().isoformat(timespec="seconds")


def _arguments(args: tuple[Any, ...]) -> tuple[Any, ...]:
    # A payload never holds a Failure: only the worker makes one.
    if len(args) == 1 and isinstance(args[0], Failure):
        record = TaskRecord.of(args[0])
        return record, record.call
    return args


def _tidy_connections() -> None:
    """Close Django's database connections at the end of a task, as Django does at the end of a request."""
    db = sys.modules.get("django.db")
    if db is not None:
        db.close_old_connections()
