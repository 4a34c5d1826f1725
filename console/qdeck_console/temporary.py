"""What a purge clears away besides jobs: expired and orphaned temporary queues.

A plan is about jobs, and these are whole queues; so they are found beside it, kept by name, and removed by these names
only, as a batch of their own that can be undone like any other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from qdeck.admin import PlanEntry, Share
from qdeck_console.format import counted, span

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from qdeck.admin import AsyncReader, AsyncWriter
    from qdeck.messages import CleanReport, Removal

EXPIRED: Final = "expired_queues"
ORPHANED: Final = "orphaned_queues"
RULES: Final[tuple[str, ...]] = (EXPIRED, ORPHANED)
IDLE_S: Final = 86_400  # for which nothing used an orphaned queue; as the agent and `qdeck clean` have it
MOST: Final = 10_000  # names kept of one rule: what is left over is found by the next dry run
_EVENTS: Final = {EXPIRED: "expired", ORPHANED: "orphaned"}
_WORDS: Final = {EXPIRED: "expired", ORPHANED: "orphaned"}


def queues_words(count: int) -> str:
    """A number of temporary queues in words."""
    return counted(count, "temporary queue")


class FoundQueues:
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

    async def search(self, reader: AsyncReader, stops: Callable[[], bool]) -> None:
        """Look for them, a slice at a time, until there are no more or `stops` returns true."""
        from qdeck.messages import ExpiredCleaning, OrphanCleaning

        for rule in self.rules:
            found = (ExpiredCleaning if rule == EXPIRED else OrphanCleaning)(dry_run=True, most=MOST)
            taken = 0
            more = True
            while more:
                scanned = found.report.scanned
                more = await reader.search_temporary(found)
                self._take(rule, found.report.samples[taken:])
                taken = len(found.report.samples)
                self.scanned += found.report.scanned - scanned
                if stops():
                    return
            self.waits.discard(rule)

    def _take(self, rule: str, found: Iterable[Removal]) -> None:
        kept = self._entries.setdefault(rule, [])
        for one in found:
            if one.outcome != "would_remove":
                continue
            idle = None if one.idle_s is None else float(one.idle_s)
            since = "" if idle is None else f", nobody used it for {span(idle * 1000)}"
            reason = ("it has expired" if rule == EXPIRED else "no task and no service owns it") + since
            entry = PlanEntry(
                queue=one.name, id=one.name, state="temporary", version="", verb="discard", rule=rule, reason=reason,
                bytes=one.bytes, age_s=idle,
            )  # fmt: skip
            kept.append(entry)
            share = self._shares.setdefault(rule, Share(rule, _WORDS[rule], "discard"))
            share.take((entry,))

    async def remove(self, writer: AsyncWriter, done: Callable[[int], bool]) -> CleanReport:
        """Remove by name what was found. A queue that is used now stays. `done` receives how many were removed, and
        returns whether to stop.
        """
        from qdeck.messages import PlannedCleaning

        found = ((_EVENTS[rule], [entry.id for entry in self._entries.get(rule, [])]) for rule in self.rules)
        cleaning = PlannedCleaning(found)
        return await writer.clean(cleaning, cancelled=lambda: done(cleaning.report.removed))
