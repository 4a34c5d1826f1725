"""What can be dangerous about a server, each on a real one: `doctor` names it with what to do, `health` judges it."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest

from qdeck import ServerRefused
from qdeck.admin import Configuration, DoctorCheck, HealthReport, Reader, Settings, Status, Target, Writer
from support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from support.servers import Server

QUEUE = "demo:mail:actions"


def look(url: str) -> tuple[dict[str, DoctorCheck], HealthReport, dict[str, Any]]:
    """What doctor finds by name, the report on health, and its checks by name."""
    with Writer(url) as writer:
        found = writer.diagnosis(Configuration(settings=Settings()), Target(url=url), read_only=False).checks
        report = writer.health()
    return {one.name: one for one in found}, report, {check.name: check for check in report.checks}


def test_a_server_that_may_throw_data_away(make_server: Callable[..., Server]) -> None:
    """Eviction policy: only with a memory limit can it bite."""
    server = make_server("--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru")
    found, report, checks = look(server.url)
    assert (found["eviction"].ok, found["eviction"].hint) == (False, "Set maxmemory-policy noeviction.")
    assert "allkeys-lru" in found["eviction"].detail
    assert (report.status, checks["eviction"].status) == (Status.DEGRADED, Status.DEGRADED)
    with server.client() as raw:
        raw.config_set("maxmemory", 0)
        assert look(server.url)[0]["eviction"].ok
        raw.config_set("maxmemory", "100mb")
        raw.config_set("maxmemory-policy", "noeviction")
    found, report, _ = look(server.url)
    assert (found["eviction"].ok, report.status) == (True, Status.HEALTHY)


@pytest.mark.parametrize(
    ("share", "status"), [(0.5, Status.HEALTHY), (0.94, Status.DEGRADED), (1.05, Status.UNHEALTHY)]
)
def test_memory_near_its_limit(make_server: Callable[..., Server], share: float, status: Status) -> None:
    """'memory near limit': 90 % warns, 98 % is critical"""
    server = make_server("--maxmemory-policy", "noeviction")
    with server.client() as raw:
        raw.setrange("ballast", 30_000_000, b"x")  # beside which what connections take does not count
        raw.config_set("maxmemory", round(raw.info("memory")["used_memory"] / share))
    found, report, checks = look(server.url)
    assert found["memory"].ok is (status is Status.HEALTHY)
    assert (report.status, checks["memory"].status) == (status, status)
    if status is not Status.HEALTHY:
        assert "Raise maxmemory" in found["memory"].hint
        assert "of its memory limit" in report.findings[0].text
    if status is Status.UNHEALTHY:
        with Writer(server.url) as writer, pytest.raises(ServerRefused, match="memory"):
            writer.enqueue(QUEUE, "t")


@pytest.mark.parametrize(
    ("arguments", "ok", "told", "value"),
    [
        (("--save", ""), False, "snapshots off: a restart loses every job", "none"),
        (("--save", "3600 1"), True, "snapshots only", "snapshots"),
        (("--appendonly", "yes"), True, "an append-only file", "aof"),
    ],
)
def test_what_a_restart_keeps(
    make_server: Callable[..., Server], arguments: tuple[str, ...], ok: bool, told: str, value: str
) -> None:
    """One finding, in doctor, in health and in the status."""
    server = make_server(*arguments)
    found, report, checks = look(server.url)
    assert (found["persistence"].ok, told in found["persistence"].detail) == (ok, True)
    assert ("appendonly yes" in found["persistence"].hint) is (value != "aof")
    assert (checks["persistence"].value, checks["persistence"].detail) == (value, found["persistence"].detail)
    status = Status.HEALTHY if ok else Status.DEGRADED
    with Reader(server.url) as reader:
        assert (checks["persistence"].status, report.status, reader.snapshot().status) == (status, status, status)


def test_what_a_restart_keeps_is_unknown_without_config(make_server: Callable[..., Server]) -> None:
    server = make_server("--save", "")
    with server.client() as raw:
        raw.execute_command("ACL", "SETUSER", "default", "-config")
    found, report, checks = look(server.url)
    assert (found["persistence"].ok, found["persistence"].hint) == (None, "Give this user +config|get")
    assert (checks["persistence"].status, report.status) == (None, Status.HEALTHY)


def test_a_replica_cannot_be_changed(make_server: Callable[..., Server]) -> None:
    """'replica read-only': named before anybody tries, and when somebody does"""
    master = make_server("--repl-diskless-sync-delay", "0")
    with Writer(master.url) as writer:
        job = writer.enqueue(QUEUE, "t")
    replica = make_server("--replicaof", "127.0.0.1", str(master.port))
    with replica.client() as raw:
        wait_until(lambda: raw.exists(f"{{{QUEUE}}}:ready"))
    found, report, checks = look(replica.url)
    assert (found["role"].ok, checks["role"].status) == (False, Status.DEGRADED)
    assert "Sentinel" in found["role"].hint
    assert any("replica" in reason.text for reason in report.findings)
    with Writer(replica.url) as writer:
        assert writer.find(job.id)[0].state == "ready", "looking works"
        with pytest.raises(ServerRefused, match=r"(?i)read.?only replica"):
            writer.enqueue(QUEUE, "t")


def test_a_server_that_fails_to_save(make_server: Callable[..., Server], tmp_path: Path) -> None:
    """'failing saves': unhealthy, because it may refuse writes, and a restart loses them"""
    server = make_server("--save", "3600 1", "--enable-protected-configs", "local")
    folder = tmp_path / "data"
    folder.mkdir()
    with Writer(server.url) as writer, server.client() as raw:
        raw.config_set("dir", str(folder))
        shutil.rmtree(folder)
        raw.bgsave()
        wait_until(lambda: raw.info("persistence")["rdb_last_bgsave_status"] == "err")
        found, report, checks = look(server.url)
        assert (found["saving"].ok, "disk" in found["saving"].hint) == (False, True)
        assert (report.status, checks["saving"].status) == (Status.UNHEALTHY, Status.UNHEALTHY)
        with pytest.raises(ServerRefused):
            writer.enqueue(QUEUE, "t")
        folder.mkdir()
        raw.config_set("dir", str(folder))
        raw.bgsave()
        wait_until(lambda: raw.info("persistence")["rdb_last_bgsave_status"] == "ok")
    found, report, _ = look(server.url)
    assert (found["saving"].ok, report.status) == (True, Status.HEALTHY)
