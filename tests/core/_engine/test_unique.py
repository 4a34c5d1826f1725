"""Unique names: one live job a name, and no lock that outlives its job (reliability 44)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from core._engine.test_dependencies import ENDS, end
from qdeck._engine import keys

if TYPE_CHECKING:
    from core._engine.harness import Rig


def test_one_live_job_a_name(rig: Rig) -> None:
    first = rig.enqueue(rig.job("a", unique="name"))[0]
    second = rig.enqueue(rig.job("b", unique="name"))[0]
    assert (first.id, first.created, second.id, second.created) == ("a", True, "a", False)
    assert rig.total("enqueued") == 1
    rig.claim_one()
    assert rig.add("c", unique="name") == "a", "also while it runs"


def test_two_of_a_name_in_one_call(rig: Rig) -> None:
    made = rig.enqueue(rig.job("a", unique="name"), rig.job("b", unique="name"), rig.job("c", unique="other"))
    assert [one.id for one in made] == ["a", "a", "c"]


def test_the_same_call_again(rig: Rig) -> None:
    job = rig.job("a", unique="name")
    assert [rig.enqueue(job)[0].created for _ in range(2)] == [True, False]


def test_names_are_of_one_queue(rig: Rig) -> None:
    rig.add("a", unique="name")
    assert rig.add("b", queue="shop:bills:actions", unique="name") == "b"


def test_a_name_need_not_be_unique(rig: Rig) -> None:
    rig.enqueue(rig.job("a", name="name"))
    rig.enqueue(rig.job("b", unique="name"))
    rig.work("a")
    assert rig.picture().hashes["unique"] == {"name": b"b"}


@pytest.mark.parametrize("how", [*ENDS, "dependency", "done with result"])
def test_every_end_releases_the_name(rig: Rig, how: str) -> None:
    rig.add("parent", priority=0)
    after = ["parent"] if how == "dependency" else []
    rig.add("a", unique="name", after=after, expires_ms=rig.now + 5_000 if how == "expired" else None)
    job = rig.claim_one()
    if how == "dependency":
        rig.bury(job)
    else:
        rig.ack(job)
        if how == "done with result":
            rig.end(rig.claim_one(), "done", result=b"1")
        else:
            end(rig, "a", how)
    assert rig.picture().hashes["unique"] == {}
    assert rig.add("next", unique="name") == "next"


def test_a_retry_keeps_the_name(rig: Rig) -> None:
    rig.add("a", unique="name", retries=1)
    rig.end(rig.claim_one(), delay_ms=50)
    assert rig.add("b", unique="name") == "a"


@pytest.mark.parametrize("left", ["nobody", "dead", "cancelled", "done"])
def test_a_name_whose_holder_is_gone_can_be_taken(rig: Rig, left: str) -> None:
    """Should a release ever be missed, the name is not lost."""
    rig.add("dead")
    rig.bury(rig.claim_one())
    rig.add("done")
    rig.work("done")
    rig.add("cancelled")
    rig.change("cancel", "cancelled")
    rig.raw.hset(keys.key(rig.queue, "unique"), "name", left)
    assert rig.add("next", unique="name") == "next"
    assert rig.picture().hashes["unique"] == {"name": b"next"}


def test_the_old_holder_does_not_release_the_name_of_the_new_one(rig: Rig) -> None:
    rig.add("old", unique="name")
    rig.raw.hset(keys.key(rig.queue, "unique"), "name", "new")
    rig.enqueue(rig.job("new", name="name", priority=899))
    rig.work("old")
    assert rig.picture().hashes["unique"] == {"name": b"new"}
    rig.raw.hdel(keys.key(rig.queue, "unique"), "name")
