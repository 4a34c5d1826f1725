"""The page of a job: payload as a tree, tries one by one, relations, and what keys do there."""

from __future__ import annotations

import contextlib
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from textual.widgets import TextArea

from qdeck.adapters.native.related_jobs import read_kin, read_related
from qdeck.admin import HistoryEvent, JobDetail, QueueRef, Writer
from qdeck_console.format import length
from qdeck_console.presenters import job_page as present
from qdeck_console.presenters import job_past as past
from qdeck_console.presenters import trace
from qdeck_console.presenters.line_parts import PLAIN
from qdeck_console.screens.editor import escaped
from qdeck_console.screens.job import JobScreen
from qdeck_console.widgets.lines import LineList
from support.hostile import is_clean
from support.screens import HOOKS, app_of, bury, command, console, fail_next, lines, row, text, until

if TYPE_CHECKING:
    from pathlib import Path

if TYPE_CHECKING:
    from qdeck_console.presenters.trace import Keyed

TRACE = """Traceback (most recent call last):
  File "/app/jobs/webhooks.py", line 88, in deliver
    post(url)
  File "/usr/lib/python3.11/site-packages/httpx/_client.py", line 10, in post
    raise Refused
Refused: 502"""


def three_tries(url: str) -> JobDetail:
    """A job that died of its third try, and one that waits for it."""
    with Writer(url) as writer:
        given = {"order": {"id": 88213, "lines": [{"sku": "a"}, {"sku": "b"}]}, "gift": False, "secret": "x"}
        made = writer.enqueue(HOOKS, "deliver", ["acme"], given, retries=2)
        for number in range(3):
            event = {"class": "Refused", "message": f"502 the {number + 1}.", "traceback": TRACE, "worker": "wrk-1"}
            fail_next(url, HOOKS, event, retry_ms=0 if number < 2 else -1)
        writer.enqueue(HOOKS, "receipt", [1], id="job-waits", delay=3600)
        writer.enqueue(HOOKS, "thank", [1], id="job-next", after=["job-waits"])
        return writer.job(HOOKS, made.id)


def words(found: list[Keyed]) -> str:
    return "\n".join("".join(part for part, _ in line) for _, line in found)


def test_a_payload_is_a_tree_that_folds(url: str) -> None:
    job = three_tries(url)
    shown = words(present.tree(job, 60, frozenset()))
    assert '1  "acme"' in shown
    assert "▾ order  { 2 }" in shown
    assert "▾ lines  [ 2 ]" in shown
    assert "▸ 0  { sku }" in shown
    assert "gift  false" in shown
    folded = words(present.tree(job, 60, {"p/order"}))
    assert "▸ order  { id, lines }" in folded
    assert "88213" not in folded
    assert present.value_at(job, "p/order/lines/1/sku") == "b"
    assert present.value_at(job, "p/nothing/there") is None


def test_tries_and_their_tracebacks(url: str) -> None:
    job = three_tries(url)
    assert len(past.failed(job)) == 3
    first = words(past.error(job, 0, 90, unfolded=False))
    assert "[ 1 of 3 ]" in first
    assert "502 the 1." in first
    assert "1 library frame folded" in first
    assert "httpx/_client.py" in words(past.error(job, 0, 90, unfolded=True))
    assert "with 3 attempts left" in words(present.relations(job, 200, naming=PLAIN, now_ms=0, related={}, kin=None))
    timeline = words(past.timeline(job, 100, chosen=1, now_ms=0))
    ends = timeline.index("dead      3 of 3 attempts failed")
    assert timeline.index("attempt 1") < timeline.index("attempt 3") < ends


@pytest.mark.parametrize("size", [(160, 48), (80, 24)])
async def test_the_page_and_its_keys(url: str, size: tuple[int, int]) -> None:
    job = three_tries(url)
    async with console(url, size=size) as pilot:
        app = app_of(pilot)
        await command(pilot, f"find {job.id}")
        await until(pilot, "[ 3 of 3 ]")
        screen = app.screen
        assert isinstance(screen, JobScreen)
        assert all(len(line) == size[0] for line in lines(app))
        await pilot.press("]")
        await until(pilot, "this is the last attempt")
        await pilot.press("[", "[")
        await until(pilot, "[ 1 of 3 ]")
        await until(pilot, "502 the 1.")
        await pilot.press("[")
        await until(pilot, "this is the first attempt")
        await pilot.press("]")
        await until(pilot, "[ 2 of 3 ]")
        view = screen.query_one("#list", LineList)
        if size[0] >= 140:
            await pilot.press("tab")
            past = screen.query_one("#past", LineList)
            assert past.has_focus
            past.cursor = "traceback"
            await pilot.press("enter")
            await until(pilot, "httpx/_client.py")
            await pilot.press("tab")
        else:
            await pilot.press("tab")
            await until(pilot, "both parts are in one pane")
        view.cursor = "p/order"
        await pilot.press("y")
        await until(pilot, lambda: "88213" in app.clipboard)
        await pilot.press("enter")
        await until(pilot, lambda: "p/order/id" not in {item.key for item in view.listing.items})
        view.cursor = "would/0"
        await pilot.press("y")
        await until(pilot, lambda: app.clipboard == job.id)
        await pilot.press("c")
        await until(pilot, "it is dead")
        await pilot.press("r")
        await until(pilot, lambda: "◦ ready" in text(app))
        await command(pilot, "find job-waits")
        await until(pilot, "dependents")
        await pilot.press("[")
        await until(pilot, "no attempt failed")
        app.screen.query_one("#list", LineList).cursor = "job/job-next"
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, JobScreen) and app.screen.job_id == "job-next")
        await until(pilot, "depends on")
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, JobScreen) and app.screen.job_id == "job-waits")
        assert "due " in text(app)
        with Writer(url) as writer:
            made = writer.enqueue(HOOKS, "deliver", ["globex"])
        await command(pilot, f"find {made.id}")
        await until(pilot, "globex")
        await pilot.press("x")
        await until(pilot, "the job is no longer stored; its last known state is below")
        assert "globex" in text(app)


async def test_a_payload_is_edited_here_when_there_is_no_editor(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VISUAL", "/no/such/editor")
    with Writer(url) as writer:
        made = writer.enqueue(HOOKS, "deliver", ["old\u202e\x1b[2J"], {"n": 1})
    async with console(url) as pilot:
        app = app_of(pilot)
        await command(pilot, f"find {made.id}")
        await until(pilot, "deliver")
        await pilot.press("e")
        await until(pilot, "f2 save")
        assert is_clean(text(app).replace("\n", ""))
        area = app.screen.query_one("#text", TextArea)
        assert "\\u202e" in area.text
        before = area.text
        area.text = "[1, 2"
        await pilot.press("f2")
        await until(pilot, "the payload is not JSON")
        area.text = before.replace("old", "new")
        await pilot.press("f2")
        seen = await until(pilot, f"Edit the payload of {made.id}")
        assert '- "old' in " ".join(seen.split())
        assert '+ "new' in " ".join(seen.split())
        assert is_clean(seen.replace("\n", ""))
        await pilot.press("tab", "enter")
        await until(pilot, "1 edited")
        await pilot.press("e")
        await until(pilot, "f2 save")
        await pilot.press("escape")
        await until(pilot, "not edited")
    with Writer(url) as writer:
        assert writer.job(HOOKS, made.id).payload() == [["new\u202e\x1b[2J"], {"n": 1}]


async def test_saving_the_payload_of_a_dead_letter_asks_before_it_runs_again(
    url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    bury(url, HOOKS, [{"class": "ValueError", "message": "no such tenant"}])
    opened, script = tmp_path / "opened", tmp_path / "editor.sh"
    script.write_text(f'#!/bin/sh\ncp "$1" {opened}\nsed -i s/acme/globex/ "$1"\n')
    script.chmod(0o700)
    monkeypatch.setenv("VISUAL", str(script))
    async with console(url, "4") as pilot:
        app = app_of(pilot)
        monkeypatch.setattr(app, "suspend", contextlib.nullcontext)  # there is no terminal to give away
        await until(pilot, "1–1 of 1")
        await pilot.press("tab", "e")
        seen = await until(pilot, "with this payload")
        first, *rest = opened.read_text().splitlines()
        assert first == "// Save and quit: the console shows what changed, and asks before the job is retried."
        assert rest[0].startswith("// ")
        assert rest[1] == "["
        words = " ".join(seen.split())
        assert '- "tenant": "acme"' in words
        assert '+ "tenant": "globex"' in words
        assert "Cancel" in words
        assert row(url, HOOKS).dead == 1, "saving alone does nothing"
        await pilot.press("enter")
        await until(pilot, "nothing was changed")
        assert row(url, HOOKS).dead == 1
        await pilot.press("e")
        await until(pilot, "with this payload")
        await pilot.press("tab", "enter")
        await until(pilot, "1 edited")
    with Writer(url) as writer:
        [job] = writer.jobs(HOOKS, state="ready")
        assert writer.job(HOOKS, job.id).payload()[1] == {"tenant": "globex"}


def test_what_a_terminal_might_act_on_is_escaped() -> None:
    assert escaped('{"a": "\u202eé"}\n') == '{"a": "\\u202eé"}\n'
    assert json.loads(escaped('"\U000e0041\x9b"')) == "\U000e0041\x9b"


def _job(*events: HistoryEvent, **more: Any) -> JobDetail:
    return JobDetail(id="job-1", key="k", queue=HOOKS, state="dead", native_state="dead_letter", history=events, **more)


def _failed(at_ms: int, ran_ms: object = None, **more: object) -> HistoryEvent:
    return HistoryEvent(
        at_ms=at_ms, kind="failed", data={"class": "Refused", "worker": "w-1", "ran_ms": ran_ms, **more}
    )


def test_tries_stand_on_one_axis_and_run_where_they_ran() -> None:
    made = HistoryEvent(at_ms=0, kind="enqueued", data={})
    dead = HistoryEvent(at_ms=100_000, kind="dead", data={})
    job = _job(made, _failed(20_000, 10_000), _failed(50_000), _failed(100_000, 50_000), dead, retries=2, attempts=3)
    shown = past.timeline(job, 100, chosen=2, now_ms=200_000)
    rows = words(shown).splitlines()
    assert rows[0].endswith("1m 40s in total, 1m 00s running, 2 attempts")
    bars = [row[72:] for row in rows[2:5]]
    assert [(bar.count("─"), bar.count("━")) for bar in bars] == [(2, 4), (8, 1), (0, 15)]
    assert bars[0].index("━") == 2
    assert len(bars[2].rstrip()) == 28
    assert ("━" * 4, "accent") in shown[2][1]
    assert ("━" * 15, "bad") in shown[4][1]  # the last one, of which it died
    assert "10s" in rows[2]
    assert "3 of 3 attempts failed" in rows[5]
    assert all(length(line) <= 100 for _, line in shown)
    for cells in (40, 72):
        narrow = past.timeline(job, cells, chosen=None, now_ms=0)
        assert all(length(line) <= cells for _, line in narrow)
        assert any("━" in text for _, line in narrow for text, _ in line) == (cells >= 70)


@pytest.mark.parametrize("ran", ["soon", -5, True, 10**30, None, [1]])
def test_how_long_a_try_ran_is_believed_only_when_it_can_be(ran: object) -> None:
    assert past.ran_ms(_failed(5, ran)) is None


def test_a_traceback_folds_libraries_and_marks_the_line_of_the_application() -> None:
    text_of = (
        'Traceback (most recent call last):\n  File "/srv/app/run.py", line 4, in run\n    job()\n    ^^^^^\n'
        '  File "/usr/lib/python3.12/asyncio/base.py", line 9, in call\n    return it\n'
        '  File "/x/site-packages/httpx/_models.py", line 829, in check\n    raise Refused\nhttpx.Refused: 502\n'
    )
    found = trace.lines(text_of.rstrip(), 60, unfolded=False, told="Refused: 502")
    shown = words(found)
    assert "3 frames, 2 library frames folded" in shown
    assert "… 2 frames in asyncio, httpx" in shown
    assert "httpx.Refused" not in shown  # it is told above
    [failing] = [line for _, line in found if any("on-bad_dim" in role for _, role in line)]
    assert length(failing) == 60
    assert "job()" in "".join(part for part, _ in failing)
    assert "_models.py:829" in words(trace.lines(text_of, 60, unfolded=True))
    chained = text_of + "\nDuring handling of the above exception, another exception occurred:\n\n" + text_of
    assert "During handling of the above" in words(trace.lines(chained, 60, unfolded=False))
    assert words(trace.lines("no traceback at all", 60, unfolded=False)) == "no traceback at all"
    assert all(length(line) <= 60 for _, line in trace.lines(chained * 3, 60, unfolded=True))


def test_a_log_tells_levels_by_colour_and_keeps_other_lines() -> None:
    log = "2026-11-18 12:04:28,112 ERROR app: no\nplain " + "x" * 90 + "\n"
    shown = past.output(_job(log=log), 60)
    assert ("error  ", "bad") in shown[2][1]
    assert words(shown).count("x") == 90
    assert "last attempt, 2 lines" in words(shown)
    many = past.output(_job(log="line\n" * 250), 60)
    assert "50 earlier lines" in words(many[:4])


def test_the_jobs_around_a_job_and_what_a_retry_would_do(url: str) -> None:
    with Writer(url) as writer:
        bury(url, HOOKS, [{"class": "Refused", "message": f"502 for {number}"} for number in range(3)])
        dead = writer.page(HOOKS, state="dead", most=1).jobs[0]
        writer.enqueue(HOOKS, "pay", [1], id="job-first", delay=3600)
        writer.enqueue(HOOKS, "thank", [1], id="job-next", after=["job-first"])
        kin = writer.run(read_kin(HOOKS, dead.id))
        around = writer.run(read_related(HOOKS, ["job-first", "job-next"]))
        first, last, gone = (writer.job(HOOKS, job_id) for job_id in ("job-first", "job-next", dead.id))
    assert kin is not None
    newest = words(
        present.relations(replace(gone, since_ms=kin.last), 200, naming=PLAIN, now_ms=kin.last, related={}, kin=kin)
    )
    assert "2 others in this queue failed the same way, earlier." in newest
    gone = replace(gone, since_ms=kin.last - 1)
    told = words(present.relations(gone, 90, naming=PLAIN, now_ms=kin.last, related={}, kin=kin))
    assert "2 others in this queue failed the same way, the last 0s ago" in " ".join(told.split())
    waits = words(present.relations(last, 60, naming=PLAIN, now_ms=0, related=around, kin=None))
    assert "depends on" in waits
    assert "1 delayed" in waits
    waited = present.relations(first, 60, naming=PLAIN, now_ms=0, related=around, kin=None)
    assert "1 blocked" in words(waited)
    assert all(length(line) <= 60 for _, line in waited)
    assert "no longer stored" in words(present.relations(first, 60, naming=PLAIN, now_ms=0, related={}, kin=None))


def test_a_long_text_unfolds_and_json_in_it_is_a_tree() -> None:
    inside = json.dumps({"customer": 1841, "note": "n" * 30, "password": "hidden", "lines": [{"sku": "a"}]})
    job = _job(body=json.dumps([[inside, "item " * 30], {}]).encode())
    shown = present.tree(job, 40, frozenset())
    assert ["▸" in line for line in words(shown).splitlines()[1:]] == [True, True]
    opened = words(present.tree(job, 40, {"p/1", "p/2"}))
    assert "text with JSON, 4" in opened
    assert "customer  1841" in opened
    assert "hidden" not in opened
    assert "masked" in opened
    assert "150 characters" in opened
    assert opened.count("item") == 30
    assert present.value_at(job, "p/1/customer") == 1841
    assert present.value_at(job, "p/1/lines/0/sku") == "a"
    assert present.value_at(job, "p/2#3") is None
    for cells in (20, 40, 90):
        for folded in (frozenset[str](), {"p/1", "p/2", "p/1/lines"}):
            assert all(length(line) <= cells for _, line in present.tree(job, cells, folded))


async def test_what_is_out_of_sight_is_counted_anew_when_something_above_grows(url: str) -> None:
    job = three_tries(url)
    async with console(url, size=(80, 20)) as pilot:
        app = app_of(pilot)
        app.open(JobScreen("dead", QueueRef("native", HOOKS), job.id))
        await until(pilot, "more lines ↓")
        view, head = app.screen.query_one("#list", LineList), app.screen.query_one("#job-head")

        def count() -> int:
            return next(int(line.split()[0]) for line in lines(app) if "more lines ↓" in line)

        await until(pilot, lambda: count() == view.virtual_size.height - view.size.height)
        app.toggle_freeze()  # no picture draws it again
        before, height = count(), head.size.height
        head.styles.height = height + 2
        await until(pilot, lambda: head.size.height == height + 2 and count() == before + 2)
