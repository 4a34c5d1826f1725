"""Opening the deck for writing, and closing it again: production is opened for half an hour, with a reason."""

from __future__ import annotations

import contextlib
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from qdeck import QdeckError
from qdeck_console.contexts import LIVE_S, record_live
from qdeck_console.format import clock

if TYPE_CHECKING:
    from qdeck_console.app import ConsoleApp


class Writing:
    """Whether this console may write, for how long, and whom it told."""

    def __init__(self, app: ConsoleApp) -> None:
        self._app = app

    def why_not(self) -> str:
        """Why writing cannot be opened."""
        if not self._app.context.read_only:
            return "it is live"
        return self._app.context.locked or ("server lost" if self._app.latest.is_lost else "")

    def ask(self) -> None:
        """Opens writing; in production its name and a reason are asked for, and it ends by itself."""
        why = self.why_not()
        if why:
            self._app.say(why, "muted", "∅")
        elif not self._app.context.is_production:
            self._app.run_worker(self._app.become(read_only=False, until=None), group="live", exit_on_error=False)
            self._app.say("live", "ok", "✓")
        else:
            self._app.run_worker(self._ask_reason(), group="live", exit_on_error=False)

    async def _ask_reason(self) -> None:
        from qdeck._operations import api
        from qdeck_console.screens.live import LiveScreen

        now = time.time_ns() // 1_000_000
        try:
            said = await api.aread_activity(self._app.deck, now - LIVE_S * 1000)
        except (QdeckError, OSError):
            said = []  # who else is live is good to know, and no reason to stop
        others = {}
        for row in said:
            if row.verb in ("live", "read-only") and row.where == self._app.context.title:
                others[row.who, row.host] = row  # the last word of each
        live = [row for row in others.values() if row.verb == "live"]
        reason = await self._app.push_screen_wait(LiveScreen(self._app, live))
        if not reason:
            self._app.say("nothing was done", "muted", "")
            return
        await self._app.become(read_only=False, until=time.monotonic() + LIVE_S)
        await self.tell(reason)
        self._app.say(f"live until {clock(now + LIVE_S * 1000)}", "ok", "✓")

    async def tell(self, reason: str, *, ends: bool = False) -> None:
        """Records that this console may write, or that it ended, where other consoles see it."""
        from qdeck._deck.changes import actor

        now = self._app.latest.snapshot.at_ms if self._app.latest.snapshot else time.time_ns() // 1_000_000
        told = f"live since {clock(now)[:5]} by {actor().rpartition('@')[0]}: {reason}"
        self._app.context = replace(self._app.context, told="" if ends else told)
        with contextlib.suppress(QdeckError, OSError):
            await self._app.deck.awrite(record_live(self._app.context.title, reason, now, ends=ends))
        self._app.feed.poke()

    @property
    def is_over(self) -> bool:
        """Whether the time for writing has passed: what was asked before is not done any more."""
        return self._app.context.live_until is not None and time.monotonic() >= self._app.context.live_until

    def end(self, why: str) -> None:
        """Writes no more: the deck that could is closed."""
        if self._app.context.read_only:
            return
        if self._app.operator.work is not None:
            self._app.say(f"{self._app.operator.work.verb} goes on: esc cancels it", "muted", "∅")
            return
        was_limited = self._app.context.live_until is not None
        self._app.context = replace(self._app.context, live_until=None)

        async def close() -> None:
            if was_limited:
                await self.tell("", ends=True)
            await self._app.become(read_only=True, until=None)
            self._app.say(f"{why}read-only", "muted", "∅")

        self._app.run_worker(close(), group="live", exit_on_error=False)
