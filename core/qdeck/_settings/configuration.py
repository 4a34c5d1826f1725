"""A configuration that was read: the server that a name or a URL stands for, and what is allowed there."""

from __future__ import annotations

import contextlib
import difflib
import os
import re
import stat
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import quote

from qdeck._adapter_names import ADAPTERS
from qdeck._errors import InvalidOption
from qdeck._settings.model import ContextSettings, Settings, Target
from qdeck._settings.url_comparison import SameServer, compare, host_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from qdeck._settings.thresholds import Thresholds

_VARIABLE: Final = re.compile(r"\$(\$\{|\{([^}]*)\})")
_VARIABLE_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Own(NamedTuple):
    """The user's own file, where another one is in use, and its contexts; protected ones always hold."""

    file: Path
    contexts: Mapping[str, ContextSettings]


class _Guard(NamedTuple):
    """A protected server: no other name or spelling of its address may be written to."""

    name: str
    context: ContextSettings
    url: str  # with the variables that are set here
    is_own: bool = False  # of the user's own file, where another one is in use
    is_trusted: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """A checked configuration, and its file; without a file it has the defaults."""

    settings: Settings
    file: Path | None = None
    own: Own | None = None
    ignored: str = ""
    """Which file was not read, and why."""
    was_trusted: bool = False
    """Whether that file was trusted before it changed. Then its contexts are meant, and those here do not stand in."""
    strangers: Mapping[str, ContextSettings] = field(default_factory=dict)
    """Production contexts of that file: from any author, they can only make a server stricter."""
    ignored_contexts: frozenset[str] = frozenset()
    """The names of all contexts of that file."""

    def is_ignored(self, name: str | None) -> bool:
        """Return whether a context is only in the file that was not read."""
        return name in self.ignored_contexts and name not in self.settings.contexts

    def target(self, name: str | None = None) -> Target | None:
        """Return the server of a context, of the default one when none is named; its variables are expanded now.

        Only now, because a machine that never works on a context need not know its password. A context that leads to a
        server of production is treated as production, whatever it says itself.
        """
        if self.was_trusted:
            raise InvalidOption(self.ignored, hint="Read it, then run: qdeck config trust; or give --url or --config")
        chosen = name if name is not None else self.settings.default_context
        if chosen is None:
            return None
        context = self.settings.contexts.get(chosen)
        if self.is_ignored(chosen):
            what = f"context {chosen!r} is in qdeck.toml, which is not trusted"
            raise InvalidOption(what, hint="Read the file, then run `qdeck config trust`.")
        if context is None:
            raise InvalidOption(f"there is no context {chosen!r} in {self.where}", hint=self._contexts_hint(chosen))
        found = self._target(chosen, context, self._url(chosen, context))
        if context.is_production and self.own is None:
            return found
        for guard, same in self._compare_guards(found.url):
            is_namesake = guard.name == chosen and guard.is_trusted
            if same is not SameServer.YES and not is_namesake:
                continue
            if guard.context.is_production and not context.is_production:
                caution = f"the context {chosen!r} connects to the server of the production context {guard.name!r}"
                if same is not SameServer.YES:
                    caution = f"the context {chosen!r} is production in the user's own configuration"
                return replace(
                    found,
                    environment=guard.context.environment,
                    read_only=found.read_only or guard.context.read_only,
                    caution=caution,
                )
            if guard.is_own and (is_namesake or self._holds(guard, found.url)):
                return replace(found, read_only=found.read_only or guard.context.read_only)
        return found

    def target_at(self, url: str) -> Target:
        """Return the server of a URL. When it is that of a protected context, it is treated as that context.

        Otherwise a URL in an environment variable would lead past the ceremony. Where a name cannot be resolved now it
        is treated as production, too, unless another context says what is at that URL. One that is only read-only
        protects its server unless another context lets this user write there.
        """
        compared = self._compare_guards(url)
        for guard, same in compared:
            if same is SameServer.YES and self._holds(guard, url):
                found = self._target(guard.name, guard.context, url)
                # The author of a foreign file cannot declare that a server is not the user's own production.
                return found if guard.is_trusted else replace(found, production=self._production_targets())
        unknown = next(
            (
                guard
                for guard, same in compared
                if same is SameServer.UNKNOWN and guard.is_trusted and guard.context.is_production
            ),
            None,
        )
        if unknown is not None and not _is_open(url, self.settings.contexts):
            return replace(
                self._target(unknown.name, unknown.context, url),
                caution=_caution(unknown.name, unknown.url, url),
                production=tuple(one for one in self._production_targets() if one.name != unknown.name),
            )
        return Target(
            url=url,
            thresholds=self.thresholds,
            adapters=self._adapters(()),
            adapter_settings=self.settings.adapters,
            production=self._production_targets(),
        )

    def _guards(self) -> list[_Guard]:
        """Return all protected contexts: of the user's own file, of this one, and of an ignored one."""
        own = self.own.contexts if self.own is not None else {}
        found = [
            *(_Guard(name, one, _readable(one.url), is_own=True) for name, one in own.items() if one.is_protected),
            *(
                _Guard(name, one, _readable(one.url))
                for name, one in self.settings.contexts.items()
                if one.is_protected and own.get(name) is not one
            ),
            *(_Guard(name, one, one.url, is_trusted=False) for name, one in self.strangers.items()),
        ]

        def order(guard: _Guard) -> tuple[bool, bool, bool, bool]:
            # Of several in one file the one that can be written to first: the others would only say that it cannot.
            context = guard.context
            return not guard.is_own, not guard.is_trusted, not context.is_production, context.read_only

        return sorted(found, key=order)

    def _compare_guards(self, url: str) -> list[tuple[_Guard, SameServer]]:
        """Return the protected contexts, and for each whether it is the server of the URL."""
        guards = self._guards()
        found: list[tuple[_Guard, SameServer]] = []
        for is_trusted in (True, False):
            some = [guard for guard in guards if guard.is_trusted is is_trusted]
            # A lookup of a name would tell the author of a foreign file that a user works in its directory.
            found += zip(some, compare(url, [guard.url for guard in some], resolve_others=is_trusted), strict=True)
        return found

    def _holds(self, guard: _Guard, url: str) -> bool:
        """Return whether a context protects its server: a read-only one unless its file has another one for it."""
        own = self.own.contexts if self.own is not None else {}
        return guard.context.is_production or not _is_open(url, own if guard.is_own else self.settings.contexts)

    def _production_targets(self) -> tuple[Target, ...]:
        """Return the production servers that can be reached from here, to compare another server with."""
        found = []
        for guard in self._guards():
            with contextlib.suppress(InvalidOption):  # a variable is not set
                if guard.is_trusted and guard.context.is_production:
                    found.append(self._target(guard.name, guard.context, self._url(guard.name, guard.context)))
        return tuple(found)

    def _url(self, name: str, context: ContextSettings) -> str:
        """Return the URL of a context, its variables expanded; an error names its file."""
        is_own = self.own is not None and self.own.contexts.get(name) is context
        where = self.own.file if self.own is not None and is_own else self.where
        return expand(context.url, f"{where}: contexts.{name}.url", is_url=True)

    def _target(self, name: str, context: ContextSettings, url: str) -> Target:
        return Target(
            name=name,
            url=url,
            environment=context.environment,
            colour=context.colour,
            read_only=context.read_only,
            adapters=self._adapters(context.adapters),
            adapter_settings=self.settings.adapters,
            thresholds=context.thresholds.over(self.thresholds),
            production=() if context.is_production else self._production_targets(),
        )

    def _adapters(self, named: tuple[str, ...]) -> tuple[str, ...]:
        """Return the adapters to use: the named ones, or all with the pinned ones; empty is all."""
        pinned = [name for name, one in self.settings.adapters.items() if one.pin and name not in ADAPTERS]
        return named or ((*ADAPTERS, *pinned) if pinned else ())

    @property
    def thresholds(self) -> Thresholds:
        """Return the thresholds of a server without a context."""
        return self.settings.health.health_thresholds

    @property
    def where(self) -> str:
        """Return the file in words."""
        return str(self.file) if self.file is not None else "the configuration (there is no qdeck.toml)"

    def agent_token(self) -> str | None:
        """Return the token of the agent's API, its variables expanded."""
        token = self.settings.agent.token
        return None if token is None else expand(token, f"{self.where}: agent.token")

    def warnings(self) -> list[str]:
        """Return warnings: secrets in plain text that others of this machine may read."""
        if self.file is None:
            return []
        found = [f"contexts.{name}.url" for name, context in self.settings.contexts.items() if _literal(context.url)]
        token = self.settings.agent.token
        if token and not _VARIABLE.search(token):
            found.append("agent.token")
        try:
            mode = stat.S_IMODE(self.file.stat().st_mode)
        except OSError:
            return []
        if not found or not mode & 0o077:
            return []
        names = " and ".join(found)
        return [f"{self.file} can be read by others (mode {mode:03o}) and holds a secret in plain text: {names}"]

    def _contexts_hint(self, name: str) -> str:
        known = list(self.settings.contexts)
        near = difflib.get_close_matches(name, known, 1)
        if near:
            return f"Did you mean {near[0]!r}?"
        return f"Use one of: {', '.join(known)}" if known else "Add a [contexts.NAME] with a url."


def _caution(name: str, production: str, url: str) -> str:
    unset = _VARIABLE.search(production.rpartition("@")[2])
    if unset:
        return f"the context {name!r} is production and its URL needs the variable {unset[2]}, which is not set"
    hosts = " or ".join(host for text in (production, url) if (host := host_of(text)))
    return f"{hosts} cannot be resolved: this may be the server of the production context {name!r}"


def _is_open(url: str, contexts: Mapping[str, ContextSettings]) -> bool:
    """Return whether one of the contexts allows writes to the server of this URL."""
    return SameServer.YES in compare(url, [_readable(one.url) for one in contexts.values() if not one.is_protected])


def _readable(url: str) -> str:
    """Return the URL with the variables that are set here; its host can be compared without the password."""
    return _fill(url, os.environ.get, is_url=True)


def _literal(url: str) -> bool:
    user, at, _ = url.partition("://")[2].rpartition("@")
    return bool(at) and ":" in user and not _VARIABLE.search(user.partition(":")[2]) and not user.endswith(":")


def expand(value: str, place: str, *, is_url: bool = False) -> str:
    """Return a value with `${VAR}` expanded from the environment; `$${` stands for itself. Errors show no value.

    In the user part of a URL a variable is quoted, so that a password may hold any character.
    """

    def look_up(name: str) -> str:
        if not _VARIABLE_NAME.fullmatch(name):
            raise InvalidOption(f"{place}: ${{{name}}} names no variable", hint="Write ${NAME}; a literal ${ is $${")
        if name not in os.environ:
            raise InvalidOption(
                f"{place}: the environment variable {name} is not set", hint=f"export {name}=…, then try again"
            )
        return os.environ[name]

    return _fill(value, look_up, is_url=is_url)


def _fill(value: str, look_up: Callable[[str], str | None], *, is_url: bool) -> str:
    user_ends = value.rfind("@") if is_url and "://" in value else -1

    def fill(found: re.Match[str]) -> str:
        if found[1] == "${":
            return "${"
        filled = look_up(found[2])
        if filled is None:
            return found[0]
        return quote(filled, safe="") if found.start() < user_ends else filled

    return _VARIABLE.sub(fill, value)
