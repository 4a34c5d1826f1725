"""kill -9 of a process that applies or undoes: nothing is lost, nothing is twice, and going on ends with the plan."""

from __future__ import annotations

import os
import random
import time
from typing import TYPE_CHECKING, Any

import pytest

from operations.yard import QUEUE, Yard
from qdeck._operations import api

if TYPE_CHECKING:
    from collections.abc import Callable

    from qdeck._deck.deck import Deck
    from support.processes import PythonProcess

ROUNDS = int(os.environ.get("QDECK_KILL_ROUNDS", "20"))


def kill_at_random(make_process: Callable[..., PythonProcess], url: str, what: str, name: str, most_s: float) -> bool:
    """Whether it was killed before its end."""
    process = make_process("-m", "operations.applier", url, what, name)
    process.wait_for("begun")
    time.sleep(random.random() * most_s)
    killed = process.code is None
    process.kill9()
    process.reap()
    return killed


def check_whole(yard: Yard, ids: set[str], after: dict[str, str]) -> None:
    """Each job is in exactly one state, before or after the act, and a job that is kept has its record."""
    found: list[str] = []
    for state in ("dead", after["state"]) if after["state"] else ("dead",):
        found += yard.ids(state)
    assert len(found) == len(set(found)), "nothing is twice"
    if after["state"]:
        assert set(found) == ids, "nothing is lost"
    heads = {raw.decode() for raw in yard.raw.hkeys(yard.key("head"))} - {""}
    assert heads == set(found)
    assert {raw.decode() for raw in yard.raw.hkeys(yard.key("body"))} - {""} == set(found)


def one_round(
    deck: Deck, yard: Yard, make_process: Callable[..., PythonProcess], verb: str, count: int, most_s: float
) -> tuple[bool, bool]:
    ids = set(yard.bulk_dead(count))
    before = yard.dump()
    plan = api.build_plan(deck, verb, QUEUE)
    after: dict[str, Any] = {"state": "ready" if verb == "retry" else ""}
    killed = kill_at_random(make_process, yard.url, "apply", plan.id, most_s)
    check_whole(yard, ids, after)
    if random.random() < 0.5:  # another one goes on, and is killed too
        kill_at_random(make_process, yard.url, "apply", plan.id, most_s)
        check_whole(yard, ids, after)
    result = api.apply_plan(deck, plan)
    assert (result.applied, result.skipped, result.error) == (count, (), None)
    assert set(yard.ids("dead")) == set()
    assert len(yard.ids("ready")) == (count if verb == "retry" else 0)
    undo_killed = kill_at_random(make_process, yard.url, "undo", plan.batch, most_s)
    check_whole(yard, ids, after)
    back = api.undo_batch(deck, plan.batch)
    assert (back.restored, back.skipped, back.error) == (count, (), None)
    assert yard.dump() == before
    yard.raw.flushall()
    return killed, undo_killed


@pytest.mark.parametrize("verb", ["retry", "discard"])
def test_killed_once(deck: Deck, yard: Yard, make_process: Callable[..., PythonProcess], verb: str) -> None:
    one_round(deck, yard, make_process, verb, 3000, 0.02)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("verb", ["retry", "discard"])
def test_killed_at_random(deck: Deck, yard: Yard, make_process: Callable[..., PythonProcess], verb: str) -> None:
    kills = [one_round(deck, yard, make_process, verb, 10_000, 0.1) for _ in range(ROUNDS)]
    assert sum(first for first, _ in kills) > ROUNDS / 4, "most were killed in the middle"
