"""The other layouts of one deck: what a look at its queues adds to the native ones, and whose a queue is."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from qdeck._deck import native, reads, verdict
from qdeck._deck.model import NATIVE, State
from qdeck._errors import InvalidOption, QdeckError
from qdeck._layouts import NAMES, discovery, make_all
from qdeck._layouts.base import Act

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qdeck._deck.model import Found, QueueRow, Snapshot
    from qdeck._engine.ops import Program
    from qdeck._layouts.base import Layout
    from qdeck._settings.thresholds import Thresholds


class Others:
    """Foreign layouts by name; without any of them everything here does nothing."""

    def __init__(
        self,
        names: Sequence[str],
        address: str,
        thresholds: Thresholds,
        patterns: Sequence[str] = (),
        *,
        on_cluster: bool = False,
    ) -> None:
        made = make_all(names, patterns)
        self.layouts = [layout for layout in made if layout.on_cluster or not on_cluster]
        left_out = ", ".join(layout.name for layout in made if layout not in self.layouts)
        # Whoever takes all layouts there are has asked for none of them.
        told = left_out and not set(NAMES) <= set(names)
        self._notices = (f"not on Cluster: {left_out} (a queue's keys are in several slots)",) if told else ()
        if left_out and not self.layouts and NATIVE not in names:
            raise InvalidOption(f"not on Cluster: {left_out}", hint="their queues keep keys in several slots")
        self.shows_native = NATIVE in names
        self._address, self._thresholds = address, thresholds
        self._verdict = verdict.Standing()
        self._remembered: discovery.Remembered | None = None
        self._homes: dict[str, Layout] = {}
        for layout in self.layouts:
            layout.thresholds = thresholds

    def rows(self, now: int) -> Program[tuple[list[QueueRow], list[str]]]:
        """The queues of those layouts that are there; one that cannot be read is told and does not stop the rest."""
        remembered = self._remembered
        if remembered is None:
            remembered = self._remembered = discovery.recall(self._address)
        passes = sum(one.passes for one in remembered.passes.values())
        notices = yield from discovery.look(self.layouts, remembered)
        unfinished = any(one.passes == 0 for one in remembered.passes.values())
        if unfinished or sum(one.passes for one in remembered.passes.values()) != passes:
            discovery.remember(self._address, remembered)
        rows: list[QueueRow] = []
        self._homes = {}
        for layout in self.layouts:
            if layout.sight is None or not layout.sight.is_there:
                continue
            try:
                look = yield from layout.rows(now)
            except QdeckError as error:
                notices.append(f"{layout.name} cannot be read: {error}")
                continue
            rows += look.rows
            notices += look.notices
            for row in look.rows:
                self._homes.setdefault(row.name, layout)
        return rows, notices

    def extend(self, seen: Snapshot) -> Program[Snapshot]:
        """A picture of the native queues with those of the other layouts."""
        if not self.layouts:
            return replace(seen, notices=(*seen.notices, *self._notices)) if self._notices else seen
        found, notices = yield from self.rows(seen.at_ms)
        native_rows = seen.queues if self.shows_native else ()
        fresh = None if seen.fresh is None or not native_rows else seen.fresh.union(row.name for row in found)
        rows = (*native_rows, *found)
        now = None if fresh is None else seen.at_ms
        status, reasons = yield from self._verdict.judge(seen.server, rows, self._thresholds, now=now)
        there = dict.fromkeys(row.layout for row in found)
        return replace(
            seen, status=status, reasons=reasons, queues=rows, fresh=fresh, totals=native.sums(rows),
            layouts=(*(seen.layouts if self.shows_native else ()), *there),
            notices=(*seen.notices, *self._notices, *notices),
        )  # fmt: skip

    def why_not(self, name: str, verb: str, state: str) -> str:
        """Why a layout cannot do something to an entry in a state; empty when it can."""
        layout = next((one for one in self.layouts if one.name == name), None)
        if layout is None or verb not in list(Act):
            return f"{name} has nothing like {verb}"
        return layout.why_not(Act(verb), State(state))

    def why_not_watch(self, name: str) -> str:
        """Why it cannot be seen how retried entries of a layout fare; empty when it can."""
        layout = next((one for one in self.layouts if one.name == name), None)
        return "" if layout is None or layout.tells_fates else f"{name} does not tell how retried entries fare"

    def queues(self) -> Program[list[tuple[Layout, str]]]:
        """The foreign queues that are there now."""
        rows, _ = yield from self.rows((yield from reads.clock()))
        by_name = {layout.name: layout for layout in self.layouts}
        return [(by_name[row.layout], row.name) for row in rows]

    def find(self, job_id: str) -> Program[list[Found]]:
        """Where an id is in the foreign queues."""
        if self.layouts:
            yield from self.rows((yield from reads.clock()))
        found: list[Found] = []
        for layout in self.layouts:
            if layout.sight is not None and layout.sight.is_there:
                found += yield from layout.find(job_id)
        return found

    def home(self, queue: str) -> Program[Layout | None]:
        """The foreign layout that has a queue of this name; None when it is native, or nobody's."""
        if not self.layouts:
            return None
        if self.shows_native and (yield from native.exists(queue)):
            return None
        if queue not in self._homes:
            yield from self.rows((yield from reads.clock()))
        return self._homes.get(queue)
