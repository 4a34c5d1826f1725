"""What a purge shows besides jobs: temporary queues, removed by name, and what the agents did by themselves."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from qdeck.admin import Writer
from qdeck.messages import _registry as registry
from qdeck_console.presenters.purge import short_name, within
from qdeck_console.screens.purgeentries import EntriesScreen
from support.driving import app_of, console, row, until
from support.screens import dry_run

if TYPE_CHECKING:
    from pathlib import Path

    import pytest
    import redis

MAIL = "shop:dev:mail:actions"
OVER, ORPHAN, USED = "shop:callbacks:mail:over", "shop:responses:get:orphan", "shop:responses:get:used"


async def test_temporary_queues_are_found_shown_removed_by_name_and_put_back(url: str, raw: redis.Redis) -> None:
    with Writer(url) as deck:
        deck.write(registry.register(OVER, "callbacks", "shop", task="t", tier="free", ttl_ms=1))
    raw.rpush(OVER, "a message")
    raw.rpush(ORPHAN, "one", "two")
    raw.restore(ORPHAN, 0, raw.dump(ORPHAN) or b"", replace=True, idletime=200_000)  # nobody used it for two days
    raw.rpush(USED, "one")
    async with console(url, "5") as pilot:
        shown = await until(pilot, "no plan yet")
        assert "■ expired queues" in shown
        assert "□ orphaned queues" in shown, "whose they are, an operator has to judge"
        await pilot.press("G", "e")
        await until(pilot, "it has no threshold")
        await pilot.press("space")
        await until(pilot, "■ orphaned queues")
        await pilot.press("d")
        shown = await until(pilot, "2 entries")
        assert "2 rules   2 queues" in shown
        assert raw.exists(OVER, ORPHAN, USED) == 3, "a dry run writes nothing"
        await pilot.press("tab", "g", "j", "enter")
        await until(pilot, lambda: isinstance(pilot.app.screen, EntriesScreen))
        await until(pilot, OVER)
        await until(pilot, "it has expired")
        await pilot.press("escape", "a")
        shown = await until(pilot, "Purge 2 entries of 2 queues")
        assert "expired queues, orphaned queues" in shown
        raw.rpush(ORPHAN, "three")  # somebody uses it again: it must stay
        await pilot.press("tab", "enter")
        await until(pilot, "1 temporary queue removed, 1 left: they are used")
        assert (raw.exists(OVER), raw.llen(ORPHAN), raw.llen(USED)) == (0, 3, 1)
        await pilot.press("a")
        await until(pilot, "it is applied")
        await pilot.press("u", "u")
        await until(pilot, "undone: purge of 1 temporary queue")
        assert raw.lrange(OVER, 0, -1) == [b"a message"]
        assert app_of(pilot).operator.batches == []


async def test_one_undo_takes_jobs_and_temporary_queues_back_and_a_saved_plan_says_what_it_lacks(
    url: str, raw: redis.Redis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with Writer(url) as deck:
        deck.write(registry.register(OVER, "callbacks", "shop", task="t", tier="free", ttl_ms=1))
        deck.enqueue(MAIL, "welcome", [1])
    raw.rpush(OVER, "a message")
    async with console(url, "5") as pilot:
        app = app_of(pilot)
        await dry_run(pilot, "2 would go")
        await pilot.press("w")
        await until(pilot, "1 temporary queue not in the file: qdeck clean takes them")
        await pilot.press("enter")
        await until(pilot, "without the 1 temporary queue")
        assert len(list(tmp_path.glob("*.jsonl"))) == 1
        await pilot.press("a")
        await until(pilot, "Purge 2 entries")
        await pilot.press("tab", "enter")
        await until(pilot, "1 temporary queue removed")
        assert (row(url, MAIL).ready, raw.exists(OVER)) == (0, 0)
        await pilot.press("u")
        await until(pilot, "u again undoes: purge of 1 job and purge of 1 temporary queue")
        await pilot.press("u")
        await until(pilot, "undone: purge of 1 temporary queue; undone: purge of 1 job")
        assert (row(url, MAIL).ready, raw.lrange(OVER, 0, -1), app.operator.batches) == (1, [b"a message"], [])


async def test_what_the_agents_did_and_do_next_is_told(url: str, raw: redis.Redis) -> None:
    now = int(raw.time()[0]) * 1000
    told = {"dry_run": False, "planned": 5, "applied": 4, "skipped": 1, "rules": {"done_too_old": {"count": 4}}}
    slots: dict[str, Any] = {
        "purge": {"ended": now - 60_000, "started": now - 61_000, "outcome": "done", "holder": "eu-1.4100",
                  "until": 0, "summary": json.dumps(told | {"every_s": 3600})},
        "clean": {"ended": now - 9_000_000, "started": now - 9_000_000, "outcome": "failed", "holder": "eu-2",
                  "until": 0, "summary": json.dumps({"error": "no rights", "every_s": 60})},
    }  # fmt: skip
    for task, fields in slots.items():
        raw.hset(f"qdeck:agent:{{qdeck:{task}}}", mapping=fields)
    async with console(url, "5") as pilot:
        shown = await until(pilot, "auto-purge")
        for words in ("4 taken, 1 left", "done too old 4", "every 1 h", "eu-1.4100", "failed: no rights", "was due"):
            assert words in shown, words
        await pilot.resize_terminal(80, 24)
        shown = await until(pilot, "in a higher window")
        assert "4 taken" in shown, "what was done by itself comes before what is always so"


def test_what_does_not_fit_is_told() -> None:
    parts = [[(("one", "text"),), (("two", "text"),)], [(("three", "text"),)]]
    assert len(within(parts, 9, 30)) == 5
    assert len(within(parts, 4, 30)) == 4, "blank lines go first"
    cut = within(parts, 3, 40)
    assert len(cut) == 3
    assert "2 more lines" in cut[-1][0][0]
    assert [short_name(rule) for rule in ("ready_too_old", "dead_too_many")] == ["ready", "dead at most"]
