"""The dear numbers of queues: what is read for them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from qdeck._server.queue_details import read_details
from qdeck._settings.thresholds import Thresholds
from qdeck.admin import Writer

if TYPE_CHECKING:
    import redis

QUEUE = "shop:dev:mail:actions"


def test_what_waits_runs_and_is_undelivered_is_read_in_the_same_round_trips(url: str, raw: redis.Redis) -> None:
    now = time.time_ns() // 1_000_000
    requests: list[int] = []
    with Writer(url, on_request=lambda commands, _: requests.append(commands)) as writer:
        writer.enqueue(QUEUE, "send")
        raw.zadd(f"{{{QUEUE}}}:running", {"held": now + 60_000, "lost": now - 60_000})
        raw.hincrby(f"{{{QUEUE}}}:meta", "running", 2)
        raw.xadd(f"{{{QUEUE}}}:outbox", {"e": "x"}, id=f"{now - 120_000}-0")
        rows = writer.snapshot().queues
        requests.clear()
        found = writer.run(read_details(rows, now, Thresholds(), {}))
    assert requests == [7, 3], "the second has what depends on the first: the job that runs, the oldest of the outbox"
    detail = found[QUEUE]
    assert (detail.stuck, detail.undelivered, detail.oldest_ms is not None) == (1, 1, True)
