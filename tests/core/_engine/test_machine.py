"""Engine and model side by side: after every step both must show the same, to the last byte."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from core._engine.harness import OTHER, QUEUE, START_MS
from core._engine.model import Model
from core._engine.model_jobs import Entry, Late, Refused, Spec
from core._engine.picture import Picture, check_rules, take_picture
from qdeck import UnknownDependency
from qdeck._engine import codec, keys, programs, scripts, transitions
from qdeck._redis import Endpoint, SyncClient, errors
from support.programs import answer, feed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import redis

    from qdeck._engine.transitions import Ending, Transition
    from qdeck.admin import NewJob

QUEUES: Final = (QUEUE, OTHER)
WORKERS: Final = 3
LEASE_MS: Final = 1_000
EVENT: Final = b'{"class":"Boom"}'

queues = st.sampled_from(QUEUES)
workers = st.integers(0, WORKERS - 1)
picks = st.integers(0, 1_000)
endings = st.sampled_from(
    (
        "ack",
        "ack",
        "ack",
        "keep",
        "done",
        "retry",
        "retry later",
        "bury",
        "timeout",
        "crashed",
        "give",
        "cancelled",
        "unknown",
    )
)
said_tasks = st.sampled_from(("", "", "", "+send", "-send", "-mend", "+send\n-mend", "-other\n+mend\n+send"))


def new_job(spec: Spec) -> NewJob:
    """The job of the engine for a job of the model."""
    head = codec.JobHead(
        enqueued_ms=0,
        priority=spec.priority,
        retries=spec.retries,
        task=spec.task,
        name=spec.unique or None,
        unique=bool(spec.unique),
        expires_ms=spec.expires_ms,
        expires_after_ms=spec.expires_after_ms,
        lease_ms=spec.lease_ms,
        on_failure=spec.handler,
        run_anyway=spec.anyway,
    )
    return transitions.NewJob(
        id=spec.id,
        priority=spec.priority,
        template=head.template(),
        body=spec.body,
        delay_ms=spec.delay_ms,
        due_ms=spec.due_ms,
        unique=spec.unique,
        after=spec.after,
    )


def make_ending(kind: str, job_id: str, token: str) -> Ending:
    """What a worker says of a run, for a word of the rules."""
    kinds: dict[str, dict[str, Any]] = {
        "done": {"kind": "done", "log": b"\xff said", "result": b"42", "keep_ms": 7_200_000},
        "retry": {"kind": "failed", "delay_ms": 0, "event": EVENT},
        "retry later": {"kind": "failed", "delay_ms": 100, "event": EVENT, "log": b"tried"},
        "bury": {"kind": "failed", "delay_ms": -1, "event": EVENT},
        "timeout": {"kind": "timeout", "delay_ms": 5, "event": EVENT},
        "cancelled": {"kind": "cancelled", "event": b'{"by":"me"}'},
    }
    return transitions.Ending(id=job_id, token=token, **kinds.get(kind, {"kind": kind, "event": EVENT}))


def differences(mine: Picture, real: Picture) -> str:
    """Where two pictures differ, in a few lines."""
    lines = []
    for name in (f.name for f in fields(Picture)):
        a, b = getattr(mine, name), getattr(real, name)
        if not isinstance(a, dict):
            a, b = {"": a}, {"": b}
        different = [key for key in sorted(a.keys() | b.keys()) if a.get(key) != b.get(key)]
        lines += [f"  {name}.{key}: model {a.get(key)!r}, server {b.get(key)!r}" for key in different]
    return "\n".join(lines)


def without_zeros(picture: Picture) -> Picture:
    """A count that was never written means none."""
    numbers = {*keys.PARTS, "dead_letter"}
    picture.meta = {
        name: text for name, text in picture.meta.items() if text != "0" or not (name in numbers or name[:2] == "n:")
    }
    return picture


def deliver(models: dict[str, Model], queue: str, now: int) -> Iterator[None]:
    """Delivers an outbox; stops after every exchange with a server, as the real one may be cut off there."""
    here = models[queue]
    at, page = 0, 16
    while at < 100:
        entries = here.outbox[:page]
        yield
        taken_in: list[tuple[Model, Entry]] = []
        for entry in entries:
            yield from _effect(models, queue, entry, now)
            here.outbox = [other_entry for other_entry in here.outbox if other_entry is not entry]
            yield
            if entry["k"] == "job":
                taken_in.append((models[str(entry["q"])], entry))
        if taken_in:
            for model, entry in taken_in:
                model.confirm(now, entry)
            yield
        at += len(entries)
        if len(entries) < page:
            return
        page = min(page * 4, 100 - at)


def _effect(models: dict[str, Model], queue: str, entry: Entry, now: int) -> Iterator[None]:
    word = {name: value for name, value in entry.items() if isinstance(value, str)}
    if word["k"] == "resolve":
        models[word["q"]].resolve(now, word["i"], word["r"], word["o"])
        yield
    elif word["k"] == "job":
        _, retries, task = word["t"].partition("\n")[0].split(" ")
        body = entry["b"]
        assert isinstance(body, bytes)
        origin = word["t"].partition("\no")[2]
        spec = Spec(id=word["i"], priority=int(word["p"]), retries=int(retries), task=task, origin=origin, body=body)
        models[word["q"]].accept(now, spec, entry)
        yield
    elif word["k"] == "watch":
        parent, _, other = word["r"].partition("@")
        outcome = models[other].watch(now, parent, f"{word['i']}@{queue}")
        yield
        if outcome != "live":
            models[queue].resolve(now, word["i"], word["r"], outcome)
            yield


class Machine(RuleBasedStateMachine):
    """Producers, three workers, operators, sweepers and time, on two queues that know of each other."""

    raw: ClassVar[redis.Redis]
    client: ClassVar[SyncClient]

    @initialize()
    def begin(self) -> None:
        self.raw.flushall(asynchronous=False)
        for name in scripts.NAMES:
            self.raw.script_load(scripts.load(name).source)
        self.now = START_MS
        self.models = {queue: Model(queue) for queue in QUEUES}
        for queue in QUEUES:
            self.client.run(programs.make_queue(queue))
        self.count = 0
        self.number = 0
        self.generation = [0] * WORKERS
        # What each worker believes to hold: queue → id → token. It may be wrong.
        self.hands: list[dict[str, dict[str, str]]] = [{queue: {} for queue in QUEUES} for _ in range(WORKERS)]
        self.turns: dict[tuple[int, str], list[dict[str, Any]]] = {}
        self.attempts: dict[str, int] = {}
        self.announced: list[tuple[str, list[Spec], int]] = []  # what producers announced and did not enqueue yet
        self.asleep: set[str] = set()  # queues where somebody took the wake-up token and died

    # how steps are taken

    def call(self, op: Transition[Any], *, twice: bool = False) -> Any:
        first = self.client.run(programs.call(op))
        if twice:
            self.second = self.client.run(programs.call(op))
        return first

    def name(self, worker: int) -> str:
        return f"w{worker}g{self.generation[worker]}"

    def pick(self, queue: str, index: int, *states: str) -> str:
        """Some job of the queue, or one that never was."""
        model = self.models[queue]
        found = sorted(model.of_state(*states) if states else model.jobs)
        return found[index % len(found)] if found else "nobody"

    def next_id(self, index: int) -> str:
        self.count += 1
        return f"{'abc'[index % 3]}{self.count}"

    def enqueue(self, queue: str, specs: Sequence[Spec], *, twice: bool, announced_ms: int = 0) -> None:
        op = transitions.enqueue(queue, [new_job(spec) for spec in specs], self.now, announced_ms)
        try:
            answers = self.models[queue].enqueue(self.now, specs, announced_ms)
        except Late:
            if op.script.name == "enqueue_linked":
                with pytest.raises(errors.Late):
                    self.call(op)
                return
            answers = self.models[queue].enqueue(self.now, specs)
        except Refused as refused:
            with pytest.raises(UnknownDependency, match=repr(refused.args[0])):
                self.call(op)
            return
        made = self.call(op, twice=twice)
        assert [one.id for one in made] == answers
        if twice:
            self.models[queue].enqueue(self.now, specs)
            assert [one.id for one in self.second] == answers

    # producers

    @rule(
        queue=queues, count=st.integers(1, 4), index=picks, priority=st.sampled_from((0, 50, 100)), twice=st.booleans()
    )
    def enqueue_plain(self, queue: str, count: int, index: int, priority: int, twice: bool) -> None:
        specs = [Spec(id=self.next_id(index + i), priority=priority, retries=index % 3) for i in range(count)]
        self.enqueue(queue, specs, twice=twice)

    @rule(queue=queues, twice=st.booleans(), data=st.data())
    def enqueue_full(self, queue: str, twice: bool, data: st.DataObject) -> None:
        self.enqueue(queue, self.draw_specs(queue, data), twice=twice)

    def draw_specs(self, queue: str, data: st.DataObject) -> list[Spec]:
        specs: list[Spec] = []
        index = data.draw(picks, label="index")
        for i in range(data.draw(st.sampled_from((2, 3, 4, 1)), label="jobs")):
            after = []
            for ref in data.draw(st.lists(picks, max_size=2), label="after"):
                if ref % 3 == 2:
                    far = OTHER if queue == QUEUE else QUEUE
                    after.append(f"{self.pick(far, ref)}@{far}")
                else:
                    after.append(specs[-1].id if ref % 3 and specs else self.pick(queue, ref))
            specs.append(
                Spec(
                    id=self.next_id(index + i),
                    priority=data.draw(st.sampled_from((0, 50, 100, 200))),
                    retries=index % 3,
                    delay_ms=data.draw(st.sampled_from((None, None, 0, 10, 5_000))),
                    due_ms=data.draw(st.sampled_from((None, None, self.now - 5, self.now + 50))),
                    unique=data.draw(st.sampled_from(("", "", "red", "blue"))),
                    after=tuple(after),
                    expires_ms=data.draw(st.sampled_from((None, None, self.now + 100))),
                    expires_after_ms=data.draw(st.sampled_from((None, None, 70))),
                    lease_ms=data.draw(st.sampled_from((None, None, 4_000))),
                    handler=data.draw(st.sampled_from((None, None, "mend", f"mend {OTHER}", f"mend {QUEUE}"))),
                    anyway=data.draw(st.booleans()),
                )
            )
        return specs

    @rule(queue=queues, data=st.data())
    def announce(self, queue: str, data: st.DataObject) -> None:
        """A producer tells other queues who waits for their jobs; it may enqueue these later, or never."""
        specs = []
        for spec in self.draw_specs(queue, data):
            after = []
            for ref in spec.after:
                parent, _, far = ref.partition("@")
                outcome = (
                    self.call(transitions.watch_parents(far, [(parent, f"{spec.id}@{queue}")], self.now))[0]
                    if far
                    else ""
                )
                if far:
                    assert outcome == self.models[far].watch(self.now, parent, f"{spec.id}@{queue}")
                after.append(f"{ref}!{outcome}" if far else ref)
            specs.append(replace(spec, after=tuple(after)))
        self.announced.append((queue, specs, self.now))

    @rule(index=picks, twice=st.booleans())
    def enqueue_announced(self, index: int, twice: bool) -> None:
        if self.announced:
            queue, specs, at = self.announced.pop(index % len(self.announced))
            self.enqueue(queue, specs, twice=twice, announced_ms=at)

    @rule(queue=queues, index=picks, plain=st.booleans())
    def enqueue_again(self, queue: str, index: int, plain: bool) -> None:
        """A call that was sent again long after, or with an id that is taken."""
        after = () if plain else ("long-gone",)
        removed = sorted(self.models[queue].removed)
        known = removed[index % len(removed)] if index % 2 and removed else self.pick(queue, index)
        if known == "nobody":
            return
        self.enqueue(queue, [Spec(id=known, after=after)], twice=False)

    # workers

    # Rules are drawn evenly: what happens most of the time stands there more than once.
    @rule(queue=queues, data=st.data(), count=st.integers(3, 5))
    def work_hard(self, queue: str, data: st.DataObject, count: int) -> None:
        self.work(queue, data, count)

    @rule(queue=queues, data=st.data(), count=st.integers(2, 5))
    def work_on(self, queue: str, data: st.DataObject, count: int) -> None:
        self.work(queue, data, count)

    @rule(queue=queues, data=st.data(), count=st.integers(1, 4))
    def work(self, queue: str, data: st.DataObject, count: int) -> None:
        """Several turns, as workers take them most of the time; on a queue that has work."""
        if not self.models[queue].of_state("ready", "running"):
            self.enqueue(queue, self.draw_specs(queue, data), twice=False)
        for _ in range(count):
            self.poll(
                data.draw(workers, label="worker"),
                queue,
                data.draw(st.sampled_from((5, 5, 2, 1, 0)), label="room"),
                data.draw(st.booleans(), label="woken"),
                data.draw(st.booleans(), label="twice"),
                data,
            )
            self.same_as_the_model()

    def poll(self, worker: int, queue: str, free_slots: int, woken: bool, twice: bool, data: st.DataObject) -> None:
        hand = self.hands[worker][queue]
        acks, ends = [], []
        for job_id in sorted(hand):
            kind = data.draw(endings, label=job_id)
            if kind == "keep":
                continue
            token = hand.pop(job_id)
            if kind == "ack":
                acks.append((job_id, token))
            else:
                ends.append(make_ending(kind, job_id, token))
        self.number += 1
        if woken:
            self.raw.rpop(keys.key(queue, "wakeup"))
            self.models[queue].wakeups = max(0, self.models[queue].wakeups - 1)
        said = {
            "number": self.number,
            "free_slots": free_slots,
            "lease_ms": LEASE_MS,
            "acks": acks,
            "endings": ends,
            "crash_limit": 3,
            "tasks": data.draw(said_tasks, label="tasks"),
        }
        self.turns.setdefault((worker, queue), []).append(said)
        self.take_turn(worker, queue, said)
        if twice:
            self.take_turn(worker, queue, said)
        self.asleep.discard(queue)

    @rule(worker=workers, queue=queues, back=st.sampled_from((1, 1, 2, 3)))
    def turn_sent_again(self, worker: int, queue: str, back: int) -> None:
        """The network delivers a worker's last call, or one before it, once more and much later."""
        said = self.turns.get((worker, queue), [])
        if len(said) >= back:
            self.take_turn(worker, queue, said[-back])

    def take_turn(self, worker: int, queue: str, said: dict[str, Any]) -> None:
        name = self.name(worker)
        expected = self.models[queue].poll(self.now, name, **said)
        real = self.call(transitions.poll(queue, name, now=self.now, **said))
        assert [job.id for job in real.jobs] == expected.jobs
        assert real.refused == expected.stale
        assert real.wait_ms == expected.wait_ms
        for job in real.jobs:
            model_job = self.models[queue].jobs[job.id]
            assert (job.head, job.body) == (model_job.head, model_job.spec.body)
            assert codec.read_attempts(job.attempts or None) == codec.Attempts(*(model_job.attempts or ()))
            self.hands[worker][queue][job.id] = job.token

    @rule(worker=workers, queue=queues, twice=st.booleans(), heeds=st.booleans())
    def beat(self, worker: int, queue: str, twice: bool, heeds: bool) -> None:
        hand = self.hands[worker][queue]
        held = sorted(hand.items())
        real = self.call(transitions.renew_leases(queue, held, self.now), twice=twice)
        assert (real.lost, real.cancels) == self.models[queue].beat(self.now, held)
        if heeds:
            for job_id in real.lost:
                del hand[job_id]

    def crash(self, worker: int) -> None:
        """A worker dies and another takes its place, which knows nothing."""
        self.generation[worker] += 1
        self.hands[worker] = {queue: {} for queue in QUEUES}
        for queue in QUEUES:
            self.turns.pop((worker, queue), None)

    @rule(queue=queues)
    def swallow_ring(self, queue: str) -> None:
        """A worker takes the wake-up token and dies before it claims."""
        self.raw.rpop(keys.key(queue, "wakeup"))
        self.models[queue].wakeups = max(0, self.models[queue].wakeups - 1)
        self.asleep.add(queue)

    # sweepers, operators, time

    @rule(queue=queues, most=st.sampled_from((1, 3, 200)), times=st.integers(1, 2))
    def reap(self, queue: str, most: int, times: int) -> None:
        for _ in range(times):
            expected = self.models[queue].reap(self.now, most, 2, 2)
            real = self.call(transitions.reap(queue, most, 2, 2, self.now))
            assert (real.warned, real.requeued, real.buried) == expected

    @rule(queue=queues, verb=st.sampled_from(("cancel", "discard", "run", "reprioritise")), index=picks,
          seen=st.sampled_from(("", "", "ready", "blocked", "dead")), twice=st.booleans())  # fmt: skip
    def change(self, queue: str, verb: str, index: int, seen: str, twice: bool) -> None:
        job_id = self.pick(queue, index)
        priority = (0, 70, 300)[index % 3]
        event = b'{"by":"op"}'
        op = transitions.change_jobs(queue, verb, [(job_id, seen)], event=event, priority=priority, now=self.now)
        for _ in range(1 + twice):
            expected = self.models[queue].change(self.now, verb, job_id, seen, priority, event.decode())
            assert self.call(op) == [expected]

    @rule(queue=queues, setting=st.sampled_from((
        ("paused", ""), ("paused", ""), ("paused", "1"), ("limit", "2"), ("limit", ""), ("rate", "3 1000"),
        ("rate", "7 90"), ("rate", ""), ("done_max", "2"), ("done_ttl", "1000"), ("dead_max", "1"),
        ("dead_ttl", "1000"),        ("cancelled_max", "1"))))  # fmt: skip
    def configure(self, queue: str, setting: tuple[str, str]) -> None:
        self.call(transitions.configure(queue, dict([setting])))
        self.models[queue].configure(*setting)

    def trim(self, queue: str) -> None:
        assert self.call(transitions.trim(queue, self.now)) == self.models[queue].trim(self.now)

    @rule(queue=queues, twice=st.booleans(), stop_after=st.sampled_from((None, None, 1, 2, 3, 4, 5)))
    def deliver(self, queue: str, twice: bool, stop_after: int | None) -> None:
        """An outbox is delivered, by someone who may die at any moment of it, or send each step twice."""
        program = programs.deliver(queue, self.now)
        model = deliver(self.models, queue, self.now)
        taken = 0
        try:
            item = next(program)
            while True:
                reply = answer(self.client, item)
                next(model)
                taken += 1
                if taken == stop_after:
                    return
                item = feed(program, reply)
        except StopIteration:
            pass
        if twice:
            self.client.run(programs.deliver(queue, self.now))
            for _ in deliver(self.models, queue, self.now):
                pass

    @rule(ms=st.sampled_from((0, 1, 1, 7, 60, 501, 1_001, 5_000)))
    def wait(self, ms: int) -> None:
        self.now += ms

    @rule(queue=queues, dying=st.sets(workers, min_size=1), most=st.sampled_from((1, 3, 200)), late=st.booleans(),
          twice=st.booleans())  # fmt: skip
    def disaster(self, queue: str, dying: set[int], most: int, late: bool, twice: bool) -> None:
        """Workers die, or the whole machine stands still for a while; then leases run out."""
        for worker in dying:
            if not late:
                self.crash(worker)
        for ms in (LEASE_MS + 1, LEASE_MS // 2 + 1):
            self.now += ms
            for worker in set(range(WORKERS)) - dying:
                self.beat(worker, queue, twice, True)
            self.reap(queue, most, 2)
            self.same_as_the_model()

    @rule(ms=st.sampled_from((61_000, 4_000_000, 90_000_000, 700_000_000)))
    def age(self, ms: int) -> None:
        """Much time passes and the sweeper comes by."""
        self.now += ms
        for queue in QUEUES:
            self.trim(queue)

    # what must hold

    @invariant()
    def same_as_the_model(self) -> None:
        real = {queue: take_picture(self.raw, queue) for queue in QUEUES}
        check_rules(real)
        for queue in QUEUES:
            mine = without_zeros(self.models[queue].picture())
            seen = without_zeros(real[queue])
            assert mine == seen, f"{queue}:\n{differences(mine, seen)}"
            for job_id, raw in seen.hashes["attempts"].items():
                attempts = codec.read_attempts(raw).failed
                assert attempts >= self.attempts.get(job_id, 0)
                self.attempts[job_id] = attempts
            # A waiting job is never overlooked: somebody will be woken for it.
            held_back = {"paused", "limit", "rate"} & seen.meta.keys()
            awake = queue not in self.asleep and not held_back
            assert seen.wakeups or not (awake and seen.zsets["ready"]), f"{queue}: work, and no ring"


def run_machine(url: str, raw: redis.Redis, *, examples: int, steps: int) -> None:
    saves = raw.config_get("save")["save"]
    raw.config_set("save", "")  # with snapshots on, FLUSHALL writes one
    client = SyncClient(Endpoint(url))
    kind = type("BoundMachine", (Machine,), {"raw": raw, "client": client})
    try:
        run_state_machine_as_test(
            kind,
            settings=settings(
                max_examples=examples,
                stateful_step_count=steps,
                deadline=None,
                database=None,
                print_blob=False,
                suppress_health_check=list(HealthCheck),
            ),
        )
    finally:
        client.close()
        raw.config_set("save", saves or "")


def test_engine_and_model_agree(url: str, raw: redis.Redis) -> None:
    run_machine(url, raw, examples=50, steps=50)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_engine_and_model_agree_for_long(url: str, raw: redis.Redis) -> None:
    run_machine(url, raw, examples=1_000, steps=80)
