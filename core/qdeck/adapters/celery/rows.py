"""The queues of Celery in numbers, and its results as a queue of their own."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Final

from qdeck._deck.model import QueueRow, State
from qdeck._redis import reads
from qdeck._redis.commands import ask, text_of
from qdeck._redis.errors import is_error
from qdeck.adapters.celery import tasks
from qdeck.adapters.celery.keys import RESULTS, sent_key
from qdeck.adapters.model import KEEP_NAMES, FoundKeys, Kind, Look, Raw, Source
from qdeck.adapters.row_problems import problem_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qdeck._redis.commands import Program
    from qdeck.adapters.celery.keys import CeleryKeys

MOST_HELD: Final = 5_000  # of those that workers hold, whose queues and times a look reads
MOST_BOUND: Final = 2_000  # queues of one exchange
_STATUS: Final = re.compile(rb'\{"status": ?"([A-Z]+)"')
_HEAD: Final = 40  # bytes of a result that say its status


def read(
    adapter: str, keys: CeleryKeys, bindings: Sequence[bytes], results: FoundKeys, now: int, timeout_s: int
) -> Program[Look]:
    """Read all queues."""
    names = yield from _read_names(keys, bindings)
    sizes = yield from reads.ask_all([(b"LLEN", key) for name in names for key in keys.lists(name)])
    width = len(keys.lists(""))
    held, notices = yield from _read_held(keys, names, now, timeout_s)
    rows: list[QueueRow] = []
    for at, name in enumerate(names):
        some = sizes[at * width : (at + 1) * width]
        problem = problem_of([(b"LLEN", key) for key in keys.lists(name)], some)
        ready = None if problem is not None else sum(some)
        counts = {key: None if held is None else held[name, key] for key in (State.RUNNING, State.DELAYED, "stuck")}
        rows.append(
            QueueRow(
                adapter=adapter,
                name=name,
                ready=ready,
                running=counts[State.RUNNING],
                delayed=counts[State.DELAYED],
                stuck=counts["stuck"],
                overdue=0,
                problem=problem,
            )
        )
    if results.count:
        rows.append((yield from _results(adapter, keys, results)))
    return Look(rows=tuple(rows), notices=tuple(notices))


def _read_names(keys: CeleryKeys, bindings: Sequence[bytes]) -> Program[list[str]]:
    replies = yield from reads.ask_all([(b"SSCAN", key, b"0", b"COUNT", MOST_BOUND) for key in bindings])
    found: set[str] = set()
    for reply in replies:
        members = [] if is_error(reply) else reply[1]
        found.update(text_of(queue) for member in members if (queue := keys.queue_in(member)) is not None)
    return sorted(found)


def _read_held(
    keys: CeleryKeys, names: Sequence[str], now: int, timeout_s: int
) -> Program[tuple[Counter[tuple[str, str]] | None, list[str]]]:
    """Count what workers hold by queue and state, and how much of it does not move."""
    [size] = yield ask((b"HLEN", keys.unacked))
    found: Counter[tuple[str, str]] = Counter()
    if is_error(size) or not size:
        return (None if is_error(size) else found), []
    if size > MOST_HELD:
        return None, [f"celery: workers hold {size:,} messages: their queues are not counted"]
    held = yield from reads.scan_hash(keys.unacked, most=MOST_HELD)
    source = Source(key=keys.unacked, kind=Kind.HASH, state=State.RUNNING, native_state=tasks.HELD)
    raws = [Raw(source=source, member=tag, value=value) for tag, value in held.items()]
    known = set(names)
    by_queue: dict[str, list[Raw]] = {}
    for raw in raws:
        _, routed = tasks.held_in(raw.value)
        if routed in known and routed is not None:
            by_queue.setdefault(routed, []).append(raw)
    for queue, some in by_queue.items():
        for entry in (yield from tasks.fill_held(keys, queue, some, now, timeout_s)):
            found[queue, entry.state] += 1
            found[queue, "stuck"] += entry.stuck is not None
    return found, []


def _results(adapter: str, keys: CeleryKeys, results: FoundKeys) -> Program[QueueRow]:
    """The results, told apart by their status where they are so few that all their names are known."""
    if results.count > min(len(results.names), KEEP_NAMES):
        return QueueRow(adapter=adapter, name=RESULTS, oldest_exact=False)
    heads = yield from reads.ask_all([(b"GETRANGE", key, 0, _HEAD) for key in results.names])
    sent = yield from reads.ask_all([(b"EXISTS", sent_key(key.removeprefix(keys.results))) for key in results.names])
    counts: Counter[str] = Counter()
    for head, was_sent in zip(heads, sent, strict=True):
        if is_error(head) or not head:
            continue
        found = _STATUS.match(head)
        status = "FAILURE" if found is None else found[1].decode()
        counts["SUCCESS" if status == "FAILURE" and was_sent == 1 else status] += 1
    return QueueRow(
        adapter=adapter, name=RESULTS, dead=counts["FAILURE"], done=counts["SUCCESS"], cancelled=counts["REVOKED"]
    )
