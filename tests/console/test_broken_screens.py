"""The console over a server on which many fields are broken at once, of our own queues and of other systems."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING

import pytest

from core.adapters.test_conformance import FILL
from qdeck.admin import NATIVE, Writer
from support.breaking import HEALTHY, Image, breaks, broken, fill, whole_or_sample
from support.screens import app_on, shown, text, until

if TYPE_CHECKING:
    import redis

    from qdeck_console.app import ConsoleApp
    from support.breaking import Break


# One screen shows nothing else than such a key: with another type in its place the screen has nothing to show.
ALONE = (b"qdeck:queues", b"qdeck:schedules", b"{qdeck:schedules}:state", b"qdeck:activity")


def many(raw: redis.Redis, part: int) -> list[Break]:
    """One break of each field of each key, another one for each part; a key gets another type or hostile values."""
    found: dict[tuple[bytes, bytes | None], Break] = {}
    for number, one in enumerate(whole_or_sample(breaks(raw), 16)):
        is_type = one.value.startswith("type ")
        if is_type == ((len(one.key) + part) % 4 == 0) and not (is_type and one.key in ALONE) and (number + part) % 2:
            found.setdefault((one.key, one.field), one)
    return list(found.values())


def is_newer(app: ConsoleApp, before: object) -> bool:
    """Whether there was a refresh since."""
    return app.latest is not before


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("part", range(2))
async def test_every_screen_over_many_broken_fields(
    url: str, raw: redis.Redis, part: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("QDECK_FUZZ", raising=False)
    fill(url, raw)
    for filler in FILL.values():
        filler().populate(raw)
    adapters = (NATIVE, *FILL)
    with Writer(url, adapters=adapters) as writer:
        [row] = [row for row in writer.snapshot().queues if row.name == HEALTHY]
    some = many(raw, part)
    assert len(some) > 100
    with broken(raw, Image(raw), *some):
        app = app_on(url, adapters=adapters, read_only=True)
        async with shown(app) as pilot:
            for mode in app.MODES:
                app.action_tab(mode)
                before = app.latest
                app.feed.poke()
                await until(pilot, partial(is_newer, app, before))
                for key in ("j", "enter", "escape", "escape", "G", "enter", "escape", "escape"):
                    await pilot.press(key)
                    await pilot.pause(0.03)
                assert not app.shown.is_lost, (mode, app.shown.problem)
                assert "not readable" not in text(app), text(app)
                assert "Traceback" not in text(app).replace("traceback", ""), mode
            assert app.shown.snapshot is not None
            [now] = [row for row in app.shown.snapshot.queues if row.name == HEALTHY]
            for name in ("ready", "delayed", "blocked", "running", "done", "dead", "cancelled", "stuck", "problem"):
                assert getattr(now, name) == getattr(row, name), name
            app.action_tab(app.DEFAULT_MODE)
            await pilot.press("slash", *"good", "enter")  # it may be below the rows in sight
            line = re.compile(r"shop ▸ good +(?:native +)?1 +1 +2 +2 +2 ")
            await until(pilot, lambda: line.search(text(app)) is not None)
