"""The purge: its rules and their boundaries, a dry run that writes nothing, and a run that is exactly the dry run."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from qdeck import InvalidOption, NotAllowed
from qdeck._engine.codec import BAND
from qdeck._settings import read_text
from qdeck.adapters.native import purge as purge_rules
from qdeck.adapters.plans import Search
from qdeck.admin import PURGE_RULES, Limits, PurgeRule, Settings, State, Writer, duration, parse, purge_verb, read_rules
from support.yard import HOUR, QUEUE, Yard

if TYPE_CHECKING:
    from collections.abc import Callable

    from qdeck.admin import PlanEntry
    from support.servers import Server

WITH_DLQ = Limits(dlq_enabled=True)


def taken(plan_entries: list[PlanEntry]) -> dict[str, str]:
    return {entry.id: entry.rule or "" for entry in plan_entries}


def dry(yard: Yard, *rules: PurgeRule, limits: Limits | None = None) -> list[PlanEntry]:
    return list(yard.writer.plan_purge(rules or tuple(PurgeRule), limits).entries())


def purge(yard: Yard, *rules: PurgeRule, limits: Limits | None = None) -> Counter[str]:
    plan = yard.writer.plan_purge(rules or tuple(PurgeRule), limits)
    result = yard.writer.apply(plan)
    assert (result.applied, result.skipped, result.error) == (plan.count, (), None)
    return Counter(plan.tail.rules)


def test_stale_pending_is_detected_and_moved_to_the_dead_letters(yard: Yard) -> None:
    """'Stale pending VMs are detected and moved to DLQ': here a running job that nobody takes back."""
    old, young = yard.running(2 * HOUR + 60), yard.running(2 * HOUR - 60, worker="w2")
    [entry] = dry(yard, limits=WITH_DLQ)
    assert (entry.id, entry.rule, entry.verb, entry.state) == (old, "lease_expired", "bury", "running")
    assert "w1 is gone" in entry.reason
    assert purge(yard, limits=WITH_DLQ) == {"lease_expired": 1}
    assert (yard.state(old), yard.state(young)) == ("dead", "running")
    failure = yard.writer.job(QUEUE, old).failure
    assert failure is not None
    assert failure.class_name == "Purge"
    assert "max_pending_age 2h" in failure.message
    assert "2h 01m" in failure.message, "its age"


def test_without_dead_letters_an_owners_job_runs_again(yard: Yard) -> None:
    """dlq_enabled is false by default: what still had to run is then never just dropped."""
    old = yard.running(3 * HOUR)
    assert purge(yard) == {"lease_expired": 1}
    assert yard.state(old) == "ready"


def test_stale_ready_is_detected_and_moved_to_the_ended(yard: Yard) -> None:
    """'Stale ready VMs are detected and moved to completed queue': here to the cancelled, where the record stays."""
    old, young = yard.ready(24 * HOUR + 5), yard.ready(24 * HOUR - 5)
    assert purge(yard) == {"ready_too_old": 1}
    assert (yard.state(old), yard.state(young)) == ("cancelled", "ready")
    assert "max_ready_age 1d" in str(yard.writer.job(QUEUE, old).history)


def test_a_stale_job_that_was_edited(yard: Yard) -> None:
    old = yard.ready(24 * HOUR + 5)
    yard.writer.edit(yard.writer.draft(QUEUE, old), "[[2], {}]")
    assert purge(yard) == {"ready_too_old": 1}
    assert yard.state(old) == "cancelled"


def test_stale_ready_goes_to_the_dead_letters_where_they_are_on(yard: Yard) -> None:
    """'3. Move stale entries to DLQ with reason'"""
    old = yard.ready(25 * HOUR)
    assert purge(yard, limits=WITH_DLQ) == {"ready_too_old": 1}
    record = yard.writer.job(QUEUE, old)
    assert (record.state, record.error) == ("dead", "Purge")
    assert "ready_too_old (max_ready_age 1d): 1d 1h to 1d 1h" in (record.message or "")


def test_stale_completed_is_removed(yard: Yard) -> None:
    """'Stale completed VMs are removed from queue'"""
    old, young = yard.ended("done", HOUR + 1), yard.ended("done", HOUR - 5)
    assert purge(yard) == {"done_too_old": 1}
    assert (yard.state(old), yard.state(young)) == (None, "done")


def test_orphaned_records_are_detected_and_removed(yard: Yard) -> None:
    """'Orphaned VM metadata is detected and expired'"""
    old, body, young = yard.orphan(25 * HOUR), yard.orphan(26 * HOUR, "body"), yard.orphan(23 * HOUR)
    live = yard.ready(1)
    assert taken(dry(yard)) == {old: "orphaned_records", body: "orphaned_records"}
    assert purge(yard) == {"orphaned_records": 2}
    assert yard.raw.hexists(yard.key("head"), young)
    assert yard.raw.hexists(yard.key("head"), live)
    assert not yard.raw.hexists(yard.key("head"), old)
    assert not yard.raw.hexists(yard.key("body"), body)


def test_an_orphan_of_unknown_age_does_not_stay_for_ever(yard: Yard) -> None:
    yard.raw.hset(yard.key("body"), "custom-id", "x")
    [entry] = dry(yard)
    assert (entry.id, entry.age_s, entry.reason) == ("custom-id", None, "orphaned record of unknown age")


def test_purge_metrics_count_age_and_reason(yard: Yard) -> None:
    """'Purge metrics are logged (count, age, reason)'"""
    yard.ended("done", 2 * HOUR)
    yard.ended("dead", 169 * HOUR)
    yard.ended("cancelled", 25 * HOUR)
    plan = yard.writer.plan_purge()
    assert plan.tail.rules == {"done_too_old": 1, "dead_too_old": 1, "cancelled_too_old": 1}
    assert plan.tail.by_queue == {f"native/{QUEUE}": 3}
    assert plan.tail.bytes == sum(entry.bytes for entry in plan.entries()) > 0
    for entry in plan.entries():
        assert entry.age_s is not None
        assert f"for {duration(1000 * entry.age_s)} (limit " in entry.reason


def test_dry_run_mode_writes_nothing(yard: Yard) -> None:
    """'Dry-run mode available for testing': not one key differs."""
    populate(yard)
    before = yard.digest()
    assert dry(yard, limits=WITH_DLQ)
    assert yard.digest() == before


@pytest.mark.parametrize("state", ["done", "dead", "cancelled"])
def test_dead_and_cancelled_have_their_own_age(yard: Yard, state: str) -> None:
    """'DLQ entries expire after configurable TTL': dlq_ttl in hours"""
    limits = Limits.of(changes=["dlq_ttl=1", "cancelled_too_old=1h", "max_completed_age=3600"])
    old, young = yard.ended(state, HOUR + 1), yard.ended(state, HOUR - 5)
    assert list(taken(dry(yard, limits=limits))) == [old]
    assert young not in taken(dry(yard, limits=limits))


def test_too_many_dead_letters(yard: Yard) -> None:
    """'DLQ size is limited to prevent unbounded growth': the oldest go, and those that are too old count once."""
    dead = [yard.ended("dead", age) for age in (200 * HOUR, 50, 40, 30, 20)]
    limits = Limits(dlq_max_entries=2)
    assert taken(dry(yard, limits=limits)) == {
        dead[0]: "dead_too_old", dead[1]: "dead_too_many", dead[2]: "dead_too_many",
    }  # fmt: skip
    assert list(taken(dry(yard, PurgeRule.DEAD_TOO_MANY, limits=limits))) == dead[:3]
    assert purge(yard, limits=limits).total() == 3
    assert [yard.state(job) for job in dead] == [None, None, None, "dead", "dead"]


@pytest.mark.parametrize(
    ("rule", "threshold_s", "state"),
    [
        (PurgeRule.READY_TOO_OLD, 86_400, State.READY),
        (PurgeRule.LEASE_EXPIRED, 7_200, State.RUNNING),
        (PurgeRule.DONE_TOO_OLD, 3_600, State.DONE),
        (PurgeRule.DEAD_TOO_OLD, 168 * HOUR, State.DEAD),
        (PurgeRule.CANCELLED_TOO_OLD, 86_400, State.CANCELLED),
    ],
)
def test_an_age_over_its_threshold_is_over_it_and_equal_is_not(
    yard: Yard, rule: PurgeRule, threshold_s: int, state: State
) -> None:
    jobs = {State.READY: lambda: yard.ready(1), State.RUNNING: lambda: yard.running(1)}
    job = jobs.get(state, lambda: yard.ended(state, 1))()
    now = yard.now_ms
    for extra_ms, expected in ((-1, False), (0, False), (1, True)):
        since = now - threshold_s * 1000 - extra_ms
        yard.raw.zadd(yard.key(state), {job: 100 * BAND + since if state is State.READY else since})
        assert _all(yard, rule, Limits(), now) == ({job} if expected else set()), extra_ms


def test_a_running_job_without_a_lease_is_named_and_left_alone(yard: Yard) -> None:
    job = yard.running(9 * HOUR)
    yard.raw.hdel(yard.key("lease"), job)
    plan = yard.writer.plan_purge()
    assert plan.count == 0
    assert [(skip.id, skip.why) for skip in plan.tail.skipped] == [(job, "has no lease")]


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    ages_ms=st.lists(st.tuples(st.sampled_from([0, 7, 100, 899]), st.integers(0, 20_000)), max_size=30),
    threshold_s=st.integers(0, 20),
    most=st.integers(0, 30),
)
def test_the_rules_take_what_their_thresholds_say(
    yard: Yard, ages_ms: list[tuple[int, int]], threshold_s: int, most: int
) -> None:
    """Property: whatever the ages and thresholds, exactly those over them are taken, of every priority."""
    now = yard.now_ms
    jobs = {f"j{n}": (priority, age) for n, (priority, age) in enumerate(ages_ms)}
    yard.raw.delete(yard.key("ready"), yard.key("dead"))
    for job, (priority, age) in jobs.items():
        yard.raw.zadd(yard.key("ready"), {job: priority * BAND + now - age})
        yard.raw.zadd(yard.key("dead"), {job: now - age})
    limits = Limits(max_ready_age=threshold_s, dlq_ttl=threshold_s / 3600, dlq_max_entries=most)
    over = {job for job, (_, age) in jobs.items() if age > threshold_s * 1000}
    found = {rule: _all(yard, rule, limits, now) for rule in RULES}
    assert found[PurgeRule.READY_TOO_OLD] == found[PurgeRule.DEAD_TOO_OLD] == over
    assert not found[PurgeRule.DEAD_TOO_MANY] & over
    assert len(found[PurgeRule.DEAD_TOO_MANY]) == max(0, len(jobs) - len(over) - most)
    kept = set(jobs) - over - found[PurgeRule.DEAD_TOO_MANY]
    assert max((jobs[job][1] for job in kept), default=0) <= min(
        (jobs[job][1] for job in found[PurgeRule.DEAD_TOO_MANY]), default=10**9
    )


RULES = (PurgeRule.READY_TOO_OLD, PurgeRule.DEAD_TOO_OLD, PurgeRule.DEAD_TOO_MANY)


def _all(yard: Yard, name: PurgeRule, limits: Limits, now: int) -> set[str]:
    """What a rule takes at a moment, beside that for the age of dead letters."""
    rule = next(rule for rule in purge_rules.RULES if rule.name == name)
    too_old = next(rule for rule in purge_rules.RULES if rule.name == PurgeRule.DEAD_TOO_OLD)
    text = f"-{too_old.where_for(limits)}" if rule.rank else rule.where_for(limits)
    search = Search(states=rule.states, now=now, limits=limits, wanted=parse(text) if text else None, rule=rule)
    found: set[str] = set()
    for pages in yard.writer.run(yard.writer.adapters.native.pages(QUEUE, search)):
        while (rows := yard.writer.run(pages.page())) is not None:
            found |= {row.id for row in rows}
    return found


def populate(yard: Yard) -> None:
    """Something for every rule, more than a slice of some, and jobs that hang on others."""
    for state in ("done", "dead", "cancelled"):
        for age in (10, 90_000, 700_000):
            yard.ended(state, age)
    yard.running(100)
    yard.running(7_300, worker="w2")
    for priority in (0, 50, 100, 899):
        for age in (1, 86_300, 86_500, 200_000):
            yard.ready(age, priority=priority)
    yard.orphan(100_000)
    parent = yard.ready(100_000)
    child = yard.writer.enqueue(QUEUE, "t", after=[parent]).id
    yard.writer.enqueue(QUEUE, "t", after=[child])


@pytest.mark.parametrize("limits", [Limits(), WITH_DLQ], ids=["plain", "dlq"])
def test_a_run_is_exactly_its_dry_run_consequences_included(
    yard: Yard, make_yard: Callable[[str], Yard], limits: Limits
) -> None:
    """A dry run that says 6 and a run that does 8, as elsewhere, are not the same purge."""
    populate(yard)
    other = make_yard("demo:other:actions")
    populate_other = other.ready(100_000)
    plan = yard.writer.plan_purge(tuple(PurgeRule), limits)
    entries = list(plan.entries())
    before = {job.id: job.state for q in (QUEUE, other.queue) for job in yard.writer.jobs(q)}
    result = yard.writer.apply(plan)
    after = {job.id: job.state for q in (QUEUE, other.queue) for job in yard.writer.jobs(q)}
    assert (result.applied, result.skipped) == (len(entries), ())
    changed = {job for job in before if before[job] != after.get(job)}
    jobs_taken = {entry.id for entry in entries if entry.state != "none"}
    assert populate_other in jobs_taken
    assert jobs_taken <= changed
    assert len(changed - jobs_taken) == 2
    assert plan.tail.totals.dependents == 1, "jobs that others wait for, as in every plan"
    assert all(after[job] == "dead" for job in changed - jobs_taken)
    for entry in entries:
        became = {"bury": "dead", "cancel": "cancelled", "requeue": "ready", "discard": None}[entry.verb]
        assert after.get(entry.id) == became


def test_what_one_rule_buries_is_no_prey_of_the_next_in_the_same_pass(yard: Yard) -> None:
    """'purge should respect DLQ entries': those that it makes are kept like any other."""
    jobs = [yard.ready(90_000 + n) for n in range(5)]
    limits = Limits(dlq_enabled=True, dlq_max_entries=3)
    assert purge(yard, limits=limits) == {"ready_too_old": 5}
    assert [yard.state(job) for job in jobs] == ["dead"] * 5
    assert purge(yard, limits=limits) == {"dead_too_many": 2}, "the next pass"


def test_many_are_taken_slice_by_slice(yard: Yard) -> None:
    now = yard.now_ms
    heads = {f"job{n:05d}": f"{now} 100 0 t" for n in range(2500)}
    yard.raw.hset(yard.key("head"), mapping=heads)  # type: ignore[arg-type]  # invariance
    # Many of the same moment, more than a slice: they are told apart by their ids.
    yard.raw.zadd(yard.key("dead"), {job: now - 10**9 - (int(job[3:]) // 1200) for job in heads})
    found = dry(yard, PurgeRule.DEAD_TOO_OLD)
    assert sorted(entry.id for entry in found) == sorted(heads)
    assert len(dry(yard, PurgeRule.DEAD_TOO_MANY, limits=Limits(dlq_max_entries=7))) == 2493
    yard.raw.delete(yard.key("dead"))
    yard.raw.zadd(yard.key("ready"), dict.fromkeys(heads, 100 * BAND + now - 10**9))
    assert len(dry(yard, PurgeRule.READY_TOO_OLD)) == 2500
    yard.raw.delete(yard.key("ready"))
    yard.raw.hset(yard.key("head"), mapping=dict.fromkeys(heads, f"{now - 10**9} 100 0 t"))
    assert len(dry(yard, PurgeRule.ORPHANED_RECORDS)) == 2500


def test_what_changed_since_the_plan_is_left_alone(yard: Yard) -> None:
    stays, goes = yard.ended("dead", 200 * HOUR), yard.ended("dead", 201 * HOUR)
    orphan = yard.orphan(30 * HOUR)
    plan = yard.writer.plan_purge()
    yard.raw.zadd(yard.key("dead"), {stays: yard.now_ms})
    yard.raw.zadd(yard.key("done"), {orphan: yard.now_ms})
    result = yard.writer.apply(plan)
    assert result.applied == 1
    assert {skip.id: skip.why for skip in result.skipped} == {stays: "has changed since", orphan: "is done now"}
    assert yard.state(goes) is None


def test_a_purge_can_be_taken_back(yard: Yard) -> None:
    populate(yard)
    plan = yard.writer.plan_purge((PurgeRule.DONE_TOO_OLD, PurgeRule.DEAD_TOO_OLD, PurgeRule.ORPHANED_RECORDS))
    kept = ("head", "body", "error", "dead", "done")
    before = {part: sorted(_content(yard, part)) for part in kept}
    batch = yard.writer.apply(plan).batch
    assert yard.writer.undo(batch).restored == plan.count
    assert {part: sorted(_content(yard, part)) for part in kept} == before


def _content(yard: Yard, part: str) -> list[str]:
    key = yard.key(part)
    if part in ("dead", "done"):
        return [str(pair) for pair in yard.raw.zrange(key, 0, -1, withscores=True)]
    return [str(pair) for pair in yard.raw.hgetall(key).items()]


def test_a_user_that_may_only_read_sees_the_plan_and_changes_nothing(
    yard: Yard, make_server: Callable[..., Server]
) -> None:
    """A user with +@read only: the dry run works, applying is refused, nothing is written."""
    populate(yard)
    yard.raw.execute_command("ACL", "SETUSER", "looker", "on", ">pw", "+@read", "~*", "resetchannels")
    yard.raw.config_resetstat()
    url = yard.writer.endpoint.url.split("?")[0].replace("redis://", "redis://looker:pw@")
    with Writer(url) as writer:
        plan = writer.plan_purge()
        assert plan.count > 5
        stats = yard.raw.info("commandstats")
        with pytest.raises(NotAllowed):
            writer.apply(plan)
    reads = {
        "hello",
        "auth",
        "hmget",
        "hget",
        "hlen",
        "hscan",
        "hstrlen",
        "hexists",
        "scan",
        "zrangebyscore",
        "zcount",
        "type",
    }
    reads |= {
        "zmscore",
        "zscore",
        "zcard",
        "time",
        "info",
        "client|setinfo",
        "select",
        "config|resetstat",
        "zrange",
        "acl|setuser",
    }
    called = {name.removeprefix("cmdstat_") for name, facts in stats.items() if facts["calls"]}
    assert called <= reads


def test_another_kind_of_key_is_that_queues_problem_only(yard: Yard, make_yard: Callable[[str], Yard]) -> None:
    other = make_yard("demo:broken:actions")
    other.ready(1)
    other.raw.delete(other.key("done"))
    other.raw.set(other.key("done"), "x")
    old = yard.ended("done", 2 * HOUR)
    plan = yard.writer.plan_purge()
    assert [entry.id for entry in plan.entries()] == [old]
    assert {skip.queue for skip in plan.tail.skipped} == {other.queue}
    assert [skip.why.split()[0] for skip in plan.tail.skipped] == ["done_too_old", "orphaned_records"]


def test_thresholds_of_the_configuration_and_of_one_run() -> None:
    found = read_text("[purge]\nmax_ready_age = 60\n[dead_letters]\ndlq_ttl = 2\ndlq_enabled = true").settings
    limits = Limits.of(found, ["max_completed_age=90s", "dead_too_old=3", "dead_too_many=5", "dlq_enabled=no"])
    assert (limits.max_ready_age, limits.max_completed_age, limits.dlq_ttl, limits.dlq_max_entries) == (60, 90, 3, 5)
    assert purge_verb(PurgeRule.READY_TOO_OLD, limits) == "cancel"
    assert purge_verb(PurgeRule.READY_TOO_OLD, Limits.of(found)) == "bury"
    assert Limits.of(changes=["dlq_ttl=90m"]).ms("dlq_ttl") == 90 * 60 * 1000
    assert Limits.of(Settings()) == Limits()


@pytest.mark.parametrize(
    ("change", "said", "hint"),
    [
        ("max_redy_age=3", "no threshold", "'max_ready_age'"),
        ("max_ready_age", "is not KEY=VALUE", "such as"),
        ("max_ready_age=x", "not a number", "15m"),
        ("max_ready_age=-1", "out of range", ""),
        ("dlq_max_entries=2h", "not a number", "whole number"),
        ("dlq_ttl=nan", "out of range", "hours"),
        ("dlq_enabled=perhaps", "neither true nor false", "true"),
    ],
)
def test_wrong_thresholds(change: str, said: str, hint: str) -> None:
    with pytest.raises(InvalidOption) as caught:
        Limits.of(changes=[change])
    assert said in str(caught.value)
    assert hint in caught.value.hint


def test_rules_by_name() -> None:
    assert read_rules([]) == tuple(name for name, rule in PURGE_RULES.items() if not rule.by_name)
    assert read_rules(tuple(PurgeRule)) == tuple(PurgeRule), "what is named is all that is meant"
    assert read_rules(["done_too_old", "ready_too_old"]) == (PurgeRule.READY_TOO_OLD, PurgeRule.DONE_TOO_OLD)
    assert read_rules([], read_text("[purge]\nrules = ['done_too_old']").settings) == (PurgeRule.DONE_TOO_OLD,)
    with pytest.raises(InvalidOption) as caught:
        read_rules(["done_to_old"])
    assert "'done_too_old'" in caught.value.hint


def test_a_purge_that_was_stopped_goes_on_and_ends_with_its_plan(yard: Yard) -> None:
    now = yard.now_ms
    heads = {f"job{n:05d}": f"{now} 100 0 t" for n in range(1000)}
    yard.raw.hset(yard.key("head"), mapping=heads)  # type: ignore[arg-type]  # invariance
    yard.raw.zadd(yard.key("dead"), dict.fromkeys(heads, now - 10**9))
    plan = yard.writer.plan_purge()
    turns = iter([False, False, True])
    first = yard.writer.apply(plan, cancelled=lambda: next(turns))
    assert first.stopped
    assert 0 < first.applied < 1000
    again = yard.writer.apply(plan)
    assert (again.batch, again.applied, again.skipped) == (first.batch, 1000, ()), "what was done counts once"
    assert yard.raw.zcard(yard.key("dead")) == 0
    assert yard.writer.undo(again.batch).restored == 1000
    assert yard.raw.zcard(yard.key("dead")) == 1000
