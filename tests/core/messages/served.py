"""A service that `qdeck worker core.messages.served:service` runs: it takes callbacks of tasks, and notifications."""

from __future__ import annotations

import os

import redis

import qdeck
from qdeck.messages import DomainAction, Service

service = Service(qdeck.App(queue="nooble4:dev:ingestion_service:actions"))


def _note(what: str, action: DomainAction) -> None:
    with redis.Redis.from_url(os.environ["QDECK_URL"]) as client:
        client.rpush("noted", f"{what} {action.correlation}")


@service.on_callback("embedding", "embedding.batch_completed", ends_task=True)
def batch_completed(action: DomainAction) -> None:
    """Notes what came."""
    _note("callback", action)


@service.on_notification("catalogue", "changed")
def changed(event: DomainAction) -> None:
    """Notes what came."""
    _note("event", event)


@service.on_action("ingestion_service.echo")
def echo(action: DomainAction) -> dict[str, object]:
    """Answers."""
    return action.data
