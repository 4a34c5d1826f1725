"""The servers that the console can look at, the decks on them, and for how long one may be written to."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

from qdeck._deck.deck import Deck
from qdeck._deck.model import NATIVE
from qdeck._layouts import NAMES
from qdeck._operations import activity
from qdeck_console.terminal import context_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from qdeck._engine.ops import Program
    from qdeck._settings import Configuration, Target
    from qdeck._settings.model import Context as Configured
    from qdeck_console.presenters.frame import Context

T = TypeVar("T")
LIVE_S: Final = 30 * 60


class Cost:
    """What looking costs the server: commands and bytes sent, over the last seconds."""

    def __init__(self) -> None:
        self._sent: list[tuple[float, int, int]] = []
        self._since = time.monotonic()

    def add(self, commands: int, size: int) -> None:
        """Notes one request."""
        self._sent.append((time.monotonic(), commands, size))
        if len(self._sent) > 2000:
            self._trim()

    def _trim(self, seconds: float = 10.0) -> None:
        start = time.monotonic() - seconds
        self._sent = [row for row in self._sent if row[0] >= start]

    def per_second(self) -> tuple[float, float]:
        """Commands and bytes a second."""
        self._trim()
        passed = max(1.0, min(10.0, time.monotonic() - self._since))
        return sum(row[1] for row in self._sent) / passed, sum(row[2] for row in self._sent) / passed


class CountedDeck(Deck):
    """A deck that counts what it asks of the server, so that the console can tell its own cost."""

    def __init__(self, *args: Any, cost: Cost | None = None, **more: Any) -> None:
        super().__init__(*args, **more)
        self.cost = cost or Cost()

    async def alook(self, program: Program[T]) -> T:
        """Runs a program that only reads, in asyncio."""
        return await super().alook(self._counted(program))

    async def awrite(self, program: Program[T]) -> T:
        """Runs a program that writes, in asyncio."""
        return await super().awrite(self._counted(program))

    def _counted(self, program: Program[T]) -> Program[T]:
        try:
            send = next(program)
            while True:
                self.cost.add(send.count, len(send.data))
                send = program.send((yield send))
        except StopIteration as stop:
            value: T = stop.value
            return value


class Contexts:
    """The contexts of the configuration, and the one that is looked at."""

    def __init__(self, target: Target, configuration: Configuration | None = None) -> None:
        self.target = target
        self._configuration = configuration

    @property
    def configured(self) -> Mapping[str, Configured]:
        """Those that the file names."""
        return {} if self._configuration is None else self._configuration.settings.contexts

    @property
    def configuration(self) -> Configuration | None:
        """What was read, and from which file."""
        return self._configuration

    def take_configuration(self, found: Configuration) -> None:
        """Goes on with a configuration that was written anew."""
        self._configuration = found

    @property
    def where(self) -> str:
        """The file in words."""
        return self._configuration.where if self._configuration is not None else "no qdeck.toml was read"

    def find(self, name: str) -> Target:
        """The server of a context; raises when there is none, or when a variable of its URL is not set."""
        if self._configuration is None:
            raise LookupError("no qdeck.toml was read")
        found = self._configuration.target(name)
        assert found is not None  # noqa: S101 - a name was given
        return found

    def deck(self, target: Target, *, read_only: bool, cost: Cost | None = None) -> CountedDeck:
        """A deck on a server."""
        layouts = target.layouts or (NATIVE, *NAMES)
        hint = "type :live to write" if not target.read_only else "its context says read_only = true"
        return CountedDeck(
            target.url,
            read_only,
            thresholds=target.thresholds,
            read_only_hint=hint,
            layouts=layouts,
            patterns=target.patterns,
            cost=cost,
        )

    def describe(self, target: Target, deck: Deck, *, title: str | None = None) -> Context:
        """What the bar says about it."""
        seen = context_of(deck, title or target.name)
        locked = f"the context {target.name} says read_only = true" if target.read_only else ""
        return replace(seen, environment=target.environment.lower(), colour=target.colour or "", locked=locked)


def opens_read_only(target: Target) -> bool:
    """Whether a server is looked at without being able to write, until someone asks for it."""
    return target.read_only or target.is_production


def record_live(name: str, reason: str, now_ms: int, *, ends: bool = False) -> Program[None]:
    """Notes in the log of operations that writing was opened, or closed."""
    until = None if ends else now_ms + LIVE_S * 1000
    counts = {} if until is None else {"until_ms": until}
    yield from activity.record(
        activity.make("read-only" if ends else "live", now_ms, where=name, reason=reason, counts=counts)
    )
