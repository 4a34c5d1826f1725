"""Services on the shared server."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

import pytest

import qdeck
from qdeck.messages import Messenger, Service, SyncDomainQueueManager
from support.temporary import OWN

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator


@pytest.fixture
def make_service(url: str) -> Callable[..., Service]:
    """A service by name: `make_service("embedding")`."""

    def make(name: str, **more: Any) -> Service:
        return Service(qdeck.App(url, queue=f"nooble4:dev:{name}:actions"), **more)

    return make


@pytest.fixture
async def serve() -> AsyncIterator[Callable[..., Any]]:
    """Runs services beside the test, until it ends: `await serve(embedding, ingestion)`."""
    running: list[tuple[Service, asyncio.Task[str]]] = []

    async def start(*services: Service, **options: Any) -> None:
        for service in services:
            ready = asyncio.Event()

            def told(event: dict[str, Any], ready: asyncio.Event = ready) -> None:
                if event["event"] == "started":
                    ready.set()

            task = asyncio.create_task(service.serve(on_event=told, **{"grace": 1.0, **options}))
            running.append((service, task))
            await asyncio.wait_for(ready.wait(), 60)

    yield start
    for service, _ in running:
        service.stop()
    for service, task in running:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait_for(task, 60)
        await service.aclose()


@pytest.fixture
def client(url: str) -> Iterator[Messenger]:
    """What the ingestion service sends with."""
    made = Messenger(qdeck.App(url, queue=f"{OWN}:actions"))
    yield made
    made.close()


@pytest.fixture
def manager(client: Messenger) -> SyncDomainQueueManager:
    """Its queue manager."""
    return SyncDomainQueueManager(client)
