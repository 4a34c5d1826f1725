"""Dependents that start because of an operation: the plan names them, and undo does not run their parent after them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from core._operations.yard import OTHER, QUEUE, Yard
from qdeck._engine import programs

if TYPE_CHECKING:
    from collections.abc import Callable

    import redis

    from support.commands import Ran


@pytest.fixture
def yard(url: str, raw: redis.Redis) -> Yard:
    return Yard(url, raw)


def test_a_completion_names_the_dependents_that_start(qdeck: Callable[..., Ran], yard: Yard) -> None:
    other = Yard(yard.url, yard.raw, OTHER)
    one, two, third = yard.add("one"), yard.add("two"), yard.add("third")
    child = yard.add("child", after=[one])
    both = yard.add("both", after=[one, two])
    yard.add("waits for another", after=[one, third])
    far = f"{other.add('far', after=[f'{two}@{QUEUE}'])}@{OTHER}"
    ran = qdeck("jobs", "complete", QUEUE, "--id", one)
    assert (ran.code, f"1 dependent can start: {child}\n" in ran.out) == (1, True), ran.out
    plan = qdeck("jobs", "complete", QUEUE, "--id", one, "--id", two, "--dry-run", "--json").json
    assert plan["totals"]["starting"] == [child, both, far]
    assert f"3 dependents can start: {child}, {both}, {far}\n" in qdeck("jobs", "complete", QUEUE, "--state", "ready",
                                                                       "--where", f"-id:{third}").out  # fmt: skip


def test_a_dependent_that_is_completed_as_well_does_not_start(qdeck: Callable[..., Ran], yard: Yard) -> None:
    yard.add("child", after=[yard.add("parent")])
    assert "can start" not in qdeck("jobs", "complete", QUEUE, "--dry-run").out


def test_many_dependents_are_counted_and_a_few_named(qdeck: Callable[..., Ran], yard: Yard) -> None:
    parent = yard.add("parent")
    kids = [yard.add(number, after=[parent]) for number in range(300)]
    out = qdeck("jobs", "complete", QUEUE, "--id", parent, "--dry-run").out
    assert "300 dependents can start: " in out
    assert " and 297 more" in out
    assert sum(kid in out for kid in kids) == 3


@pytest.mark.parametrize("verb", ["cancel", "discard", "bury"])
def test_dependents_that_run_anyway_start_when_the_job_is_taken_away(
    qdeck: Callable[..., Ran], yard: Yard, verb: str
) -> None:
    parent = yard.add("parent")
    anyway = yard.add("anyway", after=[parent], run_anyway=True)
    yard.add("child", after=[parent])
    args = ("bury", QUEUE, "--state", "ready") if verb == "bury" else ("jobs", verb, QUEUE, "--id", parent)
    out = qdeck(*args, "--dry-run").out
    assert f"1 of them have dependents; only 1 dependent can start: {anyway}\n" in out


@pytest.mark.parametrize("verb", ["complete", "cancel", "bury"])
@pytest.mark.parametrize("began", ["running", "done", "retrying", "gone"])
def test_undo_leaves_a_job_whose_dependents_have_started(
    qdeck: Callable[..., Ran], yard: Yard, verb: str, began: str
) -> None:
    parent = yard.add("parent")
    child = yard.add("child", after=[parent], run_anyway=True, retries=3)
    args = (
        ("bury", QUEUE, "--id", parent, "--state", "ready") if verb == "bury" else ("jobs", verb, QUEUE, "--id", parent)
    )
    assert qdeck(*args, "--yes").code == 0
    start(yard, child, began)
    ran = qdeck("undo", "--yes")
    assert (ran.code, ran.out) == (1, ran.out)
    assert "0 jobs of" in ran.out
    assert f"skipped {parent}: its dependents have started" in ran.err
    assert yard.ids("ready") == [], "the parent does not run after its dependent"


def start(yard: Yard, child: str, began: str) -> None:
    [job] = yard.claim()
    assert job.id == child
    if began == "retrying":
        yard.end(job, "retry")
    elif began != "running":
        yard.end(job, "done")
        if began == "gone":
            yard.raw.zrem(yard.key("done"), child)
            yard.raw.hdel(yard.key("head"), child)


def test_undo_leaves_a_job_whose_dependent_in_another_queue_has_started(qdeck: Callable[..., Ran], yard: Yard) -> None:
    other = Yard(yard.url, yard.raw, OTHER)
    parents = [yard.add("left"), yard.add("restored")]
    kids = [other.add(parent, after=[f"{parent}@{QUEUE}"]) for parent in parents]
    assert qdeck("jobs", "complete", QUEUE, "--yes").code == 0
    while yard.client.run(programs.deliver(QUEUE)):
        pass
    [job] = other.claim()
    assert job.id == kids[0]
    ran = qdeck("undo", "--yes", "--json")
    assert (ran.code, ran.json["restored"], ran.json["dependents"]) == (1, 1, 1)
    assert [one["why"] for one in ran.json["skipped"] if one["id"] == parents[0]] == ["its dependents have started"]
    assert (yard.ids("ready"), other.ids("blocked"), other.ids("running")) == ([parents[1]], [kids[1]], [kids[0]])


def test_undo_restores_a_job_whose_dependents_still_wait(qdeck: Callable[..., Ran], yard: Yard) -> None:
    parent = yard.add("parent")
    child = yard.add("child", after=[parent])
    assert qdeck("jobs", "complete", QUEUE, "--id", parent, "--yes").code == 0
    assert yard.ids("ready") == [child]
    ran = qdeck("undo", "--yes")
    assert (ran.code, yard.ids("ready"), yard.ids("blocked")) == (0, [parent], [child])
