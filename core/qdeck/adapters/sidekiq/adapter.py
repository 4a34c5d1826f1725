"""The `sidekiq` adapter: a list for each queue, and sorted sets with the retries, scheduled and dead jobs of all."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from qdeck._model.reasons import CapabilityCode
from qdeck._model.values import State
from qdeck._model.words import Verb
from qdeck._redis import reads
from qdeck.adapters.adapter import Adapter
from qdeck.adapters.model import Capability, Kind, Source, change_each
from qdeck.adapters.sidekiq.keys import NAME, RUNNING, SETS, WAITING, SidekiqKeys, SidekiqSettings

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from qdeck._model.values import WorkerRow
    from qdeck._redis.commands import Program
    from qdeck._schedules.model import ScheduleRow
    from qdeck._settings.model import AdapterSettings
    from qdeck.adapters.cells import Change
    from qdeck.adapters.model import Entry, Look, Raw, Skipped, Want
    from qdeck.adapters.plans import Context

_SIGNS: Final = (b"processes", b"retry", b"schedule", b"dead")


class Sidekiq(Adapter):
    """Sidekiq 6, 7 and 8."""

    name: str = NAME
    about: ClassVar[str] = "queue:*, retry, schedule and dead of Sidekiq"
    acl_keys: ClassVar[tuple[str, ...]] = (
        "queues", "queue:*", "retry", "schedule", "dead", "processes", "paused", "cron_jobs*", "cron_job:*",
        "*:[0-9]*:????????????", "*:[0-9]*:????????????:work",  # a process: host, pid and a nonce
    )  # fmt: skip
    why_no_pause: ClassVar[str] = "only Sidekiq Pro has that"
    repeats: ClassVar[bool] = True
    settings_type: ClassVar[type[AdapterSettings]] = SidekiqSettings

    def __init__(self, settings: AdapterSettings | None = None) -> None:
        super().__init__(settings)
        self.keys = SidekiqKeys(self.settings.namespace if isinstance(self.settings, SidekiqSettings) else "")

    def fixed_keys(self) -> Mapping[bytes, Kind | None]:
        """Return its keys, of any type: other programs may use the same short names."""
        return dict.fromkeys((self.keys.queues, *(self.keys.prefix + name for name in _SIGNS)))

    @property
    def is_there(self) -> bool:
        """Whether more of its keys have the type that Sidekiq gives them than another one."""
        right, wrong = self._kinds()
        return len(right) > len(wrong)

    def _kinds(self) -> tuple[list[bytes], list[str]]:
        """Return the keys with the types that Sidekiq gives them, and the texts about the others."""
        types = {} if self.discovered is None else self.discovered.types
        right: list[bytes] = []
        wrong: list[str] = []
        for name in (b"queues", *_SIGNS):
            key, wanted = self.keys.prefix + name, "set" if name in (b"queues", b"processes") else "zset"
            found = types.get(key, "none")
            if found == wanted:
                right.append(key)
            elif found != "none":
                wrong.append(reads.ignored_words(key, self.name, wanted, found))
        return right, wrong

    def capabilities(self) -> Mapping[Verb, Capability]:
        """Return the verbs, which do the same as its web page."""
        return {
            Verb.RETRY: Capability(states=(State.DEAD,), note="like Retry on its web page; adds one attempt"),
            Verb.RUN: Capability(states=(State.DELAYED,), note="a scheduled job or a retry"),
            Verb.BURY: Capability(states=(State.DELAYED,), note="like Kill"),
            Verb.DISCARD: Capability(
                states=(State.READY, State.DELAYED, State.DEAD), note="like Delete; jobs of a batch are skipped"
            ),
            Verb.CANCEL: Capability(
                code=CapabilityCode.NO_SUCH_STATE, note="it has no cancelled state; discard the job instead"
            ),
            Verb.REQUEUE: Capability(
                code=CapabilityCode.ELSEWHERE,
                note="a running job is only in the memory of its process",
            ),
        }

    def rows(self, now: int) -> Program[Look]:
        """Return the queues and the sorted sets."""
        from qdeck.adapters.sidekiq import rows

        return (yield from rows.read(self.name, self.keys, now, self._kinds()[1]))

    def workers(self, now: int) -> Program[list[WorkerRow]]:
        """Return the processes, as each last registered itself."""
        from qdeck.adapters.sidekiq import processes

        names = yield from processes.identities(self.keys)
        return (yield from processes.read(self.name, self.keys, names, now))

    def schedules(self, now: int) -> Program[list[ScheduleRow]]:
        """Return the schedules of sidekiq-cron."""
        from qdeck.adapters.sidekiq import schedules

        return schedules.read(self.name, self.keys, now)

    def sources(self, queue: str, states: Sequence[str]) -> Program[list[Source]]:
        """Return the list of a queue and the hashes of running jobs; or a sorted set."""
        if queue in SETS:
            yield from ()  # reads nothing, but is a program
            state = SETS[queue]
            native = queue.removeprefix("set:")
            source = Source(key=self.keys.set_of(queue), kind=Kind.ZSET, state=state, native_state=native)
            return [source] if state in states else []
        found: list[Source] = []
        if State.RUNNING in states:
            from qdeck.adapters.sidekiq import processes

            found += [
                Source(key=self.keys.work(name), kind=Kind.HASH, state=State.RUNNING, native_state=RUNNING)
                for name in (yield from processes.identities(self.keys))
            ]
        if State.READY in states:
            facts = {"kind": Kind.LIST, "state": State.READY, "native_state": WAITING, "down": True}
            found.append(Source(key=self.keys.queue(queue), **facts))  # type: ignore[arg-type]
        return found

    def fill(self, queue: str, raws: Sequence[Raw], now: int, want: Want) -> Program[list[Entry]]:
        """Return the jobs of these members, which contain all facts."""
        from qdeck.adapters.sidekiq import jobs

        yield from ()  # reads nothing, but is a program
        is_running = bool(raws) and raws[0].source.native_state == RUNNING
        return (jobs.fill_running if is_running else jobs.fill)(queue, raws, now)

    def changes(self, act: Verb, entries: Sequence[Entry], context: Context) -> Program[Sequence[Change | Skipped]]:
        """Return what a verb changes in these jobs."""
        from qdeck.adapters.sidekiq import changes

        yield from ()  # all that it needs is in the jobs themselves
        return change_each(lambda entry: changes.build(self.keys, act, entry, context.now), entries)
