"""Families of jobs over two queues, drawn anew: whatever is done to some of them, undo puts all of them back."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from core._operations.test_undo import assert_same
from core._operations.yard import OTHER, QUEUE, Yard
from qdeck._engine import programs

if TYPE_CHECKING:
    from qdeck.admin import Writer

STATES = ("ready", "delayed", "blocked", "dead", "cancelled")


def deliver(yards: list[Yard]) -> None:
    """Until nothing is under way between them."""
    while sum(yard.client.run(programs.deliver(yard.queue)) for yard in yards):
        pass


def draw(rng: random.Random, yards: list[Yard]) -> dict[str, Yard]:
    """Jobs that wait for some of those before them, here or there."""
    homes: dict[str, Yard] = {}
    for n in range(rng.randint(4, 14)):
        home = rng.choice(yards)
        parents = rng.sample(sorted(homes), min(len(homes), rng.choice((0, 1, 1, 2, 3))))
        refs = [job if homes[job] is home else f"{job}@{homes[job].queue}" for job in parents]
        job_id = home.add(
            n, after=refs, priority=rng.choice((0, 100, 200)), run_anyway=rng.random() < 0.3,
            unique=f"name {n}" if rng.random() < 0.3 else "", delay_ms=rng.choice((None, None, 10**6, 10**7)),
        )  # fmt: skip
        homes[job_id] = home
    deliver(yards)
    return homes


def one_case(writer: Writer, yards: list[Yard], seed: int) -> int:
    rng = random.Random(seed)
    homes = draw(rng, yards)
    here = sorted(job for job, home in homes.items() if home is yards[0])
    if not here:
        return 0
    before = [yard.dump() for yard in yards]
    verb = rng.choice(("discard", "cancel", "bury"))
    some = rng.sample(here, rng.randint(1, len(here)))
    result = writer.apply(writer.plan(verb, QUEUE, ids=some))
    for _ in range(rng.randint(0, 4)):
        yards[rng.randint(0, 1)].client.run(programs.deliver(rng.choice(yards).queue))
    back = writer.undo(result.batch)
    deliver(yards)
    told = f"seed {seed}: {verb} {some}: {back}"
    assert (back.restored, back.skipped, back.error) == (result.applied, (), None), told
    for yard, old in zip(yards, before, strict=True):
        now = yard.dump()
        for state in STATES:
            assert now.get(state) == old.get(state), f"{told}: {yard.queue} {state}"
        assert_same(now, old)
    return back.dependents


def run(writer: Writer, yard: Yard, seeds: range) -> None:
    yards = [yard, Yard(yard.url, yard.raw, OTHER)]
    reached = 0
    for seed in seeds:
        reached += one_case(writer, yards, seed)
        yard.raw.flushall()
    assert reached > len(seeds) / 2, "many dependents were met"


def test_all_is_as_it_was(writer: Writer, yard: Yard) -> None:
    run(writer, yard, range(25))


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_all_is_as_it_was_in_many_families(writer: Writer, yard: Yard) -> None:
    run(writer, yard, range(1000, 1600))
