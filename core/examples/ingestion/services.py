"""The services of the example. Each part runs in a process of its own: `python -m examples.ingestion.services PART`."""

from __future__ import annotations

import os
import signal
import sys
import threading
from typing import Any

import qdeck
from qdeck.messages import DomainAction, Service, SyncDomainQueueManager

EMBEDDING = "nooble4:dev:embedding:actions"
INGESTION = "nooble4:dev:ingestion_service:actions"
COMPLETED = "embedding.batch_completed"
DOCUMENTS = {"task_001": "small", "task_002": "small", "task_003": "large"}
"""Tasks and the model each needs; the large one is not installed at first."""


def say(who: str, what: str, action: DomainAction | None = None) -> None:
    """One hop, on one line."""
    correlation = f"[{action.correlation}] " if action is not None else ""
    sys.stdout.write(f"{who:17} {correlation}{what}\n")
    sys.stdout.flush()


def embed(texts: list[str]) -> list[list[float]]:
    """What an embedding model would do."""
    return [[float(len(text)), float(sum(map(ord, text)) % 97)] for text in texts]


def embedding() -> None:
    """EmbeddingService: takes batches from its actions queue. It does not know who calls, nor where that listens."""
    service = Service(qdeck.App(queue=EMBEDDING))
    models = {"small"}

    @service.on_action("embedding.generate_batch")
    def generate_batch(action: DomainAction) -> dict[str, Any]:
        model = action.data["model"]
        say("EmbeddingService", f"takes {action.action_type} for model {model}", action)
        if model not in models:
            raise LookupError(f"model {model} is not installed")
        return {"embeddings": embed(action.data["texts"])}

    @service.on_action("embedding.install_model")
    def install_model(action: DomainAction) -> None:
        models.add(action.data["model"])
        say("EmbeddingService", f"installs model {action.data['model']}")

    service.run(concurrency=4)


def ingestion() -> None:
    """IngestionService: follows the callback queues of its tasks, and ends a task when its vectors came."""
    service = Service(qdeck.App(queue=INGESTION))

    @service.on_callback("embedding", COMPLETED)
    def batch_completed(action: DomainAction) -> None:
        if not action.data["success"]:
            say("IngestionService", f"is called back: {action.data['error']['message']}; the task stays open", action)
            return
        say("IngestionService", f"is called back with {len(action.data['embeddings'])} vectors", action)
        # Not `ends_task=True`, because here a failed task may still be retried.
        gone = service.end_task(str(action.task))
        say("IngestionService", f"ends the task, {len(gone)} temporary queue cleaned", action)

    service.run(concurrency=4)


def client() -> None:
    """The part of IngestionService that meets the user: sends a batch for each document and goes on."""
    service = Service(qdeck.App(queue=INGESTION))
    for task, model in DOCUMENTS.items():
        action = service.new_action(
            "embedding.generate_batch", {"texts": [f"{task} begins", "and ends"], "model": model}, task_id=task
        )
        # Told first: when this process goes on, the action may be done already.
        name = service.names.callbacks("embedding", task)
        say("ingestion client", f"sends {action.action_type}, callback to {name}", action)
        service.request_callback(action, callback_action_type=COMPLETED, retries=1, retry_delay=0.2)
    service.close()


def cleaner() -> None:
    """Removes what outlived its time or its owner; in production the agent does."""
    manager = SyncDomainQueueManager(qdeck.App(queue=INGESTION))
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    while not ended.wait(1.0):
        manager.clean_expired_queues()
        manager.clean_orphaned_queues()
    counts = ", ".join(f"{c.event} {c.count}" for c in manager.metrics() if c.type == "callbacks")
    say("cleaner", f"life of callback queues: {counts}")
    manager.app.close()


PARTS = {"embedding": embedding, "ingestion": ingestion, "client": client, "cleaner": cleaner}

if __name__ == "__main__":
    if not os.environ.get("QDECK_URL"):
        sys.exit("set QDECK_URL")
    PARTS[sys.argv[1]]()
