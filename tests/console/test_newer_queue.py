"""A queue that a newer version of qdeck wrote is named as such, never read by guessing, and never changed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from qdeck._engine import keys
from support.screens import HOOKS, MAIL, SEARCH, app_of, console, fill, text, until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import redis

    from support.commands import Ran

NEWER = "written by a newer version (layout 3)"


@pytest.fixture
def newer(url: str, raw: redis.Redis) -> Iterator[redis.Redis]:
    """A server with one queue of a newer version beside healthy ones."""
    fill(url)
    raw.hset(keys.key(HOOKS, "meta"), "v", "3")
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
        assert found[HOOKS]["dead"] is None, "what it holds is unknown"


PARTS = [("dead",), ("dead", "--group"), ("dead", "export"), ("stuck",), ("find", "some-id"), ("doctor",)]


@pytest.mark.parametrize("command", PARTS)
def test_a_list_over_all_queues_names_what_it_leaves_out(
    newer: redis.Redis, url: str, qdeck: Callable[..., Ran], command: tuple[str, ...]
) -> None:
    check_named(qdeck, url, command, HOOKS, NEWER)


def test_a_queue_of_an_earlier_layout_is_refused_with_what_to_do(
    newer: redis.Redis, url: str, qdeck: Callable[..., Ran]
) -> None:
    newer.hset(keys.key(HOOKS, "meta"), "v", "1")
    ran = qdeck("jobs", "discard", HOOKS, "--yes", "--url", url)
    newer.hset(keys.key(HOOKS, "meta"), "v", "3")
    assert ran.code != 0
    told = f"queue '{HOOKS}' was written by an earlier development version (layout 1); this qdeck reads layout 2"
    assert told in ran.err
    assert f"delete its keys: redis-cli --scan --pattern '{{{HOOKS}}}:*'" in ran.err


@pytest.mark.parametrize("verb", ["retry", "discard"])
def test_a_plan_over_all_queues_skips_it(newer: redis.Redis, url: str, qdeck: Callable[..., Ran], verb: str) -> None:
    ran = qdeck("dead", verb, "--json", "--url", url)
    assert ran.code == 1, ran
    assert ran.json["count"] == 0, "its jobs are not guessed at"
    assert [skip["queue"] for skip in ran.json["skipped"]] == [HOOKS]
    assert NEWER in ran.err


def test_a_purge_over_all_queues_skips_it(newer: redis.Redis, url: str, qdeck: Callable[..., Ran]) -> None:
    ran = qdeck("purge", "--set", "max_ready_age=0s", "--set", "dlq_ttl=0s", "--json", "--url", url)
    assert ran.code == 1, ran
    assert NEWER in ran.err
    assert {entry["queue"] for entry in ran.json["entries"]} == {SEARCH, MAIL}, "its dead letters are as old"


def check_named(qdeck: Callable[..., Ran], url: str, command: tuple[str, ...], name: str, why: str) -> None:
    """The command goes on, with exit code 1, and names what it left out and why in one line."""
    ran = qdeck(*command, *([] if command[-1] == "export" else ["--json"]), "--url", url)
    assert ran.code == 1, ran
    if command == ("doctor",):
        told = " ".join(check["detail"] for check in ran.json["checks"] if check["name"] == "unreadable")
    else:
        assert all(
            isinstance(json.loads(line), list | dict) for line in ran.out.splitlines() if command[-1] == "export"
        )
        assert command[-1] == "export" or isinstance(ran.json, list)
        [told] = [line for line in ran.err.splitlines() if "cannot be read" in line]
    assert name in told, ran
    assert why in told, ran


@pytest.mark.parametrize("command", [("dead",), ("dead", "--group"), ("dead", "export")])
@pytest.mark.parametrize("part", ["dead", "meta", "head"])
def test_a_list_over_all_queues_names_a_queue_with_a_key_of_another_type(
    url: str, raw: redis.Redis, qdeck: Callable[..., Ran], command: tuple[str, ...], part: str
) -> None:
    fill(url)
    raw.delete(keys.key(HOOKS, part))
    raw.set(keys.key(HOOKS, part), "text")
    if command == ("dead", "--group") and part == "head":
        return  # groups are counted without it
    check_named(qdeck, url, command, HOOKS, "another type")


@pytest.mark.parametrize("command", [("stuck",), ("doctor",)])
@pytest.mark.parametrize("part", ["running", "meta"])
def test_stuck_and_doctor_name_a_queue_with_a_key_of_another_type(
    url: str, raw: redis.Redis, qdeck: Callable[..., Ran], command: tuple[str, ...], part: str
) -> None:
    fill(url)
    raw.delete(keys.key(MAIL, part))
    raw.set(keys.key(MAIL, part), "text")
    check_named(qdeck, url, command, MAIL, "another type")


def test_counters_that_are_no_numbers_do_not_hide_the_dead_letters(
    url: str, raw: redis.Redis, qdeck: Callable[..., Ran]
) -> None:
    fill(url)
    raw.hset(keys.key(HOOKS, "meta"), "dead_letter", "many")
    ran = qdeck("dead", "--json", "--url", url)
    assert ran.code == 0, ran
    assert len(ran.json) == 12
    told = qdeck("doctor", "--json", "--url", url)
    assert any(HOOKS in check["detail"] and "counters" in check["detail"] for check in told.json["checks"])


def test_very_many_unreadable_queues_are_named_in_few_lines(
    url: str, raw: redis.Redis, qdeck: Callable[..., Ran]
) -> None:
    for number in range(50):
        raw.hset(keys.QUEUES, f"demo:dev:q{number}:actions", 1)
        raw.hset(keys.key(f"demo:dev:q{number}:actions", "meta"), "v", "3" * 5000)
    for command in (("dead",), ("dead", "--group"), ("stuck",)):
        ran = qdeck(*command, "--json", "--url", url)
        assert ran.code == 1, ran
        lines = ran.err.splitlines()
        assert len(lines) == 21, lines
        assert max(map(len, lines)) < 500
        assert "30 more" in lines[-1]


@pytest.mark.parametrize(
    "key", ["scheduler:queue:dlq", "scheduler:processing", "ifdb:task_data", "vmpooler__ready__p", "vmpooler__pools"]
)
def test_a_list_over_all_queues_names_a_key_of_another_system(
    url: str, raw: redis.Redis, qdeck: Callable[..., Ran], key: str
) -> None:
    raw.sadd("vmpooler__pools", "p")
    raw.zadd("ifdb:task_queue", {"t": 1})
    raw.zadd("scheduler:queue:priority", {"j": 1})
    raw.delete(key)
    raw.set(key, "text")
    for command in (("dead",), ("dead", "--group"), ("stuck",)):
        ran = qdeck(*command, "--json", "--url", url)
        assert ran.code == 1, (command, ran)
        told = [line for line in ran.err.splitlines() if key in line]
        assert len(told) == 1, (command, ran)


async def test_dead_and_stuck_say_how_many_queues_are_left_out(url: str, raw: redis.Redis) -> None:
    fill(url)
    raw.hset(keys.key(HOOKS, "meta"), "v", "3")
    raw.delete(keys.key(MAIL, "running"))
    raw.set(keys.key(MAIL, "running"), "text")
    async with console(url) as pilot:
        await until(pilot, NEWER)
        await pilot.press("4")
        await until(pilot, "1 queue could not be read")
        await pilot.press("3")
        await until(pilot, "2 queues could not be read")


async def test_the_console_shows_it_as_unreadable_and_offers_nothing(newer: redis.Redis, url: str) -> None:
    async with console(url) as pilot:
        await until(pilot, NEWER)
        await pilot.press("4")
        shown = await until(pilot, lambda: "hooks" in text(app_of(pilot)) or "no dead letters" in text(app_of(pilot)))
        assert "ConnectionError" not in shown
