"""Contexts on every command: which server it is, and what it takes to write there.

In production that is `--confirm NAME`, however the server was named; in a read-only context nothing helps.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import pytest

from support.scene import Scene, make_scene

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import redis

    from support.commands import Ran
    from support.servers import Server

# Every command that writes. Words with $ are from the scene.
WRITING: Final = (
    "enqueue $QUEUE send --args [1]",
    "jobs cancel $QUEUE --id $READY --yes",
    "jobs discard $QUEUE --id $READY --yes",
    "jobs move $QUEUE --id $READY --to shop:bills:actions --yes",
    "jobs run $QUEUE --id $DELAYED --yes",
    "jobs complete ifdb --id CleanUp() --yes",
    "jobs reprioritise $QUEUE --id $READY --priority 7 --yes",
    "job edit $QUEUE $READY --payload payload.json",
    "dead edit $QUEUE $ID --payload payload.json",
    "dead retry $QUEUE --yes",
    "dead retry $QUEUE --yes --rate 1000/s",
    "dead discard $QUEUE --yes",
    "requeue $QUEUE --yes",
    "bury $QUEUE --yes",
    "purge --now --yes",
    "undo $BATCH --yes",
    "undo --yes",
    "clean $TASK --idle 0 --yes",
    "clean --orphans --idle 0 --yes",
    "schedule add other $QUEUE send --cron 0_*_*_*_*",
    "schedule edit feeds --missed all --yes",
    "schedule pause feeds",
    "schedule resume paused",
    "schedule run feeds",
    "schedule remove feeds --yes",
    "workers quiet $WORKER --yes",
    "workers resume $WORKER",
    "workers stop $WORKER --yes",
    "queues pause $QUEUE",
    "queues empty $QUEUE --yes",
    "queues resume shop:paused:actions",
)
# Those that only look, or show what would be done.
LOOKING: Final = (
    "status", "jobs $QUEUE", "job $QUEUE $ID", "find $ID", "stuck", "dead", "dead --group", "dead export",
    "activity", "queues", "health", "doctor", "workers", "schedule", "purge", "dead retry $QUEUE",
    "dead discard $QUEUE --dry-run", "requeue $QUEUE", "bury $QUEUE", "jobs cancel $QUEUE --dry-run", "jobs run $QUEUE",
    "clean $TASK --dry-run", "clean --orphans",
)  # fmt: skip


@pytest.fixture
def scene(
    url: str, raw: redis.Redis, qdeck: Callable[..., Ran], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Scene:
    made = make_scene(url, raw)
    qdeck("queues", "pause", "shop:paused:actions")
    qdeck("enqueue", "shop:paused:actions", "send")
    qdeck("queues", "pause", "shop:paused:actions")
    qdeck("schedule", "add", "paused", "shop:mail:actions", "send", "--cron", "0 0 1 1 *")
    qdeck("schedule", "pause", "paused")
    orphan = "shop:dev:mail:callbacks:nobody"
    raw.rpush(orphan, "unread")
    raw.restore(orphan, 0, raw.dump(orphan) or b"", replace=True, idletime=3600)
    task = {
        "id": "CleanUp()", "name": "CleanUp()", "module": "games", "function": "run", "args": [], "kwargs": {},
        "priority": 100, "retries_left": 3, "retry_minutes": 2000, "cron": None, "scheduled_time": None, "log": "",
        "enqueue_time": "2026-11-18T05:00:00+00:00", "dependency": None,
        "pending": True, "success": False, "fail": False,
    }  # fmt: skip
    raw.hset("ifdb:task_data", "CleanUp()", json.dumps(task))
    raw.zadd("ifdb:task_queue", {"CleanUp()": 100_000_000 + 1_794_978_000})
    (tmp_path / "payload.json").write_text('[["other"], {}]')
    (tmp_path / "elsewhere.toml").write_text(
        f"""
[contexts.shop]
url = "{url.replace("redis://", "redis://default:${SHOP_PASSWORD}@")}"
environment = "production"
[contexts.frozen]
url = "{url}"
read_only = true
"""
    )
    monkeypatch.setenv("SHOP_PASSWORD", "")
    return made


def words(line: str, scene: Scene) -> list[str]:
    known = scene.words()
    return [known[word[1:]] if word.startswith("$") else word.replace("_*", " *") for word in line.split()]


def digest(raw: redis.Redis) -> bytes:
    return bytes(raw.execute_command("DEBUG", "DIGEST"))


SHOP: Final = ("--config", "elsewhere.toml", "--context", "shop")
FROZEN: Final = ("--config", "elsewhere.toml", "--context", "frozen")


@pytest.mark.parametrize("line", WRITING)
def test_every_writing_command_asks_for_the_name_of_a_production_context(
    qdeck: Callable[..., Ran], raw: redis.Redis, scene: Scene, url: str, line: str
) -> None:
    """'In a production context every writing command needs `--confirm NAME`': exit code 77 without"""
    args, before = words(line, scene), digest(raw)
    for where in (SHOP, ("--config", "elsewhere.toml", "--url", url), ("--config", "elsewhere.toml")):
        ran = qdeck(*args, *where)
        assert (ran.code, "--confirm shop" in ran.err) == (77, True), (where, ran)
    frozen = qdeck(*args, *FROZEN)
    assert (frozen.code, "read_only = true" in frozen.err) == (77, True)
    assert qdeck(*args, *FROZEN, "--confirm", "frozen").code == 77
    wrong = qdeck(*args, *SHOP, "--confirm", "frozen")
    assert (wrong.code, "the context is 'shop'" in wrong.err) == (64, True)
    assert digest(raw) == before, "what was refused wrote nothing"
    ran = qdeck(*args, *SHOP, "--confirm", "shop")
    assert ran.code in (0, 1), ran.err
    assert digest(raw) != before


@pytest.mark.parametrize("line", LOOKING)
def test_looking_takes_no_ceremony(qdeck: Callable[..., Ran], raw: redis.Redis, scene: Scene, line: str) -> None:
    before = digest(raw)
    for where in (SHOP, FROZEN):
        ran = qdeck(*words(line, scene), *where)
        assert ran.code in (0, 1), ran.err
    assert digest(raw) == before


def test_a_worker_takes_the_name_too(
    qdeck: Callable[..., Ran], raw: redis.Redis, scene: Scene, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "site.py").write_text("import qdeck\napp = qdeck.App(queue='shop:mail:actions')\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    for where in (SHOP, FROZEN, ("--config", "elsewhere.toml", "--url", url)):
        assert qdeck("worker", "site:app", *where).code == 77
    assert qdeck("worker", "site:app", *SHOP, "--confirm", "no").code == 64


def test_schedules_of_an_app_take_the_name_of_the_server_that_the_app_names(
    qdeck: Callable[..., Ran], raw: redis.Redis, scene: Scene, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_server.py").write_text(
        f"import qdeck\napp = qdeck.App({url!r}, queue='shop:mail:actions')\n\n"
        "@app.task\ndef yearly() -> None: ...\n\napp.schedule('yearly', yearly, cron='0 0 1 1 *')\n"
    )
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    before = digest(raw)
    for elsewhere in (url, "redis://127.0.0.1:1"):
        monkeypatch.setenv("QDECK_URL", elsewhere)
        ran = qdeck("schedule", "sync", "own_server:app", "--config", "elsewhere.toml")
        assert (ran.code, "--confirm shop" in ran.err) == (77, True), ran
    for where in (SHOP, FROZEN):
        assert qdeck("schedule", "sync", "own_server:app", *where).code == 77
    assert digest(raw) == before
    assert qdeck("schedule", "sync", "own_server:app", "--config", "elsewhere.toml", "--confirm", "shop").code == 0
    assert digest(raw) != before


def test_a_served_console_is_as_read_only_as_the_default_context(
    qdeck: Callable[..., Ran], url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("aiohttp")
    from qdeck_console.serving import server

    commands: list[list[str]] = []

    class Recorder:
        def __init__(self, command: list[str], *_: object, **__: object) -> None:
            commands.append(command)

        async def serve(self) -> None: ...

    monkeypatch.setattr(server, "ConsoleServer", Recorder)
    monkeypatch.delenv("QDECK_URL")
    own = tmp_path / "config" / "qdeck" / "config.toml"
    own.parent.mkdir(parents=True)
    own.write_text(
        f'default_context = "archive"\n[contexts.archive]\nurl = "{url}"\nread_only = true\n'
        f'[contexts.ops]\nurl = "{url}"\n'
    )
    assert qdeck("serve").code == 0
    [command] = commands
    options = command[command.index("qdeck_console") + 1 : command.index("console")]
    ran = qdeck("enqueue", "shop:mail:actions", "send", *options)
    assert (ran.code, "'archive' has read_only = true" in ran.err) == (77, True), ran


@pytest.mark.parametrize("option", ["--url", "--context", "--config", "--confirm", "--adapter"])
def test_an_empty_option_is_not_one_that_was_left_out(
    qdeck: Callable[..., Ran], raw: redis.Redis, option: str, tmp_path: Path
) -> None:
    """`--url "$DEV_URL"` without that variable must not go to the server of another one."""
    for args in ((option, ""), (f"{option}=",)):
        ran = qdeck("enqueue", "shop:mail:actions", "send", *args)
        assert (ran.code, f"{option} is empty" in ran.err) == (64, True), ran
    assert raw.dbsize() == 0


def test_an_agent_without_the_name_only_looks(qdeck: Callable[..., Ran], scene: Scene) -> None:
    for where in (SHOP, FROZEN):
        ran = qdeck("agent", *where)
        assert (ran.code, "an agent cannot run" in ran.err) == (77, True)


def test_no_writing_command_is_left_out_of_the_table() -> None:
    """A new command has to be put into one of the two tables."""
    import click

    from qdeck_console.cli.run import make_top

    def leaves(group: click.Group, path: str) -> list[str]:
        found = []
        for name in group.list_commands(click.Context(group)):
            command = group.get_command(click.Context(group), name)
            here = f"{path} {name}".strip()
            if isinstance(command, click.Group):
                found += leaves(command, here)
            else:
                found.append(here)
        return found

    told = [
        *WRITING,
        *LOOKING,
        "worker",
        "agent",
        "schedule sync",
        "config trust",
        "completion",
    ]  # the last two write to no server
    defaults = {"jobs list", "job show", "dead list", "workers list", "schedule list", "queues list"}
    screens = {"console", "demo", "snapshot", "serve"}
    known = set(leaves(make_top(), ""))
    assert defaults | screens <= known
    for leaf in known - defaults - screens:
        assert any(line == leaf or line.startswith(f"{leaf} ") for line in told), f"{leaf} is in neither table"


SPELLINGS: Final = (
    "redis://0.0.0.0:{port}",
    "redis://0:{port}",
    "redis://127.1:{port}",
    "redis://2130706433:{port}",
    "redis://[::ffff:127.0.0.1]:{port}",
    "redis://LocalHost:{port}",
    "redis://%31%32%37.0.0.1:{port}",
    "redis://127.0.0.1:{port}/00",
    "redis://127.0.0.1:{port}//0/",
    "redis://127.0.0.1:{port}/7?db=0",
    "redis://127.0.0.1:{port}/0#@",
    "redis://127.0.0.1:{port}?client_name=@",
)


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("variable", ["", "QDECK_URL", "REDIS_URL"])
def test_every_spelling_of_the_address_is_production(
    qdeck: Callable[..., Ran], raw: redis.Redis, scene: Scene, url: str, spelling: str, variable: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Each of them reaches the server, and none of them may write to it."""
    spelled, before = spelling.format(port=urlsplit(url).port), digest(raw)
    given = ("--config", "elsewhere.toml", *(() if variable else ("--url", spelled)))
    if variable:
        monkeypatch.delenv("QDECK_URL")
        monkeypatch.setenv(variable, spelled)
    args = words("enqueue $QUEUE send", scene)
    ran = qdeck(*args, *given)
    assert (ran.code, "--confirm shop" in ran.err) == (77, True), ran
    assert digest(raw) == before
    assert qdeck("status", *given).code in (0, 1, 2), "it is the server"
    assert qdeck(*args, *given, "--confirm", "shop").code == 0
    assert digest(raw) != before


def test_a_link_to_the_socket_of_production_is_production(
    qdeck: Callable[..., Ran], make_server: Callable[..., Server], tmp_path: Path
) -> None:
    url = make_server(unix=True).url
    (tmp_path / "unix.toml").write_text(f'[contexts.shop]\nurl = "{url}"\nenvironment = "production"\n')
    (tmp_path / "link.sock").symlink_to(url.removeprefix("unix://"))
    for spelled in (f"unix://{tmp_path}/link.sock", f"unix://{tmp_path}/./link.sock?db=00"):
        ran = qdeck("enqueue", "shop:mail:actions", "send", "--config", "unix.toml", "--url", spelled)
        assert (ran.code, "--confirm shop" in ran.err) == (77, True), ran


@pytest.mark.parametrize(
    "args", [("--where", ""), ("--where= ",), ("--id", ""), ("--apply", ""), ("--reason", "")], ids=lambda args: args[0]
)
def test_an_empty_filter_or_id_does_not_mean_all_jobs(
    qdeck: Callable[..., Ran], raw: redis.Redis, args: tuple[str, ...]
) -> None:
    """`--where "$FILTER"` without that variable must not discard every job."""
    qdeck("enqueue", "shop:mail:actions", "send")
    ran = qdeck("jobs", "discard", "shop:mail:actions", "--yes", *args)
    assert (ran.code, f"{args[0].rstrip('= ')} is empty" in ran.err) == (64, True), ran
    assert raw.zcard("{shop:mail:actions}:ready") == 1
