"""Error replies of a server as our errors: what failed, and what to do about it."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from redis.exceptions import (
    AskError,
    ClusterDownError,
    MasterDownError,
    MovedError,
    NoPermissionError,
    NoScriptError,
    OutOfMemoryError,
    ReadOnlyError,
    ResponseError,
    TryAgainError,
)

from qdeck._errors import (
    LayoutMismatch,
    NotAllowed,
    OutcomeUnknown,
    QdeckError,
    ServerRefused,
    ServerUnreachable,
    UnknownDependency,
    UsageError,
)
from qdeck._redis.commands import raw_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qdeck._redis.commands import Command


# No answer of a server, which nothing but another try can mend.
LOST: Final = (OutcomeUnknown, ServerUnreachable)


class UnknownScript(QdeckError):
    """The server does not have a script: its source has to be sent."""


class NewQueue(QdeckError):
    """The queue of a script does not exist yet."""


class Late(QdeckError):
    """What a client read before is too old to act on."""


class ReplyCode(StrEnum):
    """The meaning of error replies that programs handle."""

    BUSY = "BUSY"
    GROUP_EXISTS = "BUSYGROUP"
    NO_GROUP = "NOGROUP"
    UNBLOCKED = "UNBLOCKED"
    NO_KEY = "no such key"
    NO_DATABASE = "DB index is out of range"
    NO_CLUSTER = "cluster support disabled"
    NO_APPENDONLY = "appendonly is disabled"


# Servers have a first word for some of them; of the others they all have the same text, which is compared here alone.
_FIRST_WORDS: Final = (ReplyCode.BUSY, ReplyCode.GROUP_EXISTS, ReplyCode.NO_GROUP, ReplyCode.UNBLOCKED)
_UNKNOWN_COMMAND: Final = re.compile(r"unknown command ['`]([^'`]*)['`]")

# The first words of errors, which redis-py takes off for the classes it knows. Some of them it returns as plain errors
# before version 8, except to its own cluster client.
_CLASSES: Final[dict[str, type[ResponseError]]] = {
    "ASK": AskError,
    "CLUSTERDOWN": ClusterDownError,
    "MASTERDOWN": MasterDownError,
    "MOVED": MovedError,
    "NOPERM": NoPermissionError,
    "OOM": OutOfMemoryError,
    "READONLY": ReadOnlyError,
    "TRYAGAIN": TryAgainError,
}
_WORDS: Final = {kind: word for word, kind in _CLASSES.items()}
_REFUSALS: Final = {
    "OOM": "the server is out of memory: raise maxmemory or free memory",
    "MISCONF": "the server cannot save to disk: see its log, and repair the disk",
    "NOREPLICAS": "too few replicas are connected: see min-replicas-to-write",
    "READONLY": "this server is a replica: connect to the master, or through Sentinel",
    "BUSY": "a script blocks the server: wait, or SCRIPT KILL",
    "MASTERDOWN": "the replica lost its master",
    "CLUSTERDOWN": "the cluster is down",
    "TRYAGAIN": "the queue's slot is being moved to another server of the cluster: try again",
}
_NO_SERVER: Final = (
    "Use Redis 7, Valkey 8 or later, without renamed commands; for a Sentinel write redis+sentinel://host/service"
)
_CLUSTER: Final = {
    "MOVED": (
        "this server is part of a cluster, and the keys are on other servers",
        "Write redis+cluster://host:port.",
    ),
    "ASK": ("this server is part of a cluster, and the keys are on other servers", "Write redis+cluster://host:port."),
    "CROSSSLOT": (
        "not possible on a cluster: the keys are on several servers",
        "Use a single server, or Sentinel.",
    ),
}
_QUEUE: Final = re.compile(rb"\{([^}]+)\}:")  # what the keys of a native queue start with


def classify(error: ResponseError) -> ResponseError:
    """Return an error reply as the class of its first word, whichever version of redis-py read it."""
    word, _, text = str(error).partition(" ")
    kind = _CLASSES.get(word) if type(error) is ResponseError else None
    return error if kind is None else kind(text)


def code_of(error: BaseException) -> ReplyCode | None:
    """Return the code of an error reply, as the driver raised it or as `explain` returned it."""
    said = _reply(error)
    if said is None:
        return None
    word, text = _word(said), str(said)
    return next((code for code in ReplyCode if (code == word if code in _FIRST_WORDS else code in text)), None)


def unknown_command(error: BaseException) -> str:
    """Return the unknown command of an error, in capitals; empty for any other error."""
    said = _reply(error)
    found = None if said is None else _UNKNOWN_COMMAND.match(str(said))
    return "" if found is None else found[1].upper()


def _reply(error: BaseException) -> ResponseError | None:
    """Return the error reply behind an error."""
    return next((one for one in (error, error.__cause__) if isinstance(one, ResponseError)), None)


def _word(error: ResponseError) -> str:
    """Return the first word of an error reply, which is the same with every brand of server."""
    if type(error).__name__ == "ClusterCrossSlotError":  # it was added in redis-py 5.1
        return "CROSSSLOT"
    return _WORDS.get(type(error)) or getattr(error, "status_code", None) or str(error).split(" ", 1)[0]


def explain(error: ResponseError, command: Command = ()) -> QdeckError:
    """Return our error for an error reply to a command."""
    found = _explain(error, command)
    found.__cause__ = error
    return found


def _explain(error: ResponseError, command: Command) -> QdeckError:
    text = str(error)
    if isinstance(error, NoScriptError):
        return UnknownScript(text)
    if text.startswith("QDECK "):
        return _explain_ours(text.split(" "), _queue_of(command))
    word = _word(error)
    if word == "NOPERM" or "ACL failure in script" in text:
        return NotAllowed(
            f"the server does not allow this: {text}", hint="Give this user the right, or use another user."
        )
    if word in _CLUSTER:
        message, hint = _CLUSTER[word]
        return ServerRefused(f"{message}: {text}", hint=hint)
    if word in _REFUSALS:
        return ServerRefused(f"the server refuses: {text}", hint=_REFUSALS[word])
    if word == "WRONGTYPE":
        return LayoutMismatch(
            f"a key of queue {_queue_of(command)!r} holds another type of data: {text}",
            hint="Another program uses the same names; use another queue name.",
        )
    if name := unknown_command(error):
        return ServerRefused(f"the server has no command {name!r}", hint=_NO_SERVER)
    return QdeckError(f"the server answered with an error: {text}")


def _queue_of(command: Command) -> str:
    """Return the queue that a command is for, by the first of its keys that names one."""
    for arg in command[1:]:
        found = _QUEUE.match(raw_of(arg))
        if found is not None:
            return found[1].decode("utf-8", "backslashreplace")
    return ""


def _explain_ours(words: list[str], queue: str) -> QdeckError:
    kind, rest = words[1], words[2:]
    if kind == "FRESH":
        return NewQueue(f"queue {queue!r} does not exist yet")
    if kind == "VERSION":
        return LayoutMismatch.of(queue, rest[0], rest[1])
    if kind == "DEPENDENCY":
        return UnknownDependency(
            f"no job {rest[0]!r} in queue {queue!r} to wait for",
            hint="Enqueue it first; a job that ended long ago is no longer known.",
        )
    if kind == "FOREIGN":
        return LayoutMismatch(
            f"key {rest[0]!r} holds a {rest[1]}, qdeck needs a {rest[2]} there",
            hint="Another program uses the same names; use another queue name.",
        )
    if kind == "LATE":
        return Late(
            f"queue {queue!r} refused an entry that was read over 30s ago",
            hint="Compare the clocks of the servers of the cluster.",
        )
    if kind == "UNDONE":
        return UsageError("this batch was undone", hint="Make a new plan to do it again.")
    if kind == "EXPIRED":
        return UsageError("the undo data of this batch is no longer kept", hint="A batch can be undone for a day.")
    return UsageError(" ".join(words))


def not_allowed(names: Sequence[str]) -> NotAllowed:
    """Return the error for a script whose user lacks some of its commands.

    A script that is refused half way leaves half of a change behind: a job that is there and is not counted, or one
    in two states. A check in each call would take half as long again; so a client checks before it calls a script
    the first time on a connection.
    """
    return NotAllowed(
        f"the server does not allow this user to run {', '.join(names)}: nothing was changed",
        hint=f"Give this user {' '.join(f'+{name}' for name in names)}; `qdeck doctor` prints its whole line.",
    )


def is_error(reply: Any) -> bool:
    """Return whether a reply to `with_errors` is an error."""
    return isinstance(reply, QdeckError)


def good(reply: Any) -> Any:
    """Return a reply to `with_errors`; raise it if it is an error."""
    if isinstance(reply, QdeckError):
        raise reply
    return reply
