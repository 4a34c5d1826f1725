"""A plan counted by rule, queue and effect, with every entry in reach without reading all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qdeck._operations.model import PlanHead, PlanTail
from qdeck._operations.planindex import SAMPLES
from qdeck.admin import PlanEntry, PlanIndex, PlanWriter

if TYPE_CHECKING:
    from pathlib import Path


def entry(number: int, queue: str, rule: str = "old") -> PlanEntry:
    return PlanEntry(
        queue=queue, id=f"{queue}-{number}", state="dead", version="1", verb="discard", rule=rule, bytes=10,
        age_s=float(number),
    )  # fmt: skip


def test_shares_are_counted_and_their_entries_found_by_number(tmp_path: Path) -> None:
    head = PlanHead(plan="p-1", format=2, verb="purge", created_ms=0, expires_ms=1, address="x")
    with PlanWriter(head, tmp_path / "plan.jsonl") as writer:
        writer.add([entry(number, "a") for number in range(1000)])
        for number in range(450):  # two shares in turns
            writer.add([entry(number, "b"), entry(number, "c", "many")])
        plan = writer.finish(PlanTail(count=0))
    index = PlanIndex.read(plan)
    assert [(share.rule, share.queue, share.count) for share in index.shares] == [
        ("old", "a", 1000), ("old", "b", 450), ("many", "c", 450),
    ]  # fmt: skip
    first = index.shares[0]
    assert (first.bytes, first.oldest_s, len(first.samples)) == (10_000, 999.0, SAMPLES)
    for share, at in ((index.shares[0], 0), (index.shares[0], 777), (index.shares[1], 333), (index.shares[2], 449)):
        assert [found.id for found in index.entries(share, at, 1)] == [f"{share.queue}-{at}"]
    assert len(index.entries(index.shares[2], 440, 100)) == 10
    assert index.entries(index.shares[2], 450, 5) == []
    assert len(index.shares[0].marks) == 5
