"""The purge as a place to work: rules, thresholds, dry run, plan, entries, apply, undo; and every key."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING

from qdeck.admin import Writer, load_configuration, load_plan
from qdeck_console.contexts import Contexts
from qdeck_console.presenters.purge import at_least
from qdeck_console.screens.purge import PurgeScreen
from qdeck_console.screens.purge_entries import EntriesScreen
from support.screens import app_of, console, row, text, undo, until
from support.yard import Yard

if TYPE_CHECKING:
    from pathlib import Path

    import pytest
    import redis
    from textual.pilot import Pilot

MAIL, HOOKS = "demo:dev:mail:actions", "demo:dev:hooks:actions"
HOUR = 3600


def fill(url: str, raw: redis.Redis) -> None:
    """Old and young jobs in several states."""
    with Writer(url) as writer:
        mail, hooks = Yard(writer, raw, MAIL), Yard(writer, raw, HOOKS)
        mail.keep_all()
        hooks.keep_all()
        for number in range(3):
            mail.ended("done", 5 * HOUR + number)
        for age in (30 * HOUR, 1):
            mail.ready(age)
        hooks.ended("dead", 200 * HOUR)
        hooks.ended("dead", 20 * HOUR)


def screen(pilot: Pilot[int]) -> PurgeScreen:
    found = pilot.app.screen
    assert isinstance(found, PurgeScreen)
    return found


async def test_a_dry_run_is_shown_applied_exactly_and_undone(url: str, raw: redis.Redis) -> None:
    fill(url, raw)
    with Writer(url) as writer:
        before = Yard(writer, raw, MAIL).digest()
    async with console(url, "5") as pilot:
        await until(pilot, "no plan yet")
        await pilot.press("a")
        await until(pilot, "dry run first")
        await pilot.press("d")
        shown = await until(pilot, "3 rules   2 queues")
        assert screen(pilot).view.place == 0, "the rule that it was on found nothing"
        for words in ("done too old", "bury", "discard", "cancel", "valid until", "never touched"):
            assert (words in shown) == (words != "bury"), words
        with Writer(url) as writer:
            assert Yard(writer, raw, MAIL).digest() == before, "a dry run writes nothing"
        await pilot.press("tab")
        await until(pilot, lambda: screen(pilot).view.has_focus)
        await pilot.press("g", "j", "j", "j")
        await until(pilot, "done too old (limit 1h)")
        await until(pilot, "apply would")
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(pilot.app.screen, EntriesScreen))
        await until(pilot, "1–3 of 3, in the order of the plan")
        await until(pilot, " t  1")  # what each is, not only its id
        await pilot.press("j", "G", "escape")
        await until(pilot, lambda: isinstance(pilot.app.screen, PurgeScreen))
        await pilot.press("g", "enter")
        await until(pilot, "▸ ready too old")
        await pilot.press("enter")
        await until(pilot, "▾ ready too old")
        await pilot.press("slash", *"hooks", "enter")
        await until(pilot, lambda: "▾ ready too old" not in text(app_of(pilot)))
        await pilot.press("escape")
        await until(pilot, "▾ ready too old")
        await pilot.press("a")
        shown = await until(pilot, "Purge 5 entries of 2 queues")
        assert "dead too old, done too old" in shown
        await pilot.press("enter")
        await until(pilot, "nothing was changed")
        await pilot.press("a", "tab", "enter")
        await until(pilot, "5 purged")
        await until(pilot, "5 applied")
        assert (row(url, MAIL).ready, row(url, MAIL).done, row(url, HOOKS).dead) == (1, 0, 1)
        await pilot.press("a")
        await until(pilot, "already applied")
        await undo(pilot)
        await until(pilot, "undone: purge of 5 entries")
        await until(pilot, "∅ undone: press d for a new dry run")
        assert (row(url, MAIL).ready, row(url, MAIL).done, row(url, HOOKS).dead) == (2, 3, 2)


async def test_rules_and_thresholds_are_those_of_this_run_until_they_are_saved(
    url: str, raw: redis.Redis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(url, raw)
    file = tmp_path / "qdeck.toml"
    file.write_text("# ours\n[purge]\nmax_completed_age = 7200 # two hours\n")
    monkeypatch.chdir(tmp_path)
    async with console(url) as pilot:
        app = app_of(pilot)
        app.contexts = Contexts(app.contexts.target, load_configuration(file))
        await pilot.press("5")
        shown = await until(pilot, "no plan yet")
        assert "2h" in next(line for line in shown.splitlines() if "done too old" in line)
        await pilot.press("S")
        await until(pilot, "nothing to save")
        await pilot.press("g", "space", "j", "space")
        await until(pilot, "□ ready too old")
        await pilot.press("space", "j", "e")
        await until(pilot, "done too old, for this run")
        field = pilot.app.screen.query_one("#field0")
        field.value = "soon"  # type: ignore[attr-defined] # it is an input
        await until(pilot, "a time such as 90s, 15m, 2h or 7d")
        field.value = "6h"  # type: ignore[attr-defined] # it is an input
        await pilot.press("enter")
        await until(pilot, "2h → 6h")
        await pilot.press("d")
        await until(pilot, "2 rules   2 queues")
        await pilot.press("e")
        await until(pilot, "done too old, for this run")
        await pilot.press("escape", "space", "a")
        await until(pilot, "the rules changed: press d for a new dry run")
        await pilot.press("space", "S")
        await until(pilot, "purge.max_completed_age = 21600")
        await pilot.press("enter")
        await until(pilot, "nothing was saved")
        await pilot.press("S", "tab", "enter")
        await until(pilot, "saved to")
        assert "max_completed_age = 21600 # two hours" in file.read_text()
        assert "lease_expired" not in file.read_text()
        await pilot.press("w")
        await until(pilot, "Save the plan")
        await pilot.press("enter")
        await until(pilot, "plan of 2 entries written to")
        [path] = tmp_path.glob("*.jsonl")
        assert load_plan(path).count == 2
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


async def test_a_dry_run_can_be_cancelled_and_looking_is_always_allowed(url: str, raw: redis.Redis) -> None:
    fill(url, raw)
    async with console(url, "5", size=(80, 24), read_only=True) as pilot:
        shown = await until(pilot, "lease expired")
        assert all(len(line) <= 80 for line in shown.splitlines())
        await pilot.press("d")
        shown = await until(pilot, "5 entries")
        assert "rules" in shown
        await pilot.press("a")
        await until(pilot, ":live to allow changes for 30 minutes")
        await pilot.press("tab")
        await until(pilot, "older than")
        await pilot.press("escape")
        await until(pilot, "oldest")
        work = app_of(pilot).operator
        await pilot.press("d")
        if work.work is not None:  # it may be over by now
            work.cancel()
        await until(pilot, lambda: screen(pilot).work.dry is None)
        assert work.work is None or work.work.cancelled


async def test_nothing_to_do_and_an_empty_server_say_so(url: str) -> None:
    async with console(url, "5") as pilot:
        await until(pilot, "no plan yet")
        await pilot.press("d")
        await until(pilot, "no entry is over its threshold")
        await pilot.press("a")
        await until(pilot, "nothing to do")


def test_numbers_that_are_not_exact_yet_fit_their_column() -> None:
    assert [at_least(count, 8) for count in (5, 43_100, 431_000, 4_310_000)] == ["≥ 5", "≥ 43,100", "≥ 431k", "≥ 4.3M"]


async def test_keys_do_nothing_in_a_window_that_is_too_small_to_show_it(url: str, raw: redis.Redis) -> None:
    fill(url, raw)
    async with console(url, "5", size=(100, 30)) as pilot:
        await until(pilot, "older than")
        screen = app_of(pilot).screen
        assert isinstance(screen, PurgeScreen)
        before = screen.work.off
        await pilot.resize_terminal(50, 14)
        await until(pilot, "needs 60×16")
        await pilot.press("space", "j", "space", "d", "a")
        await pilot.resize_terminal(100, 30)
        await until(pilot, "older than")
        assert screen.work.off == before
        await pilot.press("space")
        await until(pilot, lambda: screen.work.off != before)
