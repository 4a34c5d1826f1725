"""Since when a check is as it is: what agents noted; what nobody noted is never guessed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec

from qdeck._deck import since
from qdeck._deck.since import read_since
from qdeck.admin import Began, Check, Code, Finding, Status, Thresholds, Writer

if TYPE_CHECKING:
    import redis

LIMITS = Thresholds(dlq_max_warning=2)
MIN = 60_000
BAD = Check(
    name="memory", status=Status.DEGRADED, detail="", findings=(Finding(code=Code.MEMORY, severity=Status.DEGRADED),)
)


def test_what_agents_noted_goes_on_and_counts_for_the_same_rules_only(url: str, raw: redis.Redis) -> None:
    fine = Check(name="memory", detail="")

    def note(checks: list[Check], at_ms: int) -> None:
        deck.write(since.note(checks, LIMITS, at_ms))

    def read(limits: Thresholds, checks: list[Check]) -> dict[str, Began]:
        return deck.run(read_since(checks, limits, 90 * MIN))

    with Writer(url) as deck:
        note([BAD], 1 * MIN)
        assert read(LIMITS, [BAD]) == {"memory/": Began(at_ms=MIN, exact=False)}, "it was so at the first look"
        note([fine], 2 * MIN)
        assert read(LIMITS, [BAD]) == {}
        note([BAD], 3 * MIN)
        note([BAD], 4 * MIN)
        assert read(LIMITS, [BAD]) == {"memory/": Began(at_ms=3 * MIN, exact=True)}
        assert read(Thresholds(memory_max_warning=50), [BAD]) == {}, "judged by other rules"
        raw.set(since.KEY, b"no json")
        assert read(LIMITS, [BAD]) == {}
        raw.delete(since.KEY)
        raw.rpush(since.KEY, "of another kind")
        assert read(LIMITS, [BAD]) == {}


def test_a_moment_that_is_to_come_or_of_no_calendar_is_not_known(url: str, raw: redis.Redis) -> None:
    with Writer(url) as deck:
        for at_ms in (0, -5, 2 * MIN, 10**40, None, "7"):
            places = {"memory/": ["degraded", at_ms, True]}
            raw.set(since.KEY, json.dumps({"thresholds": msgspec.to_builtins(LIMITS), "places": places}))
            assert deck.run(read_since([BAD], LIMITS, MIN)) == {}, at_ms


def test_who_may_not_read_it_learns_nothing_and_nothing_fails(url: str, raw: redis.Redis) -> None:
    with Writer(url) as deck:
        deck.write(since.note([BAD], LIMITS, MIN))
    raw.acl_setuser("blind", enabled=True, passwords=["+x"], keys=["nothing:*"], commands=["+@read"], reset=True)
    with Writer(url.replace("redis://", "redis://blind:x@")) as deck:
        assert deck.run(read_since([BAD], LIMITS, 2 * MIN)) == {}
    raw.acl_deluser("blind")


def test_the_rules_are_kept_with_what_was_noted(url: str, raw: redis.Redis) -> None:
    with Writer(url) as deck:
        deck.write(since.note([], LIMITS, 7))
    noted: dict[str, Any] = json.loads(raw.get(since.KEY) or b"")
    assert noted == {"at": 7, "thresholds": msgspec.to_builtins(LIMITS), "places": {}}
    assert 0 < raw.pttl(since.KEY) <= since.LIVE_MS
