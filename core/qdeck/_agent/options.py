"""Options of an agent: which tasks, how often, and its API."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from qdeck._adapter_names import ADAPTERS
from qdeck._errors import InvalidOption
from qdeck._settings import Settings, Thresholds

if TYPE_CHECKING:
    from collections.abc import Iterable

    from qdeck._settings import Configuration, Target

TOKEN_VARIABLE: Final = "QDECK_HTTP_TOKEN"  # noqa: S105 - the name of a variable
MAINTAIN_S: Final = 10.0
LEASE_S: Final = 15.0
MIN_TOKEN: Final = 16
READ_ONLY: Final = "open it for writing"
_HOST: Final = re.compile(r"(?:\[([0-9a-f:.]+)\]|([a-z0-9._-]+))(?::([0-9]{1,5}))?")
_PROXY_HEADERS: Final = frozenset(
    (
        "forwarded",
        "via",
        "x-forwarded-for",
        "x-forwarded-host",
        "x-forwarded-proto",
        "x-real-ip",
    )  # headers that proxies add
)


def is_loopback(host: str) -> bool:
    """Return whether it is a name or an address of this machine that no other can reach."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def host_and_port(header: str) -> tuple[str, int | None] | None:
    """Return the name or address of a Host header in lower case, without brackets, and the port; None when
    malformed."""
    found = _HOST.fullmatch(header.lower())
    return found and (found[1] or found[2], int(found[3]) if found[3] else None)


def is_forwarded(headers: Iterable[str]) -> bool:
    """Return whether a proxy forwarded the request: then it may come from anywhere."""
    return not _PROXY_HEADERS.isdisjoint(name.lower() for name in headers)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenAddress:
    """Where the API listens."""

    host: str = "127.0.0.1"
    port: int = 9180

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it."""
        return is_loopback(self.host)

    @classmethod
    def parse(cls, text: str) -> ListenAddress:
        """Read `HOST:PORT`, `:PORT` or `PORT`; the default host is loopback."""
        host, _, port = text.rpartition(":")
        bare = host.removeprefix("[").removesuffix("]")
        if not port.isdecimal() or int(port) > 65535 or (":" in bare and bare == host):
            raise InvalidOption(f"{text!r} is not HOST:PORT", hint="Write 127.0.0.1:9180, or [::1]:9180")
        return cls(host=bare or "127.0.0.1", port=int(port))


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentOptions:
    """Which tasks an agent runs, and how often. An interval of None is never; all are seconds."""

    purge_every: float | None = None
    health_every: float | None = None
    clean_every: float | None = None
    history_every: float | None = 10.0
    history_keep_s: float = 86_400.0
    maintain_every: float = MAINTAIN_S
    lease: float = LEASE_S
    http: ListenAddress | None = None
    token: str | None = field(default=None, repr=False)
    allow_purge: bool = False
    read_only: bool = False
    read_only_hint: str = READ_ONLY
    settings: Settings = field(default_factory=Settings)
    thresholds: Thresholds = field(default_factory=Thresholds)
    adapters: tuple[str, ...] = ADAPTERS
    production: tuple[Target, ...] = field(default=(), repr=False)
    """Servers that this one must not be, when it is written to."""

    def __post_init__(self) -> None:
        for name in ("purge_every", "health_every", "clean_every", "history_every", "maintain_every", "lease"):
            value = getattr(self, name)
            if value is not None and not 0.05 <= value <= 31 * 86_400:
                raise InvalidOption(f"{name} is {value}s", hint="Give at least 0.05s and at most 31d.")
        if self.token is not None and len(self.token) < MIN_TOKEN:
            hint = f"Give at least {MIN_TOKEN} characters, such as the output of `openssl rand -hex 32`"
            raise InvalidOption(f"the HTTP token has only {len(self.token)} characters", hint=hint)


def from_configuration(
    configuration: Configuration,
    target: Target | None,
    *,
    purge_every: float | None = None,
    health_every: float | None = None,
    clean_every: float | None = None,
    http: str | None = None,
    token: str | None = None,
    read_only_hint: str | None = None,
    adapters: tuple[str, ...] = (),
) -> AgentOptions:
    """Return the options of `qdeck.toml`, replaced by those of the command line.

    A given interval enables its task; otherwise the file's `…_enabled` does. With `read_only_hint`, which explains why
    nothing may be written, the agent only reads.
    """
    settings = configuration.settings
    purge, health, agent = settings.purge, settings.health, settings.agent
    address = http if http is not None else agent.http
    return AgentOptions(
        purge_every=purge_every or (purge.purge_interval if purge.purge_enabled else None),
        health_every=health_every or (health.health_check_interval if health.health_check_enabled else None),
        clean_every=clean_every or agent.clean_interval or None,
        history_every=agent.history_interval if agent.history_hours else None,
        history_keep_s=agent.history_hours * 3600,
        http=None if address is None else ListenAddress.parse(address),
        # An empty token counts as none: an empty variable must not be a valid token.
        token=token or configuration.agent_token() or None,
        allow_purge=agent.allow_purge,
        read_only=read_only_hint is not None or (target is not None and target.read_only),
        read_only_hint=read_only_hint or READ_ONLY,
        settings=settings,
        thresholds=target.thresholds if target is not None else configuration.thresholds,
        production=target.production if target is not None else (),
        adapters=adapters or (target.adapters if target is not None else ()) or ADAPTERS,
    )
