"""The servers of the configuration, the one that is open, and how long it is live."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from qdeck import NotAllowed
from qdeck.admin import mask_url
from qdeck_console.terminal import context_at

if TYPE_CHECKING:
    from collections.abc import Mapping

    from qdeck.admin import Activity, AsyncReader, AsyncWriter, Configuration, Target
    from qdeck.admin import ContextSettings as Configured
    from qdeck_console.presenters.frame import ShownContext
    from qdeck_console.server_cost import RequestCost

LIVE_S: Final = 30 * 60


class Contexts:
    """The contexts of the configuration, and the one in use."""

    def __init__(self, target: Target, configuration: Configuration | None = None) -> None:
        self.target = target
        self._configuration = configuration

    @property
    def configured(self) -> Mapping[str, Configured]:
        """The contexts of the file."""
        return {} if self._configuration is None else self._configuration.settings.contexts

    @property
    def filters(self) -> Mapping[str, str]:
        """The filters of the file by their names."""
        return {} if self._configuration is None else self._configuration.settings.filters

    @property
    def configuration(self) -> Configuration | None:
        """The configuration that was read, with its file."""
        return self._configuration

    def take_configuration(self, found: Configuration) -> None:
        """Use a configuration that was just saved."""
        self._configuration = found

    @property
    def where(self) -> str:
        """The file, for people."""
        return self._configuration.where if self._configuration is not None else "no configuration file was read"

    def find(self, name: str) -> Target:
        """Return the server of a context. Raise when it does not exist, or a variable of its URL is not set."""
        if self._configuration is None:
            raise LookupError("no configuration file was read")
        found = self._configuration.target(name)
        assert found is not None  # noqa: S101 - a name was given
        return found

    def open(self, target: Target, cost: RequestCost, *, read_only: bool) -> AsyncReader:
        """Open a server, with an `AsyncWriter` unless it is `read_only`."""
        return self.reader(target, cost) if read_only else self.writer(target, cost)

    def reader(self, target: Target, cost: RequestCost) -> AsyncReader:
        """Open a server to read from it."""
        from qdeck.admin import AsyncReader

        return AsyncReader.at(target, on_request=cost.add)

    def writer(self, target: Target, cost: RequestCost) -> AsyncWriter:
        """Open a server to read and change it."""
        from qdeck.admin import AsyncWriter

        return AsyncWriter.at(target, on_request=cost.add)

    def describe(self, target: Target, *, read_only: bool, title: str | None = None) -> ShownContext:
        """Return the description of a server for the bar."""
        seen = context_at(mask_url(target.url), title or target.name, read_only=read_only)
        locked = f"The context {target.name} has read_only = true." if target.read_only else ""
        return replace(seen, environment=target.environment.lower(), colour=target.colour or "", locked=locked)


def read_only_refusal(target: Target) -> NotAllowed:
    """The error for a write to a server that is open read-only."""
    hint = "Type :live to write." if not target.read_only else "Its context has read_only = true."
    return NotAllowed.read_only(mask_url(target.url), hint=hint)


def opens_read_only(target: Target) -> bool:
    """Return whether a server opens read-only, until the operator makes it live."""
    return target.read_only or target.is_production


def live_entry(name: str, reason: str, now_ms: int, *, ends: bool = False) -> Activity:
    """Return the entry of the log of operations for a context that became live, or read-only."""
    from qdeck.admin import new_activity

    until = None if ends else now_ms + LIVE_S * 1000
    counts = {} if until is None else {"until_ms": until}
    return new_activity("read-only" if ends else "live", now_ms, detail=name, reason=reason, counts=counts)
