"""What queues have besides: each adapter says it for its own, and whoever shows them asks for nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from qdeck.adapters import Feature, QueueRow, ifdb, make
from qdeck.admin import NATIVE, JobRecord, has_feature

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def with_pause(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(ifdb.ADAPTER, "features", frozenset({Feature.PAUSE}))
    yield
    monkeypatch.undo()
    make("ifdb")


def test_native_queues_have_all_and_others_what_their_adapter_says() -> None:
    make("ifdb")
    assert all(has_feature(NATIVE, feature) for feature in Feature)
    assert not any(has_feature("ifdb", feature) for feature in Feature)
    assert not any(has_feature("never made", feature) for feature in Feature)


@pytest.mark.usefixtures("with_pause")
def test_rows_and_jobs_of_an_adapter_have_its_features() -> None:
    make("ifdb")
    row = QueueRow(adapter="ifdb", name="ifdb")
    job = JobRecord(id="a", key="a", adapter="ifdb", queue="ifdb", state="ready", native_state="pending")
    for one in (row, job):
        assert one.has(Feature.PAUSE)
        assert not one.has(Feature.ORDER)
