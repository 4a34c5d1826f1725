"""The Activity screen: what became of a batch, and undo of the one that is chosen."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from qdeck import UsageError
from qdeck._engine import transitions
from qdeck._operations import activity
from qdeck.admin import Activity, Reader, UsedRule, Writer
from qdeck_console.format import length
from qdeck_console.presenters import activity as present
from qdeck_console.presenters import batch
from qdeck_console.presenters.line_parts import PLAIN
from qdeck_console.screens.activity import ActivityScreen, BatchScreen
from support.hostile import HOSTILE, is_clean
from support.screens import HOOKS, SEARCH, app_of, console, fail_next, fill, lines, run, text, until

if TYPE_CHECKING:
    import redis


def retry(url: str, where: str = "") -> str:
    """Retries dead letters and returns the batch."""
    with Writer(url) as writer:
        return writer.apply(writer.plan("retry", HOOKS, where=where)).batch


def finish_next(url: str) -> None:
    """Runs the next job, and it is done."""
    [job] = run(url, transitions.poll(HOOKS, "wrk-2", 1, free_slots=1, lease_ms=60_000)).jobs
    done = transitions.Ending(kind="done", id=job.id, token=job.token)
    run(url, transitions.poll(HOOKS, "wrk-2", 2, free_slots=0, lease_ms=60_000, endings=[done]))


def test_what_became_of_a_batch_is_counted_where_its_jobs_are(url: str) -> None:
    fill(url)
    batch = retry(url)
    for _ in range(3):
        fail_next(url, HOOKS, {"class": "ConnectionError", "message": "again"})
    finish_next(url)
    with Reader(url) as reader:
        seen = reader.batch_outcomes(batch)
        assert (seen.jobs, seen.total) == (12, 12)
        assert (seen.done, seen.dead_again, seen.waiting) == (1, 3, 8)
        assert present.truth(seen) == ("1 done, 3 dead again, 8 waiting", "warn")
        assert dict(seen.errors) == {"ConnectionError": 3}
        assert [row.verb for row in reader.run(activity.newest(10))] == ["retry"]
        with pytest.raises(UsageError):
            reader.batch_outcomes("b-nobody")


@pytest.mark.parametrize("size", [(160, 48), (80, 24)])
async def test_a_batch_is_opened_and_undone(url: str, size: tuple[int, int]) -> None:
    fill(url)
    batch = retry(url)
    fail_next(url, HOOKS, {"class": "ConnectionError", "message": "again"})
    async with console(url, "9", size=size) as pilot:
        app = app_of(pilot)
        await until(pilot, "1 dead again")
        assert all(len(line) == size[0] for line in lines(app))
        await pilot.press("enter")
        await until(pilot, "outcomes ──")
        assert isinstance(app.screen, BatchScreen)
        seen = await until(pilot, "restores 11 jobs")
        assert batch in seen
        await pilot.press("u")
        await until(pilot, "retry of 12 jobs in hooks, ")
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, ActivityScreen))
        await pilot.press("y")
        await until(pilot, lambda: app.clipboard == batch)
        await pilot.press("u")  # it was named a moment ago
        await until(pilot, "2 operations")
        await pilot.press("G", "u")
        await until(pilot, "already undone by")
        await pilot.press("slash", *"nothing at all", "enter")
        await until(pilot, "no operation matches")


async def test_each_row_tells_what_became_of_it(url: str) -> None:
    fill(url)
    with Writer(url) as writer:
        some = [job.id for job in writer.page(HOOKS, state="dead", most=3).jobs]
        first = writer.apply(writer.plan("retry", HOOKS, ids=some)).batch
        second = retry(url)
        for _ in range(2):  # it was paused before
            writer.resume(SEARCH)
            writer.pause(SEARCH)
            time.sleep(0.005)  # lines of the log are told apart by their moment
    fail_next(url, HOOKS, {"class": "Timeout", "message": "again"})
    async with console(url, "9") as pilot:
        app = app_of(pilot)
        seen = await until(pilot, lambda: "1 dead again" in text(app) and "waiting" in text(app))
        assert "still paused, " in seen
        assert seen.count("resumed by") == 1
        assert isinstance(app.screen, ActivityScreen)
        log = app.screen.data
        assert log is not None
        assert {first, second} <= set(log.outcomes), "also those that the cursor is not on"
        await pilot.press("G")
        await until(pilot, "dead again, by error")
        assert "Timeout" in text(app)


async def test_a_row_promises_no_undo_that_its_pane_denies(url: str) -> None:
    with Writer(url) as writer:
        writer.enqueue(HOOKS, "deliver", [1], delay=3600)
        writer.apply(writer.plan("run", HOOKS))
    finish_next(url)
    async with console(url, "9") as pilot:
        seen = await until(pilot, "nothing left to undo")
        [row] = [line.partition("│")[0] for line in seen.splitlines() if " run  " in line.partition("│")[0]]
        assert "1 done" in row
        assert not row.rstrip().endswith("m"), row
        await pilot.press("u")
        await until(pilot, "∅ nothing left to undo")


def test_a_purge_over_several_rules_names_them_on_a_line_of_their_own() -> None:
    rules = tuple(UsedRule(rule=name) for name in ("done_too_old", "dead_too_old", "pending_too_old"))
    row = Activity(at_ms=1, who="agent", host="desk", verb="purge", rules=rules, counts={"applied": 0})
    table = present.table_of([row])
    first, second = (
        "".join(part for part, _ in line)
        for line in present.lines(row, table, 113, present.ActivityView(present.Later(), 5, PLAIN), at_cursor=False)
    )
    assert "3 rules" in first
    assert "…" not in first
    assert second.strip() == "3 rules: done too old, dead too old, pending too old"


def test_an_undo_of_a_purge_names_its_rules_the_same_way_and_its_page_has_one_on_a_line() -> None:
    rules = (
        UsedRule(rule="done_too_old", setting="max_completed_age", value=3600, unit="s"),
        UsedRule(rule="dead_too_many", setting="dlq_max_entries", value=10_000),
        UsedRule(rule="broken_\x1b[31mentries"),
    )
    row = Activity(
        at_ms=1, who="ana", host="desk", verb="undo", rules=rules, counts={"restored": 2}, reason="purge", batch="b-1"
    )
    table = present.table_of([row])
    first, second = (
        "".join(part for part, _ in line)
        for line in present.lines(row, table, 113, present.ActivityView(present.Later(), 5, PLAIN), at_cursor=False)
    )
    assert "3 rules" in first
    assert second.strip().startswith("3 rules: done too old, dead too many, broken ")
    assert "\x1b" not in second
    page = batch.side(row, 60, later=present.Later(), now_ms=5, problem="", naming=PLAIN)
    told = ["".join(part for part, _ in line).rstrip() for line in page]
    assert "rules    done too old  max_completed_age 1h" in told
    assert "         dead too many  dlq_max_entries 10,000" in told
    assert not any("\x1b" in line for line in told)


async def test_nothing_was_done_yet_and_read_only(url: str) -> None:
    async with console(url, "9", size=(80, 24), read_only=True) as pilot:
        await until(pilot, "no operations yet")
        await pilot.press("u")
        await until(pilot, "read-only")


@pytest.mark.parametrize("cells", [60, 76, 100, 118])
def test_every_width_has_its_columns(cells: int) -> None:
    row = Activity(
        at_ms=1, who="ana", host="desk", verb="reprioritise", queues=("a:b:c:d",), counts={"applied": 1200},
        filter="error:X", reason="INC-1",
    )  # fmt: skip
    table = present.table_of([row])
    drawn = present.lines(row, table, cells, present.ActivityView(present.Later(), 5, PLAIN), at_cursor=False)
    assert len(drawn) == present.height(row, table, cells) == 2
    assert all(length(line) <= cells for line in drawn)
    assert length(table.head(cells)) <= cells
    assert cells < 70 or "1,200" in "".join(part for part, _ in drawn[0])


async def test_what_others_wrote_is_text_only(url: str, raw: redis.Redis) -> None:
    fill(url)
    with Writer(url) as writer:
        for word in HOSTILE.values():
            entry = Activity(
                at_ms=1, who=word, host=word, verb=word, filter=word, reason=word, queues=(word,), batch=word
            )
            try:
                writer.write(activity.record(entry))
            except UnicodeEncodeError:
                continue
    async with console(url, "9") as pilot:
        await until(pilot, "operation")
        for _ in range(4):
            await pilot.press("j")
            assert is_clean(text(app_of(pilot)).replace("\n", ""))
        await pilot.press("enter")
        await until(pilot, "request ──")
        assert is_clean(text(app_of(pilot)).replace("\n", ""))
