"""The same batch the old way: a POST from service to service, which the caller has to wait for."""

from __future__ import annotations

import http.server
import json
import threading
import urllib.request

from examples.ingestion.services import embed, say


class Endpoint(http.server.BaseHTTPRequestHandler):
    """`POST /api/v1/embeddings/generate`, the endpoint that the queue replaces."""

    def do_POST(self) -> None:
        """Answers with the vectors; when the caller is gone by then, nobody has them."""
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        say("EmbeddingService", f"takes POST {self.path}")
        answer = json.dumps({"embeddings": embed(asked["texts"])}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing; the hops are told already."""


def run() -> None:
    """One batch, there and back."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Endpoint) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/api/v1/embeddings/generate"
        say("IngestionService", f"calls {url} and waits")
        body = json.dumps({"texts": ["over HTTP", "and back"]}).encode()
        request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=10) as reply:  # noqa: S310 - the same
            vectors = json.load(reply)["embeddings"]
        say("IngestionService", f"has {len(vectors)} vectors; now the same over queues")
        server.shutdown()
