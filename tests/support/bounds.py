"""The rule that finds unbounded commands, and all commands and screens that read a server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from core.admin.test_broken_values import LOOKS
from qdeck.admin import QueueRef, State
from qdeck_console.__main__ import main
from qdeck_console.actions import JOBS, PURGE, TABS
from qdeck_console.screens.frame import FrameScreen
from support.breaking import BROKEN, HEALTHY
from support.screens import app_of, command, console, until

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from textual.pilot import Pilot

MOST: Final = 20_001  # entries in one range: the jobs whose tasks health counts
SCANNED: Final = 6_000  # keys or fields in one step of a scan
WHOLE: Final = ("SMEMBERS", "KEYS", "HVALS", "LRANGE", "SORT", "SUNION", "SINTER")
BOUNDED: Final = (b":groups", b"qdeck:schedules", b":state", b":metrics", b"qdeck:agent:", b"qdeck:health")


def too_much(words: list[bytes]) -> bool:
    """Return whether the reply of a command may have any number of entries."""
    name = words[0].decode().upper()
    if len(words) > 1 and words[1].startswith(b"{qdeck:doctor}"):
        return False  # keys that nobody has: only whether it may be asked matters
    if name in ("SCAN", "HSCAN", "SSCAN", "ZSCAN"):
        upper = [word.upper() for word in words]
        return b"COUNT" in upper and int(words[upper.index(b"COUNT") + 1]) > SCANNED
    if name in ("ZRANGE", "ZREVRANGE"):
        first, last = words[2].lstrip(b"("), words[3]
        if not (first.lstrip(b"-").isdigit() and last.lstrip(b"-").isdigit()):
            return b"LIMIT" not in [word.upper() for word in words]
        return int(last) < 0 <= int(first) or int(last) - int(first) >= MOST
    if name in ("ZRANGEBYSCORE", "ZREVRANGEBYSCORE", "ZRANGEBYLEX"):
        return b"LIMIT" not in [word.upper() for word in words]
    if name == "HGETALL":
        return not any(known in words[1] for known in BOUNDED)
    return name in WHOLE


def unbounded(heard: Iterable[tuple[Any, str]]) -> list[bytes]:
    """Return the commands whose reply may have any number of entries."""
    seen = [[word.encode("utf-8", "replace") for word in text.split(" ")] for _, text in heard]
    return sorted({b" ".join(words)[:110] for words in seen if too_much(words)})


# Plans that are shown and not applied, and dead letters as a file has them.
PLANS: Final = (["dead", "retry", "--dry-run"], ["dead", "export", "--where", "task:zzz"], ["requeue", "--dry-run"])
LISTS: Final = (["jobs", HEALTHY], ["dead"])
LISTED: Final = 5000  # entries of a list: more than one call reads


def read_commands(url: str, ids: Mapping[str, str]) -> None:
    """Run every command that reads, on the data of `support.breaking.fill`; long lists up to a limit."""
    for look in (*LOOKS, *PLANS):
        words = [word.format(id=ids[HEALTHY], other=ids[BROKEN]) for word in look]
        limit = ["--limit", str(LISTED)] if look in LISTS else []
        code = main([*words, *limit, "--json", "--url", url])
        assert code in (0, 1, 2), words  # healthy, degraded, unhealthy: it was read


async def read_screens(url: str, job: str, queue: str = HEALTHY) -> None:
    """Open every screen of a console, filter its list, move to the end and open the row under the cursor."""
    async with console(url, read_only=True) as pilot:
        app = app_of(pilot)
        for name, number in TABS.items():
            await pilot.press(str(number))
            await until(pilot, lambda name=name: app.current_mode == name)  # type: ignore[misc]  # bound now
            for state in State if name == JOBS else [None]:
                if state:
                    app.show_jobs(QueueRef("native", queue), state)
                await _read_list(pilot)
            assert not app.latest.is_lost, app.latest.problem
        await pilot.press(str(TABS[PURGE]), "d")
        await until(pilot, "undo until", 100)
        await command(pilot, f"queue {queue}")
        await _refreshed(pilot)
        await command(pilot, f"find {job}")
        await until(pilot, "payload ")
        await _refreshed(pilot)


async def _read_list(pilot: Pilot[int]) -> None:
    app = app_of(pilot)
    await _refreshed(pilot)
    screen = app.screen
    assert isinstance(screen, FrameScreen)
    if not screen.why_not("filter"):
        await pilot.press("slash", *"zzz", "enter")
        await until(pilot, lambda: screen.filter_text == "zzz" or screen.wrong is not None)
        await _refreshed(pilot)
        await pilot.press("escape", "escape")
    for keys in (("G",), ("tab", "G", "enter")):
        await pilot.press(*keys)
        await _refreshed(pilot)
    while len(app.screen_stack) > 1:
        await pilot.press("escape")
        await pilot.pause()


async def _refreshed(pilot: Pilot[int]) -> None:
    """Wait for two refreshes: the second one began after the last key."""
    app = app_of(pilot)
    for _ in range(2):
        before = app.latest.snapshot
        app.feed.poke()
        await until(pilot, lambda before=before: app.latest.snapshot is not before)  # type: ignore[misc]  # bound now
