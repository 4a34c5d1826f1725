"""What operators do to jobs, and undo: each only to a job that is as it was left."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from core._engine.harness import OTHER
from core._engine.model_jobs import RESEND_MS
from qdeck import QdeckError
from qdeck._engine import batch_transitions, keys, programs, transitions
from qdeck._engine.codec import BAND

if TYPE_CHECKING:
    from core._engine.harness import Rig
    from qdeck._engine.batch_transitions import UndoneSlice


def die(rig: Rig, job_id: str, **options: Any) -> None:
    rig.add(job_id, **options)
    rig.bury(rig.claim_one())


def undo(rig: Rig, batch: str = "b", number: int | str = 1) -> UndoneSlice:
    return rig.call(batch_transitions.undo_slice(rig.queue, batch, number, rig.now))


@pytest.mark.parametrize("verb", ["retry", "run"])
def test_undo_leaves_a_job_that_ran_since_and_waits_again(rig: Rig, verb: str) -> None:
    if verb == "retry":
        die(rig, "a")
    else:
        rig.add("a", delay_ms=10**6)
    rig.act(verb, "dead" if verb == "retry" else "delayed", "a", batch="b")
    rig.tick(10)
    rig.end(rig.claim_one(), "crashed")
    assert rig.state("a") == "ready"
    assert undo(rig).skipped == [("a", "changed", "")]
    assert rig.state("a") == "ready"


@pytest.mark.parametrize("left", ["its record", "its id"])
def test_undo_of_a_discard_leaves_a_new_job_of_the_same_id(rig: Rig, left: str) -> None:
    rig.configure(done_max="0" if left == "its id" else "9")
    die(rig, "a")
    rig.act("discard", "dead", "a", batch="b")
    rig.tick(RESEND_MS)
    rig.add("a")
    rig.work("a")
    assert undo(rig).skipped == [("a", "already_there", "")]
    assert rig.state("a") == "done"


def test_undo_of_a_retry_leaves_a_name_that_another_job_holds(rig: Rig) -> None:
    die(rig, "a", unique="name")
    rig.act("retry", "dead", "a", batch="b")
    rig.add("b")
    uniq = keys.key(rig.queue, "unique")
    rig.raw.hset(uniq, "name", "b")  # by hand: a name has one holder
    assert undo(rig).restored == 1
    assert rig.raw.hget(uniq, "name") == b"b"
    rig.raw.hdel(uniq, "name")


@pytest.mark.parametrize("spoiled", [{"t": "soon"}, {"t": None}, {"t": 5}, {"n": "one"}, {"n": None}], ids=str)
def test_a_slice_that_cannot_be_read_is_refused_and_nothing_is_undone(rig: Rig, spoiled: dict[str, Any]) -> None:
    die(rig, "a")
    rig.act("retry", "dead", "a", batch="b")
    kept = keys.undo_key(rig.queue, "b")
    offset = rig.raw.hget(kept, "#1") or b""
    slice_ = msgspec.msgpack.decode(rig.raw.hget(kept, offset))  # type: ignore[arg-type] # bytes: this client decodes nothing
    rig.raw.hset(kept, offset, msgspec.msgpack.encode({**slice_, **spoiled}))
    with pytest.raises(QdeckError, match="cannot be read"):
        undo(rig)
    assert rig.state("a") == "ready"
    rig.raw.delete(kept)


def test_undo_of_a_retry_frees_the_name(rig: Rig) -> None:
    die(rig, "a", unique="name")
    rig.act("retry", "dead", "a", batch="b")
    assert undo(rig).restored == 1
    assert rig.add("b", unique="name") == "b"


@pytest.mark.parametrize("left", ["its record", "its id"])
def test_a_job_is_not_moved_where_its_id_is_done(rig: Rig, left: str) -> None:
    rig.configure(done_max="0" if left == "its id" else "9")
    rig.add("a")
    rig.work("a")
    fields = {"s": b"ready", "c": b"5", "h": b"1 100 0 send", "b": b"", "a": b"", "e": b""}
    assert rig.call(batch_transitions.accept_job(rig.queue, "a", fields, "far 1-1", now=rig.now)) == programs.TAKEN
    assert rig.sizes() == {"done": 1}


def move(rig: Rig, *job_ids: str) -> None:
    """Moves jobs out of the queue; their entries wait in its outbox."""
    seen = dict(rig.picture().zsets["ready"])
    pairs = [(job_id, f"{seen[job_id]:.0f}") for job_id in job_ids]
    op = batch_transitions.apply_slice(
        rig.queue, "move", "ready", pairs, batch="b", offset=0, event=b"{}", extra=OTHER, now=rig.now
    )
    assert rig.call(op).skipped == []


def test_a_moved_job_returns_where_its_id_was_taken_meanwhile(rig: Rig) -> None:
    """Its id is taken between the look and the delivery: it is back in its place, as if it had never left."""
    rig.queues.add(OTHER)
    rig.add("a", priority=7)
    rig.add("b")
    before = rig.picture()
    move(rig, "a", "b")
    rig.add("a", queue=OTHER)
    entries: Any = rig.raw.xrange(keys.key(rig.queue, "outbox"))
    rig.deliver()
    [(entry_id, fields)] = [one for one in entries if one[1][b"i"] == b"a"]
    place, job = b"%b %b" % (rig.queue.encode(), entry_id), {name.decode(): value for name, value in fields.items()}
    again = batch_transitions.accept_job(
        OTHER, "a", job, place, now=rig.now
    )  # a deliverer that died before it deleted the entry
    assert rig.call(again) == programs.TAKEN
    assert (
        rig.call(
            batch_transitions.accept_job(rig.queue, "a", job | {"y": b"1"}, place + programs.RETURNED, now=rig.now)
        )
        == 0
    )
    after = rig.picture()
    assert after.zsets["ready"] == [row for row in before.zsets["ready"] if row[0] == "a"]
    assert after.hashes["head"]["a"] == before.hashes["head"]["a"]
    assert {name: count for name, count in after.meta.items() if name.startswith("n:")} == {
        "n:enqueued": "2", "n:moved": "1"
    }  # fmt: skip
    assert rig.sizes(OTHER) == {"ready": 2}
    rig.check()


def test_a_moved_job_whose_id_is_taken_in_both_queues_is_set_aside(rig: Rig) -> None:
    rig.queues.add(OTHER)
    rig.add("a")
    move(rig, "a")
    rig.tick(RESEND_MS)
    rig.add("a", queue=OTHER)
    rig.add("a")
    rig.deliver()
    rows: Any = rig.raw.xrange(keys.key(rig.queue, "quarantine"))
    [[_, kept]] = rows
    assert (kept[b"i"], kept[b"reason"]) == (b"a", f"its id is used in both {rig.queue!r} and {OTHER!r}".encode())
    assert rig.sizes() == rig.sizes(OTHER) == {"ready": 1}


@pytest.mark.parametrize("holds", ["live", "ended", "none"])
def test_a_moved_job_and_the_holder_of_its_unique_name(rig: Rig, holds: str) -> None:
    """The job that holds the name keeps it; the one that comes goes without."""
    if holds != "none":
        rig.add("holder", unique="name")
    if holds == "ended":
        rig.work("holder")
        rig.raw.hset(keys.key(rig.queue, "unique"), "name", "holder")  # should a release ever be missed
    head = b"%d 100 0 send\nnname\nu" % rig.now
    fields = {"s": b"ready", "c": b"5", "h": head, "b": b"[[],{}]", "a": b"", "e": b""}
    assert rig.call(batch_transitions.accept_job(rig.queue, "a", fields, "far 1-1", now=rig.now)) == 1
    held = rig.picture().hashes["unique"]["name"]
    assert (held, rig.head("a").unique) == ((b"holder", False) if holds == "live" else (b"a", True))


def test_a_job_whose_cancellation_was_asked_for_is_not_requeued(rig: Rig) -> None:
    rig.add("a")
    rig.add("b")
    jobs = rig.claim(2)
    rig.change("cancel", "a")
    seen = [(job.id, job.token.strip()) for job in jobs]
    op = batch_transitions.apply_slice(
        rig.queue, "requeue", "running", seen, batch="b", offset=0, event=b"{}", now=rig.now
    )
    assert rig.call(op).skipped == [(0, "already_asked", "")]
    assert (rig.state("a"), rig.state("b")) == ("running", "ready")


def test_dependents_of_a_parent_that_lives_again_are_not_released(rig: Rig) -> None:
    """The rest of a long list is settled by a later call; by then the parent was put back."""
    rig.add("parent", priority=0)
    for at in range(0, 300, 100):
        rig.enqueue(*(rig.job(f"c{n:03d}", after=["parent"]) for n in range(at, at + 100)))
    rig.act("bury", "ready", "parent", batch="b")
    died = rig.sizes()["dead"] - 1
    assert 0 < died < 300
    assert [entry["k"] for entry in rig.picture().outbox] == [b"release"]
    assert undo(rig).restored == 1
    rig.deliver()
    assert rig.sizes() == {"ready": 1, "blocked": 300 - died, "dead": died}
    assert undo(rig, number="died:1").restored == died
    assert rig.sizes() == {"ready": 1, "blocked": 300}


def test_a_requeue_of_a_running_job_refuses_its_worker(rig: Rig) -> None:
    rig.add("a")
    [job] = rig.claim()
    seen = [("a", job.token.strip())]
    op = batch_transitions.apply_slice(
        rig.queue, "requeue", "running", seen, batch="b", offset=0, event=b"{}", now=rig.now
    )
    assert rig.call(op).skipped == []
    assert rig.ack(job).refused == ["a"]
    assert rig.state("a") == "ready"
    assert rig.call(transitions.change_jobs(OTHER, "cancel", [("a", "")], now=rig.now)) == ["gone"]


def test_what_undo_keeps_is_counted_and_expires(rig: Rig) -> None:
    ids = [rig.add() for _ in range(3)]
    for offset, job_id in enumerate(ids):
        seen = [(job_id, str(100 * BAND + rig.now))]
        op = batch_transitions.apply_slice(
            rig.queue, "discard", "ready", seen, batch="b", offset=offset, event=b"{}", keep_ms=50_000, now=rig.now
        )  # fmt: skip
        assert rig.call(op).kept
    kept = keys.undo_key(rig.queue, "b")
    assert 0 < rig.raw.pttl(kept) <= 50_000

    def size() -> int:
        return sum(len(value) for name, value in rig.raw.hgetall(kept).items() if name in (b"0", b"1", b"2"))

    assert int(rig.raw.hget(kept, "bytes") or 0) == size()
    before = size()
    for number in (3, 2, 1):
        assert undo(rig, number=number).restored == 1
        assert int(rig.raw.hget(kept, "bytes") or 0) == size()
    assert size() < before
    assert 0 < rig.raw.pttl(kept) <= 50_000


def died_with(rig: Rig, *parents: str) -> None:
    """A job `kid` that died because the last of its parents did."""
    for parent in parents:
        rig.add(parent)
    rig.add("kid", after=parents)
    rig.bury(rig.claim_one())


def retry(rig: Rig, job_id: str, batch: str = "b", extra: str = "") -> None:
    assert rig.act("retry", "dead", job_id, batch=batch, extra=extra).skipped == []


def test_a_retried_dependent_waits_until_its_parent_has_succeeded(rig: Rig) -> None:
    died_with(rig, "parent")
    before = rig.picture()
    retry(rig, "kid")
    assert (rig.state("parent"), rig.state("kid")) == ("dead", "blocked")
    assert undo(rig).restored == 1
    assert rig.picture() == before
    retry(rig, "kid", "c")
    retry(rig, "parent", "d")
    assert rig.state("kid") == "blocked"
    rig.work("parent")
    assert rig.state("kid") == "ready"


def test_a_retried_dependent_dies_again_with_its_parent(rig: Rig) -> None:
    died_with(rig, "parent")
    retry(rig, "kid")
    retry(rig, "parent", "c")
    rig.bury(rig.claim_one())
    assert (rig.state("parent"), rig.state("kid")) == ("dead", "dead")


def test_a_retried_dependent_waits_for_its_other_parents_as_well(rig: Rig) -> None:
    died_with(rig, "first", "second")
    retry(rig, "kid")
    retry(rig, "first", "c")
    for parent in ("first", "second"):
        assert rig.state("kid") == "blocked"
        rig.work(parent)
    assert rig.state("kid") == "ready"


def test_a_dependent_waits_for_a_parent_that_is_retried_with_it(rig: Rig) -> None:
    died_with(rig, "parent")
    before = rig.picture()
    assert rig.act("retry", "dead", "parent", "kid", batch="b").skipped == []
    assert (rig.state("parent"), rig.state("kid")) == ("ready", "blocked")
    assert undo(rig).restored == 2
    assert rig.picture() == before


def test_a_retry_may_leave_the_parent_out(rig: Rig) -> None:
    died_with(rig, "parent")
    retry(rig, "kid", extra="run")
    assert rig.state("kid") == "ready"


def test_a_dependent_that_ran_and_died_by_itself_does_not_wait(rig: Rig) -> None:
    died_with(rig, "parent")
    retry(rig, "kid", extra="run")
    rig.bury(rig.claim_one())
    assert rig.state("kid") == "dead"
    retry(rig, "kid", "c")
    assert rig.state("kid") == "ready"


@pytest.mark.parametrize("way", ["discard", "trim"])
def test_a_retried_dependent_does_not_wait_for_a_parent_that_is_removed(rig: Rig, way: str) -> None:
    died_with(rig, "parent")
    retry(rig, "kid")
    if way == "discard":
        rig.act("discard", "dead", "parent", batch="c")
    else:
        rig.configure(dead_ttl="1")
        rig.tick(10)
        rig.call(transitions.trim(rig.queue, now=rig.now))
    assert (rig.state("parent"), rig.state("kid")) == ("gone", "dead")
    retry(rig, "kid", "d")
    assert rig.state("kid") == "ready"


@pytest.mark.parametrize("state", ["ready", "delayed", "blocked", "dead"])
def test_a_completed_job_is_done_and_undo_restores_it(rig: Rig, state: str) -> None:
    if state == "dead":
        die(rig, "a", unique="name")
    else:
        rig.add("first", delay_ms=10**6)
        rig.add("a", unique="name", delay_ms=10**6 if state == "delayed" else 0,
                after=["first"] if state == "blocked" else [])  # fmt: skip
        rig.add("kid", after=["a"])
    before = rig.picture()
    assert rig.act("complete", state, "a", batch="b").skipped == []
    assert rig.state("a") == "done"
    assert state == "dead" or rig.state("kid") == "ready"
    assert undo(rig).restored == 1
    if state != "dead":
        undo(rig, "b", "continued:1")
    found = rig.picture()
    assert (found.zsets, found.hashes) == (before.zsets, before.hashes)


def test_a_job_that_runs_is_not_completed(rig: Rig) -> None:
    rig.add("a")
    seen = [("a", rig.claim_one().token.strip())]
    op = batch_transitions.apply_slice(
        rig.queue, "complete", "running", seen, batch="b", offset=0, event=b"{}", now=rig.now
    )
    assert rig.call(op).skipped == [(0, "wrong_state", "running")]
