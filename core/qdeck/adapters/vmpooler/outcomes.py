"""The outcomes of VMPooler's retried dead letters: for each request, how many VMs were requested again.

A new VM has a new name, so a single dead letter cannot be followed; its request and pool can, and how many failed
since.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from qdeck._redis import reads
from qdeck._redis.commands import raw_of, with_errors
from qdeck._redis.errors import is_error
from qdeck.adapters.model import Outcome
from qdeck.adapters.vmpooler.keys import CREATE, DEAD, MOST_TOGETHER, read_letter, request_key

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qdeck._redis.commands import Command, Program
    from qdeck.adapters.model import Retried

MOST_LETTERS: Final = 1000  # of each set, the newest
_OVER: Final = {b"ready": Outcome.DONE, b"failed": Outcome.DEAD, b"deleted": Outcome.CANCELLED}
Asked = tuple[str, str, str]  # alias, pool, request


@dataclass(slots=True)
class _Known:
    """The numbers of one request and pool."""

    over: Outcome | None = None
    failed: int = 0
    waiting: int = 0
    outcomes: list[Outcome] = field(default_factory=list)

    def deal(self, count: int) -> None:
        """Return outcomes for this number of VMs, in any order: single VMs cannot be distinguished."""
        failed = min(count, self.failed)
        rest = count - failed
        waiting = 0 if self.over else min(rest, self.waiting)
        self.outcomes = [Outcome.DEAD] * failed + [Outcome.WAITING] * waiting
        self.outcomes += [self.over or Outcome.RUNNING] * (rest - waiting)


def read_outcomes(tried: Sequence[Retried]) -> Program[list[Outcome]]:
    """Return the outcomes of the VMs that were requested again."""
    asked = [_asked(one.seen.member) for one in tried]
    count = Counter(asked)
    known = {who: _Known() for who in count}
    yield from _read_requests(known)
    failed = yield from _read_failures(min((one.since_ms for one in tried), default=0))
    for who, found in known.items():
        found.failed = failed[who]
        found.deal(count[who])
    return [known[who].outcomes.pop() for who in asked]


def _asked(letter: bytes) -> Asked:
    facts = read_letter(letter).facts
    alias, pool, request = (str(facts.get(name, "")) for name in ("pool_alias", "pool", "request_id"))
    return alias, pool, request


def _read_requests(known: dict[Asked, _Known]) -> Program[None]:
    calls: list[Command] = []
    for alias, pool, request in known:
        tasks = [raw_of(f"{alias}:{pool}:{count}:{request}") for count in range(1, MOST_TOGETHER + 2)]
        calls.append((b"HMGET", request_key(raw_of(request)), b"status", b"requested"))
        calls.append((b"ZMSCORE", CREATE, *tasks))
    replies = yield from reads.try_all(calls)
    for found, record, scores in zip(known.values(), replies[::2], replies[1::2], strict=True):
        status, wanted = (None, None) if is_error(record) else record
        if status is not None or wanted is None:
            found.over = _OVER.get(status or b"", Outcome.UNKNOWN)
        if not is_error(scores):
            found.waiting = sum(count for count, score in enumerate(scores, 1) if score is not None)


def _read_failures(since_ms: int) -> Program[Counter[Asked]]:
    sets = [key for kind, key in DEAD.items() if kind != "tasks"]
    least = since_ms // 1000
    replies = yield with_errors(
        *((b"ZREVRANGEBYSCORE", key, b"+inf", least, b"LIMIT", 0, MOST_LETTERS) for key in sets)
    )
    return Counter(_asked(letter) for reply in replies if not is_error(reply) for letter in reply)
