"""qdeck: a job queue on Redis or Valkey whose every transition is one atomic step on the server.

Declare tasks with `App`, enqueue their jobs from blocking or asyncio code, run them with `qdeck worker module:app`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from qdeck._app import App, Task
    from qdeck._calls import Call, chain, group
    from qdeck._context import Failure, JobContext, current_job
    from qdeck._durability import Durability, Durable
    from qdeck._errors import (
        DependencyCycle,
        InvalidFilter,
        InvalidName,
        InvalidOption,
        JobCancelled,
        JobFailed,
        LayoutMismatch,
        LeaseLost,
        NotAllowed,
        OutcomeUnknown,
        PayloadNotSerializable,
        PayloadTooLarge,
        QdeckError,
        Reject,
        ResultTimeout,
        Retry,
        ServerRefused,
        ServerUnreachable,
        TimeLimitExceeded,
        UnknownDependency,
        UnknownJob,
        UnknownTask,
        UsageError,
    )
    from qdeck._job import Job, NotDurable
    from qdeck._names import QueueName
    from qdeck._options import Priority

from qdeck._version import __version__

__all__ = [
    "App",
    "Call",
    "DependencyCycle",
    "Durability",
    "Durable",
    "Failure",
    "InvalidFilter",
    "InvalidName",
    "InvalidOption",
    "Job",
    "JobCancelled",
    "JobContext",
    "JobFailed",
    "LayoutMismatch",
    "LeaseLost",
    "NotAllowed",
    "NotDurable",
    "OutcomeUnknown",
    "PayloadNotSerializable",
    "PayloadTooLarge",
    "Priority",
    "QdeckError",
    "QueueName",
    "Reject",
    "ResultTimeout",
    "Retry",
    "ServerRefused",
    "ServerUnreachable",
    "Task",
    "TimeLimitExceeded",
    "UnknownDependency",
    "UnknownJob",
    "UnknownTask",
    "UsageError",
    "__version__",
    "chain",
    "current_job",
    "group",
]

# Imported when first asked for: the client library takes longer to import than most commands take to run, and who only
# wants a queue's name or the version needs none of it.
_HOMES: Final = {
    "_app": "App Task",
    "_calls": "Call chain group",
    "_context": "Failure JobContext current_job",
    "_durability": "Durability Durable",
    "_job": "Job NotDurable",
    "_names": "QueueName",
    "_options": "Priority",
}
_HOME_OF: Final = {name: home for home, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = _HOME_OF.get(name, "_errors")
    value = globals()[name] = getattr(import_module(f"{__name__}.{home}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
