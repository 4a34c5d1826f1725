"""How the frame looks in every width, and how roles look with few colours or none: pure, without a server."""

from __future__ import annotations

import re
import time
from dataclasses import fields
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from rich._palettes import STANDARD_PALETTE
from rich.color import Color, ColorSystem

from qdeck.admin import Code, Status
from qdeck_console import format as fmt
from qdeck_console.actions import ACTIONS, TABS
from qdeck_console.feed import FeedState
from qdeck_console.presenters import frame
from qdeck_console.presenters.confirm import buttons, to_go
from qdeck_console.presenters.frame import Offer, ShownContext, Tab
from qdeck_console.screens.prompt import confirmation
from qdeck_console.terminal import fitting_theme
from qdeck_console.textual_compat import strips_of
from qdeck_console.theme import EIGHT_BIT, INK, PALETTES, SIXTEEN, Painter, Palette
from support.screens import app_of, console, until

if TYPE_CHECKING:
    from qdeck_console.format import Line

ALL = [
    Tab(name, name.capitalize(), number, {"stuck": 9, "dead": 9960}.get(name, 0)) for name, number in TABS.items()
]  # fmt: skip


def words(line: Line) -> str:
    return "".join(text for text, _ in line)


def finding(severity: Status, words: str) -> Any:
    return SimpleNamespace(severity=severity, text=words, row_text=words, queue=None, code=Code.STUCK)


def sick() -> FeedState:
    findings = (
        finding(Status.UNHEALTHY, "no clone has finished since 11:21"),
        finding(Status.DEGRADED, "9 stuck"),
        finding(Status.DEGRADED, "webhooks drops dead letters in 14 min"),
    )
    snapshot: Any = SimpleNamespace(
        findings=findings,
        checks=(),
        queues=(),
        shared=frozenset(),
        status=Status.UNHEALTHY,
        totals=SimpleNamespace(ready=56_877),
        server=None,
    )
    return FeedState(snapshot=snapshot, flow=(249.8, 233.8))


@pytest.mark.parametrize("cells", [60, 72, 80, 90, 99, 100, 110, 120, 139, 140, 160, 200])
def test_the_frame_fits_every_width(cells: int) -> None:
    for active, names in (("queues", {"1 Queues", "1 Qs"}), ("activity", {"9 Activity", "9 Act"})):
        told = words(frame.tabs(ALL, active, cells))
        assert len(told) <= cells
        assert any(name in told for name in names)
        for number in range(1, 10):
            assert f" {number} " in f"{told} ", "each has its key"
        assert "9  4" in told or "9   4" in told, "a count does not look like the next one's key"
        assert "5 Purge" in told or cells < 80
    feed_state = sick()
    told = words(frame.verdict(feed_state, cells))
    assert len(told) <= cells
    assert "no clone has finished since 11:21" in told, "the worst reason is whole"
    assert "1 more" in told or "2 more" in told or "webhooks" in told, "what is left out is told"
    assert ("ready" in told) == (cells >= 100), "how many comes after why"
    for low in (False, True):
        context = ShownContext(title="prod-eu", server="redis-1.eu:6379/0", environment="prod", read_only=True)
        line, ground = frame.bar(context, feed_state, None, cells, low=low)
        assert (fmt.length(line), ground) == (cells, "prod")
        assert all(word in words(line) for word in ("PRODUCTION", "prod-eu", "∅ READ-ONLY"))
        assert ("unhealthy" in words(line)) == low
        assert ("redis-1" in words(line)) == (cells >= 80 and not low)
        clock = re.search(rf"\d\d:\d\d:\d\d {re.escape(time.strftime('%Z'))} · ", words(line))
        assert (clock is not None) == (cells >= 100), "the times of all screens are in the zone of this clock"


def test_keys_that_cannot_act_say_why_where_there_is_room() -> None:
    by_id = {action.id: action for action in ACTIONS}
    offers = [
        Offer(by_id["open"], "open"),
        Offer(by_id["cancel"], "cancel", "owner is gone"),
        Offer(by_id["run"], "run now", "owner is gone"),
        Offer(by_id["discard"], "discard", "read-only: type :live to allow changes for 30 minutes"),
        Offer(by_id["copy"], "copy", "nothing under the cursor"),
    ]
    told = words(frame.footer(offers, [], 100))
    assert "enter open  c cancel: owner is gone  n run now  x discard  y copy" in told
    assert "c cancel  n run now" in words(frame.footer(offers, [], 62))
    assert "cancel" not in words(frame.footer(offers, [], 100, hides=True)), "faint is no colour among sixteen"
    note = [("✓ 12 retried", "ok"), (", 12:04:20", "muted")]
    assert "12:04:20" in words(frame.footer(offers, note, 100))
    told = words(frame.footer(offers, note, 62))
    assert "✓ 12 retried" in told
    assert "12:04:20" not in told, "when is the first to go"


@pytest.mark.parametrize("name", [field.name for field in fields(SIXTEEN)])
def test_each_of_the_sixteen_colours_comes_out_as_what_it_is(name: str) -> None:
    """Rich looks for the nearest of sixteen: of these values each is one of them."""
    told = Color.parse(getattr(SIXTEEN, name)).downgrade(ColorSystem.STANDARD)
    assert told.number is not None
    assert STANDARD_PALETTE[told.number].hex == getattr(SIXTEEN, name).lower()


def of_256(palette: Palette, name: str) -> tuple[float, float, float]:
    """A colour as a terminal of 256 shows it, each part from 0 to 1."""
    triplet = Color.parse(getattr(palette, name)).downgrade(ColorSystem.EIGHT_BIT).get_truecolor()
    red, green, blue = (part / 255 for part in triplet)
    return red, green, blue


def luminance(parts: tuple[float, float, float]) -> float:
    """As WCAG has it."""
    red, green, blue = (part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("name", ["text", "strong", "muted", "accent", "bad", "warn", "ok"])
def test_all_words_can_be_read_under_the_cursor_in_256_colours(name: str) -> None:
    word = luminance(of_256(EIGHT_BIT, name))
    for ground in ("ground", "cursor"):
        contrast = (word + 0.05) / (luminance(of_256(EIGHT_BIT, ground)) + 0.05)
        assert contrast > 4.3, (ground, contrast)


def test_in_256_colours_production_is_no_alarm(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("prod", "live"):
        red, green, blue = of_256(EIGHT_BIT, name)
        assert green < blue >= 0.7 * red, name
    monkeypatch.delenv("NO_COLOR", raising=False)
    fitting = {system: fitting_theme(system) for system in ("standard", "256", "truecolor", None)}
    assert list(fitting.values()) == ["qdeck-16", "qdeck-256", "qdeck-ink", "qdeck-ink"]
    assert set(fitting.values()) <= set(PALETTES)


def test_without_colour_weight_and_reverse_tell() -> None:
    plain = Painter(INK, plain=True)
    for role in ("bad", "bad bold", "strong", "accent"):
        assert plain.style(role).bold, role
    assert not plain.style("warn").bold, "as grey, amber would be darker than text"
    assert plain.style("text", "cursor").reverse
    assert plain.style("prod_badge_text bold on-prod_badge").reverse
    assert not plain.style("text on-raised").reverse, "a field would be a slab"
    assert plain.style("faint").dim
    every = [
        plain.style(role, ground) for role in ("bad", "faint", "text on-cursor") for ground in ("ground", "cursor")
    ]
    assert all(style.color is None and style.bgcolor is None for style in every)


def test_answers_are_told_by_brackets_where_grounds_do_not_tell() -> None:
    for flat in (False, True):
        closed = buttons("Apply 1,284", on_act=False, why_not="type the name", flat=flat)
        opened = buttons("Apply 1,284", on_act=True, why_not="", flat=flat)
        assert fmt.length(closed[:3]) == fmt.length(opened[:3]), "nothing moves"
    assert words(tuple(closed)) == "[ Cancel ]   ( Apply 1,284 )   type the name"
    assert words(tuple(opened)) == "[ Cancel ]   [ Apply 1,284 ]"
    assert [to_go(typed, "prod")[0] for typed in ("", "pro", "x", "prod")] == [
        "", "1 character left", "not the name", "enter continues",
    ]  # fmt: skip


async def test_no_colour_is_sent_when_none_is_wanted(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with console(url, "5") as pilot:
        await until(pilot, "no plan yet")
        for key in ("e", "escape", "question_mark"):
            await pilot.press(key)
            await pilot.pause(0.1)
            strips = strips_of(app_of(pilot).screen)
            colours = [colour for strip in strips for part in strip if part.style
                       for colour in (part.style.color, part.style.bgcolor)]  # fmt: skip
            assert all(colour is None or colour.is_default for colour in colours)


@pytest.mark.parametrize("size", [(60, 16), (80, 24)])
async def test_the_answers_of_a_dialog_are_in_sight_however_long_its_plan_is(url: str, size: tuple[int, int]) -> None:
    async with console(url, size=size) as pilot:
        app = app_of(pilot)
        plan: list[Line] = [((f"number {at}", "text"),) for at in range(30)]
        app.ask(confirmation(app, "Purge 30 entries", plan, "Apply 30", name="prod-eu"), lambda _yes: None)
        shown = await until(pilot, "more lines: enlarge the window")
        for told in ("Purge 30 entries", "number 0", "number 29", "Type prod-eu", "Apply 30", "type the name", "esc"):
            assert told in shown, told


def test_the_last_tab_has_its_name_at_80_columns() -> None:
    some = [Tab(one.id, one.name, one.number, {"stuck": 6, "dead": 77}.get(one.id, 0)) for one in ALL]
    shown = words(frame.tabs(some, "queues", 80))
    assert shown.rstrip().endswith("9 Act")
    assert len(shown.rstrip()) <= 80
