"""Rights for scripts: a client checks them on each connection before it calls a script there the first time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from redis.exceptions import NoPermissionError, ResponseError

from qdeck._redis.commands import pack
from qdeck._redis.errors import not_allowed
from qdeck._redis.scripts import plain

if TYPE_CHECKING:
    from qdeck._errors import QdeckError
    from qdeck._redis.commands import Request

_CHECKED = "qdeck_checked"


class MissingRight(Exception):
    """The user lacks a right. `error` is for the program; as an `OSError` it would look like a broken connection."""

    def __init__(self, error: QdeckError) -> None:
        super().__init__(str(error))
        self.error = error


def forget(connection: Any) -> None:
    """Forget what was checked, for a new connection. To remove rights ends the connections of a user."""
    connection.__dict__[_CHECKED] = set()


def rights_command(connection: Any, request: Request) -> bytes | None:
    """Return the command to send first, which has one reply; None when nothing is to be checked on this connection."""
    script = request.script
    if script is None or not script.commands or script.digest in connection.__dict__[_CHECKED]:
        return None
    # By its text, so that the server need not have it loaded: one round trip, with a right that scripts need anyway.
    return pack([(b"EVAL", plain("_redis/rights").source, 1, request.key, *script.commands)])


def check(connection: Any, request: Request, reply: object) -> None:
    """Raise `MissingRight` if the reply denies a right. An error comes again with the script, with more detail.

    The rights of a user who may not check them are not checked again.
    """
    if isinstance(reply, list) and reply:
        raise MissingRight(not_allowed([name.decode() for name in reply]))
    if request.script is not None and (isinstance(reply, NoPermissionError) or not isinstance(reply, ResponseError)):
        connection.__dict__[_CHECKED].add(request.script.digest)
