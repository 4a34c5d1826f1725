"""kill -9 of a process that applies or undoes: nothing is lost, nothing is twice, and going on ends with the plan."""

from __future__ import annotations

import itertools
import os
import random
import time
from typing import TYPE_CHECKING

import pytest

from core._operations.test_undo import assert_same
from core._operations.yard import QUEUE, Yard
from qdeck._engine import programs, transitions
from qdeck._engine.job_ids import new_id
from qdeck.admin import Limits

if TYPE_CHECKING:
    from collections.abc import Callable

    from qdeck.admin import Plan, Writer
    from support.processes import PythonProcess

ROUNDS = int(os.environ.get("QDECK_KILL_ROUNDS", "20"))


def kill_at_random(make_process: Callable[..., PythonProcess], url: str, what: str, name: str, most_s: float) -> bool:
    """Whether it was killed before its end."""
    process = make_process("-m", "core._operations.applier", url, what, name)
    process.wait_for("begun")
    time.sleep(random.random() * most_s)
    killed = process.code is None
    process.kill9()
    process.reap()
    return killed


STATES = ("ready", "delayed", "blocked", "running", "dead", "done", "cancelled")


def check_whole(yard: Yard, ids: set[str], *, kept: bool) -> None:
    """Each job is in exactly one state, and one that is there has its record."""
    found = [job_id for state in STATES for job_id in yard.ids(state)]
    assert len(found) == len(set(found)), "nothing is twice"
    assert set(found) == ids if kept else set(found) <= ids, "nothing is lost"
    for part in ("head", "body"):
        assert {raw.decode() for raw in yard.raw.hkeys(yard.key(part))} - {""} == set(found)


def families(yard: Yard, count: int) -> list[str]:
    """Parents, each with a job that waits for it and one that waits for that."""
    yard.client.run(programs.make_queue(yard.queue))
    ids = [new_id() for _ in range(3 * count)]
    for start in range(0, 3 * count, 480):
        jobs = [
            transitions.NewJob(
                id=ids[n], priority=100, template="100 0 send", body=b"[[],{}]", after=(ids[n - 1],) if n % 3 else ()
            )
            for n in range(start, min(start + 480, 3 * count))
        ]
        yard.client.run(programs.enqueue(yard.queue, jobs))
    return ids


def make_plan(writer: Writer, verb: str) -> Plan:
    if verb == "purge":
        return writer.plan_purge(["dead_too_old"], Limits(dlq_ttl=0.1, dlq_max_entries=10**9))
    if verb == "cancel":
        return writer.plan(verb, QUEUE, state="ready")
    return writer.plan(verb, QUEUE)


def one_round(
    writer: Writer, yard: Yard, make_process: Callable[..., PythonProcess], verb: str, count: int, most_s: float
) -> tuple[bool, bool]:
    """A plan is applied, killed, gone on with and taken back, which is killed too; whether each met it on the way."""
    ids = families(yard, count // 3) if verb == "cancel" else yard.bulk_dead(count)
    before, planned = yard.dump(), len(ids) // 3 if verb == "cancel" else len(ids)
    plan = make_plan(writer, verb)
    assert plan.count == planned
    kept = verb in ("retry", "cancel")
    killed = kill_at_random(make_process, yard.url, "apply", plan.id, most_s)
    check_whole(yard, set(ids), kept=kept)
    if random.random() < 0.5:  # another one goes on, and is killed too
        kill_at_random(make_process, yard.url, "apply", plan.id, most_s)
        check_whole(yard, set(ids), kept=kept)
    result = writer.apply(plan)
    assert (result.applied, result.skipped, result.error) == (planned, (), None)
    expected = {"retry": {"ready": count}, "cancel": {"cancelled": planned, "dead": 2 * planned}}.get(verb, {})
    assert {state: len(yard.ids(state)) for state in STATES if yard.ids(state)} == expected
    undo_killed = kill_at_random(make_process, yard.url, "undo", plan.batch, most_s)
    check_whole(yard, set(ids), kept=kept)
    back = writer.undo(plan.batch)
    assert (back.skipped, back.error) == ((), None)
    if back.earlier is None:
        assert (back.restored, back.dependents) == (planned, 2 * planned if verb == "cancel" else 0)
    else:
        assert back.earlier.restored == planned, "it was undone to its end"
    assert_same(yard.dump(), before)
    yard.raw.flushall()
    return killed, undo_killed


@pytest.mark.parametrize("verb", ["retry", "discard", "purge", "cancel"])
def test_killed_once(writer: Writer, yard: Yard, make_process: Callable[..., PythonProcess], verb: str) -> None:
    one_round(writer, yard, make_process, verb, 3000, 0.02)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_killed_at_random(writer: Writer, yard: Yard, make_process: Callable[..., PythonProcess]) -> None:
    """`QDECK_KILL_ROUNDS=200` for more of them; what is killed when is drawn anew each time."""
    verbs = itertools.islice(itertools.cycle(("retry", "discard", "purge", "cancel")), ROUNDS)
    kills = [one_round(writer, yard, make_process, verb, 9_999, 0.12) for verb in verbs]
    applied, undone = sum(first for first, _ in kills), sum(second for _, second in kills)
    print(f"{ROUNDS} rounds: {applied} killed amid applying, {undone} amid undoing")  # noqa: T201 - for who runs it
    assert min(applied, undone) > ROUNDS / 4, "most were killed in the middle"
