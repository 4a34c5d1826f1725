"""What was submitted, what ran, who was killed; and the proof that nothing was lost and nothing ran twice."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from chaos.jobs import NOTES, QUEUE
from core._engine.picture import LIVE, Picture, check_rules, take_picture
from qdeck._engine import codec, transitions
from support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterable

    import redis

    from qdeck import Job

ANY: Final = ("done", "dead", "cancelled")


class Note(NamedTuple):
    """One line of the notebook; `at` rises from note to note and is the time in ms of the notebook's server."""

    at: int
    kind: str
    id: str
    worker: str
    pid: int
    attempt: int
    word: str


def read_notes(notebook: redis.Redis) -> list[Note]:
    """All notes, in the order of their writing."""
    entries: Any = notebook.xrange(NOTES)  # its type allows for text as well
    notes = []
    for stamp, fields in entries:
        text = {name.decode(): value.decode() for name, value in fields.items()}
        at, pid, attempt = int(stamp.split(b"-")[0]), int(text["pid"]), int(text["attempt"])
        notes.append(Note(at, text["kind"], text["id"], text["worker"], pid, attempt, text["word"]))
    return notes


@dataclass(slots=True)
class Tale:
    """What the notes tell about the runs of all jobs."""

    runs: int = 0
    reruns: int = 0
    double: list[str] = field(default_factory=list)  # ran again though the run before was a living worker's
    at_once: list[str] = field(default_factory=list)  # two runs of living workers at the same time


@dataclass(slots=True)
class Ledger:
    """The books of one test."""

    raw: redis.Redis
    notebook: redis.Redis
    submitted: dict[str, str] = field(default_factory=dict)  # id → the state it must end in
    killed: set[int] = field(default_factory=set)

    def add(self, jobs: Iterable[Job], end: str = "done") -> None:
        """Enters jobs that have to end so."""
        for job in jobs:
            assert job.id not in self.submitted
            self.submitted[job.id] = end

    def picture(self) -> Picture:
        """What is written on the server now."""
        return take_picture(self.raw, QUEUE)

    def is_done(self, job_id: str) -> bool:
        """Whether a job ended well."""
        return any(done == job_id for done, _ in self.picture().zsets["done"])

    def drain(self, timeout_s: float = 60.0) -> Picture:
        """Waits until no job of the queue is under way."""
        seen = {}

        def is_drained() -> bool:
            picture = self.picture()
            seen["it"] = picture
            return not any(picture.zsets[state] for state in LIVE) and not picture.outbox

        wait_until(is_drained, timeout_s, lambda: _sizes(seen["it"]))
        return seen["it"]

    def check(self, *, exact_ends: bool = True) -> Tale:
        """Every job in exactly one state, the one it must be in; none lost, none too many; reruns only after a kill."""
        picture = self.picture()
        check_rules({QUEUE: picture})
        states = picture.states()
        lost = set(self.submitted) - set(states)
        assert not lost, f"{len(lost)} jobs are lost: {sorted(lost)[:5]}"
        extra = set(states) - set(self.submitted)
        assert not extra, f"{len(extra)} jobs that nobody submitted: {sorted(extra)[:5]}"
        wrong = {i: (states[i][0], self._events(picture, i)) for i, end in self.submitted.items() if states[i] != [end]}
        by_chance = _killed_too_often(wrong)
        assert len(by_chance) <= len(self.submitted) / 200, f"{len(by_chance)} jobs were buried as poison pills"
        for job_id in by_chance:
            del wrong[job_id]
        assert not (wrong and exact_ends), f"{len(wrong)} jobs ended otherwise: {dict(list(wrong.items())[:5])}"
        self._check_crashes(picture)
        tale = self.tale()
        assert not tale.double, f"ran again while their worker lived: {tale.double[:5]}"
        assert not tale.at_once, f"ran at the same time under living workers: {tale.at_once[:5]}"
        return tale

    def _events(self, picture: Picture, job_id: str) -> list[str]:
        return [f"{e.kind} {e.data}"[:200] for e in codec.read_events(picture.hashes["error"].get(job_id))]

    def _check_crashes(self, picture: Picture) -> None:
        """A crash is counted only for a worker that was killed, once per job and lease."""
        for job_id, raw in picture.hashes["error"].items():
            crashes = [e for e in codec.read_events(raw) if e.kind in ("crashed", "outage")]
            blamed = [pid_of(str(e.data["worker"])) for e in crashes]
            assert set(blamed) <= self.killed, f"{job_id}: {crashes} though only {self.killed} were killed"
            tries = codec.read_attempts(picture.hashes["attempts"].get(job_id))
            assert tries.crashes + tries.outages == len(crashes), f"{job_id}: {tries}, {crashes}"

    def tale(self) -> Tale:
        """Reads the runs of every job out of the notes."""
        by_job: dict[str, list[Note]] = defaultdict(list)
        for note in read_notes(self.notebook):
            by_job[note.id].append(note)
        tale = Tale()
        for job_id, notes in by_job.items():
            self._read(job_id, notes, tale)
        return tale

    def _read(self, job_id: str, notes: list[Note], tale: Tale) -> None:
        open_runs: set[str] = set()
        before: Note | None = None
        for note in notes:
            if note.kind == "start":
                tale.runs += 1
                if before is not None:
                    tale.reruns += before.kind != "failed"
                    if before.kind != "failed" and before.pid not in self.killed:
                        tale.double.append(job_id)
                if any(pid_of(worker) not in self.killed for worker in open_runs):
                    tale.at_once.append(job_id)
                open_runs.add(note.worker)
                before = note
            elif note.kind in ("end", "failed"):
                open_runs.discard(note.worker)
                before = note


def pid_of(worker: str) -> int:
    """The process that a worker's id names."""
    return int(worker.split(".")[-2])


def _sizes(picture: Picture) -> str:
    counts = {state: len(jobs) for state, jobs in picture.zsets.items() if jobs}
    return f"{counts}, outbox {len(picture.outbox)}, wake-up {picture.wakeups}"


def _killed_too_often(wrong: dict[str, tuple[str, list[str]]]) -> set[str]:
    """Jobs whose workers were killed five times by chance, poison pills by the rule, and those that waited for them."""
    dead = {job_id: events for job_id, (state, events) in wrong.items() if state == "dead"}
    found = {i for i, events in dead.items() if sum(e.startswith("crashed") for e in events) >= transitions.CRASH_LIMIT}
    while more := {
        i
        for i, events in dead.items()
        if i not in found and any(e.startswith("dependency") and any(f in e for f in found) for e in events)
    }:
        found |= more
    return found
