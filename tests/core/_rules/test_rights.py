"""The published rights of each role are enough for what it does, and not more than they say."""

from __future__ import annotations

import asyncio
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import qdeck as core
from console.cli.test_commands_page import PAGE, RUNS
from console.test_every_key import WALKS
from core.adapters.test_conformance import FILL
from qdeck._engine.keys import MAINTENANCE_TASKS
from qdeck._rules import role_rights
from qdeck.admin import Configuration, DoctorCheck, Settings, Target, Writer
from qdeck.messages import DomainAction, Messenger, Service
from support.agents import running
from support.brands import redis_binary
from support.commands import runner
from support.roles import Roles
from support.scene import OTHER, QUEUE, make_scene
from support.screens import text
from support.servers import raw_client
from support.waiting import until, wait_until
from support.walk import walking

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from support.processes import PythonProcess
    from support.servers import Server

ROOT = Path(__file__).resolve().parents[3]
PLACES = ("valkey/0", "valkey/5", "redis/5")
needs_time = pytest.mark.timeout(240)
# `doctor` tries what only an administrator may ask, and then calls a script that does not exist.
DOCTORS = {"viewer": {"acl|dryrun", "evalsha"}, "operator": {"acl|dryrun"}}
ONE_STEP = ("job edit", "enqueue", "workers quiet", "workers resume", "queues pause", "queues resume")


@pytest.fixture(params=PLACES[:1])
def roles(request: pytest.FixtureRequest, make_server: Callable[..., Server]) -> Iterator[Roles]:
    brand, database = request.param.split("/")
    if brand == "redis" and redis_binary() is None:
        pytest.skip("no Redis server here: apt-get install redis-tools")
    server = make_server(binary=redis_binary() if brand == "redis" else None)
    url = server.url.removesuffix("/0") + f"/{database}"
    with raw_client(url) as raw:
        yield Roles(url, raw)


everywhere = pytest.mark.parametrize("roles", PLACES, indirect=True)


def fill(roles: Roles) -> dict[str, str]:
    """Put something of every adapter on the server; returns the names that stand for jobs on a command line."""
    roles.raw.flushall()
    words = make_scene(roles.url, roles.raw).words()
    for adapter in FILL.values():
        adapter().populate(roles.raw)
    roles.raw.execute_command("ACL", "LOG", "RESET")
    return words


def writes(name: str, lines: str) -> bool:
    """Whether a command of the page changes something."""
    words = lines.replace(";", " ;").split()
    if name == "clean --orphans":
        return False  # nothing was idle for as long as it takes, and without a queue to remove it writes nothing
    if name.startswith("clean"):
        return "--yes" in words
    once = name.startswith(ONE_STEP) or (name.startswith("schedule") and name != "schedule list")
    return once or "--yes" in words or "--apply" in words


class Commands:
    """Runs the lines of the page of commands as a user."""

    def __init__(self, roles: Roles, capsys: pytest.CaptureFixture[str], folder: Path) -> None:
        self.roles, self.qdeck = roles, runner(capsys)
        (folder / "payload.json").write_text('[["other"], {}]')

    def run(self, url: str, lines: str) -> Any:
        """Run lines on a fresh server, one after the other; returns what the last one left, or one that was refused."""
        words = fill(self.roles)
        ran: Any = None
        for line in lines.split("; "):
            args = [self._word(part, words) for part in line.split()]
            if args[0].startswith("!"):
                self.roles.raw.execute_command(args[0][1:], *args[1:])
                continue
            ran = self.qdeck(*args, "--url", url)
            if batch := re.search(r"undo (\S+)", ran.out):
                words["RETRIED"] = batch[1]
            if ran.code == 77:
                break
        for plan in Path().glob("p"):
            plan.unlink()
        return ran

    def _word(self, text: str, words: dict[str, str]) -> str:
        for name, value in words.items():
            text = text.replace(f"${name}", value)
        return text.replace("_", " ") if "_*" in text else text


LINES = [
    (name, lines)
    for name, runs in RUNS.items()
    for _, lines in runs
    if "--url" not in lines and not name.startswith(("config", "schedule sync"))  # an app has a server of its own
]


@pytest.mark.slow
@needs_time
@everywhere
def test_a_viewer_runs_every_command_that_looks(
    roles: Roles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What changes something is refused, and the missing right is named."""
    monkeypatch.chdir(tmp_path)
    url, commands = roles.make("viewer"), Commands(roles, capsys, tmp_path)
    for name, lines in LINES:
        ran = commands.run(url, lines)
        if ran.code == 1 and "--yes" not in lines and "nothing was changed; --yes" in ran.err:
            continue  # it asks first
        if writes(name, lines):
            assert ran.code == 77, (lines, ran)
            assert re.search(r"'?(evalsha|script\|load|eval|hset|hsetnx|hdel|xadd|dump)'?", ran.err), (lines, ran.err)
        else:
            assert ran.code in PAGE[name].codes, (lines, ran)
            assert "not allowed" not in ran.err, (lines, ran.err)
            allowed = DOCTORS["viewer"] if name == "doctor" else set()
            assert roles.denied() <= {f"qdeck-viewer: command {one}" for one in allowed}, lines


@pytest.mark.slow
@needs_time
@everywhere
def test_an_operator_runs_every_command(
    roles: Roles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    url, commands = roles.make("operator"), Commands(roles, capsys, tmp_path)
    for name, lines in LINES:
        ran = commands.run(url, lines)
        assert ran.code in PAGE[name].codes, (lines, ran)
        allowed = DOCTORS["operator"] if name == "doctor" else set()
        assert roles.denied() <= {f"qdeck-operator: command {one}" for one in allowed}, lines
    for command in ("FLUSHALL", "KEYS *", "CONFIG SET save x", "SET mine 1"):
        assert roles.raw.execute_command("ACL", "DRYRUN", "qdeck-operator", *command.split()) != b"OK", command


@pytest.mark.slow
@needs_time
@pytest.mark.parametrize("adapter", FILL)
@everywhere
def test_an_operator_of_one_adapter_does_all_its_verbs(
    roles: Roles, adapter: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the line of that adapter alone: each verb on each entry and back, each purge rule and back, and a look."""
    monkeypatch.chdir(tmp_path)
    one = FILL[adapter]()
    url = roles.make("operator", adapters=[adapter])
    one.populate(roles.raw)
    with Writer(url, adapters=(adapter,)) as writer:
        one.test_every_act_is_told_and_each_is_taken_back(writer, roles.raw)
        one.test_what_is_stale_is_told_and_can_go_and_come_back(writer, roles.raw)
    assert roles.denied() == set()
    qdeck = runner(capsys)
    viewer = roles.make("viewer", adapters=[adapter])
    for line in ("status", "stuck", "dead", "dead --group", "purge", "health", "activity", "find x"):
        ran = qdeck(*line.split(), "--adapter", adapter, "--url", viewer)
        assert ran.code in (0, 1, 2), (line, ran)
        assert "not allowed" not in ran.err, (line, ran.err)
    assert roles.denied() == set()


@pytest.mark.slow
@needs_time
@pytest.mark.parametrize("roles", PLACES[1:2], indirect=True)
async def test_a_viewer_sees_every_screen(roles: Roles, tmp_path: Path) -> None:
    """Live, on a server of every adapter. What its keys would change stays, since the context is open read-only."""
    async with walking(roles.url, roles.raw, tmp_path, user=roles.make("viewer"), read_only=True) as walk:
        for adapter in FILL.values():
            adapter().populate(roles.raw)
        for name, (reach, _) in WALKS.items():
            if name in ("entries of a plan", "a redrive"):
                continue  # they are made by keys that write, which the operator presses
            await reach(walk)
            shown = text(walk.app).lower()
            assert "not allowed" not in shown, name
            assert "no permissions" not in shown, name
            while len(walk.app.screen_stack) > 1:
                await walk.pilot.press("escape")
                await walk.pilot.pause(0.05)
    assert roles.denied() == set()


TASKS = """
import asyncio, os, qdeck
app = qdeck.App(os.environ['QDECK_URL'], queue='shop:mail:actions')

@app.task(name='step')
async def step(n): return n

@app.task(name='plain')
def plain(n):
    print('captured')
    return n

@app.task(name='apart', process=True)
def apart(n): return n

@app.task(name='mends')
def mends(*facts): return 'mended'

@app.task(name='fails', retries=1, retry_delay=0.05, on_failure='mends')
def fails(): raise ValueError('no')

@app.task(name='long', lease=2)
async def long(): await asyncio.sleep(600)

app.schedule('often', step, 1, cron='* * * * * *')
"""


OPTIONS: dict[str, dict[str, Any]] = {
    "step": {}, "plain": {}, "apart": {"process": True}, "mends": {}, "long": {"lease": 2},
    "fails": {"retries": 1, "retry_delay": 0.05, "on_failure": "mends"},
}  # fmt: skip


@pytest.mark.slow
@needs_time
@everywhere
def test_producers_and_workers(roles: Roles, make_process: Callable[..., PythonProcess], tmp_path: Path) -> None:
    """Tasks of all kinds, chains, names, delays, requests to stop, failures, and a schedule."""
    producer, worker = roles.make("producer"), roles.make("worker")
    (tmp_path / "rightsapp.py").write_text(TASKS)
    env = {"QDECK_URL": worker, "PYTHONPATH": f"{tmp_path}"}
    options = ("-q", QUEUE, "-q", OTHER)
    process = make_process("-m", "qdeck_console", "worker", "rightsapp:app", *options, env=env, cwd=tmp_path)
    app = core.App(producer, queue=QUEUE)
    tasks = {name: app.task(name=name, **more)(print) for name, more in OPTIONS.items()}
    first = tasks["step"].call(3)
    calls = [
        *(tasks[name].call(at) for at, name in enumerate(("step", "plain", "apart"))),
        *core.chain(first, tasks["plain"].call(4)),
        tasks["step"].call(5, _name="one", _unique=True, _delay=0.1, _tags=["a"]),
        tasks["step"].call(6, _after=[first]),
    ]
    jobs = app.enqueue_many(calls)
    assert [job.result(timeout=60) for job in jobs] == list(range(7))
    failed, long = tasks["fails"].enqueue(), tasks["long"].enqueue()
    with pytest.raises(core.QdeckError):
        failed.result(timeout=60)
    key = f"{{{QUEUE}}}:"
    wait_until(lambda: roles.raw.zscore(f"{key}running", long.id))
    long.cancel()
    wait_until(lambda: roles.raw.zscore(f"{key}cancelled", long.id))
    wait_until(lambda: roles.raw.hlen(f"{key}last_run"))  # a run of the schedule was settled
    process.terminate()
    assert process.wait() == 0, process.output
    app.close()
    assert roles.denied() == set()


def ask_in_blocking_code(url: str) -> None:
    """A request and its answer, and a callback that the asker waits for."""
    client = Messenger(core.App(url, queue="shop:dev:blocking:actions"))
    assert client.request(client.new_action("embedding.count"), timeout=40).success
    name = client.request_callback(client.new_action("embedding.count", task_id="t-2"))
    assert client.wait_callback(name, timeout=40).data["count"] == 1
    client.close()


@pytest.mark.slow
@needs_time
@everywhere
async def test_services(roles: Roles) -> None:
    """Messages: a request, a callback, a notification and what is sent without an answer."""
    producer, worker = roles.make("producer"), roles.make("worker")
    embedding = Service(core.App(worker, queue="shop:dev:embedding:actions"))
    listener = Service(core.App(worker, queue="shop:dev:listener:actions"))
    client = Service(core.App(producer, queue="shop:dev:client:actions"))
    noted: list[str] = []

    @embedding.on_action("embedding.count")
    async def count(action: DomainAction) -> dict[str, Any]:
        return {"count": 1}

    @listener.on_callback("embedding", "embedding.counted", ends_task=True)
    async def counted(action: DomainAction) -> None:
        noted.append("callback")

    @listener.on_notification("client", "changed")
    async def changed(event: DomainAction) -> None:
        noted.append("event")

    started = [asyncio.Event() for _ in range(2)]

    def when_started(event: dict[str, Any], flag: asyncio.Event) -> None:
        if event["event"] == "started":
            flag.set()

    serving = [
        asyncio.create_task(service.serve(on_event=lambda event, flag=flag: when_started(event, flag), grace=1.0))
        for service, flag in zip((embedding, listener), started, strict=True)
    ]
    for flag in started:
        await asyncio.wait_for(flag.wait(), 60)
    assert (await client.arequest(client.new_action("embedding.count"), timeout=40)).success
    await asyncio.to_thread(ask_in_blocking_code, producer)
    asked = listener.new_action("embedding.count", task_id="t-1")
    await listener.arequest_callback(asked, callback_action_type="embedding.counted")
    await client.anotify("changed", client.new_action("client.changed", correlation_id="c-1"))
    await until(lambda: set(noted) == {"callback", "event"})
    for service in (embedding, listener):
        service.stop()
    await asyncio.wait_for(asyncio.gather(*serving), 60)
    for service in (embedding, listener, client):
        await service.aclose()
    assert roles.denied() == set()


@pytest.mark.slow
@needs_time
@everywhere
async def test_an_agent(roles: Roles) -> None:
    """All that it does by itself and all of its HTTP, on a server of every adapter."""
    fill(roles)
    url = roles.make("agent")
    every = dict.fromkeys(("purge_every", "health_every", "clean_every", "history_every", "maintain_every"), 0.2)
    async with running(url, settings=Settings(), allow_purge=True, **every) as agent:
        for task in MAINTENANCE_TASKS:
            await agent.until(lambda task=task: roles.raw.hget(f"qdeck:agent:{{qdeck:{task}}}", "runs"))  # type: ignore[misc]
        for path in ("/metrics", "/healthz", "/api/v1/queue/health", "/api/v1/queue/dlq"):
            assert (await agent.ask(path)).code in (200, 503), path
        assert (await agent.ask("/api/v1/queue/purge?dry_run=1", "POST")).code == 200
        assert (await agent.ask("/api/v1/queue/purge", "POST")).code == 200
        assert [event for event in agent.events if event["event"] == "failed"] == []
    assert roles.denied() == set()


@pytest.mark.parametrize("role", ["viewer", "operator", "operator that reads"])
def test_doctor_finds_queues_whose_keys_are_closed(roles: Roles, role: str) -> None:
    """Its other checks use keys of its own, which every line opens."""
    fill(roles)
    name, _, reads = role.partition(" that ")
    url = roles.make(name)
    assert queue_keys(url, name).ok is True
    closed = [word for word in shlex.split(role_rights.line(name)) if not word.endswith("~{*}:*")]
    # Without the right to ask, keys that may only be read cannot be told from open ones.
    roles.raw.execute_command(*closed, *(["%R~{*}:*", "+acl|dryrun"] if reads else []))
    found = queue_keys(url, name)
    assert found.ok is False
    assert "exclude 2 queues, such as 'shop:" in found.detail
    assert "~{*}:*" in found.hint


def queue_keys(url: str, role: str) -> DoctorCheck:
    """What `doctor` finds about the keys of queues."""
    with Writer(url) as writer:
        found = writer.diagnosis(Configuration(settings=Settings()), Target(url=url), read_only=role == "viewer").checks
    return next(one for one in found if one.name == "queue_keys")


def test_a_prefix_closes_the_queues_of_others(roles: Roles) -> None:
    roles.make("producer", prefix="shop")
    dry = ("ACL", "DRYRUN", "qdeck-producer", "HSET")
    assert roles.raw.execute_command(*dry, "{shop:dev:mail:actions}:meta", "a", "1") == b"OK"
    assert roles.raw.execute_command(*dry, "{bank:dev:mail:actions}:meta", "a", "1") != b"OK"
    assert roles.raw.execute_command(*dry, "bank:dev:mail:actions", "a", "1") != b"OK"


@pytest.mark.parametrize("role", role_rights.ROLES)
def test_the_published_lines_are_those_that_are_tested(role: str) -> None:
    assert role_rights.line(role) in (ROOT / "core/docs/how-to/give-rights.md").read_text()
