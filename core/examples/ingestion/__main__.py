"""Runs the example on a server of its own, or on the one that `--url` names: `python -m examples.ingestion`.

With `--http` the same batch first goes the old way, to see both side by side.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
import threading
import time
from queue import Empty, Queue
from typing import TYPE_CHECKING

import redis

from examples.ingestion import via_http
from examples.ingestion.services import EMBEDDING, say

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Part:
    """A process whose lines are shown as they come."""

    def __init__(self, name: str, url: str, lines: Queue[str]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "examples.ingestion.services", name],
            env={**os.environ, "QDECK_URL": url},
            stdout=subprocess.PIPE,
            text=True,
        )
        self._reader = threading.Thread(target=self._read, args=(lines,), daemon=True)
        self._reader.start()

    def _read(self, lines: Queue[str]) -> None:
        for line in self.process.stdout or ():
            sys.stdout.write(line)
            sys.stdout.flush()
            lines.put(line)

    def end(self) -> None:
        """Asks it to finish, and waits until it has."""
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._reader.join(5)


def wait_for(lines: Queue[str], seconds: float = 60.0, **hops: int) -> None:
    """Waits until hops were told so often; their words are joined by underscores."""
    until = time.monotonic() + seconds
    left = {words.replace("_", " "): count for words, count in hops.items()}
    while any(count > 0 for count in left.values()):
        try:
            line = lines.get(timeout=max(0.0, until - time.monotonic()))
        except Empty:
            sys.exit(f"the example stands still: nobody told {left}")
        for words in left:
            left[words] -= words in line


def flow(url: str, keys: Callable[[], list[bytes]]) -> None:
    """The whole way, with the failure and its repair."""
    lines: Queue[str] = Queue()
    parts = [Part(name, url, lines) for name in ("embedding", "ingestion", "cleaner")]
    try:
        parts.append(Part("client", url, lines))
        wait_for(lines, ends_the_task=2, the_task_stays_open=1)
        say("operator", f"finds it in {EMBEDDING}:dead_letter, installs the model and retries")
        qdeck("enqueue", EMBEDDING, "embedding.install_model", "--args", INSTALL, url=url)
        wait_for(lines, installs_model=1)
        qdeck("dead", "retry", EMBEDDING, "--yes", url=url)
        wait_for(lines, ends_the_task=1)
    finally:
        for part in parts:
            part.end()
    temporary = [key for key in keys() if b":callbacks:" in key and not key.startswith(b"{")]
    say("example", f"{len(temporary)} temporary queues left")


INSTALL = '[{"action_id": "install-1", "action_type": "embedding.install_model", "data": {"model": "large"}}]'


def qdeck(*words: str, url: str) -> None:
    """What an operator types."""
    # The words are ours; the console's own command runs them.
    done = subprocess.run(
        [sys.executable, "-m", "qdeck_console", *words, "--url", url], check=False, capture_output=True, text=True
    )
    if done.returncode:
        sys.exit(f"qdeck {' '.join(words)}: {done.stderr or done.stdout}")


def remove_services(client: redis.Redis) -> None:
    """Takes the services away as well: their permanent queues, and what is kept about their workers and queues."""
    for pattern in ("{nooble4:dev:*", "{qdeck:messages}:*", "qdeck:*"):
        for key in list(client.scan_iter(pattern, count=1000)):
            client.unlink(key)


@contextlib.contextmanager
def server(url: str | None) -> Iterator[str]:
    """The server that was named, or one of our own."""
    if url is not None:
        yield url
        return
    from qdeck_console.embedded import EmbeddedServer

    with EmbeddedServer() as own:
        yield own.url


def main() -> None:
    """Runs the example."""
    parser = argparse.ArgumentParser(prog="python -m examples.ingestion", description=__doc__)
    parser.add_argument("--url", help="an empty server or database; without it, one is started")
    parser.add_argument("--http", action="store_true", help="first send a batch the old way, over HTTP")
    given = parser.parse_args()
    with server(given.url) as url, redis.Redis.from_url(url) as client:

        def keys() -> list[bytes]:
            return list(client.scan_iter(count=1000))

        if keys():
            sys.exit(f"{url} is not empty: the example removes all that it finds there at its end")
        if given.http:
            via_http.run()
        flow(url, keys)
        remove_services(client)
        say("example", f"{len(keys())} keys left")
        sys.exit(1 if keys() else 0)


if __name__ == "__main__":
    main()
