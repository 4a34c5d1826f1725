"""What a purge clears away besides jobs: temporary queues whose time is over, and those that nobody owns.

A plan is about jobs, and these are whole queues; so they are found beside it, kept by name, and removed by these names
only, as a batch of their own that can be undone like any other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from qdeck.admin import CLEAN_SLICE, PlanEntry, Share
from qdeck_console.format import counted, span

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from qdeck.admin import AsyncReader, AsyncWriter
    from qdeck.messages import CleanReport, Removal

OVER: Final = "expired_queues"
NOBODY: Final = "orphaned_queues"
RULES: Final[tuple[str, ...]] = (OVER, NOBODY)
IDLE_S: Final = 86_400  # for which nobody used a queue that nobody owns; as the agent and `qdeck clean` have it
MOST: Final = 10_000  # names kept of one rule: what is left over is found by the next dry run
_EVENTS: Final = {OVER: "expired", NOBODY: "orphaned"}
_WORDS: Final = {OVER: "time is over", NOBODY: "nobody owns them"}


def queues_words(count: int) -> str:
    """A number of temporary queues in words."""
    return counted(count, "temporary queue")


class Leftovers:
    """The temporary queues that were found, as a share of each rule with all of its entries."""

    def __init__(self, rules: Iterable[str] = ()) -> None:
        self.rules = tuple(rule for rule in RULES if rule in set(rules))
        self.waits: set[str] = set(self.rules)  # those that were not looked through to their end
        self.scanned = 0
        self._shares: dict[str, Share] = {}
        self._entries: dict[str, list[PlanEntry]] = {}

    @property
    def shares(self) -> list[Share]:
        """What was found, by rule."""
        return [self._shares[rule] for rule in self.rules if rule in self._shares]

    @property
    def count(self) -> int:
        """How many queues were found."""
        return sum(share.count for share in self.shares)

    def entries(self, share: Share, first: int, most: int) -> list[PlanEntry]:
        """So many entries of a share from a number on."""
        return self._entries.get(share.rule, [])[first : first + most]

    async def search(self, reader: AsyncReader, told: Callable[[], bool]) -> None:
        """Looks for them, a slice at a time; `told` is asked after each whether to stop."""
        if OVER in self.rules:
            start = 0
            while True:
                found = await reader.expired_queues(start)
                self._take(OVER, found)
                start += len(found)
                self.scanned += len(found)
                if told():
                    return
                if len(found) < CLEAN_SLICE:
                    break
            self.waits.discard(OVER)
        if NOBODY in self.rules:
            cursor: Any = 0
            while True:
                seen = await reader.orphaned_queues(cursor, idle_s=IDLE_S)
                self._take(NOBODY, seen.found)
                cursor = seen.cursor
                self.scanned += seen.scanned
                if told():
                    return
                if cursor == 0:
                    break
            self.waits.discard(NOBODY)

    def _take(self, rule: str, found: Iterable[Removal]) -> None:
        kept = self._entries.setdefault(rule, [])
        for one in found:
            if one.outcome != "would_remove" or len(kept) >= MOST:
                continue
            idle = None if one.idle_s is None else float(one.idle_s)
            since = "" if idle is None else f", nobody used it for {span(idle * 1000)}"
            reason = ("its time is over" if rule == OVER else "no task and no service owns it") + since
            entry = PlanEntry(
                queue=one.name, id=one.name, state="temporary", version="", verb="discard", rule=rule, reason=reason,
                bytes=one.bytes, age_s=idle,
            )  # fmt: skip
            kept.append(entry)
            share = self._shares.setdefault(rule, Share(rule, _WORDS[rule], "discard"))
            share.take((entry,))

    async def remove(self, writer: AsyncWriter, done: Callable[[int], bool]) -> CleanReport:
        """Removes what was found, by name. A queue that is used now stays. `done` hears how many, and says whether to
        stop.
        """
        from qdeck.messages import CleanReport

        report = CleanReport()
        keeper = await writer.begin_cleaning("purge")
        try:
            for rule in self.rules:
                names = [entry.id for entry in self._entries.get(rule, [])]
                for at in range(0, len(names), CLEAN_SLICE):
                    some = names[at : at + CLEAN_SLICE]
                    idle_s = IDLE_S if rule == NOBODY else 0
                    for one in await writer.remove_queues(some, idle_s=idle_s, event=_EVENTS[rule], keeper=keeper):
                        report.add(one)
                    if done(report.removed):
                        return report
        finally:
            await writer.end_cleaning(keeper, report)
        return report
