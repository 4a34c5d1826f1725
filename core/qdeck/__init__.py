"""qdeck: a job queue on Redis or Valkey whose every transition is one atomic step on the server.

Declare tasks with `App`, enqueue their jobs from blocking or asyncio code, run them with `qdeck worker module:app`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from qdeck._lazy_imports import attach

if TYPE_CHECKING:
    from qdeck._app import App, Task
    from qdeck._calls import Call, chain, group
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
        UnreachableCause,
        UsageError,
    )
    from qdeck._job import Job, NotDurable
    from qdeck._job_context import Failure, JobContext, current_job
    from qdeck._queue_names import QueueName
    from qdeck._task_options import Priority

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
    "UnreachableCause",
    "UsageError",
    "__version__",
    "chain",
    "current_job",
    "group",
]

# Imported at first use: the client library takes longer to import than most commands take to run, and a program that
# only needs a queue's name or the version does not need it.
_HOMES: Final = {
    "qdeck._app": "App Task",
    "qdeck._calls": "Call chain group",
    "qdeck._job_context": "Failure JobContext current_job",
    "qdeck._durability": "Durability Durable",
    "qdeck._errors": (
        "DependencyCycle InvalidFilter InvalidName InvalidOption JobCancelled JobFailed LayoutMismatch LeaseLost "
        "NotAllowed OutcomeUnknown PayloadNotSerializable PayloadTooLarge QdeckError Reject ResultTimeout Retry "
        "ServerRefused ServerUnreachable TimeLimitExceeded UnknownDependency UnknownJob UnknownTask "
        "UnreachableCause UsageError"
    ),
    "qdeck._job": "Job NotDurable",
    "qdeck._queue_names": "QueueName",
    "qdeck._task_options": "Priority",
}

if not TYPE_CHECKING:
    __getattr__, __dir__ = attach(__name__, _HOMES)
