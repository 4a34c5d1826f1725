"""What the screens say: names no longer than they must be, and never an act, a number or a wait that is not so."""

from __future__ import annotations

from typing import TYPE_CHECKING

from console.screens.test_acts import until
from console.test_adapters import console as others
from core.adapters.test_conformance import FILL
from qdeck.admin import AsyncWriter, QueueRow, ServerInfo, Snapshot, Status, Totals, UndoResult, Writer
from qdeck_console.app import ConsoleApp
from qdeck_console.feed import FeedState
from qdeck_console.operator import NamedBatch, Work
from qdeck_console.presenters.frame import seen_environment
from qdeck_console.presenters.line_parts import PLAIN, name_parts, naming_of
from qdeck_console.presenters.queue_detail import detail
from qdeck_console.presenters.queues import QueueView
from qdeck_console.queue_findings import ListedQueue, Severity
from qdeck_console.screens.prompt import Prompt, PromptField, confirmation
from qdeck_console.screens.queues import QueuesScreen
from qdeck_console.widgets.lines import Lines
from support.screens import HOOKS, MAIL, console

if TYPE_CHECKING:
    import pytest
    import redis


def picture(*rows: QueueRow) -> Snapshot:
    return Snapshot(
        at_ms=0, server=ServerInfo(), status=Status.HEALTHY, findings=(), adapters=(), totals=Totals(), queues=rows
    )  # fmt: skip


def test_names_of_other_systems_stay_whole_and_do_not_lengthen_ours() -> None:
    theirs = QueueRow(adapter="lists", name="execution:3:main")
    seen = picture(theirs, QueueRow(name=MAIL), QueueRow(name=HOOKS))
    owner = naming_of(seen)
    assert name_parts(MAIL, naming=owner) == ["mail"]
    assert name_parts(theirs.name, naming=owner) == ["execution", "3", "main"]
    assert naming_of(picture(theirs)).owner == ""
    several = picture(QueueRow(name=MAIL), QueueRow(name="demo:prod:mail:actions"))
    assert naming_of(several).owner == ""


def test_the_environment_is_that_of_our_own_queues() -> None:
    theirs = QueueRow(adapter="lists", name="execution:3:main")
    assert seen_environment(picture(theirs, QueueRow(name="shop:prod:mail:actions")), "") == "prod"
    assert seen_environment(picture(theirs), "") == ""
    assert seen_environment(picture(QueueRow(name="shop:prod:mail:actions")), "test") == "test"


def test_what_waits_for_an_answer_says_so() -> None:
    assert Work("purge", asks=True).words() == "purge: waiting for input"
    assert "0 read" in Work("purge").words()


async def test_a_queue_of_another_system_is_not_paused_and_the_reason_is_told(url: str, raw: redis.Redis) -> None:
    FILL["vmpooler"]().populate(raw)
    async with others(url) as pilot:
        await until(pilot, "vmpooler")
        await pilot.press("p")
        await until(pilot, "queues of vmpooler cannot be paused")


async def test_a_frame_gathers_no_rows_to_know_whether_they_could_be_written(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Writer(url) as writer:
        writer.enqueue(MAIL, "send", [1])

    def gathers(_screen: QueuesScreen) -> list[object]:
        raise AssertionError

    monkeypatch.setattr(QueuesScreen, "exported", gathers)
    async with console(url, "j") as pilot:
        app = pilot.app
        assert isinstance(app, ConsoleApp)
        await until(pilot, "mail")
        assert app.screen.why_not("write") == ""  # type: ignore[attr-defined]  # every screen of the console has it


async def test_an_undo_tells_of_those_that_came_back_with_its_jobs(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def undone(_writer: AsyncWriter, batch: str) -> UndoResult:
        return UndoResult(batch=batch, restored=1, skipped=(), dependents=3)

    monkeypatch.setattr(AsyncWriter, "undo", undone)
    async with console(url, "") as pilot:
        app = pilot.app
        assert isinstance(app, ConsoleApp)
        app.operator.undo(NamedBatch("b1", "discard of 1 job"))
        await until(pilot, "undone: discard of 1 job; also 3 dependents")


async def test_the_age_goes_on_while_a_dialog_is_open(url: str) -> None:
    async with console(url, "") as pilot:
        app = pilot.app
        assert isinstance(app, ConsoleApp)
        for dialog in (
            confirmation(app, "Purge 2 jobs", [()], "Purge 2"),
            Prompt(app, "Move", fields=[PromptField(label="to")]),
        ):
            await app.push_screen(dialog)
            await until(pilot, "cancel")
            bar = dialog.query_one("#mbar", Lines)
            app.frozen_ms = 1
            await until(pilot, lambda bar=bar: "FROZEN" in bar.text())  # type: ignore[misc]  # of this round
            app.frozen_ms = None
            await pilot.press("escape")


async def test_a_plan_that_is_wider_than_its_dialog_is_cut_with_a_sign(url: str) -> None:
    async with console(url, "") as pilot:
        app = pilot.app
        assert isinstance(app, ConsoleApp)
        await pilot.resize_terminal(62, 24)
        await app.push_screen(confirmation(app, "Purge 2 jobs", [(("entries " + "x" * 61, "text"),)], "Purge 2"))
        shown = await until(pilot, "Purge 2 jobs")
        assert "x…" in shown


def test_an_age_that_is_not_known_is_not_told_as_zero() -> None:
    entry = ListedQueue(
        row=QueueRow(adapter="scheduler", name="s", ready=5, oldest_exact=False), severity=Severity.FINE
    )
    told = QueueView(feed_state=FeedState(), naming=PLAIN, reasons_shown=True)
    words = ["".join(part for part, _ in line) for line in detail(entry, told, 41)]
    [oldest] = [line for line in words if "oldest waiting" in line]
    assert oldest.split()[-1] == "–"
    assert "≥" not in oldest
