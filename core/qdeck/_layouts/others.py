"""The other layouts of one deck: what a look at its queues adds to the native ones, and whose a queue is."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from qdeck._deck import keyspace, native, reads, verdict
from qdeck._deck.model import NATIVE, State
from qdeck._errors import InvalidOption, QdeckError
from qdeck._layouts import NAMES, discovery, make_all
from qdeck._layouts.model import Act
from qdeck._layouts.together import all_of, apart

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from qdeck._deck.model import Found, QueueRow, Snapshot
    from qdeck._engine.ops import Program
    from qdeck._layouts.base import Layout
    from qdeck._settings.thresholds import Thresholds


MOST_STRAYS: Final = 10_000  # queues of ours that are remembered where no registry names them


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
        self._kept_at = -math.inf
        self._homes: dict[str, Layout] = {}
        self.unread: list[str] = []
        """What the last look at these layouts left out, with the reason."""
        for layout in self.layouts:
            layout.thresholds = thresholds

    def rows(self, now: int) -> Program[tuple[list[QueueRow], list[str]]]:
        """The queues of those layouts that are there; one that cannot be read is told and does not stop the rest."""
        notices, unread = yield from discovery.look(self.layouts, self._recall())
        return (yield from self._rows(now, notices, unread))

    def _rows(self, now: int, notices: list[str], unread: list[str]) -> Program[tuple[list[QueueRow], list[str]]]:
        self._keep()
        rows: list[QueueRow] = []
        self._homes = {}
        there = [layout for layout in self.layouts if layout.sight is not None and layout.sight.is_there]
        looks = yield from apart([layout.rows(now) for layout in there])
        for layout, look in zip(there, looks, strict=True):
            if isinstance(look, QdeckError):
                unread.append(reads.unread_words(layout.name, look))
                continue
            rows += look.rows
            notices += look.notices
            unread += look.unread
            for row in look.rows:
                self._homes.setdefault(row.name, layout)
        self.unread = list(dict.fromkeys(unread))
        return rows, [*notices, *self.unread]

    def _recall(self) -> discovery.Remembered:
        if self._remembered is None:
            self._remembered = discovery.recall(self._address)
        return self._remembered

    def _keep(self) -> None:
        """Writes down what was found: at the first look, for it may be the only one, and now and then after it."""
        now = time.monotonic()
        if self._remembered is not None and now - self._kept_at >= discovery.KEPT_EVERY_S:
            discovery.remember(self._address, self._remembered)
            self._kept_at = now

    def look(self, memory: native.Memory, address: str, visible: Collection[str] | None = None) -> Program[Snapshot]:
        """One picture of all queues: our own, and those of these layouts."""
        if not self.layouts:
            seen = yield from native.look(memory, address, visible)
            return replace(seen, notices=(*seen.notices, *self._notices)) if self._notices else seen
        self._remind(memory)
        programs: list[Program[Any]] = [
            native.look(memory, address, visible),
            discovery.look(self.layouts, self._recall()),
        ]
        seen, found = yield from all_of(programs)
        self._note(memory)
        return (yield from self._extended(seen, *found))

    def _remind(self, memory: native.Memory) -> None:
        """Lets a look for our own queues go on where the last one on this machine ended."""
        strays = self._recall().strays
        if strays is not None and not memory.names:
            memory.strays = keyspace.Strays(cursor=strays.cursor, passes=strays.passes, names={*strays.names})

    def _note(self, memory: native.Memory) -> None:
        """Remembers how far the look for our own queues came, where no registry names them."""
        strays = memory.strays
        if memory.registered > 0:
            self._recall().strays = None
        else:
            names = {*sorted(strays.names)[:MOST_STRAYS]}
            self._recall().strays = keyspace.Strays(cursor=strays.cursor, passes=strays.passes, names=names)

    def _extended(self, seen: Snapshot, notices: list[str], unread: list[str]) -> Program[Snapshot]:
        """A picture of the native queues with those of the other layouts."""
        found, notices = yield from self._rows(seen.at_ms, notices, unread)
        native_rows = seen.queues if self.shows_native else ()
        fresh = None if seen.fresh is None or not native_rows else seen.fresh.union(row.name for row in found)
        rows = (*native_rows, *found)
        now = None if fresh is None else seen.at_ms
        judged = yield from self._verdict.judge(seen.server, rows, self._thresholds, now=now)
        there = dict.fromkeys(row.layout for row in found)
        return replace(
            seen, status=judged.status, findings=judged.findings, severities=judged.severities,
            queues=rows, fresh=fresh, totals=native.sums(rows),
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

    def queues(self, unread: list[tuple[str, str]] | None = None) -> Program[list[tuple[Layout, str]]]:
        """The foreign queues that are there now; what was left out, with the reason, is in `unread`."""
        rows, _ = yield from self.rows((yield from reads.clock()))
        by_name = {layout.name: layout for layout in self.layouts}
        if unread is not None:
            unread += [("", why) for why in self.unread]
            unread += [(row.name, reads.unread_words(row.name, row.problem)) for row in rows if row.problem]
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
