"""A queue that a newer version of qdeck wrote is named as such, never read by guessing, and never changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from qdeck._engine import keys
from support.screens import HOOKS, SEARCH, app_of, console, fill, text, until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import redis

    from support.commands import Ran

NEWER = "layout version 2"


@pytest.fixture
def newer(url: str, raw: redis.Redis) -> Iterator[redis.Redis]:
    """A server with one queue of a newer version beside healthy ones."""
    fill(url)
    raw.hset(keys.key(HOOKS, "meta"), "v", "2")
    before = raw.execute_command("DEBUG", "DIGEST")
    yield raw
    assert raw.execute_command("DEBUG", "DIGEST") == before, "nothing was written"


@pytest.mark.parametrize(
    "command",
    [
        ("jobs", HOOKS),
        ("jobs", HOOKS, "--state", "dead"),
        ("job", HOOKS, "some-id"),
        ("dead", HOOKS),
        ("dead", "--group", HOOKS),
        ("dead", "retry", HOOKS, "--yes"),
        ("dead", "discard", HOOKS, "--yes"),
        ("jobs", "cancel", HOOKS, "--yes"),
        ("jobs", "reprioritise", HOOKS, "--priority", "HIGH", "--yes"),
        ("stuck", HOOKS),
        ("requeue", HOOKS, "--yes"),
        ("bury", HOOKS, "--state", "ready", "--yes"),
        ("queues", "pause", HOOKS),
        ("enqueue", HOOKS, "deliver"),
        ("purge", HOOKS),
    ],
)
def test_a_command_on_it_is_refused_and_says_why(
    newer: redis.Redis, url: str, qdeck: Callable[..., Ran], command: tuple[str, ...]
) -> None:
    ran = qdeck(*command, "--url", url)
    assert ran.code != 0, ran
    assert NEWER in ran.err, ran
    assert "pip install -U qdeck" in ran.err


@pytest.mark.parametrize("command", [("status",), ("queues",), ("health",)])
def test_a_command_over_all_queues_names_it_and_shows_the_others(
    newer: redis.Redis, url: str, qdeck: Callable[..., Ran], command: tuple[str, ...]
) -> None:
    ran = qdeck(*command, "--json", "--url", url)
    assert NEWER in ran.out + ran.err, ran
    if command in (("status",), ("queues",)):
        rows = ran.json["queues"] if isinstance(ran.json, dict) else ran.json
        found = {row["name"]: row for row in rows}
        assert found[SEARCH]["ready"] == 40
        assert found[HOOKS]["dead"] is None, "what it holds is not known"


async def test_the_console_shows_it_as_unreadable_and_offers_nothing(newer: redis.Redis, url: str) -> None:
    async with console(url) as pilot:
        await until(pilot, NEWER)
        await pilot.press("4")
        shown = await until(pilot, lambda: "hooks" in text(app_of(pilot)) or "no dead letters" in text(app_of(pilot)))
        assert "ConnectionError" not in shown
