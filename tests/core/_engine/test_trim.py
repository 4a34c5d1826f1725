"""What is kept of jobs that ended, for how long, and that drops are counted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from qdeck._engine import keys, transitions

if TYPE_CHECKING:
    from core._engine.harness import Rig

DAY_MS = 86_400_000


def bury_many(rig: Rig, count: int) -> None:
    for at in range(0, count, 500):
        jobs = rig.enqueue(*(rig.job() for _ in range(min(500, count - at))))
        claimed = rig.claim(len(jobs))
        rig.poll(
            endings=[transitions.Ending(kind="failed", id=j.id, token=j.token, delay_ms=-1, log=b"x") for j in claimed]
        )


def test_dead_letters_go_by_age(rig: Rig) -> None:
    bury_many(rig, 3)
    rig.tick(7 * DAY_MS)
    assert rig.trim() == 0
    bury_many(rig, 1)
    rig.tick()
    assert rig.trim() == 3
    assert (rig.sizes(), rig.total("dropped_dead")) == ({"dead": 1}, 3)
    assert len(rig.picture().hashes["head"]) == len(rig.picture().hashes["error"]) == 1


def test_dead_letters_go_by_size_the_oldest_first(rig: Rig) -> None:
    rig.configure(dead_max="2")
    for _ in range(4):
        bury_many(rig, 1)
        rig.tick()
    newest = [job_id for job_id, _ in rig.picture().zsets["dead"]][2:]
    assert rig.trim() == 2
    assert [job_id for job_id, _ in rig.picture().zsets["dead"]] == newest
    assert rig.total("dropped_dead") == 2


def test_a_trim_takes_a_bounded_slice(rig: Rig) -> None:
    rig.configure(dead_max="0")
    bury_many(rig, 450)
    rig.tick()
    assert [rig.trim() for _ in range(4)] == [200, 200, 50, 0]


def test_settings_of_age(rig: Rig) -> None:
    rig.configure(dead_ttl="5000", cancelled_ttl="70000", done_ttl="80000")
    bury_many(rig, 1)
    rig.add("c")
    rig.change("cancel", "c")
    rig.add("d")
    rig.work("d")
    rig.tick(5_001)
    assert (rig.trim(), rig.sizes()) == (1, {"cancelled": 1, "done": 1})
    rig.tick(65_000)
    assert (rig.trim(), rig.sizes()) == (2, {"done": 1}), "and the id of the dead letter"
    rig.tick(10_000)
    assert (rig.trim(), rig.sizes()) == (1, {})
    dropped = {name: rig.total(f"dropped_{name}") for name in ("dead", "cancelled", "done")}
    assert dropped == {"dead": 1, "cancelled": 1, "done": 1}


def test_the_defaults_of_age(rig: Rig) -> None:
    rig.add("c")
    rig.change("cancel", "c")
    rig.add("d")
    rig.work("d")
    rig.tick(3_600_000)
    assert rig.trim() == 0
    rig.tick()
    assert (rig.trim(), rig.sizes()) == (1, {"cancelled": 1})
    rig.tick(DAY_MS)
    assert (rig.trim(), rig.sizes()) == (1, {})


def test_cancelled_jobs_go_by_size(rig: Rig) -> None:
    rig.configure(cancelled_max="1")
    ids = [rig.add() for _ in range(3)]
    rig.change("cancel", *ids)
    assert rig.trim() == 0, "a call may be sent again for a minute"
    rig.tick(60_000)
    assert rig.trim() == 2
    assert rig.sizes() == {"cancelled": 1}


@pytest.mark.parametrize("setting", [{"done_max": "0"}, {"done_ttl": "0"}, {"cancelled_ttl": "0"}])
def test_a_resent_enqueue_finds_its_id_for_a_minute(rig: Rig, setting: dict[str, str]) -> None:
    """However little is kept: else the job would run a second time."""
    rig.configure(**setting)
    done, cancelled = rig.job("done"), rig.job("cancelled", unique="n")
    rig.enqueue(done)
    rig.work("done")
    rig.enqueue(cancelled)
    rig.change("cancel", "cancelled")
    rig.tick(59_999)
    rig.trim()
    rig.add("other")
    rig.work("other")
    assert [rig.enqueue(job)[0].created for job in (done, cancelled)] == [False, False]
    rig.tick(60_002)
    rig.trim()
    assert [job_id for job_id in ("done", "cancelled") if rig.state(job_id) == "gone"] == [
        "cancelled" if "cancelled_ttl" in setting else "done"
    ]


def test_of_done_jobs_the_last_are_kept_whole_and_of_the_others_the_id_and_the_result(rig: Rig) -> None:
    rig.configure(done_max="3")
    ids = []
    for n in range(5):
        ids.append(rig.add(f"j{n}", retries=1))
        rig.end(rig.claim_one(), delay_ms=0, log=b"first")
        rig.end(rig.claim_one(), "done", result=b"%d" % n, log=b"said")
        rig.tick()
    picture = rig.picture()
    assert [job_id for job_id, _ in picture.zsets["done"]] == ids
    for part in ("head", "body", "attempts", "error", "log"):
        assert sorted(picture.hashes[part]) == ids[2:], part
    assert sorted(picture.hashes["result"]) == ids, "a result that is gone could not be told from None"
    rig.tick(60_000)
    rig.add("last")
    rig.work("last")
    assert [job_id for job_id, _ in rig.picture().zsets["done"]] == [*ids[3:], "last"]
    assert rig.total("dropped_done") == 3
    assert sorted(rig.picture().hashes["result"]) == ids[3:]


def test_done_jobs_are_trimmed_by_the_work_itself(rig: Rig) -> None:
    """Nobody has to sweep a queue that works."""
    rig.configure(done_max="10")
    for _ in range(30):
        rig.enqueue(*(rig.job() for _ in range(100)))
        rig.ack(*rig.claim(100))
        rig.tick(10_000)
    assert rig.sizes()["done"] <= 700
    assert rig.total("done") == 3_000
    assert len(rig.picture().hashes["head"]) == 10


def test_a_result_is_kept_as_long_as_it_was_asked_for(rig: Rig) -> None:
    rig.add("a")
    rig.end(rig.claim_one(), "done", result=b"1", keep_ms=2 * DAY_MS)
    rig.tick(2 * DAY_MS)
    assert rig.trim() == 0
    rig.add("b")
    rig.end(rig.claim_one(), "done", result=b"1", keep_ms=5)
    assert rig.sizes() == {"done": 2}
    assert rig.picture().meta["done_ttl"] == str(2 * DAY_MS), "the longest counts"
    rig.tick()
    rig.trim()
    assert rig.sizes() == {"done": 1}


def test_what_is_to_be_kept_longer_is_not_trimmed_by_the_turn_that_says_so(rig: Rig) -> None:
    rig.add("old")
    rig.work("old")
    rig.tick(3_600_001)
    rig.add("new")
    rig.end(rig.claim_one(), "done", result=b"1", keep_ms=2 * DAY_MS)
    assert rig.sizes() == {"done": 2}


def test_last_turns_of_workers_long_gone_are_swept(rig: Rig) -> None:
    for n in range(600):
        rig.raw.hset(keys.key(rig.queue, "claims"), f"old{n}", f"1\n\n\n{rig.now - 2 * DAY_MS}")
    for n in range(600):
        rig.raw.hset(keys.key(rig.queue, "claims"), f"new{n}", f"1\n\n\n{rig.now}")
    rig.tick(DAY_MS)
    for _ in range(60):
        rig.trim()
    assert {name[:3] for name in rig.picture().hashes["claims"]} == {"new"}
    assert len(rig.picture().hashes["claims"]) == 600
    rig.tick()
    for _ in range(60):
        rig.trim()
    assert rig.picture().hashes["claims"] == {}


@pytest.mark.parametrize("setting", [{"dead_max": "0"}, {"dead_ttl": "1000"}])
def test_what_ended_in_the_future_is_kept_no_longer(rig: Rig, setting: dict[str, str]) -> None:
    """The server's clock was set back since."""
    rig.configure(**setting)
    bury_many(rig, 3)
    rig.tick(-DAY_MS)
    rig.trim()
    assert [score for _, score in rig.picture().zsets["dead"]] == [rig.now] * 3
    rig.tick(1_001)
    assert rig.trim() == 3
