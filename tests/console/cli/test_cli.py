"""The commands as scripts see them: the fields, the exit codes and the streams that are promised."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

from core.adapters import test_recurring as recurring
from core.adapters.rq import records as rq
from qdeck._engine import programs, transitions
from qdeck._redis import Endpoint, SyncClient
from qdeck.admin import actor

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import redis

    from support.commands import Ran
    from support.processes import PythonProcess
    from support.servers import Server

QUEUE = "demo:mail:actions"
STATUS = {"at", "server", "status", "findings", "adapters", "totals", "queues"}
TOTALS = {"ready", "delayed", "blocked", "running", "stuck", "late", "dead"}
ROW = {"adapter", "name", "ready", "delayed", "blocked", "running", "done", "dead", "stuck", "oldest_s", "paused"}
ROW |= {"in_per_s", "out_per_s"}
JOB = {"id", "adapter", "queue", "state", "name", "priority", "attempts", "enqueued_at", "due_at", "age_s", "worker"}
JOB |= {"payload", "key"}
DETAIL = JOB | {"history", "error", "depends_on", "dependents", "result", "log"}
FOUND = {"adapter", "queue", "id", "key", "state"}
BATCH = {"batch", "applied", "skipped"}
ISO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


def enqueue(qdeck: Callable[..., Ran], *args: str, queue: str = QUEUE) -> str:
    made: str = qdeck("enqueue", queue, "t", "--json", *args).json["id"]
    return made


def fail_one(url: str, event: dict[str, str]) -> str:
    client = SyncClient(Endpoint(url))
    [job] = client.run(programs.call(transitions.poll(QUEUE, "w1", 1, free_slots=1, lease_ms=60_000))).jobs
    ending = transitions.Ending(
        kind="failed", id=job.id, token=job.token, delay_ms=-1, event=json.dumps(event).encode()
    )
    client.run(programs.call(transitions.poll(QUEUE, "w1", 2, free_slots=0, lease_ms=60_000, endings=[ending])))
    client.close()
    return job.id


def test_status_fields(qdeck: Callable[..., Ran]) -> None:
    enqueue(qdeck)
    ran = qdeck("status", "--json")
    assert ran.code == 1, "nobody works on the queue"
    assert set(ran.json) >= STATUS
    assert set(ran.json["totals"]) == TOTALS
    assert set(ran.json["server"]) >= {"version", "mode", "role"}
    [row] = ran.json["queues"]
    assert set(row) >= ROW
    assert (row["adapter"], row["name"], row["ready"], row["in_per_s"]) == ("native", QUEUE, 1, None)
    assert ISO.fullmatch(ran.json["at"])
    assert ran.err == ""


def test_status_exits_with_the_verdict(qdeck: Callable[..., Ran], raw: redis.Redis) -> None:
    assert qdeck("status").code == 0
    enqueue(qdeck)
    assert qdeck("status").code == 1
    raw.hset(f"{{{QUEUE}}}:meta", "dead_letter", 5000)
    ran = qdeck("status")
    assert ran.code == 2
    assert "5,000 dead letters" in ran.out


def test_jobs_fields_and_order(qdeck: Callable[..., Ran]) -> None:
    ids = [enqueue(qdeck, "--args", f"[{n}]") for n in range(3)]
    late = enqueue(qdeck, "--delay", "60", "--name", "n")
    ran = qdeck("jobs", QUEUE, "--json")
    assert (ran.code, ran.err) == (0, "")
    assert [job["id"] for job in ran.json] == [*ids, late]
    assert all(set(job) >= JOB for job in ran.json)
    assert ran.json[0]["payload"] == [[0], {}]
    assert ISO.fullmatch(ran.json[3]["due_at"])
    assert [job["id"] for job in qdeck("jobs", QUEUE, "--json", "--state", "delayed").json] == [late]
    assert [job["id"] for job in qdeck("--json", "jobs", QUEUE, "--where", "payload.0:1").json] == [ids[1]]
    assert ids[0] in qdeck("jobs", QUEUE).out


def test_a_cut_is_told(qdeck: Callable[..., Ran]) -> None:
    for _ in range(3):
        enqueue(qdeck)
    ran = qdeck("jobs", QUEUE, "--limit", "2", "--json")
    assert (len(ran.json), ran.code) == (2, 0)
    assert "2 jobs listed, more exist (--limit 2)" in ran.err
    assert qdeck("jobs", QUEUE, "--limit", "3").err == ""
    assert qdeck("jobs", QUEUE, "--state", "dead", "--json").out == "[]\n"


def test_job_fields(qdeck: Callable[..., Ran], url: str) -> None:
    made = enqueue(qdeck, "--kwargs", '{"password": "p", "to": "a@b"}')
    child = enqueue(qdeck, "--after", made)
    fail_one(url, {"class": "pkg.Boom", "message": "no", "traceback": "tb"})
    ran = qdeck("job", QUEUE, made, "--json")
    assert set(ran.json) >= DETAIL
    assert {"class", "message", "traceback"} <= set(ran.json["error"])
    assert (ran.json["error"]["class"], ran.json["state"]) == ("Boom", "dead")
    assert ran.json["payload"] == [[], {"password": "***", "to": "a@b"}]
    assert [event["kind"] for event in ran.json["history"]] == ["enqueued", "failed", "dead"]
    assert all(ISO.fullmatch(event["at"]) for event in ran.json["history"])
    assert qdeck("job", QUEUE, child, "--json").json["state"] == "dead"
    assert "Boom: no" in qdeck("job", QUEUE, made).out
    assert qdeck("job", QUEUE, "nope").code == 64


def test_find_fields(qdeck: Callable[..., Ran]) -> None:
    made = enqueue(qdeck)
    [found] = qdeck("find", made, "--json").json
    assert set(found) >= FOUND
    assert (found["queue"], found["state"]) == (QUEUE, "ready")
    ran = qdeck("find", "nope", "--json")
    assert (ran.json, ran.code) == ([], 1)
    assert "nope" in ran.err


def test_enqueue_fields_and_unique_names(qdeck: Callable[..., Ran]) -> None:
    first = qdeck("enqueue", QUEUE, "t", "--name", "n", "--unique", "--json").json
    assert set(first) >= {"id", "created"}
    assert first["created"] is True
    again = qdeck("enqueue", QUEUE, "t", "--name", "n", "--unique", "--json")
    assert (again.json, again.code) == ({"id": first["id"], "created": False}, 0)
    at = qdeck("enqueue", QUEUE, "t", "--at", "2040-01-31T08:00:00", "--priority", "HIGH", "--json").json["id"]
    job = qdeck("job", QUEUE, at, "--json").json
    assert (job["due_at"], job["priority"]) == ("2040-01-31T08:00:00.000Z", 50)


@pytest.mark.parametrize(
    "args",
    [
        ("x", "t"),
        (QUEUE, "not a task"),
        (QUEUE, "t", "--args", "{"),
        (QUEUE, "t", "--args", "{}"),
        (QUEUE, "t", "--kwargs", "[]"),
        (QUEUE, "t", "--priority", "900"),
        (QUEUE, "t", "--priority", "URGENT"),
        (QUEUE, "t", "--delay", "-1"),
        (QUEUE, "t", "--delay", "soon"),
        (QUEUE, "t", "--delay", "1", "--at", "2040-01-01"),
        (QUEUE, "t", "--at", "tomorrow"),
        (QUEUE, "t", "--unique"),
        (QUEUE, "t", "--after", "nope"),
        (QUEUE, "t", "--after", "nope@other:x:actions"),
        (QUEUE, "t", "--retries", "-1"),
        (QUEUE, "t", "--args", json.dumps(["x" * 1_100_000])),
        (QUEUE,),
    ],
)
def test_a_wrong_enqueue_is_usage_and_makes_nothing(
    qdeck: Callable[..., Ran], raw: redis.Redis, args: tuple[str, ...]
) -> None:
    ran = qdeck("enqueue", *args)
    assert ran.code == 64
    assert ran.out == ""
    assert ran.err.startswith("qdeck: ")
    assert raw.exists(f"{{{QUEUE}}}:ready") == 0


def test_changes_are_planned_then_done(qdeck: Callable[..., Ran]) -> None:
    ids = [enqueue(qdeck) for _ in range(3)]
    plan = qdeck("jobs", "cancel", QUEUE, "--json")
    assert plan.code == 1, "nothing was changed: --yes was not given"
    assert (plan.json["count"], plan.json["states"]) == (3, {"ready": 3})
    assert [entry["id"] for entry in plan.json["entries"]] == ids
    assert "would cancel 3 jobs" in qdeck("jobs", "cancel", QUEUE, "--dry-run").out
    batch = qdeck("jobs", "cancel", QUEUE, "--id", ids[0], "--id", "nope", "--yes", "--json")
    assert batch.code == 1, "a part was skipped"
    assert set(batch.json) >= BATCH
    assert batch.json["applied"] == 1
    assert set(batch.json["skipped"][0]) >= {"id", "why"}
    assert qdeck("jobs", "reprioritise", QUEUE, "--id", ids[2], "--priority", "0", "--yes").code == 0
    assert [job["id"] for job in qdeck("jobs", QUEUE, "--state", "ready", "--json").json] == [ids[2], ids[1]]
    late = enqueue(qdeck, "--delay", "99")
    assert qdeck("jobs", "--json", "run", QUEUE, "--yes").json["applied"] == 1
    assert qdeck("find", late, "--json").json[0]["state"] == "ready"
    assert qdeck("jobs", "discard", QUEUE, "--where", "state:cancelled", "--yes").code == 0
    ran = qdeck("jobs", "discard", QUEUE, "--where", "state:cancelled", "--yes")
    assert (ran.code, "no matching job" in ran.err) == (0, True)


def test_a_job_in_a_new_queue_says_so(qdeck: Callable[..., Ran]) -> None:
    ran = qdeck("enqueue", QUEUE, "send", "--json")
    assert (ran.code, ran.err) == (0, f"qdeck: the queue {QUEUE} is new\n")
    assert qdeck("enqueue", QUEUE, "send").err == ""


def test_a_pause_of_all_queues_of_a_system_is_asked_for(qdeck: Callable[..., Ran], raw: redis.Redis) -> None:
    rq.put(raw, "mail", "one", "queued")
    ran = qdeck("queues", "pause", "mail", "--json")
    assert (ran.code, ran.json["changed"], "rq pauses all its queues at once" in ran.err) == (1, False, True)
    assert not raw.exists("rq:suspended")
    assert qdeck("queues", "pause", "mail", "--reason", "INC-42", "--yes").code == 0
    assert raw.exists("rq:suspended")
    assert qdeck("queues", "resume", "mail", "--yes").code == 0
    assert not raw.exists("rq:suspended")


def test_an_emptied_queue_is_filled_by_undo(qdeck: Callable[..., Ran], raw: redis.Redis) -> None:
    for job, state in (("one", "queued"), ("two", "queued"), ("later", "scheduled"), ("failed", "failed")):
        rq.put(raw, "mail", job, state)
    plan = qdeck("queues", "empty", "mail", "--json")
    assert (plan.code, plan.json["count"], raw.llen("rq:queue:mail")) == (1, 2, 2)
    assert qdeck("queues", "empty", "--delayed", "--apply", plan.json["plan"]).code == 64
    done = qdeck("queues", "empty", "--apply", plan.json["plan"], "--json")
    assert (done.code, done.json["applied"], raw.llen("rq:queue:mail")) == (0, 2, 0)
    assert (raw.zcard("rq:scheduled:mail"), raw.zcard("rq:failed:mail")) == (1, 1)
    assert qdeck("undo", "--yes").code == 0
    assert raw.lrange("rq:queue:mail", 0, -1) == [b"one", b"two"]
    assert qdeck("queues", "empty", "mail", "--delayed", "--yes", "--json").json["applied"] == 3


def test_schedules_of_other_systems_are_listed_and_say_how_they_run(
    qdeck: Callable[..., Ran], raw: redis.Redis
) -> None:
    recurring.fill_bullmq(raw)
    rows = {row["name"]: row for row in qdeck("schedule", "--json").json}
    assert (rows["nightly"]["adapter"], rows["nightly"]["queue"]) == ("bullmq", "post")
    assert qdeck("schedule", "run", "nightly", "--json").json["id"] == rows["nightly"]["next_id"]
    assert raw.llen("bull:post:wait") == 1
    for verb in ("run", "resume", "pause"):
        ran = qdeck("schedule", verb, "every")
        assert (ran.code, f"qdeck cannot {verb} the schedule 'every' of bullmq" in ran.err) == (64, True)
        assert "upsertJobScheduler" in ran.err


def test_pause_and_resume(qdeck: Callable[..., Ran], raw: redis.Redis) -> None:
    enqueue(qdeck)
    assert qdeck("queues", "pause", QUEUE, "--json").json == {
        "adapter": "native", "queue": QUEUE, "paused": True, "changed": True,
    }  # fmt: skip
    assert raw.hget(f"{{{QUEUE}}}:meta", "paused") is not None
    assert qdeck("queues", "resume", QUEUE).code == 0
    assert raw.hget(f"{{{QUEUE}}}:meta", "paused") is None
    assert qdeck("queues", "pause", QUEUE, "--reason", "INC-42").code == 0
    told = f"{QUEUE} was paused by {actor()}, "
    ran = qdeck("queues", "pause", QUEUE, "--reason", "INC-43")
    assert (ran.code, told in ran.err) == (1, True)
    assert f"{QUEUE} is paused already by {actor()}, " in qdeck("queues", "pause", QUEUE).out
    assert b"INC-42" in (raw.hget(f"{{{QUEUE}}}:meta", "paused") or b"")
    assert qdeck("queues", "pause", QUEUE, "--reason", "INC-44", "--yes").code == 0
    assert b"INC-44" in (raw.hget(f"{{{QUEUE}}}:meta", "paused") or b"")
    assert qdeck("queues", "pause", QUEUE, "--reason", "INC-42", "--yes").code == 0
    [row] = qdeck("queues", "--json").json
    assert (row["paused"], row["pause"]["who"], row["pause"]["reason"]) == (True, actor(), "INC-42")
    ran = qdeck("queues", "resume", QUEUE)
    assert ran.code == 1, "a reason stands, and there is no terminal to ask at"
    assert f"{QUEUE} was paused by {actor()}, 0s ago: INC-42" in ran.err
    assert "--yes does it" in ran.err
    assert raw.hget(f"{{{QUEUE}}}:meta", "paused") is not None
    assert qdeck("queues", "resume", QUEUE, "--yes").code == 0
    assert raw.hget(f"{{{QUEUE}}}:meta", "paused") is None
    raw.hset(f"{{{QUEUE}}}:meta", "paused", json.dumps({"who": "ana@ops-1"}))
    assert "by ana@ops-1" in qdeck("queues", "resume", QUEUE).err
    ran = qdeck("queues", "pause", "demo:mial:actions")
    assert (ran.code, QUEUE in ran.err) == (64, True)


def test_workers_are_listed_and_asked(qdeck: Callable[..., Ran], raw: redis.Redis) -> None:
    assert qdeck("workers", "--json").json == []
    said = {
        "queues": [QUEUE],
        "heartbeat_ms": int(time.time() * 1000),
        "state": "running",
        "host": "h",
        "pid": 7,
        "rss": 1,
    }
    raw.hset("qdeck:workers", "h.7.x", json.dumps(said))
    [row] = qdeck("workers", "--json").json
    assert {"id", "host", "pid", "queues", "alive", "heartbeat_s", "running"} <= set(row)
    assert row["alive"] is True
    ran = qdeck("workers", "stop", "h.7.x")
    assert (ran.code, f"no other worker serves {QUEUE}" in ran.err) == (1, True)
    assert raw.hget("qdeck:control", "h.7.x") is None
    assert qdeck("workers", "quiet", "h.7.x", "--yes").code == 0
    assert raw.hget("qdeck:control", "h.7.x") == b"quiet"
    assert qdeck("workers", "resume", "h.7.x").code == 0
    assert raw.hget("qdeck:control", "h.7.x") is None
    raw.hset("qdeck:control", "h.7.x", "quiet")
    ran = qdeck("workers", "resume", "h.7.x")
    assert (ran.code, "h.7.x was asked to be quiet by an unknown operator" in ran.err) == (1, True)
    assert raw.hget("qdeck:control", "h.7.x") == b"quiet"
    assert qdeck("workers", "resume", "h.7.x", "--yes").code == 0
    assert raw.hget("qdeck:control", "h.7.x") is None
    assert qdeck("workers", "stop", "h.7.x", "--yes").code == 0
    assert raw.hget("qdeck:control", "h.7.x") == b"stop"
    assert qdeck("workers", "resume", "h.7.x").code == 64, "a stop is not taken back"
    assert qdeck("workers", "quiet", "h.7.y").code == 64


def test_a_stop_does_not_count_on_workers_that_are_lost(qdeck: Callable[..., Ran], raw: redis.Redis) -> None:
    now = int(time.time() * 1000)
    said = {"queues": [QUEUE], "state": "running", "host": "h", "pid": 7}
    for name, ago_ms in (("only", 0), ("lost", 3_600_000), ("lost too", 3_600_000)):
        raw.hset("qdeck:workers", name, json.dumps(said | {"heartbeat_ms": now - ago_ms}))
    assert f"stop only: no other worker serves {QUEUE}\n" in qdeck("workers", "stop", "only").err
    told = qdeck("workers", "stop", "lost").err
    assert "stop lost: it is lost, last heartbeat 1h 00m ago, and does this only if it returns; other " in told
    raw.hdel("qdeck:workers", "only")
    told = qdeck("workers", "quiet", "lost").err
    assert f"only if it returns; no other worker serves {QUEUE}\n" in told
    assert "other workers serve" not in told


@pytest.mark.parametrize(
    "args",
    [
        ("stat",),
        ("status", "--nope"),
        ("status", "--adapter", "nope"),
        ("status", "--url", "localhost"),
        ("status", "--url", "redis://h:99999"),
        ("jobs",),
        ("jobs", QUEUE, "--where", "nosuch:1"),
        ("jobs", QUEUE, "--state", "asleep"),
        ("jobs", "no:such:actions"),
        ("jobs", "cancel", QUEUE, "--yes", "--dry-run"),
        ("jobs", "reprioritise", QUEUE),
        ("queues", "stop", QUEUE),
        ("worker", "nonsense"),
        ("worker", "no.such.module:app"),
        ("worker", "json:dumps"),
        ("worker", "json:dumps", "-q", f"{QUEUE}=0"),
        ("console",),
        (),
    ],
)
def test_wrong_usage_is_64(qdeck: Callable[..., Ran], args: tuple[str, ...]) -> None:
    ran = qdeck(*args)
    assert ran.code == 64, ran.err
    assert "Traceback" not in ran.err
    assert ran.err


def test_a_wrong_filter_is_pointed_at(qdeck: Callable[..., Ran]) -> None:
    ran = qdeck("jobs", QUEUE, "--where", "attempts>x")
    assert ran.err.splitlines()[2].index("^") == ran.err.splitlines()[1].index("x", 5)


def test_no_server_named_is_wrong_usage(qdeck: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("QDECK_URL")
    ran = qdeck("status")
    assert (ran.code, "no server given" in ran.err) == (64, True)
    monkeypatch.setenv("REDIS_URL", "redis://127.0.0.1:1")
    assert qdeck("status").code == 69


def test_an_unreachable_server_is_69_at_once(qdeck: Callable[..., Ran]) -> None:
    for args in (("status",), ("jobs", QUEUE), ("find", "x"), ("enqueue", QUEUE, "t"), ("queues", "pause", QUEUE)):
        start = time.monotonic()
        ran = qdeck(*args, "--url", "redis://u:hush@127.0.0.1:1")
        assert ran.code == 69
        assert time.monotonic() - start < 4
        assert "hush" not in ran.err + ran.out


def test_a_wrong_password_is_77_at_once(qdeck: Callable[..., Ran], make_server: Callable[..., Server]) -> None:
    port = make_server(password="right").port
    for url in (f"redis://:wrong@127.0.0.1:{port}", f"redis://127.0.0.1:{port}"):
        start = time.monotonic()
        ran = qdeck("status", "--url", url)
        assert (ran.code, time.monotonic() - start < 4) == (77, True)
        assert "wrong" not in ran.err


def test_a_user_who_may_only_read_can_look(qdeck: Callable[..., Ran], make_server: Callable[..., Server]) -> None:
    server = make_server()
    made = qdeck("enqueue", QUEUE, "t", "--url", server.url, "--json").json["id"]
    with server.client() as raw:
        raw.execute_command("ACL", "SETUSER", "looker", "on", ">pw", "~*", "+@read", "+ping", "+select", "-@dangerous")
    url = f"redis://looker:pw@127.0.0.1:{server.port}/0"
    ran = qdeck("status", "--url", url)
    assert ran.code == 1
    assert "clock" in ran.err
    assert "INFO" in ran.err
    for args in (
        ("jobs", QUEUE),
        ("job", QUEUE, made),
        ("find", made),
        ("workers",),
        ("jobs", "cancel", QUEUE, "--dry-run"),
    ):
        assert qdeck(*args, "--url", url).code == 0
    for write in (("queues", "pause", QUEUE), ("enqueue", QUEUE, "t"), ("jobs", "cancel", QUEUE, "--yes")):
        assert qdeck(*write, "--url", url).code == 77


NASTY = "\x1b[31mred\x9b2J\u202eevil\u2028\x07"


def test_no_control_character_reaches_stdout(qdeck: Callable[..., Ran], url: str) -> None:
    made = enqueue(qdeck, "--args", json.dumps([NASTY]))
    fail_one(url, {"class": "E", "message": NASTY, "traceback": NASTY})
    for args in (("jobs", QUEUE), ("job", QUEUE, made)):
        for more in ((), ("--json",)):
            ran = qdeck(*args, *more)
            assert ran.code == 0
            assert not set(NASTY) & set(ran.out) - set("[31mred2Jevil")
    assert qdeck("jobs", QUEUE, "--json").json[0]["payload"] == [[NASTY], {}]
    assert "\x1b" not in qdeck("jobs", NASTY).err


def test_bytes_that_are_no_text(qdeck: Callable[..., Ran], raw: redis.Redis) -> None:
    made = enqueue(qdeck)
    raw.hset(f"{{{QUEUE}}}:body", made, b"\xff\x00")
    assert qdeck("job", QUEUE, made, "--json").json["payload"] == {"base64": "/wA="}
    assert qdeck("jobs", QUEUE).code == 0


def command(*args: str, **more: Any) -> subprocess.CompletedProcess[str]:
    started = [sys.executable, "-m", "qdeck_console", *args]
    return subprocess.run(started, capture_output=True, text=True, timeout=30, check=False, **more)


def test_help_and_version_import_little() -> None:
    for args in (["--version"], ["--help"]):
        shown = command(*args, env={**os.environ, "PYTHONPROFILEIMPORTTIME": "1"})
        assert shown.returncode == 0
        imported = set(re.findall(r"\| +(\w+)", shown.stderr))
        assert "click" in imported, "the import times were not understood"
        assert imported.isdisjoint({"redis", "textual", "rich", "hiredis", "msgspec", "asyncio"})


def test_every_command_has_help(qdeck: Callable[..., Ran]) -> None:
    top = qdeck("--help").out
    for words in ("status", "jobs", "job", "find", "enqueue", "worker", "workers", "demo", "console"):
        assert words in top
        ran = qdeck(words, "--help")
        assert (ran.code, "Shared options: qdeck --help" in ran.out) == (0, True)
    for words in ("cancel", "discard", "run", "reprioritise"):
        assert "--dry-run" in qdeck("jobs", words, "--help").out


def test_a_reader_that_goes_away_is_no_error(url: str, qdeck: Callable[..., Ran]) -> None:
    for _ in range(40):
        enqueue(qdeck, "--args", json.dumps(["x" * 10_000]))
    started = [sys.executable, "-m", "qdeck_console", "jobs", QUEUE, "--json"]
    with subprocess.Popen(started, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(20) == 0


APP = """
import qdeck
app = qdeck.App(queue="demo:mail:actions")

@app.task
def add(a, b):
    print("adding")
    return a + b
"""


def test_a_worker_runs_jobs_until_sigterm(
    qdeck: Callable[..., Ran], url: str, tmp_path: Path, make_process: Callable[..., PythonProcess]
) -> None:
    tmp_path.joinpath("shop_jobs.py").write_text(APP)
    process = make_process(
        "-m",
        "qdeck_console",
        "worker",
        "shop_jobs:app",
        "-q",
        f"{QUEUE}=2",
        "--json",
        env={"QDECK_URL": url},
        cwd=tmp_path,
    )
    process.wait_for("started")
    made: str = qdeck("enqueue", QUEUE, "add", "--args", "[1, 2]", "--json").json["id"]
    until = time.monotonic() + 10
    while (job := qdeck("job", QUEUE, made, "--json").json)["state"] != "done":
        assert time.monotonic() < until
        time.sleep(0.05)
    assert (job["result"], job["log"].strip()) == (3, "adding")
    [row] = qdeck("workers", "--json").json
    assert (row["queues"], row["alive"]) == ({QUEUE: 1}, True)
    assert qdeck("status").code == 0
    process.signal(signal.SIGTERM)
    assert process.wait() == 0
    events = [json.loads(line) for line in process.stdout]
    assert [event["event"] for event in events][:1] == ["started"]
    assert events[-1]["event"] == "stopped"
    assert all({"at", "event", "worker"} <= set(event) for event in events)
    assert "adding" in process.stderr


def test_ctrl_c_is_130(monkeypatch: pytest.MonkeyPatch, qdeck: Callable[..., Ran]) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("qdeck.admin.Reader.snapshot", interrupted)
    ran = qdeck("status")
    assert (ran.code, "Traceback" in ran.err) == (130, False)


def test_a_fault_of_ours_is_told_in_words(monkeypatch: pytest.MonkeyPatch, qdeck: Callable[..., Ran]) -> None:
    def faulty(*_: object, **__: object) -> None:
        raise RuntimeError("oops")

    monkeypatch.setattr("qdeck.admin.Reader.snapshot", faulty)
    ran = qdeck("status")
    assert (ran.code, "RuntimeError: oops" in ran.err, "Traceback" in ran.err) == (2, True, False)
