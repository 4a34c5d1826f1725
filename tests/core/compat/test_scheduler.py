"""The scheduler's QueueManager: every method of its page, and what went wrong in the original."""

from __future__ import annotations

import threading
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

import qdeck
from qdeck._engine import codec
from qdeck.admin import Code, Reader, Writer
from qdeck.compat.scheduler import TASK, JobPriority, QueueManager
from support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from support.proxy import FaultProxy

KEY = "{scheduler:actions}"
EMPTY = {"priority": 0, "delayed": 0, "processing": 0, "dlq": 0}


@pytest.fixture
def manager(url: str) -> Iterator[QueueManager]:
    made = QueueManager(url)
    yield made
    made.close()


def lease(raw: Any, job_id: str) -> codec.JobLease:
    return codec.read_lease(raw.hget(f"{KEY}:lease", job_id))


def test_a_job_from_end_to_end(manager: QueueManager, raw: Any) -> None:
    assert manager.get_stats() == EMPTY
    assert manager.dequeue() is None
    assert manager.enqueue("3f0c-41", "NORMAL")
    assert manager.get_stats() == EMPTY | {"priority": 1}
    assert manager.dequeue() == "3f0c-41"
    held = lease(raw, "3f0c-41")
    assert (held.worker, held.lease_ms) == ("unassigned", 3_600_000)
    assert manager.get_stats() == EMPTY | {"processing": 1}
    assert manager.mark_processing("3f0c-41", "worker-7")
    assert lease(raw, "3f0c-41").worker == "worker-7"
    assert manager.heartbeat("3f0c-41")
    assert manager.mark_completed("3f0c-41")
    assert manager.get_stats() == EMPTY
    assert not manager.mark_completed("3f0c-41")
    assert not manager.heartbeat("3f0c-41")


def test_priorities_are_strict_and_equals_come_in_order(manager: QueueManager, raw: Any) -> None:
    """Theirs gave CRITICAL a head start of 50 minutes, and in one version of the code a handicap."""
    manager.enqueue("old-low", "LOW")
    score = raw.zscore(f"{KEY}:ready", "old-low")
    raw.zadd(f"{KEY}:ready", {"old-low": score - 86_400_000})  # it waits since yesterday
    for name in ("LOW", "NORMAL", "CRITICAL", "HIGH"):
        for i in (1, 2):
            manager.enqueue(f"{name}-{i}", name)
            time.sleep(0.002)
    found = [manager.dequeue() for _ in range(9)]
    assert found == [
        "CRITICAL-1", "CRITICAL-2", "HIGH-1", "HIGH-2", "NORMAL-1", "NORMAL-2", "old-low", "LOW-1", "LOW-2",
    ]  # fmt: skip
    assert JobPriority.CRITICAL < JobPriority.HIGH < JobPriority.NORMAL < JobPriority.LOW


def test_two_promoters_and_a_consumer_deliver_each_job_once(url: str) -> None:
    """200 jobs become due at once; theirs popped 350."""
    manager = QueueManager(url)
    due = datetime.now(UTC) + timedelta(seconds=2)
    wanted = [f"job:{i}" for i in range(200)]
    for i, job_id in enumerate(wanted):
        manager.enqueue_delayed(job_id, due, ("CRITICAL", "HIGH", "NORMAL", "LOW")[i % 4])
    stats = manager.get_stats()
    assert stats["delayed"] + stats["priority"] == 200  # on a slow machine some are due by now
    got: list[str] = []
    promoted: list[int] = []
    over = threading.Event()

    def promote() -> None:
        mine = QueueManager(url)
        while not over.is_set():
            promoted.append(mine.promote_delayed_jobs())
        mine.close()

    def consume() -> None:
        mine = QueueManager(url)
        while not over.is_set():
            job_id = mine.dequeue()
            if job_id is not None:
                assert mine.mark_processing(job_id, "the-consumer")
                assert mine.mark_completed(job_id)
                got.append(job_id)
        mine.close()

    threads = [threading.Thread(target=target) for target in (promote, promote, consume)]
    for thread in threads:
        thread.start()
    wait_until(lambda: len(got) >= 200, 30)
    time.sleep(0.3)
    over.set()
    for thread in threads:
        thread.join()
    assert Counter(got) == Counter(wanted)
    assert sum(promoted) <= 200
    assert manager.get_stats() == EMPTY
    manager.close()


def test_several_threads_may_share_a_manager(manager: QueueManager) -> None:
    for i in range(120):
        manager.enqueue(f"j{i}")
    got: list[str] = []

    def consume() -> None:
        while (job_id := manager.dequeue()) is not None:
            assert manager.mark_completed(job_id)
            got.append(job_id)
        manager.close()

    threads = [threading.Thread(target=consume) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(got) == sorted(f"j{i}" for i in range(120))


def test_promotion_counts_and_takes_only_what_is_due(manager: QueueManager, raw: Any) -> None:
    due = time.time() + 1.0
    manager.enqueue_delayed("a:b:c", due, "LOW")
    manager.enqueue_delayed("later", time.time() + 60, "HIGH")
    assert manager.promote_delayed_jobs() == 0
    time.sleep(due - time.time() + 0.1)
    assert manager.promote_delayed_jobs() == 1
    assert manager.promote_delayed_jobs() == 0
    assert manager.get_stats() == EMPTY | {"priority": 1, "delayed": 1}


def test_more_than_a_slice_is_promoted(manager: QueueManager, raw: Any) -> None:
    manager.enqueue("first")
    head, body = raw.hget(f"{KEY}:head", "first"), raw.hget(f"{KEY}:body", "first")
    pipe = raw.pipeline()
    for i in range(1200):
        pipe.hset(f"{KEY}:head", f"j{i}", head)
        pipe.hset(f"{KEY}:body", f"j{i}", body)
        pipe.zadd(f"{KEY}:delayed", {f"j{i}": 1000 + i})
    pipe.execute()
    assert manager.promote_delayed_jobs() == 1200
    assert manager.dequeue() == "j0"  # the one that was due first


def test_one_job_is_in_one_place(manager: QueueManager) -> None:
    """Theirs had a job twice when it was delayed twice, and the last that was promoted won."""
    manager.enqueue_delayed("j", time.time() + 60, "HIGH")
    manager.enqueue_delayed("j", time.time() + 90, "LOW")
    assert manager.get_stats() == EMPTY | {"delayed": 1}
    manager.enqueue("j", "CRITICAL")
    assert manager.get_stats() == EMPTY | {"priority": 1}
    manager.enqueue("j", "LOW")
    manager.enqueue("k", "NORMAL")
    assert [manager.dequeue(), manager.dequeue(), manager.dequeue()] == ["k", "j", None]
    assert not manager.enqueue("j", "HIGH")  # it is being processed


def test_a_job_that_ended_may_be_enqueued_again(manager: QueueManager) -> None:
    for _ in range(3):
        assert manager.enqueue("j")
        assert manager.dequeue() == "j"
        assert manager.mark_completed("j")
    manager.move_to_dlq("j", "enough")
    assert manager.enqueue("j")
    assert manager.get_stats() == EMPTY | {"priority": 1}


def test_requeue_is_one_step_with_its_own_priority_and_delay(manager: QueueManager, raw: Any) -> None:
    manager.enqueue("j", "LOW")
    manager.dequeue()
    manager.mark_processing("j", "w")
    assert manager.requeue("j", "CRITICAL", 5000)
    assert manager.get_stats() == EMPTY | {"delayed": 1}
    assert raw.zscore(f"{KEY}:delayed", "j") / 1000 == pytest.approx(time.time() + 5, abs=2)
    assert codec.read_head(raw.hget(f"{KEY}:head", "j")).priority == 0
    assert codec.read_attempts(raw.hget(f"{KEY}:attempts", "j")).failed == 1
    assert manager.requeue("j", "HIGH", 0)
    assert manager.dequeue() == "j"


def test_the_dead_letters_hold_a_job_once_with_its_reason(manager: QueueManager, raw: Any) -> None:
    manager.enqueue("j")
    manager.dequeue()
    assert manager.move_to_dlq("j", "no handler for it")
    assert manager.move_to_dlq("j", "still none")
    assert manager.move_to_dlq("never-seen", "unknown type")
    assert manager.get_stats() == EMPTY | {"dlq": 2}
    events = codec.read_events(raw.hget(f"{KEY}:error", "j"))
    assert [event.data["message"] for event in events] == ["no handler for it", "still none"]


def test_a_worker_that_lost_its_job_cannot_end_it(url: str, manager: QueueManager, raw: Any) -> None:
    """The lease ran out, another worker has the job: nothing that the first one says counts."""
    first, second = QueueManager(url, lease=0.2), manager
    first.enqueue("j")
    assert first.dequeue() == "j"
    assert first.mark_processing("j", "one")

    def taken() -> bool:
        second.promote_delayed_jobs()
        return second.dequeue() == "j"

    wait_until(taken)
    assert second.mark_processing("j", "two")
    assert not first.heartbeat("j")
    assert lease(raw, "j").worker == "two"
    for act in (
        first.mark_completed,
        lambda job: first.move_to_dlq(job, "x"),
        lambda job: first.requeue(job, "LOW", 0),
    ):
        first._tokens["j"] = "one:1 "
        assert not act("j")
    assert manager.get_stats() == EMPTY | {"processing": 1}
    assert second.mark_completed("j")
    first.close()


def test_a_crash_after_dequeue_loses_nothing(url: str, manager: QueueManager) -> None:
    gone = QueueManager(url, lease=0.2)
    gone.enqueue("j")
    assert gone.dequeue() == "j"
    gone.close()

    def requeued() -> bool:
        manager.promote_delayed_jobs()
        return manager.get_stats()["priority"] == 1

    wait_until(requeued)
    assert manager.dequeue() == "j"


def test_another_program_may_end_what_this_one_leased(url: str, manager: QueueManager) -> None:
    manager.enqueue("j")
    manager.dequeue()
    other = QueueManager(url)
    assert other.mark_processing("j", "w")
    assert other.heartbeat("j")
    assert other.mark_completed("j")
    other.close()


@pytest.mark.parametrize("verb", ["enqueue", "dequeue", "mark_processing", "mark_completed", "move_to_dlq", "requeue"])
def test_a_lost_answer_has_the_effect_of_one_call(
    url: str, raw: Any, make_proxy: Callable[[str], FaultProxy], verb: str
) -> None:
    proxy = make_proxy(url)
    manager = QueueManager(proxy.url)
    manager.get_stats()
    calls: dict[str, tuple[tuple[Any, ...], object, dict[str, int]]] = {
        "enqueue": (("j",), True, {"priority": 1}),
        "dequeue": ((), "j", {"processing": 1}),
        "mark_processing": (("j", "w"), True, {"processing": 1}),
        "mark_completed": (("j",), True, {}),
        "move_to_dlq": (("j", "why"), True, {"dlq": 1}),
        "requeue": (("j", "LOW", 0), True, {"priority": 1}),
    }
    args, answer, left = calls[verb]
    # Once without a fault, so that the scripts are known and the lost answer is that of the step itself.
    for lost in (False, True):
        if verb != "enqueue":
            manager.enqueue("j")
        if verb not in ("enqueue", "dequeue"):
            assert manager.dequeue() == "j"
        if lost:
            proxy.drop_next_reply(containing=b"EVALSHA")
        assert getattr(manager, verb)(*args) == answer
        assert manager.get_stats() == EMPTY | left
        assert proxy.hits == int(lost)
        raw.delete(*(key for key in raw.keys(f"{KEY}:*") if not key.endswith(b":meta")))
    manager.close()


def test_a_qdeck_worker_can_serve_the_same_queue(url: str, manager: QueueManager) -> None:
    from support.beside import Beside

    app = qdeck.App(url, queue="scheduler:actions")
    got: list[str] = []
    app.task(name=TASK)(got.append)
    manager.enqueue("a:1", "HIGH")
    with Beside(app):
        wait_until(lambda: got == ["a:1"])
    app.close()


@pytest.mark.parametrize("job_id", ["", "a b", "x" * 129, ":a", "ä", None])
def test_an_id_that_cannot_be_is_refused(manager: QueueManager, job_id: Any) -> None:
    for name, more in (
        ("enqueue", ()),
        ("enqueue_delayed", (0,)),
        ("requeue", ()),
        ("mark_processing", ("w",)),
        ("move_to_dlq", ("x",)),
        ("mark_completed", ()),
    ):
        with pytest.raises(qdeck.InvalidOption):
            getattr(manager, name)(job_id, *more)


def test_a_priority_that_is_none_is_refused_and_blocks_nobody(manager: QueueManager) -> None:
    for priority in ("URGENT", "", -1, 900, None):
        with pytest.raises(qdeck.InvalidOption):
            manager.enqueue("j", priority)  # type: ignore[arg-type]  # that is the case
    assert manager.get_stats() == EMPTY


@pytest.mark.parametrize("delay_ms", [float("nan"), float("inf"), 1e18, "5", None, True])
def test_a_delay_that_is_none_is_refused_before_anything_is_done(manager: QueueManager, delay_ms: Any) -> None:
    manager.enqueue("a")
    assert manager.dequeue() == "a"
    with pytest.raises(qdeck.InvalidOption):
        manager.requeue("a", delay_ms=delay_ms)
    assert manager.mark_completed("a")


def test_who_processes_a_job_has_a_name(manager: QueueManager) -> None:
    manager.enqueue("a")
    assert manager.dequeue() == "a"
    with pytest.raises(qdeck.InvalidOption):
        manager.mark_processing("a", None)  # type: ignore[arg-type]  # that is what is tested
    assert manager.mark_processing("a", "worker-1")


def unserved(url: str) -> list[str]:
    with Reader(url) as reader:
        return [one.text for one in reader.snapshot().findings if one.code == Code.NO_WORKER]


def test_a_loop_counts_as_a_worker(url: str, manager: QueueManager) -> None:
    """With a job leased, and between two jobs with one that is due later."""
    for job_id in ("first", "second"):
        manager.enqueue(job_id)
    assert unserved(url) == ["no live worker for scheduler:actions, 2 jobs waiting"]
    assert manager.dequeue() == "first"
    assert unserved(url) == []
    assert manager.mark_processing("first", "worker-7", lease=90)
    with Reader(url) as reader:
        assert [(row.id, row.alive, dict(row.queues)) for row in reader.workers()] == [
            ("worker-7", True, {"scheduler:actions": 1})
        ]
    manager.mark_completed("first")
    manager.enqueue_delayed("second", datetime.now(UTC) + timedelta(hours=1))
    assert unserved(url) == []
    manager.close()
    assert unserved(url) == ["no live worker for scheduler:actions, 1 job waiting"]


def test_an_operator_may_ask_a_loop_to_be_quiet(url: str, manager: QueueManager) -> None:
    manager.enqueue("one")
    with Writer(url) as writer:
        assert manager.dequeue() == "one"
        [worker] = writer.workers()
        manager.requeue("one")
        writer.order_worker(worker.id, "quiet")
        manager._local.registered_at = -1e9  # the next request comes within 20 s
        assert manager.dequeue() is None
        writer.order_worker(worker.id, "resume")
        manager._local.registered_at = -1e9
        assert manager.dequeue() == "one"
