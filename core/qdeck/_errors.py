"""The errors of qdeck, with one root, each with a hint.

QdeckError
├── UsageError (also ValueError)         an argument is invalid; nothing was changed
│   ├── InvalidName                      a queue name that does not fit the grammar
│   ├── InvalidOption                    an option out of its range, or a wrong URL
│   ├── InvalidFilter                    a filter that does not parse; points at the place
│   ├── PayloadTooLarge                  arguments over the size limit
│   ├── PayloadNotSerializable           arguments that are not JSON
│   ├── UnknownDependency                a job waits for one that does not exist
│   └── DependencyCycle                  jobs that wait for each other in a circle
├── UnknownTask (also LookupError)       no such task in the app
├── UnknownJob (also LookupError)        no such job in the queue
├── ServerUnreachable (also ConnectionError)  the server does not answer; `cause` is the reason
├── NotAllowed (also PermissionError)    the server, or a read-only context, refuses
├── ServerRefused                        the server cannot take writes now (memory, disk, replica)
├── OutcomeUnknown                       sent without a reply: it may have happened; safe to repeat
├── NotDurable                           enqueued, but not as durable as requested
├── LayoutMismatch                       the queue was written by another version of qdeck
├── ResultTimeout (also TimeoutError)    the job did not end in time
├── JobFailed                            the job whose result was requested is dead or cancelled
├── Reject                               raised by a handler: do not retry
├── Retry                                raised by a handler: run again, after a delay
├── LeaseLost                            another worker has the job now
├── TimeLimitExceeded (also TimeoutError) the handler ran past its time limit
└── JobCancelled                         the job was cancelled while it ran
"""

from __future__ import annotations

from enum import StrEnum


class QdeckError(Exception):
    """The root of all errors of qdeck: `str(error)` names the value, `error.hint` is what to do about it."""

    def __init__(self, message: str = "", *, hint: str = "") -> None:
        super().__init__(message or (type(self).__doc__ or "").strip().splitlines()[0])
        self.hint = hint


class UsageError(QdeckError, ValueError):
    """An argument is invalid; nothing was changed."""


class InvalidName(UsageError):
    """A queue name that does not fit the grammar."""


class InvalidOption(UsageError):
    """An option is out of its range."""


class InvalidFilter(UsageError):
    """A filter that does not parse; `position` is where, counted from 0."""

    def __init__(self, message: str, *, position: int = 0, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.position = position


class PayloadTooLarge(UsageError):
    """The arguments of a job are over the size limit."""


class PayloadNotSerializable(UsageError):
    """The arguments of a job cannot be written as JSON."""


class UnknownDependency(UsageError):
    """A job waits for a job that does not exist."""


class DependencyCycle(UsageError):
    """Jobs wait for each other in a circle."""


class UnknownTask(QdeckError, LookupError):
    """No such task is declared in the app."""


class UnknownJob(QdeckError, LookupError):
    """No such job is in the queue."""


class UnreachableCause(StrEnum):
    """Why a server is out of reach."""

    REFUSED = "refused"
    TIMED_OUT = "timed_out"
    CLOSED = "closed"
    NO_SUCH_HOST = "no_such_host"
    CERTIFICATE = "certificate"
    PROTOCOL = "protocol"
    LOADING = "loading"
    UNKNOWN = "unknown"


class ServerUnreachable(QdeckError, ConnectionError):
    """The server does not answer; `cause` is the reason, and `server` its host and port, empty for a socket file."""

    def __init__(
        self,
        message: str = "",
        *,
        hint: str = "",
        cause: UnreachableCause = UnreachableCause.UNKNOWN,
        server: str = "",
    ) -> None:
        super().__init__(message, hint=hint)
        self.cause = cause
        self.server = server


class NotAllowed(QdeckError, PermissionError):
    """The server, or a read-only context, refuses this."""

    @classmethod
    def read_only(cls, address: object, *, hint: str) -> NotAllowed:
        """Return the refusal of a write to a server that is read-only in its context."""
        return cls(f"refused: {address} is read-only in this context", hint=hint)


class ServerRefused(QdeckError):
    """The server cannot take writes now."""


class OutcomeUnknown(QdeckError):
    """A request was sent without a reply: it may have happened, and it is safe to repeat."""


class LayoutMismatch(QdeckError):
    """A queue was written by another version of qdeck, or a key has another type."""

    @staticmethod
    def words(found: str, wanted: str) -> str:
        """Return which version wrote a queue of layout `found`, where this qdeck reads `wanted`."""
        older = found.isdecimal() and found.isascii() and int(found[:9]) < int(wanted)
        writer = "an earlier development version" if older else "a newer version"
        return f"written by {writer} (layout {found}); this qdeck reads layout {wanted}"

    @classmethod
    def of(cls, queue: str, found: str, wanted: str) -> LayoutMismatch:
        """Return the error for a queue of layout `found`, with what to do."""
        words = cls.words(found, wanted)
        hint = "Upgrade this qdeck: pip install -U qdeck"
        if "earlier" in words:
            keys = f"redis-cli --scan --pattern '{{{queue}}}:*' | xargs redis-cli UNLINK"
            hint = f"Let the qdeck that wrote it finish its jobs, then delete its keys: {keys}"
        return cls(f"queue {queue!r} was {words}", hint=hint)


class ResultTimeout(QdeckError, TimeoutError):
    """The job did not end in time."""


class JobFailed(QdeckError):
    """The job whose result was requested is dead or cancelled."""


class Reject(QdeckError):
    """Raise this in a handler to send the job to the dead letters without another attempt."""


class Retry(QdeckError):
    """Raise this in a handler to run the job again, after `delay` seconds if given."""

    def __init__(self, message: str = "", *, delay: float | None = None) -> None:
        super().__init__(message)
        self.delay = delay


class LeaseLost(QdeckError):
    """Another worker has the job now; the result of this attempt is not counted."""


class TimeLimitExceeded(QdeckError, TimeoutError):
    """The handler ran past its time limit."""


class JobCancelled(QdeckError):
    """The job was cancelled while it ran."""
