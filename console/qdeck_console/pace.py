"""When something is read again: reading it may take a part of the time only, however long it takes."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Final, TypeVar

from qdeck import NotAllowed, QdeckError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Hashable, Iterator

T = TypeVar("T")

TIMES: Final = 10  # what a reading took, at rest: a tenth of the server's time and of ours at most
_KEPT: Final = 200
_NOT_ALLOWED: Final = 10


class Pace:
    """When one thing is due: after `least_s`, and after `times` what reading it took.

    With `forgives`, a reading costs what the shorter of the last two took: one that waited for a frozen server or a
    slow line says nothing of the next.
    """

    __slots__ = ("_before", "_least_s", "_spent", "_times", "due_at")

    def __init__(self, least_s: float = 0.0, *, times: float = TIMES, forgives: bool = False) -> None:
        self._least_s, self._times = least_s, times
        self._before = 0.0 if forgives else None
        self._spent = 0.0
        self.due_at = float("-inf")

    @property
    def is_due(self) -> bool:
        """Whether it rested for long enough."""
        return time.monotonic() >= self.due_at

    def spend(self, seconds: float) -> None:
        """Add to what this reading took."""
        self._spent += seconds

    @contextlib.contextmanager
    def spending(self) -> Iterator[None]:
        """Add what the block takes."""
        started = time.monotonic()
        try:
            yield
        finally:
            self.spend(time.monotonic() - started)

    def rest(self, least_s: float | None = None) -> float:
        """End the reading and begin the rest; return its seconds."""
        took, self._spent = self._spent, 0.0
        if self._before is not None:
            took, self._before = min(took, self._before), took
        rest_s = max(self._least_s if least_s is None else least_s, self._times * took)
        self.due_at = time.monotonic() + rest_s
        return rest_s

    @contextlib.contextmanager
    def reading(self, least_s: float | None = None) -> Iterator[None]:
        """Measure the block as one reading; the rest begins at its end, however it ends."""
        try:
            with self.spending():
                yield
        finally:
            self.rest(least_s)


class Paces:
    """A pace for each of many things, of which those that are due may be forgotten."""

    def __init__(self, *, times: float = TIMES) -> None:
        self._times = times
        self._paces: dict[Hashable, Pace] = {}

    def of(self, what: Hashable) -> Pace:
        """Return the pace of one of them."""
        if len(self._paces) > _KEPT:
            self._paces = {known: pace for known, pace in self._paces.items() if known == what or not pace.is_due}
        return self._paces.setdefault(what, Pace(times=self._times, forgives=True))

    async def read(self, what: Hashable, read: Callable[[], Awaitable[T]], least_s: float) -> T | None:
        """Return what a reading finds, if it is due. One that is not allowed or fails finds nothing; only a lost
        server is an error.
        """
        pace = self.of(what)
        if not pace.is_due:
            return None
        try:
            with pace.spending():
                found = await read()
        except NotAllowed:
            pace.rest(_NOT_ALLOWED * least_s)
            return None
        except QdeckError as error:
            if isinstance(error, OSError):
                raise
            found = None
        pace.rest(least_s)
        return found
