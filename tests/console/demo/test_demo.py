"""The demo: what it promises is there at the first look, and nothing of it stays."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import psutil
import pytest

from qdeck.admin import ADAPTERS, Writer
from qdeck.testing import Past
from qdeck_console.demo import names
from qdeck_console.demo.incidents import INCIDENTS, IncidentCheck
from qdeck_console.demo.others import seed_others, writers
from qdeck_console.demo.run import Demo
from qdeck_console.demo.schedules import seed_schedules
from qdeck_console.demo.seed import GONE, Seeder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from support.processes import PythonProcess

HEADLESS = "import sys; from qdeck_console.demo import run; sys.exit(run(True, {seconds}, True))"


@pytest.fixture
def writer(url: str) -> Iterator[Writer]:
    with Past(url, worker=GONE) as past:
        Seeder(past).run()
    with Writer(url) as opened:
        yield opened


def test_the_first_look_finds_what_is_promised(writer: Writer) -> None:
    snapshot = writer.snapshot()
    rows = {row.name: row for row in snapshot.queues}
    assert rows[names.IMPORTS].stuck == 2
    assert rows[names.IMPORTS].workers == 0
    pause = rows[names.BILLING].pause
    assert pause is not None
    assert (pause.who, pause.reason) == ("ana@ops-1", "INC-2291 wrong VAT on invoices")
    assert rows[names.BILLING].ready == 18
    assert rows[names.REPORTS].blocked == 2
    assert rows[names.REPORTS].delayed == 1
    assert (rows[names.SEARCH].ready or 0) > 400
    assert rows[names.SEARCH].limit == 4
    assert snapshot.totals.dead == 30


def test_the_first_look_finds_four_systems_of_others(url: str) -> None:
    seed_others(url, 1)
    with Writer(url, adapters=ADAPTERS) as admin:
        snapshot = admin.snapshot()
        assert snapshot.adapters == ("native", "lists", "vmpooler", "ifdb", "scheduler")
        assert snapshot.notices == ()
        for adapter in snapshot.adapters[1:]:
            rows = [row for row in snapshot.queues if row.adapter == adapter]
            assert sum(row.dead or 0 for row in rows) >= 3, adapter
            assert sum(row.ready or 0 for row in rows) >= 5, adapter
        before = {row.name: (row.ready, row.running, row.done) for row in snapshot.queues}
        living = writers(url, 7)
        for _ in range(60):
            for writer in living:
                writer.tick()
        after = admin.snapshot()
        assert {row.name: (row.ready, row.running, row.done) for row in after.queues} != before
        # It stays small, however long it runs.
        assert sum((row.ready or 0) + (row.running or 0) for row in after.queues) < 200


def test_dead_letters_of_several_kinds_with_real_tracebacks(writer: Writer) -> None:
    dead = [job for row in writer.snapshot().queues for job in writer.jobs(row.name, state="dead")]
    errors = {job.error for job in dead}
    assert errors >= {"ConnectionError", "KeyError", "ValueError", "TimeLimitExceeded", "WorkerCrashed"}
    assert errors >= {"UnicodeDecodeError", "IndexError"}
    raised = next(job for job in dead if job.error == "ConnectionError")
    detail = writer.job(raised.queue, raised.id)
    assert detail.failure is not None
    assert "tasks.py" in (detail.failure.traceback or "")
    assert [event.kind for event in detail.history].count("failed") == 3
    pill = next(job for job in dead if job.error == "WorkerCrashed")
    assert pill.crashes == 5
    ages = sorted(job.age_s or 0 for job in dead)
    assert ages[0] > 60, "history is in the past"
    assert ages[-1] < 6 * 3600


def test_there_are_schedules_and_one_is_paused(writer: Writer, url: str) -> None:
    with Past(url, worker=GONE) as past:
        seed_schedules(past)
    rows = {row.name: row for row in writer.schedules()}
    enabled = {name: row.enabled for name, row in rows.items()}
    assert enabled == {"digest": True, "monthly-close": True, "invoices": False}
    assert not any(row.problem for row in rows.values())
    job = writer.job(names.DIGEST, rows["digest"].last_id or "")
    assert (job.task, job.payload()) == ("send_digest", [["weekly"], {}])


def test_the_same_seed_makes_the_same_jobs(writer: Writer, url: str) -> None:
    def jobs() -> list[object]:
        return [(job.task, job.payload()) for job in writer.jobs(names.SEARCH, state="ready")]

    first = jobs()
    import redis

    with redis.Redis.from_url(url) as raw:
        raw.flushall()
    with Past(url, worker=GONE) as past:
        Seeder(past).run()
    assert jobs() == first


def test_it_is_lively_and_a_worker_gets_stuck() -> None:
    with Demo() as demo, Writer(demo.url) as writer:
        assert (writer.snapshot().workers_alive or 0) >= 2
        last_moment = time.monotonic() + 40
        while True:
            rows = {row.name: row for row in writer.snapshot().queues}
            lively = all((rows[name].totals["done"]) > 60 for name in (names.MAIL, names.AUDIT))
            if lively and names.VIDEO in rows and (rows[names.VIDEO].stuck or 0) > 0:
                break
            assert time.monotonic() < last_moment, rows
            time.sleep(0.5)
        assert rows[names.IMPORTS].stuck == 2, "nobody takes these back"


def left_over(before: set[int], url: str) -> list[object]:
    """Processes of this demo: other tests may have one of their own at the same time."""
    port = url.rpartition(":")[2].partition("/")[0]
    found: list[object] = []
    for process in psutil.process_iter():
        if process.pid in before:
            continue
        with contextlib.suppress(psutil.Error):
            words = process.cmdline()
            if port in words or (process.environ().get("QDECK_URL") == url and "qdeck_console.demo" in " ".join(words)):
                found.append(words)
    return found


@pytest.mark.parametrize("number", [None, signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_nothing_is_left_behind(
    make_process: Callable[..., PythonProcess], tmp_path: Path, number: signal.Signals | None
) -> None:
    before = {process.pid for process in psutil.process_iter()}
    code = HEADLESS.format(seconds=1.0 if number is None else None)
    process = make_process("-c", code, env={"TMPDIR": str(tmp_path)})
    url = json.loads(process.wait_for("redis://"))["url"]
    assert list(tmp_path.iterdir()), "the server has its directory there"
    children = psutil.Process(process.pid).children(recursive=True)
    assert len(children) >= 4
    if number is not None:
        process.signal(number)
    assert process.wait() == 0
    assert not [child for child in children if child.is_running()]
    assert not left_over(before, url)
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux can end the children of a process that was killed")
def test_even_a_killed_demo_leaves_no_process(make_process: Callable[..., PythonProcess], tmp_path: Path) -> None:
    process = make_process("-c", HEADLESS.format(seconds=None), env={"TMPDIR": str(tmp_path)})
    process.wait_for("redis://")
    children = psutil.Process(process.pid).children(recursive=True)
    process.kill9()
    _, alive = psutil.wait_procs(children, timeout=10)
    assert not alive


def test_without_a_terminal_it_prints_the_url_the_status_and_a_frame(
    make_process: Callable[..., PythonProcess], tmp_path: Path
) -> None:
    process = make_process("-m", "qdeck_console", "demo", "--seconds", "2", env={"TMPDIR": str(tmp_path)})
    assert process.wait() == 0
    text = "\n".join(process.stdout)
    assert text.startswith("redis://127.0.0.1:")
    assert re.search(r"^unhealthy +redis://", text, re.MULTILINE), "the status"
    assert "1 Queues" in text, "the frame"
    assert "Open the console in a terminal: qdeck --url redis://127.0.0.1:" in text
    assert list(tmp_path.glob("qdeck-*")) == []


def test_each_incident_is_solved_by_what_its_goal_names() -> None:
    with contextlib.ExitStack() as stack:
        for number, incident in enumerate(INCIDENTS, 1):
            demo = stack.enter_context(Demo(incident=incident))
            with Writer(demo.url, adapters=ADAPTERS) as writer, IncidentCheck(demo.url, incident) as watch:
                assert not incident.is_solved(writer), number
                last_moment = time.monotonic() + 60
                solve(number, writer, demo.url, stack)
                while not watch.result.startswith("Solved in "):
                    assert time.monotonic() < last_moment, (number, writer.snapshot().queues)
                    time.sleep(0.1)
            stack.pop_all().close()


def solve(number: int, writer: Writer, url: str, stack: contextlib.ExitStack) -> None:
    """Do what an operator would do."""
    if number == 1:
        writer.apply(writer.plan("retry", names.WEBHOOKS, where="payload.0:*globex*"))
    elif number == 2:
        writer.resume(names.BILLING)
    elif number == 3:
        command = [sys.executable, "-m", "qdeck_console", "--url", url, "worker", "qdeck_console.demo.tasks:app"]
        worker = subprocess.Popen([*command, "-q", names.IMPORTS], env={**os.environ, "QDECK_URL": url})
        stack.callback(worker.wait)
        stack.callback(worker.terminate)
    elif number == 4:
        writer.apply(writer.plan("requeue", "scheduler", stuck=True))
    else:
        writer.apply(writer.plan_purge(["dead_too_old"]))
