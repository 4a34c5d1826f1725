"""The commands on the systems of the documents, with data as each document writes it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from support.documents import HOUR_S, ago, failed_task, machine, machine_letter, pool, ruby, scheduler_letter

if TYPE_CHECKING:
    from collections.abc import Callable

    import redis


def test_dead_letters_are_listed_newest_first(raw: redis.Redis, qdeck: Callable[..., Any]) -> None:
    """60 old letters of one pool do not hide 5 fresh ones of another; tasks of a hash are sorted."""
    pool(raw, "centos-7")
    pool(raw, "debian-12")
    for number in range(60):
        machine_letter(raw, "clone", f"old{number}", "centos-7", 30 * HOUR_S)
    for number in range(5):
        machine_letter(raw, "pending", f"fresh{number}", "debian-12", 60 * number)
    for hours in (16, 5, 25):
        failed_task(raw, f"CloneUrl({hours})", hours * HOUR_S)
    ran = qdeck("dead", "--limit", "7", "--json")
    assert [job["name"] or job["id"] for job in ran.json] == [
        *(f"fresh{number}" for number in range(5)), "CloneUrl(5)", "CloneUrl(16)",
    ]  # fmt: skip
    assert "7 jobs listed, more exist" in ran.err
    assert [job["name"] for job in qdeck("dead", "ifdb", "--json").json] == [
        "CloneUrl(5)",
        "CloneUrl(16)",
        "CloneUrl(25)",
    ]


def test_what_has_no_time_is_last_and_said(raw: redis.Redis, qdeck: Callable[..., Any]) -> None:
    failed_task(raw, "Lost", None)
    scheduler_letter(raw, "job-1", 3 * HOUR_S)
    ran = qdeck("dead", "--json")
    assert [job["name"] or job["id"] for job in ran.json] == ["job-1", "Lost"]
    assert "the times of 1 dead letter are not stored; they are listed last" in ran.err


def test_status_and_health_are_of_one_opinion(raw: redis.Redis, qdeck: Callable[..., Any]) -> None:
    """Two machines that are stuck are not healthy, in the status, its findings, the checks and the exit codes."""
    pool(raw, "centos-7")
    for number in range(2):
        machine(raw, "pending", f"vm{number}", "centos-7", clone=ruby(ago(3 * HOUR_S)))
    status, health = qdeck("status", "--json"), qdeck("health", "--json")
    assert status.code == health.code == 1
    told = [
        [(one["code"], one["severity"], one["message"]) for one in ran.json["findings"]] for ran in (status, health)
    ]
    assert told[0] == told[1] == [("stuck", "degraded", "2 jobs stuck in centos-7")]
    [check] = [check for check in health.json["checks"] if check["name"] == "stuck"]
    assert (check["status"], check["value"]) == ("degraded", 2)
    assert (health.json["errors"]["stuck_count"], health.json["errors"]["stuck_vm_count"]) == (2, 2)
    doctor = {check["name"]: check["ok"] for check in qdeck("doctor", "--json").json["checks"]}
    known = {check["name"]: check["ok"] for check in health.json["checks"]}
    for name in ("role", "loading", "saving", "eviction", "memory"):
        assert doctor[name] == known[name]
