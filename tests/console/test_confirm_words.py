"""A dialog says to what a job would be changed, and a queue's page gives its name away."""

from __future__ import annotations

from qdeck._deck.deck import Deck
from qdeck._operations import api
from qdeck_console.presenters import confirm
from qdeck_console.screens.detail import QueueScreen
from support.screens import MAIL, app_of, console, until

BILLS = "shop:prod:bills:actions"


def asked(url: str, verb: str, **to: object) -> str:
    with Deck(url) as deck:
        deck.enqueue(MAIL, "send", ["letter"])
        plan = api.build_plan(deck, verb, MAIL, **to)  # type: ignore[arg-type]  # what it is changed to
    lines = confirm.plan_lines(plan, [], 70, hide="")
    return "\n".join(" ".join("".join(text for text, _ in line).split()) for line in lines)


def test_the_dialog_says_to_which_priority(url: str) -> None:
    assert "to 200 LOW\n" in asked(url, "reprioritise", priority=200)
    assert "to 150 priority\n" in asked(url, "reprioritise", priority=150)


def test_the_dialog_says_to_which_queue(url: str) -> None:
    assert "to queue shop ▸ prod ▸ bills\n" in asked(url, "move", target=BILLS)


async def test_the_page_of_a_queue_gives_its_name_and_its_row(url: str) -> None:
    with Deck(url) as deck:
        deck.enqueue(MAIL, "send", ["letter"])
    async with console(url, size=(80, 24)) as pilot:
        await until(pilot, "1 queue, native")
        await pilot.press("enter")
        app = app_of(pilot)
        await until(pilot, lambda: isinstance(app.screen, QueueScreen))
        page = app.screen
        assert isinstance(page, QueueScreen)
        await until(pilot, page.lists)
        await pilot.press("y")
        await until(pilot, lambda: app.clipboard == MAIL)
        assert page.why_not("write") == ""
        assert len(page.exported()) == 1
