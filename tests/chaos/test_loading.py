"""The server is back but still reads its file: it answers everything with LOADING."""

from __future__ import annotations

import re
import threading
import time
from typing import TYPE_CHECKING

from chaos.fleet import Fleet
from chaos.jobs import make_app
from qdeck import ServerRefused, ServerUnreachable
from qdeck.admin import Writer
from support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    import redis

    from support.processes import PythonProcess
    from support.servers import Server

KEYS = 3_000
MICROSECONDS_A_KEY = "1000"


def test_loading(
    make_server: Callable[..., Server],
    url: str,
    raw: redis.Redis,
    make_process: Callable[..., PythonProcess],
) -> None:
    """A server that loads for seconds after a crash: who looks is told so, a worker waits, every job runs after it."""
    slowly = ("--key-load-delay", MICROSECONDS_A_KEY, "--loading-process-events-interval-bytes", "1024")
    server = make_server(*slowly, "--appendfsync", "always", appendonly=True)
    app = make_app(server.url)
    with server.client(timeout_s=60) as client:
        fleet = Fleet(app, server.url, client, raw, url, make_process)
        fleet.start()
        fleet.add("quick", 0.001, count=20)
        fleet.wait_notes(20)
        pipe = client.pipeline(transaction=False)
        for n in range(KEYS):
            pipe.set(f"other:{n}", b"x")
        pipe.execute()
        client.bgrewriteaof()  # the delay is per key of the snapshot
        wait_until(lambda: client.info("persistence")["aof_base_size"] > KEYS)
        later = fleet.add("aquick", 0.001, count=10, _delay=1.0)
        server.kill9()
        back = threading.Thread(target=server.relaunch)
        back.start()
        told = set()
        with Writer(server.url) as writer:
            while back.is_alive():
                with Writer(server.url) as fresh:  # one that has connected before waits for the server
                    try:
                        fresh.snapshot()
                    except (ServerRefused, ServerUnreachable) as error:
                        told.add(str(error))
                time.sleep(0.05)
            back.join()
            shown = [re.search(r"is loading its data: (\d+) % loaded, about \d+s left", text) for text in told]
            percents = {int(found[1]) for found in shown if found}
            assert percents, f"its progress is shown: {told}"
            for job_id in later:
                fleet.wait_done(job_id)
            assert writer.snapshot().totals.running == 0
        fleet.check_alive()
        fleet.books.check()
    app.close()
