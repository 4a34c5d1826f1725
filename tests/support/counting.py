"""A proxy that counts connections, requests and round trips."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self
from urllib.parse import urlsplit

import hiredis

from support.proxy import HOST, FaultProxy, Side

if TYPE_CHECKING:
    from support.proxy import _Link


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A command as a client sent it."""

    at: float  # monotonic
    name: str
    key: str
    starts_trip: bool  # the client had all its replies before it sent this


@dataclass(slots=True)
class _Talk:
    """One connection. Requests have the form of replies, so one parser reads both."""

    sent: hiredis.Reader = field(default_factory=hiredis.Reader)
    answered: hiredis.Reader = field(default_factory=hiredis.Reader)
    waiting: int = 0  # requests without their reply
    is_new: bool = False  # a round trip has begun whose first request has not come to its end


class CountingProxy(FaultProxy):
    """A proxy that records each request. A round trip begins with a request sent while no reply is awaited."""

    def __init__(self, port: int, *, host: str = HOST, target_url: str = "") -> None:
        super().__init__(port, host=host, target_url=target_url)
        self._talks: dict[_Link, _Talk] = {}
        self._lock = threading.Lock()
        self._requests: list[Request] = []

    @classmethod
    def before(cls, url: str) -> Self:
        """Start a proxy in front of the server of a URL."""
        target = urlsplit(url)
        return cls(target.port or 6379, host=target.hostname or HOST, target_url=url)

    def requests(self, start: int = 0) -> list[Request]:
        """Return the requests so far, in order, from a position on."""
        with self._lock:
            return self._requests[start:]

    def _filter(self, link: _Link, side: Side, chunk: bytes) -> bytes:
        talk = self._talks.setdefault(link, _Talk())
        if side is Side.TO_SERVER:
            self._note(talk, chunk)
        else:
            talk.answered.feed(chunk)
            while talk.answered.gets() is not False:
                talk.waiting -= 1
        return super()._filter(link, side, chunk)

    def _note(self, talk: _Talk, chunk: bytes) -> None:
        talk.is_new |= talk.waiting == 0 and not talk.sent.has_data()
        talk.sent.feed(chunk)
        while (words := talk.sent.gets()) is not False:
            name, key = words[0].decode().lower(), words[1].decode("utf-8", "replace") if len(words) > 1 else ""
            talk.waiting += 1
            with self._lock:
                self._requests.append(Request(at=time.monotonic(), name=name, key=key, starts_trip=talk.is_new))
            talk.is_new = False
