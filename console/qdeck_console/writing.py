"""Make a context live, and read-only again: production is live for half an hour, with a reason."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from qdeck import QdeckError
from qdeck_console.contexts import LIVE_S, live_entry
from qdeck_console.format import clock

if TYPE_CHECKING:
    from qdeck.admin import Activity, Target
    from qdeck_console.session import Session

AGAIN_S: Final = 5.0  # before a server that did not take what it is told is told again


@dataclass(slots=True, kw_only=True)
class _Note:
    """A line for the log of a server, which has no use after `until`."""

    target: Target
    entry: Activity
    until: float
    tried: bool = False


class Writing:
    """Whether this console may write, for how long, and what it has logged."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._owed: list[_Note] = []
        self._telling: _Note | None = None
        self._again_at = float("-inf")

    def why_not(self) -> str:
        """Why writing cannot be opened."""
        if not self._session.context.read_only:
            return "already live"
        return self._session.context.locked or ("server lost" if self._session.latest.is_lost else "")

    def ask(self) -> None:
        """Make the context live. Production asks for its name and a reason, and is read-only again after a time."""
        why = self.why_not()
        if why:
            self._session.say(why, "muted", "∅")
        elif not self._session.context.is_production:
            self._session.run_worker(
                self._session.become(read_only=False, until=None), group="live", exit_on_error=False
            )
            self._session.say("live", "ok", "✓")
        else:
            self._session.run_worker(self._ask_reason(), group="live", exit_on_error=False)

    async def _ask_reason(self) -> None:
        from qdeck_console.screens.prompt import live_question

        now, page = time.time_ns() // 1_000_000, self._session.screen
        try:
            said = await self._session.reader.activity(now - LIVE_S * 1000)
        except (QdeckError, OSError):
            said = []  # who else is live is good to know, and no reason to stop
        others = {}
        for row in said:
            if row.verb in ("live", "read-only") and row.detail == self._session.context.title:
                others[row.who, row.host] = row  # the last word of each
        live = [row for row in others.values() if row.verb == "live"]
        if self._session.screen is not page:
            self._session.say(":live was not asked: its page was left", "warn", "▲")
            return
        given = await self._session.push_screen_wait(live_question(self._session, live))
        if given is None:
            self._session.say("nothing was changed", "muted", "")
            return
        await self._session.become(read_only=False, until=time.monotonic() + LIVE_S)
        self.tell(given[1])
        self._session.say(f"live until {clock(now + LIVE_S * 1000)}", "ok", "✓")

    def tell(self, reason: str, *, ends: bool = False) -> None:
        """Log that this console is live, or no longer, for other consoles. A server that is lost gets the entry when
        it is back, unless both happened meanwhile.
        """
        from qdeck.admin import actor

        snapshot, target = self._session.latest.snapshot, self._session.contexts.target
        now = snapshot.at_ms if snapshot else time.time_ns() // 1_000_000
        told = f"live since {clock(now)[:5]} by {actor().rpartition('@')[0]}: {reason}"
        title = self._session.context.title
        self._session.context = replace(self._session.context, told="" if ends else told)
        if ends and any(self._is_unknown(note, target) for note in self._owed):
            self._owed = [note for note in self._owed if not self._is_unknown(note, target)]
            return
        entry = live_entry(title, reason, now, ends=ends)
        self._owed.append(_Note(target=target, entry=entry, until=time.monotonic() + LIVE_S))
        self._again_at = float("-inf")
        self.tell_owed()

    def _is_unknown(self, note: _Note, target: Target) -> bool:
        return note.target == target and note.entry.verb == "live" and note is not self._telling

    def tell_owed(self) -> None:
        """Send what no server has accepted yet."""
        if self._owed and self._telling is None and time.monotonic() >= self._again_at:
            self._telling = self._owed[0]
            self._session.run_worker(self._tell(self._telling), group="told", exit_on_error=False)

    async def _tell(self, note: _Note) -> None:
        # One of its own: the console's may not write any more, or be on another server.
        writer = self._session.contexts.writer(note.target, self._session.cost)
        again, note.tried, is_told = note.tried, True, True
        try:
            await writer.record(note.entry, again=again)
        except (QdeckError, OSError):
            is_told = time.monotonic() >= note.until
        finally:
            self._telling = None
            await writer.close()
        if is_told:
            self._owed = [owed for owed in self._owed if owed is not note]
            self._session.feed.poke()
            self.tell_owed()
        else:
            self._again_at = time.monotonic() + AGAIN_S

    @property
    def is_over(self) -> bool:
        """Whether the time for writing has passed: what was asked before is not done any more."""
        return self._session.context.live_until is not None and time.monotonic() >= self._session.context.live_until

    def end(self, why: str) -> None:
        """Write no more: the writer is closed."""
        if self._session.context.read_only:
            return
        if self._session.busy:
            self._session.say(f"{self._session.busy} in progress: esc cancels it", "muted", "∅")
            return
        was_limited = self._session.context.live_until is not None
        self._session.context = replace(self._session.context, live_until=None)

        async def close() -> None:
            await self._session.become(read_only=True, until=None)
            if was_limited:
                self.tell("", ends=True)
            self._session.say(f"{why}read-only", "muted", "∅")

        self._session.run_worker(close(), group="live", exit_on_error=False)
