"""Dead letters are counted by what they died of, in the step that changes anything about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from qdeck._engine import batch_transitions, codec, keys
from qdeck._engine.signatures import pattern_of, signature_of

if TYPE_CHECKING:
    from core._engine.harness import Rig

BOOM = b'{"class":"pkg.Boom","message":"job %d failed"}'


def kinds(rig: Rig) -> dict[str, int]:
    rig.check()
    found = {}
    for raw in rig.picture().hashes["groups"].values():
        numbers, kind = raw.decode().split("\n", 1)
        found[kind] = int(numbers.split()[0])
    return found


def die(rig: Rig, event: bytes = BOOM % 7) -> str:
    job_id = rig.add()
    rig.bury(rig.claim_one(), event=event)
    return job_id


def other(rig: Rig) -> bytes:
    found: Any = rig.raw.hget(keys.key(rig.queue, "groups"), "other")
    return found or b""


def act(rig: Rig, verb: str, *ids: str, batch: str = "b") -> batch_transitions.SliceResult:
    scores = dict(rig.picture().zsets["dead"])
    entries = [(job_id, f"{scores[job_id]:.0f}") for job_id in ids]
    return rig.call(
        batch_transitions.apply_slice(rig.queue, verb, "dead", entries, batch=batch, offset=0, event=b"{}", now=rig.now)
    )


def test_counted_when_they_die_and_go(rig: Rig) -> None:
    first, second = die(rig), die(rig, BOOM % 8)
    die(rig, b'{"class":"KeyError","message":"\'x\'"}')
    assert kinds(rig) == {"Boom\njob N failed": 2, "KeyError\n'…'": 1}
    act(rig, "retry", first)
    assert kinds(rig) == {"Boom\njob N failed": 1, "KeyError\n'…'": 1}
    act(rig, "discard", second, batch="c")
    assert kinds(rig) == {"KeyError\n'…'": 1}
    rig.call(batch_transitions.undo_slice(rig.queue, "b", 1, rig.now))
    rig.call(batch_transitions.undo_slice(rig.queue, "c", 1, rig.now))
    assert kinds(rig) == {"Boom\njob N failed": 2, "KeyError\n'…'": 1}
    rig.tick(604_800_001)
    rig.trim()
    assert kinds(rig) == {}


def test_what_is_left_of_a_dead_letter_is_counted_until_it_goes(loose_rig: Rig) -> None:
    rig = loose_rig
    job_id = die(rig)
    rig.raw.zrem(keys.key(rig.queue, "dead"), job_id)
    op = batch_transitions.apply_slice(
        rig.queue, "discard", "none", [(job_id, "")], batch="b", offset=0, event=b"{}", now=rig.now
    )
    assert rig.call(op).count == 1
    assert rig.picture().hashes["groups"] == {}
    assert rig.call(batch_transitions.undo_slice(rig.queue, "b", 1, rig.now)).restored == 1
    assert len(rig.picture().hashes["groups"]) == 1


def test_retried_and_dead_again_is_one(rig: Rig) -> None:
    job_id = die(rig)
    for n in range(3):
        act(rig, "retry", job_id, batch=f"b{n}")
        rig.tick()
        rig.bury(rig.claim_one(), event=BOOM % n)
    assert kinds(rig) == {"Boom\njob N failed": 1}


def test_first_last_and_the_last_one(rig: Rig) -> None:
    times = []
    for _ in range(3):
        rig.tick(5)
        times.append((rig.now, die(rig)))
    [raw] = rig.picture().hashes["groups"].values()
    assert raw.decode().split("\n")[0] == f"3 {times[0][0]} {times[2][0]} {times[2][1]}"


def test_what_the_scripts_bury_themselves(rig: Rig) -> None:
    parent = rig.add()
    rig.add(after=[parent])
    rig.bury(rig.claim_one(), event=BOOM % 1)
    rig.add(after=[parent])
    rig.add()
    rig.claim_one()
    rig.tick(1001)
    rig.reap(crash_limit=1)
    rig.tick(501)
    rig.reap(crash_limit=1)
    waiting = rig.add()
    [(_, score)] = [row for row in rig.picture().zsets["ready"] if row[0] == waiting]
    rig.call(
        batch_transitions.apply_slice(
            rig.queue, "bury", "ready", [(waiting, f"{score:.0f}")], batch="b", offset=0, event=b"{}",
            group="Buried\nwhy", now=rig.now,
        )
    )  # fmt: skip
    assert kinds(rig) == {
        "Boom\njob N failed": 1,
        "DependencyFailed\njob # is dead": 2,
        "WorkerCrashed\nits worker died with it": 1,
        "Buried\nwhy": 1,
    }
    rig.call(batch_transitions.undo_slice(rig.queue, "b", 1, rig.now))
    assert "Buried\nwhy" not in kinds(rig)
    assert rig.field("attempts", waiting) is None


def test_what_is_beyond_a_thousand_kinds_is_other(loose_rig: Rig) -> None:
    rig = loose_rig
    first = [die(rig, b'{"class":"E%d"}' % n) for n in range(3)]
    key = keys.key(rig.queue, "groups")
    rig.raw.hset(key, mapping={f"k{n}": "1 1 1 x\nK\n" for n in range(997)})
    beyond = [die(rig, b'{"class":"F%d"}' % n) for n in range(2)]
    die(rig, b'{"class":"E1"}')
    assert other(rig).startswith(b"2 ")
    act(rig, "retry", *beyond, first[0])
    assert other(rig) == b""
    die_in_place = rig.claim(3)
    for job in die_in_place:
        rig.bury(job, event=b'{"class":"G"}')
    # The place of E0 went to the first of them, so there is room for this kind.
    values: list[Any] = list(rig.raw.hvals(key))
    assert sum(raw.endswith(b"\nG\n") for raw in values) == 1


def test_undo_where_the_place_was_taken_counts_as_other(loose_rig: Rig) -> None:
    rig = loose_rig
    job_id = die(rig)
    act(rig, "retry", job_id)
    key = keys.key(rig.queue, "groups")
    rig.raw.hset(key, mapping={f"k{n}": "1 1 1 x\nK\n" for n in range(1000)})
    assert rig.call(batch_transitions.undo_slice(rig.queue, "b", 1, rig.now)).restored == 1
    assert other(rig).startswith(b"1 ")
    assert rig.field("attempts", job_id) == b"1 0 0 other"
    act(rig, "discard", job_id, batch="c")
    assert other(rig) == b""


def test_a_job_that_waits_pays_nothing(rig: Rig) -> None:
    rig.add()
    rig.end(rig.claim_one(), delay_ms=0, event=BOOM % 1)
    waits = rig.add(retries=2)
    rig.end(rig.claim_one(), delay_ms=0, event=BOOM % 1)
    assert kinds(rig) == {"Boom\njob N failed": 1}
    assert rig.field("attempts", waits) == b"1 0 0"


@pytest.mark.parametrize(
    ("kind", "event", "expected"),
    [
        ("failed", b'{"class":"a.b.Boom","message":"id 42"}', "Boom\nid N"),
        ("timeout", b"{}", "TimeLimitExceeded\n"),
        ("crashed", b'{"worker":"w"}', "WorkerCrashed\nits worker died with it"),
        ("failed", b"no json", "Error\n"),
        ("failed", b'{"class":7,"message":"x"}', "Error\n"),
        ("failed", b'{"class":"two\\nlines","message":"x"}', "two lines\nx"),
        ("buried", b'{"reason":"it hangs 3","by":"me"}', "Buried\nit hangs N by me"),
    ],
)
def test_as_what_an_event_counts(kind: str, event: bytes, expected: str) -> None:
    assert signature_of(kind, event) == expected


def test_no_password_gets_into_a_group() -> None:
    told = "cannot reach redis://app:s3cret@host:1/0 "
    assert "s3cret" not in pattern_of("E", told)
    padded = "x" * 90 + " " + "1 " * 440 + "redis://app:" + "s" * 200 + "@host"
    assert "sss" not in pattern_of("E", padded)


def act_on(rig: Rig, verb: str, state: str, job_id: str, batch: str) -> None:
    """An operator's batch on one job, as it is now."""
    seen = str(int(rig.raw.zscore(keys.key(rig.queue, state), job_id) or 0))
    if state in ("ready", "delayed", "blocked"):
        seen = codec.version_of(state, seen, rig.field("head", job_id))
    elif state == "running":
        seen = (rig.field("lease", job_id) or b"").decode().split(" ")[0]
    op = batch_transitions.apply_slice(
        rig.queue, verb, state, [(job_id, seen)], batch=batch, offset=0, event=b'{"by":"op"}', now=rig.now
    )
    assert rig.call(op).skipped == []


def test_the_newest_of_a_group_is_one_that_is_there(rig: Rig) -> None:
    """Also after the newest was retried, discarded, or its bury was undone."""
    ids = []
    for _ in range(4):
        ids.append(rig.add())
        rig.end(rig.claim_one(), delay_ms=-1, event=b'{"class":"Boom","message":"no"}')
        rig.tick()
    before = rig.picture().hashes["groups"]
    act_on(rig, "retry", "dead", ids[3], "b1")
    [group] = rig.picture().hashes["groups"].values()
    assert group.split(b"\n")[0].split() == [b"3", b"%d" % (rig.now - 4), b"%d" % (rig.now - 2), ids[2].encode()]
    rig.call(batch_transitions.undo_slice(rig.queue, "b1", 1, rig.now))
    assert rig.picture().hashes["groups"] == before
    act_on(rig, "discard", "dead", ids[3], "b2")
    [group] = rig.picture().hashes["groups"].values()
    assert group.split(b"\n")[0].split()[3] == ids[2].encode()


def test_undo_of_a_bury_names_the_newest_that_stays(rig: Rig) -> None:
    first, second = rig.add(), rig.add()
    act_on(rig, "bury", "ready", first, "b1")
    rig.tick()
    act_on(rig, "bury", "ready", second, "b2")
    rig.call(batch_transitions.undo_slice(rig.queue, "b2", 1, rig.now))
    [group] = rig.picture().hashes["groups"].values()
    assert group.split(b"\n")[0].split() == [b"1", b"%d" % (rig.now - 1), b"%d" % (rig.now - 1), first.encode()]


def test_undo_of_the_bury_of_a_running_job_keeps_that_it_was_interrupted(rig: Rig) -> None:
    rig.add("a")
    rig.claim_one()
    act_on(rig, "bury", "running", "a", "b")
    rig.tick()
    rig.call(batch_transitions.undo_slice(rig.queue, "b", 1, rig.now))
    assert rig.state("a") == "ready"
    assert [event.kind for event in rig.events("a")] == ["buried", "requeued"]


def test_discard_and_undo_leave_who_waits_for_whom_as_it_was(rig: Rig) -> None:
    rig.add("parent")
    rig.add("child", after=["parent"])
    before = rig.picture().hashes["after"]
    for number in range(5):
        act_on(rig, "discard", "blocked", "child", f"b{number}")
        rig.call(batch_transitions.undo_slice(rig.queue, f"b{number}", 1, rig.now))
        assert rig.picture().hashes["after"] == before
    rig.work("parent")
    assert rig.state("child") == "ready"
