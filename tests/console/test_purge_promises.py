"""What a purge promises before and tells after: what undo can take back, what a filter hides, what was begun before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qdeck._deck.deck import Deck
from qdeck._operations.model import BatchResult, Skip, UndoResult, Verb
from qdeck_console.operating import outcome, undone
from qdeck_console.presenters import purgeruns
from qdeck_console.presenters.purge import Applied
from qdeck_console.screens.acting import Work
from qdeck_console.screens.purge import PurgeScreen
from support.driving import app_of, console, row, until

if TYPE_CHECKING:
    import pytest

MAIL = "shop:dev:mail:actions"


def result(applied: int, undoable: int) -> BatchResult:
    return BatchResult(
        batch="b-1", verb=Verb.PURGE, applied=applied, asked=0, skipped=(), skipped_count=0, undoable=undoable,
        undo_until_ms=1, queues=(MAIL,), error=None, stopped=None,
    )  # fmt: skip


def test_what_found_no_room_for_undo_is_not_promised() -> None:
    assert outcome(result(300, 300))[0] == "300 purged · u undoes it"
    assert outcome(result(300, 200))[0] == "300 purged · u undoes all but 100"
    line = Applied(count=300, undo_until_ms=1, lost=100).line(100)
    assert "u undoes all but 100 until" in line[1][0]
    assert line[0][1] == "warn"


def test_a_skip_without_an_id_stands_for_more_than_itself() -> None:
    told = UndoResult(batch="b-1", restored=200, skipped=(Skip(id="", why="there was no room", queue=MAIL),))
    assert undone(told, "purge of 300 jobs")[0] == "200 went back, of purge of 300 jobs; others stay: there was no room"
    told = UndoResult(batch="b-1", restored=2, skipped=(Skip(id="a", why="it changed", queue=MAIL),))
    assert undone(told, "purge of 3 jobs")[0].endswith("; 1 stay: it changed")


def test_what_was_told_to_end_says_so_at_once() -> None:
    work = Work("dry run", done=5)
    assert work.words() == "dry run: 5 looked at, esc cancels"
    work.cancelled = True
    assert work.words() == "dry run: ends after this step"


async def test_the_dialog_says_what_cannot_be_kept_and_that_a_filter_only_hides(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Deck(url) as deck:
        deck.enqueue(MAIL, "welcome", [1])
    async with console(url, "5") as pilot:
        await until(pilot, "no plan yet")
        work = app_of(pilot).screen
        assert isinstance(work, PurgeScreen)
        work.limits = work.limits.changed("max_ready_age=0s")
        await pilot.press("d")
        await until(pilot, "1 would go")
        await pilot.press("a")
        shown = await until(pilot, "Purge 1 entry of 1 queue")
        assert "1 rule, 1 queue, found" in shown
        assert "keeps" in shown
        await pilot.press("escape")
        await until(pilot, "nothing was done")
        monkeypatch.setattr(purgeruns, "KEEP_BYTES", 10)
        work.set_filter("nothing has this")
        await until(pilot, "no queue of the plan matches")
        await pilot.press("a")
        shown = await until(pilot, "Purge 1 entry of 1 queue")
        assert "a part" in shown
        assert "10 B of room to keep them" in shown
        assert "the filter only hides: all of the plan goes" in shown
        await pilot.press("enter")
        await until(pilot, "nothing was done")
        assert row(url, MAIL).ready == 1, "enter alone never destroys"
