"""What the log of operations says of a console that may write to production, however the server comes and goes."""

from __future__ import annotations

import contextlib
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from qdeck._operations import activity
from qdeck.admin import AsyncWriter, Target, Writer, state_dir
from qdeck_console.app import ConsoleApp
from qdeck_console.contexts import LIVE_S, Contexts
from support.proxy import FaultProxy
from support.screens import app_of, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from textual.pilot import Pilot


@pytest.fixture
def proxy(url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultProxy]:
    monkeypatch.setattr("qdeck.admin._client.WRITE_PATIENCE_S", 0.2)
    monkeypatch.setattr("qdeck_console.writing.AGAIN_S", 0.1)
    with FaultProxy(int(url.rpartition(":")[2].partition("/")[0]), target_url=url) as made:
        yield made


@contextlib.asynccontextmanager
async def confirmed(proxy: FaultProxy) -> AsyncIterator[Pilot[int]]:
    """A console that was opened on production with `--confirm`."""
    target = Target(url=proxy.url, name="prod-eu", environment="production")
    contexts = Contexts(target)
    context = replace(contexts.describe(target, read_only=False), live_until=time.monotonic() + LIVE_S)
    app = ConsoleApp(contexts, context)
    async with app.run_test(size=(100, 30)) as pilot:
        yield pilot


def told(url: str) -> list[str]:
    """What the log on the server says, the first one first."""
    with Writer(url) as writer:
        return [row.verb for row in writer.run(activity.read())]


async def test_a_server_that_was_away_is_told_once_when_it_is_back(url: str, proxy: FaultProxy) -> None:
    proxy.refuse()
    before = _lines_of_file()
    async with confirmed(proxy) as pilot:
        app = app_of(pilot)
        await until(pilot, lambda: len(app.writing._owed) == 1 and app.writing._telling is None)
        assert "--confirm" in app.context.told
        proxy.heal()
        app.feed.poke()
        await until(pilot, lambda: not app.writing._owed)
        assert told(url) == ["live"]
        proxy.refuse()
        await until(pilot, lambda: app.latest.is_lost)
        app.writing.end("")
        await until(
            pilot,
            lambda: (
                not isinstance(app.reader, AsyncWriter) and len(app.writing._owed) == 1 and app.writing._telling is None
            ),
        )
        proxy.heal()
        app.feed.poke()
        await until(pilot, lambda: not app.writing._owed)
    assert told(url) == ["live", "read-only"]
    assert _lines_of_file() == before + 2, "the file of this machine has each once"


async def test_what_began_and_ended_while_the_server_was_away_is_left_out(url: str, proxy: FaultProxy) -> None:
    proxy.refuse()
    async with confirmed(proxy) as pilot:
        app = app_of(pilot)
        await until(pilot, lambda: len(app.writing._owed) == 1 and app.writing._telling is None)
        app.context = replace(app.context, live_until=time.monotonic() - 1)
        await until(pilot, lambda: not isinstance(app.reader, AsyncWriter) and not app.writing._owed)
        proxy.heal()
        app.feed.poke()
        await until(pilot, lambda: app.latest.snapshot is not None and not app.latest.is_lost)
    assert told(url) == []


def test_what_came_there_is_not_written_again(url: str) -> None:
    with Writer(url) as writer:
        entry = activity.make("live", 1_700_000_000_000, detail="prod-eu", reason="INC-7")
        writer.write(activity.record(entry))
        writer.write(activity.record_again(entry))
        writer.write(activity.record_again(replace(entry, at_ms=entry.at_ms + 1)))
        assert len(writer.run(activity.read())) == 2


def _lines_of_file() -> int:
    file = state_dir() / "activity.jsonl"
    return len(file.read_bytes().splitlines()) if file.exists() else 0
