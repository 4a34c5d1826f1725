"""The `celery` adapter: kombu's lists of messages, what workers hold of them, and the results of tasks.

Celery keeps no dead letters. A task that failed is a result; the results are a queue of their own here, since most of
them do not say of which queue they were. One that says what was called can be sent again, as a new task.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from qdeck._deck.model import State
from qdeck._deck.reasons import CapabilityCode
from qdeck._redis.commands import ask
from qdeck._redis.errors import is_error
from qdeck.adapters.adapter import Adapter
from qdeck.adapters.celery.keys import NAME, RESULTS, CeleryKeys, CelerySettings, glob_of
from qdeck.adapters.model import Act, Capability, FoundKeys, Kind, Outcome, Source

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from qdeck._redis.commands import Program
    from qdeck._settings.model import AdapterSettings
    from qdeck.adapters.cells import Change
    from qdeck.adapters.model import Entry, Look, Raw, Retried, Want
    from qdeck.adapters.plans import Context

_BINDINGS: Final = "bindings"
_ENDED: Final = (State.DEAD, State.DONE, State.CANCELLED)


class Celery(Adapter):
    """Celery 5 on Redis, as kombu 5 keeps its queues."""

    name: str = NAME
    about: ClassVar[str] = "the queues and results of Celery"
    acl_keys: ClassVar[tuple[str, ...]] = ("_kombu.*", "unacked*", "celery*", "qdeck:celery:*")
    repeats: ClassVar[bool] = True
    settings_type: ClassVar[type[AdapterSettings]] = CelerySettings
    outcome_evidence: ClassVar[str] = "the result of the new task says how it went"

    def __init__(self, settings: AdapterSettings | None = None) -> None:
        super().__init__(settings)
        self.own = self.settings if isinstance(self.settings, CelerySettings) else CelerySettings()
        self.keys = CeleryKeys(self.own)

    def fixed_keys(self) -> Mapping[bytes, Kind | None]:
        """What workers hold, and the bindings that every worker makes."""
        bound = dict.fromkeys((self.keys.binding(one) for one in ("celery", "celeryev", "celery.pidbox")), Kind.SET)
        return {self.keys.unacked: Kind.HASH, self.keys.unacked_index: Kind.ZSET, **bound}

    def patterns(self) -> Sequence[tuple[bytes, str | None]]:
        """The bindings of queues, and results."""
        return ((glob_of(self.keys.bindings), "set"), (glob_of(self.keys.results), "string"))

    def gather(self, name: bytes) -> str | None:
        """Bindings, and results."""
        if name.startswith(self.keys.results):
            return RESULTS
        return _BINDINGS if self.keys.is_binding(name) else None

    def capabilities(self) -> Mapping[Act, Capability]:
        """What can be done without a worker, which has what Celery's own remote control reaches."""
        sends = "sends the task again, as a new one; the result must say what was called (result_extended)"
        return {
            Act.RETRY: Capability(states=(State.DEAD,), note=sends),
            Act.REQUEUE: Capability(states=(State.RUNNING,), note="of a message whose visibility timeout has passed"),
            Act.DISCARD: Capability(states=(State.READY, *_ENDED), note="a waiting message, or a result"),
            Act.CANCEL: Capability(code=CapabilityCode.ELSEWHERE, note="workers keep what is revoked in memory"),
            Act.RUN: Capability(code=CapabilityCode.ELSEWHERE, note="a worker holds a task until its time has come"),
            Act.BURY: Capability(code=CapabilityCode.NO_DEAD_LETTERS),
        }

    def rows(self, now: int) -> Program[Look]:
        """The queues, and the results."""
        from qdeck.adapters.celery import rows

        groups = {} if self.sight is None else self.sight.groups
        bindings = {*groups.get(_BINDINGS, FoundKeys()).names, self.keys.binding("celery")}
        results = groups.get(RESULTS, FoundKeys())
        timeout = self.own.visibility_timeout_s
        return (yield from rows.read(self.name, self.keys, sorted(bindings), results, now, timeout))

    def sources(self, queue: str, states: Sequence[str]) -> Program[list[Source]]:
        """The lists of a queue by priority, and what workers hold; or the results."""
        from qdeck.adapters.celery import tasks

        yield from ()  # no reading: a program all the same
        found: list[Source] = []
        if queue == RESULTS:
            source = Source(
                key=glob_of(self.keys.results), kind=Kind.NAMES, state=State.DEAD, native_state=tasks.RESULT
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
        """The tasks of messages, or of results."""
        from qdeck.adapters.celery import tasks

        kind = raws[0].source.kind if raws else None
        if kind is Kind.NAMES:
            return (yield from tasks.fill_results(self.keys, raws, now))
        if kind is Kind.HASH:
            return (yield from tasks.fill_held(self.keys, queue, raws, now, self.own.visibility_timeout_s))
        return tasks.fill_waiting(queue, raws, now)

    def outcomes(self, tried: Sequence[Retried], now: int) -> Program[list[Outcome]]:
        """As the results of the tasks that were sent in their place say."""
        from qdeck.adapters.celery import messages

        new = [messages.sent_id(one.seen.member.removeprefix(self.keys.results).decode()) for one in tried]
        replies = yield ask(*((b"GETRANGE", self.keys.result(task.encode()), 0, 40) for task in new))
        known = {
            b"SUCCESS": Outcome.DONE,
            b"FAILURE": Outcome.DEAD,
            b"RETRY": Outcome.FAILED,
            b"STARTED": Outcome.RUNNING,
        }
        known |= {b"REVOKED": Outcome.CANCELLED, b"RECEIVED": Outcome.RUNNING}
        found: list[Outcome] = []
        for reply in replies:
            said = b"" if is_error(reply) else reply
            status = next((one for one in known if b'"' + one + b'"' in said), None)
            found.append(Outcome.WAITING if status is None else known[status])
        return found

    def change(self, act: Act, entry: Entry, context: Context) -> Program[Change]:
        """The cells of one task."""
        from qdeck.adapters.celery import changes

        yield from ()  # what it relies on was read with the task
        return changes.build(self.keys, act, entry, context.now)
