"""Acting on jobs from any screen that has some under its hands: one, those that are marked, or all that match."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from qdeck import QdeckError
from qdeck.admin import PRIORITIES, Feature, PlanEntry, Verb, difference, has_feature, new_body
from qdeck_console.leaving import Left
from qdeck_console.operating import Wish, it, outcome
from qdeck_console.screens.editor import edit
from qdeck_console.screens.frame import FrameScreen

if TYPE_CHECKING:
    from qdeck.admin import JobRecord
    from qdeck_console.actions import Action
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
}
_STEPS: Final = sorted(PRIORITIES.values())


class JobActs(FrameScreen):
    """A screen whose jobs can be acted on."""

    def targets(self) -> tuple[JobRecord, ...]:
        """The jobs that are pointed at, as they were seen."""
        raise NotImplementedError

    def pointed(self) -> object | None:
        """The row under the cursor."""
        return self.main_list.row

    def everything(self) -> tuple[Wish, int | None] | None:
        """All that match, when that was asked for: what to plan (its verb does not matter), and how many they are."""
        return None

    def acted(self) -> None:
        """Something was done to the targets."""

    def why_not(self, action: str) -> str:
        """Why an action cannot act now."""
        if action in VERBS or action == "edit":
            return self._why_not_act(action)
        return super().why_not(action)

    def _why_not_act(self, action: str) -> str:
        why = self.console.operator.why_not_write()
        if why:
            return why
        everything = self.everything()
        if everything is not None:
            states = everything[0].states
            if action == "edit":
                return "one job at a time"
            if (adapter := self._foreign_of(everything[0])) is not None and states:
                reasons = [self.console.reader.why_not(adapter, VERBS[action].value, state) for state in states]
                return "" if "" in reasons else reasons[0]
            fits = not states or set(states) & set(_states(action))
            return "" if fits else f"they are {states[0]}"
        jobs = self.targets()
        if not jobs:
            row = self.pointed()
            return f"it {row.why}" if isinstance(row, Left) else "no job under the cursor"
        if action == "edit" and len(jobs) > 1:
            return "one job at a time"
        theirs = next((job for job in jobs if not job.has(Feature.STATES)), None)
        if theirs is not None:
            word = "edit" if action == "edit" else VERBS[action].value
            return self.console.reader.why_not(theirs.adapter, word, theirs.state)
        fitting = [job for job in jobs if job.state in _states(action)]
        return "" if fitting else f"it is {jobs[0].state}" if len(jobs) == 1 else f"they are {jobs[0].state}"

    def _foreign_of(self, wish: Wish) -> str | None:
        """The one adapter that all queues of a wish are of, where it says for which states its verbs are."""
        judged = self.picture.judged
        adapters = {entry.row.adapter for entry in map(judged.of, wish.queues) if entry is not None}
        name = adapters.pop() if len(adapters) == 1 else None
        return None if name is None or has_feature(name, Feature.STATES) else name

    def verb(self, action: Action) -> str:
        """The verb of an action, with how many it would act on."""
        if action.id not in VERBS:
            return super().verb(action)
        everything = self.everything()
        if everything is not None:
            return f"{action.verb} all" + (f" {everything[1]:,}" if everything[1] is not None else "")
        count = len(self.targets())
        return f"{action.verb} {count:,} marked" if count > 1 else action.verb

    def act(self, action: str) -> None:
        """Does a verb to the targets."""
        verb, everything = VERBS[action], self.everything()
        jobs = self.targets()
        priority = _next_priority(jobs[0].priority if jobs else None, action) if verb is Verb.REPRIORITISE else None
        if everything is None:
            wish = Wish(verb=verb, jobs=jobs, priority=priority)
        else:
            asked = everything[0]
            wish = Wish(
                verb=verb, queues=asked.queues, where=asked.where, states=asked.states, stuck=asked.stuck,
                priority=priority,
            )  # fmt: skip
        self.console.operator.start(wish, after=self.acted)

    def do_retry(self) -> None:
        """Lets dead letters run again."""
        self.act("retry")

    def do_requeue(self) -> None:
        """Puts stuck jobs back in line."""
        self.act("requeue")

    def do_bury(self) -> None:
        """Puts jobs to the dead letters."""
        self.act("bury")

    def do_cancel(self) -> None:
        """Cancels jobs."""
        self.act("cancel")

    def do_run(self) -> None:
        """Starts delayed jobs now."""
        self.act("run")

    def do_discard(self) -> None:
        """Removes jobs."""
        self.act("discard")

    def do_sooner(self) -> None:
        """Gives a more urgent priority."""
        self.act("sooner")

    def do_later(self) -> None:
        """Gives a less urgent priority."""
        self.act("later")

    def do_edit(self) -> None:
        """Opens the payload in an editor; a dead letter then runs again."""
        [job] = self.targets()
        self.console.operator.run(_edit(self.console, job), "edit")


def _states(action: str) -> tuple[str, ...]:
    return Verb.EDIT.states if action == "edit" else VERBS[action].states


def _next_priority(now: int | None, action: str) -> int:
    """The next of the named priorities, in the one direction or the other."""
    current = PRIORITIES["NORMAL"] if now is None else now
    if action == "sooner":
        return max((step for step in _STEPS if step < current), default=_STEPS[0])
    return min((step for step in _STEPS if step > current), default=max(current, _STEPS[-1]))


async def _edit(console: Console, job: JobRecord) -> None:
    draft = await console.reader.draft(job.ref, job.id)
    entry = PlanEntry(queue=draft.queue, id=draft.id, state=draft.state, version=draft.version, verb="edit")
    skip = difference(job, entry, 0)
    if skip is not None:
        console.say(f"not edited: {it(skip.why)}", "warn", "▲")
        return

    def check(text: str) -> str:
        try:
            new_body(draft, text)
        except QdeckError as error:
            return str(error)
        return ""

    after = await edit(console, f"Payload of {job.id}", draft.text(), check)
    if after is None:
        console.say("nothing was changed", "muted", "")
        return
    if console.is_over:
        console.say("the 30 minutes are over", "warn", "▲")
        return
    try:
        result = await console.writer.edit(draft, after)
    except QdeckError as error:
        console.say(f"not edited: {error}", "bad", "✗")
        return
    if result.applied:
        console.operator.remember(result.batch, f"edit of {job.id}")
    console.say(*outcome(result))
