"""Everything fails in turn while everybody works: no confirmed enqueue is lost, and nothing is left over."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from chaos.soak import audit
from chaos.soak.app import QUEUES
from chaos.soak.crew import Crew
from chaos.soak.operator import COMMANDS, FAULTS
from support.commands import runner
from support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    import redis

    from core._engine.picture import Picture
    from support.commands import Ran
    from support.processes import PythonProcess
    from support.proxy import FaultProxy
    from support.servers import Server

# Three minutes in CI; QDECK_SOAK_S=1200 for the long one.
SECONDS: Final = float(os.environ.get("QDECK_SOAK_S", "180"))


@pytest.fixture
def run_command(capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    return runner(capsys)


@pytest.mark.slow
@pytest.mark.timeout(SECONDS + 900)
def test_soak(
    url: str,
    raw: redis.Redis,
    own_state: Path,
    make_server: Callable[..., Server],
    make_proxy: Callable[[str], FaultProxy],
    make_process: Callable[..., PythonProcess],
    run_command: Callable[..., Ran],
    record_property: Callable[[str, object], None],
) -> None:
    """Producers, workers, agents, a schedule and an operator under faults; afterwards every discard is undone, so
    that each confirmed job has to be there, and all keys are audited."""
    # With `everysec` a server that is killed may lose what it acknowledged in the last two seconds.
    server = make_server("--appendfsync", "always", appendonly=True)
    own_state.mkdir(exist_ok=True)
    crew = Crew(server, make_proxy(server.url), url, own_state, make_process, SECONDS)
    crew.fill()
    crew.strike(time.monotonic() + SECONDS)
    crew.proxy.heal()
    crew.stop("operator")
    crew.stop("producer")
    for queue in QUEUES:
        run_command("queues", "resume", queue, "--url", server.url)
    assert raw.lrange(FAULTS, 0, -1) == [], "a command of the operator failed as none may"
    with server.client(timeout_s=30) as client:
        run_command("schedule", "remove", "every-2-seconds", "--yes", "--url", server.url)
        _drain(crew, client, run_command)
        undone = _undo_discards(run_command, server.url)
        _drain(crew, client, run_command)
        for kind in ("agent", "worker"):
            crew.stop(kind)
        figures = audit.check(client, raw)
    figures |= {"seconds": SECONDS, "faults": sum(crew.faults.values()), "restored": undone, "ended": dict(crew.ended)}
    counted: Any = raw.hgetall(COMMANDS)  # its type allows for text as well
    commands = {name.decode(): int(count) for name, count in counted.items()}
    _keep_figures({**figures, "commands": commands, "kinds of faults": dict(crew.faults)})
    record_property("figures", figures)
    assert figures["confirmed"] > 10 * SECONDS, "the producers got little done"
    assert len(crew.faults) >= min(19, SECONDS / 10)


def _drain(crew: Crew, client: redis.Redis, run_command: Callable[..., Ran]) -> None:
    def is_over() -> bool:
        crew.fill("worker", "agent")  # jobs that kill their worker are still among those that wait
        time.sleep(0.3)
        if not audit.are_only_blocked(client):
            return audit.is_drained(client)
        # The operator retried a job that had died with a dependency, but not the dependency: it waits for that.
        for parent in audit.dependencies(run_command, crew.server.url):
            run_command("dead", "retry", "--id", parent, "--yes", "--url", crew.server.url)
        return False

    wait_until(is_over, 290, lambda: f"{ {q: _sizes(p) for q, p in audit.pictures(client).items()} }\n{crew.report()}")


def _sizes(picture: Picture) -> dict[str, int]:
    return {state: len(jobs) for state, jobs in picture.zsets.items()} | {"outbox": len(picture.outbox)}


def _undo_discards(run_command: Callable[..., Ran], url: str) -> int:
    """Undo every batch that removed jobs, newest first; return how many jobs came back."""
    restored = 0
    for batch in audit.open_discards(run_command("activity", "--json", "--url", url).out):
        ran = run_command("undo", batch, "--yes", "--json", "--url", url)
        assert ran.code in (0, 1), ran
        restored += json.loads(ran.out)["restored"]
    return restored


def _keep_figures(figures: dict[str, object]) -> None:
    if path := os.environ.get("QDECK_FIGURES"):
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(json.dumps(figures, ensure_ascii=False, indent=1) + "\n")
