"""The ticker: makes the jobs of due schedule runs. Any number of tickers may work; each run is made once."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from qdeck._errors import OutcomeUnknown, QdeckError, ServerRefused, ServerUnreachable
from qdeck._schedules import store
from qdeck._schedules.model import AHEAD_S, MAX_MISSED, Definition, ScheduleState, read_definition

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from qdeck._redis import AsyncClient
    from qdeck._schedules.cron_rule import CronRule

_log = logging.getLogger(__name__)
POLL_S: Final = 15.0  # how late a change of a schedule may take effect
PUNCTUAL_S: Final = 60  # a run that is later than this is missed
RETRY_S: Final = 1.0
WATCHED: Final = 50
_AT_ONCE: Final = 20  # schedules between two reads of what other tickers made
_SPREAD_S: Final = 0.02


def _no_event(_: dict[str, Any]) -> None:
    return


@dataclass(slots=True)
class _Scheduled:
    definition: Definition
    rule: CronRule
    handled_until: int
    due: int | None


class Ticker:
    """Makes the jobs of a server's schedules, by the server's clock, until cancelled.

    `declared` are the schedules of this program; they are stored as soon as the server can be reached.
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
        self._scheduled: dict[str, _Scheduled] = {}
        self._paused: set[str] = set()
        self._broken: dict[str, str] = {}
        self._watched: dict[str, tuple[str, str]] = {}
        self._watched_at = 0.0
        self._reported_failure = ""
        self._read_ms = 0
        self._offset = 0.0
        self._synced = False

    async def run(self) -> None:
        """Tick until cancelled. A failure of the server, or of one schedule, is reported and retried."""
        while True:
            try:
                wait_s = await self.tick()
                self._reported_failure = ""
            except QdeckError as error:
                self._report_failure(str(error))
                lost = isinstance(error, ServerUnreachable | OutcomeUnknown | ServerRefused)
                wait_s = (RETRY_S if lost else POLL_S) * random.uniform(0.5, 1.5)  # noqa: S311 - spreads tickers, guards nothing
            except Exception:  # noqa: BLE001 - logged with its traceback
                # The program may have no other ticker: continue.
                _log.exception("a ticker failed")
                wait_s = RETRY_S * 5
            await asyncio.sleep(wait_s)

    async def tick(self) -> float:
        """Make what is due now; return for how many seconds nothing will be due."""
        if self._stored != self._declared:
            await self._register()
        due = self._due_names(self._now)
        read_ms, revision, states = await self._client.run(store.peek(due))
        if not self._opened or revision != self._revision or read_ms < self._read_ms - 1000 * AHEAD_S:
            # If the server's clock was set back, what was recorded meanwhile is not valid.
            read_ms, states = await self._open()
        self._read_ms = read_ms
        self._set_clock(read_ms)
        due = self._due_names(read_ms // 1000)
        random.shuffle(due)  # each of many tickers begins elsewhere
        for at in range(0, len(due), _AT_ONCE):
            part = due[at : at + _AT_ONCE]
            if at:
                read_ms, _, states = await self._client.run(store.peek(part))
            for name in part:
                await self._make_runs(self._scheduled[name], states.get(name), read_ms)
        if self._watched and time.monotonic() - self._watched_at >= min(self._poll, POLL_S):
            self._watched_at = time.monotonic()
            await self._record_outcomes()
        return self._seconds_to_next()

    @property
    def _now(self) -> int:
        return int(time.monotonic() + self._offset) if self._synced else 0

    def _set_clock(self, read_ms: int) -> None:
        self._offset = read_ms / 1000 - time.monotonic()
        self._synced = True

    def _due_names(self, now: int) -> list[str]:
        return [
            name for name, scheduled in self._scheduled.items() if scheduled.due is not None and scheduled.due <= now
        ]

    def _seconds_to_next(self) -> float:
        coming = [scheduled.due for scheduled in self._scheduled.values() if scheduled.due is not None]
        if not coming:
            return self._poll
        left = min(coming) - (time.monotonic() + self._offset)
        # Spread many tickers: the first makes the run, and the others find it made.
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

    async def _open(self) -> tuple[int, dict[str, ScheduleState]]:
        stored = await self._client.run(store.read_all())
        if stored.revision is None and self._stored:
            # The server was emptied: store the declared schedules again.
            self._stored.clear()
            await self._register()
            stored = await self._client.run(store.read_all())
        self._scheduled.clear()
        self._forget_broken(stored.definitions)
        for name, raw in stored.definitions.items():
            state = stored.states[name]
            if not state.enabled:
                continue
            try:
                definition = read_definition(name, raw)
                rule = definition.rule()
            except ValueError as error:
                self._report_broken(name, str(error))
                continue
            handled_until = state.handled_until(stored.now_ms // 1000)
            self._scheduled[name] = _Scheduled(definition, rule, handled_until, rule.next(handled_until))
        self._revision, self._opened = stored.revision, True
        return stored.now_ms, stored.states

    async def _make_runs(self, scheduled: _Scheduled, state: ScheduleState | None, read_ms: int) -> None:
        """Make the due runs of one schedule, unless another ticker has."""
        name, now = scheduled.definition.name, read_ms // 1000
        handled_until = 0 if state is None else state.handled_until(now)
        if handled_until > scheduled.handled_until:
            scheduled.handled_until, scheduled.due = handled_until, scheduled.rule.next(handled_until)
            if scheduled.due is None or scheduled.due > now:
                return
        runs, missed, until = self._choose_runs(scheduled, now)
        try:
            ticked = await self._client.run(store.tick(scheduled.definition, read_ms, runs, until))
            if ticked.stale:
                return  # this program was suspended meanwhile: it reads again
            made = ticked.made
            if runs and not made and ticked.handled_until >= until:
                # Another ticker made it. It may have died before it recorded that, so this one does.
                made = [scheduled.definition.run_id(until)]
            await self._client.run(store.record_runs(name, until, missed, made))
        except (ServerUnreachable, OutcomeUnknown):
            raise
        except QdeckError as error:
            # A queue that refuses (another program has its keys) must not block the other schedules.
            self._report_broken(name, str(error))
            scheduled.due = now + round(POLL_S)
            return
        self._broken.pop(name, None)
        scheduled.handled_until, scheduled.due = until, scheduled.rule.next(until)
        if ticked.made:
            self._watched[name] = (scheduled.definition.queue, ticked.made[-1])
            while len(self._watched) > WATCHED:
                self._watched.pop(next(iter(self._watched)))
            event: dict[str, Any] = {"event": "ticked", "schedule": name, "queue": scheduled.definition.queue}
            self._event(event | {"ids": ticked.made, "missed": missed})

    def _choose_runs(self, scheduled: _Scheduled, now: int) -> tuple[list[int], int, int]:
        """Return which of the due runs to make, how many are missed, and until when all are handled."""
        policy = scheduled.definition.missed
        runs, before = scheduled.rule.last_runs(scheduled.handled_until, now, MAX_MISSED if policy == "all" else 1)
        if not runs:
            return [], 0, now
        until = runs[-1]
        if policy == "skip" and until < now - PUNCTUAL_S:
            return [], before + len(runs), until
        return runs, before, until

    async def _record_outcomes(self) -> None:
        """Record how the jobs of this ticker ended, before their records are gone."""
        by_queue: dict[str, dict[str, str]] = {}
        for name, (queue, job_id) in self._watched.items():
            by_queue.setdefault(queue, {})[job_id] = name
        for queue, names in by_queue.items():
            found = await self._client.run(store.states_of(queue, list(names)))
            for job_id, name in names.items():
                state = found.get(job_id, "")
                if state in store.ENDED:
                    await self._client.run(store.record_outcome(name, job_id, state))
                if state in store.ENDED or not state:
                    self._watched.pop(name, None)

    def _report_failure(self, error: str) -> None:
        # Once per failure, not once per attempt: it may last for hours.
        if error != self._reported_failure:
            self._reported_failure = error
            self._event({"event": "waiting", "what": "schedules", "error": error})

    def _report_broken(self, name: str, error: str) -> None:
        if self._broken.get(name) != error:
            self._broken[name] = error
            self._event({"event": "schedule_broken", "schedule": name, "error": error})

    def _forget_broken(self, there: Collection[str]) -> None:
        for name in [name for name in self._broken if name not in there]:
            del self._broken[name]
