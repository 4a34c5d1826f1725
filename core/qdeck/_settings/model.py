"""The shape of `qdeck.toml`. Keys, units and defaults of the document on queue reliability keep their names.

These are structs rather than dataclasses because msgspec refuses what it does not know in them.
"""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - structs look their types up when they are made
from dataclasses import dataclass, field
from typing import Annotated, Any, Final

from msgspec import UNSET, Meta, Struct, UnsetType

from qdeck._formatting import threshold
from qdeck._settings.thresholds import Count, Seconds, Thresholds

Interval = Annotated[int, Meta(ge=1)]
Hours = Annotated[float, Meta(ge=0)]
HOUR_S: Final = 3600
_MOST_S: Final = 1e12  # no threshold is so long, whatever was written
PRODUCTION: Final = ("production", "prod")
SWITCHES_THAT_WRITE: Final = frozenset(
    {"purge_enabled", "dlq_enabled", "health_check_enabled", "allow_purge", "clean_interval"}
)
"""Settings that make qdeck change a server by itself: a hint names them only for their exact name."""


class UsedRule(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A rule of a purge and the threshold that held for it, in the unit of the configuration."""

    rule: str
    setting: str = ""
    value: float = 0
    unit: str = ""

    @property
    def words(self) -> str:
        """The setting with its value; empty for a rule without one."""
        if not self.setting:
            return ""
        seconds = self.seconds
        value = f"{self.value:,.0f} {self.unit}".rstrip() if seconds is None else threshold(seconds)
        return f"{self.setting} {value}"

    @property
    def seconds(self) -> float | None:
        """The threshold where it is an age."""
        seconds = {"s": self.value, "h": self.value * HOUR_S}.get(self.unit)
        return seconds if seconds is not None and seconds < _MOST_S else None

    def as_json(self) -> dict[str, Any]:
        """Return the form of `--json` and of the log of operations."""
        return {"rule": self.rule, "setting": self.setting, "value": self.value, "unit": self.unit}


class Purge(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[purge]`: what a purge removes, and whether the agent purges periodically. Ages are seconds."""

    purge_enabled: bool = False
    purge_interval: Interval = 3600
    purge_dry_run: bool = False
    max_pending_age: Seconds = 7200
    """A running job's lease expired so long ago, and the job was not requeued."""
    max_ready_age: Seconds = 86400
    """A job has been ready for so long."""
    max_completed_age: Seconds = 3600
    """A job has been done for so long."""
    max_orphaned_age: Seconds = 86400
    """A record that belongs to no job of any state is so old."""
    max_request_age: Seconds = 86400
    """A job was cancelled, or expired, so long ago."""
    max_ready_age_pool: Seconds = 2 * 86400
    """A VM of VMPooler without a request has been ready for so long."""
    max_task_age: Seconds = 7 * 86400
    """A task of IFDB succeeded so long ago."""
    rules: tuple[str, ...] | None = None
    """The rules that run when none are named; by default all but those that run only where they are named."""


class DeadLetters(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[dead_letters]`: how long dead letters are kept, and whether a purge makes some."""

    dlq_enabled: bool = False
    """Whether a purge buries what it takes from those that wait; otherwise it cancels them."""
    dlq_ttl: Hours = 168
    """Hours for which a dead letter is kept."""
    dlq_max_entries: Count = 10_000
    """Dead letters kept of one queue."""


class Health(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[health]`: thresholds, and whether the agent checks periodically."""

    health_check_enabled: bool = False
    health_check_interval: Interval = 300
    health_thresholds: Thresholds = Thresholds()


class AgentSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[agent]`: other tasks of `qdeck agent`."""

    http: str | None = None
    """HOST:PORT of its API."""
    token: str | None = None
    """What a caller of the API has to show; write `${VAR}`."""
    allow_purge: bool = False
    """Whether the API may purge, not only look."""
    history_interval: Interval = 10
    history_hours: Hours = 24
    clean_interval: Seconds = 0
    """Seconds between removals of temporary queues; 0 is never."""
    clean_dry_run: bool = False
    """Whether these are only reported."""
    clean_rules: tuple[str, ...] = ("expired_queues",)
    """The purge rules by which they are removed."""

    def __repr__(self) -> str:
        return f"Agent(http={self.http!r})"


class PartialThresholds(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Thresholds of which only some are given: the others are those of `[health]`."""

    pending_queue_max: Count | UnsetType = UNSET
    ready_queue_max: Count | UnsetType = UNSET
    dlq_max_warning: Count | UnsetType = UNSET
    dlq_max_critical: Count | UnsetType = UNSET
    stuck_vm_age_threshold: Seconds | UnsetType = UNSET
    stuck_vm_max_warning: Count | UnsetType = UNSET
    stuck_vm_max_critical: Count | UnsetType = UNSET
    unserved_age_max: Seconds | UnsetType = UNSET
    memory_max_warning: Annotated[int, Meta(ge=1, le=100)] | UnsetType = UNSET
    memory_max_critical: Annotated[int, Meta(ge=1, le=100)] | UnsetType = UNSET

    def over(self, base: Thresholds) -> Thresholds:
        """Return the base with what is given here in its place."""
        names = Thresholds.__struct_fields__
        return Thresholds(**{n: getattr(base, n) if getattr(self, n) is UNSET else getattr(self, n) for n in names})


class ContextSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[contexts.NAME]`: one server under a name."""

    url: str
    environment: str = ""
    colour: str | None = None
    read_only: bool = False
    adapters: tuple[str, ...] = ()
    thresholds: PartialThresholds = PartialThresholds()

    @property
    def is_production(self) -> bool:
        """Whether writing takes the ceremony of production."""
        return self.environment.lower() in PRODUCTION

    @property
    def is_protected(self) -> bool:
        """Return whether its server may not be written to without a ceremony."""
        return self.is_production or self.read_only

    def __repr__(self) -> str:
        return f"Context(environment={self.environment!r})"  # the URL may hold a password


class AdapterSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[adapters.NAME]`: one adapter, or one of several of its system; an adapter adds settings of its own."""

    pin: bool = False
    """Whether it is looked at wherever no adapters are named, and missed where none of its keys are there."""


_PART: Final = r"[A-Za-z0-9 _.$-]*"
Pattern = Annotated[str, Meta(pattern=rf"^(?=.*[A-Za-z0-9]){_PART}(\*{_PART}){{0,2}}$", max_length=100)]
Patterns = Annotated[tuple[Pattern, ...], Meta(max_length=100)]


class Masking(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[masking]`: more names of fields to mask, and names that are not secret."""

    add: Patterns = ()
    """Such as `session_id` or `*_iban`; case and what separates words do not matter."""
    exempt: Patterns = ()
    """Such as `idempotency_token`."""


class Settings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole file."""

    default_context: str | None = None
    contexts: dict[str, ContextSettings] = {}
    purge: Purge = Purge()
    health: Health = Health()
    dead_letters: DeadLetters = DeadLetters()
    agent: AgentSettings = AgentSettings()
    adapters: dict[str, AdapterSettings] = {}
    masking: Masking = Masking()
    filters: dict[str, str] = {}
    """`[filters]`: filters by name, for the palette of the console."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The server that a command works on, with what its context says about it. The URL is never shown."""

    url: str = field(repr=False)
    name: str | None = None
    environment: str = ""
    colour: str | None = None
    read_only: bool = False
    adapters: tuple[str, ...] = ()
    adapter_settings: Mapping[str, AdapterSettings] = field(default_factory=dict)
    thresholds: Thresholds = field(default_factory=Thresholds)
    caution: str = ""
    """Why it is treated as production though it may be another server."""
    production: tuple[Target, ...] = field(default=(), repr=False)
    """The servers of production that this one must not be; empty when it is one itself."""

    @property
    def is_production(self) -> bool:
        """Whether writing takes the ceremony of production."""
        return self.environment.lower() in PRODUCTION
