"""The commands and the console on a cluster: they see the whole, and act on all of it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from support.commands import Ran, runner, write_trusted
from support.screens import HOOKS, MAIL, SEARCH, console, fill, until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from support.clusters import Cluster
    from support.processes import PythonProcess


@pytest.fixture
def on_cluster(
    cluster: Cluster, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[..., Ran]:
    """Runs a command in an empty directory whose `qdeck.toml` names the cluster."""
    monkeypatch.delenv("QDECK_URL", raising=False)
    monkeypatch.delenv("REDIS_URL", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    text = f'default_context = "three"\n\n[contexts.three]\nurl = "{cluster.url}"\n'
    write_trusted(tmp_path / "qdeck.toml", text)
    fill(cluster.url)
    return partial(runner(capsys))


def test_a_round_of_commands(on_cluster: Callable[..., Ran]) -> None:
    status = on_cluster("status", "--json").json
    assert {row["name"]: row["ready"] for row in status["queues"]} == {SEARCH: 40, HOOKS: 0, MAIL: 1}
    assert status["server"]["mode"] == "cluster"
    assert on_cluster("dead", "retry", "--yes", "--json").json["applied"] == 12
    assert on_cluster("status", "--json").json["totals"]["dead"] == 0
    assert on_cluster("undo", "--yes", "--json").json["restored"] == 12
    assert on_cluster("status", "--json").json["totals"]["dead"] == 12
    made = on_cluster("enqueue", MAIL, "send", "--json").json
    assert on_cluster("find", made["id"], "--json").json[0]["queue"] == MAIL
    assert on_cluster("purge", "--json").code == 0
    for command in (("stuck",), ("workers",), ("activity",), ("doctor",), ("health",), ("schedule", "list")):
        ran = on_cluster(*command)
        assert "Traceback" not in ran.err
        assert ran.code in (0, 1, 2), (command, ran)


async def test_the_console_shows_the_whole(cluster: Cluster) -> None:
    fill(cluster.url)
    async with console(cluster.url) as pilot:
        shown = await until(pilot, "watch")
        assert "3 queues" in shown
        assert "lease expired" in shown


@pytest.mark.slow
def test_the_demo_on_a_cluster(make_process: Callable[..., PythonProcess]) -> None:
    process = make_process("-m", "qdeck_console", "demo", "--headless", "--cluster", "--seconds", "5")
    assert process.wait_for("redis+cluster://", 30).count("127.0.0.1:") == 3
    assert process.wait(30) == 0, process.output
