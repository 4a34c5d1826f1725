"""The numbers of Celery's queues, and its results as a queue of their own."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from qdeck._model.values import QueueRow, State
from qdeck._redis import reads
from qdeck._redis.commands import text_of, with_errors
from qdeck._redis.errors import is_error
from qdeck.adapters.celery import messages, tasks
from qdeck.adapters.celery.keys import RESULTS, sent_key
from qdeck.adapters.model import KEEP_NAMES, FoundKeys, Kind, Look, Raw, Source
from qdeck.adapters.row_problems import problem_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qdeck._redis.commands import Program
    from qdeck.adapters.celery.keys import CeleryKeys

MOST_HELD: Final = 5_000  # messages held by workers whose queues and times a refresh reads
MOST_BOUND: Final = 2_000  # queues of one exchange


def read(
    adapter: str, keys: CeleryKeys, bindings: Sequence[bytes], results: FoundKeys, now: int, timeout_s: int
) -> Program[Look]:
    """Read all queues."""
    names = yield from _read_names(keys, bindings)
    sizes = yield from reads.try_all([(b"LLEN", key) for name in names for key in keys.lists(name)])
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
    replies = yield from reads.try_all([(b"SSCAN", key, b"0", b"COUNT", MOST_BOUND) for key in bindings])
    found: set[str] = set()
    for reply in replies:
        members = [] if is_error(reply) else reply[1]
        found.update(text_of(queue) for member in members if (queue := keys.queue_in(member)) is not None)
    return sorted(found)


def _read_held(
    keys: CeleryKeys, names: Sequence[str], now: int, timeout_s: int
) -> Program[tuple[Counter[tuple[str, str]] | None, list[str]]]:
    """Count the messages that workers hold by queue and state, and how many of them are stuck."""
    [size] = yield with_errors((b"HLEN", keys.unacked))
    found: Counter[tuple[str, str]] = Counter()
    if is_error(size) or not size:
        return (None if is_error(size) else found), []
    if size > MOST_HELD:
        return None, [f"celery: workers hold {size:,} messages; running and delayed jobs are not counted"]
    held = yield from reads.scan_hash(keys.unacked, most=MOST_HELD)
    source = Source(key=keys.unacked, kind=Kind.HASH, state=State.RUNNING, native_state=tasks.HELD)
    raws = [Raw(source=source, member=tag, value=value) for tag, value in held.items()]
    known = set(names)
    for one in (yield from tasks.read_held(keys, raws, now, timeout_s)) if raws else ():
        if one.queue is not None and one.queue in known:
            found[one.queue, one.state] += 1
            found[one.queue, "stuck"] += one.stuck is not None
    return found, []


def _results(adapter: str, keys: CeleryKeys, results: FoundKeys) -> Program[QueueRow]:
    """Return the row of the results, counted by status if all their names are known."""
    if results.count > min(len(results.names), KEEP_NAMES):
        return QueueRow(adapter=adapter, name=RESULTS, oldest_exact=False)
    heads = yield from reads.try_all([messages.head_of(key) for key in results.names])
    sent = yield from reads.try_all([(b"EXISTS", sent_key(key.removeprefix(keys.results))) for key in results.names])
    counts: Counter[str] = Counter()
    for head, was_sent in zip(heads, sent, strict=True):
        if is_error(head) or not head:
            continue
        status = messages.status_in(head) or "FAILURE"
        counts["SUCCESS" if status == "FAILURE" and was_sent == 1 else status] += 1
    return QueueRow(
        adapter=adapter, name=RESULTS, dead=counts["FAILURE"], done=counts["SUCCESS"], cancelled=counts["REVOKED"]
    )
