"""The `celery` adapter: kombu's lists of messages, the messages that workers hold, and the results of tasks.

Celery has no dead letters. A failed task is a result, and results are shown as a queue of their own, because most of
them do not contain their queue. A result that contains the call can be sent again as a new task.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from qdeck._model.reasons import CapabilityCode
from qdeck._model.values import State
from qdeck._model.words import Verb
from qdeck._redis.commands import glob_of, with_errors
from qdeck._redis.errors import is_error
from qdeck.adapters.adapter import Adapter
from qdeck.adapters.celery.keys import NAME, RESULTS, CeleryKeys, CelerySettings
from qdeck.adapters.model import Capability, FoundKeys, Kind, Outcome, Source, change_each

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from qdeck._redis.commands import Program
    from qdeck._schedules.model import ScheduleRow
    from qdeck._settings.model import AdapterSettings
    from qdeck.adapters.cells import Change
    from qdeck.adapters.model import Entry, Look, Raw, Retried, Skipped, Want
    from qdeck.adapters.plans import Context

_BINDINGS: Final = "bindings"
_OUTCOMES: Final = {
    "SUCCESS": Outcome.DONE, "FAILURE": Outcome.DEAD, "RETRY": Outcome.FAILED, "STARTED": Outcome.RUNNING,
    "RECEIVED": Outcome.RUNNING, "REVOKED": Outcome.CANCELLED,
}  # fmt: skip
_ENDED: Final = (State.DEAD, State.DONE, State.CANCELLED)


class Celery(Adapter):
    """Celery 5 on Redis, as kombu 5 keeps its queues."""

    name: str = NAME
    about: ClassVar[str] = "the queues and results of Celery"
    acl_keys: ClassVar[tuple[str, ...]] = ("_kombu.*", "unacked*", "celery*", "redbeat:*", "qdeck:celery:*")
    why_no_pause: ClassVar[str] = "each worker remembers what it consumes; use celery control cancel_consumer"
    repeats: ClassVar[bool] = True
    settings_type: ClassVar[type[AdapterSettings]] = CelerySettings
    outcome_evidence: ClassVar[str] = "the outcome is read from the result of the new task"

    def __init__(self, settings: AdapterSettings | None = None) -> None:
        super().__init__(settings)
        self.own = self.settings if isinstance(self.settings, CelerySettings) else CelerySettings()
        self.keys = CeleryKeys(self.own)

    def fixed_keys(self) -> Mapping[bytes, Kind | None]:
        """Return the keys of what workers hold, and the bindings that every worker creates."""
        bound = dict.fromkeys((self.keys.binding(one) for one in ("celery", "celeryev", "celery.pidbox")), Kind.SET)
        return {self.keys.unacked: Kind.HASH, self.keys.unacked_index: Kind.ZSET, **bound}

    def patterns(self) -> Sequence[tuple[bytes, str | None]]:
        """Return the globs of bindings and results."""
        return ((glob_of(self.keys.bindings) + b"*", "set"), (glob_of(self.keys.results) + b"*", "string"))

    def gather(self, name: bytes) -> str | None:
        """Return whether a key is a binding or a result."""
        if name.startswith(self.keys.results):
            return RESULTS
        return _BINDINGS if self.keys.is_binding(name) else None

    def capabilities(self) -> Mapping[Verb, Capability]:
        """Return the verbs that need no worker; Celery's remote control changes what is in a worker's memory."""
        sends = "sends the call again as a new task; requires result_extended = True"
        return {
            Verb.RETRY: Capability(states=(State.DEAD,), note=sends),
            Verb.REQUEUE: Capability(
                states=(State.RUNNING,), note="only a message whose visibility timeout has passed"
            ),
            Verb.DISCARD: Capability(states=(State.READY, *_ENDED), note="a waiting message or a stored result"),
            Verb.CANCEL: Capability(code=CapabilityCode.ELSEWHERE, note="workers keep revoked tasks in memory"),
            Verb.RUN: Capability(code=CapabilityCode.ELSEWHERE, note="a worker holds the task in memory until its ETA"),
            Verb.BURY: Capability(code=CapabilityCode.NO_DEAD_LETTERS),
        }

    def rows(self, now: int) -> Program[Look]:
        """Return the queues, and the results as one more."""
        from qdeck.adapters.celery import rows

        groups = {} if self.discovered is None else self.discovered.groups
        bindings = {*groups.get(_BINDINGS, FoundKeys()).names, self.keys.binding("celery")}
        results = groups.get(RESULTS, FoundKeys())
        timeout = self.own.visibility_timeout_s
        return (yield from rows.read(self.name, self.keys, sorted(bindings), results, now, timeout))

    def schedules(self, now: int) -> Program[list[ScheduleRow]]:
        """Return the schedules of RedBeat."""
        from qdeck.adapters.celery import schedules

        return schedules.read(self.name, self.own.redbeat_prefix.encode(), now)

    def sources(self, queue: str, states: Sequence[str]) -> Program[list[Source]]:
        """Return the lists of a queue by priority and the messages that workers hold; or the results."""
        from qdeck.adapters.celery import tasks

        yield from ()  # reads nothing, but is a program
        found: list[Source] = []
        if queue == RESULTS:
            source = Source(
                key=glob_of(self.keys.results) + b"*", kind=Kind.NAMES, state=State.DEAD, native_state=tasks.RESULT
            )
            return [source] if set(states) & set(_ENDED) else []
        if State.READY in states:
            facts = {"kind": Kind.LIST, "state": State.READY, "native_state": tasks.WAITING, "down": True}
            found += [Source(key=key, **facts) for key in self.keys.lists(queue)]  # type: ignore[arg-type]
        if State.RUNNING in states or State.DELAYED in states:
            held = Source(key=self.keys.unacked, kind=Kind.HASH, state=State.RUNNING, native_state=tasks.HELD)
            found.append(held)
        return found

    def fill(self, queue: str, raws: Sequence[Raw], now: int, want: Want) -> Program[list[Entry]]:
        """Return the tasks of messages or results."""
        from qdeck.adapters.celery import tasks

        kind = raws[0].source.kind if raws else None
        if kind is Kind.NAMES:
            return (yield from tasks.fill_results(self.keys, raws))
        if kind is Kind.HASH:
            return (yield from tasks.fill_held(self.keys, queue, raws, now, self.own.visibility_timeout_s))
        return tasks.fill_waiting(queue, raws)

    def outcomes(self, tried: Sequence[Retried], now: int) -> Program[list[Outcome]]:
        """Return the outcomes from the results of the tasks that were sent instead."""
        from qdeck.adapters.celery import messages

        new = [messages.sent_id(one.seen.member.removeprefix(self.keys.results).decode()) for one in tried]
        heads = yield with_errors(*(messages.head_of(self.keys.result(task.encode())) for task in new))
        found = [None if is_error(head) else messages.status_in(head) for head in heads]
        return [_OUTCOMES.get(status or "", Outcome.WAITING) for status in found]

    def changes(self, act: Verb, entries: Sequence[Entry], context: Context) -> Program[Sequence[Change | Skipped]]:
        """Return what a verb changes in these tasks."""
        from qdeck.adapters.celery import changes

        yield from ()  # all that it needs was read with the tasks
        return change_each(lambda entry: changes.build(self.keys, act, entry, context.now), entries)
