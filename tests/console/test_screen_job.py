"""The page of a job: payload as a tree, tries one by one, relations, and what keys do there."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from textual.widgets import TextArea

from qdeck._deck.deck import Deck
from qdeck_console.presenters import job_page as present
from qdeck_console.screens.editor import escaped
from qdeck_console.screens.job import JobScreen
from qdeck_console.widgets.lines import LineList
from support.hostile import is_clean
from support.screens import HOOKS, app_of, command, console, fail_next, lines, text, until

if TYPE_CHECKING:
    from qdeck._deck.model import JobDetail

TRACE = """Traceback (most recent call last):
  File "/app/jobs/webhooks.py", line 88, in deliver
    post(url)
  File "/usr/lib/python3.11/site-packages/httpx/_client.py", line 10, in post
    raise Refused
Refused: 502"""


def three_tries(url: str) -> JobDetail:
    """A job that died of its third try, and one that waits for it."""
    with Deck(url) as deck:
        given = {"order": {"id": 88213, "lines": [{"sku": "a"}, {"sku": "b"}]}, "gift": False, "secret": "x"}
        made = deck.enqueue(HOOKS, "deliver", ["acme"], given, retries=2)
        for number in range(3):
            event = {"class": "Refused", "message": f"502 the {number + 1}.", "traceback": TRACE, "worker": "wrk-1"}
            fail_next(url, HOOKS, event, retry_ms=0 if number < 2 else -1)
        deck.enqueue(HOOKS, "receipt", [1], id="job-waits", delay=3600)
        deck.enqueue(HOOKS, "thank", [1], id="job-next", after=["job-waits"])
        return deck.job(HOOKS, made.id)


def words(found: list[present.Keyed]) -> str:
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
    assert len(present.tries(job)) == 3
    first = words(present.error(job, 0, 90, unfolded=False))
    assert "[ 1 of 3 ]" in first
    assert "502 the 1." in first
    assert "1 of libraries folded" in first
    assert "httpx/_client.py" in words(present.error(job, 0, 90, unfolded=True))
    assert "with 0 of 3 tries used" in words(present.relations(job, 200, hide=""))
    timeline = words(present.timeline(job, 100, chosen=1, now_ms=0))
    assert timeline.index("try 1") < timeline.index("try 3") < timeline.index("to the dead letters")


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
        await until(pilot, "that is the last try")
        await pilot.press("[", "[")
        await until(pilot, "[ 1 of 3 ]")
        await until(pilot, "502 the 1.")
        await pilot.press("[")
        await until(pilot, "that is the first try")
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
            await until(pilot, "there is one pane")
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
        await until(pilot, "waited for by")
        await pilot.press("[")
        await until(pilot, "it did not fail")
        app.screen.query_one("#list", LineList).cursor = "job/job-next"
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, JobScreen) and app.screen.job_id == "job-next")
        await until(pilot, "waits for")
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, JobScreen) and app.screen.job_id == "job-waits")


async def test_a_payload_is_edited_here_when_there_is_no_editor(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VISUAL", "/no/such/editor")
    with Deck(url) as deck:
        made = deck.enqueue(HOOKS, "deliver", ["old\u202e\x1b[2J"], {"n": 1})
    async with console(url) as pilot:
        app = app_of(pilot)
        await command(pilot, f"find {made.id}")
        await until(pilot, "deliver")
        await pilot.press("e")
        await until(pilot, "f2 take it")
        assert is_clean(text(app).replace("\n", ""))
        area = app.screen.query_one("#text", TextArea)
        assert "\\u202e" in area.text
        before = area.text
        area.text = "[1, 2"
        await pilot.press("f2")
        await until(pilot, "the payload is no JSON")
        area.text = before.replace("old", "new")
        await pilot.press("f2")
        await until(pilot, "1 edited")
        await pilot.press("e")
        await until(pilot, "f2 take it")
        await pilot.press("escape")
        await until(pilot, "nothing was changed")
    with Deck(url) as deck:
        assert deck.job(HOOKS, made.id).payload() == [["new\u202e\x1b[2J"], {"n": 1}]


def test_what_a_terminal_might_act_on_is_escaped() -> None:
    assert escaped('{"a": "\u202eé"}\n') == '{"a": "\\u202eé"}\n'
    assert json.loads(escaped('"\U000e0041\x9b"')) == "\U000e0041\x9b"
