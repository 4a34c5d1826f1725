"""The table of keys in the README is that of the actions, and every action reaches something."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from qdeck_console.actions import ACTIONS, TABS, key_table, of_scope, screens
from qdeck_console.app import ConsoleApp
from qdeck_console.commands import word_table
from qdeck_console.screens.activity import ActivityScreen
from qdeck_console.screens.dead import DeadScreen
from qdeck_console.screens.detail import QueueScreen
from qdeck_console.screens.health import HealthScreen
from qdeck_console.screens.job import JobScreen
from qdeck_console.screens.queues import QueuesScreen
from qdeck_console.screens.schedules import SchedulesScreen
from qdeck_console.screens.stuck import StuckScreen
from qdeck_console.screens.workers import WorkersScreen

if TYPE_CHECKING:
    from qdeck_console.screens.frame import FrameScreen

README = Path(__file__).resolve().parents[2] / "console" / "README.md"


def test_the_readme_has_the_keys_as_they_are() -> None:
    assert key_table() in README.read_text(encoding="utf-8")
    assert word_table() in README.read_text(encoding="utf-8")


def test_the_screens_of_the_table_are_those_of_the_app() -> None:
    assert set(ConsoleApp.MODES) == set(TABS) & set(screens())


def test_no_key_means_two_things_in_one_place() -> None:
    for scope in {scope for action in ACTIONS for scope in action.scopes}:
        keys = [key for action in of_scope(scope) for key in action.keys]
        assert len(keys) == len(set(keys)), scope


def test_every_action_of_a_screen_is_done_by_it() -> None:
    classes: list[type[FrameScreen]] = [
        QueuesScreen, StuckScreen, DeadScreen, SchedulesScreen, WorkersScreen, HealthScreen, ActivityScreen,
        QueueScreen, JobScreen,
    ]  # fmt: skip
    for screen in classes:
        for action in of_scope(screen.SCOPE):
            assert action.call or hasattr(screen, f"do_{action.id}"), (screen, action.id)
