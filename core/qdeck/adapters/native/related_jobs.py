"""The jobs related to a job: its dependencies, its dependents, and dead letters with the same error."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from qdeck._engine import keys
from qdeck._redis import reads
from qdeck._redis.commands import raw_of
from qdeck.adapters.native.groups import read_groups
from qdeck.adapters.native.job import by_id

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from qdeck._model.values import JobRecord
    from qdeck._redis.commands import Program
    from qdeck.adapters.groups import CountedGroup

MOST: Final = 40  # jobs in one look


def place_of(ref: str, queue: str) -> tuple[str, str]:
    """Return the queue and the id in a reference of a job of `queue`; one to its own queue has no `@`."""
    job_id, _, other = ref.partition("@")
    return other or queue, job_id


def read_related(queue: str, refs: Iterable[str]) -> Program[Mapping[str, JobRecord]]:
    """Return the records of these references, a few at most, without jobs of which nothing is stored."""
    now = yield from reads.clock()
    of_queue: dict[str, dict[str, str]] = {}
    for ref in list(dict.fromkeys(refs))[:MOST]:
        where, job_id = place_of(ref, queue)
        of_queue.setdefault(where, {})[job_id] = ref
    found: dict[str, JobRecord] = {}
    for where, ids in of_queue.items():
        rows = yield from by_id(where, list(ids), now)
        for (_, ref), row in zip(ids.items(), rows, strict=True):
            if row is not None:
                found[ref] = row.full()
    return found


def read_kin(queue: str, job_id: str) -> Program[CountedGroup | None]:
    """Return the dead letters of its queue with the same error; none if they are not counted."""
    attempts = yield (b"HGET", keys.key(queue, "attempts"), raw_of(job_id))
    words = (attempts or b"").split()
    if len(words) != 4:
        return None
    digest = words[3]
    kept = yield (b"HGET", keys.key(queue, "groups"), digest)
    return next(iter(read_groups([digest, kept or b""])), None)
