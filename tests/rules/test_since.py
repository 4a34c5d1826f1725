"""Since when a check is as it is, from what the server still knows of that; what nobody knows is never guessed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec

from qdeck._deck import history, since, verdict
from qdeck._deck.deck import Deck
from qdeck._deck.history import Sample
from qdeck._deck.model import QueueRow, Reason, ServerInfo, Status
from qdeck._deck.since import Began, crossing, pauses, place, read_since
from qdeck._deck.verdict import Check
from qdeck._settings.thresholds import Thresholds
from support.yard import QUEUE, Yard

if TYPE_CHECKING:
    import redis

    from qdeck._engine.ops import Program

LIMITS = Thresholds(dlq_max_warning=2, dlq_max_critical=50, stuck_vm_max_warning=1, ready_queue_max=3)
MIN = 60_000


def began(deck: Deck, limits: Thresholds = LIMITS) -> dict[str, Began]:
    snapshot = deck.status()
    checks = verdict.check_all(snapshot.server, snapshot.queues, limits)
    return deck.look(read_since(checks, snapshot.queues, limits, snapshot.at_ms))


def sample(at_ms: int, ready: int) -> Sample:
    return Sample(at_ms=at_ms, ready=ready, dead=0, enqueued=0, done=0, failed=0)


def test_samples_tell_when_a_number_went_over_its_limit() -> None:
    calm = [sample(at * MIN, 1) for at in range(5)]
    full = [sample(at * MIN, 9) for at in range(5, 9)]
    number = lambda one: one.ready  # noqa: E731 - read as a key is
    assert crossing([*calm, *full], number, 3) == Began(at_ms=5 * MIN, exact=True)
    assert crossing(full, number, 3) == Began(at_ms=5 * MIN, exact=False), "it was so when the samples begin"
    assert crossing([*full, sample(9 * MIN, 3)], number, 3) is None
    assert crossing([], number, 3) is None
    late = [*full, sample(60 * MIN, 9)]
    assert crossing(late, number, 3) == Began(at_ms=60 * MIN, exact=False), "nobody looked in between"


def test_the_log_tells_who_is_paused_still() -> None:
    def told(verb: str, at_ms: int, *queues: str) -> bytes:
        return json.dumps({"verb": verb, "at_ms": at_ms, "queues": queues}).encode()

    newest_first = [told("pause", 9, "a"), told("resume", 8, "b"), told("pause", 7, "b", "c"), told("pause", 1, "a")]
    assert pauses([*newest_first, None, b"[]", b'{"verb":"pause"}']) == {"a": 9, "c": 7}


def test_the_entry_that_was_one_too_many_tells_since_when_at_least(url: str, raw: redis.Redis) -> None:
    with Deck(url) as deck:
        yard = Yard(deck, raw)
        yard.keep_all()
        for age_s in (900, 600, 300, 60):
            yard.ended("dead", age_s)
        for late_s in (500, 400, 200):
            yard.running(late_s)
        found = began(deck)
    now = yard.now_ms
    third = found[place("dead_letters", QUEUE)]
    assert not third.exact
    assert 299_000 <= now - third.at_ms <= 330_000, "two are healthy, the third is five minutes old"
    second = found[place("stuck", QUEUE)]
    assert not second.exact
    assert 399_000 <= now - second.at_ms <= 430_000


def test_a_pause_and_the_last_worker_are_told_to_the_moment(url: str, raw: redis.Redis) -> None:
    with Deck(url) as deck:
        yard = Yard(deck, raw)
        yard.ready(700)
        now = yard.now_ms
        gone = {"host": "a", "pid": 1, "queues": {QUEUE: 1}, "state": "running", "seen_ms": now - 90_000}
        raw.hset("qdeck:workers", "w1", json.dumps(gone))
        raw.hset("qdeck:workers", "other", json.dumps(gone | {"queues": {"else:actions": 1}, "seen_ms": now - 60_000}))
        found = began(deck)
        assert found[place("workers", QUEUE)] == Began(at_ms=now - 90_000, exact=True)
        deck.pause(QUEUE)
        paused = began(deck)[place("paused", QUEUE)]
        assert paused.exact
        assert 0 <= yard.now_ms - paused.at_ms < 30_000
        raw.delete("qdeck:activity")
        assert place("paused", QUEUE) not in began(deck), "nobody knows"


def test_samples_of_agents_date_a_queue_that_fills(url: str, raw: redis.Redis) -> None:
    with Deck(url) as deck:
        yard = Yard(deck, raw)
        for _ in range(5):
            yard.ready(10)
        tier, now = history.FINE, yard.now_ms
        for ago in range(30, 0, -1):
            at = (now - ago * tier.step_ms) // tier.step_ms * tier.step_ms
            one = Sample(at_ms=at, ready=5 if ago <= 12 else 1, dead=0, enqueued=40 - ago, done=0, failed=0)
            raw.append(history.chunk_key(QUEUE, tier, at // tier.chunk_ms), history.pack(one, tier))
        raw.hset(history.LATEST, "", str(now))
        found = began(deck)[place("ready_queue", QUEUE)]
    assert found.exact
    assert abs(now - found.at_ms - 12 * tier.step_ms) <= 2 * tier.step_ms


def test_what_agents_noted_goes_on_and_counts_for_the_same_rules_only(url: str, raw: redis.Redis) -> None:
    row = QueueRow(name=QUEUE, ready=9)
    bad = Check(name="memory", status=Status.DEGRADED, detail="",
                reasons=(Reason(status=Status.DEGRADED, text=""),))  # fmt: skip
    fine = Check(name="memory", detail="")

    def note(checks: list[Check], at_ms: int) -> None:
        deck.write(since.note(checks, LIMITS, at_ms))

    def read(limits: Thresholds, checks: list[Check]) -> dict[str, Began]:
        program: Program[dict[str, Began]] = read_since(checks, [row], limits, 90 * MIN)
        return deck.look(program)

    with Deck(url) as deck:
        note([bad], 1 * MIN)
        assert read(LIMITS, [bad]) == {"memory/": Began(at_ms=MIN, exact=False)}, "it was so at the first look"
        note([fine], 2 * MIN)
        assert read(LIMITS, [bad]) == {}
        note([bad], 3 * MIN)
        note([bad], 4 * MIN)
        assert read(LIMITS, [bad]) == {"memory/": Began(at_ms=3 * MIN, exact=True)}
        assert read(Thresholds(memory_max_warning=50), [bad]) == {}, "judged by other rules"
        raw.set(since.KEY, b"no json")
        assert read(LIMITS, [bad]) == {}
        raw.delete(since.KEY)
        raw.rpush(since.KEY, "of another kind")
        assert read(LIMITS, [bad]) == {}


def test_a_server_that_may_not_be_read_costs_the_moments_only(url: str, raw: redis.Redis) -> None:
    with Deck(url) as deck:
        yard = Yard(deck, raw)
        for _ in range(4):
            yard.ended("dead", 60)
    raw.acl_setuser("blind", enabled=True, passwords=["+x"], keys=["nothing:*"], commands=["+@read"], reset=True)
    row = QueueRow(name=QUEUE, dead=4, ready=9, paused=True, workers=0, oldest_s=500.0, stuck=3)
    checks = verdict.check_all(ServerInfo(), [row], LIMITS)
    with Deck(url.replace("redis://", "redis://blind:x@")) as deck:
        assert deck.look(read_since(checks, [row], LIMITS, 5)) == {}
    raw.acl_deluser("blind")


def test_the_rules_are_kept_with_what_was_noted(url: str, raw: redis.Redis) -> None:
    with Deck(url) as deck:
        deck.write(since.note([], LIMITS, 7))
    noted: dict[str, Any] = json.loads(raw.get(since.KEY) or b"")
    assert noted == {"at": 7, "thresholds": msgspec.to_builtins(LIMITS), "places": {}}
    assert 0 < raw.pttl(since.KEY) <= since.LIVE_MS
