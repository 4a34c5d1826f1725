"""What the commands say about the data of a real VMPooler, field by field, with the clock held still."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from core.adapters.test_conformance import load_dump
from core.adapters.test_dumps import NOW
from qdeck._redis import reads
from qdeck.testing.adapters import values
from qdeck_console.__main__ import main

if TYPE_CHECKING:
    from collections.abc import Callable

    import redis

FAILURES, FINAL = "dump_s1c_after_failures.json", "dump_s1d_final.json"
AT = "2026-11-18T05:58:34.000Z"  # `2026-11-18 00:58:34 -0500`, when all of it was written
AGE = 8000.0


@pytest.fixture
def ask(url: str, raw: redis.Redis, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """Loads a dump, gives a command's JSON, and sees to it that asking changed nothing."""
    monkeypatch.setattr(reads, "stamp", lambda _reply: NOW)

    def run(dump: str, *command: str, code: int = 0) -> Any:
        raw.flushall()
        load_dump(raw, dump)
        before = values(raw)
        assert main([*command, "--json", "--adapter", "vmpooler", "--url", url]) == code
        assert values(raw) == before
        return json.loads(capsys.readouterr().out)

    return run


def some(record: dict[str, Any], *names: str) -> tuple[Any, ...]:
    return tuple(record[name] for name in names)


NUMBERS = ("ready", "delayed", "blocked", "running", "done", "dead", "stuck", "oldest_s", "paused")


def test_status_after_failures(ask: Callable[..., Any]) -> None:
    found = ask(FAILURES, "status", code=1)
    assert found["adapters"] == ["vmpooler"]
    assert (found["status"], [one["message"] for one in found["findings"]]) == (
        "degraded",
        ["3 jobs stuck in 2 queues"],
    )
    assert found["totals"] == {"ready": 2, "delayed": 2, "blocked": 0, "running": 1, "stuck": 3, "late": 0, "dead": 3}
    assert {row["adapter"] for row in found["queues"]} == {"vmpooler"}
    rows = {row["name"]: some(row, *NUMBERS) for row in found["queues"]}
    assert rows == {
        "centos-7": (1, 2, None, 0, 0, 3, 2, AGE, False),
        "debian-12": (0, 0, None, 0, 0, 0, 0, None, False),
        "requests:on-demand": (0, None, None, 1, 0, 0, 1, AGE, False),
        "tasks:create": (1, None, None, None, None, None, None, None, False),
    }


def test_status_at_the_end(ask: Callable[..., Any]) -> None:
    """A machine in two sets counts once; a completed one that was never destroyed has no age."""
    rows = {row["name"]: some(row, *NUMBERS) for row in ask(FINAL, "status", code=1)["queues"]}
    assert rows == {
        "centos-7": (0, 0, None, 1, 1, 5, 0, None, False),
        "debian-12": (0, 0, None, 1, 0, 0, 0, None, False),
        "requests:on-demand": (0, None, None, 1, 0, 0, 1, AGE, False),
        "tasks:create": (1, None, None, None, None, None, None, None, False),
        "tasks:disk": (1, None, None, None, None, None, None, None, False),
        "tasks:snapshot": (1, None, None, None, None, None, None, None, False),
    }


JOB = ("adapter", "queue", "state", "native_state", "priority", "attempts", "enqueued_at", "due_at", "age_s", "worker")


def test_machines_of_a_pool(ask: Callable[..., Any]) -> None:
    found = {job["id"]: job for job in ask(FAILURES, "jobs", "centos-7") if job["state"] != "dead"}
    assert {name: some(job, *JOB) for name, job in found.items()} == {
        "calm-otter": ("vmpooler", "centos-7", "ready", "ready", None, None, AT, None, AGE, None),
        "brisk-heron": ("vmpooler", "centos-7", "delayed", "pending", None, None, AT, None, AGE, None),
        "od-one": ("vmpooler", "centos-7", "delayed", "pending", None, None, AT, None, AGE, None),
    }
    assert found["od-one"]["tags"] == ["request:req-1", "alias:el7"]
    assert found["calm-otter"]["payload"] == {
        "clone": "2026-11-18 00:58:34 -0500", "template": "centos-7", "pool": "centos-7", "domain": "example.com",
        "clone_time": "0.00", "ip": "10.0.0.7", "ready": "2026-11-18 00:58:34 -0500",
    }  # fmt: skip
    assert [job["id"] for job in ask(FAILURES, "jobs", "centos-7", "--state", "ready")] == ["calm-otter"]


def test_machines_at_the_end(ask: Callable[..., Any]) -> None:
    found = {job["id"]: some(job, *JOB[2:]) for job in ask(FINAL, "jobs", "centos-7") if job["state"] != "dead"}
    assert found == {
        "od-one": ("running", "running", None, None, AT, None, AGE, None),
        "calm-otter": ("done", "completed", None, None, AT, None, None, None),
    }
    [runs] = ask(FINAL, "jobs", "debian-12")
    assert some(runs, "id", "state", "age_s") == ("run-me", "running", AGE)


def test_requests_and_tasks_with_secrets_masked(ask: Callable[..., Any]) -> None:
    [request] = ask(FAILURES, "jobs", "requests:on-demand")
    assert some(request, "id", *JOB[2:]) == ("req-1", "running", "processing", None, 2, AT, None, AGE, None)
    assert request["payload"] == {
        "requested": "el7:centos-7:2,debian-12:debian-12:1", "retry_count": "2", "token:token": "***",
        "token:user": "jdoe",
    }  # fmt: skip
    [task] = ask(FAILURES, "jobs", "tasks:create")
    # Its score is 1: a mark for a retry, and no time.
    assert some(task, "id", "state", "native_state", "age_s") == ("el7:centos-7:1:req-1", "ready", "retry", None)
    assert task["payload"] == {"alias": "el7", "pool": "centos-7", "count": 1, "request_id": "req-1"}
    [disk] = ask(FINAL, "jobs", "tasks:disk")
    assert set(disk["payload"]) == {"vm", "size_gb"}


LETTER = ("id", "queue", "queue_from", "error_class", "error_message", "failed_at", "attempts", "age_s")


def test_dead_letters(ask: Callable[..., Any]) -> None:
    network = ("RuntimeError", "network timeout talking to vcenter", AT)
    template = ("RuntimeError", "template tpl/centos7 does not exist", AT)
    clones = [
        ("od-badx", "centos-7", "clone", *network, 1, AGE),
        ("od-bady", "centos-7", "clone", *network, 2, AGE),
        ("sad-clone", "centos-7", "clone", *template, 1, AGE),
    ]
    assert sorted(some(one, *LETTER) for one in ask(FAILURES, "dead")) == clones
    late = [
        ("brisk-heron", "centos-7", "pending", "Timeout", "connect timeout", AT, None, AGE),
        ("calm-otter", "centos-7", "ready", "RuntimeError", "VM became unreachable in ready queue", AT, 1, AGE),
    ]
    found = ask(FINAL, "dead")
    assert sorted((some(one, *LETTER) for one in found), key=lambda one: str(one[0])) == sorted([*late, *clones])
    assert len({one["key"] for one in found}) == 5
    assert found[0]["payload"]["vm"] == found[0]["id"]
    groups = {
        some(one, "adapter", "queue", "error_class", "message_shape"): some(
            one, "count", "first_at", "last_at", "exact"
        )
        for one in ask(FINAL, "dead", "--group")
    }
    assert groups == {
        ("vmpooler", "centos-7", *network[:2]): (2, AT, AT, True),
        ("vmpooler", "centos-7", *template[:2]): (1, AT, AT, True),
        ("vmpooler", "centos-7", "Timeout", "connect timeout"): (1, AT, AT, True),
        ("vmpooler", "centos-7", "RuntimeError", "VM became unreachable in ready queue"): (1, AT, AT, True),
    }


def test_stuck(ask: Callable[..., Any]) -> None:
    over = "pending for 2h 13m (limit 2h)"
    names = ("id", "adapter", "queue", "why", "age_s", "worker", "worker_alive")
    found = [some(one, *names) for one in ask(FAILURES, "stuck", code=1)]
    request = "processing for 2h 13m (limit 5m)"
    assert sorted(found) == [
        ("brisk-heron", "vmpooler", "centos-7", over, AGE, None, None),
        ("od-one", "vmpooler", "centos-7", over, AGE, None, None),
        ("req-1", "vmpooler", "requests:on-demand", request, AGE, None, None),
    ]
    assert [one["id"] for one in ask(FINAL, "stuck", code=1)] == ["req-1"]


def test_health(ask: Callable[..., Any]) -> None:
    found = ask(FAILURES, "health", code=1)
    size = ("size", "oldest_age", "avg_age", "stuck_count")
    pool = {state: some(rows["vmpooler/centos-7"], *size) for state, rows in found["queues"].items()}
    assert pool == {
        "ready": (1, AGE, AGE, 0),
        "delayed": (2, AGE, AGE, 2),
        "blocked": (None, None, None, None),
        "running": (0, None, None, 0),
        "done": (0, None, None, 0),
        "dead": (3, AGE, AGE, 0),
        "cancelled": (None, None, None, None),
    }
    assert found["tasks"] == {
        "clone": {"active": 0, "pending": 2},
        "ondemand": {"active": 0, "pending": 1},
    }
    assert found["errors"] == {
        "dlq_size": 3, "stuck_count": 3, "late_count": 0, "orphaned_count": 0, "stuck_vm_count": 2,
        "orphaned_metadata_count": 0,
    }  # fmt: skip
    assert (found["status"], found["processing_rate"]) == ("degraded", {"clone_rate": None, "destroy_rate": None})
    assert found["adapters"]["vmpooler"]["own_health"] is None
    last = ask(FINAL, "health", code=1)
    assert last["errors"] == {
        "dlq_size": 5, "stuck_count": 1, "late_count": 0, "orphaned_count": 0, "stuck_vm_count": 0,
        "orphaned_metadata_count": 0,
    }  # fmt: skip
    own = last["adapters"]["vmpooler"]["own_health"]
    assert some(own, "status", "last_check", "age_s", "written_by_qdeck") == ("healthy", AT, AGE, False)
    assert "metrics" in own


def test_purge(ask: Callable[..., Any]) -> None:
    found = ask(FAILURES, "purge")
    assert some(found, "counts", "count") == ({"pending_too_old": 2}, 2)
    names = ("adapter", "queue", "rule", "reason", "age_s", "verb")
    reason = "pending for 2h 13m (limit max_pending_age 2h)"
    for effect, told in (("expire", found), ("bury", ask(FAILURES, "purge", "--set", "dlq_enabled=yes"))):
        expected = ("vmpooler", "centos-7", "pending_too_old", reason, AGE, effect)
        entries = {one["id"]: some(one, *names) for one in told["entries"]}
        assert entries == {"brisk-heron": expected, "od-one": expected}
    at_end = ask(FINAL, "purge", code=1)
    assert (at_end["counts"], [one["id"] for one in at_end["skipped"]]) == ({}, ["calm-otter"])
    # A day later requests, what is ready and what nobody has any more go too.
    later = ask(FAILURES, "purge", "--set", "max_request_age=2h", "--set", "max_ready_age_pool=2h")
    assert later["counts"] == {"pending_too_old": 2, "pool_ready_too_old": 1, "request_too_old": 1}


def test_find_and_job(ask: Callable[..., Any]) -> None:
    places = ask(FINAL, "find", "calm-otter")
    assert sorted((one["adapter"], one["queue"], one["state"]) for one in places) == [
        ("vmpooler", "centos-7", "dead"), ("vmpooler", "centos-7", "done"),
    ]  # fmt: skip
    dead = next(one["key"] for one in places if one["state"] == "dead")
    assert ask(FINAL, "job", "centos-7", dead)["error"]["message"] == "VM became unreachable in ready queue"


def test_what_is_wrong_with_an_entry_is_told_and_no_age_is_guessed(
    url: str, raw: redis.Redis, capsys: pytest.CaptureFixture[str]
) -> None:
    raw.zadd("scheduler:queue:delayed", {"broken": 5})
    given = ("--url", url, "--adapter", "scheduler")
    assert main(["job", "scheduler", "broken", "--json", *given]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["stuck_code"] == "unschedulable"
    assert told["stuck"].startswith(told["problem"])
    assert told["problem"].startswith("its name is not `id:PRIORITY`")
    assert main(["job", "scheduler", "broken", *given]) == 0
    assert "problem        its name is not" in capsys.readouterr().out
    assert main(["stuck", "--json", *given]) == 1
    assert some(json.loads(capsys.readouterr().out)[0], "age_s", "stuck_s") == (None, None)
    assert main(["stuck", *given]) == 1
    assert "0s" not in capsys.readouterr().out


def test_names_that_are_no_text_are_told_exactly(
    url: str, raw: redis.Redis, capsys: pytest.CaptureFixture[str]
) -> None:
    raw.sadd("vmpooler__pools", "p")
    raw.sadd("vmpooler__ready__p", b"\xff\x00vm")
    raw.hset("scheduler:processing", b"\xfe", "{")
    assert main(["jobs", "p", "--json", "--url", url]) == 0
    [job] = json.loads(capsys.readouterr().out)
    assert job["id"] == {"base64": "/wB2bQ=="}
    assert main(["stuck", "--json", "--url", url]) == 1
    assert [one["id"] for one in json.loads(capsys.readouterr().out)] == [{"base64": "/g=="}]
    for command in (["stuck"], ["jobs", "p"], ["status"], ["dead", "discard"], ["purge"]):
        main([*command, "--url", url])
    assert "\udcff" not in capsys.readouterr().out
