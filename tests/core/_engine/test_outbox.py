"""Effects on other queues: written in the step that causes them, delivered by anyone, struck out last."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from core._engine.harness import OTHER, Rig
from qdeck import LayoutMismatch
from qdeck._engine import keys, programs, transitions
from support.programs import answer, feed, words_of

if TYPE_CHECKING:
    from qdeck.admin import Program
    from support.servers import Server

THIRD = "shop:stock:actions"


def test_nothing_to_deliver(rig: Rig) -> None:
    assert rig.run(programs.deliver(rig.queue, rig.now)) == 0


def test_an_outbox_is_delivered_in_slices(rig: Rig) -> None:
    rig.add("parent", priority=0)
    rig.queues.add(OTHER)
    for at in range(0, 250, 50):
        rig.enqueue(*(rig.job(f"c{n:03d}", after=[f"parent@{rig.queue}"]) for n in range(at, at + 50)), queue=OTHER)
    counts = [rig.run(programs.deliver(OTHER, rig.now)) for _ in range(4)]
    assert counts == [100, 100, 50, 0]
    rig.work("parent")
    rig.deliver()
    assert rig.sizes(OTHER) == {"ready": 250}


def test_eight_deliverers_at_once(rig: Rig, shared_server: Server) -> None:
    """Each effect happens once, though each entry may be delivered by several."""
    rig.queues.add(OTHER)
    rig.enqueue(*(rig.job(on_failure=f"mend {OTHER}") for _ in range(150)))
    for job in rig.claim(150):
        rig.bury(job)
    assert rig.poll().outbox == 150

    def deliver(_: int) -> None:
        while rig.client.run(programs.deliver(rig.queue, rig.now)):
            pass
        rig.client.close()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(deliver, range(8)))
    assert rig.sizes(OTHER) == {"ready": 150}
    assert rig.picture().outbox == []
    assert rig.picture(OTHER).meta["n:enqueued"] == "150"


def test_a_queue_that_refuses_does_not_hold_up_the_others(rig: Rig) -> None:
    rig.queues.add(THIRD)
    rig.raw.set(keys.key(OTHER, "ready"), "of another program")
    rig.add("a", on_failure=f"mend {OTHER}")
    rig.add("b", on_failure=f"mend {THIRD}")
    for job in rig.claim(2):
        rig.bury(job)
    with pytest.raises(LayoutMismatch):
        rig.run(programs.deliver(rig.queue, rig.now))
    assert rig.sizes(THIRD) == {"ready": 1}
    assert rig.poll().outbox == 1
    rig.raw.delete(keys.key(OTHER, "ready"))
    rig.queues.add(OTHER)
    assert rig.deliver() == 1
    assert rig.sizes(OTHER) == {"ready": 1}


def test_a_whole_slice_that_is_refused_does_not_hold_up_what_is_behind_it(rig: Rig) -> None:
    rig.queues.add(THIRD)
    rig.raw.set(keys.key(OTHER, "ready"), "of another program")
    rig.enqueue(*(rig.job(on_failure=f"mend {OTHER}") for _ in range(programs.OUTBOX_SLICE)))
    for job in rig.claim(programs.OUTBOX_SLICE):
        rig.bury(job)
    rig.add("last", on_failure=f"mend {THIRD}")
    rig.bury(rig.claim_one())
    with pytest.raises(LayoutMismatch):
        rig.run(programs.deliver(rig.queue, rig.now))
    assert rig.sizes(THIRD) == {"ready": 1}


MALFORMED: list[dict[Any, Any]] = [
    {"k": "newkind", "i": "a"},
    {"k": b"\xff"},
    {"k": "job", "i": b"\xff", "q": OTHER, "p": "100", "t": "100 0 t", "b": "[[],{}]"},
    {"i": "a"},
    {b"\xff": "a"},
    {"k": "job", "i": "a", "q": OTHER, "p": "1" * 400, "t": "100 0 t", "b": "[[],{}]"},
    {"k": "job", "i": "a", "q": OTHER, "p": "-1", "t": "100 0 t", "b": "[[],{}]"},
    {"k": "job", "i": "a", "q": OTHER, "t": "100 0 t", "b": "[[],{}]"},
    {"k": "job", "i": "a", "q": "}{", "p": "100", "t": "100 0 t", "b": "[[],{}]"},
    {"k": "job", "i": "", "q": OTHER, "p": "100", "t": "100 0 t", "b": "[[],{}]"},
    {"k": "accept", "q": OTHER, "i": "a", "s": "nowhere", "c": "1", "h": "1 1 0 t", "b": "", "a": "", "e": ""},
    {"k": "accept", "q": OTHER, "i": "a", "s": "ready", "c": "nan", "h": "1 1 0 t", "b": "", "a": "", "e": ""},
    {"k": "accept", "q": OTHER, "i": "a", "s": "ready", "c": "x", "h": "1 1 0 t", "b": "", "a": "", "e": ""},
    {"k": "release", "i": "a", "o": "lost"},
    {"k": "resolve", "q": "", "i": "a", "r": "b", "o": "done"},
    {"k": "watch", "r": "nowhere", "i": "a"},
    {"k": "watch", "r": "a@}", "i": "a"},
]


@pytest.mark.parametrize("entry", MALFORMED, ids=str)
def test_a_malformed_entry_is_set_aside_and_those_behind_it_are_delivered(rig: Rig, entry: dict[Any, Any]) -> None:
    rig.queues.add(OTHER)
    rig.run(programs.make_queue(rig.queue))
    rig.raw.xadd(keys.key(rig.queue, "outbox"), entry)
    rig.add("a", on_failure=f"mend {OTHER}")
    rig.bury(rig.claim_one())
    reported: list[str] = []
    assert rig.run(programs.deliver(rig.queue, rig.now, reported.append)) == 2
    assert rig.sizes(OTHER) == {"ready": 1}
    assert rig.poll().outbox == 0
    assert len(reported) == rig.total("quarantined") == 1
    found: Any = rig.raw.xrange(keys.key(rig.queue, "quarantine"))
    kept = {name: value for name, value in found[0][1].items() if name not in (b"reason", b"quarantined")}
    assert list(kept.values()) == [value if isinstance(value, bytes) else value.encode() for value in entry.values()]
    assert rig.deliver() == 0


def test_an_entry_is_quarantined_once_by_many(rig: Rig) -> None:
    rig.run(programs.make_queue(rig.queue))
    entry_id: Any = rig.raw.xadd(keys.key(rig.queue, "outbox"), {"k": "newkind"})
    assert rig.call(transitions.quarantine(rig.queue, entry_id, "why", rig.now))
    assert not rig.call(transitions.quarantine(rig.queue, entry_id, "why", rig.now))
    assert rig.total("quarantined") == 1


def test_the_last_hundred_malformed_entries_are_kept(rig: Rig) -> None:
    rig.run(programs.make_queue(rig.queue))
    for number in range(130):
        rig.raw.xadd(keys.key(rig.queue, "outbox"), {"k": "newkind", "n": number, **{f"f{n}": "x" for n in range(90)}})
    assert rig.deliver() == 130
    assert rig.total("quarantined") == 130
    assert rig.raw.xlen(keys.key(rig.queue, "quarantine")) == 100


def test_a_page_of_an_outbox_is_bounded_by_bytes(rig: Rig) -> None:
    """Entries carry payloads: a page grows only as far as they are small."""
    rig.enqueue(*(rig.job(body=b"x" * 200_000, on_failure=f"mend {OTHER}") for _ in range(40)))
    while jobs := rig.claim(40):
        for job in jobs:
            rig.bury(job)
    rig.queues.add(OTHER)
    sizes: list[int] = []

    def watched(program: Program[int]) -> int:
        item = next(program)
        while True:
            reply = answer(rig.client, item)
            if b"XRANGE" in words_of(item):
                sizes.append(len(reply[1]))
            try:
                item = feed(program, reply)
            except StopIteration as end:
                return int(end.value)

    assert watched(programs.deliver(rig.queue, rig.now)) == 40
    assert sizes[0] == 16
    assert max(sizes[1:]) <= 10, "2 MiB of 200 KB each"
    assert rig.sizes(OTHER) == {"ready": 40}


def test_a_dependency_on_the_own_queue_by_its_long_name(rig: Rig) -> None:
    rig.add("parent")
    rig.add("child", after=[f"parent@{rig.queue}"])
    rig.deliver()
    rig.work("parent")
    rig.deliver()
    assert rig.state("child") == "ready"


def test_what_exists_in_any_state(rig: Rig) -> None:
    rig.configure(done_max="0")
    for job_id in ("done", "dead"):
        rig.add(job_id)
    rig.add("later", delay_ms=5)
    done, dead = sorted(rig.claim(2), key=lambda job: job.id, reverse=True)
    rig.ack(done)
    rig.bury(dead)
    assert rig.run(programs.exists(rig.queue, ["done", "dead", "later", "nobody"])) == [True, True, True, False]


def test_more_jobs_than_one_call_takes(rig: Rig) -> None:
    jobs = [rig.job() for _ in range(1_201)]
    made = rig.run(programs.enqueue(rig.queue, jobs, rig.now))
    assert [one.id for one in made] == [job.id for job in jobs]
    assert all(one.created for one in made)
    again = rig.run(programs.enqueue(rig.queue, jobs, rig.now))
    assert not any(one.created for one in again)
    assert rig.sizes() == {"ready": 1_201}
    assert rig.total("enqueued") == 1_201
