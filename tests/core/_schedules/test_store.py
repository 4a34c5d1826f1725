"""Registering, changing, pausing, running and removing schedules."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

import qdeck
from core._schedules.registering import schedule
from qdeck._engine import transitions
from qdeck._schedules import store
from qdeck.admin import Definition
from support.versions import NEEDS_CRONITER_6_2

if TYPE_CHECKING:
    import redis

QUEUE = "test:actions"


def row(app: qdeck.App, name: str = "feeds") -> Any:
    return next(row for row in app.client.run(store.read()) if row.name == name)


def test_a_name_registered_twice_keeps_one(app: qdeck.App, raw: redis.Redis) -> None:
    assert schedule(app, "feeds", "feed", cron="*/30 * * * *", tz="Europe/Madrid") == "made"
    assert schedule(app, "feeds", "feed", cron="*/30 * * * *", tz="Europe/Madrid") == "same"
    assert raw.hlen(store.SCHEDULES) == 1
    assert raw.hget(store.STATE, "") == b"1"


async def test_in_asyncio_it_is_the_same(app: qdeck.App) -> None:
    assert await app.aschedule("feeds", "feed", cron="*/30 * * * *") == "made"
    assert await app.aschedule("feeds", "feed", cron="*/30 * * * *") == "same"
    await app.aclose()


def test_a_changed_definition_replaces_and_keeps_the_last_turn(app: qdeck.App) -> None:
    schedule(app, "feeds", "feed", cron="* * * * *")
    run = app.client.run(store.clock()) // 60_000 * 60
    app.client.run(store.record_runs("feeds", run, 3, ["cron:feeds:x"]))
    assert schedule(app, "feeds", "feed", 1, cron="*/2 * * * *") == "changed"
    seen = row(app)
    assert (seen.cron, seen.last_run_ms, seen.missed_runs, seen.jobs_made) == ("*/2 * * * *", run * 1000, 3, 1)


def test_a_pause_stays_when_the_program_registers_again(app: qdeck.App) -> None:
    schedule(app, "feeds", "feed", cron="* * * * *")
    assert app.client.run(store.enable("feeds", False))
    assert not app.client.run(store.enable("feeds", False))
    schedule(app, "feeds", "feed", cron="* * * * *")
    schedule(app, "feeds", "feed", cron="*/2 * * * *")
    assert not row(app).enabled
    assert row(app).next_ms is None
    assert app.client.run(store.enable("feeds", True))
    assert row(app).enabled


def test_turns_of_a_pause_are_not_made_up_for(app: qdeck.App, raw: redis.Redis) -> None:
    schedule(app, "feeds", "feed", cron="* * * * *", missed="all")
    app.client.run(store.enable("feeds", False))
    app.client.run(store.enable("feeds", True))
    past = app.client.run(store.read_all()).states["feeds"]
    assert abs(past.handled_until(int(time.time())) - time.time()) < 5


def test_run_now_makes_a_job_and_leaves_the_turns(app: qdeck.App, raw: redis.Redis) -> None:
    schedule(app, "feeds", "feed", 1, cron="0 0 1 1 *")
    before = row(app)
    job_id = app.client.run(store.run_now("feeds"))
    assert job_id.startswith("cron:feeds:")
    assert raw.zrange(f"{{{QUEUE}}}:ready", 0, -1) == [job_id.encode()]
    seen = row(app)
    assert (seen.next_ms, seen.last_id, seen.last_outcome) == (before.next_ms, job_id, "ready")
    assert seen.last_run_ms is None


def test_edit_changes_what_is_given(app: qdeck.App) -> None:
    schedule(app, "feeds", "feed", 1, cron="0 0 1 1 *", tz="Europe/Madrid", missed="all")
    app.client.run(store.edit("feeds", cron="0 1 * * *"))
    seen = row(app)
    assert (seen.cron, seen.tz, seen.policy, seen.payload) == ("0 1 * * *", "Europe/Madrid", "all", b"[[1],{}]")


@NEEDS_CRONITER_6_2
def test_a_rule_that_is_over_is_no_edit_but_may_stand_in_a_program(app: qdeck.App) -> None:
    schedule(app, "feeds", "feed", cron="0 0 1 1 * 0 2020")
    assert [row.next_ms for row in app.client.run(store.read())] == [None]
    with pytest.raises(qdeck.InvalidOption, match="has no more runs"):
        app.client.run(store.edit("feeds", cron="0 0 1 1 * 0 2021"))
    assert app.client.run(store.edit("feeds", cron="@daily"))[1].cron == "@daily"


def test_two_edits_of_one_look_are_not_both_done(app: qdeck.App) -> None:
    schedule(app, "feeds", "feed", cron="0 0 1 1 *")
    seen = app.schedules["feeds"].encode()
    app.client.run(store.edit("feeds", cron="0 1 * * *"))
    job = transitions.NewJob("x", 1, "1 1 feed", b"[[],{}]")
    definition = Definition.of("feeds", QUEUE, job, cron="0 2 * * *")
    assert app.client.run(store.register(definition, seen)) == "other"
    assert app.client.run(store.get("feeds")).cron == "0 1 * * *"


def test_a_moved_or_removed_schedule_leaves_no_late_turn_behind(app: qdeck.App, raw: redis.Redis) -> None:
    """A ticker that looked before the change comes with its run after it."""
    schedule(app, "feeds", "feed", cron="* * * * * *")
    old = app.schedules["feeds"]
    schedule(app, "feeds", "feed", cron="* * * * * *", _queue="other:actions")
    look = app.client.run(store.clock())
    late = app.client.run(store.tick(old, look, [look // 1000 + 5], look // 1000 + 5))
    assert late.made == []
    # It moves back: then its runs are made there again, at once.
    schedule(app, "feeds", "feed", cron="* * * * * *")
    run = look // 1000 + 5
    assert app.client.run(store.tick(old, look, [run], run)).made
    app.client.run(store.remove("feeds"))
    assert app.client.run(store.tick(old, look, [run + 5], run + 5)).made == []
    assert app.client.run(store.read()) == []


def test_what_is_not_there_is_told(app: qdeck.App) -> None:
    for program in (store.remove("x"), store.enable("x", True), store.run_now("x"), store.edit("x", cron="* * * * *")):
        with pytest.raises(qdeck.UnknownJob, match="no schedule 'x'"):
            app.client.run(program)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("", {}),
        ("a b", {}),
        ("x" * 97, {}),
        ("ok", {"missed": "never"}),
        ("ok", {"_after": ["0123"]}),
        ("ok", {"_delay": 3}),
        ("ok", {"_id": "mine"}),
        ("ok", {"tz": "Europe/Nowhere"}),
        ("ok", {"cron": "* *"}),
        ("ok", {"cron": ["* * * * *"]}),
        ("ok", {"tz": ["UTC"]}),
        (["ok"], {}),
        ("ok", {"big": "x" * 70_000}),
    ],
)
def test_what_cannot_be_is_refused(app: qdeck.App, raw: redis.Redis, name: Any, options: dict[str, Any]) -> None:
    with pytest.raises(qdeck.UsageError) as refused:
        schedule(app, name, "feed", **{"cron": "* * * * *", **options})
    assert refused.value.hint
    assert raw.keys("*schedules*") == []


def test_there_is_a_limit(app: qdeck.App, raw: redis.Redis) -> None:
    raw.hset(store.SCHEDULES, mapping={f"s{i}": b"{}" for i in range(1000)})
    with pytest.raises(qdeck.UsageError, match="1000 schedules"):
        schedule(app, "feeds", "feed", cron="* * * * *")


def test_nobody_serves_it(app: qdeck.App, raw: redis.Redis) -> None:
    schedule(app, "feeds", "feed", cron="* * * * *")
    raw.hset(store.STATE, "feeds", b"1 %d 0 0 0 0 - -" % (time.time() * 1000 - 300_000))
    assert 200 < row(app).late_s < 310
