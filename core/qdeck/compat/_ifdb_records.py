"""The values of the IFDB facade: a handle on an enqueued task, and a failed task for its handler."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Self

from qdeck._engine import codec, keys
from qdeck._job import look
from qdeck._redis.commands import with_errors

if TYPE_CHECKING:
    from qdeck._app import App
    from qdeck._job_context import Failure
    from qdeck._redis.commands import Program


class Enqueued(str):
    """The id of a task, with its `name`; and as of now `pending`, `success`, `fail`, `retries_left`, `log`."""

    __slots__ = ("_app", "created", "name")

    _app: App
    name: str
    created: bool

    def __new__(cls, app: App, job_id: str, name: str, created: bool) -> Self:
        """Return the id of a task on the server of that app."""
        made = super().__new__(cls, job_id)
        made._app, made.name, made.created = app, name, created
        return made

    @property
    def id(self) -> str:
        """The id as plain text."""
        return str(self)

    pk = id

    @property
    def state(self) -> str:
        """The task's state now."""
        return self._app.client.run(look(self._app.queue, str(self))).state

    @property
    def pending(self) -> bool:
        """Whether it has not ended: it runs now, later, or after another."""
        return self.state in ("ready", "delayed", "blocked", "running")

    @property
    def success(self) -> bool:
        """Whether it has succeeded."""
        return self.state == "done"

    @property
    def fail(self) -> bool:
        """Whether it has failed and is not retried."""
        return self.state == "dead"

    @property
    def retries_left(self) -> int:
        """How often it is retried by itself if it fails; 0 for one that is gone."""
        return self._app.client.run(_read_retries_left(self._app.queue, str(self)))

    @property
    def log(self) -> str:
        """What it printed and logged when it ran last."""
        return self._app.client.run(_read_log(self._app.queue, str(self))).decode("utf-8", "replace")


def _read_retries_left(queue: str, job_id: str) -> Program[int]:
    head, attempts = yield [(b"HGET", keys.key(queue, part), job_id) for part in ("head", "attempts")]
    failed = int(attempts.split(b" ")[0]) if attempts else 0
    return max(0, codec.read_head(head).retries - failed) if head else 0


def _read_log(queue: str, job_id: str) -> Program[bytes]:
    key = keys.key(queue, "log")
    [text] = yield with_errors((b"HGET", key, job_id), key=key)
    return text if isinstance(text, bytes) else b""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRecord:
    """A task that failed and is not retried, as its failure handler gets it, with the fields of IFDB's own record."""

    id: str
    name: str
    call: dict[str, Any]
    enqueue_time: datetime
    finish_time: datetime
    log: str
    error_class: str | None
    error_message: str | None
    attempts: int
    retries_left: int = 0
    pending: bool = False
    success: bool = False
    fail: bool = True

    @property
    def pk(self) -> str:
        """The id, as Django calls it."""
        return self.id

    @classmethod
    def of(cls, failure: Failure) -> Self:
        """Return the record of a job that died."""
        module, _, name = failure.task.rpartition(".")
        why = failure.traceback or f"{failure.reason} {failure.error_class or ''} {failure.error_message or ''}"
        return cls(
            id=failure.id,
            name=failure.name or failure.task,
            call={"module": module, "name": name, "argv": failure.args, "kwarg": failure.kwargs},
            enqueue_time=_moment(failure.enqueued_ms),
            finish_time=_moment(failure.failed_ms),
            log=why.strip(),
            error_class=failure.error_class,
            error_message=failure.error_message,
            attempts=failure.attempts,
        )


def _moment(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)
