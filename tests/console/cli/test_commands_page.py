"""The page of commands compared with reality: every command is run, its fields and its exit codes are looked at."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

import click
import pytest

from qdeck_console.cli.base import VerbGroup
from qdeck_console.cli.run import make_top
from support import pages
from support.scene import make_scene

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import redis

    from support.commands import Ran
    from support.pages import Row
    from support.servers import Server

# A script that copies a list as if it had not been used for two days.
OLD: Final = 'return(redis.call("RESTORE",KEYS[1],0,redis.call("DUMP",KEYS[2]),"IDLETIME",200000))'
# For each row of the page what is run, with the exit code that has to come; several lines are run one after the other,
# and the last is looked at. Words with $ are from the scene. A leading ! is a command for the server itself.
RUNS: Final[dict[str, list[tuple[int, str]]]] = {
    "status": [
        (0, "!FLUSHALL; status"),
        (1, "status"),
        (2, "!HSET {$QUEUE}:meta dead_letter 1001; status"),
    ],
    "queues": [(0, "queues"), (0, "queues list")],
    "jobs QUEUE": [(0, "jobs $QUEUE"), (0, "jobs list $QUEUE --state dead --where error:Timeout* --limit 1")],
    "job QUEUE ID": [(0, f"job $QUEUE {name}") for name in ("$ID", "$READY", "$BLOCKED", "$DELAYED", "$RUNNING")],
    "find ID": [(0, "find $ID"), (1, "find nowhere")],
    "stuck": [(1, "stuck"), (1, "stuck $QUEUE --limit 1"), (0, "requeue $QUEUE --yes; stuck")],
    "dead": [
        (0, "dead"),
        (0, "dead list $QUEUE --limit 1"),
        (0, "dead --where payload.0:1"),
        (1, "!HSET {$QUEUE}:meta v 3; dead"),
    ],
    "dead --group": [
        (0, "dead --group"),
        (0, "dead $QUEUE --group --where error:Timeout*"),
        (1, "!HSET {$QUEUE}:meta v 3; dead --group"),
    ],
    "dead export": [
        (0, "dead export"),
        (0, "dead export $QUEUE --id $ID"),
        (1, "!HSET {new:mail:actions}:meta v 3; !HSET qdeck:queues new:mail:actions 1; dead export"),
    ],
    "workers": [(0, "workers"), (0, "workers list")],
    "schedule list": [(0, "schedule list"), (0, "schedule")],
    "activity": [(0, "activity"), (0, "activity --since 1h")],
    "health": [
        (0, "!FLUSHALL; health"),
        (1, "health"),
        (2, "!HSET {$QUEUE}:meta dead_letter 1001; health --no-orphans"),
    ],
    "health --nagios": [
        (0, "!FLUSHALL; health --nagios"),
        (1, "health --nagios"),
        (2, "!HSET {$QUEUE}:meta dead_letter 1001; health --nagios"),
        (2, "health --nagios --url redis://127.0.0.1:1"),
        (3, "health --nagios --url $BLIND"),
    ],
    "doctor": [(1, "doctor --url $UNSAVED"), (0, "doctor")],
    "jobs cancel|discard|complete|move|run|reprioritise QUEUE": [
        (0, "jobs cancel $QUEUE --id $READY --dry-run"),
        (1, "jobs cancel $QUEUE --id $READY"),
        (0, "jobs cancel $QUEUE --id $READY --yes"),
        (0, "jobs discard $QUEUE --state ready --yes"),
        (0, "jobs move $QUEUE --id $READY --to shop:bills:actions --yes"),
        (0, "jobs run $QUEUE --yes"),
        (0, "jobs reprioritise $QUEUE --priority HIGH --yes"),
        (1, "jobs cancel $QUEUE --id $READY --plan p; jobs discard $QUEUE --id $READY --yes; jobs cancel --apply p"),
    ],
    "job edit QUEUE ID": [
        (0, "job edit $QUEUE $READY --payload payload.json"),
        (0, "dead edit $QUEUE $ID --payload payload.json"),
    ],
    "dead retry": [
        (0, "dead retry --dry-run"),
        (1, "dead retry"),
        (0, "dead retry $QUEUE --where error:Timeout* --yes"),
        (0, "dead retry --id $ID --yes --rate 1000/s"),
        (1, "dead retry --id nowhere --yes"),
        (1, "dead retry --plan p; dead discard --id $ID --yes; dead retry --apply p"),
    ],
    "dead discard": [
        (0, "dead discard $QUEUE --dry-run"),
        (1, "dead discard"),
        (0, "dead discard --yes"),
    ],
    "requeue|bury": [
        (0, "requeue --dry-run"),
        (1, "requeue"),
        (0, "requeue $QUEUE --yes"),
        (0, "bury --yes"),
        (1, "requeue --plan p; bury --yes; requeue --apply p"),
    ],
    "purge": [
        (0, "purge"),
        (0, "purge $QUEUE --rule done_too_old --set max_completed_age=1h"),
        (1, "!HDEL {$QUEUE}:lease $STUCK; purge --set max_pending_age=1m"),
    ],
    "purge --apply PLAN": [
        (0, "purge --plan p; purge --apply p"),
        (1, "purge --plan p; purge --now --yes; purge --apply p"),
    ],
    "purge --now --yes": [
        (0, "purge --now --yes"),
        (1, "!HDEL {$QUEUE}:lease $STUCK; purge --set max_pending_age=1m --now --yes"),
    ],
    "undo": [(0, "undo --dry-run"), (1, "undo $BATCH"), (0, "undo $BATCH --yes; undo $BATCH")],
    "undo --yes": [
        (0, "undo --yes"),
        (0, "undo $BATCH --yes"),
        (0, "undo $BATCH --yes; undo $BATCH --yes"),
        (1, "dead retry --id $ID --yes; jobs cancel $QUEUE --id $ID --yes; undo $RETRIED --yes"),
    ],
    "clean TASK_ID": [
        (0, "clean $TASK --idle 0 --yes"),
        (0, "clean $TASK --idle 0 --dry-run"),
        (1, "clean $TASK --idle 0"),
        (1, "clean $TASK --yes"),
        (1, "clean $TASK --dry-run"),
    ],
    "clean --orphans": [
        (0, "clean --orphans --dry-run"),
        (0, "clean --orphans --yes"),
        (1, f"!RPUSH tmp x; !EVAL {OLD} 2 shop:dev:mail:responses:ask:c1 tmp; clean --orphans"),
    ],
    "config trust": [(0, "config trust here.toml"), (0, "config trust here.toml --remove")],
    "enqueue QUEUE TASK": [
        (0, "enqueue $QUEUE send --args [1] --priority LOW --name n --unique --tag a"),
        (0, "enqueue $QUEUE send --delay 60"),
        (0, "enqueue $QUEUE send --at 2040-01-31T08:00:00Z --after $READY"),
    ],
    "schedule add NAME QUEUE TASK --cron RULE": [
        (0, "schedule add more $QUEUE send --cron 0_7_*_*_* --tz UTC"),
        (1, "schedule add feeds $QUEUE other --cron 0_7_*_*_* --tz UTC"),
    ],
    "schedule edit NAME": [(0, "schedule edit feeds --missed all --yes"), (1, "schedule edit feeds --missed all")],
    "schedule pause NAME": [(0, "schedule pause feeds --reason INC-42")],
    "schedule resume NAME": [
        (0, "schedule resume feeds"),
        (1, "schedule pause feeds --reason INC-42; schedule resume feeds"),
    ],
    "schedule run NAME": [
        (0, "schedule run feeds"),
        (1, "schedule pause feeds --reason INC-42; schedule run feeds"),
    ],
    "schedule remove NAME": [(0, "schedule remove feeds --yes"), (1, "schedule remove feeds")],
    "schedule sync MODULE:APP": [(0, "schedule sync page_app:app")],
    "workers quiet|stop ID": [
        (0, "workers quiet $WORKER --yes"),
        (0, "workers stop $WORKER --yes"),
        (1, "workers stop $WORKER"),
    ],
    "workers resume ID": [
        (0, "workers resume $WORKER"),
        (1, "!hset qdeck:control $WORKER quiet; workers resume $WORKER"),
    ],
    "queues pause QUEUE": [
        (0, "queues pause $QUEUE --reason INC-42"),
        (1, "queues pause $QUEUE --reason INC-42; queues pause $QUEUE --reason INC-43"),
    ],
    "queues resume QUEUE": [
        (0, "queues pause $QUEUE --reason INC-42; queues resume $QUEUE --yes"),
        (1, "queues pause $QUEUE --reason INC-42; queues resume $QUEUE"),
    ],
    "queues empty QUEUE": [(0, "queues empty $QUEUE --yes"), (1, "queues empty $QUEUE")],
}
APP: Final = """import qdeck

app = qdeck.App(queue="shop:mail:actions")


@app.task
def send() -> None: ...


app.schedule("nightly", send, cron="0 7 * * *")
"""
NO_JSON: Final = ("health --nagios",)
CASES: Final = [(row, code, lines) for row, runs in RUNS.items() for code, lines in runs]


def name_of(row: Row) -> str:
    """The command of a row without its options."""
    words: list[str] = []
    for word in row.command.split():
        if word.startswith("[") and "--yes" not in row.command.split():
            break
        words += [word] if not word.startswith("[") else []
    return " ".join(words)


PAGE: Final = {name_of(row): row for row in pages.commands()}


@pytest.fixture
def run(
    qdeck: Callable[..., Ran],
    url: str,
    raw: redis.Redis,
    tmp_path: Path,
    make_server: Callable[..., Server],
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[[str], Ran]:
    """Runs lines on a server with something of everything; returns what the last one left."""
    known = make_scene(url, raw).words()
    raw.execute_command("ACL", "SETUSER", "blind", "on", ">pw", "+ping", "+hello")
    known["BLIND"] = url.replace("redis://", "redis://blind:pw@")
    (tmp_path / "payload.json").write_text('[["other"], {}]')
    (tmp_path / "page_app.py").write_text(APP)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "here.toml").write_text('[contexts.a]\nurl = "redis://a"\n')

    def word(text: str) -> str:
        for name, value in known.items():
            text = text.replace(f"${name}", value)
        return text.replace("_", " ") if "_*" in text else text  # a cron rule

    def run_lines(lines: str) -> Ran:
        ran: Ran | None = None
        if "$UNSAVED" in lines:
            known["UNSAVED"] = make_server("--save", "").url
        for line in lines.split("; "):
            args = [word(part) for part in line.split()]
            if args[0].startswith("!"):
                raw.execute_command(args[0][1:], *args[1:])
                continue
            ran = qdeck(*args) if "--nagios" in args else qdeck(*args, "--json")
            if "retry" in args and "--yes" in args:
                known["RETRIED"] = ran.json["batch"]
        assert ran is not None
        return ran

    return run_lines


def test_every_command_of_the_page_is_run_and_every_exit_code_it_names_is_shown() -> None:
    assert set(RUNS) == set(PAGE)
    for name, row in PAGE.items():
        assert {code for code, _ in RUNS[name]} == set(row.codes), name


def commands_of(name: str) -> list[click.Command]:
    """Return the commands that a row stands for: those of its verbs, or the default verb of its group."""
    words = [word for word in name.split() if word.islower() and not word.startswith("-")]
    found: list[click.Command] = [make_top()]
    for word in words:
        found = [_verb(group, verb) for group in found for verb in word.split("|")]
    return [_verb(one, one.default or "") if isinstance(one, VerbGroup) else one for one in found]


def _verb(group: click.Command, name: str) -> click.Command:
    assert isinstance(group, click.Group)
    found = group.get_command(click.Context(group), name)
    assert found is not None, name
    return found


@pytest.mark.parametrize("name", list(RUNS))
def test_every_option_of_the_page_is_one_of_its_command(name: str) -> None:
    named = set(re.findall(r"--[a-z-]+", PAGE[name].command))
    for command in commands_of(name):
        assert named <= {option for param in command.params for option in param.opts}, command.name


def test_every_command_is_on_the_page_or_runs_until_it_is_stopped() -> None:
    shown = {id(command) for name in RUNS for command in commands_of(name)}
    top = make_top()
    missing = set()
    for name in top.list_commands(click.Context(top)):
        command = _verb(top, name)
        leaves = list(command.commands.values()) if isinstance(command, click.Group) else [command]
        missing |= {f"{name} {leaf.name}" for leaf in leaves if id(leaf) not in shown}
    assert missing == {
        "dead edit",  # named in the row of `job edit`
        "console console", "snapshot snapshot", "serve serve", "demo demo", "worker worker", "agent agent",
        "completion completion",
    }  # fmt: skip


@pytest.mark.parametrize(("name", "code", "lines"), CASES, ids=[f"{lines} → {code}" for _, code, lines in CASES])
def test_a_command_writes_what_the_page_says(run: Callable[[str], Ran], name: str, code: int, lines: str) -> None:
    ran = run(lines)
    assert ran.code == code, ran.err
    if name in NO_JSON:
        assert ran.out.startswith("QDECK ")
        assert ran.out.count("\n") == 1
        return
    shape = PAGE[name].shape
    documents = [json.loads(line) for line in ran.out.splitlines()] if shape.startswith("*lines*") else [ran.json]
    assert documents
    fits = [[miss for one in documents for miss in pages.misfits(one, wanted)] for wanted in shape_of(name)]
    assert [] in fits, fits


def shape_of(name: str) -> list[Any]:
    text = PAGE[name].shape
    return pages.shapes(PAGE["clean TASK_ID"].shape if text == "as above" else text)


@pytest.mark.parametrize("name", list(RUNS))
def test_the_codes_that_all_commands_share(run: Callable[[str], Ran], name: str) -> None:
    """64 wrong usage, 69 the server cannot be reached, 77 not allowed: each with a message and nothing on stdout."""
    lines = RUNS[name][0][1].removeprefix("!FLUSHALL; ")
    wanted = {"--no-such-option": 64, "--url redis://127.0.0.1:1": 69, "--url $BLIND": 77}
    # The first has codes of its own, the second needs no server, the app of the third names its server.
    if name in ("health --nagios", "config trust", "schedule sync MODULE:APP"):
        wanted = {"--no-such-option": 64}
    if "--apply" in name:  # a plan is compared with the queues first, which this user cannot see
        del wanted["--url $BLIND"]
    if name == "doctor":  # it tells what is not allowed, which is not a failure of its own
        wanted["--url $BLIND"] = 1
    for options, code in wanted.items():
        ran = run(f"{lines} {options}")
        assert ran.code == code, (options, ran)
        if name != "doctor" or code == 64:
            assert (ran.out in ("", "[]\n"), ran.err.startswith("qdeck: ")) == (True, True), ran


def test_lists_promise_a_list_also_when_they_are_empty(run: Callable[[str], Ran]) -> None:
    for line in ("queues", "stuck", "dead", "dead --group", "workers", "schedule list", "find nowhere"):
        assert run(f"!FLUSHALL; {line}").json == []
