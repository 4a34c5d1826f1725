"""The entries of a plan, however many: what a frame costs, and what is read and drawn of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from qdeck.admin import PlanEntry, PlanIndex, Share, Writer
from qdeck_console.screens.purge_entries import EntriesScreen
from qdeck_console.widgets.lines import LineList
from qdeck_console.widgets.list_items import Window
from support.screens import app_of, console, dry_run, text, until
from support.yard import Yard

if TYPE_CHECKING:
    import pytest
    import redis
    from textual.pilot import Pilot

MAIL = "demo:dev:mail:actions"


class Entries(PlanIndex):
    """A plan of many entries, none of which is kept."""

    def __init__(self) -> None:
        pass

    def entries(self, share: Share, first: int, most: int) -> list[PlanEntry]:
        return [
            PlanEntry(queue=share.queue, id=f"job-{number}", state="done", version="1", verb="discard", rule=share.rule)
            for number in range(first, min(share.count, first + most))
        ]


def cursor(pilot: Pilot[int]) -> str:
    return app_of(pilot).screen.query_one("#list", LineList).cursor


async def test_whether_there_is_something_to_write_is_known_at_once(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with console(url, "5") as pilot:
        share = Share("done_too_old", "shop:mail:actions", "discard", count=1_000_000)
        screen = EntriesScreen(Entries(), share, "1h")
        app_of(pilot).open(screen)
        await until(pilot, "in the order of the plan")
        await pilot.press("G")
        await until(pilot, lambda: cursor(pilot).endswith("job-999999"))
        taken: list[int | slice] = []
        take = Window.__getitem__

        def counting(self: Window, index: Any) -> Any:
            taken.append(index)
            return take(self, index)

        monkeypatch.setattr(Window, "__getitem__", counting)
        assert screen.why_not("write") == ""
        assert taken == [], "a million entries were looked through"


async def test_all_jobs_in_sight_are_read_at_once_and_drawn_again_only_with_news(
    url: str, raw: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Writer(url) as writer:
        yard = Yard(writer, raw, MAIL)
        for _ in range(60):
            yard.ready(5)
    async with console(url, "5") as pilot:
        await dry_run(pilot, "60 would be purged")
        await pilot.press("tab", "g", "j", "enter")
        await until(pilot, "in the order of the plan")
        app = app_of(pilot)
        screen = app.screen
        assert isinstance(screen, EntriesScreen)
        in_sight = screen.view.size.height

        def drawn() -> int:
            return sum(line.endswith("  t  1") for line in text(app).splitlines())

        await until(pilot, lambda: drawn() == in_sight)
        shown: list[LineList] = []
        show = LineList.show

        def counting(self: LineList, *args: Any) -> None:
            shown.append(self)
            show(self, *args)

        monkeypatch.setattr(LineList, "show", counting)
        pictures = [app.shown]
        for _ in range(2):
            app.feed.poke()
            await until(pilot, lambda: app.shown is not pictures[-1])
            pictures.append(app.shown)
        assert shown == [], "neither these nor the list of the screen below"
        await pilot.press("pagedown", "pagedown")
        await until(pilot, lambda: drawn() == in_sight)
        assert shown != []


async def test_entries_are_read_before_they_are_drawn(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with console(url, "5") as pilot:
        share = Share("done_too_old", "shop:mail:actions", "discard", count=1_000_000)
        app_of(pilot).open(EntriesScreen(Entries(), share, "1h"))
        await until(pilot, "in the order of the plan")
        unknown: list[int] = []
        draw = LineList._draw

        def drawing(self: LineList, index: int, cells: int) -> Any:
            if self.listing.items and self.listing.items[index].row is None:
                unknown.append(index)
            return draw(self, index, cells)

        monkeypatch.setattr(LineList, "_draw", drawing)
        for key, wanted in (("pagedown", ""), ("G", "job-999999"), ("pageup", ""), ("g", "job-0")):
            await pilot.press(key)
            await until(pilot, lambda wanted=wanted: cursor(pilot).endswith(wanted))  # type: ignore[misc]
        assert unknown == []
