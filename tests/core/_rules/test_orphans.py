"""Records of no job, counted over many queues at once: what a purge would take, in few round trips."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from qdeck import QdeckError
from qdeck.adapters.native import orphans
from qdeck.adapters.native.orphans import PARTS
from qdeck.admin import Limits, PurgeRule
from support.programs import feed
from support.yard import HOUR, Yard

if TYPE_CHECKING:
    from collections.abc import Callable

    from qdeck.admin import Program, Writer


def count(writer: Writer, limits: Limits | None = None) -> tuple[int | None, int, list[str]]:
    """The count, in how many round trips, and what was told."""
    trips, notices = 0, list[str]()
    seen = writer.snapshot()

    def counted() -> Program[int | None]:
        nonlocal trips
        program = orphans.count(seen.queues, limits or Limits(), seen.at_ms, notices)
        reply: Any = None
        while True:
            try:
                item = feed(program, reply)
            except StopIteration as ended:
                return ended.value  # type: ignore[no-any-return]  # it is what the program returns
            trips += 1
            try:
                reply = yield item
            except QdeckError as error:
                reply = error

    return writer.run(counted()), trips, notices


def test_over_many_queues_as_a_purge_would_take_them(writer: Writer, make_yard: Callable[[str], Yard]) -> None:
    dice = random.Random(7)
    for n in range(60):
        yard = make_yard(f"demo:q{n}:actions")
        yard.ready(5)
        if n % 7 == 0:
            yard.running(-50)
            yard.delayed(-50)
        for _ in range(dice.randrange(4)):
            yard.orphan(dice.choice((1, 25 * HOUR)), dice.choice(PARTS))
    yard.raw.hset(yard.key("body"), "of unknown age", "[[],{}]")
    yard.raw.hset(yard.key("meta"), "ready", 0)  # a wrong count hides no job
    plan = writer.plan_purge([PurgeRule.ORPHANED_RECORDS], Limits())
    found, trips, notices = count(writer)
    assert plan.count > 20
    assert (found, notices) == (plan.count, [])
    assert trips <= 10, "however many queues there are"


def test_big_hashes_are_walked_to_their_end(writer: Writer, make_yard: Callable[[str], Yard]) -> None:
    yard = make_yard("demo:big:actions")
    yard.ready(1)
    now = yard.now_ms
    ids = [f"{(now - 30 * HOUR * 1000) * 1000 + n:013x}{n:07d}" for n in range(3000)]
    yard.raw.hset(yard.key("error"), mapping=dict.fromkeys(ids, "x"))
    yard.raw.hset(yard.key("body"), mapping=dict.fromkeys(ids[:1000], "x"))
    yard.raw.zadd(yard.key("dead"), dict.fromkeys(ids[2000:], now))
    assert count(writer)[0] == 2000, "each once, however many hashes have it"
    writer.apply(writer.plan_purge([PurgeRule.ORPHANED_RECORDS], Limits()))
    assert count(writer)[0] == 0


def test_what_may_not_be_read_is_told_and_never_a_zero(writer: Writer, make_yard: Callable[[str], Yard]) -> None:
    yard = make_yard("demo:broken:actions")
    yard.ready(1)
    yard.raw.set(yard.key("log"), "not a hash")
    found, _, [notice] = count(writer)
    assert found is None
    assert "demo:broken:actions" in notice
