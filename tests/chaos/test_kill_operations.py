"""kill -9 of commands and of the console in the middle of each verb: what is said afterwards is what the data says."""

from __future__ import annotations

import json
import os
import random
import time
from typing import TYPE_CHECKING, Any, Final

import pytest

from core._operations.test_undo import assert_same
from core._operations.yard import OTHER, QUEUE, Yard
from qdeck._engine import keys, programs
from support.commands import runner
from support.screens import app_of, console, text, until
from support.terminals import terminals

if TYPE_CHECKING:
    from collections.abc import Callable

    import redis

    from support.commands import Ran
    from support.processes import PythonProcess
    from support.terminals import Terminal

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]
ROUNDS: Final = int(os.environ.get("QDECK_KILL_ROUNDS", "50"))
JOBS: Final = 6000
STATES: Final = ("ready", "delayed", "blocked", "running", "dead", "done", "cancelled")
DEAD: Final = {
    "retry": ("dead", "retry", QUEUE),
    "discard": ("dead", "discard", QUEUE),
    "purge": ("purge", "--rule", "dead_too_old", "--set", "dlq_ttl=1m", "--now"),
}
READY: Final = {
    "cancel": ("jobs", "cancel", QUEUE),
    "discard of ready jobs": ("jobs", "discard", QUEUE),
    "bury": ("bury", QUEUE, "--state", "ready"),
    "reprioritise": ("jobs", "reprioritise", QUEUE, "--priority", "7"),
    "move": ("jobs", "move", QUEUE, "--to", OTHER, "--create"),
}
VERBS: Final = DEAD | READY
terminal = pytest.fixture(terminals)
CONSOLE: Final = "import sys; from qdeck_console.run_console import run_console; sys.exit(run_console(sys.argv[1]))"


@pytest.fixture
def qdeck(url: str, capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    run = runner(capsys)
    return lambda *words: run(*words, "--url", url)


@pytest.fixture
def yard(url: str, raw: redis.Redis) -> Yard:
    return Yard(url, raw)


def places(yard: Yard) -> dict[bytes, tuple[str, float]]:
    """The state and the score of each job."""
    found: dict[bytes, tuple[str, float]] = {}
    for state in STATES:
        found |= {name: (state, score) for name, score in yard.raw.zrange(yard.key(state), 0, -1, withscores=True)}
    return found


def kept(yard: Yard) -> dict[str, Any]:
    """All that is kept of the queue, but for ids that are kept for a minute after a job came from another queue."""
    return {part: value for part, value in yard.dump().items() if part != "removed"}


def changed(before: dict[bytes, Any], after: dict[bytes, Any]) -> int:
    """How many jobs are not where they were."""
    return sum(after.get(name) != place for name, place in before.items())


class Moment:
    """When to kill, from the first write on: within about twice the time that the work takes on this machine."""

    def __init__(self) -> None:
        self.most_s = 0.06

    def wait(self) -> None:
        time.sleep(random.random() * self.most_s)

    def learn(self, *, was_late: bool) -> None:
        """Come earlier after work that had ended, later after any other: every second kill meets it on the way."""
        self.most_s *= 0.7 if was_late else 1 / 0.7


def kill_in_the_middle(process: PythonProcess, yard: Yard, moment: Moment) -> str:
    """Kill a process a moment after it began a batch; return the batch."""
    deadline = time.monotonic() + 60
    while not (found := yard.raw.hkeys(keys.UNDO)):
        assert time.monotonic() < deadline, process.output
        time.sleep(0.001)
    moment.wait()
    process.kill9()
    process.reap()
    return str(found[0].decode())


def last_row(qdeck: Callable[..., Ran], batch: str) -> dict[str, Any]:
    """The last line of the log about a batch."""
    lines = [json.loads(line) for line in qdeck("activity", "--json").out.splitlines()]
    return next(line for line in reversed(lines) if line["batch"] == batch)


def check_said(qdeck: Callable[..., Ran], batch: str, count: int, total: int) -> bool:
    """Compare what the log and `qdeck undo` say with the data; return whether it was interrupted."""
    row = last_row(qdeck, batch)
    assert row["counts"]["applied"] == count, row
    assert row["outcome"] in ("done", "interrupted")
    assert (row["outcome"] == "interrupted") or count == total
    shown = qdeck("undo", batch, "--json")
    assert (shown.code, shown.json["applied"], shown.json["undoable"]) == (1, count, count)
    return bool(row["outcome"] == "interrupted" and count < total)


def round_of(
    qdeck: Callable[..., Ran],
    yard: Yard,
    make_process: Callable[..., PythonProcess],
    verb: str,
    moments: tuple[Moment, Moment],
) -> tuple[bool, bool]:
    """A verb is killed, then its undo; return whether each met it on the way."""
    yard.raw.flushall()
    if verb in DEAD:
        yard.bulk_dead(JOBS)
    else:
        yard.bulk_ready(JOBS)
    yard.client.run(programs.make_queue(OTHER))
    dump, before = kept(yard), places(yard)
    process = make_process("-m", "qdeck_console", *VERBS[verb], "--yes", "--url", yard.url)
    batch = kill_in_the_middle(process, yard, moments[0])
    yard.expire(batch)
    count = changed(before, places(yard))
    moments[0].learn(was_late=count == JOBS)
    was_killed = check_said(qdeck, batch, count, JOBS)
    undoing = make_process("-m", "qdeck_console", "undo", batch, "--yes", "--url", yard.url)
    deadline = time.monotonic() + 60
    while b'"undo"' not in yard.raw.hget(keys.UNDO, batch) and undoing.code is None:
        assert time.monotonic() < deadline
        time.sleep(0.001)
    moments[1].wait()
    undoing.kill9()
    undoing.reap()
    yard.expire(batch)
    left = changed(before, places(yard))
    moments[1].learn(was_late=left == 0)
    row = last_row(qdeck, batch)
    undo_was_killed = row["outcome"] == "interrupted" and row["verb"] == "undo"
    assert undo_was_killed or (row["verb"], row["outcome"], left) == ("undo", "done", 0), (row, left)
    back = qdeck("undo", batch, "--yes", "--json")
    assert (back.code, back.json["skipped"], back.json["error"]) == (0, [], None)
    assert back.json["undone_by"] or back.json["restored"] == count
    assert places(yard) == before
    assert_same(kept(yard), dump)
    again = qdeck("undo", batch, "--json")
    assert (again.code, again.json["undone_by"] is not None) == (0, True)
    return was_killed, undo_was_killed and left > 0


@pytest.mark.parametrize("verb", VERBS)
def test_commands(qdeck: Callable[..., Ran], yard: Yard, make_process: Callable[..., PythonProcess], verb: str) -> None:
    moments = Moment(), Moment()
    kills = [round_of(qdeck, yard, make_process, verb, moments) for _ in range(ROUNDS)]
    applied, undone = (sum(flags) for flags in zip(*kills, strict=True))
    print(f"{verb}: {ROUNDS} rounds, {applied} killed amid applying, {undone} amid undoing")  # noqa: T201 - for who runs it
    assert applied > ROUNDS / 5, "too few were killed in the middle"


def test_clean(qdeck: Callable[..., Ran], yard: Yard, make_process: Callable[..., PythonProcess]) -> None:
    names = [f"execution:step{n}:free:7" for n in range(3000)]
    kills, moment = 0, Moment()
    for _ in range(ROUNDS):
        yard.raw.flushall()
        with yard.raw.pipeline(transaction=False) as pipe:
            for name in names:
                pipe.rpush(name, "a", name)
            pipe.sadd("task_queues:7", *names)
            pipe.pexpire("task_queues:7", 3_600_000)
            pipe.execute()
        process = make_process("-m", "qdeck_console", "clean", "7", "--idle", "0", "--yes", "--url", yard.url)
        batch = kill_in_the_middle(process, yard, moment)
        yard.expire(batch)
        gone = len(names) - yard.raw.exists(*names)
        moment.learn(was_late=gone == len(names))
        row = last_row(qdeck, batch)
        assert row["counts"]["applied"] == gone, row
        kills += 0 < gone < len(names)
        back = qdeck("undo", batch, "--yes", "--json")
        assert (back.code, back.json["restored"], back.json["skipped"]) == (0, gone, []), back
        assert yard.raw.exists(*names) == len(names)
        assert yard.raw.smembers("task_queues:7") == {name.encode() for name in names}
        assert 3_000_000 < yard.raw.pttl("task_queues:7") <= 3_600_000
    assert kills > ROUNDS / 5, "too few were killed in the middle"


async def test_the_console(qdeck: Callable[..., Ran], url: str, yard: Yard, terminal: Callable[..., Terminal]) -> None:
    """`*` and `x` on dead letters, and the terminal is gone: the next console names it, and u undoes it."""
    kills, moment = 0, Moment()
    for _ in range(ROUNDS):
        yard.raw.flushall()
        yard.bulk_dead(JOBS)
        dump, before = kept(yard), places(yard)
        shown = terminal(CONSOLE, url)
        shown.wait_for(b"1 queue")
        shown.send(b"4")
        shown.wait_for(b"ValueError")  # the list of queues names only the most common error
        shown.send(b"*x")
        shown.wait_for(b"Discard ")
        deadline, again = time.monotonic() + 60, 0.0
        while not (found := yard.raw.hkeys(keys.UNDO)):
            assert time.monotonic() < deadline, shown.output[-2000:]
            if time.monotonic() > again:  # a key that comes before the whole question was drawn does not answer it
                shown.send(b"y")
                again = time.monotonic() + 0.5
            shown.read(0.001)
        moment.wait()
        shown.process.kill()
        shown.process.wait()
        batch = found[0].decode()
        yard.expire(batch)
        count = changed(before, places(yard))
        moment.learn(was_late=count == JOBS)
        was_killed = last_row(qdeck, batch)["outcome"] == "interrupted"
        kills += 0 < count < JOBS
        async with console(url) as pilot:
            if was_killed:
                await until(pilot, f"interrupted: discard of {count:,} of {JOBS:,} jobs")
                await pilot.press("u")
                await until(pilot, "press u again to undo")
                await pilot.press("u")
                await until(pilot, "undone: interrupted discard")
            else:
                await until(pilot, "1 queue")
                assert "interrupted" not in text(app_of(pilot))
                assert qdeck("undo", batch, "--yes").code == 0
        assert places(yard) == before
        assert_same(kept(yard), dump)
    assert kills > ROUNDS / 5, "too few were killed in the middle"
