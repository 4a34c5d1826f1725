"""The rules of a purge of native queues, and the two that no filter can express: lost leases and orphaned records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from qdeck._deck.model import NO_STATE, State
from qdeck._deck.reasons import SkipCode
from qdeck._engine import keys
from qdeck._errors import QdeckError
from qdeck._redis import reads
from qdeck._redis.errors import LOST
from qdeck.adapters.native import ALL_STATES
from qdeck.adapters.native.job import by_id
from qdeck.adapters.native.records import Row, read_head, read_lease
from qdeck.adapters.native.walk import Needs, Walk
from qdeck.adapters.plans import Pages, Rule

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from qdeck._deck.model import WorkerRow
    from qdeck._redis.commands import Command, Program
    from qdeck._settings.limits import Limits
    from qdeck.adapters.plans import Search

SLICE: Final = 500
PARTS: Final = ("head", "body", "attempts", "error", "result", "log")  # what is kept of a job, by its id
OWNER: Final = "owner"
ORPHANS: Final = "orphans"
_OVER: Final = "for {age}, over {limit}"
RULES: Final = (
    # What still had to run is never just dropped.
    Rule(
        name="running_without_owner", states=(State.RUNNING,), verb="bury", without_dlq="requeue",
        setting="max_pending_age", where="", reason="", code=OWNER,
    ),
    Rule(
        name="ready_too_old", states=(State.READY,), verb="bury", without_dlq="cancel", setting="max_ready_age",
        reason=f"ready {_OVER}",
    ),
    Rule(
        name="done_too_old", states=(State.DONE,), verb="discard", setting="max_completed_age", reason=f"done {_OVER}"
    ),
    Rule(name="dead_too_old", states=(State.DEAD,), verb="discard", setting="dlq_ttl", reason=f"dead {_OVER}"),
    Rule(
        name="dead_too_many", states=(State.DEAD,), verb="discard", setting="dlq_max_entries", rank=True,
        reason="more dead letters than {limit}; dead for {age}",
    ),
    Rule(
        name="cancelled_too_old", states=(State.CANCELLED,), verb="discard", setting="max_request_age",
        reason=f"cancelled {_OVER}",
    ),
    Rule(
        name="orphaned_records", states=(NO_STATE,), verb="discard", setting="max_orphaned_age", where="", reason="",
        code=ORPHANS,
    ),
)  # fmt: skip
_ID_HEX: Final = 13  # digits at the start of an id that are the microseconds of its making
_ID_LENGTH: Final = 20


def purge_verb(rule: str, limits: Limits) -> str:
    """Return what a rule does to the jobs of a native queue."""
    return next(one.verb_for(limits) for one in RULES if one.name == rule)


class Ownerless(Walk):
    """Jobs whose lease ended long ago: their age is that of being without an owner."""

    def __init__(self, queue: str, search: Search, owners: Mapping[str, WorkerRow] | None) -> None:
        self._limits, self._owners = search.limits, owners
        limit_ms = search.now - search.limits.ms("max_pending_age")
        needs = Needs.of(None, search.now, State.RUNNING, always=("lease",))
        super().__init__(queue, State.RUNNING, needs, search.now, highest=limit_ms - 1)

    def why(self, row: Any) -> tuple[float | None, str] | SkipCode | None:
        """How long it has no owner, and whether its last one lives."""
        lease = read_lease(row.lease_raw)
        if lease is None:
            return SkipCode.NO_LEASE
        age = (self.now - row.at) / 1000
        owner = f"its worker was {lease.worker}"
        if self._owners is not None:
            known = self._owners.get(lease.worker)
            lives = known is not None and known.alive
            owner = f"its worker {lease.worker} " + ("lives and does not renew it" if lives else "is gone")
        return age, f"its lease ran out {age:,.0f} s ago, over {self._limits.words('max_pending_age')}; {owner}"


class Orphans(Pages):
    """Fields kept for a job that is in no state: each is found once, at the first of the hashes that has it."""

    def __init__(self, queue: str, search: Search) -> None:
        super().__init__()
        self.queue, self._now, self._limits = queue, search.now, search.limits
        self._part, self._cursor = 0, b"0"

    def page(self) -> Program[list[Row] | None]:
        """Those among the next fields."""
        if self._part == len(PARTS):
            return None
        part, queue = self._part, self.queue
        fields, self._cursor = yield from _fields(keys.key(queue, PARTS[part]), self._cursor)
        self._part += self._cursor == b"0"
        self.scanned += len(fields)
        homeless = yield from _homeless(queue, fields)
        if homeless and part:
            calls: list[Command] = [
                (b"HEXISTS", keys.key(queue, known), raw) for raw in homeless for known in PARTS[:part]
            ]
            replies = yield from reads.ask_all(calls)
            homeless = [raw for at, raw in enumerate(homeless) if not any(replies[at * part : (at + 1) * part])]
        if not homeless:
            return []
        heads = yield (b"HMGET", keys.key(queue, "head"), *homeless)
        rows = [
            Row(queue, NO_STATE, raw, b"", self._now, True, made_ms(raw, head))
            for raw, head in zip(homeless, heads, strict=True)
        ]
        # One whose age nobody knows is no younger than this purge, and would otherwise stay for ever.
        limit = self._limits.ms("max_orphaned_age")
        return [row for row in rows if row.since is None or self._now - row.since > limit]

    def why(self, row: Any) -> tuple[float | None, str] | SkipCode | None:
        """How long ago it was made."""
        if row.since is None:
            return None, "a record of no job, of unknown age"
        age = (self._now - row.since) / 1000
        return age, f"a record of no job, made {age:,.0f} s ago, over {self._limits.words('max_orphaned_age')}"


def _fields(key: bytes, cursor: bytes) -> Program[tuple[list[bytes], bytes]]:
    """A step through the names of a hash; servers that cannot leave the values out are asked for fewer at a time."""
    try:
        following, names = yield (b"HSCAN", key, cursor, b"COUNT", SLICE, b"NOVALUES")
    except LOST:
        raise
    except QdeckError:
        following, flat = yield (b"HSCAN", key, cursor, b"COUNT", SLICE // 10)
        names = flat[::2]
    cursor = following if isinstance(following, bytes) else b"%d" % following
    return [name for name in dict.fromkeys(names) if name], cursor


def _homeless(queue: str, fields: Sequence[bytes]) -> Program[list[bytes]]:
    """Those that are in no state. A job that moves while it is looked for is looked for again."""
    if not fields:
        return []
    sizes = yield [(b"ZCARD", keys.key(queue, state)) for state in ALL_STATES]
    full = sorted(((size, state) for size, state in zip(sizes, ALL_STATES, strict=True)), reverse=True)
    left = list(fields)
    for size, state in full:  # the longest list first: most are found there
        if size and left:
            scores = yield (b"ZMSCORE", keys.key(queue, state), *left)
            left = [raw for raw, score in zip(left, scores, strict=True) if score is None]
    if not left:
        return []
    there = yield from by_id(queue, [raw.decode("utf-8", "surrogateescape") for raw in left])
    return [raw for raw, home in zip(left, there, strict=True) if home is None]


def made_ms(job_id: bytes, head_text: bytes | None) -> int | None:
    """When a record was made: its head tells, or its id, if it is one of ours."""
    head = read_head(head_text)
    if head is not None:
        return head.enqueued_ms
    if len(job_id) != _ID_LENGTH:
        return None
    try:
        return int(job_id[:_ID_HEX], 16) // 1000
    except ValueError:
        return None
