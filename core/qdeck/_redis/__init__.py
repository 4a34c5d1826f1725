"""Connections: where the servers are, and two clients, blocking and asyncio, that run the same programs.

A library must never repeat writes silently. Each step is idempotent, so these clients send it again themselves after a
lost reply, for `patience` seconds; then they raise `OutcomeUnknown`.
"""

from typing import TYPE_CHECKING, Final

from qdeck._lazy_imports import attach

if TYPE_CHECKING:
    from qdeck._redis.address import mask_url
    from qdeck._redis.clients import PATIENCE, AsyncClient, SyncClient
    from qdeck._redis.endpoint import TIMEOUT, Endpoint

__all__ = ["PATIENCE", "TIMEOUT", "AsyncClient", "Endpoint", "SyncClient", "mask_url"]

# Imported at first use: a URL is shown, and a console drawn, before the client library is loaded.
_HOMES: Final = {
    "qdeck._redis.address": "mask_url",
    "qdeck._redis.clients": "PATIENCE AsyncClient SyncClient",
    "qdeck._redis.endpoint": "TIMEOUT Endpoint",
}

if not TYPE_CHECKING:
    __getattr__, __dir__ = attach(__name__, _HOMES)
