"""Divides the free slots of a worker among its queues, by weight."""

from __future__ import annotations

import math
from operator import attrgetter
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_ROUNDING: Final = 1e-6
_used: Final = attrgetter("used")


class Account:
    """What a queue has had of a worker: `used` is its starts divided by its weight."""

    __slots__ = ("rests", "used", "weight")

    def __init__(self, weight: int) -> None:
        self.weight = weight
        self.used = 0.0
        self.rests = True  # it had no work, and must not claim the share that it did not use meanwhile

    def charge(self, starts: int) -> None:
        """Count starts; less than none when jobs were given back."""
        self.used += starts / self.weight


A = TypeVar("A", bound=Account)


class Shares:
    """The queue with the least use for its weight comes first (stride scheduling).

    A start counts the same however long it takes. A queue that had nothing to do begins where the others are.
    """

    def __init__(self) -> None:
        self._used = 0.0  # the least use of a queue with work, when one was chosen last

    def choose(self, accounts: Iterable[A]) -> A | None:
        """The account that comes next, of queues that have work."""
        best: A | None = None
        for account in accounts:
            if account.rests:
                account.rests, account.used = False, max(account.used, self._used)
            if best is None or account.used < best.used:
                best = account
        if best is not None:
            self._used = max(self._used, best.used)
        return best

    def part(self, account: Account, accounts: Sequence[Account], room: int, quick: int) -> int:
        """How many of `room` free slots a queue may claim, beside all that have work.

        `quick` is how many jobs end within the time of a poll: so many go to the queue that comes next in any case,
        since to divide what is free again at once would only make more polls.
        """
        first = self.choose(accounts)
        if len(accounts) == 1 or (account is first and quick >= room):
            return room
        entitled = (_level(accounts, room) - account.used) * account.weight
        if account is first:
            return min(room, max(1, quick, math.ceil(entitled - _ROUNDING)))
        return min(room, max(0, math.floor(entitled + _ROUNDING)))


def _level(accounts: Sequence[Account], room: int) -> float:
    """The use that all have who get something, when `room` starts go one by one to who has least."""
    weights, used = 0, float(room)
    for account in sorted(accounts, key=_used):
        if weights and account.used * weights >= used:
            break
        weights += account.weight
        used += account.used * account.weight
    return used / weights
