"""What a queue should do, in plain Python: no scripts, no sorted sets, no server.

`Model` is one queue. It draws the same `Picture` as the server, so that every step can be compared to the last byte.
"""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from core._engine.model_jobs import (
    BAND,
    BOOM,
    LOST,
    RESEND_MS,
    UNDELETED_MS,
    Answer,
    Entry,
    Group,
    Job,
    Late,
    Refused,
    Spec,
    join,
    leave,
    renew_newest,
)  # fmt: skip
from core._engine.picture import LIVE, STATES, Picture
from qdeck._engine import keys

if TYPE_CHECKING:
    from collections.abc import Sequence


ENDS = ("done", "dead", "cancelled", "discarded", "unknown")


class Model:
    """One queue."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.now = 0
        self.jobs: dict[str, Job] = {}
        self.kids: dict[str, list[str]] = {}
        self.names: dict[str, str] = {}
        self.groups: dict[str, Group] = {}
        self.outbox: list[Entry] = []
        self.totals: Counter[str] = Counter()
        self.settings: dict[str, str] = {"v": "2"}
        self.tat = ""
        self.outage_until = 0
        self.claims: dict[str, tuple[int, list[str], list[str], int]] = {}
        self.wakeups = 0
        self.versions = 0
        self.removed: dict[str, int] = {}
        self.places: dict[int, tuple[Entry, int]] = {}  # entries of outboxes that were taken in here
        self.refused: dict[str, tuple[int, int]] = {}  # job → slot of its task, and when it is due
        self.tasks: dict[str, tuple[int, int]] = {}  # task that a worker refused → slot, since when

    # looking

    def of_state(self, *states: str) -> list[str]:
        """Ids in these states, in the order of their scores."""
        found = [(job.at, job_id) for job_id, job in self.jobs.items() if job.state in states]
        return [job_id for _, job_id in sorted(found)]

    def picture(self) -> Picture:
        """The same as the server should show."""
        meta = dict(self.settings)
        for state in STATES:
            meta[keys.PARTS[state][0]] = str(len(self.of_state(state)))
        meta |= {f"n:{name}": str(count) for name, count in self.totals.items() if count}
        if self.tat:
            meta["tat"] = self.tat
        if self.versions:
            meta["versions"] = str(self.versions)
        if self.outage_until:
            meta["outage"] = str(self.outage_until)
        if self.refused:
            count = Counter(slot for slot, _ in self.refused.values())
            lines = (f"{slot:03} {at} {count[slot]} {task}" for task, (slot, at) in self.tasks.items())
            meta["unknown_tasks"] = "\n".join(sorted(lines))
        zsets = {state: [(job_id, float(self.jobs[job_id].at)) for job_id in self.of_state(state)] for state in STATES}
        removed = sorted((at, job_id) for job_id, at in self.removed.items())
        zsets["removed"] = [(job_id, float(at)) for at, job_id in removed]
        refused = sorted((slot * BAND + due, job_id) for job_id, (slot, due) in self.refused.items())
        zsets["unknown_tasks"] = [(job_id, float(score)) for score, job_id in refused]
        kept = {job_id: job for job_id, job in self.jobs.items() if job.kept}
        after = {f"<{job_id}": " ".join(job.needs) for job_id, job in kept.items() if job.needs}
        after |= {f">{parent}": "0 " + " ".join(kids) for parent, kids in self.kids.items()}
        claims = {
            worker: f"{number}\n{' '.join(stale)}\n{' '.join(ids)}\n{at}"
            for worker, (number, stale, ids, at) in self.claims.items()
        }
        hashes = {
            "head": {job_id: job.head for job_id, job in kept.items()},
            "body": {job_id: job.spec.body for job_id, job in kept.items()},
            "lease": {job_id: job.lease_text.encode() for job_id, job in kept.items() if job.lease},
            "attempts": {job_id: job.tries_text.encode() for job_id, job in kept.items() if job.attempts or job.group},
            "error": {job_id: "\n".join(job.events).encode() for job_id, job in kept.items() if job.events},
            "result": {job_id: job.result for job_id, job in self.jobs.items() if job.result},
            "log": {job_id: job.log for job_id, job in kept.items() if job.log},
            "groups": {digest: group.text for digest, group in self.groups.items()},
            "unique": {name: holder.encode() for name, holder in self.names.items()},
            "after": {name: text.encode() for name, text in after.items()},
            "claims": {worker: text.encode() for worker, text in claims.items()},
        }
        outbox = [
            {name: value if isinstance(value, bytes) else value.encode() for name, value in entry.items()}
            for entry in self.outbox
        ]
        return Picture(meta, zsets, hashes, outbox, self.wakeups)

    # small steps

    def ring(self) -> None:
        self.wakeups = max(1, self.wakeups)

    def note(self, job: Job, kind: str, json: str) -> None:
        job.events.append(f"{self.now} {kind} {json}")

    def place(self, job: Job, due: float) -> None:
        if due > self.now:
            job.state, job.at = "delayed", due
        else:
            job.state, job.at = "ready", job.priority * BAND + self.now

    def free(self, job_id: str) -> None:
        name = self.jobs[job_id].spec.unique
        if name and self.names.get(name) == job_id:
            del self.names[name]

    def drop(self, job_ids: Sequence[str], counter: str) -> None:
        for job_id in job_ids:
            job = self.jobs.pop(job_id)
            leave(self.groups, job)
            if counter in ("discarded", "dropped_dead") and job.enqueued >= self.now - RESEND_MS:
                self.removed[job_id] = self.now
                self.drop_removed()
        renew_newest(self.groups, self.jobs)
        self.totals[counter] += len(job_ids)

    def was_removed(self, job_id: str) -> bool:
        """Whether an enqueue with this id may be one that is sent again."""
        return self.removed.get(job_id, 0) > self.now - RESEND_MS

    def drop_removed(self) -> int:
        old = [job_id for job_id in self.removed if not self.was_removed(job_id)]
        for job_id in old:
            del self.removed[job_id]
        places = [place for place, (_, at) in self.places.items() if at <= self.now - RESEND_MS]
        for place in places:
            del self.places[place]
        return len(old) + len(places)

    def accept(self, now: int, spec: Spec, entry: Entry) -> None:
        """Takes in a new job from the outbox of another queue."""
        self.now = now
        if id(entry) in self.places:
            return
        self.places[id(entry)] = (entry, now + UNDELETED_MS)
        if spec.id not in self.jobs:
            self.removed.pop(spec.id, None)
            self.make(spec, [])
            self.totals["enqueued"] += 1
            self.ring()

    def confirm(self, now: int, entry: Entry) -> None:
        """The entry was deleted."""
        if id(entry) in self.places:
            self.places[id(entry)] = (entry, now)

    def finish(self, job_id: str, state: str, counter: str, outcome: str, group: str = "") -> None:
        """A job ends badly."""
        job = self.jobs[job_id]
        job.state, job.at, job.needs, job.lease, job.flags = state, self.now, [], "", ""
        self.totals[counter] += 1
        self.free(job_id)
        if outcome == "dead":
            self.call_handler(job_id)
            join(self.groups, job, group)
        self.ended(job_id, outcome)

    def call_handler(self, job_id: str) -> None:
        job = self.jobs[job_id]
        if job.spec.handler is None:
            return
        queue, made = job.handler(self.now)
        if not queue:
            self.jobs[made.id] = Job(made, self.now, made.priority)
            self.place(self.jobs[made.id], self.now)
            self.totals["enqueued"] += 1
            return
        template = f"{made.priority} 3 {made.task}\no{job_id}"
        self.outbox.append(
            {"k": "job", "q": queue, "i": made.id, "p": str(made.priority), "t": template, "b": made.body}
        )

    def ended(self, job_id: str, outcome: str) -> None:
        """Tells those that wait for a job how it ended."""
        for kid in self.kids.pop(job_id, []):
            child, _, queue = kid.partition("@")
            if queue:
                ref = f"{job_id}@{self.name}"
                self.outbox.append({"k": "resolve", "q": queue, "i": child, "r": ref, "o": outcome})
            else:
                self.settle(child, job_id, outcome)

    def settle(self, child: str, ref: str, outcome: str) -> None:
        job = self.jobs.get(child)
        if job is None or ref not in job.needs:
            return
        if outcome != "done" and not job.spec.anyway:
            left = " ".join(need for need in job.needs if need != ref)
            more = f',"left":"{left}"' if left else ""
            self.note(job, "dependency", f'{{"on":"{ref}","outcome":"{outcome}"{more}}}')
            self.finish(child, "dead", "dead", "dead", f"DependencyFailed\njob # is {outcome}")
            return
        job.needs = [need for need in job.needs if need != ref]
        if not job.needs:
            self.place(job, job.at)

    def outcome(self, ref: str) -> str | None:
        job = self.jobs.get(ref)
        return job.state if job and job.state not in LIVE else None

    # the scripts

    def enqueue(self, now: int, specs: Sequence[Spec], announced_ms: int = 0) -> list[str]:
        """Gives the ids of the jobs that are there after it; refuses all when one waits for an unknown job."""
        self.now = now
        if announced_ms and now - announced_ms > RESEND_MS // 2:
            raise Late
        there = {spec.id for spec in specs if spec.id in self.jobs or self.was_removed(spec.id)}
        known = set(self.jobs)
        for spec in specs:
            for ref in spec.after:
                if spec.id not in there and (ref not in known if "@" not in ref else ref.endswith("!unknown")):
                    raise Refused(ref.partition("!")[0])
            known.add(spec.id)
        answers, made, stands_for = [], [], {}
        for spec in specs:
            holder = self.names.get(spec.unique) if spec.unique else None
            if spec.id in self.jobs or spec.id in there:
                answers.append(spec.id)
            elif holder is not None:
                answers.append(holder)
                stands_for[spec.id] = holder
            else:
                answers.append(spec.id)
                made.append(spec.id)
                self.make(spec, [stands_for.get(ref, ref) for ref in spec.after])
        if made:
            self.totals["enqueued"] += len(made)
            first = self.of_state("delayed")[:1]
            if self.of_state("ready") or first in [[job_id] for job_id in made]:
                self.ring()
        return answers

    def make(self, spec: Spec, after: Sequence[str]) -> None:
        job = self.jobs[spec.id] = Job(spec, self.now, spec.priority)
        if spec.unique:
            self.names[spec.unique] = spec.id
        due = self.now + spec.delay_ms if spec.delay_ms is not None else spec.due_ms
        due = self.now if due is None else due
        needs, unannounced = [], set()
        for ref in after:
            ref, _, told = ref.partition("!")
            far = "@" in ref
            if far and told in ("", "live"):
                outcome = next((end for end in ENDS if f"{spec.id} {ref} {end}" in self.removed), None)
                if outcome is None and not told:
                    unannounced.add(ref)
            else:
                outcome = told if far else self.outcome(ref)
            if outcome is None:
                needs.append(ref)
            elif outcome != "done" and not spec.anyway:
                self.note(job, "dependency", f'{{"on":"{ref}","outcome":"{outcome}"}}')
                self.finish(spec.id, "dead", "dead", "dead", f"DependencyFailed\njob # is {outcome}")
                return
        if not needs:
            self.place(job, due)
            return
        job.state, job.at, job.needs = "blocked", due, needs
        for ref in needs:
            if ref in unannounced:
                self.outbox.append({"k": "watch", "r": ref, "i": spec.id})
            elif "@" not in ref:
                self.expect(ref, spec.id)

    def expect(self, parent: str, kid: str) -> None:
        kids = self.kids.setdefault(parent, [])
        if kid not in kids:
            kids.append(kid)

    def poll(
        self,
        now: int,
        worker: str,
        number: int,
        free_slots: int,
        lease_ms: int,
        acks: Sequence[tuple[str, str]] = (),
        endings: Sequence[Any] = (),
        crash_limit: int = 5,
        tasks: str = "",
    ) -> Answer:
        self.now = now
        self.handed_back = 0
        said = [(line[0], line[1:]) for line in tasks.split("\n") if line]
        self.strange = {task for sign, task in said if sign == "-"}
        last = self.claims.get(worker)
        if last is not None and last[0] == number:
            mine = f"{worker}:{number} "
            held = [i for i in last[2] if i in self.jobs and self.jobs[i].lease.startswith(mine)]
            return Answer(list(last[1]), held)
        if last is not None and last[0] > number:
            return Answer([], [])
        stale: list[str] = []
        done: list[str] = []
        for job_id, token in acks:
            (done if self.holds(job_id, token) else stale).append(job_id)
        known_before = bool(self.refused)
        for ending in endings:
            if self.holds(ending.id, ending.token):
                if self.close(ending, crash_limit, worker):
                    done.append(ending.id)
            else:
                stale.append(ending.id)
        self.complete(done)
        self.totals["refused"] += len(stale)
        claimed: list[str] = []
        wait = 0
        if free_slots > 0:
            self.promote()
            if not (known_before or self.handed_back):
                self.strange = set()
            else:
                self.welcome(free_slots, [task for sign, task in said if sign == "+"])
            claimed, wait = self.claim(free_slots, worker, number, lease_ms)
        self.claims[worker] = (number, stale, claimed, now)
        limit = self.settings.get("limit")
        full = limit is not None and len(self.of_state("running")) >= int(limit)
        if self.of_state("ready") and "paused" not in self.settings and not wait and not full:
            self.ring()
        self.sweep()
        if self.handed_back:
            self.wakeups = max(self.wakeups, min(len(self.claims) - 1, 50))
        return Answer(stale, claimed, wait)

    def holds(self, job_id: str, token: str) -> bool:
        return job_id in self.jobs and self.jobs[job_id].lease.startswith(token)

    def close(self, ending: Any, crash_limit: int, worker: str) -> bool:
        """Ends a run; tells whether it ended well."""
        job = self.jobs[ending.id]
        if ending.log:
            job.log = ending.log
        if ending.kind == "done":
            job.result = ending.result or job.result
            if ending.keep_ms > int(self.settings.get("done_ttl", "3600000")):
                self.settings["done_ttl"] = str(ending.keep_ms)
            return True
        asked, score = "c" in job.flags, job.lease.split(" ")[3]
        job.lease, job.flags = "", ""
        attempts, crashes, outages = job.attempts or (0, 0, 0)
        if ending.kind == "cancelled" or asked:
            why = ending.event.decode() if ending.kind == "cancelled" else '{"reason":"requested while it ran"}'
            self.note(job, "cancelled", why)
            self.finish(ending.id, "cancelled", "cancelled", "cancelled")
        elif ending.kind == "crashed":
            self.note(job, "crashed", ending.event.decode())
            self.totals["crashed"] += 1
            job.attempts = (attempts, crashes + 1, outages)
            self.bury_or_place(ending.id, bury=crashes + 1 >= crash_limit, due=self.now, group=BOOM)
        elif ending.kind == "give":
            job.state, job.at = "ready", int(score)
        elif ending.kind == "unknown":
            self.hand_back(ending.id, worker)
        else:
            self.note(job, ending.kind, ending.event.decode())
            self.totals["failed"] += 1
            job.attempts = (attempts + 1, crashes, outages)
            again = ending.delay_ms >= 0 and attempts < job.spec.retries
            self.totals["retried"] += again
            self.bury_or_place(ending.id, bury=not again, due=self.now + ending.delay_ms, group=BOOM)
        return False

    def hand_back(self, job_id: str, worker: str) -> None:
        job = self.jobs[job_id]
        self.handed_back += 1
        at, kind, *_ = [*(job.events[-1] if job.events else "").split(" "), "", ""]
        if kind != "unknown_task":
            self.note(job, "unknown_task", f'{{"worker":"{worker}"}}')
            at = str(self.now)
        job.state, job.at = "delayed", self.now + min(60_000, 5_000 + self.now - int(at))
        if job.spec.task not in self.tasks:
            slot = min(set(range(1, 101)) - {taken for taken, _ in self.tasks.values()})
            self.tasks[job.spec.task] = (slot, self.now)
        self.refused[job_id] = (self.tasks[job.spec.task][0], int(job.at))

    def sweep(self) -> None:
        used = {slot for slot, _ in self.refused.values()}
        self.tasks = {task: one for task, one in self.tasks.items() if one[0] in used}

    def welcome(self, free_slots: int, tasks: Sequence[str]) -> None:
        most, _, _ = self.allowed(free_slots)
        for task in tasks:
            slot = self.tasks.get(task, (0, 0))[0]
            found = sorted((due, job_id) for job_id, (own, due) in self.refused.items() if slot and own == slot)
            for _, job_id in found[: max(0, most)]:
                job = self.jobs[job_id]
                del self.refused[job_id]
                job.state, job.at = "ready", job.priority * BAND + job.enqueued
                most -= 1

    def bury_or_place(self, job_id: str, *, bury: bool, due: int, group: str) -> None:
        if bury:
            self.finish(job_id, "dead", "dead", "dead", group)
        else:
            self.place(self.jobs[job_id], due)

    def complete(self, done: Sequence[str]) -> None:
        if not done:
            return
        for job_id in done:
            job = self.jobs[job_id]
            job.state, job.at, job.lease, job.flags = "done", self.now, "", ""
            self.free(job_id)
        self.totals["done"] += len(done)
        for job_id in done:
            self.ended(job_id, "done")
        most = int(self.settings.get("done_max", "1000"))
        for job_id in self.of_state("done")[::-1][most : most + len(done)]:
            self.jobs[job_id].kept = False
        self.trim_one("done", "done_ttl", 3_600_000, "done_max", 1000, RESEND_MS)

    def promote(self) -> None:
        for job_id in self.of_state("delayed"):
            job = self.jobs[job_id]
            if job.at <= self.now:
                job.state, job.at = "ready", job.priority * BAND + job.at
                self.refused.pop(job_id, None)

    def allowed(self, free_slots: int) -> tuple[int, int, Fraction | None]:
        """How many may start, how long to wait for more, and how long one takes of the rate."""
        most, wait = free_slots, 0
        each: Fraction | None = None
        if "paused" in self.settings:
            return 0, 0, None
        if "limit" in self.settings:
            most = min(most, int(self.settings["limit"]) - len(self.of_state("running")))
        if "rate" in self.settings:
            count, per = map(int, self.settings["rate"].split())
            each = Fraction(per, count)
            used = self.rate_used(count, per)
            left = math.floor((per - (used - self.now)) / each)
            if left < most:
                most, wait = left, math.ceil(used + each * (left + 1) - per - self.now)
        return most, wait, each

    def rate_used(self, count: int, per: int) -> Fraction:
        """The moment up to which the rate is used: at most one period ahead, whatever the clock or the rate was."""
        whole, rest = map(int, (self.tat or "0 0").split())
        if whole > self.now + per:
            self.tat = f"{self.now + per} 0"
            return Fraction(self.now + per)
        return whole + Fraction(min(rest, count), count) if whole >= self.now else Fraction(self.now)

    def claim(self, free_slots: int, worker: str, number: int, lease_ms: int) -> tuple[list[str], int]:
        most, wait, each = self.allowed(free_slots)
        claimed: list[str] = []
        for _ in range(20 if self.strange else 3):
            popped = self.of_state("ready")[: max(0, most - len(claimed))]
            if not popped:
                break
            # Taken out together: a handler or a dependent made meanwhile waits for the next round.
            scores = {job_id: self.jobs[job_id].at for job_id in popped}
            for job_id in popped:
                self.jobs[job_id].state = "popped"
            for job_id in popped:
                job = self.jobs[job_id]
                if job.expires_at is not None and job.expires_at < self.now:
                    self.note(job, "expired", '{"reason":"expired"}')
                    self.finish(job_id, "cancelled", "expired", "cancelled")
                    continue
                if job.spec.task in self.strange:
                    self.hand_back(job_id, worker)
                    continue
                own = job.spec.lease_ms if job.spec.lease_ms is not None else lease_ms
                job.state, job.at = "running", self.now + own
                job.lease = f"{worker}:{number} {self.now} {own} {scores[job_id]:.0f}"
                claimed.append(job_id)
        if each and claimed:
            count, per = map(int, self.settings["rate"].split())
            used = self.rate_used(count, per) + each * len(claimed)
            self.tat = f"{math.floor(used)} {int(used % 1 * count)}"
        return claimed, wait

    def beat(self, now: int, held: Sequence[tuple[str, str]]) -> tuple[list[str], list[str]]:
        self.now = now
        lost, cancels = [], []
        for job_id, token in held:
            if not self.holds(job_id, token):
                lost.append(job_id)
                continue
            job = self.jobs[job_id]
            job.at = now + int(job.lease.split(" ")[2])
            if "?" in job.flags:
                job.flags = job.flags.replace("?", "")
            if "c" in job.flags:
                cancels.append(job_id)
        return lost, cancels

    def reap(self, now: int, most: int, crash_limit: int, outage_limit: int) -> tuple[int, int, int]:
        self.now = now
        running = self.of_state("running")
        overdue = [job_id for job_id in running if self.jobs[job_id].at < now]
        owners = {self.jobs[job_id].owner for job_id in overdue}
        outage = self.outage_until > now
        if overdue and not outage and len(overdue) * 2 >= len(running) and len(owners) > 1:
            outage, self.outage_until = True, now + 10_000
        warned = back = buried = 0
        for job_id in overdue[:most]:
            job = self.jobs[job_id]
            if "?" not in job.flags:
                job.flags += "?"
                job.at = now + int(job.lease.split(" ")[2]) // 2
                warned += 1
            elif "c" in job.flags:
                self.note(job, "cancelled", '{"reason":"requested while it ran"}')
                self.finish(job_id, "cancelled", "cancelled", "cancelled")
                back += 1
            else:
                dead = self.take_back(job_id, outage, crash_limit, outage_limit)
                buried, back = buried + dead, back + (not dead)
        if self.of_state("ready"):
            self.ring()
        return warned, back, buried

    def take_back(self, job_id: str, outage: bool, crash_limit: int, outage_limit: int) -> bool:
        job = self.jobs[job_id]
        owner, (attempts, crashes, outages) = job.owner, job.attempts or (0, 0, 0)
        if outage:
            outages += 1
            self.note(job, "outage", f'{{"worker":"{owner}","outages":{outages}}}')
        else:
            crashes += 1
            self.note(job, "crashed", f'{{"worker":"{owner}","crashes":{crashes}}}')
        job.attempts, job.lease, job.flags = (attempts, crashes, outages), "", ""
        self.totals["crashed"] += 1
        dead = crashes >= crash_limit or outages >= outage_limit
        self.bury_or_place(job_id, bury=dead, due=self.now, group=LOST[outage])
        return dead

    def change(self, now: int, verb: str, job_id: str, seen: str, priority: int, event: str) -> str:
        self.now = now
        answer = self.change_one(verb, job_id, seen, priority, event)
        if self.of_state("ready"):
            self.ring()
        return answer

    def change_one(self, verb: str, job_id: str, seen: str, priority: int, event: str) -> str:
        job = self.jobs.get(job_id)
        if job is None:
            return "gone"
        state = job.state
        if seen and seen != state:
            return f"moved {state}"
        waits = state in ("ready", "delayed", "blocked")
        if state == "delayed" and verb != "reprioritise":
            self.refused.pop(job_id, None)
            self.sweep()
        if verb == "cancel" and state == "running":
            job.flags += "" if "c" in job.flags else "c"
            return "requested"
        if verb == "cancel" and waits:
            self.note(job, "cancelled", event)
            self.finish(job_id, "cancelled", "cancelled", "cancelled")
        elif verb == "discard" and state != "running":
            self.free(job_id)
            job.state, job.needs = "gone", []
            self.ended(job_id, "discarded")
            self.drop([job_id], "discarded")
        elif verb == "run" and state == "delayed":
            self.place(job, now_due := self.now)
            assert job.at == job.priority * BAND + now_due
        elif verb == "reprioritise" and waits:
            job.at += (priority - job.priority) * BAND if state == "ready" else 0
            job.priority = priority
            self.versions += 1
            job.version = self.versions
        else:
            return f"wrong_state {state}"
        return "ok"

    def trim_one(self, state: str, ttl_name: str, ttl: int, max_name: str, most: int, keep: int) -> int:
        ttl = max(int(self.settings.get(ttl_name, str(ttl))), keep)
        most = int(self.settings.get(max_name, str(most)))
        there = self.of_state(state)
        over = len(there) - most
        old = [job_id for job_id in there if self.jobs[job_id].at < self.now - ttl]
        if not old and over > 0:
            old = [job_id for job_id in there if self.jobs[job_id].at <= self.now - keep][:over]
        self.drop(old, f"dropped_{state}")
        return len(old)

    def trim(self, now: int) -> int:
        self.now = now
        n = self.trim_one("dead", "dead_ttl", 604_800_000, "dead_max", 100_000, 0)
        n += self.trim_one("done", "done_ttl", 3_600_000, "done_max", 1000, RESEND_MS)
        n += self.trim_one("cancelled", "cancelled_ttl", 86_400_000, "cancelled_max", 10_000, RESEND_MS)
        n += self.drop_removed()
        for worker in [w for w, claim in self.claims.items() if claim[3] < now - 86_400_000]:
            del self.claims[worker]
        self.refused = {job_id: one for job_id, one in self.refused.items() if one[1] > now - 60_000}
        self.sweep()
        return n

    def configure(self, name: str, value: str) -> None:
        if value:
            self.settings[name] = value
        else:
            self.settings.pop(name, None)
        self.ring()

    def resolve(self, now: int, child: str, ref: str, outcome: str) -> None:
        self.now = now
        if child not in self.jobs and not self.was_removed(child):
            self.removed[f"{child} {ref} {outcome}"] = now
            self.drop_removed()
        self.settle(child, ref, outcome)
        if self.of_state("ready"):
            self.ring()

    def watch(self, now: int, parent: str, kid: str) -> str:
        self.now = now
        answer = (self.outcome(parent) or "live") if parent in self.jobs else "unknown"
        if answer == "live":
            self.expect(parent, kid)
        if self.of_state("ready"):
            self.ring()
        return answer
