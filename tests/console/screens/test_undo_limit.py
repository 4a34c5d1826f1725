"""What undo cannot keep is named before the jobs are gone: in the dialog, and in the plans of the commands."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from core._operations.yard import QUEUE, Yard
from qdeck._engine import batch_transitions
from qdeck._operations import batches
from qdeck.admin import Limits, Writer
from support.commands import Ran, runner
from support.screens import app_of, console, until

if TYPE_CHECKING:
    from collections.abc import Callable

    import redis

LIMIT = 400_000


@pytest.fixture
def qdeck(url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Ran]:
    monkeypatch.setenv("QDECK_URL", url)
    return runner(capsys)


@pytest.fixture
def yard(url: str, raw: redis.Redis, monkeypatch: pytest.MonkeyPatch) -> Yard:
    for module in (batch_transitions, batches):
        monkeypatch.setattr(module, "MAX_UNDO_BYTES", LIMIT)
    return Yard(url, raw)


async def test_the_dialog_says_how_many_can_be_undone(url: str, yard: Yard) -> None:
    yard.bulk_dead(1000, trace=500)
    async with console(url, "4") as pilot:
        await until(pilot, "1,000 dead letters")
        await pilot.press("asterisk", "x")
        shown = await until(pilot, "Discard 1,000 jobs")
        assert "all" not in shown.partition("undo ")[2].split()[:1]
        told = re.search(r"undo +a part +about (\d+) of 1,000 jobs can be undone", shown)
        assert told is not None, shown
        await pilot.press("tab", "enter")
        await until(pilot, "1,000 discarded")
        undoable = next(iter(app_of(pilot).operator.batches))
        with Writer(url) as writer:
            kept = writer.batches()[undoable.batch].undoable
        assert abs(kept - int(told[1])) <= 200, "a slice of 200 jobs is kept whole"


async def test_one_job_that_cannot_be_undone_is_asked_for(url: str, yard: Yard) -> None:
    yard.bulk_dead(2, trace=LIMIT)
    async with console(url, "4") as pilot:
        await until(pilot, "2 dead letters")
        await pilot.press("enter")
        await pilot.press("x")
        shown = await until(pilot, "Discard 1 job")
        assert re.search(r"undo +none +none of 1 job can be undone", shown)
        await pilot.press("enter")
        await until(pilot, "nothing was changed")
        assert len(yard.ids("dead")) == 2


def test_commands_say_it_too(url: str, yard: Yard, qdeck: Callable[..., Ran]) -> None:
    yard.bulk_dead(1000, trace=500)
    ran = qdeck("dead", "discard", QUEUE, "--dry-run")
    told = re.search(r"about (\d+) of 1,000 jobs can be undone: undo keeps .* MiB at most", ran.out)
    assert told is not None, ran.out
    plan = qdeck("dead", "discard", QUEUE, "--dry-run", "--json").json
    assert plan["undoable"] == int(told[1])
    ran = qdeck("purge", "--rule", "dead_too_old", "--set", "dlq_ttl=0.01")
    assert "of 1,000 entries can be undone: undo keeps" in ran.out
    batch = qdeck("dead", "discard", QUEUE, "--yes", "--json").json
    assert abs(batch["undoable"] - int(told[1])) <= 200
    assert qdeck("dead", "retry", QUEUE, "--dry-run", "--json").json["undoable"] == 0
    with Writer(url) as writer:
        writer.undo(batch["batch"])
    plan = qdeck("dead", "discard", QUEUE, "--where", "id:" + yard.ids("dead")[0], "--dry-run", "--json").json
    assert plan["undoable"] == plan["count"] == 1, "the undo of another batch made room"


def test_a_retry_keeps_little_of_large_jobs(url: str, yard: Yard) -> None:
    yard.bulk_dead(20, trace=LIMIT)
    with Writer(url) as writer:
        assert writer.plan("retry", QUEUE).tail.undoable is None
        assert writer.plan("discard", QUEUE).tail.undoable == 0
        assert writer.plan_purge(["dead_too_old"], Limits(dlq_ttl=0.01)).tail.undoable == 0
