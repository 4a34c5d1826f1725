"""Connections: where the servers are, and two clients, blocking and asyncio, that run the same programs.

A write is never left to a library's silent retries. Each step is idempotent, so these clients send it again themselves
after a lost answer, for `patience` seconds; what is still unanswered then is told as `OutcomeUnknown`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from qdeck._connection.address import mask_url
    from qdeck._connection.clients import PATIENCE, AsyncClient, SyncClient
    from qdeck._connection.endpoint import TIMEOUT, Endpoint

__all__ = ["PATIENCE", "TIMEOUT", "AsyncClient", "Endpoint", "SyncClient", "mask_url"]

# Imported when first asked for: a URL is shown, and a console drawn, before the client library is there.
_HOMES: Final = {"mask_url": "address", "TIMEOUT": "endpoint", "Endpoint": "endpoint"}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = import_module(f"{__name__}.{_HOMES.get(name, 'clients')}")
    value = globals()[name] = getattr(home, name)
    return value
