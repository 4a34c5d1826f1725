"""Routes: which server gets a request, where there are several; written once for both clients.

A route is a generator. It yields exchanges or seconds to wait, and gets their results; so it does no input or output
itself.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from redis.exceptions import MasterDownError, ReadOnlyError, ResponseError

from qdeck._errors import InvalidOption
from qdeck._redis.commands import Request
from qdeck._redis.retries import RetryTimer, reason

if TYPE_CHECKING:
    from qdeck._redis.address import Node
    from qdeck._redis.endpoint import Endpoint


@dataclass(frozen=True, slots=True)
class Exchange:
    """The request for one server, or the part of one that is for it."""

    node: Node
    request: Request


@dataclass(frozen=True, slots=True)
class LostExchange:
    """An exchange without a reply. `sent`: the server may have done it."""

    error: BaseException
    sent: bool


ExchangeReply = list[Any] | LostExchange
Steps = Generator[list[Exchange] | float, Any, list[Any]]


class Routes(ABC):
    """What is known of the servers behind one endpoint."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self._seeds = list(endpoint.address.seeds)
        random.shuffle(self._seeds)  # clients that start together use different ones
        self._stale = True
        self.changes = 0

    @abstractmethod
    def exchange(self, request: Request, retries: RetryTimer) -> Steps:
        """Send a request to its server, again and elsewhere when needed, and return the replies."""

    def forget_routes(self) -> None:
        """Forget the servers after a redirect: they are read again."""
        self._stale = True


class NoAnswer(Exception):
    """None of the servers answers; `last` is the error of the last one."""

    def __init__(self, last: BaseException) -> None:
        super().__init__(reason(last))
        self.last = last


# A server that is no longer or not yet the master: a repeated request to the Sentinels returns the master.
_NO_MASTER: Final = (ReadOnlyError, MasterDownError)


class SentinelRoutes(Routes):
    """One master at a time, which the Sentinels name."""

    def __init__(self, endpoint: Endpoint) -> None:
        super().__init__(endpoint)
        self._service = endpoint.address.service
        self._master: Node | None = None

    def exchange(self, request: Request, retries: RetryTimer) -> Steps:
        """Send a request to the master; one that a replica refuses was not done, and goes to the new master."""
        while True:
            try:
                master = yield from self._known_master()
            except NoAnswer as error:
                yield retries.next_pause(error.last, reads=request.reads)
                continue
            [reply] = yield [Exchange(master, request)]
            if isinstance(reply, LostExchange):
                self.forget_routes()
                retries.sent = retries.sent or reply.sent
                yield retries.next_pause(reply.error, reads=request.reads)
            elif any(isinstance(reply, _NO_MASTER) for reply in reply) and not retries.is_expired:
                self.forget_routes()
                yield retries.next_length()
            else:
                replies: list[Any] = reply
                return replies

    def _known_master(self) -> Generator[list[Exchange] | float, Any, Node]:
        if self._master is None or self._stale:
            yield from self._learn()
        if self._master is None:
            raise InvalidOption(
                f"the Sentinels of {self.endpoint} have no service {self._service!r}",
                hint="Its name is that of `sentinel monitor <name> …` in their configuration.",
            )
        return self._master

    def _learn(self) -> Generator[list[Exchange] | float, Any, None]:
        ask = Request(((b"SENTINEL", b"GET-MASTER-ADDR-BY-NAME", self._service),))
        node, unknown = None, False
        last: BaseException = ConnectionError("no Sentinel answers")
        for at, sentinel in enumerate(list(self._seeds)):
            [reply] = yield [Exchange(sentinel, ask)]
            if isinstance(reply, LostExchange):
                last = reply.error
            elif isinstance(reply[0], ResponseError):
                last = reply[0]
            elif reply[0] is None:
                unknown = True
            else:
                host, port = reply[0]
                node = type(sentinel)(host.decode(), int(port))
                # The next question goes to another one first: this one may be cut off from the others.
                self._seeds = self._seeds[at + 1 :] + self._seeds[: at + 1]
                break
        if node is None and not unknown:
            raise NoAnswer(last)
        if node is not None or self._master is None:
            self.changes += node != self._master
            self._master = node
        self._stale = False
