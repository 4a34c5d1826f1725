"""Runs a worker of the IFDB facade, with the signals that its systemd unit and its web processes send."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from typing import TYPE_CHECKING, Any

from qdeck._worker.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Callable

    from qdeck._app import App


def run_worker(app: App, *, concurrency: int, on_event: Callable[[dict[str, Any]], None]) -> None:
    """Run until SIGTERM or SIGINT; SIGUSR1 makes it poll at once, SIGHUP restarts the program."""
    worker = Worker(app, {app.queue: 1}, concurrency=concurrency, on_event=on_event)
    # Signals reach the main thread only; in another thread, the application handles them.
    main = threading.current_thread() is threading.main_thread()
    ended = asyncio.run(_serve(worker, signals=main))
    app.close()
    if ended == "reload" and main:
        sys.stdout.flush()
        # A new process, because changed modules cannot be reloaded reliably.
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606 - ourselves


async def _serve(worker: Worker, *, signals: bool) -> str:
    loop = asyncio.get_running_loop()
    if signals:
        loop.add_signal_handler(signal.SIGUSR1, worker.wake)
    try:
        return await worker.serve(signals=signals)
    finally:
        if signals:
            loop.remove_signal_handler(signal.SIGUSR1)
