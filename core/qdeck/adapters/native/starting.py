"""The dependents that can start when the jobs of a plan end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from qdeck._engine import keys
from qdeck._model.values import State
from qdeck._model.words import Verb
from qdeck._redis import reads
from qdeck._redis.commands import raw_of
from qdeck._redis.errors import good
from qdeck.adapters.native.job import read_dependents
from qdeck.adapters.native.records import read_head
from qdeck.adapters.plans import MOST_STARTING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from qdeck._redis.commands import Program
    from qdeck.adapters.native.records import Row

_ENDS: Final = (Verb.COMPLETE, Verb.CANCEL, Verb.DISCARD, Verb.BURY)  # of these the last three with another outcome


class Starting:
    """What each dependent of the jobs of a plan still waits for, as far as the jobs were read."""

    def __init__(self) -> None:
        self._waits: dict[tuple[str, str], set[str]] = {}
        self._planned: set[tuple[str, str]] = set()  # blocked jobs: they come before those that they wait for

    def find(self, verb: str, queue: str, rows: Sequence[Row], kids: Mapping[bytes, bytes]) -> Program[list[str]]:
        """Return the dependents that wait for nothing but jobs of the plan, since the last of these: their ids, with
        `@` and the queue if it is another one. `kids` is what is stored of the dependents of each job that has some.
        """
        if verb not in _ENDS:
            return []
        if rows[0].state == State.BLOCKED and len(self._planned) < MOST_STARTING:
            self._planned.update((queue, row.id) for row in rows)
        found: list[str] = []
        for raw_id, stored in kids.items():
            if len(self._waits) >= MOST_STARTING:
                break
            job_id = raw_id.decode("utf-8", "replace")
            names, _ = yield from read_dependents(queue, job_id, stored)
            for kid, needs in (yield from self._needs(verb, queue, names)):
                needs -= {job_id if kid[0] == queue else f"{job_id}@{queue}"}
                if not needs and kid not in self._planned:
                    found.append(kid[1] if kid[0] == queue else f"{kid[1]}@{kid[0]}")
        return found

    def _needs(self, verb: str, queue: str, names: Sequence[str]) -> Program[list[tuple[tuple[str, str], set[str]]]]:
        """Return what each of these waits for, without those that end with the job."""
        kids = [(home or queue, job_id) for job_id, _, home in (name.partition("@") for name in names)]
        fresh = [kid for kid in dict.fromkeys(kids) if kid not in self._waits][: MOST_STARTING - len(self._waits)]
        replies = yield from reads.try_each(
            [
                [(b"HGET", keys.key(home, "after"), b"<" + raw_of(job_id)),
                 (b"HGET", keys.key(home, "head"), raw_of(job_id))]
                for home, job_id in fresh
            ]
        )  # fmt: skip
        for kid, (waits, raw) in zip(fresh, replies, strict=True):
            head = read_head(good(raw))
            if good(waits) and head is not None and (verb == Verb.COMPLETE or head.run_anyway):
                self._waits[kid] = {*waits.decode("utf-8", "replace").split()}
        return [(kid, self._waits[kid]) for kid in kids if kid in self._waits]
