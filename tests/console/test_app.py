"""The console against a real server: what it shows, what its keys do, and that it never lies about its age."""

from __future__ import annotations

import asyncio
import time
from functools import partial
from typing import TYPE_CHECKING

import pytest

from qdeck import UsageError
from qdeck._engine import transitions
from qdeck._engine.keys import LAYOUT
from qdeck.admin import Writer
from qdeck_console.actions import ACTIONS
from qdeck_console.run_console import run_console
from qdeck_console.screens.queues import QueuesScreen
from qdeck_console.widgets.lines import LineList
from support import screens
from support.hostile import HOSTILE, is_clean
from support.screens import HOOKS, MAIL, SEARCH, app_of, console, fail_next, fill, lines, run, text

if TYPE_CHECKING:
    from collections.abc import Callable

    import redis

    from support.servers import Server

until = partial(screens.until, seconds=8.0)


@pytest.mark.parametrize("size", [(160, 48), (120, 36), (80, 24)])
async def test_troubled_queues_come_first_with_their_reason_below(url: str, size: tuple[int, int]) -> None:
    fill(url)
    async with console(url, size=size) as pilot:
        shown = await until(pilot, "lease expired")
        body = "\n".join(lines(app_of(pilot))[3:])
        for heads in (
            ("watch  2", "▲ mail", "lease expired", "fine  1", "hooks", "3 queues, native"),
            ("watch  2", "║ search", "paused · p resume", "fine  1"),
        ):
            places = [body.index(head) for head in heads]
            assert places == sorted(places)
        assert "paused · p resume" in shown
        assert "12 dead letters" not in shown, "over 100 they are a problem"
        assert lines(app_of(pilot))[1].startswith(" ▲ degraded")
        assert "demo" in lines(app_of(pilot))[0]
        assert "? help" in lines(app_of(pilot))[-1]
        assert all(len(line) == size[0] for line in lines(app_of(pilot)))
        assert ("since creation" in shown) == (size[0] >= 140), "the side pane is there in full or not at all"


async def test_a_healthy_empty_deck_says_so(url: str) -> None:
    async with console(url, size=(80, 24)) as pilot:
        shown = await until(pilot, "no queue yet")
        assert "healthy" in shown


async def test_numbers_change_by_themselves(url: str) -> None:
    with Writer(url) as writer:
        writer.enqueue(MAIL, "send", [1])
        async with console(url) as pilot:
            await until(pilot, "1 queue, native")
            await asyncio.to_thread(lambda: [writer.enqueue(MAIL, "send", [n]) for n in range(6)])
            await until(
                pilot, lambda: app_of(pilot).shown.snapshot is not None and "7 jobs waiting" in text(app_of(pilot))
            )


async def test_moving_keys_and_the_cursor_by_identity(url: str) -> None:
    with Writer(url) as writer:
        for name in "abcdef":
            writer.enqueue(f"demo:dev:{name}:actions", "t", [])
        async with console(url) as pilot:
            await until(pilot, "6 queues")
            await pilot.press("s")  # by name
            view = pilot.app.screen.query_one(LineList)

            async def after(*keys: str) -> str:
                await pilot.press(*keys)
                return view.cursor.split(":")[2]

            assert [await after(key) for key in ("g", "j", "down", "k", "up", "G", "k")] == list("abcbafe")
            assert await after("pageup") == "a"
            assert await after("pagedown") == "f"
            assert await after("g", "j", "j") == "c"
            writer.enqueue("demo:dev:aa:actions", "t", [])
            await until(pilot, "7 queues")
            assert view.cursor == "native/demo:dev:c:actions", "a new row above must not move it to another queue"
            assert view.row is not None


async def test_a_key_never_acts_on_a_neighbour_of_what_has_gone(url: str, raw: redis.Redis) -> None:
    with Writer(url) as writer:
        for name in "abc":
            writer.enqueue(f"demo:dev:{name}:actions", "t", [])
        async with console(url) as pilot:
            await until(pilot, "3 queues")
            await pilot.press("s", "g", "j")
            view = pilot.app.screen.query_one(LineList)
            assert view.cursor == "native/demo:dev:b:actions"
            raw.delete("{demo:dev:b:actions}:meta")
            await until(pilot, "2 queues")
            await pilot.press("p")
            await until(pilot, "no queue under the cursor")
            assert not any(row.paused for row in writer.snapshot().queues)
            await pilot.press("j")
            assert view.cursor == "native/demo:dev:c:actions"


async def test_enter_opens_and_escape_goes_back(url: str) -> None:
    fill(url)
    async with console(url, size=(80, 24)) as pilot:
        await until(pilot, "watch")
        await pilot.press("slash", *"search", "enter", "enter")
        shown = await until(pilot, "demo:dev:search:actions")
        assert "paused" in shown
        await pilot.press("G")
        await until(pilot, "enqueued")
        await pilot.press("escape")
        await until(pilot, "watch")
        await pilot.press("enter")
        await until(pilot, "demo:dev:search:actions")
        await pilot.press("q")
        await until(pilot, "watch")
        await pilot.press("q")
        await pilot.pause(0.1)
        assert pilot.app.return_value == 0


async def test_read_only_says_why_it_does_not_act(url: str) -> None:
    fill(url)
    async with console(url, read_only=True) as pilot:
        shown = await until(pilot, "READ-ONLY")
        assert "∅ read-only" in shown
        await pilot.press("p")
        await until(pilot, ":live to allow changes for 30 minutes")
        await pilot.pause(0.2)
    with Writer(url) as writer:
        assert [row.name for row in writer.snapshot().queues if row.paused] == [SEARCH]


async def test_sorting_goes_round(url: str) -> None:
    fill(url)
    async with console(url) as pilot:
        await until(pilot, "watch")
        screen = pilot.app.screen
        assert isinstance(screen, QueuesScreen)

        def order() -> list[str]:
            return [item.key.split(":")[2] for item in screen.view.listing.items if item.key]

        seen = {}
        for _ in range(6):
            seen[screen.sort.label] = order()
            await pilot.press("s")
        assert seen["worst first"][0] in ("mail", "search"), "one is stuck, the other without a worker after a while"
        assert seen["by name"] == ["hooks", "mail", "search"]
        assert seen["by ready"][0] == "search"
        assert seen["by dead"][0] == "hooks"
        await until(pilot, "watch")


async def test_a_frozen_picture_stays_until_it_may_go_on(url: str) -> None:
    with Writer(url) as writer:
        writer.enqueue(MAIL, "send", [1])
        async with console(url) as pilot:
            await until(pilot, "1 queue,")
            await pilot.press("f")
            await until(pilot, "FROZEN")
            writer.enqueue(SEARCH, "reindex", [1])
            await until(pilot, lambda: len(app_of(pilot).latest.snapshot.queues) == 2)  # type: ignore[union-attr] # it has one
            assert "1 queue," in text(app_of(pilot))
            await pilot.press("f")
            await until(pilot, "2 queues,")


async def test_the_filter_takes_letters_as_text(url: str) -> None:
    fill(url)
    async with console(url) as pilot:
        await until(pilot, "watch")
        await pilot.press("slash", *"search")
        shown = await until(pilot, "1 of 3 queues")
        assert "1 stuck" not in shown
        await pilot.press("enter", "p")  # the list has the keys again, and search was paused
        await until(pilot, "by an unknown operator")
        await pilot.press("tab", "enter")
        await until(pilot, "search resumed")
        await pilot.press("escape")
        await until(pilot, "3 queues,")
        await pilot.press("slash", *"nothing")
        await until(pilot, "no queue matches; queues are filtered by name only; esc clears the filter")
        await pilot.press("escape")
        await until(pilot, "3 queues,")
        await pilot.press("j")
    with Writer(url) as writer:
        assert not any(row.paused for row in writer.snapshot().queues)


async def test_help_lists_every_key_with_the_reason_when_it_cannot_act(url: str) -> None:
    async with console(url, size=(80, 24), read_only=True) as pilot:
        await pilot.press("question_mark")
        seen = await until(pilot, "move ──")
        for _ in range(12):
            await pilot.press("pagedown")
            await pilot.pause(0.02)
            seen += text(app_of(pilot))
        for action in ACTIONS:
            if {"list", "queues", "app"} & set(action.scopes):
                assert action.help[:30] in seen, action.id
        assert "everywhere" in seen
        assert "∅ read-only" in seen
        await pilot.press("escape")
        await until(pilot, lambda: "keys of this screen" not in text(app_of(pilot)))


@pytest.mark.parametrize("size", [(160, 48), (80, 24)])
async def test_stuck_jobs_say_why(url: str, size: tuple[int, int]) -> None:
    fill(url)
    async with console(url, size=size) as pilot:
        await pilot.press("3")
        shown = await until(pilot, "worker lost  1")
        assert "wrk-gone" in shown
        await pilot.press("enter")
        shown = await until(pilot, "worker wrk-gone")
        assert "someone" in shown
        await pilot.press("escape", "1")
        await until(pilot, "watch")


@pytest.mark.parametrize("size", [(160, 48), (80, 24)])
async def test_dead_letters_by_error_with_their_traceback(url: str, size: tuple[int, int]) -> None:
    fill(url)
    async with console(url, size=size) as pilot:
        await pilot.press("4")
        shown = await until(pilot, "1–12 of 12")
        assert "refused ‹n›" in shown
        await pilot.press("tab", "enter")
        await until(pilot, "boom")
        await pilot.press("escape")
        await until(pilot, "1–12 of 12")
        await pilot.press("slash", *"message:*3", "enter")
        await until(pilot, "1–1 of 1")


async def test_a_new_dead_letter_appears_and_the_cursor_stays(url: str) -> None:
    fill(url)
    async with console(url) as pilot:
        await pilot.press("4")
        await until(pilot, "1–12 of 12")
        await pilot.press("tab", "j", "j")
        view = pilot.app.focused
        assert isinstance(view, LineList)
        cursor = view.cursor
        with Writer(url) as writer:
            writer.enqueue(HOOKS, "deliver", ["new"], retries=0)
        fail_next(url, HOOKS, {"class": "ConnectionError", "message": "refused 99"})
        await until(pilot, "13 dead letters", seconds=20)
        assert view.cursor == cursor
        assert view.row is not None


async def test_a_lost_server_keeps_the_last_picture_and_comes_back(make_server: Callable[..., Server]) -> None:
    server = make_server(appendonly=True)
    fill(server.url)
    async with console(server.url) as pilot:
        await until(pilot, "watch")
        server.kill9()
        shown = await until(pilot, "server lost")
        assert "watch  2" in shown, "the last picture stays"
        assert "trying" in shown
        await until(pilot, " old")
        await pilot.press("j", "p")
        await until(pilot, "∅ server lost")
        await pilot.press("4", "1")
        server.relaunch()
        await until(pilot, lambda: not app_of(pilot).latest.is_lost, seconds=15)
        await until(pilot, lambda: "server lost" not in lines(app_of(pilot))[1])
        assert "watch  2" in text(app_of(pilot))


async def test_a_server_that_answers_late_shows_as_age_and_freezes_nothing(make_server: Callable[..., Server]) -> None:
    server = make_server()
    fill(server.url)
    async with console(server.url) as pilot:
        await until(pilot, "watch")
        server.freeze()
        try:
            started = time.monotonic()
            await pilot.press("j", "j", "k")
            assert time.monotonic() - started < 4.5, "they wait for no answer"
            await until(pilot, lambda: app_of(pilot).shown.age_s() > 3)
            await until(pilot, " 3s")
        finally:
            server.thaw()
        await until(pilot, lambda: app_of(pilot).shown.age_s() < 1.5, seconds=15)


@pytest.mark.slow
async def test_the_hostile_corpus_on_every_screen(url: str, raw: redis.Redis) -> None:
    corpus = [text.encode("utf-8", "replace").decode() for text in HOSTILE.values()]  # JSON has no lone surrogates
    with Writer(url) as writer:
        for number, hostile in enumerate(corpus):
            writer.enqueue(HOOKS, "deliver", [hostile, {hostile: hostile}], retries=0)
            fail_next(url, HOOKS, {"class": hostile, "message": hostile, "traceback": hostile * 3, "worker": hostile})
            name = f"evil{number}:" + hostile
            raw.hset("qdeck:queues", name.encode(), 1)
            raw.hset(b"{" + name.encode() + b"}:meta", mapping={"v": LAYOUT, "ready": "3"})
        writer.enqueue(MAIL, "send", [corpus[0]])
        run(url, transitions.poll(MAIL, "evil\x1b[2J\x9bworker", 1, free_slots=1, lease_ms=1))
    async with console(url, size=(160, 60)) as pilot:
        app = app_of(pilot)
        for keys in (
            "1",
            "enter",
            "escape",
            "3",
            "enter",
            "escape",
            "4",
            "j",
            "enter",
            "escape",
            "5",
            "6",
            "8",
            "t",
            "escape",
            "9",
            "enter",
            "escape",
            "7",
            "enter",
            "escape",
            "question_mark",
            "escape",
            "colon",
            "escape",
        ):
            await pilot.press(keys)
            for _ in range(3):
                await pilot.pause(0.05)
                assert all(is_clean(line) for line in lines(app)), keys
        await pilot.press("4")
        await until(pilot, "owned")
        await pilot.press("G", "tab", "G", "enter")
        await until(pilot, "on retry")
        assert all(is_clean(line) for line in lines(app))
        assert not app.latest.is_lost


async def test_ten_thousand_queues_draw_what_is_visible(url: str, raw: redis.Redis) -> None:
    with raw.pipeline(transaction=False) as pipe:
        for number in range(10_000):
            name = f"demo:dev:queue{number:05d}:actions"
            pipe.hset("qdeck:queues", name, 1)
            pipe.hset(f"{{{name}}}:meta", mapping={"v": LAYOUT, "done_ttl": "1"})
        pipe.execute()
    async with console(url) as pilot:
        await until(pilot, "10,000 queues", seconds=20)
        view = pilot.app.screen.query_one(LineList)
        drawn = 0
        draw = view.listing.draw

        def counting(*arguments: object) -> object:
            nonlocal drawn
            drawn += 1
            return draw(*arguments)  # type: ignore[arg-type] # passed on as they came

        object.__setattr__(view.listing, "draw", counting)
        await pilot.press("G", "k", "k", "g")
        assert view.cursor.startswith("native/demo:dev:queue00000")
        assert drawn < 600


async def test_a_terminal_that_is_too_small_says_so(url: str) -> None:
    async with console(url, size=(52, 14)) as pilot:
        assert "needs 60×16, has 52×14" in text(app_of(pilot))
        await pilot.resize_terminal(80, 24)
        await until(pilot, "Queues")


def test_without_a_terminal_it_says_what_to_use_instead(url: str) -> None:
    with pytest.raises(UsageError, match="no terminal") as caught:
        run_console(url)
    assert "qdeck status" in caught.value.hint


async def test_a_password_is_never_shown(make_server: Callable[..., Server]) -> None:
    server = make_server(password="S3CRET-word")
    async with console(server.url) as pilot:
        await until(pilot, "no queue yet")
        assert "S3CRET" not in text(app_of(pilot))
        server.kill9()
        shown = await until(pilot, "server lost")
        assert "S3CRET" not in shown


async def test_it_may_be_left_while_a_dialog_is_being_built(url: str) -> None:
    async with console(url) as pilot:
        await until(pilot, "no queue yet")
        app = app_of(pilot)
        app.action_do("help")
        app.exit(7)
    assert app.return_value == 7
    assert app.return_code == 0, "what is half made is no failure"
