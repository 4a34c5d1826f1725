"""Retries of one exchange, and our errors for failed connections."""

from __future__ import annotations

import asyncio
import errno
import re
import socket
import ssl
import time
from typing import TYPE_CHECKING, Any, Final

import redis
from redis.exceptions import (
    AskError,
    AuthenticationError,
    AuthenticationWrongNumberOfArgsError,
    AuthorizationError,
    BusyLoadingError,
    ClusterDownError,
    InvalidResponse,
    MasterDownError,
    MovedError,
    ReadOnlyError,
    ResponseError,
    TryAgainError,
)

from qdeck._errors import InvalidOption, NotAllowed, OutcomeUnknown, QdeckError, ServerUnreachable, UnreachableCause
from qdeck._redis.commands import Request
from qdeck._redis.errors import ReplyCode, code_of, explain, unknown_command

if TYPE_CHECKING:
    from qdeck._redis.endpoint import Endpoint

_DENIED: Final = (AuthenticationError, AuthenticationWrongNumberOfArgsError, AuthorizationError)
# Answers to the handshake that no second try changes: no such database, no Redis server, no possible host name.
_WRONG_PLACE: Final = (ResponseError, InvalidResponse, UnicodeError)
# The classes of redis-py and those of the system underneath: a connection that is no use any more.
BROKEN: Final = (redis.ConnectionError, redis.TimeoutError, OSError, TimeoutError, asyncio.IncompleteReadError)
# What ends one try: the connection is dropped, and `Effort` says whether there is another.
FAILURES: Final = (*BROKEN, *_WRONG_PLACE, BusyLoadingError)
_LONGEST_PAUSE: Final = 0.5
# What a server says that does not have a key any more, or not yet. The classes of some errors lose that first word.
_MOVES: Final = (MovedError, AskError, ReadOnlyError, ClusterDownError, TryAgainError, MasterDownError)


def need_same_server(replies: list[Any]) -> None:
    """Raise when a blocking command was redirected: it has to be sent again on a new connection."""
    for reply in replies:
        if isinstance(reply, _MOVES) or (isinstance(reply, ResponseError) and code_of(reply) is ReplyCode.UNBLOCKED):
            raise redis.ConnectionError(str(reply)) from reply


# A server that loads its data refuses all commands but a few, INFO among them.
ASK_LOADING: Final = Request(((b"INFO", b"persistence"),))
_FACT: Final = re.compile(rb"^(loading_loaded_perc|loading_eta_seconds):([0-9.]{1,20})", re.MULTILINE)


def loading_error(endpoint: Endpoint, replies: list[Any]) -> ServerUnreachable | None:
    """Return an error with the progress of a server that loads its data, from its reply to `ASK_LOADING`."""
    facts = dict(_FACT.findall(replies[0])) if isinstance(replies[0], bytes) else {}
    if b"loading_loaded_perc" not in facts:
        return None
    text = f"{endpoint} is loading its data: {float(facts[b'loading_loaded_perc']):.0f} % loaded"
    if b"loading_eta_seconds" in facts:
        text += f", about {float(facts[b'loading_eta_seconds']):.0f}s left"
    hint = "Wait until it is loaded, then try again."
    return ServerUnreachable(text, hint=hint, cause=UnreachableCause.LOADING, server=endpoint.hosts)


_CAUSES: Final[tuple[tuple[type[BaseException], UnreachableCause], ...]] = (
    (BusyLoadingError, UnreachableCause.LOADING),
    (InvalidResponse, UnreachableCause.PROTOCOL),
    (ssl.SSLCertVerificationError, UnreachableCause.CERTIFICATE),
    (ConnectionRefusedError, UnreachableCause.REFUSED),
    (TimeoutError, UnreachableCause.TIMED_OUT),
    (redis.TimeoutError, UnreachableCause.TIMED_OUT),
    (ConnectionResetError, UnreachableCause.CLOSED),
    (ConnectionAbortedError, UnreachableCause.CLOSED),
    (BrokenPipeError, UnreachableCause.CLOSED),
    (EOFError, UnreachableCause.CLOSED),  # asyncio's IncompleteReadError
)
_NO_NAME: Final = {socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME)}
# Where a host has several addresses and all fail, asyncio has the numbers of their errors in a text only.
_ALL_REFUSED: Final = f"[Errno {errno.ECONNREFUSED}]"


def cause_of(error: BaseException) -> UnreachableCause:
    """Return the cause of a failed connection: redis-py raises its own error in place of the system's."""
    under = error.__cause__ or error.__context__
    for one in (error, under):
        if one is None:
            continue
        if isinstance(one, socket.gaierror):
            return UnreachableCause.NO_SUCH_HOST if one.errno in _NO_NAME else UnreachableCause.UNKNOWN
        if (found := next((cause for kind, cause in _CAUSES if isinstance(one, kind)), None)) is not None:
            return found
        if isinstance(one, OSError) and one.errno is None and _ALL_REFUSED in str(one):
            return UnreachableCause.REFUSED
    # Without an error of the system under it, it is the driver's for a connection that the server ended.
    is_closed = isinstance(error, redis.ConnectionError) and not isinstance(under, OSError | redis.RedisError)
    return UnreachableCause.CLOSED if is_closed else UnreachableCause.UNKNOWN


class RetryTimer:
    """How long one exchange has been retried, and the error when its patience is over."""

    def __init__(self, endpoint: Endpoint, patience: float, *, was_connected: bool) -> None:
        self._endpoint = endpoint
        # If a client never reached the server, a wrong address is more likely than a server that restarts.
        self._until = time.monotonic() + (patience if was_connected else 0.0)
        self._pause = 0.01
        self.sent = False

    @property
    def is_expired(self) -> bool:
        """Return whether there is no time for another attempt."""
        return time.monotonic() >= self._until

    def next_pause(self, error: BaseException, *, reads: bool) -> float:
        """Return the seconds to wait before the next attempt; raise when the time is over."""
        if isinstance(error, _DENIED):
            raise NotAllowed(
                f"{self._endpoint} refuses the user or password: {error}",
                hint="Check user and password in the URL (QDECK_URL), or the server's ACL.",
            ) from error
        if isinstance(error, _WRONG_PLACE):
            raise _explain(self._endpoint, error) from error
        if self.is_expired:
            if self.sent and not reads:
                raise OutcomeUnknown(
                    f"{self._endpoint} did not answer: the request may or may not have been carried out",
                    hint="Repeat it with the same id: this is safe.",
                ) from error
            hint = "Check that the server is running and that the address is right."
            cause = cause_of(error)
            if cause is UnreachableCause.CERTIFICATE:
                hint = "Name the authority that signed its certificate: add ?ssl_ca_certs=/path/ca.pem to the URL."
            text = f"{self._endpoint} cannot be reached: {reason(error)}"
            raise ServerUnreachable(text, hint=hint, cause=cause, server=self._endpoint.hosts) from error
        return self.next_length()

    def next_length(self) -> float:
        """Return the seconds before the next attempt, longer each time."""
        pause, self._pause = self._pause, min(self._pause * 2, _LONGEST_PAUSE)
        return pause


def _explain(endpoint: Endpoint, error: BaseException) -> QdeckError:
    """Explain a failed handshake, which the driver raises instead of returning a reply."""
    if isinstance(error, ResponseError):
        unknown = unknown_command(error)
        if code_of(error) is ReplyCode.NO_DATABASE:
            hint = "The number at the end of the URL is too large: see `databases` in the server's configuration."
            return InvalidOption(f"{endpoint} names a database that the server does not have", hint=hint)
        if unknown == "SENTINEL":
            hint = "Write redis:// for one server; a Sentinel has a port of its own, most often 26379."
            return InvalidOption(f"{endpoint} is a server, not a Sentinel", hint=hint)
        if unknown == "CLUSTER":
            hint = "Write redis+sentinel://host/service for Sentinels, redis:// for one server."
            return InvalidOption(f"{endpoint} is not a server of a cluster", hint=hint)
        return explain(error)
    if isinstance(error, InvalidResponse):
        hint = "Check that this is the address of a Redis or Valkey server, and whether it needs rediss:// (TLS)."
        text = f"{endpoint} does not answer like a Redis server: {reason(error)}"
        return ServerUnreachable(text, hint=hint, cause=cause_of(error), server=endpoint.hosts)
    return InvalidOption(
        f"{endpoint} has a host name that cannot be looked up: {reason(error)}", hint="Check the URL for typing errors."
    )


def reason(error: BaseException) -> str:
    """Return the text of an error, or its class without text; of a refused connection not the address once more."""
    if cause_of(error) is UnreachableCause.REFUSED:
        return "connection refused"
    return str(error).rstrip(".") or type(error).__name__
