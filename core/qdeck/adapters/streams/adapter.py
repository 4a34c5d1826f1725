"""The `streams` adapter: a queue for each consumer group of streams that are named as those of services.

Entries that a group was not given are ready, those that a consumer was given and did not acknowledge are running.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from msgspec import structs

from qdeck._model.reasons import CapabilityCode
from qdeck._model.values import State, WorkerRow
from qdeck._model.words import Verb
from qdeck._redis import reads
from qdeck._redis.commands import raw_of, text_of
from qdeck._redis.errors import is_error
from qdeck._settings.model import AdapterSettings, Interval
from qdeck.adapters.adapter import Adapter
from qdeck.adapters.model import ALL, NO_QUEUE, Capability, Kind, Source, age_s, change_each
from qdeck.adapters.streams.groups import NAMED, PendingLimits, Place, read_consumers, read_groups

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from qdeck._redis.commands import Program
    from qdeck.adapters.cells import Change
    from qdeck.adapters.model import Entry, Look, Raw, Seen, Skipped, Want
    from qdeck.adapters.plans import Context, Rule

_PENDING: Final = (State.RUNNING, State.DEAD)


class StreamSettings(AdapterSettings, frozen=True, kw_only=True):
    """`[adapters.streams]`: when an entry that a consumer received and did not acknowledge is stuck or dead."""

    pending_after: Interval = 300
    """Seconds after which a pending entry is stuck, and a consumer that requested nothing is gone."""
    max_deliveries: Interval = 3
    """Deliveries after which such an entry is a dead letter."""


class Streams(Adapter):
    """Streams `…:service:streams:main`, and topics `…:service:notifications:topic`."""

    name: str = "streams"
    about: ClassVar[str] = "streams named service:streams:main, and topics service:notifications:topic"
    acl_keys: ClassVar[tuple[str, ...]] = ("*:streams:*", "*:notifications*")
    settings_type: ClassVar[type[AdapterSettings]] = StreamSettings

    def __init__(self, settings: AdapterSettings | None = None) -> None:
        super().__init__(settings)
        own = self.settings if isinstance(self.settings, StreamSettings) else StreamSettings()
        self.limits = PendingLimits(own.pending_after * 1000, own.max_deliveries)

    def fixed_keys(self) -> Mapping[bytes, Kind | None]:
        """Return none: streams have the names of their services."""
        return {}

    def patterns(self) -> Sequence[tuple[bytes, str | None]]:
        """Return the glob of all streams."""
        return ((b"*", "stream"),)

    def gather(self, name: bytes) -> str | None:
        """Return the stream, if it has a name of a service's."""
        return text_of(name) if NAMED.search(name) and not name.startswith((b"{", b"qdeck:")) else None

    def capabilities(self) -> Mapping[Verb, Capability]:
        """Return the verbs of entries; workers read only what their group was not given."""
        return {
            Verb.RETRY: Capability(states=(State.DEAD,), note="added again to the end, and acknowledged"),
            Verb.REQUEUE: Capability(
                states=(State.RUNNING,), note="only one that is pending for too long; added again, and acknowledged"
            ),
            Verb.DISCARD: Capability(states=(State.READY, *_PENDING), note="a pending one is acknowledged"),
            Verb.BURY: Capability(
                states=(State.RUNNING,),
                note=f"only one that is pending for too long; its delivery count is set to {self.limits.deliveries}",
            ),
            Verb.RUN: Capability(code=CapabilityCode.NO_SUCH_STATE, note="streams have no delayed entries"),
            Verb.CANCEL: Capability(
                code=CapabilityCode.NO_SUCH_STATE, note="streams have no cancelled entries; discard the entry instead"
            ),
        }

    def rows(self, now: int) -> Program[Look]:
        """Return a row for each group."""
        from qdeck.adapters.streams import rows

        return (yield from rows.read(self.name, self._streams(), self.limits, now))

    def sources(self, queue: str, states: Sequence[str]) -> Program[list[Source]]:
        """Return what the group was not given, and what it has pending."""
        yield from ()  # reads nothing, but is a program
        place, found = Place.of(queue), list[Source]()
        if any(state in states for state in _PENDING):
            state = State.RUNNING if State.RUNNING in states else State.DEAD
            found.append(
                Source(key=place.stream, kind=Kind.PENDING, state=state, native_state="pending", group=place.group)
            )
        if State.READY in states:
            found.append(
                Source(key=place.stream, kind=Kind.STREAM, state=State.READY, native_state="new", group=place.group)
            )
        return found

    def fill(self, queue: str, raws: Sequence[Raw], now: int, want: Want) -> Program[list[Entry]]:
        """Return the entries with their messages."""
        from qdeck.adapters.streams import entries

        return (yield from entries.fill(queue, raws, now, self.limits)) if raws else []

    def recall(self, queue: str, state: str, seen: Sequence[Seen], now: int) -> Program[list[Entry | None]]:
        """Return planned entries as they are now; of pending ones the group knows for how long."""
        from qdeck.adapters import paging

        if state not in _PENDING:
            return (yield from super().recall(queue, state, seen, now))
        [source] = yield from self.sources(queue, (state,))
        raws = yield from self.finder.raws({source.key: source}, seen)
        replies = yield from reads.try_all(
            [(b"XPENDING", source.key, source.group, one.member, one.member, 1) for one in seen]
        )
        found: dict[int, Raw] = {}
        for number, (raw, reply) in enumerate(zip(raws, replies, strict=True)):
            if raw is not None and not is_error(reply) and reply:
                _, consumer, idle, deliveries = reply[0]
                if raw.score == b"%d:%b" % (deliveries, consumer):
                    found[number] = structs.replace(raw, idle_ms=idle)
        filled = yield from paging.fill(self, queue, list(found.values()), now, ALL)
        known = dict(zip(found, filled, strict=True))
        return [entry if (entry := known.get(at)) and entry.state == state else None for at in range(len(seen))]

    def workers(self, now: int) -> Program[list[WorkerRow]]:
        """Return the consumers that are there, and those that left something pending."""
        known = yield from read_groups(self._streams())
        places = [group.place for said in known.values() if not isinstance(said, Exception) for group in said]
        found: dict[bytes, WorkerRow] = {}
        for place, consumers in (yield from read_consumers(places)).items():
            for one in consumers:
                is_gone = self.limits.is_stuck(one.idle_ms)
                if is_gone and not one.pending:
                    continue  # workers of some services take a new name at each start
                had = found.get(one.name)
                heartbeat = max(now - one.idle_ms, (had and had.heartbeat_ms) or 0)
                found[one.name] = WorkerRow(
                    id=text_of(one.name), adapter=self.name, alive=not is_gone or bool(had and had.alive),
                    queues={**(had.queues if had else {}), place.queue: 1},
                    running=one.pending + ((had and had.running) or 0),
                    heartbeat_ms=heartbeat, heartbeat_s=age_s(now, heartbeat),
                )  # fmt: skip
        return list(found.values())

    def changes(self, act: Verb, entries: Sequence[Entry], context: Context) -> Program[Sequence[Change | Skipped]]:
        """Return what a verb changes in these entries, by the groups that their streams have."""
        from qdeck.adapters.streams import changes

        known = yield from read_groups(list(dict.fromkeys(entry.seen.key for entry in entries)))
        groups = {
            stream: [] if isinstance(said, Exception) else [group.place for group in said]
            for stream, said in known.items()
        }
        return change_each(
            lambda entry: changes.build(act, entry, groups.get(entry.seen.key, []), self.limits.deliveries), entries
        )

    def rules(self, queue: str) -> Sequence[Rule]:
        """Entries that were pending, or dead, for too long."""
        from qdeck.adapters.streams.rules import RULES

        return RULES if queue != NO_QUEUE else ()

    def _streams(self) -> list[bytes]:
        return [] if self.discovered is None else [raw_of(name) for name in sorted(self.discovered.groups)]
