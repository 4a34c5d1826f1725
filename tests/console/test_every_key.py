"""Every key of every screen is pressed on a server with something of everything, and does what it says.

Each walk notes what it pressed; at its end no key of its screen may be left over. The console has the published rights
of an operator, and the server refuses it nothing.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import pytest
from textual.widgets import TextArea

from qdeck._engine import transitions
from qdeck.admin import JobRecord, QueueRef, State, Writer
from qdeck_console.actions import (
    ACTIVITY,
    DEAD,
    HEALTH,
    JOBS,
    PURGE,
    QUEUES,
    SCHEDULES,
    STUCK,
    TABS,
    WORKERS,
)  # fmt: skip
from qdeck_console.departed_jobs import GoneJob
from qdeck_console.screens.activity import BatchScreen
from qdeck_console.screens.frame import FrameScreen
from qdeck_console.screens.job import JobScreen
from qdeck_console.screens.prompt import Prompt
from qdeck_console.screens.purge_entries import EntriesScreen
from qdeck_console.screens.queue import QueueScreen
from qdeck_console.screens.redrive import RedriveScreen
from qdeck_console.screens.temporary import TaskQueuesScreen, TemporaryQueuesScreen
from qdeck_console.screens.workers import WorkerScreen
from qdeck_console.widgets.lines import LineList
from support.roles import Roles
from support.scene import QUEUE
from support.screens import command, fail_next, run, text, until
from support.walk import Walk, ends, looks, moves, next_problem, walking

if TYPE_CHECKING:
    from pathlib import Path

    import redis

    from support.walk import Own, Reach

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

DONE: Final = "u undoes it"


async def undoes(walk: Walk) -> None:
    """Undo names the last batch first."""
    await walk.key("u", "press u again to undo")
    await walk.key("u", "undone")


async def queues(walk: Walk) -> None:
    """Queues: sort, pause, retry all dead, move all that waits, tasks, undo, open."""
    await walk.key("R", walk.screen.why_not("redrive"))  # three dead letters are no problem yet
    for key in ("b", "enter"):  # its worst problem is a stuck job, until it has been without a worker for long
        walk.view.cursor = f"native/{QUEUE}"
        await walk.key(key, partial(shows_stuck, walk))
        await walk.pilot.press("1")
        await until(walk.pilot, lambda: walk.app.screen is walk.screen)
    await walk.pilot.press("2")
    await until(walk.pilot, lambda: walk.app.current_mode == JOBS and "shop ▸ mail" in text(walk.app))
    await walk.pilot.press("1")
    await until(walk.pilot, lambda: walk.app.screen is walk.screen)
    await walk.key("s", "sorted by name")
    await walk.key("g")
    await walk.answer("p", "enter", wanted="paused")
    with Writer(walk.url) as writer:
        assert [str(row.ref) for row in writer.snapshot().queues if row.paused] == [walk.view.cursor]
    await walk.key("p", "resumed")
    await walk.key("u", "nothing to undo")
    await whole_queue(walk)
    await walk.key("t", partial(walk.shows, TemporaryQueuesScreen))
    await walk.back_here()


def shows_stuck(walk: Walk) -> bool:
    """Return whether Stuck is in front, narrowed to the queue."""
    front = walk.app.screen
    return walk.app.current_mode == STUCK and isinstance(front, FrameScreen) and front.filter_text == f"queue:{QUEUE}"


async def whole_queue(walk: Walk) -> None:
    """What is done to all of a queue is asked for first, and escape does nothing."""
    walk.view.cursor = f"native/{QUEUE}" if walk.view.cursor else ""
    await walk.key("r", partial(walk.shows, Prompt))
    await walk.back_here()
    await walk.key("m", partial(walk.shows, Prompt))
    await walk.back_here()
    assert walk.state_of(walk.scene.dead[0]) == State.DEAD


async def a_queue(walk: Walk) -> None:
    """A queue's page: pause, retry all dead, move all that waits, on to its stuck jobs and its jobs."""
    await walk.answer("p", "enter", wanted="p resume")
    await walk.key("p", "p pause")
    await walk.key("u", "nothing to undo")
    await whole_queue(walk)
    await walk.key("R", walk.screen.why_not("redrive"))  # three dead letters are no problem yet
    for key, wanted in (
        ("b", partial(shows_stuck, walk)),
        ("enter", lambda: walk.app.current_mode == JOBS),
    ):
        await walk.key(key, wanted)
        await reach_queue(walk)
        walk.begin()


async def choose(walk: Walk, state: str) -> None:
    """Shows the jobs of a state."""
    walk.app.show_jobs(QueueRef("native", QUEUE), State(state))
    await until(walk.pilot, lambda: walk.view.row is not None and state in text(walk.app))
    await walk.pilot.pause(0.1)


async def marks(walk: Walk) -> None:
    """Marks of one, of a range, of all; the same key takes them away."""
    await walk.key("g")
    await walk.key("space", lambda: len(walk.view.marks) == 1)
    await walk.key("escape", lambda: not walk.view.marks)
    await walk.key("g")
    await walk.key("v", lambda: walk.view.in_range)
    await walk.key("G")
    await walk.sees("G", lambda: len(walk.view.marks) == walk.entries())
    await walk.key("v", lambda: not walk.view.in_range)
    await walk.key("escape", lambda: not walk.view.marks)
    await walk.key("asterisk", lambda: walk.view.all_marked)
    await walk.key("asterisk", lambda: not walk.view.all_marked)


async def priorities(walk: Walk, job: str) -> None:
    """A job becomes more urgent, and then as urgent as it was."""
    before = walk.priority_of(job)
    await walk.key("plus", DONE)
    assert walk.priority_of(job) < before
    await walk.key("minus", DONE)
    assert walk.priority_of(job) == before


async def jobs(walk: Walk) -> None:
    """Jobs: states, order, marks, and a verb on a job of each state."""
    scene = walk.scene
    await choose(walk, "dead")
    await marks(walk)
    await walk.key("s", "oldest first")
    await walk.key("s", "newest first")
    await walk.key("r", DONE)
    await undoes(walk)
    await until(walk.pilot, lambda: len(walk.view.listing.items) == 3)
    await walk.key("e", lambda: bool(walk.app.screen.query(TextArea)))
    await walk.back_here()
    await walk.key("x", DONE)
    await choose(walk, "delayed")
    await walk.key("n", lambda: walk.state_of(scene.delayed) == "ready")
    await choose(walk, "ready")
    assert isinstance(walk.view.row, JobRecord)
    await priorities(walk, walk.view.row.id)
    await walk.key("m", lambda: walk.app.screen is not walk.screen)
    await walk.back_here()
    await walk.key("c", DONE)
    await until(walk.pilot, lambda: isinstance(walk.view.row, GoneJob))  # the cursor stays on it: no key acts there
    await walk.key("j", lambda: isinstance(walk.view.row, JobRecord))
    await walk.answer("b", "y", wanted=DONE)  # another job waits for it
    assert walk.state_of(scene.delayed) == "dead"
    await walk.answer("p", "enter", wanted="paused")
    await walk.key("p", "resumed")
    await choose(walk, "dead")
    for there, back in (("tab", "shift+tab"), ("right", "left")):
        await walk.key(there, lambda: walk.chosen_state() != "dead")
        await walk.key(back, lambda: walk.chosen_state() == "dead")
    await until(walk.pilot, lambda: walk.view.row is not None)
    await walk.key("enter", partial(walk.shows, JobScreen))
    await walk.back_here()


async def stuck(walk: Walk) -> None:
    """Stuck: marks, requeue, bury, cancel, open."""
    await next_problem(walk, tab(STUCK))  # while there is a stuck job to come back to
    await walk.pilot.press("escape")
    await until(walk.pilot, lambda: not walk.screen.filter_text)
    await marks(walk)
    await walk.key("enter", partial(walk.shows, JobScreen))
    await walk.back_here()
    await walk.key("c", "requested to stop; undo does not restart")
    await walk.back_here()
    await walk.key("n", walk.screen.why_not("run"))
    await walk.key("r", "its worker loses the lease")
    await walk.pilot.press("tab", "enter")
    await until(walk.pilot, "1 requeued")
    assert walk.state_of(walk.scene.stuck) == "ready"
    await walk.key("u", walk.screen.why_not("undo") or "press u again to undo")
    run(walk.url, transitions.poll(QUEUE, "gone-1", 1, free_slots=1, lease_ms=1))
    await until(walk.pilot, lambda: not isinstance(walk.view.row, GoneJob | None))  # what it was before is gone
    await walk.key("b", DONE)


async def dead(walk: Walk) -> None:
    """Dead: groups and entries, marks, retry, edit, discard, redrive, open."""
    await walk.key("D", "no redrive was started here")
    await walk.key("R", "Redrive")
    await walk.back_here()
    await walk.key("tab", lambda: walk.view.id == "list")
    await walk.key("left", lambda: walk.view.id == "groups")
    await walk.key("right", lambda: walk.view.id == "list")
    await walk.key("shift+tab", lambda: walk.view.id == "groups")
    await walk.key("tab", lambda: walk.view.id == "list")
    await marks(walk)
    await walk.key("g")
    await walk.key("e", lambda: bool(walk.app.screen.query(TextArea)))
    await walk.back_here()
    await walk.key("enter", partial(walk.shows, JobScreen))
    await walk.back_here()
    await walk.key("r", "1 retried")
    await undoes(walk)
    await until(walk.pilot, "1–2 of 2")
    await walk.key("x", "1 discarded")
    await walk.key("escape")


async def purge(walk: Walk) -> None:
    """Purge: a rule off and on, a threshold, the dry run, a fold, the entries, apply, save."""
    await walk.key("space", "□ lease expired")
    await walk.key("space", "■ lease expired")
    await walk.key("e", "for this run")
    await walk.back_here()
    await walk.key("S", "nothing to save")
    await walk.key("d", "1 to discard")
    for key in ("tab", "shift+tab", "left", "right"):
        await walk.key(key, partial(walk.left, walk.view))
    await walk.key("g")
    await walk.key("enter")
    await walk.key("enter")
    await walk.key("a", lambda: walk.app.screen is not walk.screen)
    await walk.pilot.press("tab", "enter")
    await until(walk.pilot, DONE)
    await undoes(walk)


async def entries(walk: Walk) -> None:
    """The entries of a plan are looked at: nothing more is opened from them."""
    await walk.key("enter")
    assert walk.app.screen is walk.screen


async def schedules(walk: Walk) -> None:
    """Schedules: run now, pause, resume, edit, open the job that was made."""
    await walk.key("enter", "the schedule made no job yet")
    await walk.key("n", "feeds: enqueued job cron:")
    await walk.answer("p", "enter", wanted="is paused")
    await walk.key("p", "is resumed")
    await walk.key("e", "The new rule applies")
    await walk.back_here()
    await walk.key("u", "nothing to undo")


async def workers(walk: Walk) -> None:
    """Workers: open one, quiet, stop."""
    await walk.key("enter", partial(walk.shows, WorkerScreen))
    await walk.back_here()
    await a_worker(walk)


async def a_worker(walk: Walk) -> None:
    """A worker: quiet, stop, the job that it runs."""
    await walk.answer("p", "tab", "enter", wanted="quiet requested")
    await walk.answer("x", "tab", "enter", wanted="stop requested")
    await walk.key("u", "nothing to undo")
    if isinstance(walk.screen, WorkerScreen):
        await walk.key("enter", partial(walk.shows, JobScreen))
        await walk.back_here()


async def health(walk: Walk) -> None:
    """Health: the temporary queues, and what is behind a check."""
    await walk.key("u", "nothing to undo")
    await walk.key("t", partial(walk.shows, TemporaryQueuesScreen))
    await walk.back_here()
    await walk.key("g")
    await walk.key("enter", lambda: walk.app.current_mode != "health" or walk.app.screen is not walk.screen)
    while len(walk.app.screen_stack) > 1:
        await walk.pilot.press("escape")
    await walk.pilot.press("8")
    await until(walk.pilot, lambda: walk.app.screen is walk.screen)


async def activity(walk: Walk) -> None:
    """Activity: open an operation, take it back."""
    await walk.key("D", "no redrive was started here")
    await walk.key("enter", partial(walk.shows, BatchScreen))
    await walk.back_here()
    await undoes(walk)


async def a_batch(walk: Walk) -> None:
    """An operation's page: take it back."""
    await walk.key("D", "no redrive was started here")
    await walk.key("enter")
    await undoes(walk)


async def tasks(walk: Walk) -> None:
    """The temporary queues: a task leads to its own, which stay while they were used lately."""
    await walk.key("g")
    await walk.key("x", "nothing to remove of task")
    await walk.key("u", walk.screen.why_not("undo"))
    await walk.key("enter", partial(walk.shows, TaskQueuesScreen))
    await walk.back_here()


async def a_task(walk: Walk) -> None:
    """The queues of one task: they stay while they were used lately."""
    await walk.key("enter")
    await walk.key("x", "nothing to remove of task")
    await walk.key("u", walk.screen.why_not("undo"))


async def nothing_more(walk: Walk) -> None:
    """A page from which enter leads nowhere."""
    await walk.key("enter")
    assert walk.app.screen is walk.screen


async def a_job(walk: Walk) -> None:
    """A job's page: panes, tries, and each verb on a job of a state that it is for."""
    scene = walk.scene
    await walk.key("left_square_bracket", walk.screen.why_not("earlier"))
    await walk.key("right_square_bracket", walk.screen.why_not("later_try"))
    first = walk.view
    await walk.key("tab", lambda: walk.view is not first)
    await walk.key("right", lambda: walk.view is first)
    await walk.key("enter")
    await walk.key("e", lambda: bool(walk.app.screen.query(TextArea)))
    await walk.back_here()
    await walk.key("r", "1 retried")
    await undoes(walk)
    await until(walk.pilot, lambda: walk.state_of(scene.dead[0]) == "dead")
    await show_job(walk, scene.ready)
    await priorities(walk, scene.ready)
    for job, key, wanted in (
        (scene.delayed, "n", "ready"),
        (scene.ready, "c", "cancelled"),
        (scene.stuck, "b", "dead"),
    ):
        await show_job(walk, job)
        await walk.key(key, DONE)
        assert walk.state_of(job) == wanted
    await show_job(walk, scene.dead[1])
    await walk.key("x", "1 discarded")


async def a_redrive(walk: Walk) -> None:
    """A redrive's page: what went back can be taken back."""
    await walk.key("enter")
    assert walk.app.screen is walk.screen
    await walk.key("u", walk.screen.why_not("undo") or "press u again to undo")
    await walk.key("escape", "it was cancelled")
    await next_problem(walk, reopen_redrive)


async def reopen_redrive(walk: Walk) -> None:
    """The page of the redrive that was left."""
    await tab(DEAD)(walk)
    await walk.pilot.press("D")
    await until(walk.pilot, partial(walk.shows, RedriveScreen))


async def show_job(walk: Walk, job: str) -> None:
    """Opens a job by its id, over whatever page is open."""
    while len(walk.app.screen_stack) > 1:
        await walk.pilot.press("escape")
        await walk.pilot.pause(0.05)
    await command(walk.pilot, f"find {job}")
    await until(walk.pilot, lambda: isinstance(walk.app.screen, JobScreen) and "payload " in text(walk.app))
    walk.begin()


def tab(name: str) -> Reach:
    """The way to a screen of the tabs."""

    async def reach(walk: Walk) -> None:
        await walk.pilot.press(str(TABS[name]))
        if name == JOBS:
            walk.app.show_jobs(QueueRef("native", QUEUE), State.DEAD)
        await until(walk.pilot, lambda: walk.app.current_mode == name and bool(walk.app.screen.query("#footer")))
        walk.begin()
        view = walk.screen.query(LineList).first()
        await until(walk.pilot, lambda: any(item.key for item in view.listing.items))

    return reach


def page(*keys: str, kind: type[FrameScreen], start: str = QUEUES) -> Reach:
    """The way to a page that is opened from a screen of the tabs."""

    async def reach(walk: Walk) -> None:
        if walk.app.current_mode != start or len(walk.app.screen_stack) == 1:
            await tab(start)(walk)
        for key in keys:
            await walk.pilot.press(key)
            await walk.pilot.pause(0.2)
        await until(walk.pilot, partial(walk.shows, kind))
        await walk.pilot.pause(0.3)

    return reach


async def reach_queue(walk: Walk) -> None:
    """A queue's page is opened by its command: at this width its detail stands beside the list."""
    await command(walk.pilot, f"queue {QUEUE}")
    await until(walk.pilot, partial(walk.shows, QueueScreen))


async def reach_job(walk: Walk) -> None:
    """The page of a dead letter."""
    await show_job(walk, walk.scene.dead[0])


async def reach_entries(walk: Walk) -> None:
    """The entries of a rule and queue of a dry run."""
    if walk.app.current_mode != PURGE:
        await tab(PURGE)(walk)
        await walk.pilot.press("d")
        await until(walk.pilot, "1 to discard")
        walk.screen.query_one("#list").focus()
        await walk.pilot.press("g", "j")
    await walk.pilot.press("enter")
    await until(walk.pilot, partial(walk.shows, EntriesScreen))


async def reach_redrive(walk: Walk) -> None:
    """A redrive that waits for the outcomes of its sample."""
    with Writer(walk.url) as writer:
        for number in range(2):
            writer.enqueue(QUEUE, "send", [number], retries=0, priority=0)
            fail_next(walk.url, QUEUE, {"class": "OSError", "message": "no route"})
    await tab(DEAD)(walk)
    await walk.pilot.press("g", "R")  # the group of the last time is gone
    await until(walk.pilot, "Redrive")
    await walk.pilot.press("enter")
    await until(walk.pilot, "[ Redrive 2 ]")
    await walk.pilot.press("tab", "enter")
    await until(walk.pilot, partial(walk.shows, RedriveScreen))


WALKS: Final[dict[str, tuple[Reach, Own]]] = {
    "queues": (tab(QUEUES), queues),
    "jobs": (tab(JOBS), jobs),
    "stuck": (tab(STUCK), stuck),
    "dead": (tab(DEAD), dead),
    "purge": (tab(PURGE), purge),
    "schedules": (tab(SCHEDULES), schedules),
    "workers": (tab(WORKERS), workers),
    "health": (tab(HEALTH), health),
    "activity": (tab(ACTIVITY), activity),
    "a queue": (reach_queue, a_queue),
    "a job": (reach_job, a_job),
    "a worker": (page("enter", kind=WorkerScreen, start=WORKERS), a_worker),
    "an operation": (page("enter", kind=BatchScreen, start=ACTIVITY), a_batch),
    "entries of a plan": (reach_entries, nothing_more),
    "tasks": (page("t", kind=TemporaryQueuesScreen), tasks),
    "a task": (page("t", "enter", kind=TaskQueuesScreen), a_task),
    "a redrive": (reach_redrive, a_redrive),
}


@pytest.mark.parametrize("name", WALKS)
async def test_every_key_does_what_it_says(url: str, raw: redis.Redis, tmp_path: Path, name: str) -> None:
    reach, own = WALKS[name]
    roles = Roles(url, raw)
    async with walking(url, raw, tmp_path, user=roles.make("operator")) as walk:
        await reach(walk)
        walk.begin()
        await moves(walk)
        await looks(walk)
        await own(walk)
        await ends(walk, reach)
        assert not walk.lacks()
    assert roles.denied() == set()
