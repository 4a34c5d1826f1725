"""Jobs whose worker does not know their task: back to `delayed`, uncounted, and first to a worker that knows it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from qdeck._engine import keys, transitions

if TYPE_CHECKING:
    from core._engine.harness import Rig
    from qdeck._engine.transitions import ClaimedJob


def refuse(rig: Rig, *jobs: ClaimedJob, worker: str = "old", **options: Any) -> transitions.PollReply:
    endings = [transitions.Ending(kind="unknown", id=job.id, token=job.token) for job in jobs]
    return rig.poll(worker, endings=endings, **options)


def due_in(rig: Rig, job_id: str) -> float:
    [score] = [score for one, score in rig.picture().zsets["delayed"] if one == job_id]
    return score - rig.now


def test_the_delay_doubles_up_to_a_minute_and_nothing_is_counted(rig: Rig) -> None:
    job_id = rig.add(task="new")
    waits = []
    for worker in "abcdefg":
        refuse(rig, rig.claim_one(worker), worker=worker)
        waits.append(due_in(rig, job_id))
        rig.tick(int(waits[-1]))
    assert waits == [5_000, 10_000, 20_000, 40_000, 60_000, 60_000, 60_000]
    assert rig.field("attempts", job_id) is None
    [event] = rig.events(job_id)
    assert (event.kind, event.data) == ("unknown_task", {"worker": "a"})
    rig.check()


def test_a_failed_attempt_begins_the_delay_anew(rig: Rig) -> None:
    job_id = rig.add(task="new", retries=3)
    refuse(rig, rig.claim_one("old"))
    rig.tick(5_000)
    rig.end(rig.claim_one("new"), "failed", delay_ms=0, worker="new")
    refuse(rig, rig.claim_one("old"))
    assert due_in(rig, job_id) == 5_000
    assert rig.attempts(job_id).failed == 1


def test_the_worker_that_refused_is_given_others(rig: Rig) -> None:
    strange = [rig.add(task="new") for _ in range(40)]
    known = rig.add(task="send")
    reply = refuse(rig, rig.claim_one("old"), free_slots=5, tasks="-new")
    assert [job.id for job in reply.jobs] == [known]
    assert {rig.state(job_id) for job_id in strange} == {"delayed"}
    rig.check()
    for _ in range(5):
        rig.tick(70_000)
        assert rig.claim(50, "old", tasks="-new") == []
    rig.check()


def test_a_worker_that_knows_it_gets_it_before_it_is_due_in_the_order_of_enqueueing(rig: Rig) -> None:
    ids = []
    for _ in range(5):
        ids.append(rig.add(task="new"))
        rig.tick()
    refuse(rig, *rig.claim(5, "old"))
    later = rig.add(task="new")
    reply = rig.poll("new", free_slots=3, tasks="+new")
    assert reply.unknown.endswith(b" new")
    assert [job.id for job in reply.jobs] == ids[:3]
    assert [job.id for job in rig.claim(9, "new", tasks="+new")] == [*ids[3:], later]
    assert "unknown_tasks" not in rig.picture().meta
    rig.check()


def test_others_are_woken_as_one_of_them_may_know_it(rig: Rig) -> None:
    for worker in ("a", "b", "c", "d"):
        rig.poll(worker)
    rig.add(task="new")
    job = rig.claim_one("a")
    rig.rings()
    refuse(rig, job, worker="a")
    assert sum(rig.rings() for _ in range(9)) == 3


def test_without_refusals_nothing_is_kept_and_nothing_is_told(rig: Rig) -> None:
    rig.add(task="new")
    reply = rig.poll("w", free_slots=1, tasks="-new")
    assert len(reply.jobs) == 1, "no worker refused it: what this one believes of it is old"
    assert reply.unknown == b""


def test_more_tasks_than_have_a_place_wait_until_they_are_due(rig: Rig) -> None:
    ids = [rig.add(task=f"t{i:03}") for i in range(120)]
    reply = refuse(rig, *rig.claim(120, "old"))
    assert len(reply.unknown.split(b"\n")) == 100
    assert len(rig.picture().zsets["unknown_tasks"]) == 120
    rig.check()
    got = [job.id for job in rig.claim(200, "new", tasks="\n".join(f"+t{i:03}" for i in range(120)))]
    assert len(got) == 100
    rig.tick(5_000)
    got += [job.id for job in rig.claim(200, "new")]
    assert sorted(got) == sorted(ids)
    assert "unknown_tasks" not in rig.picture().meta
    rig.check()


def test_what_left_by_another_way_is_not_fetched(rig: Rig) -> None:
    gone, moved, run, kept = (rig.add(task="new") for _ in range(4))
    refuse(rig, *rig.claim(4, "old"))
    assert rig.change("discard", gone) == rig.change("cancel", moved) == rig.change("run", run) == ["ok"]
    assert [name for name, _ in rig.picture().zsets["unknown_tasks"]] == [kept]
    # What an older worker does: it takes the job that is due, and knows nothing of refusals.
    rig.raw.zrem(keys.key(rig.queue, "delayed"), kept)
    rig.raw.zadd(keys.key(rig.queue, "delayed"), {kept: rig.now + 77_000})
    assert [job.id for job in rig.claim(9, "new", tasks="+new")] == [run]
    assert rig.picture().zsets["unknown_tasks"] == []


def test_the_sweeper_forgets_what_is_overdue(rig: Rig) -> None:
    job_id = rig.add(task="new")
    refuse(rig, rig.claim_one("old"))
    rig.tick(64_999)
    rig.trim()
    assert rig.picture().zsets["unknown_tasks"]
    rig.tick(1)
    rig.trim()
    picture = rig.picture()
    assert picture.zsets["unknown_tasks"] == []
    assert "unknown_tasks" not in picture.meta
    assert [job.id for job in rig.claim(1, "new")] == [job_id]


def test_names_that_no_task_has_do_no_harm(rig: Rig) -> None:
    names = ["+a", "-b", "x" * 300, "two words", "é", "3 4 x"]
    ids = [rig.add(task=name) for name in names]
    refuse(rig, *rig.claim(9, "old"))
    rig.check()
    known = "\n".join(f"+{name}" for name in names)
    got = [job.id for job in rig.claim(9, "new", tasks=known)]
    assert got == [job_id for job_id, name in zip(ids, names, strict=True) if len(name) <= 200]
