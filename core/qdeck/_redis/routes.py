"""Which server a request goes to, where there are several: written once, for clients of both kinds.

A route is a generator. It yields the talks that it wants to have, or seconds to wait, and gets what came of them; so
it does no input or output itself.
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
from qdeck._redis.effort import Effort, reason

if TYPE_CHECKING:
    from qdeck._redis.address import Node
    from qdeck._redis.endpoint import Endpoint


@dataclass(frozen=True, slots=True)
class Talk:
    """What one server is sent: a request, or the part of one that is for it."""

    node: Node
    request: Request


@dataclass(frozen=True, slots=True)
class Lost:
    """A talk that came to no end. `sent` tells that the server may have done it."""

    error: BaseException
    sent: bool


Heard = list[Any] | Lost
Steps = Generator[list[Talk] | float, Any, list[Any]]


class Routes(ABC):
    """What is known of the servers behind one endpoint."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self._seeds = list(endpoint.address.seeds)
        random.shuffle(self._seeds)  # many clients that start together do not all ask the same one
        self._stale = True
        self.changes = 0

    @abstractmethod
    def exchange(self, request: Request, effort: Effort) -> Steps:
        """Sends a request to where it belongs, again and elsewhere when it has to be, and returns the replies."""

    def doubt(self) -> None:
        """Somebody was sent away: what is known of the servers is to be asked again."""
        self._stale = True


class NoAnswer(Exception):
    """None of the servers that were asked has an answer; `last` is what the last one said."""

    def __init__(self, last: BaseException) -> None:
        super().__init__(reason(last))
        self.last = last


# A server that is no master any more, or not yet: whoever asks the Sentinels again finds the one that is.
_NO_MASTER: Final = (ReadOnlyError, MasterDownError)


class SentinelRoutes(Routes):
    """One master at a time, which the Sentinels name."""

    def __init__(self, endpoint: Endpoint) -> None:
        super().__init__(endpoint)
        self._service = endpoint.address.service
        self._master: Node | None = None

    def exchange(self, request: Request, effort: Effort) -> Steps:
        """Sends a request to the master; one that a replica refuses was not done, and goes to the new master."""
        while True:
            try:
                master = yield from self._known_master()
            except NoAnswer as error:
                yield effort.next_pause(error.last, reads=request.reads)
                continue
            [heard] = yield [Talk(master, request)]
            if isinstance(heard, Lost):
                self.doubt()
                effort.sent = effort.sent or heard.sent
                yield effort.next_pause(heard.error, reads=request.reads)
            elif any(isinstance(reply, _NO_MASTER) for reply in heard) and not effort.is_over:
                self.doubt()
                yield effort.next_length()
            else:
                replies: list[Any] = heard
                return replies

    def _known_master(self) -> Generator[list[Talk] | float, Any, Node]:
        if self._master is None or self._stale:
            yield from self._learn()
        if self._master is None:
            raise InvalidOption(
                f"the Sentinels of {self.endpoint} know no service {self._service!r}",
                hint="its name is that of `sentinel monitor <name> …` in their configuration",
            )
        return self._master

    def _learn(self) -> Generator[list[Talk] | float, Any, None]:
        ask = Request(((b"SENTINEL", b"GET-MASTER-ADDR-BY-NAME", self._service),))
        node, unknown = None, False
        last: BaseException = ConnectionError("no Sentinel answers")
        for at, sentinel in enumerate(list(self._seeds)):
            [heard] = yield [Talk(sentinel, ask)]
            if isinstance(heard, Lost):
                last = heard.error
            elif isinstance(heard[0], ResponseError):
                last = heard[0]
            elif heard[0] is None:
                unknown = True
            else:
                host, port = heard[0]
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
