"""Every screen at seven widths, row for row and colour for colour, on a server with queues of every adapter.

The console is reached by its keys and commands only, so that these files stay as they are while modules move. A screen
that was changed on purpose: `QDECK_GOLDEN=write pytest tests/characterisation/test_rows.py` writes what it shows now.
"""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from qdeck._server import queue_settings
from support.drawn import ODD, QUEUES, Console, drawn_console, newest_dead, paint_all
from support.rows import Frame, GoldenRows

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    import redis

    Walk = Callable[["Walker"], AsyncIterator[str]]

GOLDEN: Final = Path(__file__).with_name("rows")
SIZES: Final = ((80, 24), (120, 36))
OTHER_SIZES: Final = ((100, 36), (40, 36), (60, 36), (160, 36), (200, 36))
WRITES: Final = os.environ.get("QDECK_GOLDEN") == "write"
TABS: Final = ("queues", "jobs", "stuck", "dead", "purge", "schedules", "workers", "health", "activity")


@pytest.fixture(autouse=True)
def _same_everywhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("NO_COLOR", "QDECK_ASCII", "LC_ALL", "LC_CTYPE", "LANG", "TERM", "QDECK_URL", "REDIS_URL"):
        monkeypatch.delenv(name, raising=False)
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.setattr(queue_settings, "account", lambda: "ana")
    monkeypatch.setattr(socket, "gethostname", lambda: "ops-2")
    monkeypatch.chdir("/")  # files that are asked for are written there


@dataclass(frozen=True, slots=True)
class Walker:
    """What a walk through screens has at hand."""

    console: Console
    raw: redis.Redis


async def tabs(walker: Walker) -> AsyncIterator[str]:
    """Show the screens of the tabs as they open, and what is chosen on them."""
    console = walker.console
    yield "queues"
    await console.press("s")
    yield "queues-sorted"
    await console.press("s", "s", "s", "2")
    yield "jobs"
    await console.press("tab")
    yield "jobs-next-state"
    await console.press("3")
    yield "stuck"
    await console.press("j", "space")
    yield "stuck-marked"
    await console.press("escape", "4")
    yield "dead"
    await console.press("tab", "space", "j", "space")
    yield "dead-marked"
    await console.press("escape", "shift+tab", "6")
    yield "schedules"
    await console.press("7")
    yield "workers"
    await console.press("enter")
    yield "worker"
    await console.press("escape", "8")
    yield "health"
    await console.press("t")
    yield "temporary"
    await console.press("enter")
    yield "temporary-task"
    await console.press("escape", "escape", "9")
    yield "activity"
    await console.press("enter")
    yield "activity-batch"


async def queues(walker: Walker) -> AsyncIterator[str]:
    """Show a queue's page, its jobs and a job of each adapter, and of one with odd words."""
    console = walker.console
    for adapter, name in QUEUES.items():
        await console.press("1")
        await console.call(f"queue {name}")
        yield f"queue-{adapter}"
        await console.press("enter")
        yield f"queue-{adapter}-jobs"
        await console.press("g", "enter")
        yield f"queue-{adapter}-job"
    await console.press("escape", "1")
    await console.call(f"queue {ODD}")
    yield "odd-queue"
    await console.press("4")
    await console.call("filter queue:*odd*")
    await console.press("tab")
    yield "odd-dead"
    await console.press("1")
    await console.call(f"find {newest_dead(walker.raw, ODD)}")
    yield "odd-job"
    await console.press("tab")
    yield "odd-job-next-pane"


async def purge(walker: Walker) -> AsyncIterator[str]:
    """Show a dry run, the threshold that it is for, and the jobs of one row."""
    console = walker.console
    await console.press("5")
    yield "purge-no-plan"
    await console.press("e")
    yield "purge-threshold"
    await console.press("escape", "d")
    yield "purge"
    await console.press("g", "j")
    yield "purge-row"
    await console.press("enter")
    yield "purge-entries"
    await console.press("escape", "a")
    yield "purge-confirm"


async def dialogs(walker: Walker) -> AsyncIterator[str]:
    """Show help, the palette, forms, questions, a filter that is wrong, and a frozen screen."""
    console = walker.console
    await console.press("question_mark")
    yield "help"
    await console.press("escape", "colon")
    yield "palette"
    await console.press(*"re")
    yield "palette-typed"
    await console.press("escape")
    await console.press("4", "slash", *"nope:1 (")
    yield "filter-wrong"
    await console.press("escape", "escape")
    await console.press("slash", *"error:Con* age>5m")
    yield "filter"
    await console.press("enter")
    yield "filtered"
    await console.press("escape", "tab", "e")
    yield "edit"
    await console.press("escape", "asterisk", "x")
    yield "confirm-discard"
    await console.press("escape", "escape", "1", "g", "j", "m")
    yield "move-form"
    await console.press("escape", "w")
    yield "write-form"
    await console.press("escape", "6", "e")
    yield "schedule-form"
    await console.press("escape", "1", "f")
    yield "frozen"
    await console.press("f", "u")
    yield "nothing-to-undo"


async def redrive(walker: Walker) -> AsyncIterator[str]:
    """Show the questions before a redrive, and how it goes. It writes."""
    console = walker.console
    await console.press("4", "g", "R")
    yield "redrive-form"
    await console.press("enter")
    yield "redrive-confirm"
    await console.press("tab", "enter")
    await console.seen("sample  10")
    yield "redrive"


async def every_tab(walker: Walker, prefix: str) -> AsyncIterator[str]:
    """Show each screen of the tabs as it opens."""
    for number, name in enumerate(TABS, 1):
        await walker.console.press(str(number))
        yield f"{prefix}-{name}"


async def empty(walker: Walker) -> AsyncIterator[str]:
    """Show each screen on a server without keys."""
    async for name in every_tab(walker, "empty"):
        yield name


async def lost(walker: Walker) -> AsyncIterator[str]:
    """Show a lost server on screens that had something to show, and on one that had not."""
    await walker.console.press("8")
    await walker.console.press("1")
    await walker.console.lose()
    yield "lost-queues"
    await walker.console.press("8")
    yield "lost-health"
    await walker.console.press("9")
    yield "lost-activity"


async def read_only(walker: Walker) -> AsyncIterator[str]:
    """Show production that may not be written to, and what opening it asks."""
    yield "read-only"
    await walker.console.press("p")
    yield "read-only-refused"
    await walker.console.call("live")
    yield "live-question"


async def contexts(walker: Walker) -> AsyncIterator[str]:
    """Show the choice of another server."""
    await walker.console.press("o")
    yield "contexts"


async def live(walker: Walker) -> AsyncIterator[str]:
    """Show production that is open for writing, and the question before something is done there."""
    yield "live"
    await walker.console.press("4", "tab", "asterisk", "r")
    yield "live-confirm"


WALKS: Final[dict[str, tuple[Walk, dict[str, object]]]] = {
    "tabs": (tabs, {}),
    "queues": (queues, {}),
    "purge": (purge, {}),
    "dialogs": (dialogs, {}),
    "redrive": (redrive, {}),
    "empty": (empty, {}),
    "lost": (lost, {}),
    "read-only": (read_only, {"environment": "production", "read_only": True}),
    "contexts": (contexts, {"contexts": Path("qdeck.toml")}),
    "live": (live, {"environment": "production", "live": True}),
}


@pytest.mark.timeout(400)  # half a minute alone; a refresh waits for whatever else the machine does
@pytest.mark.parametrize("sizes", [SIZES, pytest.param(OTHER_SIZES, marks=pytest.mark.slow)], ids=["two", "five"])
@pytest.mark.parametrize("walk", WALKS)
async def test_the_rows_of_every_screen_are_as_they_were(
    url: str,
    raw: redis.Redis,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    walk: str,
    sizes: Sequence[tuple[int, int]],
) -> None:
    taken: dict[str, dict[str, Frame]] = {}
    steps, options = WALKS[walk]
    if walk != "empty":
        paint_all(url, raw)
    if "contexts" in options:
        monkeypatch.chdir(tmp_path)
    async with drawn_console(url, size=sizes[0], **options) as console:  # type: ignore[arg-type] # they are those of this walk
        async for name in steps(Walker(console, raw)):
            taken[name] = {f"{width}x{height}": await console.frame(width, height) for width, height in sizes}
    told = []
    for name, frames in taken.items():
        golden = GoldenRows(GOLDEN / f"{name}.txt")
        if WRITES:
            golden.write(frames)
        told.append(golden.differences(frames))
    assert not any(told), "\n".join(filter(None, told))
