"""qdeck: a job queue on Redis or Valkey whose every transition is one atomic step on the server."""

from __future__ import annotations

from qdeck._errors import QdeckError

__version__ = "0.1.0"

__all__ = ["QdeckError", "__version__"]
