"""The `bullmq` adapter: lists and sorted sets of ids by state, and a hash for each job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

from qdeck._model.queue_ref import Feature
from qdeck._model.reasons import CapabilityCode
from qdeck._model.values import State
from qdeck._model.words import Verb
from qdeck._redis import reads
from qdeck._redis.errors import is_error
from qdeck.adapters.adapter import Adapter
from qdeck.adapters.bullmq.keys import NAME, BullMqSettings, base_of, meta_glob, queue_of, sources_of
from qdeck.adapters.model import Capability, Kind, Outcome

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from qdeck._model.values import JobDetail
    from qdeck._redis.commands import Command, Program
    from qdeck._schedules.model import ScheduleRow
    from qdeck._settings.model import AdapterSettings
    from qdeck.adapters.cells import Change, ScriptChange
    from qdeck.adapters.model import Entry, Look, Raw, Retried, Skipped, Source, Want
    from qdeck.adapters.plans import Context

_QUEUE: Final = "queue "  # in the name of a group of keys
_OUTCOMES: Final = (Outcome.DONE, Outcome.DEAD, Outcome.FAILED, Outcome.RUNNING, Outcome.WAITING)


class BullMq(Adapter):
    """BullMQ 5 and 6, with one prefix; another prefix is another instance."""

    name: str = NAME
    about: ClassVar[str] = "bull:*:meta and the other keys of BullMQ queues"
    acl_keys: ClassVar[tuple[str, ...]] = ("bull:*",)
    features: ClassVar[frozenset[Feature]] = frozenset({Feature.PAUSE, Feature.OWN_PAUSE})
    settings_type: ClassVar[type[AdapterSettings]] = BullMqSettings
    outcome_evidence: ClassVar[str] = "each job is looked up by its id; a job that is removed on completion is unknown"

    def __init__(self, settings: AdapterSettings | None = None) -> None:
        super().__init__(settings)
        self.prefix = self.settings.prefix if isinstance(self.settings, BullMqSettings) else "bull"

    def fixed_keys(self) -> Mapping[bytes, Kind | None]:
        """Return none: queues can have any name."""
        return {}

    def patterns(self) -> Sequence[tuple[bytes, str | None]]:
        """Return the glob of the hash that every queue has."""
        return ((meta_glob(self.prefix), "hash"),)

    @property
    def flavour(self) -> str:
        """The prefix."""
        return self.prefix

    def gather(self, name: bytes) -> str | None:
        """Return the queue of a key."""
        queue = queue_of(self.prefix, name)
        return None if queue is None else _QUEUE + queue

    def capabilities(self) -> Mapping[Verb, Capability]:
        """Return the verbs, which do the same as its own methods."""
        ended = (State.DEAD, State.DONE)
        return {
            Verb.RETRY: Capability(states=(State.DEAD,), note="like Job.retry; its counters are not reset"),
            Verb.RUN: Capability(states=(State.DELAYED,), note="like Job.promote"),
            Verb.REQUEUE: Capability(states=(State.RUNNING,), note="only a job whose worker has lost its lock"),
            Verb.DISCARD: Capability(
                states=(State.READY, State.DELAYED, *ended),
                note="like Job.remove; children of a flow and jobs of a scheduler are skipped",
            ),
            Verb.CANCEL: Capability(
                code=CapabilityCode.NO_SUCH_STATE, note="it has no cancelled state; discard the job instead"
            ),
            Verb.BURY: Capability(code=CapabilityCode.BY_ITSELF, note="workers fail a job that stalls too often"),
        }

    def pause_change(self, queue: str, *, paused: bool) -> Program[Change | None]:
        """Return what pauses or resumes a queue, like `Queue.pause` and `Queue.resume`."""
        from qdeck.adapters.bullmq import pausing

        return pausing.build(base_of(self.prefix, queue), paused=paused)

    def rows(self, now: int) -> Program[Look]:
        """Return all queues with their numbers."""
        from qdeck.adapters.bullmq import rows

        return (yield from rows.read(self.name, self.prefix, self._queues(), now))

    def _queues(self) -> list[str]:
        groups = {} if self.discovered is None else self.discovered.groups
        return sorted(name.removeprefix(_QUEUE) for name in groups)

    def schedules(self, now: int) -> Program[list[ScheduleRow]]:
        """Return the job schedulers of all queues."""
        from qdeck.adapters.bullmq import schedules

        return schedules.read(self.name, self.prefix, self._queues(), now)

    def sources(self, queue: str, states: Sequence[str]) -> Program[list[Source]]:
        """Return the lists and sorted sets of these states."""
        yield from ()  # reads nothing, but is a program
        return sources_of(base_of(self.prefix, queue), states)

    def fill(self, queue: str, raws: Sequence[Raw], now: int, want: Want) -> Program[list[Entry]]:
        """Return the jobs of these ids."""
        from qdeck.adapters.bullmq import jobs

        return (yield from jobs.fill(base_of(self.prefix, queue), queue, raws, now, want)) if raws else []

    def job(self, queue: str, wanted: str) -> Program[JobDetail]:
        """Return the details of one job, with its log, its result and its flow."""
        from qdeck.adapters.bullmq import jobs

        detail = yield from super().job(queue, wanted)
        base = base_of(self.prefix, queue)
        return (yield from jobs.with_relations(base, (yield from jobs.with_logs(base, detail))))

    def outcomes(self, tried: Sequence[Retried], now: int) -> Program[list[Outcome]]:
        """Return where each job is now."""
        bases = [one.seen.key[: one.seen.key.rindex(b":") + 1] for one in tried]
        replies = yield from reads.try_each(
            [_where_is(base, one.seen.member) for base, one in zip(bases, tried, strict=True)],
            chunk=reads.CHUNK_OF_NUMBERS,
        )
        return [_outcome_of(said) for said in replies]

    def changes(
        self, act: Verb, entries: Sequence[Entry], context: Context
    ) -> Program[Sequence[Change | ScriptChange | Skipped]]:
        """Return what a verb changes in these jobs."""
        from qdeck.adapters.bullmq import changes

        found: dict[str, Change | ScriptChange | Skipped] = {}
        for queue in dict.fromkeys(entry.queue for entry in entries):
            some = [entry for entry in entries if entry.queue == queue]
            built = yield from changes.build(base_of(self.prefix, queue), act, some)
            found |= {entry.key: one for entry, one in zip(some, built, strict=True)}
        return [found[entry.key] for entry in entries]


def _where_is(base: bytes, job: bytes) -> list[Command]:
    """Return the reads that show where a job is, in the order of `_OUTCOMES`."""
    return [
        (b"ZSCORE", base + b"completed", job), (b"ZSCORE", base + b"failed", job), (b"ZSCORE", base + b"delayed", job),
        (b"EXISTS", base + job + b":lock"), (b"EXISTS", base + job),
    ]  # fmt: skip


def _outcome_of(replies: Sequence[Any]) -> Outcome:
    found = (outcome for outcome, reply in zip(_OUTCOMES, replies, strict=True) if not is_error(reply) and reply)
    return next(found, Outcome.UNKNOWN)
