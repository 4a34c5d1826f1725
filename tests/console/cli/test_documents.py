"""The commands on the systems of the documents, with data as each document writes it."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from support.documents import (
    HOUR_S,
    action,
    ago,
    failed_task,
    iso,
    machine,
    machine_letter,
    pool,
    ruby,
    scheduler_letter,
    task,
)

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


def fill(raw: redis.Redis) -> None:
    """Something in every key that the documents name."""
    pool(raw, "centos-7")
    machine(raw, "pending", "pend1", "centos-7", clone=ruby(ago(60)))
    machine(raw, "ready", "ready1", "centos-7", ready=ruby(ago(60)))
    machine(raw, "running", "run1", "centos-7", checkout=ruby(ago(60)))
    machine(raw, "migrating", "mig1", "centos-7", checkout=ruby(ago(60)))
    machine_letter(raw, "clone", "vm1", "centos-7", 60, request_id="req-1")
    machine_letter(raw, "pending", "vm2", "centos-7", 120)
    raw.zadd("vmpooler__provisioning__request", {"req-9": ago(60)})
    raw.hset("vmpooler__odrequest__req-9", "requested", "centos-7:centos-7:1")
    now = ago(0) * 1000
    raw.zadd("scheduler:queue:priority", {"job-ready": now})
    raw.zadd("scheduler:queue:delayed", {"job-late:HIGH": now + 600_000})
    raw.hset("scheduler:processing", "job-runs", f'{{"workerId":"w1","startedAt":{now}}}')
    scheduler_letter(raw, "job-dead", 60)
    task(raw, "CloneUrl(1001)")
    failed_task(raw, "CloneUrl(1002)", 60)
    action(raw, "execution:agent_run:professional:12345", "a1", correlation_id="c1")
    action(raw, "nooble4:dev:management:actions", "m1", correlation_id="c2")
    action(raw, "nooble4:dev:management:actions:dead_letter", "m2")


@pytest.mark.parametrize(
    ("key", "wanted"),
    [
        ("scheduler:queue:priority", ["job-ready"]), ("scheduler:queue:delayed", ["job-late"]),
        ("scheduler:processing", ["job-runs"]), ("scheduler:queue:dlq", ["job-dead"]),
        ("scheduler/scheduler:queue:dlq", ["job-dead"]),
        ("vmpooler__pending__centos-7", ["pend1"]), ("vmpooler__migrating__centos-7", ["mig1"]),
        ("dlq:clone", ["vm1"]), ("vmpooler__dlq__pending", ["vm2"]), ("vmpooler__provisioning__request", ["req-9"]),
        ("ifdb:task_queue", ["CloneUrl(1001)"]), ("ifdb:task_data", ["CloneUrl(1001)", "CloneUrl(1002)"]),
        ("execution:agent_run:professional:12345", ["a1"]),
        ("nooble4:dev:management:actions:dead_letter", ["m2"]),
    ],
)  # fmt: skip
def test_the_name_of_a_key_stands_for_the_jobs_in_it(
    raw: redis.Redis, qdeck: Callable[..., Any], key: str, wanted: list[str]
) -> None:
    fill(raw)
    ran = qdeck("jobs", key, "--json")
    assert [job["name"] if job["adapter"] == "ifdb" else job["id"] for job in ran.json] == wanted


def test_verbs_take_the_name_of_a_key_and_touch_nothing_beside_it(raw: redis.Redis, qdeck: Callable[..., Any]) -> None:
    fill(raw)
    for words, wanted in (
        (("dead", "discard", "dlq:clone"), ["vm1"]),
        (("dead", "retry", "scheduler:queue:dlq"), ["job-dead"]),
        (("jobs", "discard", "scheduler:queue:delayed"), ["job-late"]),
        (("bury", "vmpooler__pending__centos-7", "--state", "pending"), ["pend1"]),
        (("jobs", "discard", "execution:agent_run:professional:12345"), ["a1"]),
    ):
        ran = qdeck(*words, "--dry-run", "--json")
        assert [entry["id"] for entry in ran.json["entries"]] == wanted, words
    assert [row["id"] for row in qdeck("stuck", "scheduler:queue:delayed", "--json").json] == []
    assert qdeck("job", "scheduler:queue:dlq", "job-dead", "--json").json["state"] == "dead"
    assert [group["count"] for group in qdeck("dead", "dlq:clone", "--group", "--json").json] == [1]


def test_the_states_of_a_system_are_accepted_and_shown(raw: redis.Redis, qdeck: Callable[..., Any]) -> None:
    fill(raw)
    for words, wanted in (
        (("--state", "pending"), ["pend1"]),
        (("--where", "state:migrating"), ["mig1"]),
        (("--state", "migrating", "--state", "ready"), ["mig1", "ready1"]),
        (("--state", "running"), ["run1", "mig1"]),
        (("--where", "-state:pending -state:dead"), ["run1", "mig1", "ready1"]),
    ):
        assert [job["id"] for job in qdeck("jobs", "centos-7", "--json", *words).json] == wanted, words
    assert [job["name"] for job in qdeck("jobs", "ifdb", "--state", "fail", "--json").json] == ["CloneUrl(1002)"]
    shown = qdeck("jobs", "centos-7").out
    for text in ("delayed (pending)", "running (migrating)", "dead (dlq:clone)", "ready "):
        assert text in shown
    ran = qdeck("jobs", "centos-7", "--state", "pendign")
    assert (ran.code, "Did you mean 'pending'?" in ran.err) == (64, True)
    qdeck("enqueue", "shop:mail:actions", "t")
    assert len(qdeck("jobs", "shop:mail:actions", "--state", "queued", "--json").json) == 1
    assert qdeck("jobs", "shop:mail:actions", "--state", "pending", "--json").json == []


def test_the_fields_of_the_documents_are_fields_of_a_filter(raw: redis.Redis, qdeck: Callable[..., Any]) -> None:
    fill(raw)
    for text, wanted in (
        ("pool:centos-7", ["vm1", "vm2"]), ("request_id:req-1", ["vm1"]), ("queue_from:pending", ["vm2"]),
        ("vm:vm2", ["vm2"]), ("error_class:StandardError failed_at<90s", ["vm1"]),
    ):  # fmt: skip
        assert [job["id"] for job in qdeck("dead", "--json", "--where", text).json] == wanted, text
    found = qdeck("jobs", "nooble4:dev:management:actions", "--where", "correlation_id:c2", "--json")
    assert [job["id"] for job in found.json] == ["m1"]
    task_name = "games.tasks.uploads.CloneFile"
    assert len(qdeck("jobs", "ifdb", "--where", f"task:{task_name}", "--json").json) == 2


def test_a_name_that_is_close_gets_a_suggestion(raw: redis.Redis, qdeck: Callable[..., Any]) -> None:
    fill(raw)
    for name, meant in (("centos7", "centos-7"), ("vmpooler/centos7", "centos-7"), ("shceduler", "scheduler")):
        for words in (("jobs", name), ("dead", name), ("dead", "retry", name)):
            ran = qdeck(*words)
            assert (ran.code, f"Did you mean {meant!r}?" in ran.err) == (64, True), (words, ran.err)


def test_a_verb_that_an_adapter_lacks_says_what_and_why(raw: redis.Redis, qdeck: Callable[..., Any]) -> None:
    fill(raw)
    for verb, told in (
        (("requeue", "centos-7"), "vmpooler cannot requeue: the manager refills pools automatically"),
        (("jobs", "move", "centos-7", "--to", "a:b:actions", "--create"), "vmpooler does not support move"),
        (("jobs", "cancel", "scheduler"), "jobs are cancelled in PostgreSQL"),
        (("queues", "pause", "centos-7"), "queues of vmpooler cannot be paused"),
        (("job", "edit", "centos-7", "pend1", "--payload", "-"), "vmpooler does not support edit"),
    ):
        ran = qdeck(*verb)
        assert (ran.code, told in ran.err, "there is no queue" in ran.err) == (64, True, False), (verb, ran.err)


def test_a_filter_for_a_state_is_enough_to_bury_jobs_that_are_not_stuck(
    raw: redis.Redis, qdeck: Callable[..., Any]
) -> None:
    fill(raw)
    ran = qdeck("bury", "centos-7", "--where", "state:delayed", "--dry-run", "--json")
    assert [entry["id"] for entry in ran.json["entries"]] == ["pend1"]
    assert qdeck("bury", "centos-7", "--dry-run", "--json").json["entries"] == []


def test_commands_never_cut_an_id(raw: redis.Redis, qdeck: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even where the terminal is too narrow for it."""
    waits, failed = task(raw, "CloneUrl(1001)", module="a" * 60), failed_task(raw, "CloneUrl(1002)", 60)
    raw.zrem("ifdb:task_queue", waits)
    monkeypatch.setattr("shutil.get_terminal_size", lambda: os.terminal_size((60, 24)))
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    for words, wanted in (
        (("jobs", "ifdb"), waits), (("stuck",), waits), (("dead",), failed), (("find", "CloneUrl(1002)"), failed),
        (("dead", "discard", "ifdb", "--dry-run"), failed),
    ):  # fmt: skip
        assert wanted in qdeck(*words).out, words


def test_short_forms_of_ids_are_accepted(raw: redis.Redis, qdeck: Callable[..., Any]) -> None:
    """The name of a task, the beginning of an id, and one that the console cut in the middle."""
    waits, failed = task(raw, "CloneUrl(1001)"), failed_task(raw, "CloneUrl(1002)", 60)
    for short, wanted in (
        ("CloneUrl(1001)", waits), (waits[:18], waits), (f"{failed[:13]}…{failed[-8:]}", failed), (failed, failed),
    ):  # fmt: skip
        assert qdeck("job", "ifdb", short, "--json").json["id"] == wanted
        plan = qdeck("jobs", "discard", "ifdb", "--id", short, "--dry-run", "--json").json
        assert [entry["id"] for entry in plan["entries"]] == [wanted]
    assert [json.loads(qdeck("dead", "export", "ifdb", "--id", "CloneUrl(1002)").out)["id"]] == [failed]
    ran = qdeck("job", "ifdb", "CloneUrl")
    assert (ran.code, "'CloneUrl' names 2 jobs" in ran.err, waits in ran.err) == (64, True, True)
    ran = qdeck("jobs", "discard", "ifdb", "--id", "CloneUrl", "--yes")
    assert (ran.code, raw.hlen("ifdb:task_data")) == (64, 2)
    made = qdeck("enqueue", "shop:mail:actions", "t", "--json").json["id"]
    assert qdeck("job", "shop:mail:actions", made[:15], "--json").json["id"] == made
    assert "no job" in qdeck("job", "shop:mail:actions", "nosuch").err


def test_bury_and_cancel_with_nothing_to_do_say_why(raw: redis.Redis, qdeck: Callable[..., Any]) -> None:
    fill(raw)
    for words, told in (
        (("bury", "centos-7"), "none is stuck; --state"),
        (("bury", "centos-7", "--yes"), "none is stuck; --state"),
        (("bury", "scheduler", "--state", "ready", "--where", "id:zz"), "none is in such a state"),
        (("jobs", "cancel", "centos-7", "--where", "id:zz"), "none of them waits or runs"),
    ):
        ran = qdeck(*words)
        assert (ran.code, told in ran.err) == (1, True), (words, ran)
    assert qdeck("requeue", "scheduler", "--yes").code == 0


def test_pending_machines_are_not_overdue(raw: redis.Redis, qdeck: Callable[..., Any]) -> None:
    """The document has a limit of pending machines, however short they wait."""
    pool(raw, "centos-7")
    for number in range(101):
        machine(raw, "pending", f"vm{number}", "centos-7", clone=ruby(ago(5)))
    ran = qdeck("health", "--json")
    assert [one["message"] for one in ran.json["findings"]] == ["101 jobs pending in centos-7 (limit 100)"]
    assert "overdue" not in qdeck("status").out


def test_entries_of_the_scheduler_have_the_ids_that_its_promoter_reads(
    raw: redis.Redis, qdeck: Callable[..., Any]
) -> None:
    """`[jobId, priority] = entry.split(':')`: only a second part that is no priority stops it."""
    due = (ago(10)) * 1000
    raw.zadd("scheduler:queue:delayed", {":HIGH": due, "a:HIGH:LOW": due, "x:y:HIGH": due, "plain": due})
    found = {job["key"].rpartition("delayed/")[2]: job for job in qdeck("jobs", "scheduler", "--json").json}
    assert (found["a:HIGH:LOW"]["id"], found["a:HIGH:LOW"]["priority_name"]) == ("a", "HIGH")
    assert qdeck("job", "scheduler", "a", "--json").json["problem"] is None
    assert "its id is empty" in qdeck("job", "scheduler", ":HIGH", "--json").json["problem"]
    stuck = {row["id"]: row["why"] for row in qdeck("stuck", "--json").json}
    assert sorted(stuck) == ["plain", "x:y"]
    assert "stop at it" in stuck["x:y"]
    assert qdeck("jobs", "run", "scheduler", "--id", "a", "--yes").code == 0
    assert raw.zrange("scheduler:queue:priority", 0, -1) == [b"a"]


def test_lists_are_shown_from_the_end_that_is_consumed(raw: redis.Redis, qdeck: Callable[..., Any]) -> None:
    """With LPUSH and BRPOP the next to run is at the right end; the times of both ends say so."""
    for name, age in (("oldest", 90), ("middle", 60), ("newest", 30)):
        text = json.dumps({"action_id": name, "action_type": "x.y", "timestamp": iso(ago(age))})
        raw.lpush("nooble4:dev:embedding:actions", text)
        raw.rpush("nooble4:dev:query:actions", text)
    for queue in ("nooble4:dev:embedding:actions", "nooble4:dev:query:actions"):
        assert [job["id"] for job in qdeck("jobs", queue, "--json").json] == ["oldest", "middle", "newest"]
    plan = qdeck("jobs", "discard", "nooble4:dev:embedding:actions", "--id", "oldest", "--yes", "--json").json
    assert plan["applied"] == 1
    assert [json.loads(one)["action_id"] for one in raw.lrange("nooble4:dev:embedding:actions", 0, -1)] == [
        "newest", "middle",
    ]  # fmt: skip
    qdeck("undo", "--yes")
    assert qdeck("jobs", "nooble4:dev:embedding:actions", "--json").json[0]["id"] == "oldest"


def test_a_batch_names_its_system(raw: redis.Redis, qdeck: Callable[..., Any]) -> None:
    fill(raw)
    assert qdeck("jobs", "discard", "scheduler:queue:priority", "--yes", "--json").json["adapter"] == "scheduler"
    assert qdeck("dead", "discard", "dlq:clone", "--yes", "--json").json["adapter"] in ("vmpooler", None)
    empty = qdeck("dead", "retry", "--adapter", "ifdb", "--where", "id:zz", "--yes", "--json").json
    assert empty["adapter"] != "native"
