"""The tasks of the demo: quick ones, slow ones and some that fail, with the errors that such code really raises."""

from __future__ import annotations

import asyncio
import json
import os
import random
import socket
import time
from typing import Any, Final

import qdeck
from qdeck_console.demo import names

app = qdeck.App(os.environ.get("QDECK_URL", "redis://127.0.0.1:6379"), queue=names.MAIL)
PARTNER_IS_UP: Final = "QDECK_DEMO_PARTNER_IS_UP"
"""The variable with which the partner that is down by default accepts deliveries."""
_SLOW_PARTNER: Final = 0.12  # of the deliveries that take too long


@app.task(queue=names.MAIL, retries=2)
async def send_mail(to: str, template: str) -> None:
    """Send one message."""
    await asyncio.sleep(random.uniform(0.02, 0.2))  # noqa: S311 - a pace, no secret


@app.task(queue=names.DIGEST)
async def send_digest(segment: str) -> None:
    """Send the digest to one segment."""
    await asyncio.sleep(0.3)


@app.task(queue=names.THUMBNAILS, retries=1)
def make_thumbnail(path: str, width: int) -> int:
    """Shrink an image; return the bytes of the result."""
    time.sleep(random.uniform(0.02, 0.12))  # noqa: S311 - a pace, no secret
    return width * width // 7


@app.task(queue=names.SEARCH, retries=1)
async def reindex(shard: int, since: str) -> None:
    """Rebuild a part of the index, slower than new parts arrive."""
    await asyncio.sleep(random.uniform(1.2, 2.4))  # noqa: S311 - a pace, no secret


@app.task(queue=names.WEBHOOKS, retries=2, retry_delay=2, backoff="fixed", time_limit=2)
async def deliver_webhook(endpoint: str, event: str, body: str) -> None:
    """Deliver an event to a partner; one partner is down, some are slow, some events are broken."""
    fate = random.random()  # noqa: S311 - a share, no secret
    await asyncio.sleep(random.uniform(0.05, 0.3))  # noqa: S311 - a pace, no secret
    if "globex" in endpoint and not os.environ.get(PARTNER_IS_UP):
        refuse(endpoint)
    if fate < _SLOW_PARTNER:
        await asyncio.sleep(60)
    parse_event(body)


@app.task(queue=names.BILLING)
async def issue_invoice(number: int, cents: int) -> None:
    """Issue an invoice."""
    await asyncio.sleep(0.1)


@app.task(queue=names.REPORTS)
async def extract(month: str) -> int:
    """Extract: the first job of the monthly chain."""
    await asyncio.sleep(random.uniform(1.0, 3.0))  # noqa: S311 - a pace, no secret
    return 4_812


@app.task(queue=names.REPORTS)
async def transform(month: str) -> None:
    """Transform: the second job of the monthly chain."""
    await asyncio.sleep(random.uniform(1.0, 3.0))  # noqa: S311 - a pace, no secret


@app.task(queue=names.REPORTS)
async def publish(month: str) -> None:
    """Publish: the last job of the monthly chain."""
    await asyncio.sleep(random.uniform(0.5, 1.5))  # noqa: S311 - a pace, no secret


@app.task(queue=names.VIDEO, lease=4, retries=1)
async def transcode(path: str, codec: str) -> None:
    """Transcode a video, which takes long."""
    await asyncio.sleep(600)


@app.task(queue=names.IMPORTS, retries=3)
def import_feed(url: str) -> None:
    """Import a partner's feed. No worker of the demo serves its queue."""


@app.task(queue=names.AUDIT)
async def record(actor: str, action: str) -> None:
    """Record who did what."""
    await asyncio.sleep(0.01)


def refuse(endpoint: str) -> None:
    """Connect to a port where no server listens."""
    try:
        socket.create_connection(("127.0.0.1", 1), timeout=0.2).close()
    except OSError as error:
        raise ConnectionError(f"502 Bad Gateway for url https://{endpoint}") from error


def parse_event(body: str) -> dict[str, Any]:
    """Parse an event; a broken one raises the error that such code raises."""
    event = json.loads(body)
    charge = event["charge"]
    return {"cents": int(charge["amount"]), "customer": event["customer_id"]}
