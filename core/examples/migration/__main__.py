"""Moves a call from HTTP to a queue, step by step, on a server of its own: `python -m examples.migration`."""

from __future__ import annotations

import argparse
import asyncio
import sys
from typing import Any

import redis

from examples.ingestion.__main__ import remove_services, server
from examples.migration.embedding import QUEUE, EmbeddingService, Endpoint
from examples.migration.ingestion import IngestionService

PATIENCE_S = 30.0


def say(way: str, task: str, what: str) -> None:
    """One line."""
    sys.stdout.write(f"{way:6} [{task}] {what}\n")
    sys.stdout.flush()


def told(answer: dict[str, Any]) -> str:
    """An answer in words."""
    if "embeddings" in answer:
        return f"{len(answer['embeddings'])} vectors"
    error = answer["error"]
    return f"no vectors: {error['message'] if isinstance(error, dict) else error}"


async def both(ingestion: IngestionService, port: int, task: str, texts: list[str]) -> None:
    """The same batch both ways, and whether the outcome is the same."""
    await ingestion.over_queue(task, texts)
    old = await ingestion.over_http(port, texts)
    new = await asyncio.wait_for(ingestion.came[task], PATIENCE_S)
    say("http", task, told(old))
    say("queue", task, told(new))
    if old.get("embeddings") != new.get("embeddings"):
        sys.exit(f"{task}: the two ways differ")
    say("both", task, "the same")


async def migrate(url: str) -> None:
    """Steps 1 to 5 of the page, each with what can be seen of it."""
    embedding, ingestion = EmbeddingService(url), IngestionService(url)
    await embedding.start()
    await ingestion.start()
    try:
        say("step", "1-4", "EmbeddingService takes actions and calls back; IngestionService sends and listens")
        await both(ingestion, embedding.port, "task_001", ["a document begins", "and ends"])
        await both(ingestion, embedding.port, "task_002", [])
        say("step", "down", "EmbeddingService is deployed anew while batches are sent")
        await embedding.stop()
        await ingestion.over_queue("task_003", ["sent while nobody listens"])
        say("http", "task_003", told(await ingestion.over_http(embedding.port, ["sent while nobody listens"])))
        say("queue", "task_003", f"waits in {QUEUE}")
        await embedding.start()
        say("queue", "task_003", told(await asyncio.wait_for(ingestion.came["task_003"], PATIENCE_S)))
        say("step", "5", "the endpoint is closed")
        Endpoint.is_open = False
        await ingestion.over_queue("task_004", ["over the queue only"])
        say("http", "task_004", told(await ingestion.over_http(embedding.port, ["over the queue only"])))
        say("queue", "task_004", told(await asyncio.wait_for(ingestion.came["task_004"], PATIENCE_S)))
    finally:
        await ingestion.stop()
        await embedding.stop()


def main() -> None:
    """Runs the example."""
    parser = argparse.ArgumentParser(prog="python -m examples.migration", description=__doc__)
    parser.add_argument("--url", help="an empty server or database; without it, one is started")
    given = parser.parse_args()
    with server(given.url) as url, redis.Redis.from_url(url) as client:

        def count() -> int:
            return len(list(client.scan_iter(count=1000)))

        if count():
            sys.exit(f"{url} is not empty: the example removes all that it finds there at its end")
        asyncio.run(migrate(url))
        temporary = list(client.scan_iter("nooble4:*", count=1000))
        say("end", "keys", f"{len(temporary)} temporary queues left")
        remove_services(client)
        left = count()
        say("end", "keys", f"{left} keys left")
        sys.exit(1 if left or temporary else 0)


if __name__ == "__main__":
    main()
