"""Since when a finding holds: what agents noted; what nobody noted is never guessed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec

from qdeck._server import finding_times
from qdeck.admin import NATIVE, Code, Finding, QueueRef, Status, Thresholds, Writer

if TYPE_CHECKING:
    import redis

LIMITS = Thresholds(dlq_max_warning=2)
MIN = 60_000
BAD = Finding(code=Code.MEMORY, severity=Status.DEGRADED)
Known = tuple[int | None, bool]
UNKNOWN: Known = (None, True)


def read(writer: Writer, limits: Thresholds, now_ms: int) -> Known:
    [found] = writer.run(finding_times.dated([BAD], limits, now_ms))
    assert found.code is Code.MEMORY
    return found.since_ms, found.since_exact


def test_what_agents_noted_goes_on_and_counts_for_the_same_rules_only(url: str, raw: redis.Redis) -> None:
    with Writer(url) as writer:

        def note(findings: list[Finding], at_ms: int) -> None:
            writer.write(finding_times.note(findings, LIMITS, at_ms))

        note([BAD], 1 * MIN)
        assert read(writer, LIMITS, 90 * MIN) == (MIN, False), "it was so at the first look"
        note([], 2 * MIN)
        assert read(writer, LIMITS, 90 * MIN) == UNKNOWN
        note([BAD], 3 * MIN)
        note([BAD], 4 * MIN)
        assert read(writer, LIMITS, 90 * MIN) == (3 * MIN, True)
        assert read(writer, Thresholds(memory_max_warning=50), 90 * MIN) == UNKNOWN, "judged by other rules"
        raw.set(finding_times.KEY, b"no json")
        assert read(writer, LIMITS, 90 * MIN) == UNKNOWN
        raw.delete(finding_times.KEY)
        raw.rpush(finding_times.KEY, "of another kind")
        assert read(writer, LIMITS, 90 * MIN) == UNKNOWN


def test_findings_of_one_queue_are_dated_one_by_one(url: str) -> None:
    def unknown(task: str) -> Finding:
        return Finding(
            code=Code.UNKNOWN_TASK,
            severity=Status.DEGRADED,
            queue=QueueRef(NATIVE, "a:b:c:actions"),
            count=1,
            name=task,
        )

    with Writer(url) as writer:
        writer.write(finding_times.note([unknown("send")], LIMITS, MIN))
        writer.write(finding_times.note([unknown("send"), unknown("print")], LIMITS, 2 * MIN))
        found = writer.run(finding_times.dated([unknown("print"), unknown("send")], LIMITS, 3 * MIN))
    assert [(one.name, one.since_ms, one.since_exact) for one in found] == [
        ("print", 2 * MIN, True), ("send", MIN, False)
    ]  # fmt: skip


def test_a_moment_that_is_to_come_or_of_no_calendar_is_not_known(url: str, raw: redis.Redis) -> None:
    with Writer(url) as writer:
        for at_ms in (0, -5, 2 * MIN, 10**40, None, "7"):
            places = {BAD.place: ["degraded", at_ms, True]}
            raw.set(finding_times.KEY, json.dumps({"thresholds": msgspec.to_builtins(LIMITS), "places": places}))
            assert read(writer, LIMITS, MIN) == UNKNOWN, at_ms


def test_who_may_not_read_it_learns_nothing_and_nothing_fails(url: str, raw: redis.Redis) -> None:
    with Writer(url) as writer:
        writer.write(finding_times.note([BAD], LIMITS, MIN))
    raw.acl_setuser("blind", enabled=True, passwords=["+x"], keys=["nothing:*"], commands=["+@read"], reset=True)
    with Writer(url.replace("redis://", "redis://blind:x@")) as writer:
        assert read(writer, LIMITS, 2 * MIN) == UNKNOWN
    raw.acl_deluser("blind")


def test_the_rules_are_kept_with_what_was_noted(url: str, raw: redis.Redis) -> None:
    with Writer(url) as writer:
        writer.write(finding_times.note([], LIMITS, 7))
    noted: dict[str, Any] = json.loads(raw.get(finding_times.KEY) or b"")
    assert noted == {"at": 7, "thresholds": msgspec.to_builtins(LIMITS), "places": {}}
    assert 0 < raw.pttl(finding_times.KEY) <= finding_times.LIVE_MS
