"""A worker in a thread of the test's process, with its events."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any, Self

from qdeck.runtime import Worker
from support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Mapping

    from qdeck import App


class Beside:
    """A worker that runs in a thread of the test. It is ready when the constructor returns."""

    def __init__(self, app: App, queues: Mapping[str, int] | None = None, **more: Any) -> None:
        self.events: list[dict[str, Any]] = []
        self.error: BaseException | None = None
        self.ended_with: str | None = None
        self.worker = Worker(app, queues, on_event=self.events.append, **{"grace": 1.0, **more})
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()
        wait_until(lambda: self.told("started") or not self.thread.is_alive(), why="the worker starts")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def _run(self) -> None:
        try:
            self.ended_with = asyncio.run(self._serve())
        except BaseException as error:  # noqa: BLE001 - a test looks at it
            self.error = error

    async def _serve(self) -> str:
        try:
            return await self.worker.serve()
        finally:
            await self.worker.app.aclose()

    def told(self, event: str) -> list[dict[str, Any]]:
        """Return the events of one kind so far."""
        return [told for told in list(self.events) if told["event"] == event]

    def end(self, timeout_s: float = 30.0) -> None:
        """Stop it and wait for its end."""
        self.worker.stop()
        self.thread.join(timeout_s)
        assert not self.thread.is_alive(), "the worker did not end"
