"""The values between a planner and an adapter: purge rules, searches, pages, and the effects of verbs."""

from __future__ import annotations

from collections.abc import Callable  # noqa: TC003 - structs look their types up when they are asked for
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec

from qdeck._formatting import counted, duration
from qdeck._model.queue_ref import InQueue, QueueRef
from qdeck._model.reasons import Skip
from qdeck._model.values import NATIVE
from qdeck._settings.limits import Limits  # noqa: TC001 - likewise

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qdeck._filter import Filter
    from qdeck._model.reasons import Caution, SkipCode, Stuck
    from qdeck._redis.commands import Program

MOST_STARTING: Final = 1000  # dependents that are read for a plan
_NAMED: Final = 3  # of them


class PlanEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """One job of a plan; its `version` is compared before it is changed.

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
        """The queue of the job."""
        return QueueRef(self.adapter, self.queue)

    def skip(self, code: SkipCode, data: str = "") -> Skip:
        """Return the report that it was skipped."""
        return Skip(id=self.id, queue=self.queue, adapter=self.adapter, code=code, data=data)


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """A purge rule as data: the jobs of some states that match a filter, and the verb that is applied to them.

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
        """Return the verb that it applies."""
        return self.verb if limits.dlq_enabled or not self.without_dlq else self.without_dlq

    def where_for(self, limits: Limits) -> str:
        """Return the filter for these limits."""
        return "" if self.rank or not self.setting else self.where.format(limits.ms(self.setting))

    def reason_for(self, limits: Limits, row: Any, now: int) -> str:
        """Return why it applies to this job."""
        due = getattr(row, "due_ms", None) if "{late}" in self.reason else None
        return self.reason.format(
            age="an unknown time" if row.age_s is None else duration(1000 * row.age_s),
            limit=limits.words(self.setting) if self.setting else "",
            late="" if due is None else duration(now - due),
            problem=row.problem if "{problem}" in self.reason else "",
        )


class Context(msgspec.Struct, frozen=True, kw_only=True):
    """The context of changes of one verb: the server's clock, the limits of a purge, and the operator's options.

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
    ignore_dependencies: bool = False
    """Whether a retried job runs though the one that it depends on has not succeeded."""

    def reason_of(self, number: int) -> str:
        """Return the reason for the job of this number."""
        return self.reasons[number] if self.reasons else self.reason


class Search(msgspec.Struct, frozen=True, kw_only=True):
    """The search of a plan in a queue: all jobs that match, or the named ones among them."""

    states: tuple[str, ...]
    now: int
    limits: Limits
    wanted: Filter | None = None
    ids: tuple[str, ...] = ()
    stuck: bool = False
    errors: bool = False
    """Whether the errors of all jobs are read."""
    rule: Rule | None = None
    prepared: Any = None
    """What the adapter's `prepare` returned."""

    def reason(self, row: Any) -> str:
        """Return why the rule applies to a job."""
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
    """The jobs of one search, page by page; and which named jobs were found, are missing or are skipped."""

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
        """Return age and reason of a job, or why it is skipped; None leaves both to the rule."""
        return None

    def stuck(self, row: Any) -> StuckJob | None:
        """Return what is known of a job that is stuck."""
        return None


class PlanTotals(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What else a plan reaches: jobs that others wait for, with a unique name, running, with a failure handler.

    `unique_held` of them would be skipped, because another job holds their unique name now. `starting` are the
    dependents that can start, up to a thousand: their ids, with `@` and the queue if it is another one.
    """

    dependents: int = 0
    unique: int = 0
    unique_held: int = 0
    running: int = 0
    failure_handlers: int = 0
    starting: list[str] = []
    waiting_again: int = 0  # died with a dependency, and wait for it again when they are retried

    @property
    def dependents_words(self) -> str:
        """What happens to the dependents of jobs that end without success; after the number of these jobs."""
        which = f"only {self.starting_words}" if self.starting else "none of those will run"
        return f"of them have dependents; {which}"

    @property
    def starting_words(self) -> str:
        """How many dependents can start, and which: `2 dependents can start: a, b`."""
        count, named = len(self.starting), ", ".join(self.starting[:_NAMED])
        least = "at least " if count >= MOST_STARTING else ""
        more = f" and {count - _NAMED:,} more" if count > _NAMED else ""
        return f"{least}{counted(count, 'dependent')} can start: {named}{more}"

    def add(self, more: PlanTotals) -> None:
        """Add those of other jobs."""
        for name in self.__struct_fields__:
            setattr(self, name, getattr(self, name) + getattr(more, name))


class Weighed(msgspec.Struct, kw_only=True):
    """The effects of a verb on some jobs, row by row, and on their dependents."""

    ids: Sequence[str]
    versions: Sequence[str]
    bytes: Sequence[int]
    effects: Sequence[str] = ()
    skipped: dict[int, tuple[SkipCode, str]] = {}
    """Why a row, by its number, is skipped."""
    cautions: Sequence[Caution] = ()
    totals: PlanTotals = msgspec.field(default_factory=PlanTotals)
