"""The commands of operators as scripts see them: the fields, the exit codes and the streams that are promised."""

from __future__ import annotations

import json
import os
import pwd
import re
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from core._operations.yard import OTHER, QUEUE, Yard, now_ms
from qdeck._engine import keys

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import redis

    from support.commands import Ran

DEAD = {"id", "adapter", "queue", "queue_from", "error_class", "error_message", "failed_at", "attempts", "payload"}
GROUP = {"error_class", "message_shape", "queue", "count", "first_at", "last_at"}
BATCH = {"batch", "applied", "skipped", "undo_until"}
UNDO = {"batch", "restored", "skipped"}
STUCK = {"id", "adapter", "queue", "why", "age_s", "worker", "worker_alive"}
PLAN = {"plan", "created_at", "expires_at", "count", "bytes", "entries", "totals", "skipped"}


@pytest.fixture
def yard(url: str, raw: redis.Redis) -> Yard:
    return Yard(url, raw)


def test_dead_letters_are_listed(qdeck: Callable[..., Ran], yard: Yard) -> None:
    assert qdeck("dead", "--json").json == []
    first, second = yard.die(1), yard.die({"password": "x"}, event={"class": "KeyError", "message": "'a'"})
    Yard(yard.url, yard.raw, OTHER).die()
    ran = qdeck("dead", "--json")
    assert (ran.code, ran.err) == (0, "")
    assert len(ran.json) == 3
    assert all(set(letter) >= DEAD for letter in ran.json)
    ran = qdeck("dead", "list", QUEUE, "--json")
    assert [letter["id"] for letter in ran.json] == [second, first], "newest first"
    assert ran.json[0]["payload"] == [[{"password": "***"}], {}]
    assert ran.json[1]["error_class"] == "TimeoutError"
    assert [letter["id"] for letter in qdeck("dead", f"{QUEUE}:dead_letter", "--json").json] == [second, first]
    assert [letter["id"] for letter in qdeck("dead", "--where", "error:KeyError", "--json").json] == [second]
    cut = qdeck("dead", "--limit", "1", "--json")
    assert (len(cut.json), "--limit" in cut.err) == (1, True)
    assert first in qdeck("dead").out
    assert qdeck("dead", "--where", "nosuch:1").code == 64


def test_groups(qdeck: Callable[..., Ran], yard: Yard) -> None:
    yard.bulk_dead(40)
    ran = qdeck("dead", QUEUE, "--group", "--json")
    assert [set(group) >= GROUP for group in ran.json] == [True, True]
    assert [(g["error_class"], g["message_shape"], g["count"], g["exact"]) for g in ran.json] == [
        ("TimeoutError", "job N timed out after N s", 20, True),
        ("ValueError", "job N timed out after N s", 20, True),
    ]
    assert "job N timed out" in qdeck("dead", "--group").out


def test_undo_of_a_bury_says_which_jobs_were_running(qdeck: Callable[..., Ran], yard: Yard) -> None:
    yard.add()
    yard.claim()
    yard.add()
    assert qdeck("bury", QUEUE, "--all-running", "--yes").code == 0
    back = qdeck("undo", "--yes")
    assert back.code == 0
    assert "1 job had been running and is ready now; its worker lost the lease" in back.out


def test_retry_is_planned_then_done_then_undone(qdeck: Callable[..., Ran], yard: Yard, own_state: Path) -> None:
    yard.bulk_dead(30)
    before = yard.dump()
    plan = qdeck("dead", "retry", QUEUE, "--where", "error:Timeout*", "--json")
    assert plan.code == 1, "nothing was changed: --yes was not given"
    assert set(plan.json) >= PLAN
    assert plan.json["count"] == len(plan.json["entries"]) == 15
    assert yard.dump() == before, "a dry run writes nothing"
    assert "would retry 15 jobs" in qdeck("dead", "retry", QUEUE, "--where", "error:Timeout*", "--dry-run").out
    batch = qdeck("dead", "retry", "--apply", plan.json["plan"], "--json")
    assert batch.code == 0
    assert set(batch.json) >= BATCH
    assert (batch.json["applied"], batch.json["skipped"]) == (15, [])
    assert len(yard.ids("ready")) == 15
    again = qdeck("dead", "retry", "--apply", plan.json["plan"], "--json")
    assert (again.json["applied"], len(yard.ids("ready"))) == (15, 15), "twice is once"
    back = qdeck("undo", "--yes", "--json")
    assert set(back.json) >= UNDO
    assert (back.code, back.json["batch"], back.json["restored"]) == (0, batch.json["batch"], 15)
    assert yard.dump() == before
    again = qdeck("undo", batch.json["batch"], "--yes")
    assert again.code == 0
    assert "was undone by" in again.out
    assert "nothing was changed" in again.out
    assert qdeck("undo", "nix").code == 64
    lines = [json.loads(line) for line in qdeck("activity", "--json").out.splitlines()]
    assert [line["verb"] for line in lines][:2] == ["retry", "retry"]
    assert lines[-1]["verb"] == "undo"
    assert set(lines[0]) >= {"at", "who", "host", "verb", "filter", "detail", "counts", "outcome", "batch", "reason"}
    assert (own_state / "qdeck" / "plans" / f"{plan.json['plan']}.jsonl").exists()
    assert qdeck("activity", "--since", "1h", "--json").out.count("\n") == len(lines)
    assert qdeck("activity", "--since", "2999-01-01", "--json").out == ""
    assert qdeck("activity", "--since", "00:00", "--json").code == 0
    wrong = qdeck("activity", "--since", "25:00")
    assert (wrong.code, "UTC unless it has an offset" in wrong.err) == (64, True)
    assert qdeck("activity", "--since", "soon").code == 64
    assert "retry" in qdeck("activity").out


def test_every_verb_applies_a_plan_of_its_own_and_of_no_other(qdeck: Callable[..., Ran], yard: Yard) -> None:
    yard.die(1)
    yard.add("ready")
    yard.add("delayed", delay_ms=10**7)
    undone = []
    for verb, more in {
        "dead retry": (),
        "dead discard": (),
        "jobs cancel": (QUEUE, "--state", "delayed"),
        "jobs discard": (QUEUE, "--state", "dead"),
        "jobs move": (QUEUE, "--state", "delayed", "--to", OTHER, "--create"),
        "jobs run": (QUEUE,),
        "jobs reprioritise": (QUEUE, "--priority", "7"),
        "bury": (QUEUE, "--state", "ready"),
    }.items():
        plan = qdeck(*verb.split(), *more, "--json").json
        assert plan["count"] >= 1, verb
        other = "jobs run" if verb == "dead retry" else "dead retry"
        ran = qdeck(*other.split(), "--apply", plan["plan"])
        assert (ran.code, f"is for {plan['verb']}" in ran.err) == (64, True), verb
        ran = qdeck(*verb.split(), "--apply", plan["plan"], "--reason", "too late")
        assert (ran.code, "leave the other options out" in ran.err) == (64, True), verb
        ran = qdeck(*verb.split(), "--apply", plan["plan"], "--json")
        assert (ran.code, ran.json["applied"]) == (0, plan["count"]), verb
        undone.append(qdeck("undo", "--yes", "--json").json["restored"] == plan["count"])
    assert all(undone)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_who_is_stopped_says_what_was_done(
    qdeck: Callable[..., Ran], yard: Yard, own_state: Path, number: signal.Signals
) -> None:
    yard.bulk_dead(20)
    command = [sys.executable, "-m", "qdeck_console", "dead", "retry", "--yes", "--rate", "60/h", "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        until = time.monotonic() + 60
        while not yard.ids("ready") and time.monotonic() < until:
            time.sleep(0.05)
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    batch = json.loads(out)
    assert (process.returncode, batch["applied"], batch["stopped"]) == (130, 1, "it was cancelled")
    assert ("stopped: it was cancelled; to apply the rest: qdeck dead retry --apply " in err, "Traceback" in err) == (
        True,
        False,
    )
    line = json.loads(qdeck("activity", "--json").out.splitlines()[-1])
    assert (line["batch"], line["outcome"]) == (batch["batch"], "stopped")
    assert qdeck("dead", "retry", "--apply", batch["batch"][2:], "--json").json["applied"] == 20, "it goes on"


def test_a_closed_stream_is_no_fault_of_ours(url: str) -> None:
    for closed in ("<&-", ">&-", "2>&-", "<&- >&- 2>&-"):
        command = f'"$0" -m qdeck_console queues --url "$1" {closed}'
        ran = subprocess.run(
            ["sh", "-c", command, sys.executable, url], capture_output=True, text=True, timeout=60, check=False
        )
        assert (ran.returncode, ran.stderr.count("Error")) == (0, 0), closed
    command = '"$0" -m qdeck_console queues --json --url "$1" > /dev/full'
    ran = subprocess.run(
        ["sh", "-c", command, sys.executable, url], capture_output=True, text=True, timeout=60, check=False
    )
    assert (ran.returncode, ran.stderr) == (2, "qdeck: No space left on device\n")


def test_a_part_is_skipped(qdeck: Callable[..., Ran], yard: Yard) -> None:
    [job_id] = yard.bulk_dead(1)
    ran = qdeck("dead", "discard", QUEUE, "--id", job_id, "--id", "nope", "--yes", "--json")
    assert (ran.code, ran.json["applied"], ran.json["skipped"][0]["id"]) == (1, 1, "nope")
    assert f"qdeck: no job nope in {QUEUE}" in ran.err
    ran = qdeck("dead", "discard", QUEUE, "--yes")
    assert (ran.code, "no matching job" in ran.err) == (0, True)


def test_redrive(qdeck: Callable[..., Ran], yard: Yard) -> None:
    yard.bulk_dead(20)
    ran = qdeck("dead", "retry", QUEUE, "--yes", "--rate", "100/s", "--json")
    assert (ran.code, ran.json["applied"], ran.json["stopped"]) == (0, 20, None)
    assert ran.json["outcomes"]["waiting"] == 20
    assert qdeck("dead", "retry", QUEUE, "--yes", "--rate", "fast").code == 64


def test_export(qdeck: Callable[..., Ran], yard: Yard) -> None:
    job_id = yard.die(1)
    yard.die(2)
    lines = [json.loads(line) for line in qdeck("dead", "export", QUEUE).out.splitlines()]
    assert len(lines) == 2
    assert set(lines[0]) >= DEAD | {"history", "error"}
    [line] = qdeck("dead", "export", "--id", job_id).out.splitlines()
    assert json.loads(line)["id"] == job_id


def test_edit(qdeck: Callable[..., Ran], yard: Yard, tmp_path: Path) -> None:
    job_id = yard.die(1)
    file = tmp_path / "p.json"
    file.write_text("[[2], {}]")
    ran = qdeck("dead", "edit", QUEUE, job_id, "--payload", str(file), "--json")
    assert (ran.code, ran.json["applied"]) == (0, 1)
    assert yard.claim()[0].body == b"[[2],{}]"
    waiting = yard.add(1)
    assert qdeck("job", "edit", QUEUE, waiting, "--payload", str(file)).code == 0
    file.write_text("[")
    assert qdeck("job", "edit", QUEUE, waiting, "--payload", str(file)).code == 64
    assert qdeck("job", QUEUE, waiting, "--json").json["payload"] == [[2], {}]
    kinds = [event["kind"] for event in qdeck("job", QUEUE, waiting, "--json").json["history"]]
    assert kinds == ["enqueued", "edited"]


def test_stuck_jobs(qdeck: Callable[..., Ran], yard: Yard) -> None:
    assert (qdeck("stuck", "--json").json, qdeck("stuck").code) == ([], 0)
    ids = [yard.add(n) for n in range(4)]
    yard.claim(3, worker="gone", lease_ms=1)
    yard.claim(1, worker="w1")
    time.sleep(0.01)  # a lease is over when its last millisecond is
    ran = qdeck("stuck", "--json")
    assert ran.code == 1
    assert {job["id"] for job in ran.json} == set(ids[:3])
    assert all(set(job) >= STUCK for job in ran.json)
    assert {(job["code"], job["worker"], job["worker_alive"]) for job in ran.json} == {("owner_gone", "gone", False)}
    assert all(job["why"].startswith("worker lost, lease expired ") for job in ran.json)
    assert len(qdeck("stuck", QUEUE, "--where", "worker:gone", "--json").json) == 3
    plan = qdeck("requeue", QUEUE, "--json")
    assert {entry["id"] for entry in plan.json["entries"]} == set(ids[:3]), "the stuck ones only"
    assert qdeck("requeue", QUEUE, "--id", ids[0], "--yes", "--json").json["applied"] == 1
    assert yard.ids("ready") == [ids[0]]
    assert qdeck("bury", QUEUE, "--yes", "--json").json["applied"] == 2
    assert set(yard.ids("dead")) == set(ids[1:3])
    assert yard.ids("running") == [ids[3]], "one that is not stuck is skipped"
    assert qdeck("requeue", QUEUE, "--id", ids[3], "--yes").code == 0


def test_jobs_are_moved(qdeck: Callable[..., Ran], yard: Yard) -> None:
    ids = [yard.add(n) for n in range(3)]
    assert qdeck("jobs", "move", QUEUE, "--yes").code == 64, "where to?"
    for options in ((), ("--yes",), ("--json",)):
        ran = qdeck("jobs", "move", QUEUE, "--to", "shop:mial:actions", *options)
        assert (ran.code, "there is no queue 'shop:mial:actions'" in ran.err) == (64, True)
        assert f"Did you mean '{QUEUE}'? --create creates it." in ran.err
    assert len(yard.ids("ready")) == 3
    ran = qdeck("jobs", "move", QUEUE, "--to", OTHER, "--create", "--dry-run")
    assert (ran.code, f"caution: the queue {OTHER} does not exist and is created" in ran.out) == (0, True)
    ran = qdeck("jobs", "move", QUEUE, "--to", OTHER, "--create", "--yes", "--json")
    assert (ran.code, ran.json["applied"]) == (0, 3)
    assert Yard(yard.url, yard.raw, OTHER).ids("ready") == ids
    assert qdeck("undo", "--yes", "--json").json["restored"] == 3
    ran = qdeck("jobs", "move", QUEUE, "--to", OTHER, "--yes", "--json")
    assert ran.json["applied"] == 3, "it exists now"
    assert Yard(yard.url, yard.raw, OTHER).ids("ready") == ids
    assert qdeck("undo", "--yes", "--json").json["restored"] == 3
    assert yard.ids("ready") == ids


@pytest.mark.parametrize(
    "args",
    [
        ("dead", "retry", QUEUE, "--yes", "--dry-run"),
        ("dead", "retry", "no:such:actions"),
        ("dead", "retry", "--apply", "nix"),
        ("dead", "retry", "--apply", "nix", "--where", "x"),
        ("dead", "retry", QUEUE, "--sample", "0"),
        ("dead", "explode"),
        ("jobs", "cancel"),
        ("jobs", "reprioritise", QUEUE, "--priority", "sometime"),
        ("requeue", QUEUE, "--where", "age>"),
        ("job", "edit", QUEUE),
    ],
)
def test_wrong_usage(qdeck: Callable[..., Ran], yard: Yard, args: tuple[str, ...]) -> None:
    yard.bulk_dead(1)
    before = yard.dump()
    ran = qdeck(*args)
    assert (ran.code, ran.out) == (64, "")
    assert ran.err
    assert yard.dump() == before


def test_bury_of_all_running_jobs_takes_no_other(qdeck: Callable[..., Ran], yard: Yard) -> None:
    running = yard.add()
    yard.claim()
    yard.add(delay_ms=10**7)
    yard.add()
    ran = qdeck("bury", QUEUE, "--all-running", "--json")
    assert [entry["id"] for entry in ran.json["entries"]] == [running]
    assert qdeck("bury", QUEUE, "--all-running", "--yes").code == 0
    assert [len(yard.ids(state)) for state in ("running", "ready", "delayed", "dead")] == [0, 1, 1, 1]


def test_what_cannot_be_undone_says_so_when_it_is_done(qdeck: Callable[..., Ran], yard: Yard) -> None:
    yard.add()
    yard.claim()
    ran = qdeck("requeue", QUEUE, "--all-running", "--yes")
    assert (ran.code, "this cannot be undone: jobs cannot be returned to the workers" in ran.out) == (0, True)
    yard.bulk_dead(1)
    full = {"id": "b-full", "verb": "discard", "by": "x@y", "at_ms": now_ms(), "until_ms": now_ms() + 10**6}
    yard.raw.hset(keys.UNDO, "b-full", json.dumps(full | {"applied": 1, "bytes": 64 * 1024 * 1024}))
    ran = qdeck("dead", "discard", QUEUE, "--yes")
    assert (ran.code, ran.out) == (
        0,
        f"discarded 1 job from {QUEUE}\nthis cannot be undone: undo keeps 64 MiB at most\n",
    )


def test_the_log_says_until_when_each_operation_can_be_undone(qdeck: Callable[..., Ran], yard: Yard) -> None:
    yard.bulk_dead(2)
    qdeck("queues", "pause", QUEUE)
    first = qdeck("dead", "retry", QUEUE, "--id", yard.ids("dead")[0], "--yes", "--json").json["batch"]
    qdeck("dead", "discard", QUEUE, "--yes")
    qdeck("undo", first, "--yes")
    head, *rows = qdeck("activity").out.splitlines()
    assert "undo" in head.split()
    told = [row.split()[-2] if "b-" in row else row.split()[-1] for row in rows]
    assert told[:2] == ["no", "undone"]
    assert re.fullmatch(r"(23h|24h)\S*|\d+m", told[2]), rows
    assert told[3] == "-"


def test_a_job_from_the_command_line_is_in_the_log(qdeck: Callable[..., Ran]) -> None:
    made = qdeck("enqueue", QUEUE, "send", "--args", '["hunter2"]', "--name", "once", "--unique", "--json").json["id"]
    assert qdeck("enqueue", QUEUE, "send", "--name", "once", "--unique", "--json").json["created"] is False
    entries = [json.loads(row) for row in qdeck("activity", "--json").out.splitlines()]
    assert [(one["verb"], one["queues"], one["detail"], one["counts"]) for one in entries] == [
        ("enqueue", [QUEUE], f"send {made}", {}),
    ]


def test_the_name_in_the_log_is_that_of_the_account(qdeck: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch) -> None:
    account = pwd.getpwuid(os.getuid()).pw_name
    qdeck("enqueue", QUEUE, "send")
    for name in ("USER", "LOGNAME", "LNAME", "USERNAME"):
        monkeypatch.setenv(name, "somebody-else")
    monkeypatch.delenv("SUDO_USER", raising=False)
    qdeck("queues", "pause", QUEUE)
    monkeypatch.setenv("SUDO_USER", "ana")
    qdeck("queues", "resume", QUEUE, "--yes")
    monkeypatch.setenv("SUDO_USER", "eve@other\x1b[2J")
    qdeck("queues", "pause", QUEUE, "--yes")
    entries = [json.loads(row) for row in qdeck("activity", "--json").out.splitlines()]
    named = [one["who"] for one in entries if one["verb"] != "enqueue"]
    assert named == [account, f"{account} (sudo ana)", account]
