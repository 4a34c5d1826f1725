"""`qdeck worker` finds its tasks or says why not; `qdeck schedule sync` registers what an app declares."""

from __future__ import annotations

import json
import textwrap
from typing import TYPE_CHECKING, Any

import pytest

from support.commands import Ran, runner
from support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def qdeck(
    url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Ran]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("QDECK_URL", url)
    return runner(capsys)


@pytest.fixture
def package(tmp_path: Path, request: pytest.FixtureRequest) -> Any:
    """Writes modules of a package of its own name: `package(app="…")`; gives the name."""
    name = f"shop{abs(hash(request.node.name)) % 10**8}"
    (tmp_path / name).mkdir()
    (tmp_path / name / "__init__.py").write_text("")
    (tmp_path / name / "app.py").write_text('import qdeck\napp = qdeck.App(queue="shop:actions")\n')

    def write(**modules: str) -> str:
        for module, text in modules.items():
            path = tmp_path / name / (module.replace("__", "/") + ".py")
            path.parent.mkdir(exist_ok=True)
            (path.parent / "__init__.py").touch()
            path.write_text(textwrap.dedent(text).replace("PKG", name))
        return name

    return write


TASK = """
from PKG.app import app

@app.task
def send() -> None: ...
"""


def test_a_worker_without_tasks_refuses_to_start(qdeck: Callable[..., Ran], package: Any) -> None:
    ran = qdeck("worker", f"{package()}.app:app")
    assert ran.code == 64
    assert "declares no tasks" in ran.err
    assert "--tasks" in ran.err


def test_an_import_that_fails_is_told_with_file_line_and_traceback(qdeck: Callable[..., Ran], package: Any) -> None:
    name = package(tasks="from PKG.app import app\n\nimport nothing_of_that_name\n")
    ran = qdeck("worker", f"{name}.app:app", "--tasks", f"{name}.tasks")
    assert ran.code == 64
    assert "ModuleNotFoundError: No module named 'nothing_of_that_name'" in ran.err
    assert f"{name}/tasks.py:3" in ran.err
    assert "Traceback (most recent call last):" in ran.err


def test_a_syntax_error_has_its_own_line(qdeck: Callable[..., Ran], package: Any) -> None:
    name = package(tasks="x = 1\ndef broken(:\n")
    ran = qdeck("worker", f"{name}.app:app", "--tasks", f"{name}.tasks")
    assert (ran.code, f"{name}/tasks.py:2" in ran.err) == (64, True)


@pytest.mark.parametrize("pattern", ["nothing", "*", "{}.nothing", "{}.x*", "{}..tasks"])
def test_a_module_that_is_not_there(qdeck: Callable[..., Ran], package: Any, pattern: str) -> None:
    name = package()
    ran = qdeck("worker", f"{name}.app:app", "--tasks", pattern.format(name))
    assert ran.code == 64
    assert "module" in ran.err
    assert "Traceback" not in ran.err


@pytest.mark.parametrize(("pattern", "count"), [("{}.tasks", 1), ("{}.*", 2), ("{}.*.tasks", 1), ("{}.t*", 1)])
def test_patterns_name_modules(package: Any, tmp_path: Path, monkeypatch: Any, pattern: str, count: int) -> None:
    import importlib

    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("QDECK_URL", "redis://127.0.0.1:1")
    name = package(tasks=TASK, mail__tasks=TASK.replace("send", "mail"))
    app = importlib.import_module(f"{name}.app").app
    found = app.autodiscover(pattern.format(name))
    assert len([module for module in found if not module.endswith(".app")]) == count
    assert len(app.tasks) >= 1


def test_sync_registers_the_schedules(qdeck: Callable[..., Ran], package: Any) -> None:
    name = package(tasks=TASK + '\napp.schedule("feeds", send, cron="*/5 * * * *")\n')
    ran = qdeck("--json", "schedule", "sync", f"{name}.app:app", "--tasks", f"{name}.tasks")
    assert ran.code == 0, ran.err
    assert json.loads(ran.out) == [{"name": "feeds", "change": "made"}]
    assert "feeds" in qdeck("schedule", "list").out
    assert "same" in qdeck("schedule", "sync", f"{name}.app:app", "--tasks", f"{name}.tasks").out


def test_failures_go_to_stderr_and_events_to_stdout(
    package: Any, url: str, tmp_path: Path, make_process: Callable[..., Any]
) -> None:
    import qdeck as library

    name = package(tasks=TASK.replace(": ...", ':\n    raise ValueError("no such address")'))
    app = library.App(url, queue="shop:actions")

    @app.task(retries=0)
    def send() -> None: ...

    job = send.enqueue()
    env = {"QDECK_URL": url, "PYTHONPATH": str(tmp_path)}
    worker = make_process(
        "-m", "qdeck_console", "--json", "worker", f"{name}.app:app", "--tasks", f"{name}.tasks", "--log-level", "info",
        "--log-json", env=env,
    )  # fmt: skip
    worker.wait_for('"failed"', 60)
    wait_until(lambda: job.state() == "dead" and any('"traceback"' in line for line in worker.stderr))
    told = [json.loads(line) for line in worker.stderr if job.id in line]
    assert [one["outcome"] for one in told] == ["started", "failed"]
    assert "ValueError: no such address" in told[1]["traceback"]
    assert all("event" in json.loads(line) for line in worker.stdout)
    app.close()
