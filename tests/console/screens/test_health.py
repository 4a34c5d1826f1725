"""The Health screen: every check with what it found, the server, and enter that opens what is wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from qdeck._server.server_stats import read_stats
from qdeck.admin import NATIVE, Code, Finding, QueueRef, Status, Target, Writer
from qdeck_console.contexts import Contexts
from qdeck_console.format import length
from qdeck_console.presenters import health as present
from qdeck_console.presenters.health import CheckRow
from qdeck_console.presenters.line_parts import PLAIN
from qdeck_console.screens.health import HealthScreen, leads_to
from qdeck_console.screens.queue import QueueScreen
from support.screens import SEARCH, app_in, app_of, console, fill, lines, shown, text, until

if TYPE_CHECKING:
    import redis


def test_since_is_told_of_what_changed_while_we_looked() -> None:
    since = present.Since()
    found = Finding(code=Code.STUCK, severity=Status.DEGRADED, since_ms=700)
    bad = CheckRow(check="stuck", status=Status.DEGRADED, detail="", of=found.place)
    said = {found.place: found}
    assert [(row.since_ms, row.before) for row in since.dated([bad], 1000, said)] == [(700, False)]
    assert [(row.since_ms, row.before) for row in since.dated([bad], 1500, {})] == [(1000, True)]
    assert since.note([bad], 1000) == {"stuck//": (1000, True)}
    assert since.note([bad], 2000) == {"stuck//": (1000, True)}
    fine = CheckRow(check="stuck", status=Status.HEALTHY, detail="")
    assert since.note([fine], 3000) == {"stuck": (3000, False)}
    assert since.note([bad], 4000) == {"stuck//": (4000, False)}
    [seen] = since.dated([bad], 5000, said)
    assert (seen.since_ms, seen.before) == (4000, False), "what was seen here is the best that is known"


@pytest.mark.parametrize("cells", [90, 97, 100, 116, 160])
def test_what_was_found_is_told_in_words_where_there_is_room(cells: int) -> None:
    fine = CheckRow(check="replication", status=Status.HEALTHY, detail="no replica", value="none")
    found = Finding(
        code=Code.NO_WORKER,
        severity=Status.UNHEALTHY,
        queue=QueueRef(NATIVE, "a:b:c:actions"),
        label="a:b:c:actions",
        count=1,
    )
    bad = CheckRow(check="workers", status=found.severity, detail=found.text, short=found.row_text,
              queue=found.queue, label=found.label, value=1, threshold=0, since_ms=0)  # fmt: skip
    for row, words in ((fine, "no replica"), (bad, "no live worker, 1 job waiting")):
        drawn = present.row_lines(row, cells, at_cursor=False, naming=PLAIN)
        assert len(drawn) == present.height(row, cells)
        assert max(map(length, drawn)) <= cells
        assert words in "".join(text for line in drawn for text, _ in line)


@pytest.mark.parametrize("size", [(160, 48), (80, 24)])
async def test_checks_come_worst_first_and_enter_opens_what_is_wrong(url: str, size: tuple[int, int]) -> None:
    fill(url)
    target = Target(url=url)
    contexts = Contexts(target)
    async with shown(app_in(contexts), size) as pilot:
        app = app_of(pilot)
        await pilot.press("8")
        seen = await until(pilot, "watch ")
        assert seen.index("watch ") < seen.index("fine ")
        assert all(len(line) == size[0] for line in lines(app))
        screen = app.screen
        assert isinstance(screen, HealthScreen)
        if size[0] >= 140:
            seen = await until(pilot, "/s")
            for word in ("memory", "clients", "slow commands", "or earlier", "degraded  since", "detail"):
                assert word in seen, word
        else:
            await pilot.press("G", "pagedown")
            assert "eviction policy" in text(app)
        rows = {row.check: row for row in (item.row for item in screen.view.listing.items) if isinstance(row, CheckRow)}
        assert rows["paused"].label == SEARCH
        assert rows["dead_letters"].value == 12
        for check, where in (("stuck", "stuck"), ("dead_letters", "dead")):
            if rows[check].status is not Status.HEALTHY:
                assert leads_to(rows[check]).tab == where
        await pilot.press("slash", *"paused", "enter")
        await until(pilot, "1 checks")
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, QueueScreen))
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is screen)
        await pilot.press("escape", "slash", *"eviction", "enter")
        await until(pilot, "1 checks")
        await pilot.press("enter")
        await until(pilot, "the check passes")
        await pilot.press("y")
        await until(pilot, "check sent to the clipboard")


async def test_what_may_not_be_read_is_told_as_unknown(url: str, raw: redis.Redis) -> None:
    raw.acl_setuser("watcher", enabled=True, passwords=["+secret"], keys=["*"], commands=["+@read", "+ping", "+time",
                    "+hello", "+client", "-info", "-slowlog"])  # fmt: skip
    where = url.replace("redis://", "redis://watcher:secret@")
    with Writer(where) as writer:
        vitals = writer.run(read_stats())
        assert (vitals.slow, dict(vitals.facts)) == (None, {})
    async with console(where, "8") as pilot:
        seen = await until(pilot, "SLOWLOG is not allowed")
        assert "INFO is not allowed" in seen
        assert "unknown" in seen
    with Writer(url) as writer:
        assert writer.run(read_stats()).number("uptime_in_seconds") is not None


async def test_who_looked_after_the_queues_last_is_told(url: str, raw: redis.Redis) -> None:
    fill(url)
    async with console(url, "8") as pilot:
        await until(pilot, "no qdeck agent")
        seconds, _ = raw.time()
        for name, value in (("holder", "eu-1-77"), ("started", seconds * 1000), ("ended", seconds * 1000)):
            raw.hset("qdeck:agent:{qdeck:maintain}", name, str(value))
        await until(pilot, "maintain by eu-1-77")


async def test_a_frozen_display_stands_still_chart_and_cost_included(url: str) -> None:
    fill(url)
    async with console(url, "8") as pilot:
        app = app_of(pilot)
        await until(pilot, "commands/s")
        await pilot.press("f")
        await until(pilot, "FROZEN")
        before, seen = lines(app)[4:-1], len(app.served)
        await until(pilot, lambda: len(app.served) >= seen + 3)
        await pilot.press("j", "k")  # which draws it again
        await pilot.pause()
        assert lines(app)[4:-1] == before
        await pilot.press("f")
        await until(pilot, lambda: lines(app)[4:-1] != before)
