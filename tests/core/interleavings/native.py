"""A queue with a job in every situation, and the steps that producers, workers, operators and agents take on it.

The clock is an argument of every script, so all orders happen in the same millisecond. Three things cannot be given:
the ids of `XADD *`, times to live and idle times. So outboxes are compared without the ids of their entries, and what
is kept to undo a batch by its content alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from core._engine.harness import LEASE_MS, OTHER, QUEUE, Rig
from core._engine.picture import check_rules, take_picture
from core.interleavings.orders import play
from core.interleavings.worlds import Saved
from qdeck._engine import batch_transitions, keys, programs, scripts, transitions

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import redis

    from core.interleavings.orders import Choose, Played, Where
    from qdeck._engine.transitions import ClaimedJob
    from qdeck.adapters import Program

EVENT: Final = b'{"class":"Boom","message":"no"}'


class NativeWorld:
    """Two queues that depend on each other, built once."""

    def __init__(self, url: str, raw: redis.Redis) -> None:
        for name in scripts.NAMES:  # else the first order has calls that load them, and the others have not
            raw.script_load(scripts.load(name).source)
        self.rig = rig = Rig(url, raw)
        rig.queues.add(OTHER)
        rig.configure(rate="1000 1000", limit="50")
        rig.add("p", queue=OTHER)
        self._make_running()
        self._make_ended()
        self._make_waiting()
        rig.check()
        picture = rig.picture()
        self.versions = {job_id: f"{score:.0f}" for state in picture.zsets for job_id, score in picture.zsets[state]}
        self._saved = Saved(raw)
        self._checked: set[str] = set()

    def close(self) -> None:
        """Close the connection."""
        self.rig.client.close()

    def _make_running(self) -> None:
        rig = self.rig
        rig.add("x", retries=1)
        self.expired = rig.claim_one("w2", lease_ms=1)
        rig.tick(5)
        rig.reap()
        rig.tick(5)
        rig.add("r", retries=1, on_failure=f"mend {OTHER}")
        rig.add("asked")
        [self.running, self.asked] = rig.claim(2, "w1", lease_ms=10 * LEASE_MS)
        rig.change("cancel", "asked")
        rig.add("r-child", after=["r"])
        rig.add("r-soft-child", after=["r"], run_anyway=True)

    def _make_ended(self) -> None:
        rig = self.rig
        for job_id in ("dead", "gone", "retried", "twin"):
            rig.add(job_id, priority=0, unique="name of dead" if job_id == "dead" else "")
            rig.bury(rig.claim_one("w3"), event=EVENT)
        rig.add("done", priority=0)
        rig.ack(rig.claim_one("w3"), worker="w3")
        self._apply("discard", "dead", "gone", batch="discarded")
        self._apply("retry", "dead", "retried", batch="retried")

    def _make_waiting(self) -> None:
        rig = self.rig
        rig.add("a", retries=1)
        rig.add("u", unique="only")
        rig.add("moving")
        rig.add("due", delay_ms=3)
        rig.add("later", delay_ms=600_000)
        rig.add("a-child", after=["a"])
        job = rig.job("far-child", after=[f"p@{OTHER}"])
        rig.run(programs.enqueue(QUEUE, [job], rig.now))
        self._apply("move", "ready", "moving", batch="moved", extra=OTHER)
        rig.tick(5)

    def _apply(self, verb: str, state: str, job_id: str, **options: Any) -> None:
        assert self.rig.act(verb, state, job_id, event=EVENT, **options).skipped == []

    # steps

    def act(self, verb: str, state: str, job_id: str, extra: str = "") -> Program[Any]:
        """Apply a verb to a job as the world has it."""
        version = self.running.token if state == "running" else self.versions[job_id]
        entry = job_id, version
        return programs.call(self.rig.slice(verb, state, entry, batch=f"{verb} {job_id}", extra=extra, event=EVENT))

    def act_and_undo(self, verb: str, state: str, job_id: str, extra: str = "") -> Program[Any]:
        """Apply a verb to a job, then undo that, and what it did to dependents."""
        yield from self.act(verb, state, job_id, extra)
        for number in (1, "died:1"):
            yield from self.undo(f"{verb} {job_id}", number)

    def undo(self, batch: str, number: int | str = 1) -> Program[Any]:
        """Undo a slice of a batch."""
        return programs.call(batch_transitions.undo_slice(QUEUE, batch, number, self.rig.now))

    def enqueue(self, job_id: str, *, queue: str = QUEUE, **options: Any) -> Program[Any]:
        """Make a job, after announcing it to the queues of its parents."""
        return programs.enqueue(queue, [self.rig.job(job_id, **options)], self.rig.now)

    def poll(self, worker: str, **options: Any) -> Program[Any]:
        """Report what ended, claim what is next."""
        options.setdefault("free_slots", 0)
        return programs.call(transitions.poll(QUEUE, worker, 90, lease_ms=LEASE_MS, now=self.rig.now, **options))

    def end(self, job: ClaimedJob, kind: str, worker: str, **options: Any) -> Program[Any]:
        """Report the end of a run."""
        ending = transitions.Ending(kind=kind, id=job.id, token=job.token, event=EVENT, **options)
        return self.poll(worker, endings=[ending])

    def beat(self) -> Program[Any]:
        """Renew the leases of a worker."""
        held = [(job.id, job.token) for job in (self.running, self.asked)]
        return programs.call(transitions.renew_leases(QUEUE, held, self.rig.now))

    def edit(self) -> Program[Any]:
        """Replace the payload of a dead job and retry it."""
        op = batch_transitions.edit_job(
            QUEUE, "dead", ("dead", self.versions["dead"]), before=b"[[],{}]", after=b"[[1],{}]", original=b"[[],{}]",
            batch="edit dead", event=EVENT, now=self.rig.now,
        )  # fmt: skip
        return programs.call(op)

    # playing

    def play(self, steps: Sequence[str], choose: Choose, where: Where | None = None) -> tuple[Played, str]:
        """Play steps in an order; return how it went, and what the queues hold when all is delivered."""
        self._saved.restore()
        played = play(self.rig.client, [STEPS[name](self) for name in steps], choose, where)
        self._check()
        self.rig.deliver()
        self.rig.deliver(OTHER)
        return played, f"{self._check()} {self._kept()}"

    def _check(self) -> str:
        pictures = {queue: take_picture(self.rig.raw, queue) for queue in (QUEUE, OTHER)}
        text = repr([(queue, _comparable(picture)) for queue, picture in pictures.items()])
        if text not in self._checked:
            check_rules(pictures)
            self._checked.add(text)
        return text

    def _kept(self) -> object:
        """What undoes the batches."""
        names = sorted(self.rig.raw.keys(keys.undo_key(QUEUE, "*")))
        return [(name, sorted(self.rig.raw.hgetall(name).items())) for name in names]


def _comparable(picture: Any) -> object:
    """What must be the same whoever went first in one millisecond: not how often workers were woken up."""
    zsets = {state: sorted(rows) for state, rows in picture.zsets.items()}
    return sorted(picture.meta.items()), zsets, sorted((k, sorted(v.items())) for k, v in picture.hashes.items())


STEPS: Final[dict[str, Callable[[NativeWorld], Program[Any]]]] = {
    "enqueue a job": lambda w: w.enqueue("new"),
    "enqueue a unique job": lambda w: w.enqueue("new", unique="only"),
    "enqueue a delayed job": lambda w: w.enqueue("new", delay_ms=1000),
    "enqueue a child of a": lambda w: w.enqueue("new-child", after=["a"]),
    "enqueue a child of the running job": lambda w: w.enqueue("new-child", after=["r"]),
    "enqueue a far child": lambda w: w.enqueue("new-far-child", after=[f"p@{OTHER}"]),
    "enqueue a child from the other queue": lambda w: w.enqueue("new-far-child", queue=OTHER, after=[f"a@{QUEUE}"]),
    "enqueue a far child of the running job": lambda w: w.enqueue("r-far-child", queue=OTHER, after=[f"r@{QUEUE}"]),
    "claim one": lambda w: w.poll("w4", free_slots=1),
    "claim many": lambda w: w.poll("w5", free_slots=9),
    "end the running job well": lambda w: w.poll("w1", acks=[(w.running.id, w.running.token)], free_slots=1),
    "fail the running job": lambda w: w.end(w.running, "failed", "w1", delay_ms=100),
    "fail the running job for the last time": lambda w: w.end(w.running, "failed", "w1", delay_ms=-1),
    "return the running job": lambda w: w.end(w.running, "give", "w1"),
    "refuse the task of the running job": lambda w: w.end(w.running, "unknown", "w1"),
    "end the expired job well": lambda w: w.poll("w2", acks=[(w.expired.id, w.expired.token)]),
    "end the job that is to be cancelled": lambda w: w.end(w.asked, "cancelled", "w1"),
    "renew leases": NativeWorld.beat,
    "sweep expired leases": lambda w: programs.call(transitions.reap(QUEUE, now=w.rig.now)),
    "sweep with the crash limit reached": lambda w: programs.call(
        transitions.reap(QUEUE, crash_limit=1, now=w.rig.now)
    ),
    "trim": lambda w: programs.call(transitions.trim(QUEUE, w.rig.now)),
    "pause": lambda w: programs.call(transitions.configure(QUEUE, {"paused": "1"})),
    "keep no done jobs": lambda w: programs.call(transitions.configure(QUEUE, {"done_max": "0", "dead_max": "1"})),
    "deliver the outbox": lambda w: programs.deliver(QUEUE, w.rig.now),
    "deliver the outbox of the other queue": lambda w: programs.deliver(OTHER, w.rig.now),
    "cancel a": lambda w: w.act("cancel", "ready", "a"),
    "cancel the running job": lambda w: w.act("cancel", "running", "r"),
    "requeue the running job": lambda w: w.act("requeue", "running", "r"),
    "bury the running job": lambda w: w.act("bury", "running", "r"),
    "bury a": lambda w: w.act("bury", "ready", "a"),
    "discard a": lambda w: w.act("discard", "ready", "a"),
    "discard the child of a": lambda w: w.act("discard", "blocked", "a-child"),
    "move a": lambda w: w.act("move", "ready", "a", OTHER),
    "move the unique job": lambda w: w.act("move", "ready", "u", OTHER),
    "reprioritise a": lambda w: w.act("reprioritise", "ready", "a", "7"),
    "run the delayed job": lambda w: w.act("run", "delayed", "later"),
    "retry the dead job": lambda w: w.act("retry", "dead", "dead"),
    "discard the dead job": lambda w: w.act("discard", "dead", "dead"),
    "edit the dead job": NativeWorld.edit,
    "cancel a and undo it": lambda w: w.act_and_undo("cancel", "ready", "a"),
    "bury a and undo it": lambda w: w.act_and_undo("bury", "ready", "a"),
    "discard a and undo it": lambda w: w.act_and_undo("discard", "ready", "a"),
    "move a and undo it": lambda w: w.act_and_undo("move", "ready", "a", OTHER),
    "run the delayed job and undo it": lambda w: w.act_and_undo("run", "delayed", "later"),
    "retry the dead job and undo it": lambda w: w.act_and_undo("retry", "dead", "dead"),
    "undo a discard": lambda w: w.undo("discarded"),
    "undo a retry": lambda w: w.undo("retried"),
    "undo a move": lambda w: w.undo("moved"),
}
IN_STAGES: Final = frozenset(
    name for name in STEPS if name.endswith("and undo it") or name == "enqueue a child from the other queue"
)
"""Steps that others may see half done: two decisions of an operator; a child that is announced to its parent's queue,
where the announcement stays for a minute when the parent goes before the child is made.
"""
