"""The benchmarks themselves: they run, and their table says what was measured."""

from __future__ import annotations

import pytest

from bench import limits
from bench.figures import Figure, Sample, Setting, all_figures
from bench.machine import Pins
from bench.main import Row, table

SETTING = Setting(pins=Pins(), seconds=0.02)


def figure(key: str) -> Figure:
    return next(f for f in all_figures(SETTING, server_is_valkey=True) if f.key == key)


@pytest.mark.parametrize("name", limits.LIMITS)
def test_every_limit_can_be_measured(name: str) -> None:
    with SETTING.server() as server:
        assert limits.measure(name, server, 0.02) > 0
        assert server.raw.dbsize() == 0


@pytest.mark.parametrize("key", ["one", "many"])
def test_an_enqueue_is_a_share_of_its_limit(key: str) -> None:
    sample = figure(key).measure(SETTING)
    assert sample.reached > 0
    assert sample.ratio is not None


def test_the_median_decides_and_the_spread_is_shown() -> None:
    samples = [Sample(reached=r, limit=(100.0, 100.0)) for r in (80.0, 95.0, 91.0)]
    row = Row(figure=figure("one"), samples=samples)
    assert row.value == 0.91
    assert row.ok
    assert "| enqueue one by one | 91.00/s | core_enq1 100/s | 0.91 (0.80–0.95) | ≥ 0.9 | yes |" in table([row])


def test_a_figure_without_a_limit_is_compared_itself() -> None:
    row = Row(figure=figure("idle"), samples=[Sample(reached=0.6)])
    assert not row.ok
    assert row.cells() == ["commands of an idle worker", "0.60/s", "–", "–", "≤ 0.5", "no"]


def test_what_could_not_be_measured_is_not_ok() -> None:
    row = Row(figure=figure("async"), samples=[], error="the worker ended")
    assert not row.ok
    assert "the worker ended" in row.cells()
