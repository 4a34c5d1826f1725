"""The feed: one task per session that refreshes each second and passes the snapshot to the visible screen.

Screens never wait for a server. They are given a frozen picture with its age, and when the server is lost they keep the
last one while the feed tries again with growing pauses.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Generic, TypeAlias, TypeVar

from qdeck import NotAllowed, QdeckError, ServerUnreachable, UnreachableCause
from qdeck_console.history import Flow, History, Pasts, flow_of
from qdeck_console.pace import Pace
from qdeck_console.queue_findings import FindingsByQueue, ListedQueues
from qdeck_console.steps import in_steps

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from qdeck.admin import Snapshot

INTERVAL_S: Final = 1.0
_FIRST_PAUSE_S: Final = 0.5
_LONGEST_PAUSE_S: Final = 10.0


Look: TypeAlias = "Callable[[], Awaitable[Snapshot]]"
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Query(Generic[T]):
    """What a screen needs besides the queues, read each second while it is visible; `key` tells its results from those
    of others.
    """

    key: str
    read: Callable[[Snapshot], Awaitable[T]]


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedState:
    """The last snapshot, when it was read, and the problem of the connection, if any."""

    snapshot: Snapshot | None = None
    read_at: float = 0.0  # monotonic
    read_ms: int = 0  # wall clock
    took_s: float = 0.0
    flow: Flow = (None, None)
    listed: ListedQueues = field(default_factory=ListedQueues)
    history: History = field(default_factory=History)
    result_of: str = ""
    result: Any = None
    problem: str = ""
    kind: str = ""  # of the problem, in a word or two
    cause: UnreachableCause = UnreachableCause.UNKNOWN
    server: str = ""  # its host and port, where it is out of reach
    hint: str = ""
    tries: int = 0
    failed_at: float = 0.0
    retry_at: float = 0.0
    pause_s: float = 0.0

    @property
    def is_lost(self) -> bool:
        """Whether the server did not answer the last time."""
        return self.problem != ""

    def age_s(self, now: float | None = None) -> float:
        """Return how old the data is."""
        return (time.monotonic() if now is None else now) - self.read_at


class Feed:
    """Reads snapshots of one server, one request at a time, and publishes each."""

    def __init__(
        self,
        look: Look,
        publish: Callable[[FeedState], None],
        prepare: Callable[[FeedState], Iterator[None]] = lambda _picture: iter(()),
    ) -> None:
        self._look = look
        self._publish = publish
        self._prepare = prepare  # the slow part of drawing a snapshot, in steps
        self._wake = asyncio.Event()
        self._query: Query[Any] | None = None
        self._pause_s = _FIRST_PAUSE_S
        self._pace = Pace(INTERVAL_S, forgives=True)
        self._by_queue = FindingsByQueue()
        self.state = FeedState()

    def want(self, query: Query[Any] | None, *, at_once: bool = True) -> None:
        """Set what the visible screen needs besides the queues. The next refresh comes at once, unless the server is
        lost (then at its time) or the screen reads what it lacks itself.
        """
        self._query = query
        if at_once and not self.state.is_lost:
            self.poke()

    def poke(self) -> None:
        """Read again now: something was changed, or someone does not want to wait for the next try."""
        self._wake.set()

    async def run(self) -> None:
        """Read until it is cancelled."""
        while True:
            started = time.monotonic()
            self._wake.clear()
            wait_s = await self._tick(started)
            self._publish(self.state)
            try:
                async with asyncio.timeout(max(0.02, wait_s - (time.monotonic() - started))):
                    await self._wake.wait()
            except TimeoutError:
                continue

    async def _tick(self, started: float) -> float:
        """Read one snapshot; return how long after its start the next one is due."""
        try:
            snapshot = await self._look()
            query = self._query
            result = await query.read(snapshot) if query is not None else None
        except NotAllowed as error:
            self._lost(error, kind="not allowed")
            return self._pause_s + (time.monotonic() - started)
        except (QdeckError, OSError) as error:
            self._lost(error)
            return self._pause_s + (time.monotonic() - started)
        except Exception as error:  # noqa: BLE001 - the console must survive a snapshot that it cannot read
            self._lost(error, what=f"{type(error).__name__}: {error}", kind="not readable")
            return self._pause_s + (time.monotonic() - started)
        self._pause_s = _FIRST_PAUSE_S
        now = time.monotonic()
        history = self.state.history
        await in_steps(history.steps(snapshot, now))
        if isinstance(result, Pasts):
            history.learn(result)
        await in_steps(self._by_queue.steps(snapshot))
        feed_state = FeedState(
            snapshot=snapshot,
            read_at=now,
            read_ms=time.time_ns() // 1_000_000,
            took_s=now - started,
            listed=self._by_queue.listed,
            flow=flow_of(snapshot.queues),
            history=history,
            result_of=query.key if query is not None else "",
            result=result,
        )
        await in_steps(self._prepare(feed_state))
        self.state = feed_state
        self._pace.spend(now - started)
        return self._pace.rest()

    def _lost(self, error: Exception, what: str = "", kind: str = "server lost") -> None:
        now = time.monotonic()
        before = self.state
        lost = error if isinstance(error, ServerUnreachable) else ServerUnreachable()
        self._pause_s = min(self._pause_s * 2, _LONGEST_PAUSE_S) if before.is_lost else _FIRST_PAUSE_S
        self.state = replace(
            before,
            problem=what or str(error) or type(error).__name__,
            kind=kind,
            hint=getattr(error, "hint", ""),
            cause=lost.cause,
            server=lost.server,
            tries=before.tries + 1,
            failed_at=before.failed_at if before.is_lost else now,
            retry_at=now + self._pause_s,
            pause_s=self._pause_s,
        )
