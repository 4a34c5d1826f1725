"""Values that no sane program writes, under the names of the other systems: each look goes on."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import pytest

from core.adapters.test_purge import ago
from qdeck import UsageError
from qdeck._engine import codec
from qdeck._filter.fields import FIELDS
from qdeck.admin import State, Writer, read_rules
from qdeck_console.__main__ import main

if TYPE_CHECKING:
    import redis

NAMES = ("vmpooler", "ifdb", "scheduler", "lists")
SCORES = ("inf", "-inf", "1e300", "-1e300", "1e18", "-5", "0.5")
LONG = "9" * 5000
WORDS = (b"", b":", b"::", b"\xff\xfe", b"[red]x[/]", b"\x1b]0;x\x07", "\u202e".encode(), b"a" * 300)


def spoil(raw: redis.Redis) -> None:
    """Every key of every adapter, with the strangest scores and members."""
    for key in ("provisioning__request", "provisioning__processing", "odcreate__task", "dlq__pending", "dlq__tasks"):
        for number, score in enumerate(SCORES):
            raw.execute_command("ZADD", f"vmpooler__{key}", score, f"m{number}")
            raw.execute_command("ZADD", f"vmpooler__{key}", score, f'v{number}:{LONG}:{{"vm":1,"pool":["x"]}}')
        for word in WORDS:
            raw.zadd(f"vmpooler__{key}", {word: 5})
    raw.zadd("vmpooler__odcreate__task", {"a:b:²:r": 1, f"a:b:{LONG}:r": 1})
    raw.sadd("vmpooler__pools", *WORDS)
    for word in WORDS:
        for state in ("pending", "ready", "completed", "running"):
            raw.sadd(b"vmpooler__" + state.encode() + b"__" + word, word, b"vm")
        raw.hset(b"vmpooler__odrequest__" + word, mapping={"retry_count": LONG, "status": word, "requested": word})
        raw.hset(b"vmpooler__vm__" + word, mapping={"pool": word, "clone": "9999-12-31 23:59:59 +0000", "ready": LONG})
    raw.hset("vmpooler__health", mapping={"metrics": "[" * 3000, "status": b"\xff", "last_check": LONG})
    raw.set("vmpooler__tasks__clone", LONG)
    for number, score in enumerate(SCORES):
        raw.execute_command("ZADD", "ifdb:task_queue", score, f"t{number}")
        for key in ("priority", "delayed", "dlq"):
            raw.execute_command("ZADD", f"scheduler:queue:{key}", score, f"s{number}:HIGH")
            raw.execute_command("ZADD", f"scheduler:queue:{key}", score, f'{{"jobId":"j{number}","failedAt":{LONG}}}')
    odd = ("Infinity", "NaN", "1e400", LONG[:4000], '{"a":1}', '["x"]', "true", '"9999-12-31T23:59:59"', '"\\ud800"')
    for at, value in enumerate(odd):
        fields = ["priority", "dependency", "enqueue_time", "scheduled_time", "start_time", "retries_left", "log"]
        fields += ["name", "module", "finish_time"]
        for name in fields:
            raw.hset("ifdb:task_data", f"{name}{at}", f'{{"pending": true, "{name}": {value}}}')
            raw.zadd("ifdb:task_queue", {f"{name}{at}": 1})
            raw.rpush("shop:sub:actions", f'{{"{name}": {value}, "timestamp": {value}, "attempts": {value}}}')
        raw.hset("scheduler:processing", f"p{at}", f'{{"workerId": {value}, "startedAt": {value}}}')
    for word in WORDS:
        raw.hset("ifdb:task_data", word, json.dumps({"pending": True, "dependency": "t1"}))
        raw.zadd("ifdb:task_queue", {word: 1})
        raw.hset("scheduler:processing", word, word)
        raw.rpush(b"execution:run:free:" + word, word)
        raw.rpush("shop:sub:actions:dead_letter", word)


@pytest.mark.parametrize("name", NAMES)
def test_strange_values_stop_no_look(url: str, raw: redis.Redis, name: str) -> None:
    spoil(raw)
    with Writer(url, adapters=(name,)) as writer:
        rows = writer.snapshot().queues
        assert rows
        codec.encode_json([row.name.encode("utf-8", "replace").decode() for row in rows])
        for row in rows:
            for job in writer.jobs(row.name):
                for number in (job.since_ms, job.due_ms, job.enqueued_ms, job.failed_ms, job.attempts, job.priority):
                    assert number is None or abs(number) < 2**63, (job.key, number)
                assert job.age_s is None or job.age_s < 10**12
        writer.stuck()
        writer.groups()
        writer.plan_purge(read_rules(()))
        for verb in ("retry", "discard", "cancel", "run", "bury", "complete", "requeue"):
            try:
                writer.plan(verb)
            except UsageError:
                continue
        writer.run(writer.adapters.non_native[0].health(int(time.time() * 1000), writer.snapshot().queues))


LOOKS = (
    ["status"], ["jobs", "{queue}"], ["dead"], ["dead", "--group"], ["stuck"], ["health"], ["purge"], ["find", "vm"],
    ["job", "{queue}", "{id}"],
)  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("as_json", [False, True])
def test_strange_values_are_shown_as_text(
    url: str, raw: redis.Redis, name: str, as_json: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """No command fails, none writes a sign that steers a terminal, and JSON is JSON."""
    spoil(raw)
    with Writer(url, adapters=(name,)) as writer:
        rows = writer.snapshot().queues
        # An empty name alone is refused, as an unset shell variable would be; with its adapter it is taken.
        jobs = {row.name or f"{name}/": next(iter(writer.jobs(row.name))) for row in rows}
    assert jobs
    for command in LOOKS:
        for queue, job in list(jobs.items())[: None if "{queue}" in command else 1]:
            words = [word.format(queue=queue, id=job.key) for word in command]
            code = main([*words, "--adapter", name, "--url", url, *(["--json"] if as_json else [])])
            out, told = capsys.readouterr()
            assert code in ((0, 1, 2) if command == ["health"] else (0, 1)), (words, code, told)
            assert "Error" not in told, words
            if as_json:
                json.loads(out)
            for sign in (out + told).replace("\n", ""):
                assert sign.isprintable() or sign in " \t", (words, sign)


def test_secrets_of_a_record_are_masked_wherever_it_is_named(
    url: str, raw: redis.Redis, capsys: pytest.CaptureFixture[str]
) -> None:
    secret = "tok123secret"
    facts = {"vm": "v", "pool": "p", "jobId": "j", "action_id": "a", "token": secret, "reason": f"redis://u:{secret}@h"}
    text = json.dumps(facts)
    raw.sadd("vmpooler__pools", "p")
    raw.zadd("vmpooler__dlq__clone", {f"v:5:{text}": 5, text: 6})
    raw.hset("vmpooler__dlq__tasks", "t", text)
    raw.hset(f"vmpooler__token__{secret}", "user", "jdoe")
    raw.hset("vmpooler__health", mapping={"metrics": text, "status": f"redis://u:{secret}@h", "last_check": ago(60)})
    raw.zadd("scheduler:queue:dlq", {text: 5, f"redis://u:{secret}@h": 6})
    raw.hset("scheduler:processing", "h", text)
    raw.hset("ifdb:task_data", "t", json.dumps({"fail": True, "kwargs": facts, "log": f"Failed: {facts['reason']}"}))
    raw.rpush("shop:sub:actions:dead_letter", text)
    with Writer(url, adapters=NAMES) as writer:
        jobs = [job for row in writer.snapshot().queues for job in writer.jobs(row.name)]
    assert len(jobs) == 8
    looks = [["status"], ["dead"], ["dead", "--group"], ["health"], ["purge"], ["dead", "discard"]]
    for words in [*looks, *(["job", job.queue, job.key] for job in jobs)]:
        for more in ([], ["--json"]):
            assert main([*words, "--url", url, *more]) in (0, 1), words
            out, told = capsys.readouterr()
            assert secret not in out + told, words


@pytest.mark.parametrize("name", NAMES)
def test_every_field_filters_strange_values(url: str, raw: redis.Redis, name: str) -> None:
    """A filter that is none is refused; each other one, with its opposite, takes every entry once."""
    spoil(raw)
    paths = ("payload.vm", "payload.args[0]", "payload.a.b", "payload.priority", "payload.name")
    words = ("5", "<1h", "a*")
    with Writer(url, adapters=(name,)) as writer:
        row = max(writer.snapshot().queues, key=lambda one: sum(getattr(one, state) or 0 for state in State))
        whole = sorted(job.key for job in writer.jobs(row.name))
        used = 0
        for field in (*FIELDS, *paths):
            for word in words:
                try:
                    found = [job.key for job in writer.jobs(row.name, where=f"{field}:{word}")]
                except UsageError:
                    continue
                used += 1
                others = [job.key for job in writer.jobs(row.name, where=f"-{field}:{word}")]
                assert sorted(found + others) == whole, (field, word)
        assert used > 20
