"""IngestionService while it moves: its client of EmbeddingService has both ways, and its worker takes the callbacks."""

from __future__ import annotations

import asyncio
import json
import urllib.error
import urllib.request
from typing import Any

import qdeck
from examples.migration.embedding import COMPLETED, PATH
from qdeck.messages import DomainAction, Service

QUEUE = "nooble4:dev:ingestion_service:actions"


class IngestionService:
    """Asks for vectors. What comes back over the queue is handled by a worker, in whichever process that runs."""

    def __init__(self, url: str) -> None:
        self.service = Service(qdeck.App(url, queue=QUEUE))
        self.came: dict[str, asyncio.Future[dict[str, Any]]] = {}

        @self.service.on_callback("embedding", COMPLETED, ends_task=True)
        async def batch_completed(action: DomainAction) -> None:
            # A real service stores the vectors under the task here; the example hands them to who compares.
            waiting = self.came.get(str(action.correlation))
            if waiting is not None and not waiting.done():
                waiting.set_result(action.data)

    async def start(self) -> None:
        """Listens for callbacks."""
        self._work = asyncio.create_task(self.service.serve(grace=2.0))

    async def stop(self) -> None:
        """Ends."""
        self.service.stop()
        await self._work
        await self.service.aclose()

    async def over_http(self, port: int, texts: list[str]) -> dict[str, Any]:
        """Before: a POST, and the caller waits. The answer is the vectors, or why there are none."""
        return await asyncio.to_thread(_post, f"http://127.0.0.1:{port}{PATH}", {"texts": texts})

    async def over_queue(self, task: str, texts: list[str]) -> None:
        """After: an action, and the caller goes on. The name of the callback queue travels with it."""
        self.came[task] = asyncio.get_running_loop().create_future()
        action = self.service.new_action("embedding.generate_batch", {"texts": texts}, task_id=task)
        await self.service.arequest_callback(action, callback_action_type=COMPLETED, retries=2, retry_delay=0.1)


def _post(url: str, body: dict[str, Any]) -> dict[str, Any]:
    content = json.dumps(body).encode()
    request = urllib.request.Request(url, content, {"Content-Type": "application/json"})  # noqa: S310 - as below
    try:
        with urllib.request.urlopen(request, timeout=10) as reply:  # noqa: S310 - our own endpoint
            found: dict[str, Any] = json.load(reply)
    except urllib.error.HTTPError as error:
        with error:
            return {"status": error.code, **json.load(error)}
    except urllib.error.URLError as error:
        return {"status": None, "error": f"{error.reason}"}
    return found
