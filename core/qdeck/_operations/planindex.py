"""An index of a plan: its entries counted by rule, queue and verb, and each found without reading all."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Final

import msgspec

from qdeck._model.queue_ref import InQueue
from qdeck._model.values import NATIVE
from qdeck.adapters.plans import PlanEntry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from qdeck._operations.planfile import Plan

SAMPLES: Final = 5
_MARK: Final = 200  # entries of a share between two recorded places in the file
_decode: Final = msgspec.json.Decoder(PlanEntry).decode


@dataclass(slots=True)
class Share(InQueue):
    """The entries of one rule, queue and verb; `samples` are the first ones."""

    rule: str
    queue: str
    verb: str
    adapter: str = NATIVE
    count: int = 0
    bytes: int = 0
    oldest_s: float | None = None
    samples: list[PlanEntry] = field(default_factory=list)
    marks: list[tuple[int, int]] = field(default_factory=list)  # the number of an entry, and where it is in the file

    @property
    def key(self) -> tuple[str, str, str, str]:
        """Its identity."""
        return self.rule, self.queue, self.verb, self.adapter

    def take(self, entries: Iterable[PlanEntry]) -> None:
        """Count entries of this share."""
        for entry in entries:
            self.count += 1
            self.bytes += entry.bytes
            if entry.age_s is not None and (self.oldest_s is None or entry.age_s > self.oldest_s):
                self.oldest_s = entry.age_s
            if len(self.samples) < SAMPLES:
                self.samples.append(entry)


class Shares:
    """The shares of a plan, in the order in which they come."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str, str, str], Share] = {}

    def __len__(self) -> int:
        return len(self._found)

    def of(self, entry: PlanEntry) -> Share:
        """Return the share of an entry; a new one when it is the first."""
        key = (entry.rule or "", entry.queue, entry.verb, entry.adapter)
        share = self._found.get(key)
        if share is None:
            share = self._found[key] = Share(key[0], key[1], key[2], key[3])
        return share

    def take(self, entries: Sequence[PlanEntry]) -> None:
        """Count entries as they are found."""
        for entry in entries:
            self.of(entry).take((entry,))

    def all(self) -> list[Share]:
        """Return all of them."""
        return list(self._found.values())


class PlanIndex:
    """The shares of a plan that is written, and its entries by share and number."""

    def __init__(self, plan: Plan, shares: list[Share]) -> None:
        self.plan, self.shares = plan, shares

    @classmethod
    def read(cls, plan: Plan, cancelled: Callable[[], bool] | None = None) -> PlanIndex:
        """Read the file once. It may be long: call this from a thread."""
        shares = Shares()
        with plan.path.open("rb", buffering=1 << 18) as file:
            place = len(file.readline())
            before: Share | None = None
            for line in islice(file, plan.count):
                entry = _decode(line)
                share = shares.of(entry)
                if share is not before or share.count % _MARK == 0:
                    share.marks.append((share.count, place))
                share.take((entry,))
                before, place = share, place + len(line)
                if share.count % 10_000 == 0 and cancelled is not None and cancelled():
                    break
        return cls(plan, shares.all())

    def entries(self, share: Share, first: int, most: int) -> list[PlanEntry]:
        """Return `count` entries of a share from a number on."""
        at = bisect_right(share.marks, (first, 1 << 62)) - 1
        if at < 0 or first >= share.count:
            return []
        number, place = share.marks[at]
        most = min(most, share.count - first)
        found: list[PlanEntry] = []
        with self.plan.path.open("rb") as file:
            file.seek(place)
            for line in file:
                entry = _decode(line)
                if (entry.rule or "", entry.queue, entry.verb, entry.adapter) != share.key:
                    continue
                if number >= first:
                    found.append(entry)
                    if len(found) >= most:
                        break
                number += 1
        return found
