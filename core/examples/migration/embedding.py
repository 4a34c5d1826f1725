"""EmbeddingService while it moves: one function, and two ways to reach it."""

from __future__ import annotations

import asyncio
import http.server
import json
import threading
from typing import Any

import qdeck
from qdeck.messages import DomainAction, Service

QUEUE = "nooble4:dev:embedding:actions"
COMPLETED = "embedding.batch_completed"
PATH = "/api/v1/embeddings/generate"


def embed(texts: list[str]) -> dict[str, Any]:
    """What both ways do: the work knows nothing of how it was asked for."""
    if not texts:
        raise ValueError("there are no texts")
    return {"embeddings": [[float(len(text)), float(sum(map(ord, text)) % 97)] for text in texts]}


class Endpoint(http.server.BaseHTTPRequestHandler):
    """The old way: the caller waits, and has the vectors if both live until then."""

    is_open = True

    def do_POST(self) -> None:
        """Answers with the vectors, or with what was wrong; 410 once the endpoint is closed."""
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        try:
            code, answer = (200, embed(asked["texts"])) if Endpoint.is_open else (410, {"error": f"send to {QUEUE}"})
        except ValueError as error:
            code, answer = 400, {"error": str(error)}
        body = json.dumps(answer).encode()
        self.send_response(code)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing; the callers tell what they got."""


class EmbeddingService:
    """Both ways, started and stopped together, as a deployment does."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.port = 0

    async def start(self) -> None:
        """Opens the endpoint, and takes actions from the queue."""
        self._http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Endpoint)
        self.port = self._http.server_port  # another after each start: nobody keeps the old one
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()
        # The new way. What the handler returns goes to the callback queue that the action names, and so does its error.
        self._service = Service(qdeck.App(self._url, queue=QUEUE))

        @self._service.on_action("embedding.generate_batch")
        async def generate_batch(action: DomainAction) -> dict[str, Any]:
            return embed(action.data["texts"])

        self._work = asyncio.create_task(self._service.serve(grace=2.0))

    async def stop(self) -> None:
        """Ends both: calls over HTTP are refused from now on, actions wait."""
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()
        self._service.stop()
        await self._work
        await self._service.aclose()
