"""A dialog says to what a job would be changed, and a queue's page gives its name away."""

from __future__ import annotations

from collections import Counter

from qdeck.admin import Writer
from qdeck_console.operations import aim, outcome
from qdeck_console.presenters import confirm
from qdeck_console.presenters.line_parts import PLAIN, Naming
from qdeck_console.screens.queue import QueueScreen
from qdeck_console.screens.target_queue import callable_names
from support.screens import MAIL, app_of, console, until

BILLS = "shop:prod:bills:actions"


def asked(url: str, verb: str, **to: object) -> str:
    with Writer(url) as writer:
        writer.enqueue(MAIL, "send", ["letter"])
        plan = writer.plan(verb, MAIL, **to)  # type: ignore[arg-type]  # what it is changed to
    lines = confirm.plan_lines(plan, Counter(), 70, naming=PLAIN)
    return "\n".join(" ".join("".join(text for text, _ in line).split()) for line in lines)


def test_the_dialog_says_to_which_priority(url: str) -> None:
    assert "to 200 LOW\n" in asked(url, "reprioritise", priority=200)
    assert "to 150 priority\n" in asked(url, "reprioritise", priority=150)


def test_the_dialog_says_to_which_queue(url: str) -> None:
    assert "to queue shop ▸ prod ▸ bills\n" in asked(url, "move", target=BILLS)


async def test_the_page_of_a_queue_gives_what_repairs_it_and_its_row(url: str) -> None:
    with Writer(url) as writer:
        writer.enqueue(MAIL, "send", ["letter"])
    async with console(url, size=(80, 24)) as pilot:
        await until(pilot, "1 queue, native")
        await pilot.press("enter")
        app = app_of(pilot)
        await until(pilot, lambda: isinstance(app.screen, QueueScreen))
        page = app.screen
        assert isinstance(page, QueueScreen)
        await until(pilot, page.lists)
        await pilot.press("y")
        await until(pilot, lambda: app.clipboard == f"qdeck worker MODULE:APP -q {MAIL}")  # what now
        assert page.why_not("write") == ""
        assert len(page.exported()) == 1


def test_a_queue_may_be_called_as_the_list_shows_it() -> None:
    names = ["demo:dev:mail:actions", "demo:dev:mail:digest:actions", "demo:dev:mail:results", "demo:dev:x:y"]
    known = callable_names(names, naming=Naming("demo:dev:"))
    assert known["mail:digest"] == "demo:dev:mail:digest:actions"
    assert all(known[name] == name for name in names)
    assert known["mail"] == "demo:dev:mail:actions"
    two = callable_names(["a:x", "a:x:actions"], naming=PLAIN)
    assert two == {"a:x": "a:x", "a:x:actions": "a:x:actions"}  # in full it is one of them, short it would be both


def test_what_was_done_says_to_what(url: str) -> None:
    with Writer(url) as writer:
        writer.enqueue(MAIL, "send", ["letter"])
        writer.enqueue(BILLS, "pay", [1])
        urgent = writer.plan("reprioritise", MAIL, priority=50)
        moved = writer.plan("move", MAIL, target=BILLS)
        assert aim(urgent, naming=PLAIN) == " to 50 HIGH"
        assert aim(moved, naming=PLAIN) == " to shop ▸ prod ▸ bills"
        result = writer.apply(moved)
    assert outcome(result, to=aim(moved, naming=Naming("shop:prod:")))[0].startswith("1 moved to bills · u ")


def test_the_answer_that_does_nothing_is_not_taken_for_the_other_one() -> None:
    for act, safe in (("Cancel 3", "Keep them"), ("Apply 3", "Cancel"), ("Retry 1", "Cancel")):
        pieces = confirm.buttons(act, on_act=False, why_not="", flat=True)
        assert (pieces[0][0], pieces[2][0]) == (f"[ {safe} ]", f"[ {act} ]")
