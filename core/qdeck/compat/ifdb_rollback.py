"""`python -m qdeck.compat.ifdb_rollback`: put the tasks of `qdeck.compat.ifdb` back under the migration plan's keys."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

from qdeck._errors import QdeckError, UsageError
from qdeck._formatting import counted
from qdeck._redis import reads
from qdeck._redis.commands import raw_of
from qdeck.admin import Writer
from qdeck.compat import _ifdb_document as document
from qdeck.compat.ifdb import task_queue

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qdeck._redis.commands import Command, Program
    from qdeck.compat.ifdb import TaskQueue

_MOVED = ("delayed", "ready", "dead")


def rollback(tasks: TaskQueue, *, dry_run: bool = False) -> tuple[int, int, str]:
    """Move pending and failed tasks, and recurring ones, to the plan's keys; return how many of both, and the batch.

    The records are written before the tasks are discarded, each under the id of its task: after a crash the same call
    goes on. A worker must not run meanwhile.
    """
    queue, run = tasks.app.queue, tasks.app.client.run
    with Writer(str(tasks.app.endpoint.url)) as writer:
        live = [worker.id for worker in writer.workers() if worker.alive and queue in worker.queues]
        if live:
            raise UsageError(f"worker {live[0]} serves {queue}", hint="Stop the workers first.")
        if held := run(document.all_ids(queue, states=("running",))):
            raise UsageError(f"task {held[0]} is running", hint="Requeue it first: qdeck requeue.")
        schedules = [row for row in writer.schedules() if row.adapter is None and row.queue == queue]
        # Those that wait for others first, and the last of a chain before the others: else they die with them.
        ids = [
            *reversed(run(document.all_ids(queue, states=("blocked",)))),
            *run(document.all_ids(queue, states=_MOVED)),
        ]
        if dry_run or not (ids or schedules):
            return len(ids), len(schedules), ""
        now = run(reads.clock())
        for row in schedules:
            definition = writer.schedule(row.name)
            run(_write([document.record_of_schedule(definition, row.next_ms, now)]))
            writer.remove_schedule(row.name)
        for page in document.paged(ids):
            run(_write([record for record in run(document.records(queue, page)) if record is not None]))
        plan = writer.plan("discard", queue, ids=ids, reason="rollback to the keys of the migration plan")
        return len(ids), len(schedules), writer.apply(plan).batch


def _write(records: Sequence[dict[str, Any]]) -> Program[None]:
    """Write records that are not there yet, and place the pending ones in the queue."""
    calls: list[Command] = []
    for record in records:
        name = raw_of(record["id"])
        calls.append((b"HSETNX", document.DATA_KEY.encode(), name, json.dumps(record).encode()))
        if record["pending"]:
            calls.append((b"ZADD", document.QUEUE_KEY.encode(), b"NX", document.score_of(record), name))
    if calls:
        yield calls


def main(words: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    parser = argparse.ArgumentParser(prog="python -m qdeck.compat.ifdb_rollback", description=rollback.__doc__)
    parser.add_argument("--dry-run", action="store_true", help="print how many tasks would be moved")
    given = parser.parse_args(words)
    try:
        moved, schedules, batch = rollback(task_queue, dry_run=given.dry_run)
    except QdeckError as error:
        print(f"{error}. {error.hint or ''}".rstrip())  # noqa: T201 - a command
        return 2
    what = f"{counted(moved, 'task')} and {counted(schedules, 'recurring task')}"
    print(f"{'would move' if given.dry_run else 'moved'} {what} to {document.DATA_KEY}")  # noqa: T201 - a command
    if batch:
        print(f"qdeck undo {batch} brings the tasks back; remove them from {document.DATA_KEY} then")  # noqa: T201
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
