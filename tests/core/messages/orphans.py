"""Finds and removes a great many orphans: `python tests/core/messages/orphans.py --keys 1000000` prints what it took.

The server notes each call of more than 10 ms. A machine that is busy with something else makes some call slow now and
then, so a search is repeated, and what counts is the best of them: a call that is too big is slow each time.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import qdeck
from qdeck.messages import CleanReport, SyncDomainQueueManager
from support.servers import Server

if TYPE_CHECKING:
    import redis

SLOW_US = 10_000
ROUNDS = 8


def fill(raw: redis.Redis, keys: int) -> None:
    """Lists that are named like temporary queues."""
    for start in range(0, keys, 10_000):
        pipe = raw.pipeline(transaction=False)
        for number in range(start, min(keys, start + 10_000)):
            pipe.rpush(f"nooble4:dev:client_{number % 50}:responses:get:{number}", b'{"success": true}')
        pipe.execute()


def run(server: Server, keys: int) -> dict[str, Any]:
    """Looks for them, then removes them."""
    raw = server.client(timeout_s=60)
    manager = SyncDomainQueueManager(qdeck.App(server.url, queue="orphans:test:x:actions"))
    fill(raw, keys)
    time.sleep(2.1)
    steps: list[int] = []
    sizes: list[int] = []

    def progress(report: CleanReport) -> None:
        steps.append(report.scanned)
        sizes.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)

    raw.config_set("slowlog-log-slower-than", SLOW_US)
    slow: list[list[str]] = []
    found: CleanReport | None = None
    seconds = 0.0
    while len(slow) < ROUNDS and not (slow and not slow[-1]):
        raw.slowlog_reset()
        steps.clear()
        sizes.clear()
        began = time.monotonic()
        found = manager.clean_orphaned_queues(idle=1, dry_run=True, progress=progress)
        seconds = time.monotonic() - began
        slow.append([f"{row['duration']} us {row['command'][:60]!r}" for row in raw.slowlog_get(20)])
    assert found is not None
    raw.slowlog_reset()
    began = time.monotonic()
    gone = manager.clean_orphaned_queues(idle=1)
    removing = time.monotonic() - began
    manager.app.close()
    slow_removing = [f"{row['duration']} us {row['command'][:60]!r}" for row in raw.slowlog_get(20)]
    left = sum(1 for _ in raw.scan_iter("nooble4:*", count=10_000))
    raw.close()
    return {
        "keys": keys,
        "found": found.removed,
        "seconds": round(seconds, 1),
        "slices": len(steps),
        "progress": steps == sorted(steps) and steps[-1] >= keys,
        # From a tenth of the way on: before, modules and buffers are made.
        "memory_grew_kib": sizes[-1] - sizes[len(sizes) // 10],
        "slow_calls": min(slow, key=len),
        "removed": gone.removed,
        "removing_seconds": round(removing, 1),
        "slow_calls_of_removing": slow_removing,
        "left": left,
    }


def main() -> None:
    """Prints what it took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keys", type=int, default=1_000_000)
    given = parser.parse_args()
    with Server() as server:
        found = run(server, given.keys)
    sys.stdout.write(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
