"""What a reader keeps of each native queue between two refreshes, in few bytes: there may be ten thousand."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

from qdeck._server import history

if TYPE_CHECKING:
    from collections.abc import Iterator

    from qdeck._model.values import QueueRow

WINDOW_MS: Final = 10_000  # over which rates are taken
DEAD_WINDOW_MS: Final = 60_000  # likewise, of dead letters: a few of them are not a trend
DEAD_LEAST_MS: Final = 10_000  # the shortest time for a rate
TOTALS: Final = (
    "enqueued", "done", "failed", "retried", "dead", "crashed", "expired", "cancelled", "refused", "missing",
    "dropped_dead", "dropped_done", "discarded", "quarantined",
)  # fmt: skip
_PLACES: Final = {name: at for at, name in enumerate(TOTALS)}

# Moments in ms, each with the flow until then. Of ten thousand queues, objects would take 20 MB.
PastFlows: TypeAlias = "array[int]"
_MOMENT: Final = 4  # numbers: the time, and what came, went and died


@dataclass(slots=True)
class CountedQueue:
    """A queue at the last refresh: most do not change from one to the next."""

    reply: bytes
    row: QueueRow
    flow: history.Flow | None
    past_flows: PastFlows = field(default_factory=lambda: array("q"))  # of the window for rates
    past_deaths: PastFlows = field(default_factory=lambda: array("q"))  # of the window for dead letters

    def rates(self, now: int) -> tuple[float | None, float | None, float | None]:
        """Return how many jobs came and went a second and died a minute, compared with the oldest moment of a
        window."""
        if self.flow is None:
            return None, None, None
        came, went, dead = None, None, None
        then = _oldest(self.past_flows, now, self.flow, WINDOW_MS)
        if then is not None and now > then[0]:
            seconds = (now - then[0]) / 1000
            came = max(0.0, (self.flow.came - then[1].came) / seconds)
            went = max(0.0, (self.flow.went - then[1].went) / seconds)
        then = _oldest(self.past_deaths, now, self.flow, DEAD_WINDOW_MS)
        if then is not None and now - then[0] >= DEAD_LEAST_MS:
            dead = max(0.0, 60_000 * (self.flow.died - then[1].died) / (now - then[0]))
        return came, went, dead


def _oldest(past: PastFlows, now: int, flow: history.Flow, window_ms: int) -> tuple[int, history.Flow] | None:
    """Return the oldest moment of a window; record this one when a tenth of the window has passed."""
    while len(past) > _MOMENT and now - past[_MOMENT] >= window_ms:
        del past[:_MOMENT]
    oldest = (past[0], history.Flow(*past[1:_MOMENT])) if past else None
    if not past or now - past[-_MOMENT] >= window_ms // 10:
        past.extend((now, *flow))
    return oldest


class CountedTotals(Mapping[str, int]):
    """The totals of a queue. A dictionary for each of ten thousand queues would keep the names ten thousand times."""

    __slots__ = ("_counts",)

    def __init__(self, counts: Iterable[int]) -> None:
        self._counts = tuple(counts)

    def __getitem__(self, name: str) -> int:
        return self._counts[_PLACES[name]]

    def __iter__(self) -> Iterator[str]:
        return iter(TOTALS)

    def __len__(self) -> int:
        return len(TOTALS)
