"""No key means two things in one place, and every action reaches something."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from qdeck_console.actions import ACTIONS, of_scope
from qdeck_console.screens.activity import ActivityScreen, BatchScreen
from qdeck_console.screens.dead import DeadScreen
from qdeck_console.screens.health import HealthScreen
from qdeck_console.screens.job import JobScreen
from qdeck_console.screens.jobs import JobsScreen
from qdeck_console.screens.purge import PurgeScreen
from qdeck_console.screens.purge_entries import EntriesScreen
from qdeck_console.screens.queue import QueueScreen
from qdeck_console.screens.queues import QueuesScreen
from qdeck_console.screens.redrive import RedriveScreen
from qdeck_console.screens.schedules import SchedulesScreen
from qdeck_console.screens.stuck import StuckScreen
from qdeck_console.screens.temporary import TaskQueuesScreen, TemporaryQueuesScreen
from qdeck_console.screens.workers import WorkerScreen, WorkersScreen

if TYPE_CHECKING:
    from qdeck_console.screens.frame import FrameScreen

SCREENS: Final[tuple[type[FrameScreen], ...]] = (
    QueuesScreen, JobsScreen, StuckScreen, DeadScreen, PurgeScreen, SchedulesScreen, WorkersScreen, HealthScreen,
    ActivityScreen, QueueScreen, JobScreen, WorkerScreen, BatchScreen, RedriveScreen, EntriesScreen,
    TemporaryQueuesScreen, TaskQueuesScreen,
)  # fmt: skip


def test_no_key_means_two_things_in_one_place() -> None:
    for scope in {scope for action in ACTIONS for scope in action.scopes}:
        keys = [key for action in of_scope(scope) for key in action.keys]
        assert len(keys) == len(set(keys)), scope


def test_every_action_of_a_screen_is_done_by_it() -> None:
    known = {action.id for action in ACTIONS}
    for screen in SCREENS:
        actions = of_scope(screen.SCOPE)
        assert actions, screen
        for action in actions:
            assert action.call or action.id in screen.HANDLERS, (screen, action.id)
        assert set(screen.HANDLERS) <= known, screen
