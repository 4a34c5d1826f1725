"""A worker of the old or the new version of an app: `python -m chaos.rolling URL old|new`."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any, Final

import qdeck
from qdeck.runtime import Worker

QUEUE: Final = "shop:rolling:actions"


def make_app(url: str, version: str) -> qdeck.App:
    """The app; its new version has one task more."""
    app = qdeck.App(url, queue=QUEUE)

    @app.task
    async def steady(number: int) -> int:
        await asyncio.sleep(0.005)
        return number

    if version == "new":

        @app.task
        async def fresh(number: int) -> int:
            await asyncio.sleep(0.005)
            return number

    return app


def _write(event: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(event) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    Worker(make_app(*sys.argv[1:3]), concurrency=10, lease=0.6, on_event=_write).run()
