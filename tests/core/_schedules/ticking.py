"""A ticker as a process of its own, to be frozen: `python -m core._schedules.ticking URL`."""

from __future__ import annotations

import asyncio
import sys

from qdeck._redis import AsyncClient, Endpoint
from qdeck._schedules.ticker import Ticker


async def main(url: str) -> None:
    """Tick until the end."""
    print("ready", flush=True)  # noqa: T201 - the test waits for it
    await Ticker(AsyncClient(Endpoint(url)), on_event=lambda event: print(event, flush=True)).run()  # noqa: T201 - the same


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
