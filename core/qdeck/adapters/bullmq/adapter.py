"""The `bullmq` adapter: lists and sorted sets of ids by state, and a hash for each job."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from qdeck._deck.model import State
from qdeck._deck.reasons import CapabilityCode
from qdeck._redis.commands import ask
from qdeck._redis.errors import is_error
from qdeck.adapters.adapter import Adapter
from qdeck.adapters.bullmq.keys import NAME, BullMqSettings, base_of, meta_glob, queue_of, sources_of
from qdeck.adapters.model import Act, Capability, Kind, Outcome

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from qdeck._deck.model import JobDetail
    from qdeck._redis.commands import Program
    from qdeck._settings.model import AdapterSettings
    from qdeck.adapters.cells import Change, ScriptChange
    from qdeck.adapters.model import Entry, Look, Raw, Retried, Skipped, Source, Want
    from qdeck.adapters.plans import Context

_QUEUE: Final = "queue "  # in the name of a group of keys


class BullMq(Adapter):
    """BullMQ 5 and 6, with one prefix; another prefix is another instance."""

    name: str = NAME
    about: ClassVar[str] = "bull:*:meta and what belongs to it, of BullMQ"
    acl_keys: ClassVar[tuple[str, ...]] = ("bull:*",)
    settings_type: ClassVar[type[AdapterSettings]] = BullMqSettings
    outcome_evidence: ClassVar[str] = "the job is looked up by its id; one that is removed when it is done is unknown"

    def __init__(self, settings: AdapterSettings | None = None) -> None:
        super().__init__(settings)
        self.prefix = self.settings.prefix if isinstance(self.settings, BullMqSettings) else "bull"

    def fixed_keys(self) -> Mapping[bytes, Kind | None]:
        """None: queues have any name."""
        return {}

    def patterns(self) -> Sequence[tuple[bytes, str | None]]:
        """The hash that every queue has."""
        return ((meta_glob(self.prefix), "hash"),)

    @property
    def flavour(self) -> str:
        """The prefix."""
        return self.prefix

    def gather(self, name: bytes) -> str | None:
        """By queue."""
        queue = queue_of(self.prefix, name)
        return None if queue is None else _QUEUE + queue

    def capabilities(self) -> Mapping[Act, Capability]:
        """What its own methods do."""
        ended = (State.DEAD, State.DONE)
        return {
            Act.RETRY: Capability(states=(State.DEAD,), note="as Job.retry; what counts its runs and stalls stays"),
            Act.RUN: Capability(states=(State.DELAYED,), note="as Job.promote"),
            Act.REQUEUE: Capability(states=(State.RUNNING,), note="of a job whose worker has lost its lock"),
            Act.DISCARD: Capability(
                states=(State.READY, State.DELAYED, *ended), note="as Job.remove; never one of a flow or of a scheduler"
            ),
            Act.CANCEL: Capability(code=CapabilityCode.NO_SUCH_STATE, note="no such state: discard it"),
            Act.BURY: Capability(code=CapabilityCode.BY_ITSELF, note="a worker fails what stalls too often"),
        }

    def rows(self, now: int) -> Program[Look]:
        """All queues with their numbers."""
        from qdeck.adapters.bullmq import rows

        groups = {} if self.sight is None else self.sight.groups
        queues = sorted(name.removeprefix(_QUEUE) for name in groups)
        return (yield from rows.read(self.name, self.prefix, queues, now))

    def sources(self, queue: str, states: Sequence[str]) -> Program[list[Source]]:
        """The lists and sorted sets of these states."""
        yield from ()  # no reading: a program all the same
        return sources_of(base_of(self.prefix, queue), states)

    def fill(self, queue: str, raws: Sequence[Raw], now: int, want: Want) -> Program[list[Entry]]:
        """The jobs of these ids."""
        from qdeck.adapters.bullmq import jobs

        return (yield from jobs.fill(base_of(self.prefix, queue), queue, raws, now, want)) if raws else []

    def job(self, queue: str, wanted: str) -> Program[JobDetail]:
        """All about one job, with its log and its result."""
        from qdeck.adapters.bullmq import jobs

        detail = yield from super().job(queue, wanted)
        return (yield from jobs.with_logs(base_of(self.prefix, queue), detail))

    def outcomes(self, tried: Sequence[Retried], now: int) -> Program[list[Outcome]]:
        """Where each job is by now."""
        found: list[Outcome] = []
        bases = [one.seen.key[: one.seen.key.rindex(b":") + 1] for one in tried]
        for base, one in zip(bases, tried, strict=True):
            job = one.seen.member
            done, dead, delayed, locked, there = yield ask(
                (b"ZSCORE", base + b"completed", job), (b"ZSCORE", base + b"failed", job),
                (b"ZSCORE", base + b"delayed", job), (b"EXISTS", base + job + b":lock"), (b"EXISTS", base + job),
            )  # fmt: skip
            known = ((done, Outcome.DONE), (dead, Outcome.DEAD), (delayed, Outcome.FAILED), (locked, Outcome.RUNNING))
            first = next((outcome for reply, outcome in known if not is_error(reply) and reply), None)
            found.append(first or (Outcome.WAITING if not is_error(there) and there else Outcome.UNKNOWN))
        return found

    def changes(
        self, act: Act, entries: Sequence[Entry], context: Context
    ) -> Program[list[Change | ScriptChange | Skipped]]:
        """What a verb changes of these jobs."""
        from qdeck.adapters.bullmq import changes

        found: dict[str, Change | ScriptChange | Skipped] = {}
        for queue in dict.fromkeys(entry.queue for entry in entries):
            some = [entry for entry in entries if entry.queue == queue]
            built = yield from changes.build(base_of(self.prefix, queue), act, some)
            found |= {entry.key: one for entry, one in zip(some, built, strict=True)}
        return [found[entry.key] for entry in entries]
