"""The ticker: makes the jobs of schedules as their turns come. Any number of them may run; each turn is made once."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from qdeck._errors import OutcomeUnknown, QdeckError, ServerRefused, ServerUnreachable
from qdeck._schedules import store
from qdeck._schedules.model import AHEAD_S, MOST_MISSED, Definition, Past, read_definition

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from qdeck._redis import AsyncClient
    from qdeck._schedules.rule import Rule

_log = logging.getLogger(__name__)
POLL_S: Final = 15.0  # how late a change of the schedules may be noticed
PUNCTUAL_S: Final = 60  # a turn that is not later than this was not missed
RETRY_S: Final = 1.0
WATCHED: Final = 50
_AT_ONCE: Final = 20  # schedules between two looks at what other tickers have done meanwhile
_SPREAD_S: Final = 0.02


def _no_event(_: dict[str, Any]) -> None:
    return


@dataclass(slots=True)
class _Known:
    definition: Definition
    rule: Rule
    mark: int
    due: int | None


class Ticker:
    """Makes jobs as the schedules of a server say, by the server's clock, until it is cancelled.

    `declared` are definitions that this program wants to be there; they are stored when the server can be reached.
    """

    def __init__(
        self,
        client: AsyncClient,
        *,
        declared: Mapping[str, Definition] | None = None,
        on_event: Callable[[dict[str, Any]], None] = _no_event,
        poll: float = POLL_S,
    ) -> None:
        self._client = client
        self._declared = declared if declared is not None else {}
        self._event = on_event
        self._poll = poll
        self._revision: bytes | None = None
        self._opened = False
        self._stored: dict[str, Definition] = {}
        self._known: dict[str, _Known] = {}
        self._paused: set[str] = set()
        self._broken: dict[str, str] = {}
        self._watched: dict[str, tuple[str, str]] = {}
        self._watched_at = 0.0
        self._troubled = ""
        self._look_ms = 0
        self._offset = 0.0
        self._synced = False

    async def run(self) -> None:
        """Ticks until it is cancelled. Trouble with the server, or with one schedule, is told and survived."""
        while True:
            try:
                wait_s = await self.turn()
                self._troubled = ""
            except QdeckError as error:
                self._tell_trouble(str(error))
                lost = isinstance(error, ServerUnreachable | OutcomeUnknown | ServerRefused)
                wait_s = (RETRY_S if lost else POLL_S) * random.uniform(0.5, 1.5)  # noqa: S311 - spreads tickers, guards nothing
            except Exception:  # noqa: BLE001 - logged with its traceback
                # Nobody else would tick in a program that has one ticker: the next turn may go better.
                _log.exception("a ticker failed")
                wait_s = RETRY_S * 5
            await asyncio.sleep(wait_s)

    async def turn(self) -> float:
        """Makes what is due now; returns for how many seconds nothing will be."""
        if self._stored != self._declared:
            await self._register()
        due = self._due_names(self._now)
        look_ms, revision, past = await self._client.run(store.peek(due))
        if not self._opened or revision != self._revision or look_ms < self._look_ms - 1000 * AHEAD_S:
            # The last one: the server's clock went back, and what was settled meanwhile is not to be believed.
            look_ms, past = await self._open()
        self._look_ms = look_ms
        self._set_clock(look_ms)
        due = self._due_names(look_ms // 1000)
        random.shuffle(due)  # of many tickers each begins with others
        for at in range(0, len(due), _AT_ONCE):
            part = due[at : at + _AT_ONCE]
            if at:
                look_ms, _, past = await self._client.run(store.peek(part))
            for name in part:
                await self._serve(self._known[name], past.get(name), look_ms)
        if self._watched and time.monotonic() - self._watched_at >= min(self._poll, POLL_S):
            self._watched_at = time.monotonic()
            await self._note_outcomes()
        return self._rest()

    @property
    def _now(self) -> int:
        return int(time.monotonic() + self._offset) if self._synced else 0

    def _set_clock(self, look_ms: int) -> None:
        self._offset = look_ms / 1000 - time.monotonic()
        self._synced = True

    def _due_names(self, now: int) -> list[str]:
        return [name for name, known in self._known.items() if known.due is not None and known.due <= now]

    def _rest(self) -> float:
        coming = [known.due for known in self._known.values() if known.due is not None]
        if not coming:
            return self._poll
        left = min(coming) - (time.monotonic() + self._offset)
        # The first of many tickers does it, and the others find it done: not all at the same moment.
        return max(0.001, min(left + random.uniform(0.0, _SPREAD_S), self._poll))  # noqa: S311 - guards nothing

    async def _register(self) -> None:
        for name, definition in list(self._declared.items()):
            if self._stored.get(name) != definition:
                word = await self._client.run(store.register(definition))
                self._stored[name] = definition
                if word != "same":
                    self._event({"event": "scheduled", "schedule": name, "cron": definition.cron, "how": word})
        for name in [name for name in self._stored if name not in self._declared]:
            del self._stored[name]

    async def _open(self) -> tuple[int, dict[str, Past]]:
        book = await self._client.run(store.open_book())
        if book.revision is None and self._stored:
            # Somebody emptied the server: what this program declares belongs there all the same.
            self._stored.clear()
            await self._register()
            book = await self._client.run(store.open_book())
        self._known.clear()
        self._forget_broken(book.definitions)
        for name, raw in book.definitions.items():
            past = book.past[name]
            if not past.enabled:
                continue
            try:
                definition = read_definition(name, raw)
                rule = definition.rule()
            except ValueError as error:
                self._tell_broken(name, str(error))
                continue
            mark = past.mark(book.now_ms // 1000)
            self._known[name] = _Known(definition, rule, mark, rule.next(mark))
        self._revision, self._opened = book.revision, True
        return book.now_ms, book.past

    async def _serve(self, known: _Known, past: Past | None, look_ms: int) -> None:
        """Makes the turns of one schedule that are due, unless another ticker has."""
        name, now = known.definition.name, look_ms // 1000
        mark = 0 if past is None else past.mark(now)
        if mark > known.mark:
            known.mark, known.due = mark, known.rule.next(mark)
            if known.due is None or known.due > now:
                return
        turns, missed, upto = self._choose(known, now)
        try:
            ticked = await self._client.run(store.tick(known.definition, look_ms, turns, upto))
            if ticked.stale:
                return  # this program stood still meanwhile: it looks again
            made = ticked.made
            if turns and not made and ticked.mark >= upto:
                # Another ticker made it. It may have ended before it could note that, so this one does.
                made = [known.definition.turn_id(upto)]
            await self._client.run(store.settle(name, upto, missed, made))
        except (ServerUnreachable, OutcomeUnknown):
            raise
        except QdeckError as error:
            # One queue that refuses (another program has its keys) must not hold up the other schedules.
            self._tell_broken(name, str(error))
            known.due = now + round(POLL_S)
            return
        self._broken.pop(name, None)
        known.mark, known.due = upto, known.rule.next(upto)
        if ticked.made:
            self._watched[name] = (known.definition.queue, ticked.made[-1])
            while len(self._watched) > WATCHED:
                self._watched.pop(next(iter(self._watched)))
            told: dict[str, Any] = {"event": "ticked", "schedule": name, "queue": known.definition.queue}
            self._event(told | {"ids": ticked.made, "missed": missed})

    def _choose(self, known: _Known, now: int) -> tuple[list[int], int, int]:
        """Which of the due turns to make, how many are missed, and up to which all are settled."""
        policy = known.definition.missed
        turns, before = known.rule.between(known.mark, now, MOST_MISSED if policy == "all" else 1)
        if not turns:
            return [], 0, now
        upto = turns[-1]
        if policy == "skip" and upto < now - PUNCTUAL_S:
            return [], before + len(turns), upto
        return turns, before, upto

    async def _note_outcomes(self) -> None:
        """Notes how jobs ended that this ticker made, for when their records are gone."""
        by_queue: dict[str, dict[str, str]] = {}
        for name, (queue, job_id) in self._watched.items():
            by_queue.setdefault(queue, {})[job_id] = name
        for queue, names in by_queue.items():
            found = await self._client.run(store.states_of(queue, list(names)))
            for job_id, name in names.items():
                state = found.get(job_id, "")
                if state in store.ENDED:
                    await self._client.run(store.note_outcome(name, job_id, state))
                if state in store.ENDED or not state:
                    self._watched.pop(name, None)

    def _tell_trouble(self, why: str) -> None:
        # Once per trouble, not once per try: it may last for hours.
        if why != self._troubled:
            self._troubled = why
            self._event({"event": "waiting", "what": "schedules", "error": why})

    def _tell_broken(self, name: str, why: str) -> None:
        if self._broken.get(name) != why:
            self._broken[name] = why
            self._event({"event": "schedule_broken", "schedule": name, "error": why})

    def _forget_broken(self, there: Collection[str]) -> None:
        for name in [name for name in self._broken if name not in there]:
            del self._broken[name]
