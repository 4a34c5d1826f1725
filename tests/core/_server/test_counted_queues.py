"""What a reader keeps of each of very many queues is small."""

from __future__ import annotations

from qdeck._server import counted_queues
from qdeck._server.history import Flow
from qdeck.admin import QueueRow
from support.kept_bytes import kept_bytes

QUEUES = 500
NOW = 10**12


def test_the_rates_of_a_queue_take_few_bytes() -> None:
    def make() -> list[counted_queues.CountedQueue]:
        row = QueueRow(name="demo:dev:mail:actions")
        found = [counted_queues.CountedQueue(b"", row, None) for _ in range(QUEUES)]
        for second in range(120):  # longer than each window
            for number, known in enumerate(found):
                known.flow = Flow(NOW + number + second, NOW + number, number + second)
                known.rates(NOW + 1000 * second)
        return found

    assert kept_bytes(make) // QUEUES < 1500, "about 30 moments of four numbers; as objects they take 6,000 bytes"


def test_the_totals_of_a_queue_keep_no_names() -> None:
    counts = range(1000, 1000 + len(counted_queues.TOTALS))
    numbers = list(counts)
    assert kept_bytes(lambda: [counted_queues.CountedTotals(numbers) for _ in range(QUEUES)]) // QUEUES < 260
    totals = counted_queues.CountedTotals(numbers)
    assert dict(totals) == dict(zip(counted_queues.TOTALS, counts, strict=True))
    assert totals.get("unknown") is None
