"""Values that somebody else wrote into a queue: no step fails, its neighbours go on, the broken job is buried."""

from __future__ import annotations

import itertools
import time
from typing import TYPE_CHECKING, Any, Final

import pytest

from core._engine.harness import LEASE_MS, OTHER, Rig
from qdeck import QdeckError
from qdeck._engine import batch_transitions, codec, keys, programs, transitions
from qdeck._schedules import store
from qdeck.admin import Definition

if TYPE_CHECKING:
    from collections.abc import Iterable

    from qdeck._engine.transitions import ClaimedJob

TEXTS: Final = (
    b"", b" ", b"x", b"-1", b"inf", b"-inf", b"nan", b"1e400", b"1.5", b"0x10", b"\xff\xfe", b"\n", b"\x00",
    b"9" * 30 + b" x",
    b"9" * 400, b"9" * 15, b"9" * 400 + b" " + b"9" * 400 + b" " + b"9" * 400, b"1 2", b"a b c d e f",
    b"[" * 3_000, b"z" * 70_000,
)  # fmt: skip
SCORES: Final = ("inf", "-inf", "-5", "1e300", "0.5", "1e17")
STATES: Final = ("ready", "delayed", "blocked", "running", "dead", "done", "cancelled")
HEADS: Final = tuple(
    b"%s" % raw
    for number in (b"x", b"-1", b"9" * 400, b"", b"1e5", b"9" * 16)
    for raw in (
        b"%s 100 3 send" % number, b"1800000000000 %s 3 send" % number, b"1800000000000 100 %s send" % number,
        b"1800000000000 100 3 send\nl%s" % number, b"1800000000000 100 3 send\nx%s" % number,
        b"1800000000000 100 3 send\nx+%s" % number, b"1800000000000 100 3 send\nfmend\nh%s 3 mend" % number,
        b"1800000000000 100 3 send\nb%s" % number,
    )
)  # fmt: skip
BAD: Final = "bad"


def nightly(queue: str) -> Definition:
    return Definition(
        name="nightly", queue=queue, task="send", cron="0 0 * * *", tz="UTC", missed="all", priority=100,
        template="100 0 send", body=b"[[],{}]",
    )  # fmt: skip


def put_bad(rig: Rig, state: str) -> None:
    """Makes one job in that state, and neighbours that it depends on and that depend on it."""
    rig.add("parent", priority=300)
    options: dict[str, Any] = {"retries": 2, "unique": "name", "on_failure": f"mend {OTHER}"}
    if state == "blocked":
        rig.add(BAD, after=["parent"], **options)
    elif state == "delayed":
        rig.add(BAD, delay_ms=50, **options)
    else:
        rig.add(BAD, priority=0, **options)
    rig.add("child", after=[BAD], run_anyway=True)
    if state in ("running", "dead", "done"):
        [job] = rig.claim(1, "old")
        assert job.id == BAD
        if state == "dead":
            rig.bury(job, worker="old")
        elif state == "done":
            rig.end(job, "done", worker="old", result=b"1", log=b"x")
    elif state == "cancelled":
        rig.change("cancel", BAD)


def work(rig: Rig, worker: str, free_slots: int = 50) -> list[str]:
    """Claims as a worker does, which buries what it cannot read; gives what it could, and acknowledges that."""
    healthy: list[ClaimedJob] = []
    for job in rig.claim(free_slots, worker):
        try:
            codec.read_head(job.head)
            codec.read_attempts(job.attempts)
        except codec.UnreadableRecord as error:
            event = codec.encode_json({"class": "UnreadableRecord", "message": str(error)})
            rig.end(job, "failed", worker=worker, delay_ms=-1, event=event)
        else:
            healthy.append(job)
    if healthy:
        rig.beat(*healthy)
        rig.ack(*healthy, worker=worker)
    return [job.id for job in healthy]


def live(rig: Rig) -> None:
    """Every kind of step, on the broken job and on its neighbours; then every healthy job must be done."""
    batch = itertools.count()
    rig.enqueue(*(rig.job(f"n{number}", retries=1) for number in range(4)))
    rig.add("later", delay_ms=20)
    held = rig.claim(3, "w1")
    rig.beat(*held)
    rig.end(held[0], "failed", delay_ms=0)
    rig.end(held[1], "crashed") if len(held) > 1 else None
    if len(held) > 2:
        rig.end(held[2], "give")
    rig.crash()
    for verb, state in itertools.product(
        ("retry", "cancel", "bury", "requeue", "run", "reprioritise", "discard"), STATES
    ):
        if (verb, state) not in _ALLOWED:
            continue
        name = f"b{next(batch)}"
        seen = rig.raw.zscore(keys.key(rig.queue, state), BAD)
        lease: Any = rig.raw.hget(keys.key(rig.queue, "lease"), BAD) or b"w:1 "
        mark = str(lease.split(b" ")[0], "utf-8", "replace") if state == "running" else repr(seen or 0.0)
        op = batch_transitions.apply_slice(
            rig.queue, verb, state, [(BAD, mark)], batch=name, offset=0, event=b'{"by":"op"}', extra=50, now=rig.now
        )
        for again in range(2):
            rig.call(op)
            rig.call(batch_transitions.undo_slice(rig.queue, name, 1, rig.now)) if again else None
    rig.change("cancel", "nobody", BAD)
    rig.call(transitions.release_dependents(rig.queue, BAD, "done", rig.now))
    rig.call(transitions.resolve_dependent(rig.queue, "child", BAD, "done", rig.now))
    rig.call(transitions.watch_parents(rig.queue, [(BAD, f"far@{OTHER}")], rig.now))
    rig.trim()
    for _ in range(3):
        rig.tick(LEASE_MS * 70)
        rig.reap()
        rig.trim()
        work(rig, "w2")
        rig.run(programs.deliver(rig.queue, rig.now))
    done: Any = rig.raw.zrange(keys.key(rig.queue, "done"), 0, -1)
    assert {b"n0", b"n1", b"n2", b"n3", b"later", b"parent"} <= set(done)
    assert rig.raw.zcard(keys.key(rig.queue, "running")) == 0


_ALLOWED: Final = {
    ("retry", "dead"), ("cancel", "ready"), ("cancel", "delayed"), ("cancel", "running"), ("requeue", "running"),
    ("run", "delayed"), ("reprioritise", "ready"), ("reprioritise", "delayed"), ("bury", "blocked"),
    ("bury", "running"),
}  # fmt: skip


def every(rig: Rig, states: Iterable[str], values: Iterable[Any]) -> Iterable[tuple[str, Any]]:
    """A fresh queue with a job in each state, for each value."""
    for state, value in itertools.product(states, values):
        rig.raw.flushall()
        rig.queues = {rig.queue, OTHER}
        rig.run(programs.make_queue(OTHER))
        put_bad(rig, state)
        yield state, value


def check_ended(rig: Rig, about: object) -> None:
    """The broken job holds nothing up: it has ended, with the reason where it could not be read."""
    for state in ("ready", "delayed", "blocked", "running"):
        assert rig.raw.zscore(keys.key(rig.queue, state), BAD) is None, about


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("part", ["head", "body", "attempts", "error", "result", "log", "lease"])
def test_a_field_of_a_job(loose_rig: Rig, part: str, state: str) -> None:
    rig = loose_rig
    for _, value in every(rig, [state], (*TEXTS, *HEADS) if part == "head" else TEXTS):
        rig.raw.hset(keys.key(rig.queue, part), BAD, value)
        live_and_tell(rig, (part, state, value[:60]))
        check_ended(rig, (part, state, value[:60]))


def live_and_tell(rig: Rig, about: object) -> None:
    try:
        live(rig)
    except (QdeckError, AssertionError) as error:
        raise AssertionError(f"{about}: {error}") from error


@pytest.mark.parametrize("value", [b"9" * 30 + b" x", b"", b"x", b"9" * 400 + b" 0 0"], ids=len)
def test_unreadable_tries_bury_the_job_with_that_reason(loose_rig: Rig, value: bytes) -> None:
    rig = loose_rig
    rig.enqueue(rig.job("a", retries=9), rig.job("b"))
    job, other = rig.claim(2)
    rig.raw.hset(keys.key(rig.queue, "attempts"), "a", value)
    rig.poll(acks=[(other.id, other.token)], endings=[transitions.Ending(kind="failed", id="a", token=job.token)])
    assert rig.sizes() == {"dead": 1, "done": 1}
    last = rig.events("a")[-1].data
    assert last == {"class": "UnreadableRecord", "message": "its attempts cannot be read"}
    [group] = rig.picture().hashes["groups"].values()
    assert group.endswith(b"\nUnreadableRecord\nits attempts cannot be read")


@pytest.mark.parametrize("value", [b"9" * 30 + b" x", b"x"])
def test_an_expired_lease_of_a_job_with_unreadable_tries(loose_rig: Rig, value: bytes) -> None:
    """The sweep goes on for its neighbours."""
    rig = loose_rig
    rig.enqueue(rig.job("a", retries=9), rig.job("b", retries=9))
    rig.claim(2)
    rig.raw.hset(keys.key(rig.queue, "attempts"), "a", value)
    rig.crash()
    assert (rig.state("a"), rig.state("b")) == ("dead", "ready")
    assert rig.attempts("b").crashes == 1


@pytest.mark.parametrize(("side", "state"), [("<", "blocked"), *((">", state) for state in STATES)])
def test_who_waits_for_whom(loose_rig: Rig, side: str, state: str) -> None:
    rig = loose_rig
    for _, value in every(rig, [state], (*TEXTS, b"3 child", b"0 child@} child")):
        rig.raw.hset(keys.key(rig.queue, "after"), f"{side}{BAD}", value)
        live_and_tell(rig, (side, state, value[:60]))


def test_a_job_that_waits_for_nothing_is_buried(loose_rig: Rig) -> None:
    rig = loose_rig
    rig.add("parent")
    rig.add("child", after=["parent"])
    rig.raw.hset(keys.key(rig.queue, "after"), "<child", "")
    rig.work("parent")
    assert rig.state("child") == "dead"
    assert rig.events("child")[-1].data["message"] == "its list of dependencies cannot be read"


@pytest.mark.parametrize("state", STATES)
def test_a_score(loose_rig: Rig, state: str) -> None:
    rig = loose_rig
    for _, score in every(rig, [state], SCORES):
        rig.raw.zadd(keys.key(rig.queue, state), {BAD: score})
        live_and_tell(rig, (state, score))
        check_ended(rig, (state, score))


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("job_id", [b"", b"\xff\xfe", b"a b", b"a\nb", b"x" * 70_000], ids=repr)
def test_an_id_without_a_record(loose_rig: Rig, state: str, job_id: bytes) -> None:
    rig = loose_rig
    for _, score in every(rig, [state], ("inf", "-inf", "1800000000000")):
        rig.raw.zadd(keys.key(rig.queue, state), {job_id: score})
        live_and_tell(rig, (state, score, job_id))
        assert rig.raw.hget(keys.key(rig.queue, "head"), "") is not None, "the padding stays"


SETTINGS: Final = (
    "limit", "rate", "tat", "done_ttl", "done_max", "dead_ttl", "dead_max", "cancelled_ttl", "cancelled_max", "outage",
    "lease_cursor", "claims_cursor", "deadline_offset", "next_solo", "ready", "delayed", "running", "dead_letter",
    "n:enqueued", "n:done", "n:failed", "n:retried",
    "n:dead", "n:crashed", "n:refused", "n:missing", "n:discarded", "n:cancelled", "n:expired", "n:dropped_done",
    "versions",
)  # fmt: skip


@pytest.mark.parametrize("name", SETTINGS)
def test_a_field_of_meta(loose_rig: Rig, name: str) -> None:
    rig = loose_rig
    pairs = (b"9" * 400 + b" 1", b"1 0", b"0 1", b"0 0", b"9223372036854775807") if name in ("rate", "tat") else ()
    for _, value in every(rig, ["running"], (*TEXTS, *pairs, b"9223372036854775807")):
        if (name, value) in (("limit", b"9" * 15), ("rate", b"1 2")):
            continue  # a number like any other
        rig.raw.hset(keys.key(rig.queue, "meta"), name, value)
        live_and_tell(rig, (name, value[:60]))


def test_a_group_of_dead_letters(loose_rig: Rig) -> None:
    rig = loose_rig
    for _, value in every(rig, ["dead"], (*TEXTS, b"9" * 400 + b" 1 2 x\ny\nz", b"1 2 3\n\n")):
        for digest in rig.raw.hkeys(keys.key(rig.queue, "groups")):
            rig.raw.hset(keys.key(rig.queue, "groups"), digest, value)
        live_and_tell(rig, value[:60])


def test_the_holder_of_a_name_and_the_last_turn_of_a_worker(loose_rig: Rig) -> None:
    rig = loose_rig
    for _, value in every(rig, ["ready"], (*TEXTS, b"1\n" + b"a " * 9_000 + b"\n" + b"b " * 9_000 + b"\n1")):
        rig.raw.hset(keys.key(rig.queue, "unique"), "name", value)
        for worker in ("w1", "w2"):
            rig.raw.hset(keys.key(rig.queue, "claims"), worker, value)
        rig.add("again", unique="name")
        live_and_tell(rig, value[:60])


def test_what_is_kept_for_undo(loose_rig: Rig) -> None:
    """A batch that cannot be read is refused, before anything is changed."""
    rig = loose_rig
    for _, value in every(rig, ["dead"], TEXTS):
        score = repr(rig.raw.zscore(keys.key(rig.queue, "dead"), BAD))
        op = batch_transitions.apply_slice(
            rig.queue, "retry", "dead", [(BAD, score)], batch="b", offset=0, event=b"{}", now=rig.now
        )
        rig.call(op)
        rig.raw.hset(keys.undo_key(rig.queue, "b"), "0", value)
        before = rig.picture()
        steps: list[transitions.Transition[Any]] = [op, batch_transitions.undo_slice(rig.queue, "b", 1, rig.now)]
        for step in steps:
            with pytest.raises(QdeckError, match=r"cannot be read|no longer kept"):
                rig.call(step)
        assert rig.picture() == before
        rig.raw.delete(keys.undo_key(rig.queue, "b"))
        rig.raw.hset(
            keys.undo_key(rig.queue, "b"), mapping={"bytes": value, "slices": value, "died": value, "continued": value}
        )
        live_and_tell(rig, value[:60])


def test_the_mark_of_a_schedule(loose_rig: Rig) -> None:
    rig = loose_rig
    for _, value in every(rig, ["ready"], TEXTS):
        rig.raw.hset(keys.key(rig.queue, "last_run"), "nightly", value)
        if value != b"9" * 15:  # a moment like any other
            reply = int(time.time()) - 5
            ticked = rig.run(store.tick(nightly(rig.queue), 0, [reply], reply))
            assert len(ticked.made) == 1, value[:60]
        live_and_tell(rig, value[:60])
