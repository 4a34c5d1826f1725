"""The actions on jobs, for any screen that lists or shows jobs: on one, on the marked ones, or on all that match."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec

from qdeck import QdeckError
from qdeck.admin import NATIVE_VERBS, PRIORITIES, Feature, PlanEntry, State, Verb, difference, has_feature, new_body
from qdeck_console.actions import DEAD, JOBS, STUCK, TABS, ActionHandler, verb_of
from qdeck_console.departed_jobs import GoneJob
from qdeck_console.operations import OperationRequest, outcome
from qdeck_console.presenters.line_parts import naming_of
from qdeck_console.screens.dialog import inside
from qdeck_console.screens.editor import edit, escaped
from qdeck_console.screens.frame import FrameScreen

if TYPE_CHECKING:
    from qdeck.admin import JobRecord
    from qdeck_console.console import Console

VERBS: Final = {
    "retry": Verb.RETRY,
    "requeue": Verb.REQUEUE,
    "bury": Verb.BURY,
    "cancel": Verb.CANCEL,
    "run": Verb.RUN,
    "discard": Verb.DISCARD,
    "sooner": Verb.REPRIORITISE,
    "later": Verb.REPRIORITISE,
    "move": Verb.MOVE,
    "edit": Verb.EDIT,
}
_MEANT_FOR: Final = {
    Verb.RETRY: ("dead", DEAD),
    Verb.REQUEUE: ("running", STUCK),
    Verb.BURY: ("waiting or running", JOBS),
    Verb.CANCEL: ("waiting or running", JOBS),
    Verb.RUN: ("delayed", JOBS),
    Verb.DISCARD: ("waiting or ended", JOBS),
    Verb.REPRIORITISE: ("waiting", JOBS),
    Verb.MOVE: ("ready or delayed", JOBS),
    Verb.EDIT: ("waiting or dead", JOBS),
}
"""The jobs that each verb is for, in words, and the screen that lists them."""
_STEPS: Final = sorted(PRIORITIES.values())
_ONE: Final = "one job at a time"


def why_no_job(row: object | None) -> str:
    """Return why there is nothing to act on in a row."""
    return f"it {row.why}" if isinstance(row, GoneJob) else "no job under the cursor"


class JobActing(FrameScreen):
    """A screen whose jobs can be acted on."""

    def targets(self) -> tuple[JobRecord, ...]:
        """Return the jobs that an action is for, as they were read."""
        raise NotImplementedError

    def pointed(self) -> object | None:
        """Return the row under the cursor."""
        return self.main_list.row

    def everything(self) -> tuple[OperationRequest, int | None] | None:
        """Return all that match, when all are marked: what to plan (its verb does not matter), and how many."""
        return None

    def why_no_targets(self) -> str:
        """Return why no action is possible on the targets."""
        return ""

    def why_no_jobs(self) -> str:
        """Return why there are no targets."""
        return why_no_job(self.pointed())

    def acted(self) -> None:
        """Follow an action on the targets."""


def why_not_act(action: str, screen: JobActing) -> str:
    """Return why an action cannot be done to the targets of a screen."""
    why = screen.console.operator.why_not_write() or screen.why_no_targets()
    if why:
        return why
    everything = screen.everything()
    if everything is not None:
        return _why_not_all(action, screen, everything[0])
    jobs = screen.targets()
    if not jobs:
        return screen.why_no_jobs()
    if action == "edit" and len(jobs) > 1:
        return _ONE
    word = _verb(action, screen).value
    if theirs := [job for job in jobs if not job.has(Feature.STATES)]:
        reasons = [screen.console.reader.why_not_job(word, job) for job in theirs]
        return "" if "" in reasons else reasons[0]
    if any(job.state in _states(action, screen) for job in jobs):
        return ""
    return _other_state("it is" if len(jobs) == 1 else "they are", jobs[0].state, action, screen)


def _why_not_all(action: str, screen: JobActing, asked: OperationRequest) -> str:
    adapter, states = _foreign_of(screen, asked), asked.states
    if action == "edit":
        never = "" if adapter is None else screen.console.reader.why_not(adapter, action, State.DEAD)
        return never or _ONE
    if adapter is not None and states:
        reasons = [screen.console.reader.why_not(adapter, _verb(action, screen).value, state) for state in states]
        return "" if "" in reasons else reasons[0]
    fits = not states or set(states) & set(_states(action, screen))
    return "" if fits else _other_state("they are", states[0], action, screen)


def _other_state(are: str, state: str, action: str, screen: JobActing) -> str:
    """Return that an action is not for jobs of a state: for which ones it is, and the screen that lists those."""
    of, tab = _MEANT_FOR[_verb(action, screen)]
    where = "" if tab == screen.SCOPE else f", see {TABS[tab]} {tab.capitalize()}"
    return f"{are} {state}; {_word(action, screen)} is for {of} jobs{where}"


def _foreign_of(screen: JobActing, asked: OperationRequest) -> str | None:
    """Return the one adapter that all queues of a request are of, where it says for which states its verbs are."""
    listed = screen.feed_state.listed
    adapters = {entry.row.adapter for entry in map(listed.of, asked.queues) if entry is not None}
    name = adapters.pop() if len(adapters) == 1 else None
    return None if name is None or has_feature(name, Feature.STATES) else name


def _label(action: str, screen: JobActing) -> str:
    """Return the verb of an action, with how many jobs it would act on."""
    verb, everything = _word(action, screen), screen.everything()
    if everything is not None:
        return f"{verb} all" + (f" {everything[1]:,}" if everything[1] is not None else "")
    count = len(screen.targets())
    return f"{verb} {count:,} marked" if count > 1 else verb


def _act(action: str, screen: JobActing) -> None:
    """Start an operation on the targets."""
    verb, everything = _verb(action, screen), screen.everything()
    jobs = screen.targets()
    priority = _next_priority(jobs[0].priority if jobs else None, action) if verb is Verb.REPRIORITISE else None
    if everything is None:
        request = OperationRequest(verb=verb, jobs=jobs, priority=priority)
    else:
        asked = everything[0]
        request = OperationRequest(
            verb=verb, queues=asked.queues, where=asked.where, states=asked.states, stuck=asked.stuck,
            priority=priority, matched=everything[1],
        )  # fmt: skip
    screen.console.operator.start(request, after=screen.acted)


def _open_editor(screen: JobActing) -> None:
    """Open the payload in an editor; a dead letter is then retried."""
    [job] = screen.targets()
    screen.console.operator.run(_edit(screen.console, job), "edit")


def _verb(action: str, screen: JobActing) -> Verb:
    """Return what an action does to the targets: a retry of running jobs takes them from their workers."""
    verb = VERBS[action]
    if verb is not Verb.RETRY:
        return verb
    everything = screen.everything()
    states = {job.state for job in screen.targets()} if everything is None else set(everything[0].states)
    return Verb.REQUEUE if states == {State.RUNNING} else verb


def _word(action: str, screen: JobActing) -> str:
    """Return the verb of an action as its key shows it."""
    return verb_of("requeue" if _verb(action, screen) is Verb.REQUEUE else action)


def _states(action: str, screen: JobActing) -> tuple[str, ...]:
    return NATIVE_VERBS[_verb(action, screen)]


def _next_priority(now: int | None, action: str) -> int:
    """Return the next of the named priorities, in either direction."""
    current = PRIORITIES["NORMAL"] if now is None else now
    if action == "sooner":
        return max((step for step in _STEPS if step < current), default=_STEPS[0])
    return min((step for step in _STEPS if step > current), default=max(current, _STEPS[-1]))


async def _edit(console: Console, job: JobRecord) -> None:
    from qdeck_console.presenters import edits

    draft = await console.reader.draft(job.ref, job.id)
    entry = PlanEntry(queue=draft.queue, id=draft.id, state=draft.state, version=draft.version, verb="edit")
    skip = difference(job, entry, 0)
    if skip is not None:
        console.say(f"not edited: {skip.sentence}", "warn", "▲")
        return

    def check(text: str) -> str:
        try:
            new_body(draft, text)
        except QdeckError as error:
            return str(error)
        return ""

    after = await edit(console, f"Payload of {job.id}", draft.text(), check, notes=edits.notes(job))
    now = "" if after is None else escaped(msgspec.json.format(after, indent=2))
    if after is None or now == draft.text():
        console.say("not edited: no change", "muted", "")
        return
    lines = edits.lines(job, draft.text(), now, inside(console.size.width), naming=naming_of(console.shown.snapshot))
    if not await console.operator.confirm(*edits.question(job), lines):
        return
    try:
        result = await console.writer.edit(draft, after)
    except QdeckError as error:
        console.say(f"not edited: {error}", "bad", "✗")
        return
    if result.applied:
        console.operator.remember(result.batch, f"edit of {job.id}")
    console.say(*outcome(result))


JOB_HANDLERS: Final = {
    **{
        action: ActionHandler(
            run=partial(_act, action), reason=partial(why_not_act, action), label=partial(_label, action)
        )
        for action in VERBS
        if action != "edit"
    },
    "edit": ActionHandler(run=_open_editor, reason=partial(why_not_act, "edit")),
}
"""The handlers of the actions on jobs."""
