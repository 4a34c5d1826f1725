"""Several adapters of one system on one server: what each shows and does is under its own name."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from core.adapters.test_conformance import FILL
from qdeck import InvalidOption, UsageError
from qdeck._list_names import ListNames
from qdeck.adapters import make
from qdeck.adapters.lists.adapter import Lists
from qdeck.admin import Outcomes, Writer, is_adapter
from qdeck.testing.adapters import contents

if TYPE_CHECKING:
    import redis


@pytest.mark.parametrize("system", FILL)
def test_each_has_its_queues_jobs_and_batches(url: str, raw: redis.Redis, system: str) -> None:
    own = FILL[system]()
    own.populate(raw)
    before = own.contents(raw)
    both = (system, f"{system}@copy")
    with Writer(url, adapters=both) as writer:
        rows = {name: [row for row in writer.snapshot().queues if row.adapter == name] for name in both}
        assert [row.name for row in rows[both[0]]] == [row.name for row in rows[both[1]]] != []
        for name in both:
            queue = next(row for row in rows[name] if row.dead or row.delayed or row.ready)
            jobs = list(writer.jobs(queue.ref))
            assert {job.adapter for job in jobs} == {name}
            assert {job.key.partition("/")[0] for job in jobs} == {name}
            assert writer.job(queue.ref, jobs[0].key).adapter == name
        queue = next(row for row in rows[both[1]] if row.dead or row.delayed)
        plan = writer.plan("discard", queue.ref)
        assert {entry.adapter for entry in plan.entries()} == {both[1]}
        result = writer.apply(plan)
        assert result.applied > 0
        assert raw.exists(f"qdeck:undo:{both[1]}:{result.batch}")
        assert writer.undo().restored == result.applied
    assert own.contents(raw) == before


def test_a_plan_is_applied_by_the_instance_that_planned_it(url: str, raw: redis.Redis) -> None:
    raw.rpush("shop:mail:actions:failed", json.dumps({"action_id": "a1"}))
    with Writer(url, adapters=("lists", "lists@copy")) as writer:
        copy = writer.adapters.named("lists@copy")
        assert isinstance(copy, Lists)
        copy.names = ListNames(suffix=":failed")  # its dead letters are under another name than those of `lists`
        plan = writer.plan("retry", "lists@copy/shop:mail:actions")
        assert writer.redrive(plan, sample=1, patience_s=0.0)[1] == Outcomes(total=1, waiting=1)
        assert raw.llen("shop:mail:actions") == 1
        assert writer.outcomes(plan) == Outcomes(total=1, waiting=1)
        assert writer.undo().restored == 1
    assert contents(raw).keys() >= {b"shop:mail:actions:failed"}


def test_a_queue_that_both_have_is_named_with_its_adapter(url: str, raw: redis.Redis) -> None:
    FILL["ifdb"]().populate(raw)
    with Writer(url, adapters=("ifdb", "ifdb@copy")) as writer:
        with pytest.raises(UsageError, match="'ifdb' is a queue of"):
            writer.plan("discard", "ifdb")
        assert {entry.adapter for entry in writer.plan("discard", "ifdb@copy/ifdb").entries()} == {"ifdb@copy"}


@pytest.mark.parametrize("name", ["ifdb@", "@eu", "ifdb@a/b", "native@eu", "nothing@eu", "ifdb@a b"])
def test_what_is_no_name_of_an_adapter(name: str) -> None:
    assert not is_adapter(name)


def test_a_system_that_there_is_not_is_named() -> None:
    with pytest.raises(InvalidOption, match="no adapter 'nothing@eu'"):
        make("nothing@eu")
    assert make("ifdb").name == "ifdb"
    assert make("ifdb@eu").name == "ifdb@eu"
    native = make("native")
    assert (native.name, native.acl_keys) == ("native", ("{*}:*",))
    with pytest.raises(InvalidOption, match="no adapter 'native@eu'"):
        make("native@eu")
