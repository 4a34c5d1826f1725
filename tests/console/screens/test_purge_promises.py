"""What a purge promises before and tells after: what undo can take back, what a filter hides, what was begun before."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from qdeck._operations import batches
from qdeck.admin import AsyncWriter, BatchResult, QueueRef, Skip, SkipCode, UndoResult, Verb, Writer
from qdeck_console.operations import outcome, undone
from qdeck_console.operator import Work
from qdeck_console.presenters.purge import AppliedPlan, DryRun
from qdeck_console.screens.purge import PurgeScreen
from support.screens import app_of, console, dry_run, lines, row, text, undo, until

if TYPE_CHECKING:
    import redis

MAIL = "shop:dev:mail:actions"


def result(applied: int, undoable: int) -> BatchResult:
    return BatchResult(
        batch="b-1", verb=Verb.PURGE, applied=applied, cancel_requested=0, skipped=(), skipped_count=0,
        undoable=undoable,
        undo_until_ms=1, queues=(QueueRef("native", MAIL),), error=None, stopped=None,
    )  # fmt: skip


def test_what_found_no_room_for_undo_is_not_promised() -> None:
    assert outcome(result(300, 300))[0] == "300 purged · u undoes it"
    assert outcome(result(300, 200))[0] == "300 purged · 200 of them can be undone (u)"
    line = AppliedPlan(count=300, undo_until_ms=1, lost=100).line(100)
    assert "u undoes all but 100 until" in line[1][0]
    assert line[0][1] == "warn"


async def test_the_head_says_what_is_left_to_undo(url: str, raw: redis.Redis) -> None:
    with Writer(url) as writer:
        ids = [writer.enqueue(MAIL, "welcome", [number]).id for number in range(3)]
    async with console(url, "5") as pilot:
        app = app_of(pilot)
        await dry_run(pilot, "3 would be purged")
        await pilot.press("a", "tab", "enter")
        await until(pilot, "3 cancelled   u undoes it until")
        app.operator.remember("b-other", "something else")
        await until(pilot, lambda: "u undoes it until" not in text(app))  # `u` would undo that
        app.operator.batches.pop()
        await until(pilot, "u undoes it until")
        raw.zrem(f"{{{MAIL}}}:cancelled", ids[1])  # it went on since
        await undo(pilot)
        await until(pilot, "undo of purge of 3 entries: 2 restored")
        shown = await until(pilot, "3 cancelled; 2 restored, 1 not")
        assert "u undoes" not in shown
        assert app.operator.batches == []


async def test_what_an_undo_broke_off_can_be_undone_again(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with Writer(url) as writer:
        writer.enqueue(MAIL, "welcome", [1])
        batch = writer.apply(writer.plan("discard", MAIL)).batch
        writer.enqueue(MAIL, "welcome", [2])
    broken = UndoResult(batch=batch, restored=1, skipped=(), error="the server went away")

    async def breaks(*_: object) -> UndoResult:
        return broken

    async with console(url, "5") as pilot:
        operator = app_of(pilot).operator
        operator.remember(batch, "purge of 3 jobs")
        with monkeypatch.context() as patched:
            patched.setattr(AsyncWriter, "undo", breaks)
            await undo(pilot)
            await until(pilot, "then the server went away")
        assert [done.batch for done in operator.batches] == [batch]
        assert AppliedPlan(count=3, undo_until_ms=1, back=1).line(100)[1][0].startswith("   u undoes the rest until")


@pytest.mark.parametrize("cells", [80, 100])
async def test_while_a_dry_run_goes_on_the_footer_says_why_nothing_can_be_applied(url: str, cells: int) -> None:
    async with console(url, "5", size=(cells, 30)) as pilot:
        app = app_of(pilot)
        await until(pilot, "older than")
        screen = app.screen
        assert isinstance(screen, PurgeScreen)
        app.theme = "qdeck-ink"  # in sixteen colours keys that cannot act are left out
        screen.work.dry = DryRun(("done_too_old",), ())
        app.operator.work = Work("dry run", started=0.0, done=500)
        screen.remove_class("-rules")
        screen.redraw()
        await until(pilot, "writes nothing")
        shown = text(app).splitlines()[-1]
        assert "a apply: the dry run is not finished" in shown
        assert "S save" not in shown
        app.operator.work.cancelled = True
        screen.redraw()
        await until(pilot, "dry run: stopping after this step")
        screen.work.dry = app.operator.work = None


async def test_rules_that_are_on_are_told_with_letters_where_there_are_no_signs(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QDECK_ASCII", "1")
    async with console(url, "5") as pilot:
        app = app_of(pilot)
        shown = await until(pilot, "no plan yet")
        assert "[x] done too old" in shown
        assert "[ ] orphaned queues" in shown
        line = next(line for line in lines(app) if "found" in line)
        assert line.index("rule") == next(line for line in lines(app) if "done too old" in line).index("done")
        work = app.screen
        assert isinstance(work, PurgeScreen)
        await pilot.resize_terminal(80, 24)
        await pilot.press("d")
        await until(pilot, "nothing was written")
        assert "[x]" in next(line for line in text(app).splitlines() if " rules " in line and "more" in line)


def test_a_skip_without_an_id_stands_for_more_than_itself() -> None:
    told = UndoResult(batch="b-1", restored=200, skipped=(Skip(code=SkipCode.UNDO_NOT_KEPT, data="100", queue=MAIL),))
    words = undone(told, "purge of 300 jobs")[0]
    assert words.startswith("undo of purge of 300 jobs: 200 restored; the others skipped: 100 jobs are beyond the")
    told = UndoResult(batch="b-1", restored=2, skipped=(Skip(id="a", code=SkipCode.CHANGED, queue=MAIL),))
    assert undone(told, "purge of 3 jobs")[0].endswith("; 1 skipped: has changed since")


def test_what_was_told_to_end_says_so_at_once() -> None:
    work = Work("dry run", done=5)
    assert work.words() == "dry run: 5 read, esc cancels"
    work.cancelled = True
    assert work.words() == "dry run: stopping after this step"


async def test_the_dialog_says_what_cannot_be_kept_and_that_a_filter_only_hides(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Writer(url) as writer:
        writer.enqueue(MAIL, "welcome", [1])
    async with console(url, "5") as pilot:
        work = await dry_run(pilot, "1 would be purged")
        await pilot.press("a")
        shown = await until(pilot, "Purge 1 entry of 1 queue")
        assert "1 rule, 1 queue, found" in shown
        assert "keeps" in shown
        await pilot.press("escape")
        await until(pilot, "nothing was changed")
        monkeypatch.setattr(batches, "MAX_UNDO_BYTES", 10)
        await pilot.press("d")
        await until(pilot, lambda: work.work.plan is not None and work.work.plan.tail.undoable == 0)
        work.set_filter("nothing has this")
        await until(pilot, "no queue matches")
        await pilot.press("a")
        shown = await until(pilot, "Purge 1 entry of 1 queue")
        assert "none of 1 entry can be undone" in shown
        assert "the filter only hides rows; all is applied" in shown
        await pilot.press("enter")
        await until(pilot, "nothing was changed")
        assert row(url, MAIL).ready == 1, "enter alone never destroys"
