"""Request and response beside bare lists, in one run: `python tests/bench/messages.py --pairs 20000`.

Both have 20 clients (threads of one process, blocking) and one worker process. A bare pair is `RPUSH` and `BLPOP` on
each side: no registry, no lease, nothing that survives a crash. The two take turns, so that both meet the same machine.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import redis

import qdeck
from qdeck.messages import DomainAction, Messenger, Service
from qdeck_console.embedded_server import EmbeddedServer, dying_with_parent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

QUEUE = "bench:test:echo:actions"
CLIENTS = 20


def bare_worker() -> None:
    """Takes a request from a list and pushes the answer to the list that it names."""
    client = redis.Redis.from_url(os.environ["QDECK_URL"], socket_timeout=None)
    while True:
        found: Any = client.blpop(["bare:requests"], timeout=10)
        if found:
            asked = json.loads(found[1])
            client.rpush(
                asked["reply_to"], json.dumps({"correlation_id": asked["correlation_id"], "data": asked["data"]})
            )


def qdeck_worker() -> None:
    """The same with everything that qdeck promises."""
    service = Service(qdeck.App(queue=QUEUE))

    @service.on_action("echo.back")
    async def back(action: DomainAction) -> dict[str, Any]:
        return action.data

    service.run(concurrency=50)


def bare_client(url: str) -> Callable[[int], None]:
    """One bare client: a function that makes one pair."""
    client = redis.Redis.from_url(url)

    def pair(number: int) -> None:
        name = f"bare:responses:{number}"
        client.rpush("bare:requests", json.dumps({"correlation_id": number, "reply_to": name, "data": {"n": number}}))
        found: Any = client.blpop([name], timeout=30)
        assert json.loads(found[1])["data"] == {"n": number}

    return pair


def qdeck_client(url: str) -> Callable[[int], None]:
    """One client of ours."""
    messenger = Messenger(qdeck.App(url, queue="bench:test:client:actions"))

    def pair(number: int) -> None:
        assert messenger.request(messenger.new_action("echo.back", {"n": number}), timeout=30).data == {"n": number}

    return pair


@contextlib.contextmanager
def worker(kind: str, url: str) -> Iterator[None]:
    """A worker process."""
    command = dying_with_parent([sys.executable, str(Path(__file__).resolve()), "--worker", kind])
    process = subprocess.Popen(command, env={**os.environ, "QDECK_URL": url})
    try:
        yield
    finally:
        process.terminate()
        process.wait(30)


def measure(make: Callable[[str], Callable[[int], None]], url: str, pairs: int) -> dict[str, float]:
    """Pairs a second, and how long one takes."""
    numbers, took, lock = count(), [], threading.Lock()
    ready = threading.Barrier(CLIENTS + 1)

    def run() -> None:
        pair, own = make(url), []
        pair(-1 - threading.get_native_id())  # connects
        ready.wait()
        while (number := next(numbers)) < pairs:
            began = time.perf_counter()
            pair(number)
            own.append(time.perf_counter() - began)
        with lock:
            took.extend(own)

    make(url)(-1)
    threads = [threading.Thread(target=run) for _ in range(CLIENTS)]
    for thread in threads:
        thread.start()
    ready.wait()
    began = time.perf_counter()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - began
    took.sort()
    return {
        "pairs": len(took),
        "rate": round(len(took) / seconds),
        "p50_ms": round(took[len(took) // 2] * 1000, 2),
        "p99_ms": round(took[int(len(took) * 0.99)] * 1000, 2),
    }


KINDS: dict[str, tuple[Callable[[], None], Callable[[str], Callable[[int], None]]]] = {
    "bare": (bare_worker, bare_client),
    "qdeck": (qdeck_worker, qdeck_client),
}


def compare(pairs: int, rounds: int) -> dict[str, Any]:
    """Both, by turns; of each the median round."""
    found: dict[str, list[dict[str, float]]] = {kind: [] for kind in KINDS}
    with EmbeddedServer() as server:
        for _ in range(rounds):
            for kind, (_, client) in KINDS.items():
                with worker(kind, server.url):
                    found[kind].append(measure(client, server.url, pairs))
    best = {kind: sorted(rows, key=lambda row: row["rate"])[len(rows) // 2] for kind, rows in found.items()}
    return {**best, "share": round(best["qdeck"]["rate"] / best["bare"]["rate"], 2)}


def main() -> None:
    """Prints the comparison as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--worker", choices=list(KINDS))
    given = parser.parse_args()
    if given.worker:
        KINDS[given.worker][0]()
        return
    for name, value in compare(given.pairs, given.rounds).items():
        print(f"{name:6} {json.dumps(value)}")


if __name__ == "__main__":
    main()
