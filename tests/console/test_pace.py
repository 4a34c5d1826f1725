"""What costs rests for many times what it costs, and a moment of a frozen server is no cost."""

from __future__ import annotations

import pytest

from qdeck import NotAllowed, QdeckError, ServerUnreachable
from qdeck_console import pace as module
from qdeck_console.pace import Pace, Paces


class Clock:
    """A clock that moves when it is told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    return clock


def read(clock: Clock, pace: Pace, *seconds: float) -> float:
    """One reading, in parts that take so long; returns its rest."""
    for part in seconds:
        with pace.spending():
            clock.now += part
    return pace.rest()


def test_it_rests_ten_times_what_it_took_and_the_least_at_least(clock: Clock) -> None:
    pace = Pace(2.0)
    assert pace.due_at < clock.now
    assert [read(clock, pace, 0.1), read(clock, pace, 0.3), read(clock, pace, 0.5, 0.25)] == [
        2.0,
        pytest.approx(3.0),
        pytest.approx(7.5),
    ]
    clock.now += 7.4
    assert not pace.is_due
    clock.now += 0.2
    assert pace.is_due


def test_one_slow_reading_does_not_put_off_the_next_and_two_do(clock: Clock) -> None:
    pace = Pace(1.0, times=20, forgives=True)
    rests = [read(clock, pace, took) for took in (5.0, 0.01, 5.0, 3.0, 4.0)]
    assert rests == [1.0, 1.0, 1.0, pytest.approx(60.0), pytest.approx(60.0)]


def test_a_reading_that_fails_rests_too(clock: Clock) -> None:
    pace = Pace()

    def fail() -> None:
        with pace.reading():
            clock.now += 1.0
            raise ValueError("no number")

    with pytest.raises(ValueError, match="no number"):
        fail()
    assert pace.due_at == pytest.approx(clock.now + 10.0)


async def test_each_thing_has_a_pace_of_its_own(clock: Clock) -> None:
    paces = Paces()

    async def found() -> int:
        return 1

    assert [await paces.read(what, found, 1.0) for what in ("a", "b", "a")] == [1, 1, None]
    clock.now += 1.0
    assert await paces.read("a", found, 1.0) == 1


async def test_what_may_not_be_read_rests_longer_and_only_a_lost_server_is_an_error(clock: Clock) -> None:
    paces = Paces()
    for error, rest_s in ((NotAllowed("no"), 10.0), (QdeckError("no"), 1.0)):

        async def fail(error: QdeckError = error) -> int:
            raise error

        assert await paces.read(error, fail, 1.0) is None
        assert paces.of(error).due_at == clock.now + rest_s

    async def lost() -> int:
        raise ServerUnreachable("lost")

    with pytest.raises(ServerUnreachable):
        await paces.read("lost", lost, 1.0)
    assert paces.of("lost").is_due


def test_of_many_only_those_that_rest_are_kept(clock: Clock) -> None:
    paces = Paces()
    for number in range(500):
        paces.of(number).rest(1.0 if number % 2 else 0.0)
    clock.now += 0.5
    paces.of("more")
    assert len(paces._paces) <= 251
    assert not paces.of(499).is_due
