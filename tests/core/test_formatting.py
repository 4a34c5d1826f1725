"""Durations, sizes and times for people, as commands, screens and messages write them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from qdeck.admin import byte_size, duration, local_time

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def in_madrid(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "Europe/Madrid")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("in_madrid")
def test_a_moment_is_in_the_local_zone_and_names_it() -> None:
    assert local_time(1_763_474_706_000) == "2025-11-18 15:05:06 CET"
    assert local_time(1_752_847_506_000) == "2025-07-18 16:05:06 CEST"


def test_a_moment_that_no_calendar_has_is_a_dash() -> None:
    assert [local_time(None), local_time(10**30)] == ["-", "-"]


@pytest.mark.parametrize(
    ("zone", "text"),
    [
        ("Europe/Madrid", "2026-12-01 02:00:00 CET"),
        ("UTC", "2026-12-01 01:00:00 UTC"),
        ("Mars/Olympus", local_time(1_796_086_800_000)),
    ],
)
def test_a_time_has_the_zone_that_is_given(zone: str, text: str) -> None:
    assert local_time(1_796_086_800_000, zone) == text


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "0s"),
        (16_900, "16s"),
        (2_292_000, "38m 12s"),
        (10_800_000, "3h 00m"),
        (273_600_000, "3d 4h"),
        (8.64e9, "100d"),
    ],
)
def test_a_duration_has_two_units(ms: float, text: str) -> None:
    assert duration(ms) == text


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (1_234_567, "1.2 MB"), (99_950_000, "100 MB")]
)
def test_a_size_has_three_digits_at_most(number: int, text: str) -> None:
    assert byte_size(number) == text
