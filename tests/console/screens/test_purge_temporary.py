"""What a purge shows besides jobs: temporary queues, and what the agents did by themselves."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from qdeck.admin import Writer, load_plan
from qdeck.messages import _registry as registry
from qdeck_console.presenters.purge import short_name, within
from qdeck_console.screens.purge_entries import EntriesScreen
from support.screens import app_of, console, dry_run, row, undo, until
from support.temporary import age

if TYPE_CHECKING:
    from pathlib import Path

    import redis

MAIL = "shop:dev:mail:actions"
OVER, UNREAD = "shop:callbacks:mail:over", "shop:callbacks:mail:unread"
ORPHAN, USED = "shop:responses:get:orphan", "shop:responses:get:used"


@pytest.fixture
def litter(url: str, raw: redis.Redis) -> None:
    with Writer(url) as writer:
        for name in (OVER, UNREAD):
            writer.write(registry.register(name, "callbacks", "shop", task="t", tier="free", ttl_ms=60_000))
            raw.zadd(registry.QUEUES, {name: 1})
    raw.rpush(UNREAD, "a message")
    raw.rpush(ORPHAN, "one", "two")
    age(raw, ORPHAN)
    raw.rpush(USED, "one")


@pytest.mark.usefixtures("litter")
async def test_temporary_queues_are_part_of_the_plan_and_what_holds_messages_only_by_name(
    url: str, raw: redis.Redis
) -> None:
    async with console(url, "5") as pilot:
        shown = await until(pilot, "no plan yet")
        assert "■ expired queues" in shown
        assert "□ unread queues" in shown, "what holds messages may still be wanted"
        assert "□ orphaned queues" in shown
        await pilot.press("G", "e")
        await until(pilot, "this rule has no threshold")
        await pilot.press("space", "k", "space")
        assert "■ orphaned queues" in await until(pilot, "■ unread queues")
        await pilot.press("d")
        shown = await until(pilot, "3 entries")
        assert "3 rules   2 queues" in shown
        assert raw.exists(UNREAD, ORPHAN, USED) == 3, "a dry run writes nothing"
        await pilot.press("tab", "g", "j", "enter")
        await until(pilot, lambda: isinstance(pilot.app.screen, EntriesScreen))
        await until(pilot, OVER)
        await until(pilot, "expired ")
        await pilot.press("escape", "a")
        shown = await until(pilot, "Purge 3 entries of 2 queues")
        assert "expired queues, unread queues, orphaned" in shown
        raw.rpush(ORPHAN, "three")  # somebody uses it again: it must stay
        await pilot.press("tab", "enter")
        await until(pilot, "2 purged, 1 skipped: has changed since")
        assert (raw.exists(UNREAD), raw.llen(ORPHAN), raw.llen(USED)) == (0, 3, 1)
        assert raw.hlen(registry.ABOUT) == 0
        await pilot.press("a")
        await until(pilot, "already applied")
        await undo(pilot)
        await until(pilot, "undone: purge of 2 entries")
        assert raw.lrange(UNREAD, 0, -1) == [b"a message"]
        assert app_of(pilot).operator.batches == []


@pytest.mark.usefixtures("litter")
async def test_jobs_and_temporary_queues_are_one_plan_one_file_and_one_undo(
    url: str, raw: redis.Redis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with Writer(url) as writer:
        old = writer.enqueue(MAIL, "welcome", [1]).id
    raw.zadd(f"{{{MAIL}}}:ready", {old: 100 * 10**13 + 1}, xx=True)
    async with console(url, "5") as pilot:
        await dry_run(pilot, "2 would be purged")
        await pilot.press("w")
        await until(pilot, "purge --apply FILE")
        await pilot.press("enter")
        await until(pilot, "plan of 2 entries written")
        [file] = tmp_path.glob("*.jsonl")
        assert {entry.id for entry in load_plan(file).entries()} == {old, OVER}
        await pilot.press("a")
        await until(pilot, "Purge 2 entries of 2 queues")
        await pilot.press("tab", "enter")
        await until(pilot, "2 purged")
        assert (row(url, MAIL).ready, raw.hexists(registry.ABOUT, OVER)) == (0, False)
        await pilot.press("u")
        await until(pilot, "press u again to undo: purge of 2 entries")
        await pilot.press("u")
        await until(pilot, "undone: purge of 2 entries")
        assert (row(url, MAIL).ready, raw.hexists(registry.ABOUT, OVER)) == (1, True)
        assert app_of(pilot).operator.batches == []


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
        shown = await until(pilot, "automatic purge")
        for words in (
            "4 purged, 1 skipped",
            "done too old 4",
            "every 1h",
            "eu-1.4100",
            "failed: no rights",
            "was due",
        ):
            assert words in shown, words
        await pilot.resize_terminal(80, 24)
        shown = await until(pilot, "enlarge the window")
        assert "4 purged" in shown, "what was done by itself comes before what is always so"


def test_what_does_not_fit_is_told() -> None:
    parts = [[(("one", "text"),), (("two", "text"),)], [(("three", "text"),)]]
    assert len(within(parts, 9, 30)) == 5
    assert len(within(parts, 4, 30)) == 4, "blank lines go first"
    cut = within(parts, 3, 40)
    assert len(cut) == 3
    assert "2 more lines" in cut[-1][0][0]
    assert [short_name(rule) for rule in ("ready_too_old", "dead_too_many")] == ["ready", "dead too many"]
