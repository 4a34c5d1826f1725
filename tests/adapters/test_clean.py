"""What tasks left behind in lists of other programs: removed by task or as orphans, never by itself, and put back."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from qdeck.admin import Writer
from qdeck.testing.adapters import values
from qdeck_console.__main__ import main

if TYPE_CHECKING:
    from collections.abc import Callable

    import redis


@pytest.fixture
def ask(url: str, capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    def run(*command: str, code: int = 0) -> Any:
        assert main([*command, "--json", "--url", url]) == code
        return json.loads(capsys.readouterr().out)

    return run


def fill(raw: redis.Redis) -> None:
    raw.rpush("execution:agent_run:free:77", "a", "b")
    raw.rpush("execution:callback:free:77", "c")
    raw.rpush("execution:agent_run:free:78", "d")
    raw.sadd("task_queues:77", "execution:agent_run:free:77", "execution:callback:free:77", "execution:gone:free:77")


def test_the_lists_of_a_task_go_and_come_back(url: str, raw: redis.Redis, ask: Callable[..., Any]) -> None:
    fill(raw)
    before = values(raw)
    dry = ask("clean", "77", "--adapter", "lists", "--idle", "0", "--dry-run")
    assert (dry["removed"], dry["applied"], dry["batch"]) == (3, 0, None)
    assert values(raw) == before
    found = ask("clean", "77", "--idle", "0")["lists"]
    assert (found["removed"], found["skipped"]) == (3, [])
    assert set(values(raw)) == {b"execution:agent_run:free:78"}
    with Writer(url) as deck:
        assert deck.undo(found["batch"]).restored == 3
    assert values(raw) == before


def test_a_list_in_use_or_too_long_is_left_and_told(raw: redis.Redis, ask: Callable[..., Any]) -> None:
    fill(raw)
    raw.rpush("execution:callback:free:77", *(["x"] * 600))
    found = ask("clean", "77", "--adapter", "lists", code=1)
    assert found["removed"] == 1  # the one that is empty
    why = {skip["id"]: skip["why"] for skip in found["skipped"]}
    assert "used" in why["execution:agent_run:free:77"]
    assert "over 500" in why["execution:callback:free:77"]


def test_a_registry_of_another_type_is_told(raw: redis.Redis, ask: Callable[..., Any]) -> None:
    raw.set("task_queues:9", "not a set")
    found = ask("clean", "9", "--adapter", "lists", code=1)
    assert found["removed"] == 0
    assert [(skip["id"], skip["why"]) for skip in found["skipped"]] == [
        ("task_queues:9", "is no set, so it registers nothing")
    ]
    assert raw.get("task_queues:9") == b"not a set"


def test_orphans_go_only_when_lists_are_named(url: str, raw: redis.Redis, ask: Callable[..., Any]) -> None:
    fill(raw)
    before = values(raw)
    ask("clean", "--orphans", "--idle", "0", "--yes")
    assert values(raw) == before
    dry = ask("clean", "--orphans", "--idle", "0", "--adapter", "lists")
    assert [one["queue"] for one in dry["queues"]] == ["execution:agent_run:free:78"]
    assert values(raw) == before
    done = ask("clean", "--orphans", "--idle", "0", "--yes", "--adapter", "lists")
    assert done["applied"] == 1
    assert not raw.exists("execution:agent_run:free:78")
    with Writer(url) as deck:
        deck.undo()
    assert values(raw) == before


def test_a_task_that_is_registered_meanwhile_keeps_its_list(url: str, raw: redis.Redis) -> None:
    from qdeck.adapters import changes
    from qdeck.adapters.lists.changes import clean_orphans

    fill(raw)
    with Writer(url) as deck:
        [change], _ = deck.run(clean_orphans([b"execution:agent_run:free:78"], "execution:agent_run:free:", 0))
        raw.sadd("task_queues:78", "execution:agent_run:free:78")
        [outcome] = deck.write(changes.apply("lists", "b1", [change]))
    assert not outcome.done
    assert raw.llen("execution:agent_run:free:78") == 1
