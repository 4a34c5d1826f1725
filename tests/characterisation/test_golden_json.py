"""What each command that reads tells of the seeded server, as JSON and in words, with its exit code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from characterisation.seed import ADAPTERS, PARTS, POOL, TASK
from characterisation.seed_native import MAIL, MAILER

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from characterisation.conftest import World

_STATES: Final = ("ready", "delayed", "blocked", "running", "done", "dead", "cancelled")
_QUEUES: Final = {
    "native": MAIL, "vmpooler": POOL, "ifdb": "ifdb", "scheduler": "scheduler", "lists": MAIL,
}  # fmt: skip


def _jobs(adapter: str) -> list[str]:
    queue = _QUEUES[adapter]
    return [
        f"jobs {queue} --adapter {adapter}",
        *(f"jobs {queue} --adapter {adapter} --state {state} --limit 2" for state in _STATES),
        f"jobs {queue} --adapter {adapter} --where state:dead,ready",
    ]


# file → commands; each is run with --json and without.
COMMANDS: Final[dict[str, list[str]]] = {
    "status": ["status", *(f"status --adapter {name}" for name in ADAPTERS)],
    "queues": ["queues", "queues list --adapter ifdb,native"],
    **{f"jobs-{name}": _jobs(name) for name in ADAPTERS},
    "jobs-others": [
        f"jobs {MAIL} --limit 3",  # three adapters have a queue of this name
        *(f"jobs {adapter}/{MAIL} --limit 3" for adapter in ("native", "lists", "vmpooler", "ifdb")),
        "jobs scheduler --limit 3",  # two have
        *(f"jobs {adapter}/scheduler --limit 3" for adapter in ("scheduler", "vmpooler")),
        f"jobs {MAILER}",
        "jobs requests:on-demand",
        "jobs tasks:create",
        "jobs tasks:disk",
        "jobs dlq:pending",
        "jobs dlq:tasks",
        "jobs gone-pool",
        "jobs execution:agent_run:free:*",
        "jobs shop:dev:mail:callbacks:task-17",
        "jobs nowhere",
        f"jobs {MAIL} --where bad:field",
        f"jobs {MAIL} --where '(state:dead'",
    ],
    "job": [
        *(f"job {MAIL} {job} --adapter native" for job in ("ready-tagged", "ready-hostile", "delayed-later")),
        *(f"job {MAIL} {job} --adapter native" for job in ("blocked-waits", "running-leased", "running-lost")),
        *(f"job {MAIL} {job} --adapter native" for job in ("done-new", "dead-one", "dead-hostile", "cancelled-new")),
        *(f"job {POOL} {job}" for job in ("pending-stuck", "ready-old", "running-one", "completed-old", "od-one")),
        *(f"job requests:on-demand {job}" for job in ("req-1", "req-over")),
        *(f"job ifdb {job}" for job in ("ready-one", "later", "waits", "runs-long", "good", "bad", "broken")),
        *(f"job scheduler {job} --adapter scheduler" for job in ("first", "later", "held-long", "dead-one", "broken")),
        f"job {MAIL} oldest --adapter lists",
        f"job {MAIL} dead-one --adapter lists",
        f"job {MAIL} twin",
        *(f"job {adapter}/{MAIL} twin" for adapter in ("native", "lists", "vmpooler")),
        "job scheduler/scheduler held",
        f"job native/{MAIL} nowhere",
    ],
    "find": ["find twin", "find dead-one", "find od-one", "find running-leased", "find nowhere"],
    "dead": [
        "dead",
        f"dead {MAIL}",
        *(f"dead {adapter}/{MAIL}" for adapter in ("native", "lists")),
        f"dead --where queue:lists/{MAIL}",
        *(f"dead --adapter {name}" for name in ADAPTERS),
        "dead --limit 2",
        "dead --where error:Timeout*",
        "dead scheduler/scheduler",
    ],
    "groups": ["dead --group", f"dead native/{MAIL} --group", *(f"dead --group --adapter {name}" for name in ADAPTERS)],
    "export": [
        f"dead export native/{MAIL}",
        f"dead export {POOL}",
        "dead export --adapter ifdb,scheduler",
        "dead export",
    ],
    "stuck": [
        "stuck",
        f"stuck {MAIL}",
        f"stuck native/{MAIL}",
        *(f"stuck --adapter {name}" for name in ADAPTERS),
        "stuck scheduler/scheduler --limit 1",
    ],
    "workers": ["workers"],
    "schedules": ["schedule list"],
    "activity": ["activity", "activity --since 1m", "activity --since 2h"],
    "health": [
        "health",
        "health --no-orphans --adapter native",
        *(f"health --adapter {name}" for name in ADAPTERS[1:]),
    ],
    "doctor": ["doctor"],
    "purge": ["purge", f"purge {MAIL}", f"purge lists/{MAIL}", *(f"purge --adapter {name}" for name in ADAPTERS)],
    "clean": [
        f"clean {TASK} --dry-run",
        f"clean {TASK} --dry-run --idle 0",
        "clean 12345 --dry-run --idle 0",
        "clean --orphans",
        "clean --orphans --adapter lists",
        "clean --orphans --idle 604800",
        "clean nothing --dry-run",
    ],
}
_ALONE: Final = {"nagios": ["health --nagios"], "empty": ["status", "queues", "dead", "stuck", "workers", "health"]}


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_that_reads(world: World, golden: Callable[[str, Sequence[str]], None], name: str) -> None:
    sections = []
    for line in COMMANDS[name]:
        for as_json in (True, False) if name != "export" else (True,):
            world.fill(anew=False)
            sections.append(world.told(line, as_json=as_json))
    golden(f"reads/{name}", sections)


@pytest.mark.parametrize("name", _ALONE)
def test_one_line_for_nagios_and_an_empty_server(
    world: World, golden: Callable[[str, Sequence[str]], None], name: str
) -> None:
    world.fill(PARTS if name == "nagios" else ())
    golden(f"reads/{name}", [world.told(line, as_json=False) for line in _ALONE[name]])


def test_a_queue_of_a_newer_version_and_keys_of_another_type(
    world: World, golden: Callable[[str, Sequence[str]], None]
) -> None:
    """Each command goes on past them, and says so."""
    sections = []
    for line in ("status", "queues", "dead", "stuck", "find twin", f"jobs {MAILER}", "health", "purge", "dead --group"):
        world.fill()
        world.raw.hset(f"{{{MAILER}}}:meta", "v", "3")
        world.raw.delete("scheduler:queue:dlq", f"{{{MAIL}}}:delayed")
        world.raw.set("scheduler:queue:dlq", "a text")
        world.raw.set(f"{{{MAIL}}}:delayed", "a text")
        sections += [world.told(line), world.told(line, as_json=False)]
    golden("reads/unreadable", sections)
