"""One queue looked at closely, and the jobs around a job: numbers that say of how many jobs they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core._operations.yard import OTHER, QUEUE, Yard, now_ms
from qdeck._engine.codec import BAND
from qdeck.adapters.native.queue_details import Died, read_close_up
from qdeck.adapters.native.related_jobs import read_related
from qdeck.admin import Spread

if TYPE_CHECKING:
    import redis

    from qdeck.admin import Writer


def test_a_spread_is_of_what_there_is() -> None:
    assert Spread.over([], 9) is None
    assert Spread.over([5], 1) == Spread(p50_ms=5, p95_ms=5, max_ms=5, sampled=1, of=1)
    assert Spread.over([-3, *range(1, 100)], 500) == Spread(p50_ms=49, p95_ms=94, max_ms=99, sampled=100, of=500)


def test_a_queue_that_has_nothing(writer: Writer) -> None:
    seen = writer.run(read_close_up(QUEUE))
    assert (seen.waiting, seen.running, seen.done, seen.died, seen.payload_bytes) == (None, None, None, (), None)


def test_what_waits_runs_and_ended(writer: Writer, yard: Yard) -> None:
    yard.add("ended")
    [job] = yard.claim()
    yard.end(job, "done")
    yard.raw.zadd(yard.key("done"), {job.id: int(job.head[:13]) + 4_000})
    for error in ("KeyError", "KeyError", "x.Timeout"):
        yard.die(event={"class": error})
    yard.add("runs")
    yard.claim()
    yard.add("waits")
    seen = writer.run(read_close_up(QUEUE))
    assert seen.done == Spread(p50_ms=4_000, p95_ms=4_000, max_ms=4_000, sampled=1, of=1)
    assert seen.died == (Died(error_class="KeyError", count=2), Died(error_class="Timeout", count=1))
    assert seen.running is not None
    assert seen.waiting is not None
    assert (seen.running.of, seen.waiting.of, seen.payloads) == (1, 1, 6)
    assert seen.running.max_ms < 60_000
    assert seen.payload_bytes is not None
    assert 7 <= seen.payload_bytes < 20
    yard.raw.delete(yard.key("groups"))
    assert writer.run(read_close_up(QUEUE)).died is None


def test_a_long_line_is_known_by_its_places(writer: Writer, yard: Yard) -> None:
    yard.add("first")
    now = now_ms()

    def line(priorities: int) -> dict[str, int]:
        return {f"job-{n}": (100 + n % priorities) * BAND + now - 1_000 * n for n in range(1_000)}

    yard.raw.delete(yard.key("ready"))
    yard.raw.zadd(yard.key("ready"), line(1))
    seen = writer.run(read_close_up(QUEUE)).waiting
    assert seen is not None
    assert (seen.sampled, seen.of) == (1_000, 1_000)
    assert [round(ms / 10_000) for ms in (seen.p50_ms, seen.p95_ms, seen.max_ms)] == [50, 95, 100]
    yard.raw.delete(yard.key("ready"))
    yard.raw.zadd(yard.key("ready"), line(2))
    seen = writer.run(read_close_up(QUEUE)).waiting
    assert seen is not None
    assert (seen.sampled, seen.of) == (100, 1_000)
    assert 400_000 < seen.p50_ms < 600_000


def test_the_jobs_around_a_job(writer: Writer, yard: Yard, url: str, raw: redis.Redis) -> None:
    parent = yard.add(1)
    child = yard.add(2, after=[parent])
    elsewhere = Yard(url, raw, OTHER).add(3)
    found = writer.run(read_related(QUEUE, [parent, child, f"{elsewhere}@{OTHER}", "nobody"]))
    assert {ref: (job.queue, job.state) for ref, job in found.items()} == {
        parent: (QUEUE, "ready"),
        child: (QUEUE, "blocked"),
        f"{elsewhere}@{OTHER}": (OTHER, "ready"),
    }
