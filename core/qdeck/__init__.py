"""qdeck: a job queue on Redis or Valkey whose every transition is one atomic step on the server.

Declare tasks with `App`, enqueue their jobs from blocking or asyncio code, run them with `qdeck worker module:app`.
"""

from __future__ import annotations

from qdeck._app import App, Call, Task, chain, group
from qdeck._context import Failure, JobContext, current_job
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
from qdeck._job import Job
from qdeck._names import QueueName
from qdeck._options import Priority

__version__ = "0.1.0"

__all__ = [
    "App",
    "Call",
    "DependencyCycle",
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
