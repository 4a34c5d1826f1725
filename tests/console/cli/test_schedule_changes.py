"""A change of a schedule shows the old and the new values, asks, and keeps the old ones in the log of operations."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from console.cli.test_asking import asked
from core._operations.yard import QUEUE
from support.terminals import terminals

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.commands import Ran
    from support.terminals import Terminal

terminal = pytest.fixture(terminals)
RULE = "cron 30 4 * * * in place of 0 3 * * *"
ZONE = "time zone Europe/Madrid in place of UTC"


@pytest.fixture(autouse=True)
def nightly(qdeck: Callable[..., Ran]) -> None:
    args = ("--args", '[42, {"password": "hunter2"}]')
    assert qdeck("schedule", "add", "nightly", QUEUE, "send", "--cron", "0 3 * * *", *args).code == 0


def logged(qdeck: Callable[..., Ran]) -> list[tuple[str, str]]:
    return [(one["verb"], one["detail"]) for one in map(json.loads, qdeck("activity", "--json").out.splitlines())]


def test_an_edit_shows_old_and_new_values_and_asks(
    qdeck: Callable[..., Ran], url: str, terminal: Callable[..., Terminal]
) -> None:
    change = ("schedule", "edit", "nightly", "--cron", "30 4 * * *", "--tz", "Europe/Madrid")
    before = qdeck("schedule", "--json").json
    ran = qdeck(*change)
    assert ran.code == 1
    assert f"nightly: {RULE}; {ZONE}; this cannot be undone" in ran.err
    assert "nothing was changed; --yes does it" in ran.err
    assert qdeck("schedule", "--json").json == before
    code, seen = asked(terminal, url, *change, answer=b"n\n")
    assert (code, RULE in seen, qdeck("schedule", "--json").json == before) == (1, True, True)
    assert asked(terminal, url, *change, answer=b"y\n")[0] == 0
    [row] = qdeck("schedule", "--json").json
    assert (row["cron"], row["tz"]) == ("30 4 * * *", "Europe/Madrid")
    assert logged(qdeck)[1:] == [("edit", f"schedule nightly: {RULE}; {ZONE}")]


def test_what_its_jobs_are_made_of_is_compared_and_masked(qdeck: Callable[..., Ran]) -> None:
    options = ("--args", "[43]", "--priority", "7", "--retries", "2", "--tag", "slow", "--missed", "all")
    ran = qdeck("schedule", "edit", "nightly", *options)
    assert ran.code == 1
    for part in ("missed runs all in place of once", "priority 7 in place of 100", "retries 2 in place of 3",
                 "tags slow in place of none", 'payload [[43],{}] in place of [[42,{"password":"'):  # fmt: skip
        assert part in ran.err
    assert "hunter2" not in ran.err
    assert qdeck("schedule", "edit", "nightly", *options, "--yes").code == 0
    assert "hunter2" not in str(logged(qdeck))
    assert "in place of [[42," in logged(qdeck)[-1][1]


def test_an_edit_that_changes_nothing_neither_asks_nor_is_logged(qdeck: Callable[..., Ran]) -> None:
    ran = qdeck("schedule", "edit", "nightly", "--tz", "UTC")
    assert (ran.code, ran.out) == (0, "nightly is unchanged\n")
    assert [verb for verb, _ in logged(qdeck)] == ["add"]
    assert qdeck("schedule", "edit", "nightly", "--cron", "x", "--yes").code == 64
    assert qdeck("schedule", "edit", "other", "--tz", "UTC").code == 64


def test_what_a_replaced_and_a_removed_schedule_were_is_logged(qdeck: Callable[..., Ran]) -> None:
    change = ("schedule", "add", "nightly", QUEUE, "bill", "--cron", "30 4 * * *", "--args", "[42]")
    ran = qdeck(*change)
    assert (ran.code, f"nightly: task bill in place of send; {RULE}; payload" in ran.err) == (1, True), ran.err
    assert qdeck(*change, "--yes").code == 0
    assert logged(qdeck)[-1][1].startswith(f"schedule nightly: task bill in place of send; {RULE}; payload")
    assert qdeck("schedule", "remove", "nightly", "--yes").code == 0
    rule = f"30 4 * * * (UTC) enqueues bill to {QUEUE} with [[42],{{}}]"
    assert logged(qdeck)[-1] == ("remove", f"schedule nightly: {rule}")


def test_a_pause_ends_with_its_schedule(qdeck: Callable[..., Ran]) -> None:
    assert qdeck("schedule", "pause", "nightly", "--reason", "INC-42").code == 0
    assert qdeck("schedule", "remove", "nightly", "--yes").code == 0
    assert qdeck("schedule", "add", "nightly", QUEUE, "send", "--cron", "0 3 * * *").code == 0
    assert qdeck("schedule", "resume", "nightly").code == 0, "the pause of a removed schedule does not stand"
