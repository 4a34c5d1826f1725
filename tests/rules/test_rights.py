"""The published rights of each role are enough for what it does, and not more than they say."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import qdeck as core
from agent.running import running
from qdeck._rules import rights
from support.commands import runner
from support.scene import QUEUE, make_scene

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import redis

    from support.processes import PythonProcess
    from support.servers import Server

ROOT = Path(__file__).resolve().parents[2]
LOOKING = (
    "status", "queues", "jobs $QUEUE", "job $QUEUE $ID", "find $ID", "stuck", "dead list", "dead --group",
    "dead export", "dead retry --where error:Timeout*", "jobs cancel $QUEUE --dry-run", "requeue --dry-run", "purge",
    "activity", "health", "doctor", "workers", "schedule list", "clean --orphans", "snapshot",
)  # fmt: skip
ACTING = (
    "enqueue $QUEUE send --args [1]", "dead retry $QUEUE --yes", "undo", "jobs cancel $QUEUE --yes", "undo",
    "jobs discard $QUEUE --yes", "undo", "queues pause $QUEUE", "queues resume $QUEUE", "requeue --all-running --yes",
    "purge --now --yes", "undo", "clean --orphans --yes", "schedule list",
)  # fmt: skip
SCREENS = ("queues", "jobs", "stuck", "dead", "purge", "schedules", "workers", "health", "activity")


class Roles:
    """A server on which users get their rights from the published lines."""

    def __init__(self, server: Server, raw: redis.Redis) -> None:
        self.server, self.raw = server, raw

    def url(self, role: str, **options: Any) -> str:
        words = shlex.split(rights.line(role, **options))
        self.raw.execute_command(*words, ">pw")
        self.raw.execute_command("ACL", "LOG", "RESET")
        return self.server.url.replace("redis://", f"redis://qdeck-{role}:pw@")

    def denied(self) -> set[str]:
        log: list[dict[str, Any]] = self.raw.acl_log()
        return {f"{entry['reason']} {entry['object']}" for entry in log}


@pytest.fixture
def roles(make_server: Callable[..., Server]) -> Iterator[Roles]:
    server = make_server()
    with server.client() as raw:
        yield Roles(server, raw)


def of(words: dict[str, str], line: str) -> list[str]:
    return [words[word[1:]] if word.startswith("$") else word for word in line.split()]


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_a_viewer_sees_everything_and_writes_nothing(
    roles: Roles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    url = roles.url("viewer")
    words, qdeck = make_scene(roles.server.url, roles.raw).words(), runner(capsys)
    for line in LOOKING:
        ran = qdeck(*of(words, line), "--url", url)
        assert ran.code in (0, 1), (line, ran.err)
        assert "not allowed" not in ran.err, line
    for screen in SCREENS:
        assert qdeck("snapshot", "--screen", screen, "--url", url).code == 0, screen
    assert qdeck("status", "--url", url.replace("/0", "/5")).code in (0, 1)
    assert roles.denied() <= {"command acl|dryrun", "command evalsha"}  # what doctor finds out
    assert qdeck("queues", "pause", QUEUE, "--url", url).code == 77


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_an_operator_does_everything(
    roles: Roles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    url = roles.url("operator")
    words, qdeck = make_scene(roles.server.url, roles.raw).words(), runner(capsys)
    for line in LOOKING + ACTING:
        ran = qdeck(*of(words, line), "--url", url)
        assert ran.code in (0, 1), (line, ran.err)
    assert roles.denied() <= {"command acl|dryrun"}
    with roles.server.client() as raw:
        for command in ("FLUSHALL", "KEYS *", "CONFIG SET save x", "SET mine 1"):
            allowed = raw.execute_command("ACL", "DRYRUN", "qdeck-operator", *command.split())
            assert allowed != b"OK", command


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_producers_and_workers(roles: Roles, make_process: Callable[..., PythonProcess], tmp_path: Path) -> None:
    producer, worker = roles.url("producer"), roles.url("worker")
    (tmp_path / "rightsapp.py").write_text(
        "import os, qdeck\n"
        "app = qdeck.App(os.environ['QDECK_URL'], queue='shop:dev:mail:actions')\n"
        "@app.task(name='step')\n"
        "async def step(n): return n\n"
    )
    app = core.App(producer, queue=QUEUE)
    step = app.task(name="step")(print)
    jobs = [step.enqueue(at) for at in range(3)]
    env = {"QDECK_URL": worker, "PYTHONPATH": f"{tmp_path}"}
    process = make_process("-m", "qdeck_console", "worker", "rightsapp:app", "-q", QUEUE, env=env, cwd=tmp_path)
    assert [job.result(timeout=40) for job in jobs] == [0, 1, 2]
    process.terminate()
    assert process.wait() == 0
    app.close()
    assert roles.denied() == set()


@pytest.mark.slow
@pytest.mark.timeout(240)
async def test_an_agent(roles: Roles) -> None:
    url = roles.url("agent")
    make_scene(roles.server.url, roles.raw)
    async with running(url, purge_every=0.2, health_every=0.2, clean_every=0.2, history_every=0.2) as agent:
        for chore in ("purge", "health", "tend"):
            await agent.until(lambda chore=chore: agent.of(chore))  # type: ignore[misc]
        assert (await agent.ask("/metrics")).code == 200
        assert (await agent.ask("/api/v1/queue/health")).code == 200
    assert roles.denied() == set()


def test_a_prefix_closes_the_queues_of_others(roles: Roles) -> None:
    roles.url("producer", prefix="shop")
    dry = ("ACL", "DRYRUN", "qdeck-producer", "HSET")
    assert roles.raw.execute_command(*dry, "{shop:dev:mail:actions}:meta", "a", "1") == b"OK"
    assert roles.raw.execute_command(*dry, "{bank:dev:mail:actions}:meta", "a", "1") != b"OK"
    assert roles.raw.execute_command(*dry, "bank:dev:mail:actions", "a", "1") != b"OK"


@pytest.mark.parametrize("role", rights.ROLES)
def test_the_published_lines_are_those_that_are_tested(role: str) -> None:
    assert rights.line(role) in (ROOT / "core/docs/rights.md").read_text()
