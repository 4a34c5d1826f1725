"""The servers that the console can look at, the decks on them, and for how long one may be written to."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from qdeck._connection import mask_url
from qdeck._layout_names import LAYOUTS
from qdeck_console.terminal import context_at, context_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from qdeck._deck.deck import Deck
    from qdeck._operations.model import Activity
    from qdeck._settings import Configuration, Target
    from qdeck._settings.model import Context as Configured
    from qdeck_console.counted import Cost, CountedDeck
    from qdeck_console.presenters.frame import Context

LIVE_S: Final = 30 * 60


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
        from qdeck_console.counted import CountedDeck

        layouts = target.layouts or LAYOUTS
        hint = "type :live to write" if not target.read_only else "its context says read_only = true"
        return CountedDeck(
            target.url,
            read_only,
            thresholds=target.thresholds,
            read_only_hint=hint,
            layouts=layouts,
            patterns=target.patterns,
            production=target.production,
            cost=cost,
        )

    def describe(self, target: Target, deck: Deck, *, title: str | None = None) -> Context:
        """What the bar says about a deck."""
        return self._describe(target, context_of(deck, title or target.name))

    def foretell(self, target: Target, *, read_only: bool, title: str | None = None) -> Context:
        """What the bar says about the deck that will be on a server."""
        return self._describe(target, context_at(mask_url(target.url), title or target.name, read_only=read_only))

    def _describe(self, target: Target, seen: Context) -> Context:
        locked = f"the context {target.name} says read_only = true" if target.read_only else ""
        return replace(seen, environment=target.environment.lower(), colour=target.colour or "", locked=locked)


def opens_read_only(target: Target) -> bool:
    """Whether a server is looked at without being able to write, until someone asks for it."""
    return target.read_only or target.is_production


def live_entry(name: str, reason: str, now_ms: int, *, ends: bool = False) -> Activity:
    """What the log of operations says when writing was opened, or closed."""
    from qdeck._operations import activity

    until = None if ends else now_ms + LIVE_S * 1000
    counts = {} if until is None else {"until_ms": until}
    return activity.make("read-only" if ends else "live", now_ms, where=name, reason=reason, counts=counts)
