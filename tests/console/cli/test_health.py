"""`qdeck health` and `qdeck doctor` as scripts see them, and contexts on every command."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from qdeck._server import finding_times
from qdeck.admin import Writer, iso
from support.commands import write_trusted

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import redis

    from support.commands import Ran
    from support.servers import Server

QUEUE = "demo:mail:actions"
META = "{demo:mail:actions}:meta"
REPORT = {"status", "findings", "queues", "tasks", "processing_rate", "errors", "checks"}
ERRORS = {"dlq_size", "stuck_count", "late_count", "orphaned_count", "stuck_vm_count", "orphaned_metadata_count"}


@pytest.fixture
def contexts(url: str, tmp_path: Path) -> Path:
    file = tmp_path / "qdeck.toml"
    write_trusted(
        file,
        f"""
default_context = "local"
[contexts.local]
url = "{url}"
thresholds = {{ dlq_max_warning = 3 }}
[contexts.shop]
url = "{url.replace("/0", "/1")}"
environment = "production"
[contexts.frozen]
url = "{url}"
read_only = true
[contexts.far]
url = "redis://:${{NO_SUCH_VARIABLE}}@127.0.0.1:1"
""",
    )
    return file


def test_the_json_is_the_report_of_the_document(qdeck: Callable[..., Ran]) -> None:
    """'GET /api/v1/queue/health returns: Health metrics JSON': the same report"""
    qdeck("enqueue", QUEUE, "t")
    report = qdeck("health", "--json").json
    assert set(report) >= REPORT
    row = report["queues"]["ready"][f"native/{QUEUE}"]
    assert set(row) >= {"size", "oldest_age", "avg_age", "stuck_count"}
    assert row["size"] == 1
    assert row["oldest_age"] >= row["avg_age"] >= 0
    assert set(report["errors"]) == ERRORS
    assert report["errors"] == dict.fromkeys(ERRORS, 0)
    assert report["processing_rate"] is None, "one look knows no rates"
    assert report["tasks"] == {}, "only other systems keep such counts"
    for check in report["checks"]:
        assert set(check) >= {"name", "ok", "status", "detail"}


@pytest.mark.parametrize(
    ("dead", "status", "code", "word"),
    [
        (0, "healthy", 0, "OK"),
        (100, "healthy", 0, "OK"),
        (101, "degraded", 1, "WARNING"),
        (1000, "degraded", 1, "WARNING"),
        (1001, "unhealthy", 2, "CRITICAL"),
    ],
)
def test_exit_codes_are_the_verdict(
    qdeck: Callable[..., Ran], raw: redis.Redis, dead: int, status: str, code: int, word: str
) -> None:
    """'Overall health status is determined'"""
    qdeck("queues", "pause", QUEUE)
    qdeck("enqueue", QUEUE, "t")
    raw.hset(META, mapping={"dead_letter": dead, "ready": 0})
    ran = qdeck("health", "--json")
    assert (ran.code, ran.json["status"], ran.json["errors"]["dlq_size"]) == (code, status, dead)
    assert qdeck("status").code == code
    assert qdeck("health").out.startswith(status)
    nagios = qdeck("health", "--nagios")
    assert nagios.code == code
    assert nagios.out.startswith(f"QDECK {word} - ")
    assert f"| dead={dead};100;1000 " in nagios.out
    assert nagios.out.count("\n") == 1


def test_nagios_of_a_server_that_is_away_and_of_what_is_unknown(qdeck: Callable[..., Ran], raw: redis.Redis) -> None:
    """With `health --nagios` an unreachable server is 2, an unknown state 3."""
    assert qdeck("health", "--url", "redis://127.0.0.1:1").code == 69
    away = qdeck("health", "--nagios", "--url", "redis://127.0.0.1:1")
    assert (away.code, away.out[:16]) == (2, "QDECK CRITICAL -")
    raw.execute_command("ACL", "SETUSER", "blind", "on", ">pw", "+ping")
    url = _as(qdeck, "blind")
    unknown = qdeck("health", "--nagios", "--url", url)
    assert (unknown.code, unknown.out[:15]) == (3, "QDECK UNKNOWN -")
    assert qdeck("health", "--url", url).code == 77


def _as(qdeck: Callable[..., Ran], user: str) -> str:
    import os

    return os.environ["QDECK_URL"].replace("redis://", f"redis://{user}:pw@")


def test_who_may_only_read_is_told_what_is_unknown(qdeck: Callable[..., Ran], raw: redis.Redis) -> None:
    qdeck("enqueue", QUEUE, "t")
    raw.execute_command("ACL", "SETUSER", "looker", "on", ">pw", "+@read", "~*")
    ran = qdeck("health", "--json", "--url", _as(qdeck, "looker"))
    assert ran.code == 1, "no worker"
    checks = {check["name"]: check for check in ran.json["checks"]}
    assert (checks["memory"]["ok"], checks["memory"]["status"]) == (None, "unknown")
    assert "memory is unknown" in checks["memory"]["detail"]
    assert "INFO" in ran.err


def test_doctor(qdeck: Callable[..., Ran], contexts: Path) -> None:
    ran = qdeck("doctor", "--json", "--context", "local")
    checks = {check["name"]: check for check in ran.json["checks"]}
    assert all(set(check) == {"name", "ok", "code", "detail", "hint", "command"} for check in ran.json["checks"])
    assert {"config", "context", "connection", "version", "clock", "looking", "changing", "persistence"} <= set(checks)
    assert {"scripts", "adapters", "workers", "abilities", "eviction", "memory"} <= set(checks)
    assert (ran.code, [name for name, check in checks.items() if check["ok"] is False]) == (0, [])
    assert "qdeck.toml is valid; contexts: local, shop, frozen, far" in checks["config"]["detail"]
    assert "persistence" in qdeck("doctor").out


def test_doctor_when_the_server_is_away_or_refuses(qdeck: Callable[..., Ran], raw: redis.Redis) -> None:
    away = qdeck("doctor", "--json", "--url", "redis://127.0.0.1:1")
    assert (away.code, away.json["checks"][-1]["name"], away.json["checks"][-1]["ok"]) == (69, "connection", False)
    refused = qdeck("doctor", "--json", "--url", _as(qdeck, "nobody"))
    assert refused.code == 77
    assert "pw" not in refused.out.replace("password", "")


def test_doctor_on_a_server_that_is_well(qdeck: Callable[..., Ran], make_server: Callable[..., Server]) -> None:
    server = make_server(appendonly=True)
    ran = qdeck("doctor", "--json", "--url", server.url)
    assert [check for check in ran.json["checks"] if not check["ok"]] == []
    assert ran.code == 0


def test_a_context_brings_its_url_and_thresholds(
    qdeck: Callable[..., Ran], raw: redis.Redis, contexts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    qdeck("enqueue", QUEUE, "t")
    raw.hset(META, mapping={"dead_letter": 4, "ready": 0})
    assert qdeck("status").code == 0, "QDECK_URL is used before the default context"
    assert qdeck("status", "--context", "local").code == qdeck("health", "--context", "local").code == 1
    monkeypatch.delenv("QDECK_URL")
    assert qdeck("health").code == 1, "the default context"
    assert qdeck("health", "--config", str(contexts), "--context", "shop").code == 0


def test_production_takes_its_name_before_anything_is_written(
    qdeck: Callable[..., Ran], raw: redis.Redis, contexts: Path
) -> None:
    """In a production context every writing command needs `--confirm NAME`."""
    before = raw.execute_command("DEBUG", "DIGEST")
    ran = qdeck("enqueue", QUEUE, "t", "--context", "shop")
    assert ran.code == 77
    assert "--confirm shop" in ran.err
    assert qdeck("enqueue", QUEUE, "t", "--context", "shop", "--confirm", "local").code == 64
    assert qdeck("enqueue", QUEUE, "t", "--confirm", "shop").code == 64
    assert raw.execute_command("DEBUG", "DIGEST") == before
    assert qdeck("enqueue", QUEUE, "t", "--context", "shop", "--confirm", "shop").code == 0
    assert qdeck("status", "--context", "shop").code == 1, "looking takes no ceremony; no worker serves the queue"
    frozen = qdeck("enqueue", QUEUE, "t", "--context", "frozen", "--confirm", "frozen")
    assert frozen.code == 77
    assert "read_only = true" in frozen.err


@pytest.mark.parametrize(
    ("text", "args", "said"),
    [
        ("[purge]\nmax_redy_age = 1", ["status"], "Did you mean 'max_ready_age'?"),
        ("[purge]\nmax_ready_age = 'x'", ["health"], "qdeck.toml: purge.max_ready_age"),
        ("[contexts.a]\nurl = 'x'", ["status", "--context", "b"], "there is no context 'b'"),
        ("[contexts.a]\nurl = '${NO_SUCH_VARIABLE}'", ["status", "--context", "a"], "NO_SUCH_VARIABLE is not set"),
        ("x = ", ["doctor"], "is not TOML"),
        ("", ["status", "--config", "none.toml"], "none.toml cannot be read"),
        ("[contexts.a]\nurl = 'x'", ["status", "--context", "a", "--url", "redis://h"], "exclude each other"),
    ],
)
def test_wrong_configuration_is_64(
    qdeck: Callable[..., Ran], tmp_path: Path, text: str, args: list[str], said: str
) -> None:
    write_trusted(tmp_path / "qdeck.toml", text)
    ran = qdeck(*args)
    assert ran.code == 64
    assert said in ran.err
    assert ran.out == ""


def test_a_password_is_never_printed(
    qdeck: Callable[..., Ran], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    monkeypatch.setenv("SECRET", "hunter2")
    where = url.replace("redis://", "redis://default:${SECRET}@")
    write_trusted(tmp_path / "qdeck.toml", f"[contexts.a]\nurl = '{where}'\n[contexts.b]\nurl = 'redis://u:hunter2@'\n")
    for args in (["doctor"], ["health"], ["health", "--json"], ["status"], ["purge"], ["doctor", "--json"]):
        for context in ("a", "b"):
            ran = qdeck(*args, "--context", context)
            assert "hunter2" not in ran.out + ran.err


def test_what_is_wrong_is_dated_where_an_agent_noted_it(qdeck: Callable[..., Ran], url: str) -> None:
    qdeck("enqueue", QUEUE, "t")
    qdeck("queues", "pause", QUEUE)
    [paused] = qdeck("health", "--json").json["findings"]
    assert paused == {
        "code": "paused", "severity": "degraded", "adapter": "native", "queue": QUEUE,
        "message": f"{QUEUE} is paused, 1 job waiting", "count": 1, "limit": None, "problem_code": None, "since": None,
        "since_exact": None, "cause": None, "hint": None, "command": None,
    }  # fmt: skip
    assert "is paused, 1 job waiting\n" in qdeck("health").out
    with Writer(url) as writer:
        report = writer.health()
        writer.write(finding_times.note(report.findings, report.thresholds, report.at_ms))
    [dated] = qdeck("health", "--json").json["findings"]
    assert dated == paused | {"since": iso(report.at_ms), "since_exact": False}
    assert "is paused, 1 job waiting, for " in qdeck("health").out
    assert qdeck("status", "--json").json["findings"] == [dated]
    assert "is paused, 1 job waiting, for " in qdeck("status").out
