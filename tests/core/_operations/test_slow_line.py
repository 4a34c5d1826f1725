"""A batch whose connection becomes slow or silent half way: its counts are exact, it can be ended, and continued."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from core._operations.yard import Yard
from qdeck.admin import Stop, StopCode, Writer
from support.proxy import Side

if TYPE_CHECKING:
    from collections.abc import Callable

    import redis

    from qdeck.admin import Tally
    from support.proxy import FaultProxy

COUNT = 2000
SLOW_S = 2.0


def moved(yard: Yard, verb: str) -> int:
    """How many of the dead letters the batch has dealt with, by what is stored."""
    left = len(yard.ids("dead"))
    assert left + len(yard.ids("ready")) == COUNT or verb == "discard"
    return COUNT - left


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["retry", "discard"])
def test_a_slow_batch_is_ended_and_continued(
    url: str, raw: redis.Redis, make_proxy: Callable[[str], FaultProxy], verb: str
) -> None:
    """Two seconds of latency after the third slice: the operator ends it, and applying the plan again does the rest."""
    proxy, yard = make_proxy(url), Yard(url, raw)
    yard.bulk_dead(COUNT)
    seen: list[int] = []
    slow_since = 0.0

    def slowing(tally: Tally) -> None:
        nonlocal slow_since
        seen.append(tally.done)
        if len(seen) == 3:
            proxy.latency(SLOW_S, Side.TO_CLIENT)
            slow_since = time.monotonic()

    with Writer(proxy.url) as writer:
        plan = writer.plan(verb, yard.queue)
        result = writer.apply(plan, progress=slowing, cancelled=lambda: len(seen) >= 4)
        assert result.stopped == Stop(code=StopCode.CANCELLED)
        assert result.error is None
        assert time.monotonic() - slow_since >= SLOW_S, "the fourth slice was on its way"
        assert result.applied == seen[-1] == moved(yard, verb), "the count is what was done"
        assert 0 < result.applied < COUNT
        proxy.heal()
        rest = writer.apply(plan)
        assert (rest.applied, rest.skipped_count, rest.error, rest.stopped) == (COUNT, 0, None, None)
        assert moved(yard, verb) == COUNT
        assert [entry.counts.get("applied") for entry in writer.activity() if entry.batch == plan.batch][-1] == COUNT
        back = writer.undo(plan.batch)
        assert (back.restored, back.skipped) == (COUNT, ())
        assert moved(yard, verb) == 0


@pytest.mark.slow
@pytest.mark.parametrize("lose", [Side.TO_SERVER, Side.TO_CLIENT])
def test_a_batch_whose_line_went_silent_reports_what_it_did(
    url: str, raw: redis.Redis, make_proxy: Callable[[str], FaultProxy], lose: Side
) -> None:
    """Requests or replies are lost after the third slice: it ends with an error and counts what it knows; the same plan
    applied again finds out what the lost ones did."""
    proxy, yard = make_proxy(url), Yard(url, raw)
    yard.bulk_dead(COUNT)
    slices = 0

    def cut(_: Tally) -> None:
        nonlocal slices
        slices += 1
        if slices == 3:
            proxy.blackhole(lose, lose=True)

    with Writer(proxy.url) as writer:
        writer._writing.patience = 0.5  # no need to wait for as long as an operator would
        writer._writing.endpoint.__dict__["timeout"] = 0.5
        plan = writer.plan("retry", yard.queue)
        result = writer.apply(plan, progress=cut)
        assert result.error is not None
        done = moved(yard, "retry")
        assert 0 < result.applied <= done <= result.applied + 200, "one slice at most is not known"
        proxy.heal()
        rest = writer.apply(plan)
        assert (rest.applied, rest.skipped_count, rest.error) == (COUNT, 0, None)
        assert moved(yard, "retry") == COUNT
