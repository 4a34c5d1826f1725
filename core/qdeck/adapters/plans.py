"""What a planner asks of an adapter and gets from it, as values: rules of a purge, searches, pages, what acts do."""

from __future__ import annotations

from collections.abc import Callable  # noqa: TC003 - structs look their types up when they are asked for
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from qdeck._deck.model import NATIVE
from qdeck._deck.queue_ref import InQueue, QueueRef
from qdeck._settings.limits import Limits  # noqa: TC001 - likewise

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qdeck._deck.reasons import Caution, SkipCode, Stuck
    from qdeck._filter import Filter
    from qdeck._redis.commands import Program


def shown(name: str) -> str:
    """A name as a text: what stands for bytes that are none is written out."""
    return name.encode("utf-8", "backslashreplace").decode()


class PlanEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """One job that a plan acts on. `version` is what it is compared with before it is changed.

    That is its score as text, and of a waiting job that was changed its number of changes; of a running one the token
    of its lease. `verb` is what is done to it; `rule` and `reason` say why it is in the plan.
    """

    queue: str
    id: str
    state: str
    version: str
    verb: str
    rule: str | None = None
    reason: str = ""
    bytes: int = 0
    age_s: float | None = None
    adapter: str = NATIVE

    @property
    def ref(self) -> QueueRef:
        """The queue that it is in."""
        return QueueRef(self.adapter, self.queue)


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """What a purge takes of a queue, as data: jobs of some states that match a filter, and what is done to them.

    In `where`, `{}` is the threshold in ms, which is the value of `setting`. In `reason`, {age} and {limit} are known,
    and {late} (since it was due) and {problem}. Where `dlq_enabled` is false, `without_dlq` is done instead. With
    `rank` it takes the oldest beyond the number in `setting` that no rule before it takes. `test` is put to entries
    with what `prepare` returned, for what no filter can say; `code` names what the adapter itself has to look for.
    """

    name: str
    states: tuple[str, ...]
    verb: str
    setting: str = ""
    where: str = "age>{}ms"
    reason: str
    without_dlq: str = ""
    rank: bool = False
    code: str = ""
    test: Callable[[Any, int, Any], bool] | None = None

    def verb_for(self, limits: Limits) -> str:
        """What is done to what it takes."""
        return self.verb if limits.dlq_enabled or not self.without_dlq else self.without_dlq

    def where_for(self, limits: Limits) -> str:
        """The filter for these limits."""
        return "" if self.rank or not self.setting else self.where.format(limits.ms(self.setting))

    def reason_for(self, limits: Limits, row: Any, now: int) -> str:
        """Why it takes this one."""
        due = getattr(row, "due_ms", None) if "{late}" in self.reason else None
        return self.reason.format(
            age="an unknown age" if row.age_s is None else f"{row.age_s:,.0f} s",
            limit=limits.words(self.setting) if self.setting else "",
            late="" if due is None else f"{(now - due) / 1000:,.0f} s",
            problem=row.problem if "{problem}" in self.reason else "",
        )


class Context(msgspec.Struct, frozen=True, kw_only=True):
    """What changes of one verb are made for: the server's clock, the limits of a purge, and what the operator gave.

    `batch` is the id of the plan's batch, and `target` the queue that jobs are moved to. `rule` is the rule of a purge
    that took the jobs, `reasons` its reason for each of them, and `prepared` what the adapter's `prepare` returned.
    """

    now: int
    limits: Limits
    batch: str = ""
    target: str | None = None
    priority: int | str | None = None
    reason: str = ""
    reasons: tuple[str, ...] = ()
    rule: str | None = None
    prepared: Any = None

    def reason_of(self, number: int) -> str:
        """Return the reason for the job of this number."""
        return self.reasons[number] if self.reasons else self.reason


class Search(msgspec.Struct, frozen=True, kw_only=True):
    """Which jobs of a queue a plan looks for: all that match, or those of them that are named."""

    states: tuple[str, ...]
    now: int
    limits: Limits
    wanted: Filter | None = None
    ids: tuple[str, ...] = ()
    stuck: bool = False
    errors: bool = False
    """Whether the errors of all of them are read."""
    rule: Rule | None = None
    prepared: Any = None
    """What the adapter's `prepare` returned."""

    def reason(self, row: Any) -> str:
        """Why the rule takes a job."""
        return "" if self.rule is None else self.rule.reason_for(self.limits, row, self.now)


@dataclass(frozen=True, slots=True, kw_only=True)
class StuckJob(InQueue):
    """A stuck job.

    `since_ms` is since when, `stuck_s` for how long; both and `worker_alive` are None when that cannot be known.
    """

    id: str
    queue: str
    why: Stuck
    age_s: float | None
    since_ms: int | None
    stuck_s: float | None
    worker: str | None
    worker_alive: bool | None
    task: str | None = None
    attempts: int | None = None
    adapter: str = NATIVE


class Pages:
    """The jobs of one search, page by page; of those that are named, which were met, are missing or are left out."""

    scanned: int = 0

    def __init__(self) -> None:
        self.met: list[str] = []
        self.missing: list[tuple[str, SkipCode, str]] = []
        """Ids that are not in this queue, with the reason; they may be in another one."""
        self.left_out: list[tuple[str, SkipCode, str]] = []

    def page(self) -> Program[Sequence[Any] | None]:
        """Return the jobs of the next page that are looked for; None at the end."""
        raise NotImplementedError

    def why(self, row: Any) -> tuple[float | None, str] | SkipCode | None:
        """Return age and reason of a job that it found, why it is left out, or None: the rule says it."""
        return None

    def stuck(self, row: Any) -> StuckJob | None:
        """Return what is known of a job that is stuck."""
        return None


class Weighed(msgspec.Struct, kw_only=True):
    """What an act on some rows comes to, row by row, and what else it reaches."""

    ids: Sequence[str]
    versions: Sequence[str]
    bytes: Sequence[int]
    effects: Sequence[str] = ()
    skipped: dict[int, tuple[SkipCode, str]] = {}
    """Why a row, by its number, is left out."""
    cautions: Sequence[Caution] = ()
    dependents: int = 0
    unique: int = 0
    unique_held: int = 0
    failure_handlers: int = 0
