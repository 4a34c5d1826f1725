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


class Stage:
    """Processes that tell their hops through one pipe: so a hop is shown after those that it follows from."""

    def __init__(self, url: str) -> None:
        self.lines: Queue[str] = Queue()
        self._url = url
        self._processes: list[subprocess.Popen[bytes]] = []
        heard, self._told = os.pipe()
        self._reader = threading.Thread(target=self._read, args=(heard,), daemon=True)
        self._reader.start()

    def start(self, name: str) -> None:
        """Starts one part."""
        command = [sys.executable, "-m", "examples.ingestion.services", name]
        env = {**os.environ, "QDECK_URL": self._url}
        self._processes.append(subprocess.Popen(command, env=env, stdout=self._told))

    def end(self) -> None:
        """Asks all to finish, and waits until they have and all that they told is shown."""
        for process in self._processes:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        os.close(self._told)
        self._reader.join(5)

    def _read(self, heard: int) -> None:
        with open(heard, encoding="utf-8") as pipe:
            for line in pipe:
                sys.stdout.write(line)
                sys.stdout.flush()
                self.lines.put(line)


def wait_for(lines: Queue[str], seconds: float = 120.0, **hops: int) -> None:
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


def wait_until(what: Callable[[], object], seconds: float = 120.0) -> None:
    """Waits until something is so on the server."""
    until = time.monotonic() + seconds
    while not what():
        if time.monotonic() > until:
            sys.exit("the example stands still")
        time.sleep(0.02)


def flow(url: str, client: redis.Redis, keys: Callable[[], list[bytes]]) -> None:
    """The whole way, with the failure and its repair."""
    stage = Stage(url)
    lines = stage.lines
    try:
        for name in ("embedding", "ingestion", "cleaner", "client"):
            stage.start(name)
        wait_for(lines, ends_the_task=2, the_task_stays_open=1)
        # The service calls back first and buries the action then: a service that is killed in between calls back again.
        wait_until(lambda: client.zcard(f"{{{EMBEDDING}}}:dead_letter"))
        say("operator", f"finds it in {EMBEDDING}:dead_letter, installs the model and retries")
        qdeck("enqueue", EMBEDDING, "embedding.install_model", "--args", INSTALL, url=url)
        wait_for(lines, installs_model=1)
        qdeck("dead", "retry", EMBEDDING, "--yes", url=url)
        wait_for(lines, ends_the_task=1)
    finally:
        stage.end()
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
    from qdeck_console.embedded_server import EmbeddedServer

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
        flow(url, client, keys)
        remove_services(client)
        say("example", f"{len(keys())} keys left")
        sys.exit(1 if keys() else 0)


if __name__ == "__main__":
    main()
