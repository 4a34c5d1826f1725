"""Each finding on a real server, on every face: commands, Nagios, metrics, doctor, rows, tabs and Health agree."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from qdeck._agent.metrics import expose
from qdeck._engine import keys
from qdeck._server import history
from qdeck.admin import Code, Reader, Status, Writer
from qdeck_console.presenters import frame, health
from qdeck_console.queue_findings import FindingsByQueue, Severity
from support.yard import HOUR, QUEUE, Yard

if TYPE_CHECKING:
    from collections.abc import Callable

    import redis

    from support.commands import Ran
    from support.servers import Server

ROLES = {Status.HEALTHY: "text", Status.DEGRADED: "warn", Status.UNHEALTHY: "bad"}
OF_SERVERS = {
    Code.REPLICA, Code.LOADING, Code.SAVE_FAILED, Code.NOT_PERSISTED, Code.EVICTION, Code.MEMORY, Code.UNKNOWN_SYSTEM,
}  # fmt: skip


def _counts(yard: Yard, **counts: int) -> None:
    """What the queue counts."""
    yard.raw.hset(yard.key("meta"), mapping={name.replace("n_", "n:"): count for name, count in counts.items()})


def _sampled(yard: Yard) -> None:
    """An agent saw the queue 20 s ago, before any job came."""
    at = yard.now_ms - 20_000
    yard.raw.hset(history.LATEST, mapping={"": at, QUEUE: f"{at} 0 0 0"})


def _late(yard: Yard) -> None:
    for _ in range(11):
        yard.ready(2 * HOUR + 5)


def _overdue(yard: Yard) -> None:
    yard.raw.zadd(yard.key("delayed"), {f"j{n}": yard.now_ms - 1_000 for n in range(101)})
    _counts(yard, delayed=101)


def _set_aside(yard: Yard) -> None:
    yard.raw.xadd(yard.key("quarantine"), {"why": "it is torn"})
    _counts(yard, n_quarantined=1)


def _undelivered(yard: Yard) -> None:
    yard.raw.xadd(yard.key("outbox"), {"k": "watch"}, id=f"{yard.now_ms - 60_000}-0")
    _counts(yard, ready=0)


def _handler_stuck(yard: Yard) -> None:
    said = {"heartbeat_ms": yard.now_ms, "state": "running", "stuck_handlers": 2}
    yard.raw.hset(keys.WORKERS, "w1", json.dumps(said))


def _dead_growing(yard: Yard) -> None:
    _sampled(yard)
    _counts(yard, n_dead=30)


def _filling(yard: Yard) -> None:
    _sampled(yard)
    _counts(yard, n_enqueued=20, ready=400)


def _failing(yard: Yard) -> None:
    """One attempt in two fails, of a queue of which one in a hundred failed in the hours before."""
    now = yard.now_ms
    yard.raw.hset(history.LATEST, mapping={"": now - 10_000, QUEUE: f"{now - 10_000} 0 0 0"})
    hours = ((history.COARSE, 5 * HOUR, 0, 0), (history.FINE, 1_200, 1_000, 10), (history.FINE, 10, 1_050, 60))
    for tier, ago_s, done, failed in hours:
        at = now - 1_000 * ago_s
        sample = history.Sample(at_ms=at, ready=0, dead=0, enqueued=0, done=done, failed=failed)
        yard.raw.append(history.chunk_key(QUEUE, tier, at // tier.chunk_ms), history.pack(sample, tier))
    _counts(yard, n_done=1_050, n_failed=60)


def _unknown_task(yard: Yard) -> None:
    yard.raw.hset(yard.key("meta"), "unknown_tasks", f"1 {yard.now_ms} 2 send")


def _paused(yard: Yard) -> None:
    yard.ready(1)
    yard.writer.pause(QUEUE)


def _schedule_late(yard: Yard) -> None:
    """A schedule of every minute made nothing for two hours."""
    told = {"v": 1, "queue": QUEUE, "task": "t", "cron": "* * * * *", "tz": "UTC", "missed": "once", "priority": 100}
    yard.raw.hset(keys.SCHEDULES, "feeds", json.dumps(told | {"template": "100 3 t", "body": "[[],{}]", "unique": ""}))
    yard.raw.hset(keys.SCHEDULE_STATES, mapping={"": 1, "feeds": f"1 {yard.now_ms - 2 * HOUR * 1000} 0 0 0 0 - -"})


def _measure(yard: Yard) -> None:
    """VMPooler wrote its health an hour ago."""
    at = datetime.fromtimestamp(yard.now_ms / 1000 - 3600, UTC).isoformat(timespec="seconds")
    yard.raw.hset("vmpooler__health", mapping={"status": "healthy", "metrics": "{}", "last_check": at})


IN_DOCTOR = (Code.UNREADABLE, Code.SCHEDULE_LATE)
MADE: dict[Code, tuple[Callable[[Yard], Any], Status]] = {
    Code.UNREADABLE: (lambda yard: yard.raw.hset(yard.key("meta"), "n:done", "many"), Status.DEGRADED),
    Code.STUCK: (lambda yard: yard.running(60), Status.DEGRADED),
    Code.LATE: (_late, Status.DEGRADED),
    Code.DEAD: (lambda yard: _counts(yard, dead_letter=1_001), Status.UNHEALTHY),
    Code.NO_WORKER: (lambda yard: yard.ready(301), Status.UNHEALTHY),
    Code.FAILING: (_failing, Status.DEGRADED),
    Code.UNKNOWN_TASK: (_unknown_task, Status.DEGRADED),
    Code.PAUSED: (_paused, Status.DEGRADED),
    Code.BACKLOG: (lambda yard: _counts(yard, ready=1_001), Status.UNHEALTHY),
    Code.OVERDUE: (_overdue, Status.DEGRADED),
    Code.SET_ASIDE: (_set_aside, Status.DEGRADED),
    Code.UNDELIVERED: (_undelivered, Status.DEGRADED),
    Code.HANDLER_STUCK: (_handler_stuck, Status.UNHEALTHY),
    Code.DEAD_GROWING: (_dead_growing, Status.DEGRADED),
    Code.FILLING: (_filling, Status.DEGRADED),
    Code.SCHEDULE_LATE: (_schedule_late, Status.DEGRADED),
    Code.MEASURE: (_measure, Status.DEGRADED),
}


def test_each_finding_is_tried() -> None:
    assert MADE.keys() | OF_SERVERS == set(Code)


@pytest.fixture
def yard(url: str, raw: redis.Redis) -> Yard:
    with Writer(url) as writer:
        writer.enqueue(QUEUE, "t")
        made = Yard(writer, raw)
        made.keep_all()
        raw.delete(made.key("ready"))
        _counts(made, ready=0, n_enqueued=0)
        return made


def _worst(findings: list[Any], code: Code) -> str:
    found = [Status(one["severity"]) for one in findings if one["code"] == code]
    return max(found, key=list(Status).index).value if found else ""


@pytest.mark.parametrize("code", MADE)
def test_all_faces_give_a_finding_the_same_severity(
    code: Code, yard: Yard, url: str, qdeck: Callable[..., Ran]
) -> None:
    make, expected = MADE[code]
    make(yard)
    status, report = qdeck("status", "--json"), qdeck("health", "--json")
    assert (_worst(status.json["findings"], code), _worst(report.json["findings"], code)) == (expected, expected)
    verdict = Status(status.json["status"])
    exits = [ran.code for ran in (status, report, qdeck("health", "--nagios"))]
    assert (report.json["status"], exits) == (verdict, [verdict.exit_code] * 3)
    with Reader(url) as reader:
        seen = reader.snapshot()
    assert (seen.status, seen.severities[code]) == (verdict, expected)
    found = {
        sample.labels["severity"]
        for family in text_string_to_metric_families(expose(seen, {}, ()).decode())
        for sample in family.samples
        if sample.labels.get("code") == code
    }
    assert found == {expected}
    assert frame.role_of(seen, code) == ROLES[expected]
    assert {row.status for row in health.rows(seen) if row.place.startswith(f"{code}/")} == {expected}
    judge = FindingsByQueue()
    for _ in judge.steps(seen):
        pass
    [entry] = judge.listed.entries
    if code not in (Code.HANDLER_STUCK, Code.MEASURE):  # those are a worker's and a system's, of whatever queue
        assert entry.worst(code) is Severity.of(expected)
    told = {check["code"] for check in qdeck("doctor", "--json").json["checks"] if check["code"] and not check["ok"]}
    assert (code in told) is (code in IN_DOCTOR), "doctor looks at the server, and at what no worker or adapter does"


def test_a_danger_of_the_server(make_server: Callable[..., Server], qdeck: Callable[..., Ran]) -> None:
    server = make_server("--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru")
    for command in ("status", "health"):
        found = qdeck("--url", server.url, command, "--json")
        assert (_worst(found.json["findings"], Code.EVICTION), found.code) == (Status.DEGRADED, 1)
    checks = qdeck("--url", server.url, "doctor", "--json").json["checks"]
    assert [check["ok"] for check in checks if check["code"] == Code.EVICTION] == [False]
