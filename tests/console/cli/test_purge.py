"""`qdeck purge` as scripts see it: a plan, exactly that plan, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from qdeck.admin import Writer
from support.commands import write_trusted
from support.yard import HOUR, QUEUE, Yard

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import redis

    from support.commands import Ran

PLAN = {"plan", "created_at", "expires_at", "counts", "bytes", "entries"}
ENTRY = {"adapter", "queue", "id", "rule", "reason", "age_s", "verb"}


@pytest.fixture
def yard(url: str, raw: redis.Redis) -> Iterator[Yard]:
    with Writer(url) as writer:
        writer.enqueue(QUEUE, "t")
        made = Yard(writer, raw)
        made.keep_all()
        yield made


def test_a_dry_run_is_the_default_and_writes_nothing(qdeck: Callable[..., Ran], yard: Yard) -> None:
    """'Dry-run mode available for testing'; 'POST /api/v1/queue/purge?dry_run=true: purge simulation results'"""
    done, dead = yard.ended("done", 2 * HOUR), yard.ended("dead", 200 * HOUR)
    before = yard.digest()
    ran = qdeck("purge", "--json")
    assert ran.code == 0
    assert set(ran.json) >= PLAN
    assert ran.json["counts"] == {"done_too_old": 1, "dead_too_old": 1}
    assert [entry["id"] for entry in ran.json["entries"]] == [done, dead]
    assert all(set(entry) >= ENTRY for entry in ran.json["entries"])
    assert ran.json["bytes"] == sum(entry["bytes"] for entry in ran.json["entries"])
    shown = qdeck("purge")
    assert "would purge 2 entries" in shown.out
    assert "nothing was changed" in shown.out
    assert yard.digest() == before


def test_apply_does_exactly_the_plan(qdeck: Callable[..., Ran], yard: Yard, tmp_path: Path) -> None:
    """'Run purge in live mode → verify stale entries removed'"""
    done = yard.ended("done", 2 * HOUR)
    plan = qdeck("purge", "--json").json["plan"]
    later = yard.ended("done", 3 * HOUR)
    ran = qdeck("purge", "--apply", plan, "--json")
    assert (ran.code, ran.json["applied"], ran.json["skipped"]) == (0, 1, [])
    assert set(ran.json) >= {"batch", "applied", "skipped", "undo_until"}
    assert (yard.state(done), yard.state(later)) == (None, "done")
    again = qdeck("purge", "--apply", plan, "--json")
    assert again.json["batch"] == ran.json["batch"], "twice is once"
    assert yard.state(later) == "done"


def test_a_plan_in_a_file_and_what_changed_since(qdeck: Callable[..., Ran], yard: Yard, tmp_path: Path) -> None:
    job = yard.ended("dead", 200 * HOUR)
    file = tmp_path / "plan.jsonl"
    assert qdeck("purge", "--plan", str(file)).code == 0
    yard.raw.zadd(yard.key("dead"), {job: yard.now_ms})
    ran = qdeck("purge", "--apply", str(file), "--json")
    assert (ran.code, ran.json["applied"]) == (1, 0)
    assert [(skip["id"], skip["why"]) for skip in ran.json["skipped"]] == [(job, "has changed since")]


def test_now_plans_and_applies(qdeck: Callable[..., Ran], yard: Yard) -> None:
    jobs = [yard.ended("done", 2 * HOUR), yard.ready(25 * HOUR)]
    assert qdeck("purge", "--now").code == 64
    assert qdeck("purge", "--yes").code == 64
    ran = qdeck("purge", "--now", "--yes", "--json")
    assert (ran.code, ran.json["applied"]) == (0, 2)
    assert [yard.state(job) for job in jobs] == [None, "cancelled"]


def test_rules_and_thresholds_of_one_run(qdeck: Callable[..., Ran], yard: Yard, tmp_path: Path) -> None:
    young = yard.ended("done", 100)
    yard.ended("dead", 200 * HOUR)
    ran = qdeck("purge", "--rule", "done_too_old", "--set", "max_completed_age=1m", "--json")
    assert [entry["id"] for entry in ran.json["entries"]] == [young]
    write_trusted(tmp_path / "qdeck.toml", "[purge]\nmax_completed_age = 60\nrules = ['done_too_old']")
    assert [entry["id"] for entry in qdeck("purge", "--json").json["entries"]] == [young]
    write_trusted(tmp_path / "qdeck.toml", "[dead_letters]\ndlq_enabled = true\n[purge]\nmax_ready_age = 10")
    old = yard.ready(20)
    [entry] = qdeck("purge", "--rule", "ready_too_old", "--json").json["entries"]
    assert (entry["id"], entry["verb"]) == (old, "bury")


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--rule", "done_to_old"], "Did you mean 'done_too_old'?"),
        (["--set", "max_redy_age=1"], "Did you mean 'max_ready_age'?"),
        (["--apply", "no-such-plan"], "there is no plan 'no-such-plan'"),
        (["--apply", "x", "--rule", "done_too_old"], "--apply applies a plan as it is"),
        (["nowhere:mail:actions"], "there is no queue"),
    ],
)
def test_wrong_wishes_are_64(qdeck: Callable[..., Ran], yard: Yard, args: list[str], said: str) -> None:
    ran = qdeck("purge", *args)
    assert ran.code == 64
    assert said in ran.err


def test_production_shows_the_plan_and_applies_it_with_its_name(
    qdeck: Callable[..., Ran], yard: Yard, tmp_path: Path, url: str
) -> None:
    write_trusted(tmp_path / "qdeck.toml", f"[contexts.shop]\nurl = '{url}'\nenvironment = 'production'")
    job = yard.ended("done", 2 * HOUR)
    plan = qdeck("purge", "--context", "shop", "--json").json["plan"]
    assert qdeck("purge", "--context", "shop", "--apply", plan).code == 77
    assert qdeck("purge", "--context", "shop", "--now", "--yes").code == 77
    assert yard.state(job) == "done"
    assert qdeck("purge", "--context", "shop", "--apply", plan, "--confirm", "shop").code == 0
    assert yard.state(job) is None


def test_who_may_only_read_gets_the_plan(qdeck: Callable[..., Ran], yard: Yard, url: str) -> None:
    """A user with +@read only runs the purge's dry run; nothing is written."""
    yard.ended("done", 2 * HOUR)
    yard.raw.execute_command("ACL", "SETUSER", "looker", "on", ">pw", "+@read", "~*")
    before = yard.digest()
    there = url.replace("redis://", "redis://looker:pw@")
    ran = qdeck("purge", "--json", "--url", there)
    assert (ran.code, ran.json["counts"]) == (0, {"done_too_old": 1})
    assert qdeck("purge", "--apply", ran.json["plan"], "--url", there).code == 77
    assert yard.digest() == before


def test_what_no_queue_has_is_left_out_with_its_own_name(qdeck: Callable[..., Ran], raw: redis.Redis) -> None:
    raw.zadd("scheduler:queue:priority", {"job": 1})
    raw.zadd("scheduler:processing", {"job": 1})
    ran = qdeck("purge")
    assert "qdeck: ignored 'scheduler:processing': scheduler expects a hash, found a zset\n" in ran.err
